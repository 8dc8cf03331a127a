//! Windows: processes in jobs, by Win32.

mod exit;
mod job;
mod launch;
mod schedule;

pub use exit::{forward, time};
pub use launch::{Started, lacks_for_now};
pub use schedule::{allowed_cpus, take};

/// Windows has no limit of file size.
pub fn outlive_file_limit() {}

/// What stacks may grow to is not known here.
pub fn has_less_stack(_: u64) -> bool {
    false
}

/// No such limit is known here.
pub fn no_more_processes(_: &std::io::Error) -> Option<String> {
    None
}
