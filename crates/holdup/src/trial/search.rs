//! A whole trial: the first run, what the interposer can serve, screening, paired runs, verdict.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdup_control::Policy;
use schemars::JsonSchema;
use serde::Serialize;

use super::coverage::Coverage;
use super::figure::{Figure, Metric};
use super::flip::Flips;
use super::found::{self, Seen, Time};
use super::modes::{Goal, Pace, Paces};
use super::plan::{ALPHA, Arm, Search, Standing, Verdict};
use super::ratio::Ratio;
use super::remedy::{Change, Remedy};
use super::run::{Expected, Failure, Runner, Sample};

/// What a trial is allowed, and how it can be repeated.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How long it may take.
    pub budget: Duration,
    /// Of the order of runs.
    pub seed: u64,
    /// The exit status of a run that succeeds.
    pub code: u8,
    /// Whether stdout must not change.
    pub same_output: bool,
    /// What of its speed is to be better.
    pub goal: Goal,
    /// Whether lock policies may be compared within a run.
    pub in_process: bool,
    /// Whether remedies that nobody named may be left out where the budget has no time for them.
    pub may_leave_out: bool,
    /// The command line of what is timed, which may name a fixed time; `None` if elapsed time counts in any case.
    pub words: Option<Vec<String>>,
}

/// Follows a trial.
pub trait Watch {
    /// This is what happens now, and this share of the budget is spent.
    fn now(&mut self, what: &str, share: f64);
}

/// Sees nothing.
#[derive(Debug)]
pub struct Nobody;

impl Watch for Nobody {
    fn now(&mut self, _: &str, _: f64) {}
}

/// One run, as it is kept.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Run {
    /// Runs of one block are compared with each other.
    pub block: usize,
    /// What was run.
    pub arm: Arm,
    /// Whether it belongs to the confirmation.
    pub confirms: bool,
    /// What it took, start and end of a server included.
    pub wall_s: f64,
    /// What it yielded.
    pub sample: Option<Sample>,
    /// Why it yielded nothing.
    pub failure: Option<String>,
}

/// A remedy, and what came of it.
#[derive(Clone, Debug)]
pub struct Tried {
    /// The remedy.
    pub remedy: Remedy,
    /// Where it stands.
    pub standing: Standing,
    /// Why it failed.
    pub failure: Option<Failure>,
    /// How many times as good it makes the program, run against run.
    pub ratio: Option<Ratio>,
    /// The same within one process.
    pub flipped: Option<Ratio>,
    /// Whether its ratio comes from runs that had no part in choosing it.
    pub confirmed: bool,
    /// Its CPU time by that of the program as it is, for the same work.
    pub cpu: Option<f64>,
    /// The same with its interval, where blocks are enough for one.
    pub cpu_interval: Option<Ratio>,
    /// Its switches by those of the program as it is, for the same work.
    pub switches: Option<f64>,
    /// Its runs.
    pub runs: usize,
}

/// What a trial found.
#[derive(Clone, Debug)]
pub struct Trial {
    /// The verdict.
    pub verdict: Verdict,
    /// Every remedy, in the order in which they were given.
    pub tried: Vec<Tried>,
    /// What was compared.
    pub figure: Figure,
    /// Seconds for which the program runs whatever is done, where that was noticed.
    pub fixed_s: Option<f64>,
    /// The first run of the program as it is.
    pub first: Sample,
    /// The program as it is: the medians of its runs.
    pub baseline: Baseline,
    /// The program as it is against itself.
    pub noise: Option<Ratio>,
    /// The same within one process, if there were such comparisons.
    pub flipped_noise: Option<Ratio>,
    /// What of its locking the interposer serves; `None` if no lock was a remedy.
    pub coverage: Option<Coverage>,
    /// Every run of the paired part.
    pub runs: Vec<Run>,
    /// The windows of the comparisons within one process.
    pub flips: Option<Flips>,
    /// How steadily it runs, where the interposer serves its locks.
    pub paces: Option<Paces>,
    /// Seconds that it took.
    pub spent_s: f64,
}

impl Trial {
    /// The remedy to keep.
    pub fn winner(&self) -> Option<usize> {
        match self.verdict {
            Verdict::Helps(at) | Verdict::Saves(at) => Some(at),
            _ => None,
        }
    }
}

/// Medians of the program as it is.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct Baseline {
    /// The number that is compared: seconds, or what it printed.
    pub figure: f64,
    /// CPU time.
    pub cpu_s: f64,
    /// Switches of both kinds.
    pub switches: f64,
    /// Runs.
    pub runs: usize,
}

/// Why there is no trial.
#[derive(Clone, Debug)]
pub enum Problem {
    /// The program fails as it is; how often it had run before.
    Baseline(Failure, usize),
    /// The budget is too small for the least that can tell.
    Budget {
        /// One run takes this long.
        run_s: f64,
        /// The least budget.
        needed_s: f64,
    },
    /// It runs for a fixed time, and nothing says what it does in it.
    NoFigure {
        /// One run takes this long.
        run_s: f64,
        /// A number that it prints and that moves.
        moves: Option<Metric>,
    },
    /// There is a goal, and the interposer does not see how fast the program is.
    NoPace,
    /// There is nothing to try.
    NoRemedy,
}

/// Tries the remedies. A stop ends it early, with what is known by then.
///
/// # Errors
/// The program fails as it is, or the budget is too small.
pub fn run(
    runner: &mut dyn Runner,
    remedies: Vec<Remedy>,
    metric: Option<&Metric>,
    rules: &Rules,
    stop: &AtomicBool,
    watch: &mut dyn Watch,
) -> Result<Trial, Problem> {
    Session::begin(runner, remedies, metric, rules, stop, watch)?.finish()
}

/// A trial at work.
struct Session<'a> {
    runner: &'a mut dyn Runner,
    figure: Figure,
    fixed_s: Option<f64>,
    rules: &'a Rules,
    stop: &'a AtomicBool,
    watch: &'a mut dyn Watch,
    began: Instant,
    remedies: Vec<Remedy>,
    failures: Vec<Option<Failure>>,
    flipped: Vec<Option<Ratio>>,
    first: Sample,
    expected: Expected,
    coverage: Option<Coverage>,
    /// Runs that no comparison uses, under different conditions.
    seen: Vec<Seen>,
    flips: Option<Flips>,
    pace: Option<Pace>,
    runs: Vec<Run>,
}

/// The share of the budget for which a program is watched at least.
const PACE_SHARE: f64 = 0.06;

impl<'a> Session<'a> {
    /// The first run, which says what every other one must do.
    fn begin(
        runner: &'a mut dyn Runner,
        remedies: Vec<Remedy>,
        metric: Option<&'a Metric>,
        rules: &'a Rules,
        stop: &'a AtomicBool,
        watch: &'a mut dyn Watch,
    ) -> Result<Session<'a>, Problem> {
        if remedies.is_empty() {
            return Err(Problem::NoRemedy);
        }
        let began = runner.now();
        watch.now("as it is, for the first time", 0.0);
        let first = runner.run(None, None, rules.budget).map_err(|why| Problem::Baseline(why, 0))?;
        if first.code != rules.code {
            let failure = Failure::Status { code: first.code, expected: rules.code, words: first.words.clone() };
            return Err(Problem::Baseline(failure, 0));
        }
        let figure = match metric {
            Some(metric) => Figure::Printed(metric.clone()),
            None if rules.goal == Goal::Mean => Figure::Elapsed,
            None => Figure::Pace(rules.goal),
        };
        if matches!(figure, Figure::Pace(goal) if goal.speed(&first.speeds).is_none()) {
            return Err(Problem::NoPace);
        }
        let expected = Expected::of(&first, rules.same_output);
        let count = remedies.len();
        Ok(Session {
            runner,
            figure,
            fixed_s: None,
            rules,
            stop,
            watch,
            began,
            remedies,
            failures: vec![None; count],
            flipped: vec![None; count],
            seen: vec![seen(&first, None)],
            first,
            expected,
            coverage: None,
            flips: None,
            pace: None,
            runs: Vec::new(),
        })
    }

    fn finish(mut self) -> Result<Trial, Problem> {
        self.rule_out_what_cannot_be_had();
        self.learn_coverage();
        self.leave_out_what_it_has_not();
        self.check_budget()?;
        self.compare_in_process();
        self.find_figure()?;
        self.watch_pace(false);
        self.pair_runs()
    }

    /// CPUs, slices and policies that this machine or user does not give.
    fn rule_out_what_cannot_be_had(&mut self) {
        for (remedy, failure) in self.remedies.iter().zip(&mut self.failures) {
            if let Err(why) = holdup_run::check(&remedy.conditions()) {
                *failure = Some(Failure::Unavailable(format!("cannot be had here: {why}")));
            }
        }
    }

    /// One run with locks that do as glibc's: it shows what can be served, and whether the program stands it.
    fn learn_coverage(&mut self) {
        let is_interposed = |remedy: &Remedy| remedy.settings().is_some();
        let is_lock = |remedy: &Remedy| remedy.policy().is_some();
        if !self.remedies.iter().any(is_interposed) {
            return;
        }
        if let Some(why) = self.runner.cannot_lock() {
            self.fail(is_interposed, &Failure::Unavailable(why));
            return;
        }
        self.watch.now("which locks can be served", self.share());
        let glibc = Remedy { name: "glibc".to_owned(), change: Change::Lock(Policy::Glibc) };
        match self.runner.run(Some(&glibc), Some(&self.expected), self.expected.limit) {
            Ok(sample) => {
                let coverage = Coverage::of(&sample);
                self.seen.push(seen(&sample, None));
                if let Some(why) = coverage.refusal() {
                    self.fail(is_lock, &Failure::Unavailable(why));
                }
                if let Some(why) = coverage.rw_refusal() {
                    self.fail(Remedy::is_rw, &Failure::Unavailable(why));
                }
                self.coverage = Some(coverage);
            }
            // Each policy may still work, but what breaks the program without a change is no remedy.
            Err(failure) => self.fail(is_interposed, &failure),
        }
        let needs_count = self.coverage.as_ref().is_some_and(Coverage::wants_futex_calls);
        if needs_count && !self.stop.load(Ordering::Relaxed) {
            self.watch.now("which futex calls it makes", self.share());
            let calls = self.runner.futex_waits(self.expected.limit);
            if let Some(coverage) = &mut self.coverage {
                coverage.futex_waits_recorded = calls;
            }
        }
    }

    /// Most programs take no reader-writer lock, and nobody needs to read so in every table.
    fn leave_out_what_it_has_not(&mut self) {
        let takes_some = self.coverage.as_ref().is_some_and(|coverage| coverage.rw_refusal().is_none());
        if !self.rules.may_leave_out || takes_some || self.remedies.iter().all(Remedy::is_rw) {
            return;
        }
        let stays: Vec<bool> = self.remedies.iter().map(|remedy| !remedy.is_rw()).collect();
        let mut at = stays.iter();
        self.remedies.retain(|_| at.next() != Some(&false));
        at = stays.iter();
        self.failures.retain(|_| at.next() != Some(&false));
        self.flipped = vec![None; self.remedies.len()];
    }

    fn fail(&mut self, which: fn(&Remedy) -> bool, failure: &Failure) {
        if *failure == Failure::Stopped {
            return;
        }
        for (remedy, place) in self.remedies.iter().zip(&mut self.failures) {
            if which(remedy) {
                place.get_or_insert_with(|| failure.clone());
            }
        }
    }

    fn check_budget(&mut self) -> Result<(), Problem> {
        let run_s = self.first.wall_s;
        let budget_s = self.rules.budget.as_secs_f64();
        loop {
            let live: Vec<usize> = (0..self.failures.len()).filter(|at| self.failures[*at].is_none()).collect();
            let locks = self.live_locks().len();
            let paired = if self.can_flip() { live.len() - locks + locks.min(2) } else { live.len() };
            let needed_s = self.spent().as_secs_f64() + Search::least_s(paired, run_s);
            if paired == 0 || needed_s <= budget_s || self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            match live.last() {
                Some(last) if self.rules.may_leave_out && paired > 3 => {
                    let why = format!("the budget has no time for it; give --budget {:.0}s", (needed_s * 1.2).ceil());
                    self.failures[*last] = Some(Failure::Unavailable(why));
                }
                _ => return Err(Problem::Budget { run_s, needed_s }),
            }
        }
    }

    fn live_locks(&self) -> Vec<usize> {
        let is_live = |at: &usize| self.failures[*at].is_none() && self.remedies[*at].policy().is_some();
        (0..self.remedies.len()).filter(is_live).collect()
    }

    /// Whether a run is long enough for policies to take turns in it, and there is a choice among them. Turns tell the
    /// average, and no other goal.
    fn can_flip(&self) -> bool {
        const LONG_ENOUGH_S: f64 = 0.8;
        self.rules.in_process
            && self.rules.goal == Goal::Mean
            && self.first.elapsed_s >= LONG_ENOUGH_S
            && self.live_locks().len() > 2
    }

    /// Lets policies take turns within runs; only the best go on to be run against run.
    fn compare_in_process(&mut self) {
        if !self.can_flip() || self.stop.load(Ordering::Relaxed) {
            return;
        }
        let locks = self.live_locks();
        let policies: Vec<Policy> = locks.iter().filter_map(|at| self.remedies[*at].policy()).collect();
        self.watch.now("locks against each other within one process", self.share());
        let limit = self.rules.budget.mul_f64(0.25).max(Duration::from_secs_f64(self.first.wall_s));
        let flips = self.runner.flip(&policies, &self.expected, limit, self.rules.seed);
        let Some(flips) = flips.filter(|flips| flips.is_decisive()) else { return };
        for (policy, at) in locks.iter().enumerate() {
            self.flipped[*at] = flips.ratio(policy);
        }
        self.flips = Some(flips);
    }

    /// A program that runs for a fixed time is judged by what it does in it, never by its time.
    fn find_figure(&mut self) -> Result<(), Problem> {
        let Some(words) = self.rules.words.as_deref().filter(|_| matches!(self.figure, Figure::Elapsed)) else {
            return Ok(());
        };
        if self.failures.iter().all(Option::is_some) {
            return Ok(());
        }
        // Counted meanwhile, so that what moves can be held against the work done.
        let counts = !self.live_locks().is_empty();
        self.runner.count_acquisitions(counts);
        let looked = self.look_until_times_agree(words);
        let seen = found::shortest(&self.seen);
        let time = if looked && self.seen.len() > 2 { found::judge(&seen, words) } else { Time::Works };
        self.runner.count_acquisitions(false);
        self.heed(time).map(|_| ())
    }

    /// Compares what a fixed time asks for; whether it does.
    fn heed(&mut self, time: Time) -> Result<bool, Problem> {
        self.figure = match time {
            Time::Works => return Ok(false),
            Time::FixedPrints(metric) => Figure::Printed(metric),
            Time::FixedTakesLocks => Figure::Acquisitions,
            Time::FixedSilent(moves) => return Err(Problem::NoFigure { run_s: self.first.elapsed_s, moves }),
        };
        self.runner.count_acquisitions(matches!(self.figure, Figure::Acquisitions));
        self.fixed_s = Some(self.first.elapsed_s);
        Ok(true)
    }

    /// On a busy machine a few looks do not show that the time is fixed; more and more runs do.
    fn notice_fixed_time(&mut self, search: &mut Search) -> Result<(), Problem> {
        let Some(words) = self.rules.words.as_deref().filter(|_| matches!(self.figure, Figure::Elapsed)) else {
            return Ok(());
        };
        self.seen = found::shortest(&self.seen);
        if self.runs.is_empty() || !self.heed(found::judge(&self.seen, words))? {
            return Ok(());
        }
        for run in std::mem::take(&mut self.runs) {
            let sample = run.sample.map(|sample| self.figure.of(sample));
            if let Some(Ok(sample)) =
                sample.filter(|sample| sample.as_ref().is_ok_and(|sample| sample.metric.is_some()))
            {
                self.runs.push(Run { sample: Some(sample), ..run });
            }
        }
        let merits =
            self.runs.iter().filter_map(|run| Some((run.arm, run.block, run.sample.as_ref()?.merit(&self.figure))));
        search.judge_anew(self.standings(), merits);
        Ok(())
    }

    /// Runs it as it is and under two remedies, again and again as long as the quickest runs of each still differ as
    /// they may on a busy machine. Whether they agree.
    fn look_until_times_agree(&mut self, words: &[String]) -> bool {
        /// Most runs of each, the share of the budget for them, and what no busy machine makes of a fixed time.
        const MOST: usize = 6;
        const SHARE: f64 = 0.15;
        const CLEARLY: f64 = 1.5;
        let conditions: Vec<Option<usize>> =
            std::iter::once(None).chain(self.most_different().into_iter().map(Some)).collect();
        for _ in 0..MOST {
            for remedy in &conditions {
                self.look_at(*remedy);
                let elapsed: Vec<f64> = found::shortest(&self.seen).iter().map(|run| run.elapsed_s).collect();
                let longest = elapsed.iter().copied().fold(0.0, f64::max);
                if longest > CLEARLY * elapsed.iter().copied().fold(f64::INFINITY, f64::min) {
                    return false;
                }
            }
            let elapsed: Vec<f64> = found::shortest(&self.seen).iter().map(|run| run.elapsed_s).collect();
            if found::agree(&elapsed) || found::is_named(words, &elapsed) {
                return true;
            }
            if self.share() > SHARE || self.stop.load(Ordering::Relaxed) {
                return false;
            }
        }
        false
    }

    /// Two remedies that leave a program the least like it is: one CPU, and what did best or else is tried last.
    fn most_different(&self) -> Vec<usize> {
        let live = || (0..self.remedies.len()).filter(|at| self.failures[*at].is_none());
        let one_cpu = live().find(|at| matches!(&self.remedies[*at].change, Change::Cpus(cpus) if cpus.len() == 1));
        let flipped = |at: &usize| self.flipped[*at].map_or(0.0, |ratio| ratio.ratio);
        let locks = self.live_locks();
        let lock = locks.iter().copied().max_by(|a, b| flipped(a).total_cmp(&flipped(b)));
        let rw = live().find(|at| self.remedies[*at].is_rw());
        let mut both: Vec<usize> = lock.or(rw).into_iter().chain(one_cpu).collect();
        both.extend(live().rev().filter(|at| !both.contains(at)).take(2 - both.len()).collect::<Vec<_>>());
        both
    }

    /// A run that no comparison uses.
    fn look_at(&mut self, remedy: Option<usize>) {
        if self.stop.load(Ordering::Relaxed) {
            return;
        }
        self.watch.now("whether it runs for a fixed time", self.share());
        let at = remedy;
        let remedy = remedy.map(|at| &self.remedies[at]);
        // A remedy that fails does so again when it is compared, and is told then.
        if let Ok(sample) = self.runner.run(remedy, Some(&self.expected), self.expected.limit) {
            self.seen.push(Seen { condition: at.map_or(0, |at| at + 1), ..seen(&sample, remedy) });
        }
    }

    /// Where remedies stand before the first paired run.
    fn standings(&self) -> Vec<Standing> {
        let mut standings: Vec<Standing> = self
            .failures
            .iter()
            .map(|failure| if failure.is_some() { Standing::Failed } else { Standing::Live })
            .collect();
        let mut ranked: Vec<(usize, Ratio)> =
            self.flipped.iter().enumerate().filter_map(|(at, ratio)| Some((at, (*ratio)?))).collect();
        ranked.sort_by(|a, b| b.1.ratio.total_cmp(&a.1.ratio));
        // One that is clearly the best within a process needs nobody beside it.
        let is_clear = matches!(&ranked[..], [(_, best), (_, next), ..] if best.low > next.high && best.low > 1.1);
        for (at, _) in ranked.into_iter().skip(if is_clear { 1 } else { 2 }) {
            standings[at] = Standing::Dropped;
        }
        standings
    }

    fn pair_runs(mut self) -> Result<Trial, Problem> {
        let left_s = self.rules.budget.saturating_sub(self.spent()).as_secs_f64();
        let mut search = Search::new(self.standings(), left_s, self.rules.seed);
        loop {
            if search.is_between_blocks() {
                self.notice_fixed_time(&mut search)?;
            }
            let Some(step) = search.next_step() else { break };
            self.announce(step.arm, step.confirms);
            let remedy = remedy_of(step.arm).map(|at| self.remedies[at].clone());
            let began = self.spent();
            let outcome = self.runner.run(remedy.as_ref(), Some(&self.expected), self.expected.limit);
            if let (Ok(sample), Figure::Elapsed) = (&outcome, &self.figure) {
                self.seen.push(Seen {
                    condition: remedy_of(step.arm).map_or(0, |at| at + 1),
                    ..seen(sample, remedy.as_ref())
                });
            }
            let outcome = outcome.and_then(|sample| self.figure.of(sample));
            let wall_s = outcome.as_ref().map_or((self.spent() - began).as_secs_f64(), |sample| sample.wall_s);
            let failure = outcome.as_ref().err().map(ToString::to_string);
            self.runs.push(Run {
                block: step.block,
                arm: step.arm,
                confirms: step.confirms,
                wall_s,
                sample: outcome.as_ref().ok().cloned(),
                failure,
            });
            match (outcome, step.arm) {
                (Ok(sample), _) => search.tell(step, sample.merit(&self.figure), wall_s),
                (Err(Failure::Stopped), _) => search.stop(),
                (Err(failure), Arm::Remedy(at)) => {
                    search.fail(at, wall_s);
                    self.failures[at] = Some(failure);
                }
                (Err(failure), _) => return Err(Problem::Baseline(failure, self.runs.len())),
            }
            if self.stop.load(Ordering::Relaxed) {
                search.stop();
            }
        }
        let verdict = self.verdict(&search);
        let paces = self.paces(verdict);
        Ok(self.result(&search, verdict, paces))
    }

    /// How steadily it runs as it is, where that can be seen, and there is time for it before runs are compared or
    /// when they are.
    fn watch_pace(&mut self, is_last: bool) {
        let serves = self.coverage.as_ref().is_some_and(|coverage| coverage.refusal().is_none());
        let compared = self.standings().iter().filter(|standing| **standing == Standing::Live).count();
        let for_runs = Duration::from_secs_f64(Search::least_s(compared, self.first.wall_s));
        let left = self.rules.budget.saturating_sub(self.spent() + for_runs);
        let has_time = is_last || left >= self.rules.budget.mul_f64(PACE_SHARE);
        if serves && has_time && self.pace.is_none() && !self.stop.load(Ordering::Relaxed) {
            self.pace = self.pace_under(Policy::Glibc, left);
        }
    }

    /// As it is, and under the winner.
    fn paces(&mut self, verdict: Verdict) -> Option<Paces> {
        self.watch_pace(true);
        let as_it_is = self.pace.take()?;
        let policy = match verdict {
            Verdict::Helps(at) | Verdict::Saves(at) => self.remedies[at].policy(),
            _ => None,
        };
        let winner = policy.and_then(|policy| self.pace_under(policy, Duration::ZERO));
        Some(Paces { as_it_is, winner })
    }

    /// More runs under a policy: for a small part of the budget, and if it changes between speeds, until the shares of
    /// these are known, for a larger part of what is left of it.
    fn pace_under(&mut self, policy: Policy, left: Duration) -> Option<Pace> {
        const MOST: f64 = 0.25;
        const KNOWN: f64 = 0.07;
        self.watch.now("how steadily it runs", self.share().min(1.0));
        let began = self.spent();
        let least = self.rules.budget.mul_f64(PACE_SHARE);
        let most = least.max(left.min(self.rules.budget.mul_f64(MOST)));
        let mut speeds = Vec::new();
        loop {
            let so_far = self.spent() - began;
            let pace = Pace::of(&speeds);
            let is_known = pace.as_ref().is_some_and(|pace| pace.share_within <= KNOWN);
            if so_far >= most || (so_far >= least && is_known) || self.stop.load(Ordering::Relaxed) {
                return pace;
            }
            match self.runner.watch(policy, least.min(most - so_far)) {
                Some(more) if !more.is_empty() => speeds.extend(more),
                _ => return pace,
            }
        }
    }

    fn announce(&mut self, arm: Arm, confirms: bool) {
        let what = match arm {
            Arm::Remedy(at) => self.remedies[at].name.as_str(),
            _ => "as it is",
        };
        let what = if confirms { format!("{what}, to confirm") } else { what.to_owned() };
        let share = self.share();
        self.watch.now(&what, share);
    }

    fn spent(&self) -> Duration {
        self.runner.now() - self.began
    }

    fn share(&self) -> f64 {
        self.spent().as_secs_f64() / self.rules.budget.as_secs_f64()
    }

    fn verdict(&self, search: &Search) -> Verdict {
        with_savings(search.verdict(), &self.tried(search))
    }

    fn tried(&self, search: &Search) -> Vec<Tried> {
        let of = Arms { runs: &self.runs, figure: &self.figure };
        // Any of them could be the one that saves most.
        let alpha = 2.0 * ALPHA / self.remedies.len() as f64;
        let tried = self.remedies.iter().enumerate().map(|(at, remedy)| {
            let arm = Arm::Remedy(at);
            Tried {
                remedy: remedy.clone(),
                standing: if self.failures[at].is_some() { Standing::Failed } else { search.standing(at) },
                failure: self.failures[at].clone(),
                ratio: search.ratio(at).filter(|_| self.failures[at].is_none()),
                flipped: self.flipped[at],
                confirmed: search.is_confirmed(at),
                cpu_interval: Ratio::of(&of.logs_against_baseline(arm, Sample::cpu_s), alpha),
                cpu: of.against_baseline(arm, Sample::cpu_s),
                switches: of.against_baseline(arm, Sample::switches),
                runs: of.samples(arm).count(),
            }
        });
        tried.collect()
    }

    fn result(self, search: &Search, verdict: Verdict, paces: Option<Paces>) -> Trial {
        let tried = self.tried(search);
        let baseline = Arms { runs: &self.runs, figure: &self.figure }.baseline(&self.first);
        let spent_s = self.spent().as_secs_f64();
        Trial {
            verdict,
            tried,
            baseline,
            first: self.first,
            figure: self.figure.clone(),
            fixed_s: self.fixed_s,
            noise: search.noise(),
            flipped_noise: self.flips.as_ref().and_then(Flips::noise),
            coverage: self.coverage,
            runs: self.runs,
            flips: self.flips,
            paces,
            spent_s,
        }
    }
}

/// Where nothing makes a program faster, saving CPU time at the same speed is a gain too. What turns within a process
/// show to be faster is not called nothing.
fn with_savings(verdict: Verdict, tried: &[Tried]) -> Verdict {
    /// A remedy may be slower by so much, and must save so much for sure.
    const NO_SLOWER: f64 = 0.93;
    const SAVES: f64 = 0.85;
    /// A gain in turns that is more than how turns influence each other.
    const FASTER_IN_TURNS: f64 = 1.1;
    let saves = |one: &Tried| {
        let cpu = one.cpu_interval.filter(|cpu| cpu.high <= SAVES)?;
        one.ratio.filter(|speed| speed.low >= NO_SLOWER && one.failure.is_none()).map(|_| cpu.ratio)
    };
    let savings = tried.iter().enumerate().filter_map(|(at, one)| Some((at, saves(one)?)));
    let most = savings.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| Verdict::Saves(at));
    let in_turns = |one: &Tried| one.failure.is_none() && one.flipped.is_some_and(|ratio| ratio.low > FASTER_IN_TURNS);
    match verdict {
        Verdict::Nothing | Verdict::Noisy if most.is_some() => most.unwrap_or(verdict),
        Verdict::Nothing if tried.iter().any(in_turns) => Verdict::Noisy,
        _ => verdict,
    }
}

fn remedy_of(arm: Arm) -> Option<usize> {
    match arm {
        Arm::Remedy(at) => Some(at),
        _ => None,
    }
}

/// What of a run tells whether its time is fixed.
fn seen(sample: &Sample, remedy: Option<&Remedy>) -> Seen {
    Seen {
        elapsed_s: sample.elapsed_s,
        cpu_s: sample.cpu_s(),
        acquisitions: sample.acquisitions(),
        condition: 0,
        on_one_cpu: remedy.is_some_and(|remedy| matches!(&remedy.change, Change::Cpus(cpus) if cpus.len() == 1)),
        printed: sample.printed.clone(),
    }
}

/// Sums over runs.
struct Arms<'a> {
    runs: &'a [Run],
    figure: &'a Figure,
}

impl Arms<'_> {
    fn samples(&self, arm: Arm) -> impl Iterator<Item = &Sample> {
        self.runs.iter().filter(move |run| run.arm == arm).filter_map(|run| run.sample.as_ref())
    }

    fn as_it_is(&self) -> impl Iterator<Item = &Sample> {
        self.samples(Arm::Baseline).chain(self.samples(Arm::Control))
    }

    /// A quantity for the same work, by that of the program as it is: the median over blocks.
    fn against_baseline(&self, arm: Arm, quantity: impl Fn(&Sample) -> f64) -> Option<f64> {
        crate::stats::median(&self.logs_against_baseline(arm, quantity)).map(f64::exp)
    }

    /// The logarithms of these ratios, block by block.
    fn logs_against_baseline(&self, arm: Arm, quantity: impl Fn(&Sample) -> f64) -> Vec<f64> {
        let per_work = |run: &Run| run.sample.as_ref().map(|sample| quantity(sample) / self.figure.work(sample));
        self.runs
            .iter()
            .filter(|run| run.arm == arm)
            .filter_map(|run| {
                let as_it_is = self
                    .runs
                    .iter()
                    .filter(|other| other.block == run.block && matches!(other.arm, Arm::Baseline | Arm::Control));
                let under: Vec<f64> = as_it_is.filter_map(per_work).collect();
                let under = under.iter().sum::<f64>() / under.len() as f64;
                let ratio = per_work(run)? / under;
                (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
            })
            .collect()
    }

    fn baseline(&self, first: &Sample) -> Baseline {
        let median = |quantity: &dyn Fn(&Sample) -> f64| {
            let values: Vec<f64> = self.as_it_is().map(quantity).collect();
            crate::stats::median(&values).unwrap_or_else(|| quantity(first))
        };
        Baseline {
            figure: median(&|sample| sample.metric.unwrap_or(sample.elapsed_s)),
            cpu_s: median(&Sample::cpu_s),
            switches: median(&Sample::switches),
            runs: self.as_it_is().count(),
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod truth;
