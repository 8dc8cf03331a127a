//! Results in the Bencher Metric Format: benchmarks by name, each with measures that have a value and its interval.
//! <https://bencher.dev/docs/reference/bencher-metric-format> describes it; its `json` adapter reads it.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figures;
use super::gate::Builds;
use crate::results::RunRecord;
use crate::stats::{self, Estimate};
use crate::text;
use crate::trial::gate::Found;
use crate::trial::ratio::Ratio;

/// Characters that a benchmark's name has at most.
const LONGEST_NAME: usize = 1024;

/// A value with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
struct Measured {
    value: f64,
    lower_value: f64,
    upper_value: f64,
}

impl From<Estimate> for Measured {
    fn from(of: Estimate) -> Measured {
        Measured { value: of.median, lower_value: of.low, upper_value: of.high }
    }
}

impl From<Ratio> for Measured {
    fn from(of: Ratio) -> Measured {
        Measured { value: of.ratio, lower_value: of.low, upper_value: of.high }
    }
}

type Benchmarks = BTreeMap<String, BTreeMap<&'static str, Measured>>;

/// The cells of a run: `latency` is nanoseconds per operation, `throughput` operations a second, `time-ratio` the time
/// over that of the baseline beside it, which is the one to watch where jobs run on different machines.
pub fn run(run: &RunRecord) -> String {
    let mut benchmarks = Benchmarks::new();
    for cell in &run.cells {
        let of = |metric: &'static str| stats::of_cell(cell, figures::named(metric));
        let measures = [
            ("latency", of("time_per_op_ns")),
            ("throughput", of("ops_per_s")),
            ("time-ratio", figures::time_ratio(run, cell)),
        ];
        add(&mut benchmarks, &figures::name_of(run, cell), measures.map(|(name, of)| (name, of.map(Measured::from))));
    }
    written(&benchmarks)
}

/// A gate: `slowdown` is new by old, above 1 for slower; `cpu-ratio` the same of CPU time.
pub fn gate(builds: &Builds, found: &Found) -> String {
    let mut benchmarks = Benchmarks::new();
    let measures = [("slowdown", found.slowdown), ("cpu-ratio", found.beside[0])];
    add(&mut benchmarks, &builds.new, measures.map(|(name, of)| (name, of.map(Measured::from))));
    written(&benchmarks)
}

fn add<const N: usize>(to: &mut Benchmarks, name: &str, measures: [(&'static str, Option<Measured>); N]) {
    let finite = |of: &Measured| [of.value, of.lower_value, of.upper_value].iter().all(|value| value.is_finite());
    let known: BTreeMap<_, _> =
        measures.into_iter().filter_map(|(name, of)| Some((name, of.filter(finite)?))).collect();
    if !known.is_empty() {
        to.insert(text::clean(name).chars().take(LONGEST_NAME).collect(), known);
    }
}

fn written(benchmarks: &Benchmarks) -> String {
    // Texts and finite numbers are always JSON.
    serde_json::to_string_pretty(benchmarks).unwrap_or_default() + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::report::specimen::Specimen;
    use crate::trial::figure::Figure;
    use crate::trial::gate::Verdict;

    #[test]
    fn every_cell_is_a_benchmark_with_its_intervals() {
        let mut of = Specimen::new(Some("pthread"), 5);
        of.cell("pthread", 2, 100.0, &[]);
        of.cell("std", 2, 50.0, &[]);
        let json: Value = serde_json::from_str(&run(of.run())).unwrap();
        let std = &json["std"];
        let value = |measure: &str, key: &str| std[measure][key].as_f64().unwrap();
        assert!((value("latency", "value") - 50.0).abs() < 5.0, "{json}");
        assert!((value("time-ratio", "value") - 0.5).abs() < 0.05, "{json}");
        assert!(value("throughput", "lower_value") <= value("throughput", "upper_value"));
        assert!(json["pthread"]["time-ratio"].is_null(), "the baseline is compared with nothing");
    }

    #[test]
    fn a_gate_is_a_benchmark_named_by_the_command() {
        let ratio = Ratio { ratio: 1.1, low: 1.05, high: 1.2, n: 20 };
        let found = Found {
            verdict: Verdict::Slower,
            slowdown: Some(ratio),
            figure: Figure::Elapsed,
            fixed_s: None,
            beside: [None, None, None],
            pairs: Vec::new(),
            spent_s: 1.0,
        };
        let builds = Builds { old: "./old".to_owned(), new: "./new \"x\"\n".to_owned() };
        let json: Value = serde_json::from_str(&gate(&builds, &found)).unwrap();
        let expected = serde_json::json!({ "slowdown": { "value": 1.1, "lower_value": 1.05, "upper_value": 1.2 } });
        assert_eq!(json["./new \"x\" "], expected);
    }
}
