//! `holdup bench`: locks under chosen conditions, measured, kept, and put side by side.

use std::path::PathBuf;

use holdup_bench::spec::{FACTORS, Spec, Workload};

use super::factors::{FactorFlags, axis, check_lock};
use super::measure::{self, Measuring};
use super::{Error, Status, output, show};
use crate::advice;
use crate::experiment;
use crate::plan::{Plan, Sweep};
use crate::plot::Plot;
use crate::report;
use crate::results::RunRecord;
use crate::runner::Outcome;
use crate::shell;
use crate::store::NewRun;

/// Measures locks under chosen conditions: every combination of the factors' values, several runs of each, every run
/// in a process of its own.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    factors: FactorFlags,
    /// Lock to compare the others with; 'none' is the bare loop, 'off' makes no comparison [default: pthread, on
    /// Windows critical-section, if it can do what you ask for]
    #[arg(long, value_name = "LOCK", help_heading = "Measuring")]
    baseline: Option<String>,
    /// Runs per combination
    #[arg(long, alias = "repeats", value_name = "N", default_value_t = 5, help_heading = "Measuring",
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: u32,
    #[command(flatten)]
    measuring: Measuring,
    /// Show hardware counters per core, socket and in all: instructions per cycle, frequency, cache misses and what
    /// they cost
    #[arg(long, help_heading = "Results")]
    counters: bool,
    /// Also write a page with charts
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    html: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, help_heading = "Results")]
    force: bool,
    /// Print JSON instead of the table
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
      continue a run that Ctrl-C, a crash or a power cut stopped

'holdup list locks' and 'holdup list factors' show what you can choose from.";

/// Locks that differ in kind: the bare loop, what languages offer, and one of each family.
///
/// Those that this system does not have are left out.
const MAIN_LOCKS: [&str; 12] = [
    "none",
    "pthread",
    "critical-section",
    "srwlock",
    "std",
    "parking-lot",
    "adaptive",
    "ttas",
    "ticket",
    "mcs",
    "eventfd",
    "win-mutex",
];
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
            return Err(Error::Argument("--resume continues a run with its own factors; give none with it".to_owned()));
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
        let workload = self.factors.get("workload").unwrap_or_default();
        let first_look = !["lock", "threads", "duration", "iterations"].into_iter().any(named);
        // The lock does not matter to a parallel loop unless it guards the counter.
        let lock_matters = workload != "parallel-for" || self.factors.get("counter") == Some("mutex");
        if !lock_matters && !named("lock") && !named("counter") {
            axes.push(axis("counter", "xadd,cas-loop,mutex,sharded")?);
        }
        if !named("threads") {
            axes.push(axis("threads", MAIN_THREADS)?);
        }
        if first_look {
            axes.push(axis("duration", FIRST_LOOK)?);
        }
        let mut sweep = Sweep { name: String::new(), axes, baseline: None, repeats: self.repeat };
        if !named("lock") && lock_matters {
            check_size(&sweep)?;
            sweep.axes.push(("lock", main_locks(&sweep.cells()?)));
        }
        check_size(&sweep)?;
        let cells = sweep.cells()?;
        makes_sense(&cells)?;
        sweep.baseline = match &self.baseline {
            Some(lock) if lock == "off" => None,
            Some(lock) => check_lock(lock).map(|()| Some(lock.clone()))?,
            None if lock_matters || named("lock") => usual_baseline(&cells),
            None => None,
        };
        Ok(sweep)
    }

    /// The command that measures the same in the same order.
    fn command(&self, sweep: &Sweep, seed: u64) -> String {
        let mut text = "holdup bench".to_owned();
        for factor in FACTORS {
            let Some((name, values)) = sweep.axes.iter().find(|(name, _)| *name == factor.name) else {
                continue;
            };
            let given = self.factors.get(name).map_or_else(|| values.join(","), str::to_owned);
            text += &format!(" {}", shell::flag(factor, &given));
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
            return output::print(&show::json(run)?);
        }
        output::print(&show::screen(run, charts_on_screen(run, &plots)))?;
        if self.counters {
            output::print(&format!("\n{}", report::counters::view(run).terminal(&output::style())))?;
        }
        if !outcome.interrupted {
            output::show(&show::advice(&advice::next(run, cpus(run))))?;
            output::print(&self.closing(run))?;
        }
        Ok(())
    }

    /// Where the samples are, and how to measure the same again.
    fn closing(&self, run: &RunRecord) -> String {
        let again = format!("The same again, in the same order:\n  {}\n", run.command);
        if !self.measuring.keeps() {
            return format!("\n{again}");
        }
        let (id, store) = (run.id, self.measuring.store_option());
        format!("\nKept as run {id}. Every sample: holdup export {id} --csv{store}\n{again}")
    }
}

/// Where one factor besides the lock was varied, one small chart shows it all; else the table has to do.
pub fn charts_on_screen<'a>(run: &RunRecord, plots: &'a [Plot]) -> &'a [Plot] {
    let varied = RunRecord::varied(run.cells.iter()).iter().filter(|factor| **factor != "lock").count();
    if varied == 1 { &plots[..plots.len().min(1)] } else { &[] }
}

/// A slip such as `--threads 1..1024 --depth 0..64` must not fill the memory with cells that nobody waits for.
fn check_size(sweep: &Sweep) -> Result<(), Error> {
    const MOST: usize = 10_000;
    let cells = sweep.axes.iter().fold(1usize, |cells, (_, values)| cells.saturating_mul(values.len()));
    if cells <= MOST {
        return Ok(());
    }
    Err(Error::Argument(format!(
        "these factors make {cells} combinations, more than {MOST}; give fewer values, for example every fourth \
         (0..60+4) or a doubling (1..64*2)"
    )))
}

/// A sweep of which no cell can be measured anywhere is a mistake; where some can, the others are reported with their
/// reason.
fn makes_sense(cells: &[Spec]) -> Result<(), Error> {
    let mut reasons = cells.iter().map(holdup_bench::check_sense);
    match reasons.next() {
        Some(Err(why)) if reasons.all(|reason| reason.is_err()) => Err(Error::Argument(why)),
        _ => Ok(()),
    }
}

/// The lock that most programs have, if it can do what every cell asks for.
fn usual_baseline(cells: &[Spec]) -> Option<String> {
    let can = |lock: &str| {
        cells.iter().all(|cell| holdup_bench::check_sense(&Spec { lock: lock.to_owned(), ..cell.clone() }).is_ok())
    };
    [holdup_bench::locks::usual(), "map-mutex"].into_iter().find(|lock| can(lock)).map(str::to_owned)
}

/// Those of the main locks that can do what is asked; where that is none of them (maps, reader-writer locks, options
/// that few locks have), all that can.
fn main_locks(cells: &[Spec]) -> Vec<String> {
    let can = |lock: &str| {
        cells.iter().any(|cell| holdup_bench::check_sense(&Spec { lock: lock.to_owned(), ..cell.clone() }).is_ok())
    };
    let main: Vec<&str> = MAIN_LOCKS.into_iter().filter(|lock| can(lock)).collect();
    let locks = match main.iter().any(|lock| *lock != "none") {
        true => main,
        false => holdup_bench::locks::all().iter().map(|lock| lock.name).filter(|lock| can(lock)).collect(),
    };
    locks.into_iter().map(str::to_owned).collect()
}

/// The command that a bare word was probably meant for.
pub fn meant(word: &str) -> Option<String> {
    let is_workload = Workload::ALL.iter().any(|(name, _)| *name == word);
    let is_lock = holdup_bench::locks::all().iter().any(|lock| lock.name == word);
    match (is_workload, is_lock, experiment::carried(word)) {
        (true, ..) => Some(format!("holdup bench --workload {word}")),
        (_, true, _) => Some(format!("holdup bench --lock {word}")),
        (.., Some(_)) => Some(format!("holdup run {word} --quick")),
        _ => None,
    }
}

/// CPUs that the workers could use: as the run tells, else as this machine does.
fn cpus(run: &RunRecord) -> u32 {
    let here = || std::thread::available_parallelism().ok().and_then(|n| u32::try_from(n.get()).ok());
    run.cpus().or_else(here).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(words: &str) -> Result<Sweep, Error> {
        #[derive(clap::Parser)]
        struct Line {
            #[command(flatten)]
            options: Options,
        }
        let words = std::iter::once("bench").chain(words.split_whitespace());
        <Line as clap::Parser>::try_parse_from(words).unwrap().options.sweep()
    }

    fn values(sweep: &Sweep, name: &str) -> Vec<String> {
        sweep.axes.iter().find(|(factor, _)| *factor == name).map(|(_, values)| values.clone()).unwrap_or_default()
    }

    #[test]
    fn a_first_look_takes_the_main_locks_and_short_runs() {
        let sweep = sweep("").unwrap();
        let is_here = |name: &&str| holdup_bench::locks::all().iter().any(|lock| lock.name == *name);
        let here: Vec<&str> = MAIN_LOCKS.into_iter().filter(is_here).collect();
        assert!(here.len() >= 9, "{here:?}");
        assert_eq!(values(&sweep, "lock"), here);
        assert_eq!(values(&sweep, "threads"), ["1", "2", "4", "8"]);
        assert_eq!(values(&sweep, "duration"), [FIRST_LOOK]);
        assert_eq!(sweep.baseline.as_deref(), Some(holdup_bench::locks::usual()));
    }

    #[test]
    fn what_the_user_names_is_taken_as_it_is() {
        let sweep = sweep("--lock adaptive --threads 3 --hold 0,1us --baseline none").unwrap();
        assert_eq!((values(&sweep, "lock"), values(&sweep, "threads")), (vec!["adaptive".into()], vec!["3".into()]));
        assert_eq!(values(&sweep, "duration"), Vec::<String>::new());
        assert_eq!(sweep.baseline.as_deref(), Some("none"));
    }

    #[test]
    fn locks_and_baseline_fit_the_conditions() {
        let maps = sweep("--workload map").unwrap();
        assert!(values(&maps, "lock").contains(&"table-map".to_owned()));
        assert_eq!(maps.baseline.as_deref(), Some("map-mutex"));

        let spinning = sweep("--backoff none,exp").unwrap();
        assert!(values(&spinning, "lock").contains(&"ttas".to_owned()));
        assert_eq!(spinning.baseline, None, "pthread has no back-off");

        let parallel_for = sweep("--workload parallel-for").unwrap();
        assert_eq!((values(&parallel_for, "lock"), parallel_for.baseline.clone()), (vec![], None));
        assert!(values(&parallel_for, "counter").contains(&"xadd".to_owned()));

        assert_eq!(sweep("--baseline off").unwrap().baseline, None);
    }

    #[test]
    fn conditions_that_no_cell_can_have_are_refused() {
        let why = sweep("--lock pthread --spin 5").unwrap_err().to_string();
        assert!(why.contains("pthread") && why.contains("adaptive"), "{why}");
        assert!(sweep("--lock pthread,adaptive --spin 5").is_ok());
    }
}
