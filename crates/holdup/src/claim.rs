//! A published claim, held against what was measured.

use crate::stats::Estimate;

/// One claim with its verdicts; reports make sentences and tables of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimResult {
    /// Identifier such as `H1` or `I5`.
    pub id: String,
    /// Name of the experiment that declares it.
    pub experiment: String,
    /// What was claimed, in one line.
    pub claim: String,
    /// The published figure, as text; empty where only a shape was published.
    pub published: String,
    /// What it was published on, and what of that is kept here.
    pub setting: Setting,
    /// Under the conditions of its day, as far as this machine has them.
    pub then: Reading,
    /// With today's locks; `None` where the claim is about no lock that has changed since.
    pub now: Option<Reading>,
}

/// What a claim was published on, and how near to that its test is. Each may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Setting {
    /// Machine, system and amount of work of the source.
    pub on: String,
    /// What is the same here.
    pub same: String,
    /// What is not.
    pub not_same: String,
}

/// What one series of measurements says of a claim.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// What was measured here, as text.
    pub measured: String,
    /// The figure that decided, if one number did.
    pub figure: Option<Estimate>,
    /// The verdict.
    pub verdict: Verdict,
    /// The interval reaches across the threshold: another run may decide otherwise.
    pub close: bool,
    /// One sentence why.
    pub why: String,
}

impl ClaimResult {
    /// Its readings: then, and now if there is one.
    pub fn readings(&self) -> impl Iterator<Item = &Reading> {
        std::iter::once(&self.then).chain(&self.now)
    }
}

/// Whether a claim holds on this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The shape is there.
    Holds,
    /// It is not; a finding, not a failure.
    Differs,
    /// This machine, kernel or user cannot show it.
    NotMeasurable,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Verdict::Holds => "holds",
            Verdict::Differs => "differs",
            Verdict::NotMeasurable => "not measurable here",
        })
    }
}
