//! The interposer for Linux with glibc on x86-64. For other targets the library is empty, and holdup is built without
//! it (see its build.rs).

#[cfg(all(target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
mod linux;
