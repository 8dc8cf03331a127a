//! The system: what only Linux has.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::{code_map, of_cgroup, probe, record, record_live, signals, with_children};

#[cfg(not(target_os = "linux"))]
mod other;
#[cfg(not(target_os = "linux"))]
pub use other::{code_map, of_cgroup, probe, record, record_live, signals, with_children};
