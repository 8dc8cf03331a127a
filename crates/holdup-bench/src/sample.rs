//! What one run of one cell yields.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::de::value::{Error, StrDeserializer};
use serde::de::{Deserializer, Error as _, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};

/// The measured part of one run: warm-up, start and end of the worker process are outside. Null is what the system does
/// not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// From the release of the start barrier until the last thread finished.
    pub elapsed_ns: u64,
    /// CPU time of the measuring threads in user mode.
    pub user_ns: u64,
    /// CPU time of the measuring threads in the kernel.
    pub kernel_ns: u64,
    /// Switches because a thread blocked or yielded.
    pub voluntary_switches: Option<u64>,
    /// Switches because the scheduler took the CPU away.
    pub involuntary_switches: Option<u64>,
    /// Page faults without reading.
    pub minor_faults: Option<u64>,
    /// Page faults that had to read.
    pub major_faults: Option<u64>,
    /// Operations (workload iterations) finished by each thread.
    #[serde(deserialize_with = "of_some_thread")]
    pub thread_ops: Vec<u64>,
    /// When each thread finished, counted from the start: early finishers show here.
    pub thread_finish_ns: Vec<u64>,
    /// Switches of each thread from its start to its finish, warm-up included, as the kernel counts them: what a
    /// recording of the worker must show for the threads `measure-0`, `measure-1` ... Empty where it does not count.
    /// The store does not keep it.
    #[serde(skip)]
    pub thread_life_switches: Vec<u64>,
    /// Lock acquisitions by all threads (depth and nesting count each lock call; 0 with `--lock none`).
    pub acquisitions: u64,
    /// Calibrated time of one step of the work loop in this worker.
    #[serde(deserialize_with = "finite_or_nan")]
    #[schemars(with = "Option<f64>")]
    pub unit_ns: f64,
    /// Work really done per operation inside the section, mean steps times `unit_ns`.
    #[serde(deserialize_with = "finite_or_nan")]
    #[schemars(with = "Option<f64>")]
    pub hold_ns_mean: f64,
    /// Work really done per operation outside the section.
    #[serde(deserialize_with = "finite_or_nan")]
    #[schemars(with = "Option<f64>")]
    pub gap_ns_mean: f64,
    /// Percentiles of the time to acquire, when asked for.
    pub latency: Option<Latency>,
    /// Hardware counters where the machine has them.
    pub counters: Option<Counters>,
    /// Figures that only one workload has, or only recorded runs: name (unit last), value.
    #[serde(serialize_with = "by_name", deserialize_with = "in_order")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub extra: Vec<(String, f64)>,
}

/// Acquire latency, from a histogram of sampled acquisitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Acquisitions that were timed.
    pub count: u64,
    /// One acquisition in this many was timed.
    pub sampled_every: u64,
    /// Median.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// 99.9th percentile.
    pub p999_ns: u64,
    /// Longest wait seen among the timed ones.
    pub max_ns: u64,
    /// Sum of the timed ones: with `sampled_every` 1, all the time that threads spent to acquire. The store does not
    /// keep it.
    #[serde(skip)]
    pub sum_ns: u64,
    /// Cost of the two clock reads around a timed acquisition.
    #[serde(deserialize_with = "finite_or_nan")]
    #[schemars(with = "Option<f64>")]
    pub clock_ns: f64,
    /// Share of the run's CPU time that timing took.
    #[serde(deserialize_with = "finite_or_nan")]
    #[schemars(with = "Option<f64>")]
    pub cost_share: f64,
}

/// Hardware counters summed over the measuring threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counters {
    /// Core cycles.
    pub cycles: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// Cache misses as the kernel counts them: of the last level with Intel, of the second with AMD.
    pub cache_misses: u64,
    /// The same and more per CPU; empty where that would have taken too many file descriptors.
    #[serde(default)]
    pub cpus: Vec<CpuCounters>,
}

/// Hardware counters of one CPU while measuring threads ran there; null for what the processor does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuCounters {
    /// Its number.
    pub cpu: u32,
    /// Its socket.
    pub socket: Option<u32>,
    /// Core cycles.
    pub cycles: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// Cycles at the nominal frequency while not asleep.
    pub reference_cycles: Option<u64>,
    /// Cycles at the nominal frequency, asleep or not, of the whole CPU.
    pub nominal_cycles: Option<u64>,
    /// References to the second-level cache.
    pub l2_references: Option<u64>,
    /// Those that missed.
    pub l2_misses: Option<u64>,
    /// References to the last-level cache.
    pub l3_references: Option<u64>,
    /// Those that missed.
    pub l3_misses: Option<u64>,
}

impl Counters {
    /// Of two threads together.
    #[must_use]
    pub fn plus(mut self, other: &Counters) -> Counters {
        self.cycles += other.cycles;
        self.instructions += other.instructions;
        self.cache_misses += other.cache_misses;
        for cpu in &other.cpus {
            match self.cpus.iter_mut().find(|own| own.cpu == cpu.cpu) {
                // What passes on the whole CPU passes for each of its threads.
                Some(own) => {
                    let nominal_cycles = own.nominal_cycles.max(cpu.nominal_cycles);
                    *own = CpuCounters { nominal_cycles, ..own.combined(cpu, |a, b| a + b) };
                }
                None => self.cpus.push(*cpu),
            }
        }
        self
    }

    /// What was counted since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        let cpus = self.cpus.iter().zip(&earlier.cpus);
        Counters {
            cycles: self.cycles.saturating_sub(earlier.cycles),
            instructions: self.instructions.saturating_sub(earlier.instructions),
            cache_misses: self.cache_misses.saturating_sub(earlier.cache_misses),
            cpus: cpus.map(|(now, then)| now.combined(then, u64::saturating_sub)).collect(),
        }
    }
}

impl CpuCounters {
    fn combined(&self, other: &CpuCounters, with: fn(u64, u64) -> u64) -> CpuCounters {
        let both = |of: fn(&CpuCounters) -> Option<u64>| of(self).zip(of(other)).map(|(a, b)| with(a, b));
        CpuCounters {
            cpu: self.cpu,
            socket: self.socket,
            cycles: with(self.cycles, other.cycles),
            instructions: with(self.instructions, other.instructions),
            reference_cycles: both(|of| of.reference_cycles),
            nominal_cycles: both(|of| of.nominal_cycles),
            l2_references: both(|of| of.l2_references),
            l2_misses: both(|of| of.l2_misses),
            l3_references: both(|of| of.l3_references),
            l3_misses: both(|of| of.l3_misses),
        }
    }
}

impl Sample {
    /// Switches of both kinds.
    pub fn switches(&self) -> Option<u64> {
        Some(self.voluntary_switches? + self.involuntary_switches?)
    }

    /// Operations of all threads.
    pub fn ops(&self) -> u64 {
        self.thread_ops.iter().sum()
    }

    /// Jain's fairness index of the per-thread counts: 1 is even, 1/n is one thread taking all.
    ///
    /// Jain, Chiu and Hawe, "A Quantitative Measure of Fairness", DEC-TR-301, 1984.
    pub fn jain(&self) -> f64 {
        let sum: f64 = self.thread_ops.iter().map(|&n| n as f64).sum();
        let squares: f64 = self.thread_ops.iter().map(|&n| (n as f64).powi(2)).sum();
        if squares == 0.0 { 1.0 } else { sum * sum / (self.thread_ops.len() as f64 * squares) }
    }
}

/// Why a run has no sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The kind, for exit status and tables.
    pub kind: FailureKind,
    /// One sentence for people.
    pub detail: String,
}

/// Kinds of failed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The workload's invariant did not hold at the end: the lock does not exclude.
    LostUpdate,
    /// No end within the time limit.
    Hang,
    /// Ended by a signal or an unexpected exit.
    Crash,
    /// This machine or user cannot do what the cell asks for; not the lock's fault.
    Unsupported,
}

impl FailureKind {
    /// The kind that is called so.
    pub fn named(name: &str) -> Option<FailureKind> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        FailureKind::deserialize(name).ok()
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

fn by_name<S: Serializer>(figures: &[(String, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(figures.iter().map(|(name, value)| (name, value)))
}

fn in_order<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(String, f64)>, D::Error> {
    let InOrder(figures) = InOrder::<Option<f64>>::deserialize(deserializer)?;
    Ok(figures.into_iter().map(|(name, value)| (name, value.unwrap_or(f64::NAN))).collect())
}

/// JSON has null for numbers that are not finite.
fn finite_or_nan<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::NAN))
}

/// A sample is of one thread at least.
fn of_some_thread<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let threads = Vec::deserialize(deserializer)?;
    if threads.is_empty() { Err(D::Error::custom("the sample names no thread")) } else { Ok(threads) }
}

/// The entries of a map, in the order in which they stand there.
#[derive(Debug)]
pub struct InOrder<T>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for InOrder<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(Vec<(String, T)>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = InOrder<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<InOrder<T>, A::Error> {
                while let Some(entry) = map.next_entry()? {
                    self.0.push(entry);
                }
                Ok(InOrder(self.0))
            }
        }
        deserializer.deserialize_map(Entries(Vec::new()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jain_is_one_when_even_and_one_nth_when_one_thread_takes_all() {
        let of = |ops: &[u64]| Sample { thread_ops: ops.to_vec(), ..Sample::default() }.jain();
        assert_eq!(of(&[5, 5, 5, 5]), 1.0);
        assert_eq!(of(&[8, 0, 0, 0]), 0.25);
        assert_eq!(of(&[0, 0]), 1.0);
    }
}
