//! An experiment as its file declares it.

use std::collections::BTreeMap;
use std::time::Duration;

use holdup_bench::spec::{Budget, Spec};

use super::expr::{Expr, Series};
use super::machine::Machine;
use super::sentence::Sentence;
use crate::claim::Setting;
use crate::plan::{Plan, Sweep};
use crate::plot::Plot;

/// One file: what to measure, how to draw it, and what was claimed about it.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The file it comes from, as messages name it.
    pub path: String,
    /// Short name, such as `hart`.
    pub name: String,
    /// Title for people.
    pub title: String,
    /// Who published it, where and when.
    pub source: String,
    /// What it is about, in a few sentences.
    pub about: String,
    /// Names that stand for locks or other factor values.
    pub series: Vec<Series>,
    /// What is measured.
    pub sweeps: Vec<DeclaredSweep>,
    /// What is drawn.
    pub plots: Vec<Plot>,
    /// What was claimed.
    pub claims: Vec<Claim>,
}

/// A sweep with its shorter form.
#[derive(Clone, Debug)]
pub struct DeclaredSweep {
    /// What it measures, in one line.
    pub about: String,
    /// The sweep.
    pub full: Sweep,
    /// The same with `--quick`.
    pub quick: Sweep,
    /// What the machine must have; without it the sweep is left out.
    pub needs: Needs,
    /// What a run given in iterations takes, for planning.
    pub run_time: Duration,
}

/// A published claim and the expression that checks it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Identifier such as `H1`.
    pub id: String,
    /// The claim, in one line.
    pub claim: String,
    /// The published figure; may be empty.
    pub published: String,
    /// What it was published on, and what of that is kept here.
    pub setting: Setting,
    /// Named figures.
    pub figures: BTreeMap<String, Expr>,
    /// The claim under its own conditions.
    pub then: Check,
    /// The same with today's locks in the place of those of its day.
    pub now: Option<Check>,
    /// The checks, then and now, that stand in where figures of the first are missing.
    pub otherwise: Option<(Check, Option<Check>)>,
    /// What can be said where the claim cannot be checked.
    pub instead: Option<Sentence>,
    /// What the machine must have.
    pub needs: Needs,
    /// Sides of a comparison nearer than this share of the larger one are a close call.
    pub margin: f64,
}

/// A condition and what is said of it.
#[derive(Clone, Debug)]
pub struct Check {
    /// True when the claim holds.
    pub check: Expr,
    /// What was measured, with figures.
    pub show: Sentence,
    /// Why it holds.
    pub why_holds: Sentence,
    /// Why it does not hold.
    pub why_differs: Sentence,
}

/// What a sweep or a claim needs of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// So many CPUs.
    pub cpus: Option<u32>,
    /// Hardware counters.
    pub counters: bool,
    /// One of these instruction sets, as Rust names them.
    pub arch: Vec<String>,
}

impl Experiment {
    /// The sweeps that this machine can measure, in full or quick.
    pub fn sweeps(&self, quick: bool, machine: &Machine) -> Vec<Sweep> {
        self.sweeps
            .iter()
            .filter(|sweep| sweep.needs.unmet(machine).is_none())
            .map(|sweep| sweep.form(quick).clone())
            .collect()
    }

    /// How many runs there will be and how long they will take, worker starts included.
    pub fn planned(&self, quick: bool, repeats: Option<u32>, machine: &Machine) -> (usize, Duration) {
        let sweeps = self.sweeps.iter().filter(|sweep| sweep.needs.unmet(machine).is_none());
        sweeps
            .map(|sweep| sweep.planned(quick, repeats))
            .fold((0, Duration::ZERO), |(runs, time), (n, more)| (runs + n, time + more))
    }

    /// The claim of this id.
    pub fn claim(&self, id: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.id == id)
    }
}

impl DeclaredSweep {
    /// The full or the quick form.
    pub fn form(&self, quick: bool) -> &Sweep {
        if quick { &self.quick } else { &self.full }
    }

    fn planned(&self, quick: bool, repeats: Option<u32>) -> (usize, Duration) {
        let mut sweep = self.form(quick).clone();
        sweep.repeats = repeats.unwrap_or(sweep.repeats);
        let Ok(plan) = Plan::new(&[sweep], 0) else {
            return (0, Duration::ZERO);
        };
        let times = plan.tasks.iter().map(|task| self.run_time_of(&plan.cells[task.cell].1));
        (plan.tasks.len(), times.sum())
    }

    fn run_time_of(&self, spec: &Spec) -> Duration {
        let time = match spec.budget {
            Budget::DurationNs(ns) => Duration::from_nanos(ns),
            Budget::Iterations(_) => self.run_time,
        };
        time + START_COST + if spec.profile { RECORDING_COST } else { Duration::ZERO }
    }
}

impl Needs {
    /// The reason why a machine does not have it, if so.
    pub fn unmet(&self, machine: &Machine) -> Option<String> {
        match self {
            Needs { cpus: Some(cpus), .. } if machine.cpus < *cpus => {
                Some(format!("needs {cpus} CPUs, and this machine has {}", machine.cpus))
            }
            Needs { counters: true, .. } if !machine.counters => {
                Some("needs hardware counters, and this machine or user has none".to_owned())
            }
            Needs { arch, .. } if !arch.is_empty() && !arch.contains(&machine.arch) => {
                Some(format!("needs {}, and this machine is {}", arch.join(" or "), machine.arch))
            }
            _ => None,
        }
    }
}

/// What starting, calibrating, warming up and collecting one worker takes beside the time that it measures.
pub const START_COST: Duration = Duration::from_millis(60);

/// What recording a run and reading the recording take beside that.
const RECORDING_COST: Duration = Duration::from_millis(800);
