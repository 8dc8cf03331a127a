//! What only the operating system can do: one file per system, one for all others.

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

mod absent;

/// The environment variable in which the parent tells a worker its process number.
pub const PARENT: &str = "HOLDUP_WORKER_PARENT";

/// Resources that one thread used; `None` is what the system does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Usage {
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub kernel_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches.
    pub involuntary_switches: Option<u64>,
    /// Page faults without I/O.
    pub minor_faults: Option<u64>,
    /// Page faults with I/O.
    pub major_faults: Option<u64>,
}

impl Usage {
    /// Switches of both kinds.
    pub fn switches(&self) -> Option<u64> {
        Some(self.voluntary_switches? + self.involuntary_switches?)
    }
}

/// What some CPUs did since boot, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuTimes {
    /// Idle, waiting for I/O included.
    pub idle_ns: u64,
    /// Taken by the hypervisor.
    pub steal_ns: u64,
    /// How coarse the two figures are.
    pub resolution_ns: u64,
}
