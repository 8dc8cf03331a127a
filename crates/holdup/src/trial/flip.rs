//! Policies that take turns within one process: all of them keep the same lock word, so that they can be exchanged at
//! any time.
//!
//! Time is cut into windows; each window has one policy, and its first part, in which threads still wait as the policy
//! before had it, does not count. Four windows in the order A B B A are a pair: what drifts evenly hits both. Progress
//! is the number of acquisitions of all locks that are served. So acquisitions are compared, not finished work, and
//! windows influence each other a little: this chooses whom to run against the program as it is, and does not decide by
//! itself.

use std::time::{Duration, Instant};

use holdup_control::Policy;
use schemars::JsonSchema;
use serde::Serialize;

use super::ratio::Ratio;

/// A window, and its first part that does not count.
pub const WINDOW: Duration = Duration::from_millis(30);
const SETTLING: Duration = Duration::from_millis(2);
/// Pairs of each policy before anything is said, before it may be enough, and at most.
const PAIRS: [usize; 3] = [5, 8, 40];
/// Intervals that are narrower need no more pairs.
const PRECISE: f64 = 0.03;

/// The windows of each policy against the C library's.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Flips {
    /// For each policy, and at the end for the C library's against itself: the logarithm of each pair's ratio.
    pub logs: Vec<Vec<f64>>,
    /// How long a window was.
    pub window_ms: u64,
    /// Runs of the program that they come from.
    pub runs: usize,
}

impl Flips {
    /// Without any window, for so many policies.
    pub fn new(policies: usize) -> Flips {
        Flips { logs: vec![Vec::new(); policies + 1], window_ms: WINDOW.as_millis() as u64, runs: 0 }
    }

    /// The ratio of a policy's progress to that of the C library's.
    pub fn ratio(&self, policy: usize) -> Option<Ratio> {
        Ratio::of(self.logs.get(policy)?, 0.05)
    }

    /// The C library's against itself.
    pub fn noise(&self) -> Option<Ratio> {
        Ratio::of(self.logs.last()?, 0.05)
    }

    /// Whether there were enough pairs to choose by.
    pub fn is_decisive(&self) -> bool {
        self.fewest() >= PAIRS[0]
    }

    /// Whether more windows would change nothing.
    pub fn is_enough(&self) -> bool {
        let precise = |logs: &Vec<f64>| Ratio::of(logs, 0.05).is_some_and(|ratio| ratio.half_width() <= PRECISE);
        self.fewest() >= PAIRS[2] || (self.fewest() >= PAIRS[1] && self.logs.iter().all(precise))
    }

    fn fewest(&self) -> usize {
        self.logs.iter().map(Vec::len).min().unwrap_or(0)
    }
}

/// A process in which policies can be exchanged; tests have one that is made up.
pub trait Process {
    /// From now on locks follow this policy.
    fn set(&mut self, policy: Policy);
    /// How many acquisitions there were so far.
    fn acquisitions(&mut self) -> u64;
    /// Lets it run for so long; whether it still runs then.
    fn run_for(&mut self, time: Duration) -> bool;
    /// The time.
    fn now(&self) -> Instant;
}

/// Adds windows of one process, until it ends, the deadline comes, or there are enough.
pub fn measure(
    process: &mut dyn Process,
    policies: &[Policy],
    flips: &mut Flips,
    deadline: Instant,
    random: &mut fastrand::Rng,
) {
    flips.runs += 1;
    let mut order: Vec<usize> = (0..=policies.len()).collect();
    while !flips.is_enough() {
        random.shuffle(&mut order);
        for &arm in &order {
            // The last arm is the C library's policy against itself.
            let policy = policies.get(arm).copied().unwrap_or(Policy::Glibc);
            match pair(process, policy, random.bool()) {
                Some(log) => flips.logs[arm].extend(log),
                None => return,
            }
            if process.now() >= deadline {
                return;
            }
        }
    }
}

/// The logarithm of a pair's ratio, empty if nobody took a lock; `None` when the process has ended.
fn pair(process: &mut dyn Process, policy: Policy, policy_first: bool) -> Option<Option<f64>> {
    // Progress per second of the policy's windows, and of the others.
    let mut rates = [0.0, 0.0];
    for policys_turn in [policy_first, !policy_first, !policy_first, policy_first] {
        rates[usize::from(!policys_turn)] += window(process, if policys_turn { policy } else { Policy::Glibc })?;
    }
    process.set(Policy::Glibc);
    let [of_policy, of_glibc] = rates;
    Some((of_policy > 0.0 && of_glibc > 0.0).then(|| (of_policy / of_glibc).ln()))
}

fn window(process: &mut dyn Process, policy: Policy) -> Option<f64> {
    process.set(policy);
    if !process.run_for(SETTLING) {
        return None;
    }
    let (from, began) = (process.acquisitions(), process.now());
    if !process.run_for(WINDOW.saturating_sub(SETTLING)) {
        return None;
    }
    let made = process.acquisitions().saturating_sub(from);
    Some(made as f64 / process.now().duration_since(began).as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process in which a gate makes 1.4 times the progress, on a machine that slows down.
    struct Made {
        now: Instant,
        began: Instant,
        ends_after: Duration,
        policy: Policy,
        acquisitions: f64,
        random: fastrand::Rng,
    }

    impl Process for Made {
        fn set(&mut self, policy: Policy) {
            self.policy = policy;
        }

        fn acquisitions(&mut self) -> u64 {
            self.acquisitions as u64
        }

        fn run_for(&mut self, time: Duration) -> bool {
            self.now += time;
            let age_s = self.now.duration_since(self.began).as_secs_f64();
            let gain = if self.policy == Policy::Throttle(1) { 1.4 } else { 1.0 };
            let noise = 0.9 + 0.2 * self.random.f64();
            self.acquisitions += 1e6 * gain * noise / (1.0 + 0.1 * age_s) * time.as_secs_f64();
            self.now.duration_since(self.began) < self.ends_after
        }

        fn now(&self) -> Instant {
            self.now
        }
    }

    fn made(ends_after: Duration) -> Made {
        let now = Instant::now();
        let random = fastrand::Rng::with_seed(2);
        Made { now, began: now, ends_after, policy: Policy::Glibc, acquisitions: 0.0, random }
    }

    #[test]
    fn turns_within_a_process_show_what_a_policy_gains_and_what_is_noise() {
        let mut process = made(Duration::from_secs(30));
        let deadline = process.now + Duration::from_secs(20);
        let policies = [Policy::Throttle(1), Policy::Ttas];
        let mut flips = Flips::new(2);
        measure(&mut process, &policies, &mut flips, deadline, &mut fastrand::Rng::with_seed(1));
        assert!(flips.is_decisive() && flips.is_enough(), "{flips:?}");
        let (gate, ttas, noise) = (flips.ratio(0).unwrap(), flips.ratio(1).unwrap(), flips.noise().unwrap());
        assert!(gate.low <= 1.4 && 1.4 <= gate.high && gate.half_width() < 0.05, "{gate:?}");
        assert!(ttas.low < 1.02 && ttas.high > 0.98 && noise.low < 1.02 && noise.high > 0.98, "{ttas:?} {noise:?}");
    }

    #[test]
    fn a_process_that_ends_leaves_whole_pairs_only() {
        let mut process = made(Duration::from_millis(500));
        let deadline = process.now + Duration::from_secs(20);
        let mut flips = Flips::new(1);
        measure(&mut process, &[Policy::Ttas], &mut flips, deadline, &mut fastrand::Rng::with_seed(1));
        assert_eq!(flips.logs.iter().map(Vec::len).sum::<usize>(), 4, "of 120 ms each");
        assert!(!flips.is_decisive());
    }
}
