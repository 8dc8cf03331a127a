//! A gate: two builds of a program, run in pairs, until it is decided whether the new one is slower.
//!
//! History of elapsed times says little where every job runs on another machine. Here both builds run in one job, next
//! to each other and in random order. What is looked at is the logarithm of new by old, more than 0 for slower; the
//! chance to be wrong is divided among few planned looks, as in [`super::plan`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Serialize;

use super::figure::{Figure, Metric};
use super::found::{self, Seen, Time};
use super::ratio::{Ratio, Spread};
use super::remedy::{Change, Remedy};
use super::run::{Expected, Failure, Runner, Sample};
use super::search::Watch;

/// How often a gate may call an unchanged program slower.
pub const ALPHA: f64 = 0.01;
/// Fewest and most pairs.
const PAIRS: std::ops::RangeInclusive<usize> = 6..=400;
/// Looks before the last: after this share of the pairs that the budget allows, with this share of [`ALPHA`].
const LOOKS: [(f64, f64); 2] = [(0.25, 0.15), (0.5, 0.25)];

/// What a gate says of the new build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It is slower for sure, and a slow-down of the limit cannot be excluded.
    Slower,
    /// It is faster.
    Faster,
    /// Any difference is smaller than the limit.
    Same,
    /// A slow-down of the limit can neither be shown nor excluded.
    CannotTell,
    /// The gate was stopped.
    Stopped,
}

/// What a gate is allowed.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How long it may take.
    pub budget: Duration,
    /// The slow-down that fails, as a share: 0.05 for 5%.
    pub fail_on: f64,
    /// Of the order of runs.
    pub seed: u64,
    /// The exit status of a run that succeeds.
    pub code: u8,
    /// The command line of the old build, which may name a fixed time; `None` if elapsed time counts in any case.
    pub words: Option<Vec<String>>,
}

/// One pair of runs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Pair {
    /// The old build.
    pub old: Sample,
    /// The new build.
    pub new: Sample,
    /// Whether the new one ran first.
    pub new_first: bool,
}

/// What a gate found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The verdict.
    pub verdict: Verdict,
    /// New by old: times as long, or as much work in the same time turned round; above 1 for slower.
    pub slowdown: Option<Ratio>,
    /// What was compared.
    pub figure: Figure,
    /// Seconds for which both run whatever is done, where that was noticed.
    pub fixed_s: Option<f64>,
    /// CPU time, switches because a thread waited, other switches: new by old, for the same work.
    pub beside: [Option<Ratio>; 3],
    /// Every pair.
    pub pairs: Vec<Pair>,
    /// Seconds that it took.
    pub spent_s: f64,
}

/// Why there is no verdict.
#[derive(Clone, Debug)]
pub enum Problem {
    /// A build fails: whether the new one, how, and after how many runs.
    Fails(bool, Failure, usize),
    /// The budget is too small for the least that can tell.
    Budget {
        /// Both take this long.
        pair_s: f64,
        /// The least budget.
        needed_s: f64,
    },
    /// Both run for a fixed time, and print no number that says what they do in it: so many seconds.
    NoFigure(f64, Option<Metric>),
}

/// Runs both until it is decided.
///
/// # Errors
/// One of them fails, or the budget is too small.
pub fn run<'a>(
    builds: [&'a mut (dyn Runner + 'a); 2],
    figure: Figure,
    rules: &'a Rules,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
) -> Result<Found, Problem> {
    let began = builds[0].now();
    let mut gate = Gate { builds, figure, fixed_s: None, rules, stop, watch, began, expected: None, runs: 0 };
    let pair_s = gate.warm_up()?;
    let left_s = rules.budget.saturating_sub(gate.spent()).as_secs_f64();
    let affordable = (left_s / pair_s.max(1e-6)) as usize;
    if affordable < *PAIRS.start() {
        let needed_s = gate.spent().as_secs_f64() + pair_s * *PAIRS.start() as f64;
        return Err(Problem::Budget { pair_s, needed_s });
    }
    gate.pairs(affordable.min(*PAIRS.end()))
}

struct Gate<'a> {
    builds: [&'a mut (dyn Runner + 'a); 2],
    figure: Figure,
    fixed_s: Option<f64>,
    rules: &'a Rules,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
    began: Instant,
    expected: Option<Expected>,
    runs: usize,
}

impl Gate<'_> {
    /// Runs that no comparison uses: files come into memory, and it is seen whether the time is fixed. Says how long
    /// both take.
    fn warm_up(&mut self) -> Result<f64, Problem> {
        let mut seen = Vec::new();
        let mut pair_s = 0.0;
        for new in [false, true, false, true] {
            let sample = self.one(new)?;
            if seen.is_empty() {
                self.expected = Some(Expected { code: self.rules.code, ..Expected::of(&sample, false) });
            }
            pair_s += sample.wall_s / 2.0;
            let (cpu_s, printed) = (sample.cpu_s(), sample.printed.clone());
            seen.push(Seen { elapsed_s: sample.elapsed_s, cpu_s, printed, ..Seen::default() });
        }
        let Some(words) = self.rules.words.as_ref().filter(|_| matches!(self.figure, Figure::Elapsed)) else {
            return Ok(pair_s);
        };
        seen.extend(self.on_one_cpu(&seen));
        match found::judge(&seen, words) {
            Time::FixedPrints(metric) => self.figure = Figure::Printed(metric),
            Time::FixedSilent(moves) => return Err(Problem::NoFigure(seen[0].elapsed_s, moves)),
            Time::Works | Time::FixedTakesLocks => return Ok(pair_s),
        }
        self.fixed_s = Some(seen[0].elapsed_s);
        Ok(pair_s)
    }

    /// The old build on one CPU, if its times agree and it uses more than one: where the time is fixed it takes no
    /// longer there. `None` if it does.
    fn on_one_cpu(&mut self, seen: &[Seen]) -> Option<Seen> {
        /// What works for its time takes more of it.
        const LONGER: f64 = 1.15;
        let elapsed: Vec<f64> = seen.iter().map(|run| run.elapsed_s).collect();
        let longest_s = elapsed.iter().copied().fold(0.0, f64::max);
        let uses_more = seen.iter().all(|run| run.cpu_s > 1.3 * run.elapsed_s);
        let cpu = holdup_run::allowed_cpus().first().copied().filter(|_| uses_more && found::agree(&elapsed))?;
        let one = Remedy { name: "1 CPU".to_owned(), change: Change::Cpus(vec![cpu]) };
        let limit = Duration::from_secs_f64(longest_s * LONGER + 0.05);
        let expected = self.expected.as_ref().map(|expected| Expected { limit, ..expected.clone() });
        self.watch.now("whether they run for a fixed time", self.spent_share());
        let sample = self.builds[0].run(Some(&one), expected.as_ref(), limit).ok()?;
        let (cpu_s, printed) = (sample.cpu_s(), sample.printed);
        Some(Seen { elapsed_s: sample.elapsed_s, cpu_s, printed, on_one_cpu: true, condition: 1, ..Seen::default() })
    }

    fn spent(&self) -> Duration {
        self.builds[0].now() - self.began
    }

    fn spent_share(&self) -> f64 {
        self.spent().as_secs_f64() / self.rules.budget.as_secs_f64()
    }

    fn one(&mut self, new: bool) -> Result<Sample, Problem> {
        let what = if new { "the new build" } else { "the old build" };
        self.watch.now(what, self.spent_share());
        let limit = self.expected.as_ref().map_or(self.rules.budget, |expected| expected.limit);
        let outcome = self.builds[usize::from(new)].run(None, self.expected.as_ref(), limit);
        let outcome = outcome.and_then(|sample| match self.expected {
            None if sample.code != self.rules.code => {
                Err(Failure::Status { code: sample.code, expected: self.rules.code, words: sample.words })
            }
            _ => self.figure.of(sample),
        });
        self.runs += 1;
        outcome.map_err(|why| Problem::Fails(new, why, self.runs - 1))
    }

    fn pairs(mut self, most: usize) -> Result<Found, Problem> {
        let mut random = fastrand::Rng::with_seed(self.rules.seed);
        let mut judge = Judge::new(most, self.rules.fail_on);
        let mut pairs: Vec<Pair> = Vec::new();
        loop {
            let new_first = random.bool();
            let first = self.one(new_first);
            let both = first.and_then(|first| Ok((first, self.one(!new_first)?)));
            let (first, second) = match both {
                Err(Problem::Fails(_, Failure::Stopped, _)) => return Ok(self.found(&judge, Verdict::Stopped, pairs)),
                other => other?,
            };
            let (old, new) = if new_first { (second, first) } else { (first, second) };
            judge.tell(1.0 / old.merit(&self.figure), 1.0 / new.merit(&self.figure));
            pairs.push(Pair { old, new, new_first });
            let out_of_time = self.spent() >= self.rules.budget;
            if self.stop.load(Ordering::Relaxed) {
                return Ok(self.found(&judge, Verdict::Stopped, pairs));
            }
            if let Some(verdict) = judge.verdict(out_of_time) {
                return Ok(self.found(&judge, verdict, pairs));
            }
        }
    }

    fn found(self, judge: &Judge, verdict: Verdict, pairs: Vec<Pair>) -> Found {
        let beside = |quantity: fn(&Sample) -> f64| {
            let per_work = |sample: &Sample| quantity(sample) / self.figure.work(sample);
            let logs = pairs.iter().map(|pair| (per_work(&pair.new) / per_work(&pair.old)).ln());
            Ratio::of(&logs.filter(|log| log.is_finite()).collect::<Vec<_>>(), 0.05)
        };
        Found {
            verdict,
            slowdown: judge.slowdown(),
            spent_s: self.spent().as_secs_f64(),
            beside: [
                beside(Sample::cpu_s),
                beside(|sample| sample.voluntary_switches as f64),
                beside(|sample| sample.involuntary_switches as f64),
            ],
            figure: self.figure.clone(),
            fixed_s: self.fixed_s,
            pairs,
        }
    }
}

/// What decides: pure, so that it can be tried on noise that is made up or was recorded.
#[derive(Clone, Debug)]
pub struct Judge {
    limit: f64,
    most: usize,
    looks_done: usize,
    share_now: f64,
    share_spent: f64,
    old: Vec<f64>,
    new: Vec<f64>,
}

impl Judge {
    /// For so many pairs, where a slow-down of this share fails.
    pub fn new(most: usize, fail_on: f64) -> Judge {
        let limit = fail_on.ln_1p();
        Judge { limit, most, looks_done: 0, share_now: 1.0, share_spent: 0.0, old: Vec::new(), new: Vec::new() }
    }

    /// One more pair: what each cost, less is better.
    pub fn tell(&mut self, old: f64, new: f64) {
        self.old.push(old.max(f64::MIN_POSITIVE).ln());
        self.new.push(new.max(f64::MIN_POSITIVE).ln());
    }

    /// New by old, with the interval of the last look.
    pub fn slowdown(&self) -> Option<Ratio> {
        // One side of what is divided among the looks.
        let alpha = 2.0 * ALPHA * self.share_now;
        let pairs: Vec<f64> = self.new.iter().zip(&self.old).map(|(new, old)| new - old).collect();
        let squares = |values: &[f64]| Spread::of(values).map_or(0.0, |spread| spread.squares);
        // Pairs help where what disturbs one run disturbs its neighbour too.
        match squares(&pairs) * 1.3 < squares(&self.old) + squares(&self.new) {
            true => Ratio::of(&pairs, alpha),
            false => Ratio::between(&self.new, &self.old, alpha),
        }
    }

    /// The verdict, if this is a time to look and it can be told.
    pub fn verdict(&mut self, out_of_time: bool) -> Option<Verdict> {
        let pairs = self.old.len();
        let last = pairs >= self.most || (out_of_time && pairs >= *PAIRS.start() - 1);
        let look = LOOKS.get(self.looks_done).filter(|(share, _)| {
            let after = (self.most as f64 * share).ceil() as usize;
            after > *PAIRS.start() && pairs >= after
        });
        match (last, look) {
            (true, _) => self.share_now = 1.0 - self.share_spent,
            (false, Some((_, share))) => {
                self.share_now = *share;
                self.looks_done += 1;
            }
            (false, None) => return None,
        }
        self.share_spent += self.share_now;
        let ratio = self.slowdown()?;
        let (low, high) = (ratio.low.ln(), ratio.high.ln());
        let slower = low > 0.0 && high >= self.limit;
        Some(match last {
            _ if high < 0.0 && low < -self.limit / 2.0 => Verdict::Faster,
            _ if high < self.limit && low > -self.limit => Verdict::Same,
            // Before the last look it must be clear.
            false if slower && low > self.limit / 2.0 => Verdict::Slower,
            true if slower => Verdict::Slower,
            true if high < self.limit => Verdict::Same,
            true => Verdict::CannotTell,
            false => return None,
        })
    }
}

#[cfg(test)]
mod truth;

#[cfg(test)]
mod tests {
    use super::*;

    /// Gates of builds whose runs scatter like this: how many of a hundred call the new one slower, and the same.
    fn gates(slowdown: f64, pairs: usize, mut noise: impl FnMut(&mut fastrand::Rng, usize) -> f64) -> [usize; 2] {
        let mut said = [0; 2];
        for seed in 0..400 {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut judge = Judge::new(pairs, 0.05);
            let verdict = (0..).find_map(|at| {
                let old = noise(&mut random, 2 * at);
                let new = noise(&mut random, 2 * at + 1) * slowdown;
                judge.tell(old, new);
                judge.verdict(false)
            });
            said[0] += usize::from(verdict == Some(Verdict::Slower));
            said[1] += usize::from(verdict == Some(Verdict::Same));
        }
        said.map(|n| n / 4)
    }

    fn normal(random: &mut fastrand::Rng) -> f64 {
        (0..12).map(|_| random.f64()).sum::<f64>() - 6.0
    }

    #[test]
    fn a_build_that_is_slower_fails_and_the_same_build_does_not() {
        let quiet = |random: &mut fastrand::Rng, _: usize| (0.03 * normal(random)).exp();
        assert!(gates(1.05, 60, quiet)[0] >= 95);
        assert!(gates(1.10, 20, quiet)[0] >= 95);
        let same = gates(1.0, 60, quiet);
        assert!(same[0] <= 2 && same[1] >= 95, "{same:?}");
    }

    #[test]
    fn drift_modes_and_bursts_do_not_fail_it() {
        let drift = |random: &mut fastrand::Rng, at: usize| (0.002 * at as f64 + 0.05 * normal(random)).exp();
        let modes =
            |random: &mut fastrand::Rng, _: usize| if random.f64() < 0.4 { 1.5 } else { 1.0 + 0.02 * random.f64() };
        let bursts = |random: &mut fastrand::Rng, at: usize| {
            let stolen = if at % 16 < 6 { 1.8 } else { 1.0 };
            stolen * (0.08 * normal(random)).exp()
        };
        assert!(gates(1.0, 30, drift)[0] <= 2 && gates(1.0, 30, modes)[0] <= 2 && gates(1.0, 30, bursts)[0] <= 2);
        assert!(gates(1.10, 60, drift)[0] >= 90);
    }

    #[test]
    fn what_is_slower_by_less_than_the_limit_passes_where_that_can_be_told() {
        let quiet = |random: &mut fastrand::Rng, _: usize| (0.01 * normal(random)).exp();
        assert!(gates(1.02, 60, quiet)[1] >= 95);
    }
}
