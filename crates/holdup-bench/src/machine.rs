//! The machine a run happens on: its description, and what else it was doing meanwhile.

/// Names and values that describe the machine, in the order in which reports show them: `cpu`, `cpus_online`, `cpus_allowed`,
/// `kernel`, `governor`, `virtualised`, `load_before`, `clock_source`, `clock_ns`, `libc`, `counters`, `slice` ...
/// A fact that cannot be had has the value `n/a` with the reason.
pub fn describe() -> Vec<(&'static str, String)> {
    Vec::new()
}

/// What the machine did besides our worker while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Contamination {
    /// Share of the CPU capacity in the window that other processes used.
    pub background_share: f64,
    /// Share that the hypervisor took away.
    pub steal_share: f64,
}
