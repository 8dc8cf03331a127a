//! Linux: perf_event_open and /proc.
#![allow(
    unsafe_code,
    reason = "the kernel's interface: perf_event_open, its rings, and what the standard library lacks"
)]

pub mod ids;
mod probe;
pub mod snapshot;
