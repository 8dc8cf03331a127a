//! Linux: processes, by system calls.

mod child;
mod forward;
mod launch;
mod limits;
mod schedule;

pub use forward::{forward, time};
pub use launch::Started;
pub use limits::{has_less_stack, no_more_processes, outlive_file_limit};
pub use schedule::{allowed_cpus, take};
