//! Under what conditions a program runs.

/// Those that differ from what whoever starts the program has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// On these CPUs only.
    pub cpus: Option<Vec<u32>>,
    /// With this time slice, in nanoseconds (Linux 6.12 and later).
    pub slice_ns: Option<u64>,
    /// With the scheduler's batch policy.
    pub batch: bool,
    /// With a futex table of its own choice, which it has to make itself: here it is only seen whether it can.
    pub futex_hash: bool,
}
