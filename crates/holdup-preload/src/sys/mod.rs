//! The interposer for Linux with glibc on x86-64; an empty library elsewhere.

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod linux;
