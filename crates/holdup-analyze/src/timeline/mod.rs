//! Threads over time: a state machine that takes events and keeps who ran, who waited for what, and who woke whom.

mod behaviour;
mod blocked;
mod calls;
mod chains;
mod codes;
mod counted;
mod cpus;
mod doing;
mod drawing;
mod engine;
mod golang;
mod goroutine_waits;
mod goroutines;
mod holding;
mod ids;
mod in_turn;
mod inferred;
mod interpreted;
mod lines;
mod lock;
mod lock_samples;
mod log;
mod looks;
mod lookup;
mod meaning;
mod naming;
mod objects;
mod pairs;
mod places;
mod problems;
mod row;
mod safepoints;
mod sums;
mod switching;
mod tally;
#[cfg(test)]
mod tests;
mod thread;
mod touch;
mod waiting;
mod waking;
mod yielding;

pub(crate) use engine::Engine;
pub(crate) use naming::Naming;
pub use row::{Interval, Row, SampleAt, State, StretchKind, Timeline, Wake};
pub(crate) use sums::sum_up;
