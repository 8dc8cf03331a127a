//! Trials: a program as it is against the same program under remedies, until it is decided which one helps.
//!
//! [`remedy`] says what can be tried, [`run`] what a run is and how it ends (`real` makes one), [`plan`] decides which
//! run comes next and when it is over, [`search`] puts them together. Statistics are pure: tests drive them with
//! programs that are made up.

pub mod allocator;
pub mod coverage;
pub mod figure;
pub mod flip;
pub mod found;
pub mod gate;
pub mod keep;
pub mod modes;
pub mod plan;
pub mod program;
pub mod ratio;
mod real;
pub mod remedy;
pub mod run;
pub mod runtime;
pub mod search;
pub mod server;
pub mod tunable;
mod turns;
mod waits;
