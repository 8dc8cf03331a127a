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
    fn an_interval_is_symmetric_in_the_logarithm() {
        let ratio = Ratio::of(&[2.0_f64.ln(), 0.5_f64.ln()], 0.05).unwrap();
        assert!((ratio.ratio - 1.0).abs() < 1e-12 && (ratio.low * ratio.high - 1.0).abs() < 1e-9);
        assert_eq!(Ratio::of(&[0.1], 0.05), None, "one pair has no scatter");
        let same = Ratio::of(&[0.1; 3], 0.05).unwrap();
        assert!((same.high - same.low).abs() < 1e-9);
    }
}
