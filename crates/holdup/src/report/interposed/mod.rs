//! What a run under other locks was: which part of its locks holdup served, and the profile of each.

mod coverage;
mod json;
mod lock;
mod profile;

pub use coverage::{Coverage, coverage};
pub use json::json;
pub use profile::profile;

use holdup_control::Policy;
use holdup_run::Finished;

use crate::interposer::{Figures, Settings};

/// A run that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// How threads waited for locks without a rule.
    pub policy: Policy,
    /// What else was asked for.
    pub settings: &'a Settings,
    /// What each of its processes did.
    pub figures: &'a [Figures],
    /// Processes beyond those: served, but too many to count.
    pub uncounted: u32,
    /// What the kernel says of the program and the children that it waited for.
    pub finished: &'a Finished,
}
