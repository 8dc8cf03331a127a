//! `holdup bench`: locks under chosen conditions, measured, kept, and put side by side.

use std::path::PathBuf;

use holdup_bench::spec::FACTORS;

use super::factors::{FactorFlags, axis, check_lock, flag_text};
use super::measure::{self, Measuring};
use super::{Error, Status, output, show};
use crate::advice;
use crate::plan::{Plan, Sweep};
use crate::report;
use crate::results::RunRecord;
use crate::runner::Outcome;
use crate::store::NewRun;

/// Measures locks under chosen conditions: every combination of the factors' values, several runs of each, every run
/// in a process of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    factors: FactorFlags,
    /// The lock that others are compared with; 'none' is the bare loop, 'off' compares with nothing
    #[arg(long, value_name = "LOCK", default_value = "pthread", help_heading = "Measuring")]
    baseline: String,
    /// Runs per combination
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Measuring",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    #[command(flatten)]
    measuring: Measuring,
    /// Also write a page with charts
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    html: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, help_heading = "Results")]
    force: bool,
    /// JSON in place of the table
    #[arg(long, help_heading = "Results")]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holdup bench
      the main locks with 1, 2, 4 and 8 threads, in under a minute
  holdup bench --lock adaptive,pthread --threads 1..8 --hold 0,100ns,1us --gap 0,500ns
      two locks, with work inside and outside the section
  holdup bench --lock pthread,ticket --threads 8 --active 1,2,all
      does admitting fewer threads at a time help?
  holdup bench --lock eventfd --yield never,holding --repeat 10 --html page.html
      what a yield inside the section costs, as a page with charts
  holdup bench --resume
      continue what Ctrl-C, a crash or a power cut stopped

'holdup list locks' and 'holdup list factors' show what there is to choose from.";

/// Locks that differ in kind: the bare loop, what languages offer, and one of each family.
const MAIN_LOCKS: [&str; 9] =
    ["none", "pthread", "std", "parking-lot", "adaptive", "ttas", "ticket", "mcs", "eventfd"];
const MAIN_THREADS: &str = "1,2,4,8";
/// A first look has many cells and must end within a minute.
const FIRST_LOOK: &str = "100ms";

/// Measures, keeps, shows.
///
/// # Errors
/// A value that is not taken, or a store, file or process that cannot be had.
pub fn run(options: &Options) -> Result<Status, Error> {
    let html = options.html.as_deref().filter(|path| !options.force && path.exists());
    if let Some(path) = html {
        return Err(Error::FileExists(path.to_owned()));
    }
    let outcome = match &options.measuring.resume {
        Some(run) => options.resume(run)?,
        None => options.measure()?,
    };
    options.show(&outcome)?;
    Ok(measure::status(&outcome))
}

impl Options {
    fn measure(&self) -> Result<Outcome, Error> {
        let new = self.new_run()?;
        let mut store = self.measuring.open_store()?;
        self.measuring.measure(&mut store, &new)
    }

    fn resume(&self, run: &str) -> Result<Outcome, Error> {
        if !self.factors.given.is_empty() {
            return Err(Error::Argument(
                "--resume measures what the run was begun with; give no factors with it".to_owned(),
            ));
        }
        let mut store = self.measuring.open_store()?;
        let id = if run.is_empty() { store.last_incomplete()? } else { store.find(run)? };
        if store.definition(id)?.1.is_some() {
            return Err(Error::Argument(format!(
                "run {id} is an experiment; 'holdup run --resume {id}' continues it and judges its claims"
            )));
        }
        self.measuring.measure_rest(&mut store, &id.to_string())
    }

    fn new_run(&self) -> Result<NewRun, Error> {
        let sweep = self.sweep()?;
        let seed = self.measuring.seed();
        Ok(NewRun {
            title: "bench".to_owned(),
            command: self.command(&sweep, seed),
            baseline: sweep.baseline.clone(),
            repeats: self.repeat,
            options: self.measuring.options()?,
            definition: None,
            environment: measure::environment(),
            plan: Plan::new(&[sweep], seed)?,
        })
    }

    /// What the user asked for, and the usual locks and thread counts where they did not say.
    fn sweep(&self) -> Result<Sweep, Error> {
        let mut axes = self.factors.axes()?;
        let named = |name: &str| self.factors.get(name).is_some();
        let first_look = !["lock", "threads", "duration", "iterations"].into_iter().any(named);
        // The lock does not matter to a parallel loop unless it guards the counter.
        let parallel_for = self.factors.get("workload") == Some("parallel-for");
        let lock_matters = !parallel_for || self.factors.get("counter") == Some("mutex");
        if !named("lock") && lock_matters {
            axes.push(("lock", main_locks()));
        }
        if parallel_for && !named("lock") && !named("counter") {
            axes.push(axis("counter", "xadd,cas-loop,mutex,sharded")?);
        }
        if !named("threads") {
            axes.push(axis("threads", MAIN_THREADS)?);
        }
        if first_look {
            axes.push(axis("duration", FIRST_LOOK)?);
        }
        let baseline = self.baseline(parallel_for && !named("lock"))?;
        Ok(Sweep { name: String::new(), axes, baseline, repeats: self.repeat })
    }

    fn baseline(&self, locks_do_not_matter: bool) -> Result<Option<String>, Error> {
        if self.baseline == "off" || locks_do_not_matter {
            return Ok(None);
        }
        check_lock(&self.baseline)?;
        Ok(Some(self.baseline.clone()))
    }

    /// The command that measures the same in the same order.
    fn command(&self, sweep: &Sweep, seed: u64) -> String {
        let mut text = "holdup bench".to_owned();
        for factor in FACTORS {
            let Some((name, values)) = sweep.axes.iter().find(|(name, _)| *name == factor.name) else {
                continue;
            };
            let given = self.factors.get(name).map_or_else(|| values.join(","), str::to_owned);
            text += &format!(" {}", flag_text(factor, &given));
        }
        text += &format!(" --baseline {}", sweep.baseline.as_deref().unwrap_or("off"));
        text + &format!(" --repeat {} --seed {seed}{}", self.repeat, self.measuring.repeat_options())
    }

    fn show(&self, outcome: &Outcome) -> Result<(), Error> {
        let run = &outcome.record;
        let plots = report::chart::default_plots(run);
        if let Some(path) = &self.html {
            show::page(path, run, &plots, &[], self.force)?;
        }
        if self.json {
            return output::print(&show::json(run));
        }
        let chart = if is_one_line(run) { &plots[..plots.len().min(1)] } else { &[] };
        output::print(&show::screen(run, chart))?;
        if !outcome.interrupted {
            output::print(&show::advice(&advice::next(run, cpus(run))))?;
            output::print(&self.closing(run))?;
        }
        Ok(())
    }

    /// Where the samples are, and how to measure the same again.
    fn closing(&self, run: &RunRecord) -> String {
        let again = format!("The same again, in the same order:\n  {}\n", run.command);
        match self.measuring.keeps() {
            true => format!("\nKept as run {}. {again}", run.id),
            false => format!("\n{again}"),
        }
    }
}

/// Whether one factor besides the lock was varied: one small chart shows it all.
fn is_one_line(run: &RunRecord) -> bool {
    RunRecord::varied(run.cells.iter()).iter().filter(|factor| **factor != "lock").count() == 1
}

fn main_locks() -> Vec<String> {
    let locks = holdup_bench::locks::all();
    MAIN_LOCKS
        .into_iter()
        .filter(|name| locks.iter().any(|lock| lock.name == *name))
        .map(str::to_owned)
        .collect()
}

/// CPUs of the machine that measured.
fn cpus(run: &RunRecord) -> u32 {
    let named =
        |name: &str| run.environment.iter().find(|(n, _)| n == name).and_then(|(_, v)| v.parse().ok());
    named("cpus_allowed").or_else(|| named("cpus_online")).unwrap_or(1)
}
