//! A published claim, held against what was measured.

use crate::stats::Estimate;

/// One claim with its verdict; reports make sentences and tables of it.
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
