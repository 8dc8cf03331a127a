//! Times a sample of the acquisitions, at a cost that is known.

use std::time::Instant;

use hdrhistogram::Histogram;

use super::random::Random;
use crate::sample::Latency;

/// One thread's sampled times to acquire.
#[derive(Debug)]
pub struct Timing {
    histogram: Histogram<u32>,
    random: Random,
    /// Acquisitions until the next timed one.
    countdown: u64,
    every: u64,
    sum_ns: u64,
    cost_ns: f64,
    clock_ns: f64,
}

/// Timing may take this share of a run; the promise is 5%.
const SHARE: f64 = 0.03;
/// No wait is longer than a run may be.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Room for any wait, to two digits.
pub fn histogram() -> Histogram<u32> {
    Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("the bounds are constants that it takes")
}

impl Timing {
    /// Timing for a thread whose operations take about this long.
    pub fn for_op_time(op_ns: f64, index: usize) -> Timing {
        let mut timing = Timing {
            histogram: histogram(),
            random: Random::stream(index as u64 ^ 0x71E5),
            countdown: 1,
            every: 1,
            sum_ns: 0,
            cost_ns: 0.0,
            clock_ns: 0.0,
        };
        (timing.cost_ns, timing.clock_ns) = timing.own_cost_ns();
        timing.histogram.reset();
        timing.sum_ns = 0;
        timing.every = (timing.cost_ns / (SHARE * op_ns.max(1.0))).ceil().max(1.0) as u64;
        timing
    }

    /// What one timed acquisition costs, and what its two clock reads cost, by doing many.
    fn own_cost_ns(&mut self) -> (f64, f64) {
        const TIMES: u32 = 200;
        let per_time = |work: &mut dyn FnMut()| {
            let runs = (0..5).map(|_| {
                let start = Instant::now();
                for _ in 0..TIMES {
                    work();
                }
                start.elapsed().as_nanos() as f64 / f64::from(TIMES)
            });
            runs.fold(f64::INFINITY, f64::min)
        };
        let cost_ns = per_time(&mut || {
            let start = Instant::now();
            self.record(start, Instant::now());
        });
        let clock_ns = per_time(&mut || {
            std::hint::black_box((Instant::now(), Instant::now()));
        });
        (cost_ns, clock_ns)
    }

    /// Whether to time this acquisition. The distance to the next is random, so that no rhythm of the workload hides.
    #[inline]
    pub fn due(&mut self) -> bool {
        self.countdown -= 1;
        let due = self.countdown == 0;
        if due {
            self.countdown = 1 + self.random.below(2 * self.every - 1);
        }
        due
    }

    /// Notes one acquisition that was asked for at `start` and had at `end`.
    pub fn record(&mut self, start: Instant, end: Instant) {
        let ns = (end - start).as_nanos() as u64;
        self.sum_ns += ns;
        self.histogram.saturating_record(ns);
    }

    /// Both threads' times.
    pub fn merged(mut self, other: Timing) -> Timing {
        // Equal bounds, so it cannot fail; should it, the percentiles are those of fewer threads, and the count says
        // so.
        let _ = self.histogram.add(&other.histogram);
        self.every = self.every.max(other.every);
        self.sum_ns += other.sum_ns;
        self.cost_ns = self.cost_ns.max(other.cost_ns);
        self
    }

    /// The percentiles, and the share of `cpu_ns` that finding them took.
    pub fn summary(&self, cpu_ns: u64) -> Latency {
        let at = |quantile| self.histogram.value_at_quantile(quantile);
        Latency {
            count: self.histogram.len(),
            sampled_every: self.every,
            p50_ns: at(0.5),
            p90_ns: at(0.9),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            max_ns: self.histogram.max(),
            sum_ns: self.sum_ns,
            clock_ns: self.clock_ns,
            cost_share: self.histogram.len() as f64 * self.cost_ns / (cpu_ns.max(1) as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn percentiles_and_counts_come_from_all_threads() {
        let start = Instant::now();
        let mut all = Timing::for_op_time(1e6, 0);
        let mut other = Timing::for_op_time(1e6, 1);
        for ns in 1..=90 {
            all.record(start, start + Duration::from_nanos(ns));
        }
        for _ in 0..10 {
            other.record(start, start + Duration::from_micros(100));
        }
        let latency = all.merged(other).summary(1_000_000_000);
        assert_eq!(latency.count, 100);
        assert_eq!(latency.sum_ns, 90 * 91 / 2 + 10 * 100_000);
        assert!((45..=55).contains(&latency.p50_ns), "{latency:?}");
        assert!((99_000..=101_000).contains(&latency.p99_ns) && latency.max_ns >= 99_000, "{latency:?}");
        assert!(latency.clock_ns > 0.0 && latency.cost_share > 0.0);
    }

    #[test]
    fn one_in_so_many_is_timed() {
        let mut timing = Timing::for_op_time(20.0, 0);
        assert!(timing.every > 10, "two clock reads cost far more than a section of 20 ns: {}", timing.every);
        let asked = 200_000;
        let timed = (0..asked).filter(|_| timing.due()).count() as f64;
        let expected = f64::from(asked) / timing.every as f64;
        assert!((timed / expected - 1.0).abs() < 0.2, "{timed} of {expected}");
        let mut slow = Timing::for_op_time(1e9, 0);
        assert!((0..10).all(|_| slow.due()), "slow operations are all timed");
    }
}
