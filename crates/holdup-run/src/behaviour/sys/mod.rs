//! The programs exist where there is a dynamically linked GNU C library.
#![allow(unsafe_code, reason = "the C library's locks are behind unsafe calls; every block argues its contract")]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use linux::{BEHAVIOURS, has_loaded};

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod fallback;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub use fallback::{BEHAVIOURS, has_loaded};
