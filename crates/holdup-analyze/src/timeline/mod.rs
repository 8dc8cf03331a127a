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
mod row;
mod sums;
mod tally;
#[cfg(test)]
mod tests;
mod thread;

pub(crate) use engine::Engine;
pub(crate) use naming::Naming;
pub use row::{Interval, Row, SampleAt, State, StretchKind, Timeline, Wake};
pub(crate) use sums::sum_up;
