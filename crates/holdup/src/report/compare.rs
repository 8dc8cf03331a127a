//! Two runs side by side: the same cells, measured at different times or on different machines.

use holdup_bench::spec::Spec;

use super::Style;
use crate::metric::Metric;
use crate::results::{CellRecord, RunRecord};
use crate::stats::{self, Estimate};

/// Two runs, cell by cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The earlier or first run: number in the store, start in seconds since 1970.
    pub before: (i64, i64),
    /// The other run.
    pub after: (i64, i64),
    /// Cells that both runs measured.
    pub rows: Vec<Row>,
    /// Cells (sweep, spec) that only the first run has figures for.
    pub only_before: Vec<(String, Spec)>,
    /// Cells that only the second run has figures for.
    pub only_after: Vec<(String, Spec)>,
    /// Facts of the environment that differ: name, first run's value, second run's.
    pub environment: Vec<(String, String, String)>,
}

/// One cell in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Sweep of the cell.
    pub sweep: String,
    /// The cell.
    pub spec: Spec,
    /// Time per operation in the first run, in ns.
    pub before_ns: Estimate,
    /// Time per operation in the second run, in ns.
    pub after_ns: Estimate,
    /// The second run's median time over the first one's; below 1 the second is faster.
    pub ratio: Estimate,
    /// What that says.
    pub verdict: Change,
}

/// What became of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The second run is faster.
    Faster,
    /// The second run is slower.
    Slower,
    /// The interval contains 1, or there are too few runs.
    NotShown,
}

/// How many times `over`'s median is `under`'s, for samples that have no partner: both sides are resampled on their own.
pub fn unpaired_ratio(over: &CellRecord, under: &CellRecord, metric: &Metric) -> Option<Estimate> {
    let values = |cell: &CellRecord| -> Vec<f64> {
        cell.counted().filter_map(|(_, sample)| metric.of(sample)).collect()
    };
    ratio_of_medians(&values(over), &values(under))
}

/// The ratio of two medians with a 95% percentile bootstrap interval of two independent samples (Efron and Tibshirani,
/// "An Introduction to the Bootstrap", 1993, section 8.3), seeded: the same values always give the same interval.
pub fn ratio_of_medians(over: &[f64], under: &[f64]) -> Option<Estimate> {
    let quotient = |over: f64, under: f64| (under != 0.0).then(|| over / under);
    let median = quotient(stats::median(over)?, stats::median(under)?)?;
    let n = over.len().min(under.len());
    if n < 2 {
        return Some(Estimate { median, low: median, high: median, n });
    }
    let mut random = fastrand::Rng::with_seed(BOOTSTRAP_SEED);
    let mut draw = |values: &[f64]| {
        let drawn: Vec<f64> = values.iter().map(|_| values[random.usize(..values.len())]).collect();
        stats::median(&drawn)
    };
    let mut ratios: Vec<f64> = (0..RESAMPLES).filter_map(|_| quotient(draw(over)?, draw(under)?)).collect();
    ratios.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| ratios.get(((ratios.len().max(1) - 1) as f64 * share).round() as usize).copied();
    Some(Estimate { median, low: at(0.025)?, high: at(0.975)?, n })
}

const RESAMPLES: usize = 2000;
const BOOTSTRAP_SEED: u64 = 0x2545_F491_4F6C_DD1D;

/// Compares two runs.
pub fn runs(before: &RunRecord, after: &RunRecord) -> Comparison {
    Comparison {
        before: (before.id, before.started_unix_s),
        after: (after.id, after.started_unix_s),
        rows: Vec::new(),
        only_before: Vec::new(),
        only_after: Vec::new(),
        environment: Vec::new(),
    }
}

/// The comparison as text.
pub fn table(_comparison: &Comparison, _style: &Style) -> String {
    String::new()
}
