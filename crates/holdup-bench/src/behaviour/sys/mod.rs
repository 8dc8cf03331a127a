//! The programs exist where there is a dynamically linked GNU C library.

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub use linux::{BEHAVIOURS, has_loaded};

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod fallback;
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub use fallback::{BEHAVIOURS, has_loaded};
