//! At which speeds a program runs: many have two, and change from one to the other by themselves.
//!
//! The speed is that of acquisitions, counted every [`STEP`]. Two modes are told apart where they differ by more than
//! [`APART`], where each has its share of the time, and where the speed stays in one for several steps: a single slow
//! step is a pause, and speeds that scatter around one value are one mode.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::ratio::{Spread, student_quantile};

/// From one look at the counters to the next.
pub const STEP: Duration = Duration::from_millis(5);
/// Fewer steps tell nothing.
const FEWEST: usize = 40;
/// The faster mode by the slower one.
const APART: f64 = 1.4;
/// The distance of the two by how much each scatters.
const CLEAR: f64 = 3.0;
/// The least share of either.
const SHARE: f64 = 0.08;
/// The least stretch in one mode, on average, in steps.
const STAYS: f64 = 3.0;

/// What of a program's speed is to be better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Its average: what a whole run takes or yields.
    Mean,
    /// The speed that it keeps for 95% of the time.
    P95,
    /// Its slowest stretch.
    Worst,
}

impl Goal {
    /// Steps of a stretch over which a speed counts: a single step may fall between two acquisitions.
    const STRETCH: usize = 4;
    /// Fewer stretches have no 5% that are slower.
    const FEWEST: usize = 20;

    /// From the command line.
    ///
    /// # Errors
    /// There is no such goal.
    pub fn parse(word: &str) -> Result<Goal, String> {
        match word {
            "mean" => Ok(Goal::Mean),
            "p95" => Ok(Goal::P95),
            "worst" => Ok(Goal::Worst),
            _ => Err("give mean, p95 or worst".to_owned()),
        }
    }

    /// The speed that counts, from acquisitions a second, step after step; `None` of too short a run. The stretches in
    /// which it starts and ends do not count.
    pub fn speed(self, steps: &[f64]) -> Option<f64> {
        let is_busy = |step: &f64| *step > 0.0;
        let (first, last) = (steps.iter().position(is_busy)?, steps.iter().rposition(is_busy)?);
        let stretches = steps[first..=last].chunks_exact(Self::STRETCH);
        let mut speeds: Vec<f64> = stretches.map(|steps| steps.iter().sum::<f64>() / Self::STRETCH as f64).collect();
        if speeds.len() < Self::FEWEST + 2 {
            return None;
        }
        if self == Goal::Mean {
            return Some(speeds.iter().sum::<f64>() / speeds.len() as f64);
        }
        speeds.pop();
        speeds.remove(0);
        speeds.sort_by(f64::total_cmp);
        let at = if self == Goal::Worst { 0 } else { speeds.len() / 20 };
        // A stretch without any is as slow as one with a single acquisition; else ratios would have no end.
        Some(speeds[at].max(1.0 / (STEP.as_secs_f64() * Self::STRETCH as f64)))
    }
}

/// How fast one run went, over its time.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Pace {
    /// Acquisitions a second.
    pub mean: f64,
    /// One step in twenty is slower.
    pub p5: f64,
    /// One step in twenty is faster.
    pub p95: f64,
    /// The speeds that it changes between, the fastest first; a single one if it does not.
    pub modes: Vec<Mode>,
    /// The shares of modes are right within this, in 95 of 100 cases; a half where too few changes were seen to tell.
    pub share_within: f64,
    /// From one look at the counters to the next.
    pub step_ms: f64,
}

/// A speed that a program keeps for a while.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Mode {
    /// Acquisitions a second: the median of its steps.
    pub speed: f64,
    /// Share of the time.
    pub share: f64,
    /// How long it lasts once it has begun, on average.
    pub dwell_ms: f64,
}

/// The pace of a program as it is, and under the remedy that helps most.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Paces {
    /// As it is.
    pub as_it_is: Pace,
    /// Under the winner, where that is a lock policy.
    pub winner: Option<Pace>,
}

impl Pace {
    /// From acquisitions a second, step after step; `None` of too few.
    pub fn of(speeds: &[f64]) -> Option<Pace> {
        if speeds.len() < FEWEST {
            return None;
        }
        let mut sorted = speeds.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[((sorted.len() - 1) as f64 * share).round() as usize];
        let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
        let one = || (vec![mode(speeds, &vec![true; speeds.len()], true)], 0.0);
        let (modes, share_within) = two_modes(speeds).unwrap_or_else(one);
        let (p5, p95, step_ms) = (at(0.05), at(0.95), STEP.as_secs_f64() * 1e3);
        (mean > 0.0).then_some(Pace { mean, p5, p95, modes, share_within, step_ms })
    }

    /// Whether it changes between speeds by itself.
    pub fn is_bistable(&self) -> bool {
        self.modes.len() > 1
    }
}

/// Two modes, if there are two, and within what their shares are right.
fn two_modes(speeds: &[f64]) -> Option<(Vec<Mode>, f64)> {
    // A step in which nothing was acquired has no logarithm; it is as slow as the slowest of the others.
    let least = speeds.iter().copied().filter(|speed| *speed > 0.0).fold(f64::INFINITY, f64::min);
    let logs = smoothed(&speeds.iter().map(|speed| speed.max(least).ln()).collect::<Vec<_>>());
    let limit = limit(&logs);
    let fast: Vec<bool> = logs.iter().map(|log| *log >= limit).collect();
    let of = |side: bool| logs.iter().zip(&fast).filter(move |(_, fast)| **fast == side).map(|(log, _)| *log);
    let ([slow_mean, slow_spread], [fast_mean, fast_spread]) = (centre(of(false))?, centre(of(true))?);
    let modes = [true, false].map(|side| mode(speeds, &fast, side));
    let distance = fast_mean - slow_mean;
    let is_clear = distance >= APART.ln() && distance >= CLEAR * (slow_spread + fast_spread) / 2.0;
    let lasts = |mode: &Mode| mode.share >= SHARE && mode.dwell_ms >= STAYS * STEP.as_secs_f64() * 1e3;
    (is_clear && modes.iter().all(lasts)).then(|| (modes.to_vec(), share_within(&fast)))
}

/// Half the interval of the share of fast steps: the error of a ratio of sums over cycles, each a stretch in one mode
/// and the next in the other (Cochran, "Sampling Techniques", 6.3).
fn share_within(fast: &[bool]) -> f64 {
    let lengths: Vec<f64> = fast.chunk_by(|a, b| a == b).map(|stretch| stretch.len() as f64).collect();
    let cycles: Vec<[f64; 2]> = lengths.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
    let first: f64 = cycles.iter().map(|cycle| cycle[0]).sum();
    let all: f64 = cycles.iter().flatten().sum();
    let errors: Vec<f64> = cycles.iter().map(|[a, b]| a - (a + b) * first / all).collect();
    let Some(spread) = Spread::of(&errors).filter(|spread| spread.n > 2) else { return 0.5 };
    let deviation = (spread.squares / (spread.n - 1) as f64).sqrt();
    (student_quantile(0.975, spread.n - 1) * deviation * (spread.n as f64).sqrt() / all).min(0.5)
}

/// The median of each step and its neighbours: what lasts for one step is no mode.
fn smoothed(logs: &[f64]) -> Vec<f64> {
    let around = |at: usize| {
        let mut three = [logs[at.saturating_sub(1)], logs[at], logs[(at + 1).min(logs.len() - 1)]];
        three.sort_by(f64::total_cmp);
        three[1]
    };
    (0..logs.len()).map(around).collect()
}

/// The value that parts them best (Otsu, IEEE Transactions on Systems, Man, and Cybernetics 9 (1), 1979): most of the
/// variance lies between the sides.
fn limit(logs: &[f64]) -> f64 {
    let mut sorted = logs.to_vec();
    sorted.sort_by(f64::total_cmp);
    let (count, all) = (sorted.len() as f64, sorted.iter().sum::<f64>());
    let (mut below, mut best) = (0.0, (0.0, f64::NEG_INFINITY));
    for (at, log) in sorted.iter().enumerate().skip(1) {
        below += sorted[at - 1];
        let n = at as f64;
        let between = n * (count - n) * ((all - below) / (count - n) - below / n).powi(2);
        if between > best.0 {
            best = (between, *log);
        }
    }
    best.1
}

/// Mean and standard deviation; `None` of fewer than two.
fn centre(logs: impl Iterator<Item = f64> + Clone) -> Option<[f64; 2]> {
    let count = logs.clone().count() as f64;
    let mean = logs.clone().sum::<f64>() / count;
    let variance = logs.map(|log| (log - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (count > 1.0).then(|| [mean, variance.sqrt()])
}

fn mode(speeds: &[f64], fast: &[bool], side: bool) -> Mode {
    let own: Vec<f64> = speeds.iter().zip(fast).filter(|(_, fast)| **fast == side).map(|(speed, _)| *speed).collect();
    let stretches = fast.chunk_by(|a, b| a == b).filter(|stretch| stretch[0] == side).count().max(1);
    Mode {
        speed: crate::stats::median(&own).unwrap_or_default(),
        share: own.len() as f64 / speeds.len() as f64,
        dwell_ms: own.len() as f64 / stretches as f64 * STEP.as_secs_f64() * 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stretches of so many steps at a speed, each step off by up to a tenth.
    fn made(stretches: &[(usize, f64)]) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(4);
        let stretch = |(steps, speed): &(usize, f64)| vec![*speed; *steps];
        stretches.iter().flat_map(stretch).map(|speed| speed * (0.9 + 0.2 * random.f64())).collect()
    }

    #[test]
    fn two_speeds_are_told_with_their_shares_and_how_long_they_last() {
        let pace = Pace::of(&made(&[(60, 24e6), (130, 8e6), (80, 24e6), (130, 8e6)])).unwrap();
        let [fast, slow] = pace.modes[..] else { panic!("{pace:?}") };
        assert!((fast.share - 0.35).abs() < 0.01 && (slow.share - 0.65).abs() < 0.01, "{pace:?}");
        assert!((22e6..26e6).contains(&fast.speed) && (7.5e6..8.5e6).contains(&slow.speed), "{pace:?}");
        assert!((fast.dwell_ms - 350.0).abs() < 10.0 && (slow.dwell_ms - 650.0).abs() < 10.0, "{pace:?}");
        assert!(pace.p5 < 8e6 && pace.p95 > 23e6, "{pace:?}");
    }

    #[test]
    fn shares_are_told_with_what_they_may_be_off_by() {
        let mut random = fastrand::Rng::with_seed(9);
        let mut right = 0;
        for _ in 0..100 {
            let mut fast = true;
            let mut dwell = || (1.0 - 40.0 * random.f64().max(1e-9).ln()) as usize;
            let stretches: Vec<(usize, f64)> = (0..60)
                .map(|_| {
                    fast = !fast;
                    (dwell(), if fast { 24e6 } else { 8e6 })
                })
                .collect();
            let pace = Pace::of(&made(&stretches)).unwrap();
            assert!(pace.is_bistable() && (0.03..0.3).contains(&pace.share_within), "{pace:?}");
            right += usize::from((pace.modes[0].share - 0.5).abs() <= pace.share_within);
        }
        assert!(right >= 88, "{right} of 100");
        let few = Pace::of(&made(&[(60, 24e6), (130, 8e6), (80, 24e6)])).unwrap();
        assert_eq!(few.share_within, 0.5, "too few changes to tell");
        assert_eq!(Pace::of(&made(&[(400, 1e6)])).unwrap().share_within, 0.0);
    }

    #[test]
    fn one_speed_that_scatters_drifts_or_pauses_is_one_mode() {
        let steady = made(&[(400, 13e6)]);
        let drifts: Vec<f64> =
            steady.iter().enumerate().map(|(at, speed)| speed * (1.0 + at as f64 / 1600.0)).collect();
        let mut pauses = steady.clone();
        pauses.iter_mut().step_by(10).for_each(|speed| *speed = 0.0);
        for speeds in [steady, drifts, pauses] {
            let pace = Pace::of(&speeds).unwrap();
            assert!(!pace.is_bistable() && pace.modes[0].share == 1.0, "{pace:?}");
        }
    }

    #[test]
    fn a_goal_looks_at_the_slow_part_of_a_run_but_not_at_its_start_and_end() {
        let speeds = made(&[(40, 0.0), (3, 1e3), (1001, 10e6), (4, 1e3), (40, 0.0)]);
        assert!(Goal::P95.speed(&speeds).unwrap() > 9.3e6 && Goal::Worst.speed(&speeds).unwrap() > 9e6);
        let pauses = made(&[(400, 10e6), (8, 0.0), (600, 10e6)]);
        let of = |goal: Goal| goal.speed(&pauses).unwrap();
        assert!(of(Goal::P95) > 9e6 && of(Goal::Mean) > 9e6, "one pause is less than 5%");
        assert_eq!(of(Goal::Worst), 50.0);
        let bistable = made(&[(60, 24e6), (130, 8e6), (80, 24e6), (130, 8e6)]);
        assert!(Goal::P95.speed(&bistable).unwrap() < 8.5e6 && Goal::Mean.speed(&bistable).unwrap() > 12e6);
        assert_eq!(Goal::P95.speed(&made(&[(60, 1e6)])), None, "too short");
        assert_eq!(Goal::P95.speed(&[0.0; 1000]), None);
        assert!(Goal::parse("p99").unwrap_err().contains("p95") && Goal::parse("worst") == Ok(Goal::Worst));
    }

    #[test]
    fn alternating_from_step_to_step_is_no_mode_and_a_few_steps_tell_nothing() {
        let pace = Pace::of(&made(&[(1, 24e6), (1, 8e6)].repeat(100))).unwrap();
        assert!(!pace.is_bistable(), "{pace:?}");
        assert_eq!(Pace::of(&made(&[(30, 1e6)])), None);
        assert_eq!(Pace::of(&[0.0; 100]), None);
    }
}
