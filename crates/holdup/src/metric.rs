//! The figures that can be read off a sample, each with its unit and its better direction.

use holdup_bench::sample::{CpuCounters, Sample};

use crate::profile;

/// A figure of a sample.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Name in expressions, tables and exports; the unit comes last.
    pub name: &'static str,
    /// Unit for people, empty for a plain number.
    pub unit: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
    /// Whether more of it is better; `None` where neither is.
    pub higher_is_better: Option<bool>,
    read: fn(&Sample) -> Option<f64>,
}

impl Metric {
    /// The metric of this name.
    pub fn named(name: &str) -> Option<&'static Metric> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// The figure of one sample, if it has one.
    pub fn of(&self, sample: &Sample) -> Option<f64> {
        (self.read)(sample).filter(|value| value.is_finite())
    }
}

/// Every metric.
pub static METRICS: &[Metric] = &[
    Metric {
        name: "time_per_op_ns",
        unit: "ns",
        help: "elapsed time divided by the operations of all threads",
        higher_is_better: Some(false),
        read: |s| per_op(s, s.elapsed_ns as f64),
    },
    Metric {
        name: "ops_per_s",
        unit: "1/s",
        help: "operations of all threads per second of elapsed time",
        higher_is_better: Some(true),
        read: |s| Some(s.ops() as f64 * 1e9 / s.elapsed_ns as f64),
    },
    Metric {
        name: "elapsed_ms",
        unit: "ms",
        help: "from the start barrier until the last thread finished",
        higher_is_better: Some(false),
        read: |s| Some(s.elapsed_ns as f64 / 1e6),
    },
    Metric {
        name: "user_ms",
        unit: "ms",
        help: "CPU time in user mode",
        higher_is_better: Some(false),
        read: |s| Some(s.user_ns as f64 / 1e6),
    },
    Metric {
        name: "kernel_ms",
        unit: "ms",
        help: "CPU time in the kernel",
        higher_is_better: Some(false),
        read: |s| Some(s.kernel_ns as f64 / 1e6),
    },
    Metric {
        name: "user_per_op_ns",
        unit: "ns",
        help: "CPU time in user mode per operation",
        higher_is_better: Some(false),
        read: |s| per_op(s, s.user_ns as f64),
    },
    Metric {
        name: "kernel_per_op_ns",
        unit: "ns",
        help: "CPU time in the kernel per operation",
        higher_is_better: Some(false),
        read: |s| per_op(s, s.kernel_ns as f64),
    },
    Metric {
        name: "cpu_per_op_ns",
        unit: "ns",
        help: "CPU time per operation, user and kernel",
        higher_is_better: Some(false),
        read: |s| per_op(s, (s.user_ns + s.kernel_ns) as f64),
    },
    Metric {
        name: "kernel_share",
        unit: "",
        help: "share of the CPU time that was spent in the kernel, 0 to 1",
        higher_is_better: None,
        read: |s| Some(s.kernel_ns as f64 / (s.user_ns + s.kernel_ns) as f64),
    },
    Metric {
        name: "cpus_used",
        unit: "CPUs",
        help: "CPU time divided by elapsed time",
        higher_is_better: None,
        read: |s| Some((s.user_ns + s.kernel_ns) as f64 / s.elapsed_ns as f64),
    },
    Metric {
        name: "cpus_worth_of_work",
        unit: "CPUs",
        help: "work inside and outside the sections, by the steps that were done, divided by elapsed time",
        higher_is_better: Some(true),
        read: |s| Some((s.hold_ns_mean + s.gap_ns_mean) * s.ops() as f64 / s.elapsed_ns as f64),
    },
    Metric {
        name: "switches_per_op",
        unit: "",
        help: "context switches, voluntary and involuntary, per operation",
        higher_is_better: Some(false),
        read: |s| per_op(s, s.switches()? as f64),
    },
    Metric {
        name: "switches_per_s",
        unit: "1/s",
        help: "context switches per second",
        higher_is_better: Some(false),
        read: |s| Some(s.switches()? as f64 * 1e9 / s.elapsed_ns as f64),
    },
    Metric {
        name: "voluntary_per_op",
        unit: "",
        help: "switches because a thread blocked or yielded, per operation",
        higher_is_better: Some(false),
        read: |s| per_op(s, s.voluntary_switches? as f64),
    },
    Metric {
        name: "involuntary_per_s",
        unit: "1/s",
        help: "switches that the scheduler forced, per second",
        higher_is_better: Some(false),
        read: |s| Some(s.involuntary_switches? as f64 * 1e9 / s.elapsed_ns as f64),
    },
    Metric {
        name: "jain",
        unit: "",
        help: "Jain's fairness index of the per-thread counts: 1 is even, 1/threads is one thread taking all",
        higher_is_better: Some(true),
        read: |s| Some(s.jain()),
    },
    Metric {
        name: "share_max_to_min",
        unit: "",
        help: "the busiest thread's operations divided by the idlest one's",
        higher_is_better: Some(false),
        read: |s| Some(*s.thread_ops.iter().max()? as f64 / (*s.thread_ops.iter().min()?).max(1) as f64),
    },
    Metric {
        name: "latency_p50_ns",
        unit: "ns",
        help: "median time to acquire (with latency=on)",
        higher_is_better: Some(false),
        read: |s| Some(s.latency.as_ref()?.p50_ns as f64),
    },
    Metric {
        name: "latency_p99_ns",
        unit: "ns",
        help: "99th percentile of the time to acquire (with latency=on)",
        higher_is_better: Some(false),
        read: |s| Some(s.latency.as_ref()?.p99_ns as f64),
    },
    Metric {
        name: "latency_max_ns",
        unit: "ns",
        help: "longest timed wait (with latency=on)",
        higher_is_better: Some(false),
        read: |s| Some(s.latency.as_ref()?.max_ns as f64),
    },
    Metric {
        name: "packets_per_s",
        unit: "1/s",
        help: "ping-pong: packets per second, each counted once though two threads work on it",
        higher_is_better: Some(true),
        read: |s| extra(s, "packets_per_s"),
    },
    Metric {
        name: "run_length_mean_ns",
        unit: "ns",
        help: "ping-pong: CPU time between two switches of a thread",
        higher_is_better: None,
        read: |s| extra(s, "run_length_mean_ns"),
    },
    Metric {
        name: "reads_per_s",
        unit: "1/s",
        help: "rw: reads per second",
        higher_is_better: Some(true),
        read: |s| extra(s, "reads_per_s"),
    },
    Metric {
        name: "writes_per_s",
        unit: "1/s",
        help: "rw: writes per second; few beside many reads of other threads (--writers) are starved writers",
        higher_is_better: Some(true),
        read: |s| extra(s, "writes_per_s"),
    },
    Metric {
        name: "read_wait_p50_ns",
        unit: "ns",
        help: "rw: median time that a reader waits (with latency=on)",
        higher_is_better: Some(false),
        read: |s| extra(s, "read_wait_p50_ns"),
    },
    Metric {
        name: "read_wait_p99_ns",
        unit: "ns",
        help: "rw: 99th percentile of it (with latency=on)",
        higher_is_better: Some(false),
        read: |s| extra(s, "read_wait_p99_ns"),
    },
    Metric {
        name: "read_wait_max_ns",
        unit: "ns",
        help: "rw: longest timed wait of a reader (with latency=on)",
        higher_is_better: Some(false),
        read: |s| extra(s, "read_wait_max_ns"),
    },
    Metric {
        name: "write_wait_p50_ns",
        unit: "ns",
        help: "rw: median time that a writer waits (with latency=on)",
        higher_is_better: Some(false),
        read: |s| extra(s, "write_wait_p50_ns"),
    },
    Metric {
        name: "write_wait_p99_ns",
        unit: "ns",
        help: "rw: 99th percentile of it (with latency=on)",
        higher_is_better: Some(false),
        read: |s| extra(s, "write_wait_p99_ns"),
    },
    Metric {
        name: "write_wait_max_ns",
        unit: "ns",
        help: "rw: longest wait of a writer (with latency=on)",
        higher_is_better: Some(false),
        read: |s| extra(s, "write_wait_max_ns"),
    },
    Metric {
        name: "instructions_per_cycle",
        unit: "",
        help: "instructions retired per core cycle (where the machine has counters)",
        higher_is_better: None,
        read: |s| s.counters.as_ref().map(|c| c.instructions as f64 / c.cycles as f64),
    },
    Metric {
        name: "core_instructions_per_cycle_min",
        unit: "",
        help: "the same of the core that has fewest (where the machine has counters)",
        higher_is_better: None,
        read: |s| {
            let per_cycle = |core: &CpuCounters| core.instructions as f64 / core.cycles as f64;
            let ran = s.counters.as_ref()?.cpus.iter().filter(|core| core.cycles > 0);
            ran.map(per_cycle).reduce(f64::min)
        },
    },
    Metric {
        name: "cache_misses_per_op",
        unit: "",
        help: "cache misses per operation, of the last level with Intel, of the second with AMD (where the machine has counters)",
        higher_is_better: Some(false),
        read: |s| per_op(s, s.counters.as_ref()?.cache_misses as f64),
    },
    Metric {
        name: profile::LOCK,
        unit: "",
        help: "share of the CPU samples in the lock's own functions, 0 to 1 (with profile=on)",
        higher_is_better: None,
        read: |s| extra(s, profile::LOCK),
    },
    Metric {
        name: profile::KERNEL,
        unit: "",
        help: "share in the kernel waiting, waking and switching, or for the lock otherwise (with profile=on)",
        higher_is_better: None,
        read: |s| extra(s, profile::KERNEL),
    },
];

fn per_op(sample: &Sample, total: f64) -> Option<f64> {
    (sample.ops() > 0).then(|| total / sample.ops() as f64)
}

/// A figure that only one workload has, or only recorded runs.
fn extra(sample: &Sample, name: &str) -> Option<f64> {
    sample.extra.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
}
