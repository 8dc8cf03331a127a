//! What the reports of an interposed run start from.

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
