//! Whole searches, in a time of their own, among six programs that change their speed by themselves: how often a
//! remedy that helps is found, and one that does not is announced. Programs and time are made up; the search, its looks
//! for a fixed time, turns and watching are those of `holdup try`. `cargo xtask try-truth` runs many of them.

use super::tests::{remedies, rules, sample, served};
use super::*;
use crate::trial::flip::{self, Process};
use crate::trial::modes::STEP;

/// Why a program's speed changes.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    /// A convoy forms and dissolves, every few hundred ms.
    Convoy,
    /// How many of its threads share an arena of malloc: by chance at the start, and again every few seconds.
    Arenas,
    /// Two threads on one CPU, or each on its own: by chance at the start, until the scheduler moves one.
    Placement,
    /// It stops for a while, again and again.
    Pauses,
    /// The machine grows slower and faster over half a minute, whatever is done.
    Clock,
    /// Where its data happen to lie: by chance at the start.
    Alignment,
}

const CAUSES: [(Cause, &str); 6] = [
    (Cause::Convoy, "a convoy comes and goes"),
    (Cause::Arenas, "threads share arenas by chance"),
    (Cause::Placement, "threads share a CPU by chance"),
    (Cause::Pauses, "pauses, as for garbage"),
    (Cause::Clock, "the CPU's clock drifts"),
    (Cause::Alignment, "alignment by chance at the start"),
];

/// The remedy that helps; the others leave the program as it is.
const CURE: &str = "throttle:1";
/// Acquisitions a second at full speed.
const FULL: f64 = 24e6;
const TICK_S: f64 = 0.001;

/// A program at work, in a time of its own.
struct Program {
    cause: Cause,
    /// Under the remedy that helps it keeps this share of the full speed; without one that remedy changes nothing.
    steady: Option<f64>,
    random: fastrand::Rng,
    began: Instant,
    now_s: f64,
    /// Where in its drift the machine began.
    phase: f64,
    /// Share of the full speed, and until when it lasts.
    speed: f64,
    until_s: f64,
    stolen_until_s: f64,
    policy: Policy,
    acquisitions: f64,
    /// The work of a run, in seconds at full speed.
    work_s: f64,
}

impl Program {
    fn new(cause: Cause, steady: Option<f64>, work_s: f64, seed: u64) -> Program {
        let mut random = fastrand::Rng::with_seed(seed);
        let (phase, began) = (random.f64(), Instant::now());
        Program {
            cause,
            steady,
            random,
            began,
            now_s: 0.0,
            phase,
            speed: 1.0,
            until_s: 0.0,
            stolen_until_s: 0.0,
            policy: Policy::Glibc,
            acquisitions: 0.0,
            work_s,
        }
    }

    /// How long a state lasts that ends by chance, as likely in one moment as in the next.
    fn about_s(&mut self, mean_s: f64) -> f64 {
        -mean_s * self.random.f64().max(1e-12).ln()
    }

    fn start(&mut self) {
        self.acquisitions = 0.0;
        self.policy = Policy::Glibc;
        (self.speed, self.until_s) = match self.cause {
            Cause::Convoy | Cause::Pauses => (1.0, self.now_s),
            Cause::Clock => (1.0, f64::INFINITY),
            Cause::Alignment => (if self.random.bool() { 1.0 } else { 1.0 / 3.0 }, f64::INFINITY),
            Cause::Arenas | Cause::Placement => (0.0, self.now_s),
        };
        // Until it takes its first lock.
        self.now_s += 0.01 + 0.01 * self.random.f64();
    }

    /// Another state, whatever brought it about.
    fn change(&mut self) {
        let (speed, lasts_s) = match self.cause {
            Cause::Convoy if self.speed == 1.0 => (1.0 / 3.0, self.about_s(0.28)),
            Cause::Convoy => (1.0, self.about_s(0.15)),
            Cause::Arenas => {
                let mut shared = [0_u32; 3];
                (0..4).for_each(|_| shared[self.random.usize(..3)] += 1);
                (1.0 / f64::from(shared.into_iter().max().unwrap_or(1)), self.about_s(2.0))
            }
            Cause::Placement => (if self.random.bool() { 1.0 } else { 0.4 }, self.about_s(1.5)),
            Cause::Pauses if self.speed == 1.0 => (0.0, 0.05 + 0.02 * self.random.f64()),
            Cause::Pauses => (1.0, 0.05 + 0.05 * self.random.f64()),
            Cause::Clock | Cause::Alignment => (self.speed, f64::INFINITY),
        };
        (self.speed, self.until_s) = (speed, self.now_s + lasts_s);
    }

    fn tick(&mut self) {
        if self.now_s >= self.until_s {
            self.change();
        }
        if self.random.f64() < TICK_S {
            // Another process takes a CPU, once a second or so.
            self.stolen_until_s = self.now_s + 0.03 * self.random.f64();
        }
        let cured = self.steady.filter(|_| self.policy == Policy::Throttle(1));
        let clock = match self.cause {
            Cause::Clock => 1.0 + 0.3 * ((self.now_s / 30.0 + self.phase) * std::f64::consts::TAU).sin(),
            _ => 1.0,
        };
        let stolen = if self.now_s < self.stolen_until_s { 0.5 } else { 1.0 };
        let speed = cured.unwrap_or(self.speed) * clock * stolen * (0.97 + 0.06 * self.random.f64());
        self.acquisitions += FULL * speed * TICK_S;
        self.now_s += TICK_S;
    }

    /// Whether its work is done.
    fn is_over(&self) -> bool {
        self.acquisitions >= FULL * self.work_s
    }

    fn run_under(&mut self, policy: Policy) -> f64 {
        let from_s = self.now_s;
        self.start();
        self.policy = policy;
        while !self.is_over() {
            self.tick();
        }
        self.now_s - from_s
    }

    /// Speeds of a run, step by step, for so long at most.
    fn steps(&mut self, policy: Policy, limit_s: f64) -> Vec<f64> {
        self.start();
        self.policy = policy;
        let ends_s = self.now_s + limit_s;
        // As in a real program the start does not count.
        (0..100).for_each(|_| self.tick());
        let (mut before, mut speeds) = (self.acquisitions, Vec::new());
        while !self.is_over() && self.now_s < ends_s {
            (0..(STEP.as_secs_f64() / TICK_S) as usize).for_each(|_| self.tick());
            speeds.push((self.acquisitions - before) / STEP.as_secs_f64());
            before = self.acquisitions;
        }
        speeds
    }
}

impl Process for Program {
    fn set(&mut self, policy: Policy) {
        self.policy = policy;
    }

    fn acquisitions(&mut self) -> u64 {
        self.acquisitions as u64
    }

    fn run_for(&mut self, time: Duration) -> bool {
        (0..time.as_millis()).for_each(|_| self.tick());
        !self.is_over()
    }

    fn now(&self) -> Instant {
        Runner::now(self)
    }
}

impl Runner for Program {
    fn run(&mut self, remedy: Option<&Remedy>, _: Option<&Expected>, _: Duration) -> Result<Sample, Failure> {
        // Where locks are no remedy, a variable of this name stands for it.
        let cures = remedy.is_some_and(|remedy| remedy.name == CURE);
        let elapsed_s = self.run_under(if cures { Policy::Throttle(1) } else { Policy::Glibc });
        let taken = (FULL * self.work_s) as u64;
        let is_lock = remedy.is_some_and(|remedy| remedy.policy().is_some());
        let processes = if is_lock { vec![served(taken, taken / 2)] } else { Vec::new() };
        Ok(Sample { processes, ..sample(elapsed_s) })
    }

    fn cannot_lock(&self) -> Option<String> {
        None
    }

    fn futex_waits(&mut self, _: Duration) -> Option<u64> {
        None
    }

    fn count_acquisitions(&mut self, _: bool) {}

    fn flip(&mut self, policies: &[Policy], _: &Expected, limit: Duration, seed: u64) -> Option<Flips> {
        let deadline = Runner::now(self) + limit;
        let (mut random, mut flips) = (fastrand::Rng::with_seed(seed), Flips::new(policies.len()));
        while Runner::now(self) < deadline && !flips.is_enough() {
            self.start();
            flip::measure(self, policies, &mut flips, deadline, &mut random);
        }
        Some(flips)
    }

    fn watch(&mut self, policy: Policy, limit: Duration) -> Option<Vec<f64>> {
        Some(self.steps(policy, limit.as_secs_f64().max(0.2)))
    }

    fn now(&self) -> Instant {
        self.began + Duration::from_secs_f64(self.now_s)
    }
}

/// The work for which a run as it is takes so long on average, and the speed with which the cure gains so much: both
/// from many runs.
fn calibrated(cause: Cause, run_s: f64, gain: f64) -> (f64, f64) {
    let runs = (25 * count()).min(1000);
    let runs_s = |steady: Option<f64>, work_s: f64| {
        let mut program = Program::new(cause, steady, work_s, 77);
        let policy = if steady.is_some() { Policy::Throttle(1) } else { Policy::Glibc };
        let run_s = |_| {
            // Starts are spread over the drift.
            program.now_s += 0.37;
            program.run_under(policy)
        };
        (0..runs).map(run_s).collect::<Vec<f64>>()
    };
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let mean_log = |steady, work_s| mean(&runs_s(steady, work_s).iter().map(|s| s.ln()).collect::<Vec<_>>());
    let work_s = run_s * run_s / mean(&runs_s(None, run_s));
    let wanted = mean_log(None, work_s) - gain.ln();
    // A run is more than its work, so that the speed is not quite proportional.
    let nearer = |speed: f64| speed * (mean_log(Some(speed), work_s) - wanted).exp();
    (work_s, nearer(nearer(nearer(1.0))))
}

/// What many searches say of a program.
#[derive(Clone, Copy, Default)]
struct Said {
    found: usize,
    wrong: usize,
    undecided: usize,
    /// Those whose interval of the cure has the true gain in it, of those that found it.
    covered: usize,
}

/// Searches with this remedy and one that changes nothing, where the budget has time for so many blocks.
fn searches(cause: Cause, gain: Option<f64>, run_s: f64, blocks: usize, count: usize) -> Said {
    let (work_s, speed) = calibrated(cause, run_s, gain.unwrap_or(1.0));
    let mut said = Said::default();
    for seed in 0..count as u64 {
        let mut program = Program::new(cause, gain.map(|_| speed), work_s, seed + 1);
        // Both runs as it is and both remedies of each block; and what comes before the first of them.
        let budget = Duration::from_secs_f64(run_s * (4 * blocks + 6) as f64);
        let rules = Rules { budget, seed, words: Some(vec!["program".to_owned()]), ..rules() };
        let mut tried = remedies(&["A", "B"]);
        tried[seed as usize % 2].name = CURE.to_owned();
        let trial = match run(&mut program, tried, None, &rules, &AtomicBool::new(false), &mut Nobody) {
            // The first run was so slow that the budget seemed too small.
            Err(Problem::Budget { .. }) => {
                said.undecided += 1;
                continue;
            }
            trial => trial.unwrap(),
        };
        assert!(matches!(trial.figure, Figure::Elapsed), "{cause:?} works until it is done");
        match trial.verdict {
            Verdict::Helps(at) if gain.is_some_and(|gain| gain > 1.0) && at == seed as usize % 2 => {
                said.found += 1;
                let ratio = trial.tried[at].ratio.unwrap();
                said.covered += usize::from(gain.is_some_and(|gain| ratio.low <= gain && gain <= ratio.high));
            }
            Verdict::Helps(_) => said.wrong += 1,
            Verdict::Nothing => {}
            _ => said.undecided += 1,
        }
    }
    said
}

/// Of so many searches; few in every test run, more with `HOLDUP_SEARCHES`.
fn count() -> usize {
    std::env::var("HOLDUP_SEARCHES").ok().and_then(|text| text.parse().ok()).unwrap_or(8)
}

/// Whether a share of the searches is enough, where few of them may miss it by three standard errors.
fn reaches(n: usize, of: usize, share: f64) -> bool {
    n as f64 / of as f64 >= share - 3.0 * (share * (1.0 - share) / of as f64).sqrt()
}

const SHORT: (f64, usize) = (0.4, 28);
const LONG: (f64, usize) = (1.6, 7);

#[test]
fn a_cure_of_a_bistable_program_is_found_and_none_is_announced_that_is_none() {
    let count = count();
    println!(
        "| program | runs of each | gain | found | interval right | wrong | undecided |\n|---|---|---|---|---|---|---|"
    );
    let mut missed = Vec::new();
    for (cause, about) in CAUSES {
        for (gain, (run_s, blocks), least) in [
            (None, SHORT, None),
            (Some(1.0), SHORT, None),
            (Some(1.0), LONG, None),
            (Some(1.3), SHORT, None),
            (Some(1.7), SHORT, Some(0.95)),
            (Some(3.0), SHORT, Some(0.95)),
            (Some(1.7), LONG, Some(0.85)),
            (Some(3.0), LONG, Some(0.85)),
        ] {
            // Few searches show no more than whether all is well; the other rows are for the table.
            if count < 100 && !matches!(gain, None | Some(1.7)) {
                continue;
            }
            let said = searches(cause, gain, run_s, blocks, count);
            let of = |n: usize| format!("{:.1}%", n as f64 * 100.0 / count as f64);
            let shown = gain.map_or_else(|| "as it is".to_owned(), |gain| format!("{gain} steady"));
            let row = format!(
                "| {about} | {blocks} of {run_s} s | {shown} | {} | {}/{} | {} | {} |",
                of(said.found),
                said.covered,
                said.found,
                of(said.wrong),
                of(said.undecided)
            );
            println!("{row}");
            let is_enough = least.is_none_or(|least| reaches(said.found, count, least));
            if !is_enough || !reaches(count - said.wrong, count, 0.975) {
                missed.push(row);
            }
        }
    }
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

#[test]
fn turns_within_a_process_choose_the_policy_that_ends_a_convoy_and_its_modes_are_told() {
    let count = count();
    let names = ["spin-park:100", "ttas", "capped:1", CURE];
    let (work_s, speed) = calibrated(Cause::Convoy, 2.0, 1.7);
    let (mut found, mut wrong, mut near, mut told, mut off) = (0, 0, 0, 0, 0.0);
    for seed in 0..count as u64 {
        for cures in [true, false] {
            let mut program = Program::new(Cause::Convoy, cures.then_some(speed), work_s, seed + 1);
            let rules = Rules { budget: Duration::from_secs(120), seed, ..rules() };
            let trial =
                run(&mut program, remedies(&names), None, &rules, &AtomicBool::new(false), &mut Nobody).unwrap();
            assert!(trial.flips.is_some(), "runs are long enough for turns");
            let helps = matches!(trial.verdict, Verdict::Helps(_));
            found += usize::from(cures && trial.verdict == Verdict::Helps(3));
            wrong += usize::from(helps && (!cures || trial.verdict != Verdict::Helps(3)));
            let mut program = Program::new(Cause::Convoy, None, f64::INFINITY, seed + 1001);
            let long = Pace::of(&program.steps(Policy::Glibc, 60.0)).unwrap();
            let paces = trial.paces.unwrap();
            if let [mode, _] = paces.as_it_is.modes[..] {
                told += 1;
                near += usize::from((mode.share - long.modes[0].share).abs() <= 0.1);
                off += (mode.share - long.modes[0].share) / (2 * count) as f64;
            }
            assert!(!cures || !helps || paces.winner.is_some_and(|pace| !pace.is_bistable()));
        }
    }
    println!(
        "turns, gain 1.7: found in {found} of {count}, wrong in {wrong} of {}; two modes told in {told}, their shares \
         within 10 points of those of 60 s in {near} ({:+.1} points on average)",
        2 * count,
        off * 100.0
    );
    assert!(reaches(found, count, 0.95) && reaches(2 * count - wrong, 2 * count, 0.975));
    assert!(reaches(told, 2 * count, 0.95) && reaches(near, told, 0.95));
}
