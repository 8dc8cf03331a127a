//! Ratios of paired runs: the mean of their logarithms, with Student's interval.
//!
//! The mean and not the median, because a program that is fast in one run and slow in the next under the same
//! conditions has a median that jumps between the two; the logarithm, because twice as fast and half as fast are
//! equally far from one.

use schemars::JsonSchema;
use serde::Serialize;

/// A ratio with its interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Ratio {
    /// The geometric mean of the pairs' ratios.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Pairs that it comes from.
    pub n: usize,
}

impl Ratio {
    /// Of these logarithms of ratios, with an interval that misses the true mean in `alpha` of all cases; `None` for
    /// fewer than two.
    pub fn of(logs: &[f64], alpha: f64) -> Option<Ratio> {
        let spread = Spread::of(logs)?;
        let deviation = (spread.squares / (spread.n - 1) as f64).sqrt();
        Some(Ratio::around(&spread, deviation, spread.n - 1, alpha))
    }

    /// The same where the deviation of one pair is known from elsewhere, with so many degrees of freedom.
    pub fn around(spread: &Spread, deviation: f64, freedom: usize, alpha: f64) -> Ratio {
        let half = student_quantile(1.0 - alpha / 2.0, freedom) * deviation / (spread.n as f64).sqrt();
        Ratio {
            ratio: spread.mean.exp(),
            low: (spread.mean - half).exp(),
            high: (spread.mean + half).exp(),
            n: spread.n,
        }
    }

    /// Of the logarithms of two groups that are not paired and may scatter differently (Welch).
    pub fn between(mine: &[f64], others: &[f64], alpha: f64) -> Option<Ratio> {
        let (mine, others) = (Spread::of(mine)?, Spread::of(others)?);
        let error = |spread: &Spread| spread.squares / ((spread.n - 1) * spread.n) as f64;
        let (a, b) = (error(&mine), error(&others));
        let freedom = (a + b).powi(2) / (a * a / (mine.n - 1) as f64 + b * b / (others.n - 1) as f64);
        // Without any scatter it is 0/0. Rounding down is on the safe side.
        let freedom = if freedom.is_finite() { freedom as usize } else { mine.n - 1 };
        let mean = mine.mean - others.mean;
        let half = student_quantile(1.0 - alpha / 2.0, freedom.max(1)) * (a + b).sqrt();
        Some(Ratio { ratio: mean.exp(), low: (mean - half).exp(), high: (mean + half).exp(), n: mine.n })
    }

    /// Half the interval's width, as a share of the ratio.
    pub fn half_width(&self) -> f64 {
        (self.high / self.low).sqrt() - 1.0
    }
}

/// Where values lie and how they scatter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// How many.
    pub n: usize,
    /// Their mean.
    pub mean: f64,
    /// Sum of the squares of their distances from it.
    pub squares: f64,
}

impl Spread {
    /// Of these values; `None` for fewer than two.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let n = values.len();
        if n < 2 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / n as f64;
        Some(Spread { n, mean, squares: values.iter().map(|value| (value - mean).powi(2)).sum() })
    }
}

/// Whether values of one block are more alike than those of different blocks, so that comparing within blocks gains
/// something: the F statistic of the two values of each block.
pub fn blocks_explain(first: &[f64], second: &[f64]) -> bool {
    /// Beyond what chance does to equal ones in one case of ten or so; where it is wrong, it costs a little power.
    const MORE: f64 = 3.0;
    let sums: Vec<f64> = first.iter().zip(second).map(|(a, b)| a + b).collect();
    let within: f64 = first.iter().zip(second).map(|(a, b)| (a - b).powi(2)).sum::<f64>() / sums.len().max(1) as f64;
    Spread::of(&sums).is_none_or(|between| between.squares / (between.n - 1) as f64 > within * MORE)
}

/// The value below which a share of Student's distribution lies.
pub fn student_quantile(share: f64, freedom: usize) -> f64 {
    if share < 0.5 {
        return -student_quantile(1.0 - share, freedom);
    }
    let (mut low, mut high) = (0.0, 1.0);
    while student_share(high, freedom) < share && high < 1e12 {
        high *= 2.0;
    }
    // Halving the interval 40 times leaves an error that no table shows.
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if student_share(middle, freedom) < share { low = middle } else { high = middle }
    }
    high
}

/// The share of Student's distribution below a positive value: the finite sums for whole degrees of freedom (Abramowitz
/// and Stegun, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4).
fn student_share(value: f64, freedom: usize) -> f64 {
    let angle = (value / (freedom.max(1) as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    // The first term of the sum, and the number in the next term's denominator.
    let (mut term, mut next) = if odd { (cosine, 3) } else { (1.0, 2) };
    let mut sum = if odd && freedom < 3 { 0.0 } else { term };
    while next + 1 < freedom.max(1) + usize::from(!odd) {
        term *= cosine * cosine * (next - 1) as f64 / next as f64;
        sum += term;
        next += 2;
    }
    let both_sides = if odd { (angle + sine * sum) * 2.0 / std::f64::consts::PI } else { sine * sum };
    0.5 + both_sides / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn students_quantiles_are_those_of_the_tables() {
        let table = [
            (0.975, 1, 12.706),
            (0.975, 2, 4.303),
            (0.975, 3, 3.182),
            (0.975, 4, 2.776),
            (0.995, 4, 4.604),
            (0.975, 5, 2.571),
            (0.975, 10, 2.228),
            (0.995, 19, 2.861),
            (0.975, 30, 2.042),
            (0.975, 120, 1.980),
        ];
        for (share, freedom, expected) in table {
            let quantile = student_quantile(share, freedom);
            assert!((quantile - expected).abs() < 0.001, "{share} {freedom}: {quantile}");
            assert!((student_quantile(1.0 - share, freedom) + expected).abs() < 0.001);
        }
    }

    #[test]
    fn groups_are_compared_with_the_scatter_that_each_has() {
        // Welch's example in any textbook: means 1 and 3, squared errors 1/3 and 4/3, so 2.94 degrees of freedom.
        let ratio = Ratio::between(&[0.0, 1.0, 2.0], &[1.0, 3.0, 5.0], 0.05).unwrap();
        assert!((ratio.ratio.ln() + 2.0).abs() < 1e-12);
        assert!((ratio.high.ln() + 2.0 - 4.303 * (5.0_f64 / 3.0).sqrt()).abs() < 0.001, "{ratio:?}");
        let alike = Ratio::between(&[1.0; 3], &[1.0; 6], 0.05).unwrap();
        assert!((alike.low, alike.high) == (1.0, 1.0), "{alike:?}");
    }

    #[test]
    fn blocks_explain_a_drift_and_not_two_speeds() {
        let drift: Vec<f64> = (0..8).map(f64::from).collect();
        let shifted: Vec<f64> = drift.iter().map(|value| value + 0.3).collect();
        assert!(blocks_explain(&drift, &shifted));
        assert!(!blocks_explain(&[0.0, 1.0, 0.0, 1.0], &[1.0, 0.0, 0.0, 1.0]));
    }

    #[test]
    fn an_interval_is_symmetric_in_the_logarithm() {
        let ratio = Ratio::of(&[2.0_f64.ln(), 0.5_f64.ln()], 0.05).unwrap();
        assert!((ratio.ratio - 1.0).abs() < 1e-12 && (ratio.low * ratio.high - 1.0).abs() < 1e-9);
        assert_eq!(Ratio::of(&[0.1], 0.05), None, "one pair has no scatter");
        let same = Ratio::of(&[0.1; 3], 0.05).unwrap();
        assert!((same.high - same.low).abs() < 1e-9);
    }
}
