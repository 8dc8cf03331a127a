//! The lock laboratory: workloads, locks and factors, measured in worker processes.
//!
//! You give a [`spec::Spec`] (one cell: every factor with one value), it gives a [`process::Run`]: a [`sample::Sample`]
//! measured in a fresh process, or the reason why there is none. It neither repeats, nor compares, nor prints: that is
//! the `holdup` program's part.
#![allow(
    unsafe_code,
    reason = "resource use, affinity and shared test data need system calls and raw cells; every block argues its contract"
)]

mod arch;
pub mod behaviour;
#[cfg(feature = "broken-locks")]
mod broken;
mod burn;
mod check;
pub mod command;
pub mod demo;
mod drive;
mod gate;
pub mod launch;
mod lock;
pub mod locks;
pub mod machine;
mod measure;
mod place;
pub mod process;
mod random;
pub mod sample;
pub mod spec;
mod sys;
mod timing;
pub mod work;
pub mod worker;
mod workload;

pub use check::{check, check_machine, check_sense};
pub use measure::measure;
