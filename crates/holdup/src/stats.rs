//! Medians, bootstrap intervals and paired ratios.
//!
//! Every interval is a 95% percentile bootstrap of the median (Efron and Tibshirani, "An Introduction to the
//! Bootstrap", 1993, section 13.3) with a fixed seed, so that the same samples always give the same figures. With five
//! runs it is close to their whole range, and says no more than five runs can say.

use fastrand::Rng;
use schemars::JsonSchema;
use serde::Serialize;

use crate::metric::Metric;
use crate::results::CellRecord;

/// A median with its 95% interval and the number of values behind it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Estimate {
    /// The median.
    pub median: f64,
    /// Lower end of the interval; equal to the median where one value is all there is.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Values it comes from.
    pub n: usize,
}

impl Estimate {
    /// Whether the interval contains the value: the difference from it is not decided.
    pub fn contains(&self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }
}

/// Median and interval of these values; `None` without any.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    let median = median(values)?;
    if values.len() == 1 {
        return Some(Estimate { median, low: median, high: median, n: 1 });
    }
    let mut random = Rng::with_seed(BOOTSTRAP_SEED);
    let (low, high) = resampled(|| Some(resample(&mut random, values)))?;
    Some(Estimate { median, low, high, n: values.len() })
}

/// The ratio of two medians with its interval, of two independent samples (Efron and Tibshirani, section 8.3); `None`
/// where there is none.
pub fn ratio_of_medians(over: &[f64], under: &[f64]) -> Option<Estimate> {
    let quotient = |over: f64, under: f64| (under != 0.0).then(|| over / under);
    let median = quotient(median(over)?, median(under)?)?;
    let n = over.len().min(under.len());
    if n < 2 {
        return Some(Estimate { median, low: median, high: median, n });
    }
    let mut random = Rng::with_seed(RATIO_SEED);
    let (low, high) = resampled(|| {
        let over = resample(&mut random, over);
        quotient(over, resample(&mut random, under))
    })?;
    Some(Estimate { median, low, high, n })
}

/// The median of as many values, each drawn from all.
fn resample(random: &mut Rng, values: &[f64]) -> f64 {
    let mut drawn: Vec<f64> = values.iter().map(|_| values[random.usize(..values.len())]).collect();
    sort(&mut drawn);
    middle(&drawn)
}

/// Between which values 95% of the draws lie.
fn resampled(mut draw: impl FnMut() -> Option<f64>) -> Option<(f64, f64)> {
    let mut drawn: Vec<f64> = (0..RESAMPLES).filter_map(|_| draw()).collect();
    sort(&mut drawn);
    let at = |share: f64| drawn.get(((drawn.len().max(1) - 1) as f64 * share).round() as usize).copied();
    Some((at(0.025)?, at(0.975)?))
}

/// The metric's estimate over a cell's counted samples.
pub fn of_cell(cell: &CellRecord, metric: &Metric) -> Option<Estimate> {
    let values: Vec<f64> = cell.counted().filter_map(|(_, sample)| metric.of(sample)).collect();
    estimate(&values)
}

/// How many times `over` is `under`, pairing samples of one block so that drift of the machine hits both alike.
/// Where a block has several samples of `under`, the one nearest in order is taken. Blocks without a partner are left
/// out; when no block has both, there is no ratio.
pub fn paired_ratio(over: &CellRecord, under: &CellRecord, metric: &Metric) -> Option<Estimate> {
    estimate(&paired_ratios(over, under, metric))
}

/// The ratios behind [`paired_ratio`], one per pair.
pub fn paired_ratios(over: &CellRecord, under: &CellRecord, metric: &Metric) -> Vec<f64> {
    over.counted()
        .filter_map(|(record, sample)| {
            let (_, partner) = under
                .counted()
                .filter(|(candidate, _)| candidate.block == record.block)
                .min_by_key(|(candidate, _)| candidate.order.abs_diff(record.order))?;
            let (over, under) = (metric.of(sample)?, metric.of(partner)?);
            (under != 0.0).then(|| over / under)
        })
        .collect()
}

/// How many times as long per operation the cell's slowest run took as its fastest; `None` with fewer than two.
pub fn run_spread(cell: &CellRecord) -> Option<f64> {
    let time = crate::metric::Metric::named("time_per_op_ns")?;
    let times: Vec<f64> = cell.counted().filter_map(|(_, sample)| time.of(sample)).collect();
    let (least, most) = (times.iter().copied().reduce(f64::min)?, times.iter().copied().reduce(f64::max)?);
    (times.len() > 1 && least > 0.0).then(|| most / least)
}

/// The median; `None` without values.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sort(&mut sorted);
    Some(middle(&sorted))
}

const RESAMPLES: usize = 2000;
const BOOTSTRAP_SEED: u64 = 0x9E37_79B9_7F4A_7C15;
const RATIO_SEED: u64 = 0x2545_F491_4F6C_DD1D;

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { (sorted[half - 1] + sorted[half]) / 2.0 }
}

fn sort(values: &mut [f64]) {
    values.sort_unstable_by(f64::total_cmp);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle_two() {
        assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn an_interval_lies_inside_the_range_and_around_the_median() {
        let values = [10.0, 11.0, 12.0, 13.0, 100.0];
        let e = estimate(&values).unwrap();
        assert_eq!((e.median, e.n), (12.0, 5));
        assert!(e.low >= 10.0 && e.low <= 12.0 && e.high >= 12.0 && e.high <= 100.0, "{e:?}");
        assert_eq!(estimate(&values), Some(e), "the same samples always give the same figures");
        assert_eq!(estimate(&[7.0]).unwrap().low, 7.0);
    }

    #[test]
    fn more_values_give_a_narrower_interval() {
        let few: Vec<f64> = (0..5).map(f64::from).collect();
        let many: Vec<f64> = (0..100).map(|i| f64::from(i) / 25.0).collect();
        let width = |values: &[f64]| estimate(values).map(|e| e.high - e.low).unwrap();
        assert!(width(&many) < width(&few) / 2.0);
    }
}
