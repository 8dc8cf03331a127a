//! Facts about the machine, as Linux tells them; an error says why one cannot be had.

use std::fs;

use super::counters;

/// One line of a file.
fn read(path: &str) -> Result<String, String> {
    fs::read_to_string(path).map(|text| text.trim().to_owned()).map_err(|error| format!("{path}: {error}"))
}

/// The processor's name.
pub fn cpu() -> Result<String, String> {
    let info = read("/proc/cpuinfo")?;
    let named =
        |line: &str| line.strip_prefix("model name").and_then(|rest| Some(rest.split_once(':')?.1.trim().to_owned()));
    info.lines().find_map(named).ok_or_else(|| "/proc/cpuinfo names no model".to_owned())
}

/// The CPUs that are online, as a list of ranges.
pub fn cpus_online() -> Result<String, String> {
    read("/sys/devices/system/cpu/online")
}

/// The kernel's release.
pub fn kernel() -> Result<String, String> {
    read("/proc/sys/kernel/osrelease").map(|release| format!("Linux {release}"))
}

/// What runs programs here in the place of the system they were built for, if anything does.
pub fn translated_by() -> Option<String> {
    None
}

/// Who decides about the clock frequency.
pub fn governor() -> Result<String, String> {
    read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
}

/// Load averages of 1, 5 and 15 minutes.
pub fn load() -> Result<String, String> {
    let text = read("/proc/loadavg")?;
    Ok(text.split(' ').take(3).collect::<Vec<_>>().join(" "))
}

/// Where the system's clock comes from.
pub fn clock_source() -> Result<String, String> {
    read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
}

/// The C library and its version.
pub fn c_library() -> Result<String, String> {
    #[cfg(target_env = "gnu")]
    {
        // SAFETY: returns a pointer to a constant string.
        let version = unsafe { std::ffi::CStr::from_ptr(libc::gnu_get_libc_version()) };
        Ok(format!("glibc {}", version.to_string_lossy()))
    }
    #[cfg(not(target_env = "gnu"))]
    Err("it does not tell its version".to_owned())
}

/// Whether hardware counters can be had.
pub fn hardware_counters() -> Result<String, String> {
    let opened = counters::Group::open(&[0], 1);
    opened.map(|_| "yes".to_owned()).map_err(|error| format!("perf_event_open: {error}"))
}

/// The scheduler's time slice of this thread.
pub fn slice_ns() -> Result<u64, String> {
    match super::slice_ns_now() {
        Some(0) | None => Err("this kernel does not tell; it came with Linux 6.12".to_owned()),
        Some(ns) => Ok(ns),
    }
}

/// The kernel's response to a locked access across two cache lines, which it may slow down or forbid.
pub fn split_locks() -> Result<String, String> {
    let mitigated = read("/proc/sys/kernel/split_lock_mitigate")?;
    Ok(if mitigated == "0" { "not slowed down" } else { "slowed down by the kernel where the processor reports them" }
        .to_owned())
}

/// Whether the clock can be read by a system call of its own.
pub const CLOCK_CALL: bool = true;

/// Reads the clock by a real system call, without the kernel's shortcut in user space.
pub fn clock_by_system_call() {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec into the one given.
    unsafe { libc::syscall(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
}
