//! Linux: processes, by system calls.

mod child;
mod forward;
mod launch;
mod schedule;

pub use forward::{forward, time};
pub use launch::Started;
pub use schedule::{allowed_cpus, take};
