//! Threads over time: a state machine that takes events and keeps who ran, who waited for what, and who woke whom.

mod behaviour;
mod calls;
mod chains;
mod cpus;
mod doing;
mod engine;
mod golang;
mod holding;
mod lock;
mod log;
mod naming;
mod pairs;
mod problems;
mod sums;
mod tally;
#[cfg(test)]
mod tests;
mod thread;

use std::sync::Arc;

use holdup_trace::Tid;

pub(crate) use engine::Engine;
pub(crate) use naming::Naming;
pub(crate) use sums::sum_up;

use crate::facts::Reason;
use crate::names::Frame;

/// What the viewer draws: kept only when [`Options::timeline`](crate::Options::timeline) asks for it.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Per thread (same order as [`Facts::threads`](crate::Facts::threads)), without gaps and in order of time.
    pub threads: Vec<Vec<Interval>>,
    /// Every wake-up between threads that is known, in order of time.
    pub wakes: Vec<Wake>,
    /// Every CPU sample, in order of time.
    pub samples: Vec<SampleAt>,
    /// The call paths that samples name, each once, innermost frame first.
    pub call_paths: Vec<Arc<[Frame]>>,
}

/// One CPU sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleAt {
    /// When.
    pub time_ns: u64,
    /// Index in [`Facts::threads`](crate::Facts::threads).
    pub thread: u32,
    /// Index in [`Timeline::call_paths`].
    pub call_path: u32,
}

/// A stretch of a thread's life in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// From.
    pub from_ns: u64,
    /// To.
    pub to_ns: u64,
    /// What it did.
    pub state: State,
}

/// What a thread did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It ran on this CPU.
    Running {
        /// Which.
        cpu: u16,
    },
    /// It was off CPU.
    Off {
        /// Why.
        reason: Reason,
        /// Waiting for this lock: index in [`Facts::locks`](crate::Facts::locks).
        lock: Option<u32>,
    },
    /// It could run but did not yet.
    Runnable,
    /// Events were lost: not known.
    Unknown,
}

/// One thread made another runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When.
    pub time_ns: u64,
    /// Who.
    pub from: Tid,
    /// Whom.
    pub to: Tid,
}
