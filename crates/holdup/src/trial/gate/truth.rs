//! Whole gates, in a time of their own: how often a build that is slower fails, and one that is not. What disturbs the
//! runs is made up, or is what was recorded of real ones; the gate, its looks and its budget are those of `holdup
//! gate`. `cargo xtask gate-truth` judges thousands.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use holdup_control::Policy;

use super::*;
use crate::trial::flip::Flips;
use crate::trial::search::Nobody;

/// How long a run takes if nothing disturbs it, and what starting a process takes.
const RUN_S: f64 = 0.2;
const START_S: f64 = 0.003;

/// What makes runs of one program differ.
#[derive(Clone, Debug)]
enum Noise {
    /// Little: 2%.
    Quiet,
    /// The machine grows slower and faster by 15% within 40 s.
    Drift,
    /// Three runs of ten are slow from their start to their end, by a quarter.
    Modes,
    /// Another process comes for seconds at a time, and takes a good third.
    Steal,
    /// As long as real runs were, in stretches that follow each other by chance: the stationary bootstrap of Politis
    /// and Romano (1994), which keeps drifts, modes and bursts that are shorter than a stretch.
    Recorded(Vec<f64>),
}

/// Runs that are taken from a recording in a row, on average.
const STRETCH: f64 = 30.0;

/// What both builds share.
#[derive(Debug)]
struct Machine {
    noise: Noise,
    random: fastrand::Rng,
    began: Instant,
    now_s: f64,
    /// Where in its drift it is, or in the recording.
    at: f64,
    /// Whether another process is there, and until when that is so.
    stolen: bool,
    until_s: f64,
}

impl Machine {
    fn new(noise: &Noise, seed: u64) -> Machine {
        let mut random = fastrand::Rng::with_seed(seed);
        let at = random.f64();
        let (began, noise) = (Instant::now(), noise.clone());
        Machine { noise, random, began, now_s: 0.0, at, stolen: false, until_s: 0.0 }
    }

    /// By how much the next run is longer than it need be.
    fn factor(&mut self) -> f64 {
        let scatter = (0.02 * self.normal()).exp();
        match &self.noise {
            Noise::Quiet => scatter,
            Noise::Drift => scatter * (1.0 + 0.15 * ((self.now_s / 40.0 + self.at) * std::f64::consts::TAU).sin()),
            Noise::Modes => scatter * if self.random.f64() < 0.3 { 1.25 } else { 1.0 },
            Noise::Steal => {
                while self.now_s >= self.until_s {
                    self.stolen = !self.stolen;
                    let mean_s = if self.stolen { 3.0 } else { 5.0 };
                    self.until_s += -mean_s * self.random.f64().max(1e-12).ln();
                }
                scatter * if self.stolen { 1.6 } else { 1.0 }
            }
            Noise::Recorded(runs) => {
                let next = (self.at * runs.len() as f64) as usize;
                let value = runs[next];
                let goes_on = self.random.f64() > 1.0 / STRETCH;
                let next = if goes_on { (next + 1) % runs.len() } else { self.random.usize(..runs.len()) };
                // In the middle of its place, so that rounding does not lead to a neighbour.
                self.at = (next as f64 + 0.5) / runs.len() as f64;
                value
            }
        }
    }

    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.random.f64()).sum::<f64>() - 6.0
    }
}

/// A build on that machine.
struct Build {
    machine: Rc<RefCell<Machine>>,
    slowdown: f64,
    /// Whether it runs for a fixed time, whatever is done.
    is_fixed: bool,
}

impl Runner for Build {
    fn run(&mut self, remedy: Option<&Remedy>, _: Option<&Expected>, _: Duration) -> Result<Sample, Failure> {
        let mut machine = self.machine.borrow_mut();
        let on_one_cpu = remedy.is_some();
        let elapsed_s = match self.is_fixed {
            true => RUN_S,
            false => RUN_S * self.slowdown * machine.factor(),
        };
        if on_one_cpu && !self.is_fixed {
            // It works on two CPUs, and one has twice as much to do.
            return Err(Failure::Hung { limit_s: elapsed_s });
        }
        machine.now_s += elapsed_s + START_S;
        Ok(Sample {
            elapsed_s,
            user_s: elapsed_s * if on_one_cpu { 1.0 } else { 1.9 },
            kernel_s: 0.0,
            voluntary_switches: 10,
            involuntary_switches: 3,
            metric: None,
            code: 0,
            stdout_hash: 1,
            wall_s: elapsed_s + START_S,
            words: String::new(),
            printed: Default::default(),
            speeds: Vec::new(),
            processes: Vec::new(),
        })
    }

    fn cannot_lock(&self) -> Option<String> {
        None
    }

    fn futex_waits(&mut self, _: Duration) -> Option<u64> {
        None
    }

    fn count_acquisitions(&mut self, _: bool) {}

    fn flip(&mut self, _: &[Policy], _: &Expected, _: Duration, _: u64) -> Option<Flips> {
        None
    }

    fn watch(&mut self, _: Policy, _: Duration) -> Option<Vec<f64>> {
        None
    }

    fn now(&self) -> Instant {
        let machine = self.machine.borrow();
        machine.began + Duration::from_secs_f64(machine.now_s)
    }
}

fn gate(noise: &Noise, slowdown: f64, budget_s: f64, seed: u64, is_fixed: bool) -> Result<Found, Problem> {
    let machine = Rc::new(RefCell::new(Machine::new(noise, seed + 1)));
    let build = |slowdown| Build { machine: Rc::clone(&machine), slowdown, is_fixed };
    let (mut old, mut new) = (build(1.0), build(slowdown));
    let budget = Duration::from_secs_f64(budget_s);
    let rules = Rules { budget, fail_on: 0.05, seed, code: 0, words: Some(vec!["program".to_owned()]) };
    run([&mut old, &mut new], Figure::Elapsed, &rules, &AtomicBool::new(false), &mut Nobody)
}

/// What gates say, in this order: slower, the same, faster, cannot tell.
fn said(noise: &Noise, slowdown: f64, budget_s: f64, count: usize) -> [usize; 4] {
    let mut said = [0; 4];
    for seed in 0..count as u64 {
        let found = gate(noise, slowdown, budget_s, seed, false).unwrap();
        assert!(found.spent_s <= budget_s + 10.0, "{} s", found.spent_s);
        said[match found.verdict {
            Verdict::Slower => 0,
            Verdict::Same => 1,
            Verdict::Faster => 2,
            Verdict::CannotTell | Verdict::Stopped => 3,
        }] += 1;
    }
    said
}

/// Of so many gates of each kind; few in every test run, more with `HOLDUP_GATES`.
fn count() -> usize {
    std::env::var("HOLDUP_GATES").ok().and_then(|text| text.parse().ok()).unwrap_or(40)
}

/// Series of recorded runs, each by its name: those of the repository, or of the file that `HOLDUP_NOISE` names.
fn recorded() -> Vec<(String, Noise)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/noise");
    let files: Vec<PathBuf> = match std::env::var_os("HOLDUP_NOISE") {
        Some(file) => vec![file.into()],
        None => std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect(),
    };
    let series = |line: &str| {
        let (name, values) = line.split_once('\t')?;
        let values: Vec<f64> = values.split(' ').filter_map(|value| value.parse().ok()).collect();
        let middle = crate::stats::median(&values)?;
        let is_enough = values.len() >= 50;
        is_enough.then(|| (name.to_owned(), Noise::Recorded(values.iter().map(|value| value / middle).collect())))
    };
    let texts = files.iter().map(|path| std::fs::read_to_string(path).unwrap());
    texts.flat_map(|text| text.lines().filter_map(series).collect::<Vec<_>>()).collect()
}

/// Whether a share of the gates is enough, where few of them may miss it by three standard errors.
fn reaches(n: usize, of: usize, share: f64) -> bool {
    n as f64 / of as f64 >= share - 3.0 * (share * (1.0 - share) / of as f64).sqrt()
}

#[test]
fn a_build_that_is_slower_fails_in_the_time_that_it_is_given_and_the_same_build_does_not() {
    let count = count();
    let made_up = [
        ("made up: 2% scatter", Noise::Quiet),
        ("made up: drift by 15% in 40 s", Noise::Drift),
        ("made up: 3 of 10 runs slow by 25%", Noise::Modes),
        ("made up: another process for seconds", Noise::Steal),
    ];
    let all = made_up.map(|(name, noise)| (name.to_owned(), noise)).into_iter().chain(recorded());
    println!(
        "| noise | slow-down | budget | slower | the same | faster | cannot tell |\n|---|---|---|---|---|---|---|"
    );
    let mut missed = Vec::new();
    for (name, noise) in all {
        for (slowdown, budget_s) in [(1.0, 60.0), (1.1, 60.0), (1.05, 300.0)] {
            let said = said(&noise, slowdown, budget_s, count);
            let shares = said.map(|n| format!("{:.1}%", n as f64 * 100.0 / count as f64)).join(" | ");
            let more = (slowdown - 1.0) * 100.0;
            let row = format!("| {name} | {more:.0}% | {:.0} min | {shares} |", budget_s / 60.0);
            println!("{row}");
            let is_right = match slowdown > 1.0 {
                true => reaches(said[0], count, 0.9),
                false => reaches(count - said[0], count, 0.98),
            };
            if !is_right {
                missed.push(row);
            }
        }
    }
    assert!(missed.is_empty(), "\n{}", missed.join("\n"));
}

#[test]
fn builds_that_run_for_a_fixed_time_and_print_nothing_are_not_called_the_same() {
    let refused = gate(&Noise::Quiet, 1.0, 60.0, 1, true);
    assert!(matches!(refused, Err(Problem::NoFigure(..))), "{refused:?}");
}
