//! The lock laboratory: workloads, locks and factors, measured in worker processes.
//!
//! You give a [`spec::Spec`] (one cell: every factor with one value), it gives a [`sample::Sample`], or the reason
//! why there is none. [`worker`] is to run in a process of its own; it neither starts processes, nor repeats, nor
//! compares: that is the `holdup` program's part.
#![allow(
    unsafe_code,
    reason = "resource use, affinity and shared test data need system calls and raw cells; every block argues its \
        contract"
)]

mod arch;
pub mod demo;
mod lock;
pub mod machine;
pub mod sample;
pub mod spec;
pub mod suggest;
mod sys;
pub mod worker;
mod workload;

pub use lock::catalog as locks;
pub use spec::check::{check, check_machine, check_sense};
pub use spec::work;
pub use worker::measure;
