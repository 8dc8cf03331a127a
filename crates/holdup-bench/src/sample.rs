//! What one run of one cell yields, and the text form in which a worker hands it to its parent.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use schemars::JsonSchema;
use serde::de::IntoDeserializer;
use serde::de::value::{Error, StrDeserializer};
use serde::{Deserialize, Serialize, Serializer};

/// The measured part of one run: warm-up, start and end of the worker process are outside. Null is what the system does
/// not count.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
    #[schemars(with = "Option<f64>")]
    pub unit_ns: f64,
    /// Work really done per operation inside the section, mean steps times `unit_ns`.
    #[schemars(with = "Option<f64>")]
    pub hold_ns_mean: f64,
    /// Work really done per operation outside the section.
    #[schemars(with = "Option<f64>")]
    pub gap_ns_mean: f64,
    /// Percentiles of the time to acquire, when asked for.
    pub latency: Option<Latency>,
    /// Hardware counters where the machine has them.
    pub counters: Option<Counters>,
    /// Figures that only one workload has: name (unit last), value.
    #[serde(serialize_with = "by_name")]
    #[schemars(with = "BTreeMap<String, f64>")]
    pub extra: Vec<(String, f64)>,
}

/// Acquire latency, from a histogram of sampled acquisitions.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
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
    #[schemars(with = "Option<f64>")]
    pub clock_ns: f64,
    /// Share of the run's CPU time that timing took.
    #[schemars(with = "Option<f64>")]
    pub cost_share: f64,
}

/// Hardware counters summed over the measuring threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Counters {
    /// Core cycles.
    pub cycles: u64,
    /// Instructions retired.
    pub instructions: u64,
    /// Last-level cache misses.
    pub cache_misses: u64,
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

    /// Writes the sample as lines of `key value ...`.
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        for (key, value) in [
            ("elapsed_ns", self.elapsed_ns),
            ("user_ns", self.user_ns),
            ("kernel_ns", self.kernel_ns),
            ("acquisitions", self.acquisitions),
        ] {
            line(&mut text, key, &[value]);
        }
        for (key, value) in [
            ("voluntary_switches", self.voluntary_switches),
            ("involuntary_switches", self.involuntary_switches),
            ("minor_faults", self.minor_faults),
            ("major_faults", self.major_faults),
        ] {
            if let Some(value) = value {
                line(&mut text, key, &[value]);
            }
        }
        line(&mut text, "unit_ns", &[self.unit_ns]);
        line(&mut text, "hold_ns_mean", &[self.hold_ns_mean]);
        line(&mut text, "gap_ns_mean", &[self.gap_ns_mean]);
        line(&mut text, "thread_ops", &self.thread_ops);
        line(&mut text, "thread_finish_ns", &self.thread_finish_ns);
        line(&mut text, "thread_life_switches", &self.thread_life_switches);
        if let Some(l) = &self.latency {
            line(
                &mut text,
                "latency_ns",
                &[l.count, l.sampled_every, l.p50_ns, l.p90_ns, l.p99_ns, l.p999_ns, l.max_ns],
            );
            line(&mut text, "latency_sum_ns", &[l.sum_ns]);
            line(&mut text, "latency_cost", &[l.clock_ns, l.cost_share]);
        }
        if let Some(c) = &self.counters {
            line(&mut text, "counters", &[c.cycles, c.instructions, c.cache_misses]);
        }
        for (name, value) in &self.extra {
            line(&mut text, &format!("extra {name}"), &[value]);
        }
        text
    }

    /// Reads what [`Sample::to_text`] wrote; the error names the line.
    pub fn from_text(text: &str) -> Result<Sample, String> {
        let mut sample = Sample::default();
        for text in text.lines() {
            sample.read_line(text).ok_or_else(|| format!("unreadable sample line '{text}'"))?;
        }
        if sample.thread_ops.is_empty() { Err("the sample names no thread".to_owned()) } else { Ok(sample) }
    }

    fn read_line(&mut self, text: &str) -> Option<()> {
        let (key, rest) = text.split_once(' ').unwrap_or((text, ""));
        let one = || rest.parse().ok();
        match key {
            "elapsed_ns" => self.elapsed_ns = one()?,
            "user_ns" => self.user_ns = one()?,
            "kernel_ns" => self.kernel_ns = one()?,
            "voluntary_switches" => self.voluntary_switches = Some(one()?),
            "involuntary_switches" => self.involuntary_switches = Some(one()?),
            "minor_faults" => self.minor_faults = Some(one()?),
            "major_faults" => self.major_faults = Some(one()?),
            "acquisitions" => self.acquisitions = one()?,
            "unit_ns" => self.unit_ns = rest.parse().ok()?,
            "hold_ns_mean" => self.hold_ns_mean = rest.parse().ok()?,
            "gap_ns_mean" => self.gap_ns_mean = rest.parse().ok()?,
            "thread_ops" => self.thread_ops = numbers(rest)?,
            "thread_finish_ns" => self.thread_finish_ns = numbers(rest)?,
            "thread_life_switches" => self.thread_life_switches = numbers(rest)?,
            "latency_ns" => {
                let [count, sampled_every, p50_ns, p90_ns, p99_ns, p999_ns, max_ns] = numbers(rest)?.try_into().ok()?;
                let latency = self.latency.get_or_insert_default();
                *latency = Latency { count, sampled_every, p50_ns, p90_ns, p99_ns, p999_ns, max_ns, ..*latency };
            }
            "latency_sum_ns" => self.latency.get_or_insert_default().sum_ns = one()?,
            "latency_cost" => {
                let [clock_ns, cost_share] = numbers(rest)?.try_into().ok()?;
                let latency = self.latency.get_or_insert_default();
                (latency.clock_ns, latency.cost_share) = (clock_ns, cost_share);
            }
            "counters" => {
                let [cycles, instructions, cache_misses] = numbers(rest)?.try_into().ok()?;
                self.counters = Some(Counters { cycles, instructions, cache_misses });
            }
            "extra" => {
                let (name, value) = rest.split_once(' ')?;
                self.extra.push((name.to_owned(), value.parse().ok()?));
            }
            _ => return None,
        }
        Some(())
    }
}

fn line<T: std::fmt::Display>(text: &mut String, key: &str, values: &[T]) {
    text.push_str(key);
    for value in values {
        let _ = write!(text, " {value}");
    }
    text.push('\n');
}

fn numbers<T: std::str::FromStr>(text: &str) -> Option<Vec<T>> {
    text.split_whitespace().map(|number| number.parse().ok()).collect()
}

/// Why a run has no sample.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_survives_its_text_form() {
        let sample = Sample {
            elapsed_ns: 200_000_001,
            user_ns: 3,
            voluntary_switches: Some(0),
            thread_ops: vec![10, 30],
            thread_finish_ns: vec![1, 2],
            thread_life_switches: vec![70, 80],
            unit_ns: 1.25,
            latency: Some(Latency {
                count: 9,
                sampled_every: 64,
                p50_ns: 20,
                max_ns: 70,
                sum_ns: 500,
                clock_ns: 41.5,
                ..Latency::default()
            }),
            counters: Some(Counters { cycles: 5, instructions: 6, cache_misses: 7 }),
            extra: vec![("round_trips_per_s".to_owned(), 1234.5)],
            ..Sample::default()
        };
        assert_eq!(Sample::from_text(&sample.to_text()), Ok(sample));
    }

    #[test]
    fn broken_text_names_its_line() {
        assert_eq!(Sample::from_text("elapsed_ns x"), Err("unreadable sample line 'elapsed_ns x'".to_owned()));
        assert!(Sample::from_text("what 1").is_err());
        assert!(Sample::from_text("").is_err());
    }

    #[test]
    fn jain_is_one_when_even_and_one_nth_when_one_thread_takes_all() {
        let of = |ops: &[u64]| Sample { thread_ops: ops.to_vec(), ..Sample::default() }.jain();
        assert_eq!(of(&[5, 5, 5, 5]), 1.0);
        assert_eq!(of(&[8, 0, 0, 0]), 0.25);
        assert_eq!(of(&[0, 0]), 1.0);
    }
}
