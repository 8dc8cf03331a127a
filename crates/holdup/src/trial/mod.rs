//! Trials: a program as it is against the same program under remedies, until it is decided which one helps.
//!
//! [`remedy`] says what can be tried, [`run`] makes one run, [`plan`] decides which run comes next and when it is over, [`search`]
//! puts them together. Statistics are pure: tests drive them with programs that are made up.

pub mod coverage;
pub mod figure;
pub mod flip;
pub mod keep;
pub mod plan;
pub mod program;
pub mod ratio;
pub mod remedy;
pub mod run;
pub mod search;
pub mod server;
mod turns;
mod waits;
