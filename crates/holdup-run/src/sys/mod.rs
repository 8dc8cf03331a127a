//! What only the operating system can do: one folder per system, one file for all others.
#![allow(unsafe_code, reason = "processes need system calls; every block argues its contract")]

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
pub use linux::*;

#[cfg(windows)]
mod windows;
#[cfg(windows)]
pub use windows::*;

#[cfg(not(any(target_os = "linux", windows)))]
mod fallback;
#[cfg(not(any(target_os = "linux", windows)))]
pub use fallback::*;

#[cfg(any(target_os = "linux", windows))]
mod kept;

/// Whether a start refused with this error may succeed soon.
pub fn may_pass(why: &std::io::Error) -> bool {
    use std::io::ErrorKind;
    matches!(why.kind(), ErrorKind::OutOfMemory | ErrorKind::WouldBlock) || lacks_for_now(why)
}

/// The kinds of the standard library are all there is.
#[cfg(not(windows))]
fn lacks_for_now(_: &std::io::Error) -> bool {
    false
}
