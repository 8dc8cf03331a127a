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
