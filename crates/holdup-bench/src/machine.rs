//! The machine a run happens on: its description, and what else it was doing meanwhile.

use std::time::Instant;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arch;
use crate::spec::work::format_ns;
use crate::sys;

/// Names and values that describe the machine, in the order in which reports show them: `cpu`, `cpus_online`,
/// `cpus_allowed`, `kernel`, `governor`, `virtualised`, `load_before`, `clock_source`, `clock_ns`, `libc`, `counters`,
/// `slice` ... A fact that cannot be had has the value `n/a` with the reason.
pub fn describe() -> Vec<(&'static str, String)> {
    let or_why = |fact: Result<String, String>| fact.unwrap_or_else(|why| format!("n/a ({why})"));
    let ns = |cost: Option<f64>| cost.map_or_else(|| "n/a (not on this system)".to_owned(), |ns| format!("{ns:.1}"));
    let yes = |yes: bool| if yes { "yes" } else { "no" }.to_owned();
    let allowed = sys::allowed_cpus().iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let clocks = clock_costs();
    vec![
        ("cpu", or_why(sys::facts::cpu())),
        ("cpus_online", or_why(sys::facts::cpus_online())),
        ("cpus_allowed", allowed),
        ("kernel", or_why(sys::facts::kernel())),
        ("translated_by", translated_by().unwrap_or_else(|| "nothing".to_owned())),
        ("governor", or_why(sys::facts::governor())),
        ("virtualised", or_why(arch::is_virtual().map(yes).ok_or_else(|| "the processor does not say".to_owned()))),
        ("load_before", or_why(sys::facts::load())),
        ("clock_source", or_why(sys::facts::clock_source())),
        ("clock_ns", ns(Some(clocks.clock_ns))),
        ("clock_system_call_ns", ns(clocks.system_call_ns)),
        ("time_stamp_ns", ns(clocks.time_stamp_ns)),
        ("libc", or_why(sys::facts::c_library())),
        ("counters", or_why(sys::facts::hardware_counters())),
        ("slice", or_why(sys::facts::slice_ns().map(|ns| format_ns(ns as f64)))),
        (
            "disturbances",
            match sys::cpu_times(&sys::allowed_cpus()) {
                Some(_) => "seen".to_owned(),
                None => "n/a (this system does not tell what else ran; no run is rejected)".to_owned(),
            },
        ),
        ("split_locks", or_why(sys::facts::split_locks())),
        ("laboratory", env!("CARGO_PKG_VERSION").to_owned()),
    ]
}

/// What runs this program in the place of the system it was built for, such as Wine; `None` where the system is itself.
pub fn translated_by() -> Option<String> {
    sys::facts::translated_by()
}

/// What one clock read costs, by each of the ways there are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClockCosts {
    /// The system's clock as programs read it (on Linux without entering the kernel, where the clock source allows).
    pub clock_ns: f64,
    /// The same clock by a system call.
    pub system_call_ns: Option<f64>,
    /// The processor's own counter.
    pub time_stamp_ns: Option<f64>,
}

/// Measures what clock reads cost: the fastest of several short runs each.
pub fn clock_costs() -> ClockCosts {
    ClockCosts {
        clock_ns: cost_ns(|| {
            std::hint::black_box(Instant::now());
        }),
        system_call_ns: sys::facts::CLOCK_CALL.then(|| cost_ns(sys::facts::clock_by_system_call)),
        time_stamp_ns: arch::time_stamp().map(|_| {
            cost_ns(|| {
                std::hint::black_box(arch::time_stamp());
            })
        }),
    }
}

fn cost_ns(read: impl Fn()) -> f64 {
    const RUNS: u32 = 15;
    const READS: u32 = 1_000;
    let run = |_| {
        let start = Instant::now();
        for _ in 0..READS {
            read();
        }
        start.elapsed().as_nanos() as f64 / f64::from(READS)
    };
    (0..RUNS).map(run).fold(f64::INFINITY, f64::min)
}

/// What the machine did besides our worker while it ran.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Contamination {
    /// Share of the CPU capacity in the window that other processes used.
    #[schemars(with = "Option<f64>")]
    pub background_share: f64,
    /// Share that the hypervisor took away.
    #[schemars(with = "Option<f64>")]
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

#[cfg(test)]
mod tests {
    use super::*;

    fn after(idle_ns: u64, steal_ns: u64) -> sys::CpuTimes {
        sys::CpuTimes { idle_ns, steal_ns, resolution_ns: 20_000_000 }
    }

    #[test]
    fn what_is_neither_idle_nor_stolen_nor_ours_is_background() {
        let share = |idle, steal, own| contamination(after(0, 0), after(idle, steal), 1e9, own);
        assert_eq!(share(500_000_000, 0, 480e6), Contamination::default());
        let busy = share(100_000_000, 80_000_000, 300e6);
        assert!((busy.background_share - 0.5).abs() < 1e-9 && (busy.steal_share - 0.08).abs() < 1e-9, "{busy:?}");
        let less = share(990_000_000, 0, 300e6);
        assert_eq!(less.background_share, 0.0, "rounding is no negative background");
    }

    #[test]
    fn every_fact_has_a_value_or_a_reason() {
        let facts = describe();
        for name in ["cpu", "kernel", "virtualised", "load_before", "clock_ns", "libc", "counters", "slice"] {
            let value = &facts.iter().find(|(fact, _)| *fact == name).unwrap().1;
            assert!(!value.is_empty() && value != "n/a", "{name}");
        }
    }

    #[test]
    fn clock_reads_cost_something() {
        let costs = clock_costs();
        assert!(costs.clock_ns > 0.0);
        assert!(costs.system_call_ns.is_none_or(|ns| ns > 0.0) && costs.time_stamp_ns.is_none_or(|ns| ns > 0.0));
    }
}
