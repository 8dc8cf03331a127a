//! The lock laboratory: workloads, locks and factors, measured in worker processes.
//!
//! You give a [`spec::Spec`] (one cell: every factor with one value), it gives a [`process::Run`]: a [`sample::Sample`]
//! measured in a fresh process, or the reason why there is none. It neither repeats, nor compares, nor prints: that is
//! the `holdup` program's part.
#![allow(
    unsafe_code,
    reason = "resource use, affinity and shared test data need system calls and raw cells; every block argues its contract"
)]

pub mod locks;
pub mod machine;
pub mod process;
pub mod sample;
pub mod spec;
pub mod work;
