//! Distributions of durations in constant memory.

use schemars::JsonSchema;
use serde::Serialize;

/// Counts of durations in buckets whose width is at most an eighth of their value: percentiles are exact to 12.5%,
/// sums, means, smallest and largest exactly.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "Distribution")]
pub struct Histogram {
    buckets: Vec<u64>,
    count: u64,
    sum_ns: u64,
    min_ns: u64,
    max_ns: u64,
}

const SUB_BITS: u32 = 3;
const SUB: u64 = 1 << SUB_BITS;

impl Histogram {
    /// Counts one.
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket(ns);
        if bucket >= self.buckets.len() {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += 1;
        self.min_ns = if self.count == 0 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(ns);
    }

    /// So many of one length.
    pub fn alike(ns: u64, count: u64) -> Histogram {
        let mut all = Histogram::default();
        if count > 0 {
            all.add(ns);
            all.buckets[bucket(ns)] = count;
            (all.count, all.sum_ns) = (count, ns.saturating_mul(count));
        }
        all
    }

    /// Counts all that the other counted.
    pub fn merge(&mut self, other: &Histogram) {
        if other.count == 0 {
            return;
        }
        if other.buckets.len() > self.buckets.len() {
            self.buckets.resize(other.buckets.len(), 0);
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.min_ns = if self.count == 0 { other.min_ns } else { self.min_ns.min(other.min_ns) };
        self.max_ns = self.max_ns.max(other.max_ns);
        self.count += other.count;
        self.sum_ns = self.sum_ns.saturating_add(other.sum_ns);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    pub fn sum_ns(&self) -> u64 {
        self.sum_ns
    }

    /// The smallest; 0 for none.
    pub fn min_ns(&self) -> u64 {
        self.min_ns
    }

    /// The largest; 0 for none.
    pub fn max_ns(&self) -> u64 {
        self.max_ns
    }

    /// The mean; 0 for none.
    pub fn mean_ns(&self) -> u64 {
        self.sum_ns.checked_div(self.count).unwrap_or(0)
    }

    /// The median; 0 for none.
    pub fn median_ns(&self) -> u64 {
        self.quantile_ns(0.5)
    }

    /// The value that a share `q` of all are not above, rounded up to its bucket's end; 0 for none.
    pub fn quantile_ns(&self, q: f64) -> u64 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "q is a share of count")]
        let rank = ((q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (index, hits) in self.buckets.iter().enumerate() {
            seen += hits;
            if seen >= rank {
                return end_of(index).clamp(self.min_ns, self.max_ns);
            }
        }
        self.max_ns
    }

    /// The buckets that have something: (from, to, count), `to` included.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let filled = self.buckets.iter().enumerate().filter(|(_, hits)| **hits > 0);
        filled.map(|(index, hits)| (if index == 0 { 0 } else { end_of(index - 1) + 1 }, end_of(index), *hits))
    }
}

/// A distribution.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Histogram")]
struct Distribution {
    /// How many values.
    count: u64,
    /// Their sum.
    sum_ns: u64,
    /// The smallest; 0 for none.
    min_ns: u64,
    /// The median, as all percentiles exact to an eighth.
    median_ns: u64,
    /// Nine of ten are not above it.
    p90_ns: u64,
    /// 99 of 100 are not above it.
    p99_ns: u64,
    /// The largest; 0 for none.
    max_ns: u64,
    /// The buckets that have something.
    buckets: Vec<Bucket>,
}

/// A bucket.
#[derive(Serialize, JsonSchema)]
struct Bucket {
    /// Its smallest value.
    from_ns: u64,
    /// Its largest value.
    to_ns: u64,
    /// Values in it.
    count: u64,
}

impl From<Histogram> for Distribution {
    fn from(of: Histogram) -> Distribution {
        Distribution {
            count: of.count,
            sum_ns: of.sum_ns,
            min_ns: of.min_ns,
            median_ns: of.median_ns(),
            p90_ns: of.quantile_ns(0.9),
            p99_ns: of.quantile_ns(0.99),
            max_ns: of.max_ns,
            buckets: of.buckets().map(|(from_ns, to_ns, count)| Bucket { from_ns, to_ns, count }).collect(),
        }
    }
}

/// Values below `SUB` have a bucket each; above, `SUB` buckets per power of two.
fn bucket(ns: u64) -> usize {
    if ns < SUB {
        return ns as usize;
    }
    let shift = ns.ilog2() - SUB_BITS;
    (u64::from(shift) * SUB + (ns >> shift)) as usize
}

/// The largest value of a bucket.
fn end_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB {
        return bucket;
    }
    let shift = bucket / SUB - 1;
    let top = SUB + bucket % SUB;
    (((u128::from(top) + 1) << shift) - 1).min(u128::from(u64::MAX)) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_is_at_most_an_eighth_wide() {
        for ns in (0..5_000).chain([1 << 20, (1 << 20) + 1, u64::MAX / 3, u64::MAX - 1, u64::MAX]) {
            let index = bucket(ns);
            let from = if index == 0 { 0 } else { end_of(index - 1) + 1 };
            assert!(from <= ns && ns <= end_of(index), "{ns}: {from}..{}", end_of(index));
            assert!(end_of(index) - from <= from / 8, "{ns}");
        }
    }

    #[test]
    fn quantiles_and_sums() {
        let mut all = Histogram::default();
        (1..=1000).for_each(|ns| all.add(ns));
        assert_eq!((all.count(), all.sum_ns(), all.min_ns(), all.max_ns()), (1000, 500_500, 1, 1000));
        assert!((500..=563).contains(&all.median_ns()), "{}", all.median_ns());
        assert_eq!(all.quantile_ns(1.0), 1000);
        assert_eq!(Histogram::default().median_ns(), 0);
        let mut twice = all.clone();
        twice.merge(&all);
        assert_eq!((twice.count(), twice.sum_ns(), twice.median_ns()), (2000, 1_001_000, all.median_ns()));
    }
}
