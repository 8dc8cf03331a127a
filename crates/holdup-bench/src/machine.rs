//! The machine a run happens on: its description, and what else it was doing meanwhile.

use std::time::Instant;

use crate::sys;

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

/// A stretch of time in which some CPUs are watched.
#[derive(Debug)]
pub struct Window {
    cpus: Vec<u32>,
    start: Instant,
    times: Option<sys::CpuTimes>,
}

impl Window {
    /// Begins to watch these CPUs.
    pub fn open(cpus: &[u32]) -> Window {
        Window { cpus: cpus.to_vec(), times: sys::cpu_times(cpus), start: Instant::now() }
    }

    /// What others did meanwhile, when our worker and its children used `own_ns` of CPU time.
    pub fn close(self, own_ns: u64) -> Contamination {
        let elapsed_ns = self.start.elapsed().as_nanos() as f64;
        match (self.times, sys::cpu_times(&self.cpus)) {
            (Some(before), Some(after)) => {
                contamination(before, after, elapsed_ns * self.cpus.len() as f64, own_ns as f64)
            }
            _ => Contamination::default(),
        }
    }
}

/// Whatever was neither idle, nor stolen, nor ours, others used.
///
/// Idle time is precise but told in ticks of 10 ms per CPU; a figure below that is no evidence of anybody, so the
/// resolution is taken off.
fn contamination(before: sys::CpuTimes, after: sys::CpuTimes, capacity_ns: f64, own_ns: f64) -> Contamination {
    let idle_ns = after.idle_ns.saturating_sub(before.idle_ns) as f64;
    let steal_ns = after.steal_ns.saturating_sub(before.steal_ns) as f64;
    let others_ns = capacity_ns - idle_ns - steal_ns - own_ns - after.resolution_ns as f64;
    Contamination {
        background_share: (others_ns / capacity_ns).clamp(0.0, 1.0),
        steal_share: (steal_ns / capacity_ns).clamp(0.0, 1.0),
    }
}
