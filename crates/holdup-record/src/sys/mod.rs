//! The system: what only Linux has.

#[cfg(target_os = "linux")]
mod linux;
