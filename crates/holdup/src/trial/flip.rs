//! Policies that take turns within one process: all of them keep the same lock word, so that they can be exchanged at any time.
//!
//! Time is cut into windows; each window has one policy, and the first part of it, in which threads still wait as the one before
//! had it, does not count. Four windows in the order A B B A make a pair: what drifts evenly hits both. Progress is the number of
//! acquisitions of all locks that are served. What is compared is therefore acquisitions, not finished work, and windows
//! influence each other a little; so this only chooses whom to run against the program as it is.

use serde::Serialize;

use super::ratio::Ratio;

/// The windows of one policy against the C library's.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Flips {
    /// For each policy, and at the end for the C library's against itself: the logarithm of each pair's ratio.
    pub logs: Vec<Vec<f64>>,
    /// How long a window was.
    pub window_ms: u64,
}

impl Flips {
    /// The ratio of a policy's progress to that of the C library's.
    pub fn ratio(&self, policy: usize) -> Option<Ratio> {
        Ratio::of(self.logs.get(policy)?, 0.05)
    }

    /// The C library's against itself.
    pub fn noise(&self) -> Option<Ratio> {
        Ratio::of(self.logs.last()?, 0.05)
    }

    /// Whether there were enough pairs to choose by.
    pub fn is_decisive(&self) -> bool {
        const ENOUGH: usize = 5;
        !self.logs.is_empty() && self.logs.iter().all(|logs| logs.len() >= ENOUGH)
    }
}
