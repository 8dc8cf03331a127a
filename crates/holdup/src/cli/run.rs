//! `holdup run`: an experiment file measured, its charts drawn, its claims checked.

use std::path::{Path, PathBuf};

use super::measure::{self, Measuring};
use super::{Error, Status, output, show};
use crate::claim::{ClaimResult, Reading};
use crate::experiment::evaluate::evaluate;
use crate::experiment::file::FileError;
use crate::experiment::machine::Machine;
use crate::experiment::{self, Experiment, file};
use crate::plan::{Plan, Shard, Sweep};
use crate::plot::Plot;
use crate::report;
use crate::results::RunRecord;
use crate::runner::Outcome;
use crate::shell::quoted;
use crate::store::{NewRun, SHARD, Store};

/// Measures the sweeps of an experiment file, draws its charts and checks its claims.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub struct Options {
    /// An experiment file, or the name of one that holdup carries ('holdup list experiments')
    #[arg(required_unless_present = "resume", conflicts_with = "resume")]
    file: Option<PathBuf>,
    /// Measure only this part of the sweeps, such as 3/8 for the third of eight jobs. The same command again continues
    /// what was stopped; 'holdup history merge' puts the parts together
    #[arg(long, value_name = "I/N", conflicts_with_all = ["resume", "no_store"])]
    shard: Option<Shard>,
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    measuring: Measuring,
    #[command(flatten)]
    results: Results,
}

/// How much to measure.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Measuring")]
pub struct Amount {
    /// Shorter and coarser, as the file says
    #[arg(long)]
    pub quick: bool,
    /// Runs per combination, instead of what the file says
    #[arg(long, alias = "repeats", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub repeat: Option<u32>,
}

/// Where the results go.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Results")]
pub struct Results {
    /// Also write a page with charts and claims
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    pub force: bool,
    /// Print JSON instead of tables
    #[arg(long)]
    pub json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holdup run my-experiment.toml --quick
      a file of your own; docs/experiments.md describes it
  holdup run peers --quick
      an experiment that holdup carries: our locks beside today's
  holdup run experiments/hart-1998.toml --html hart.html
      with a page of charts
  holdup run peers --shard 3/8 --store shard-3.db
      the third of eight parts, on a machine or in a job of its own
  holdup run --resume
      continue a run that Ctrl-C, a crash or a power cut stopped";

impl From<FileError> for Error {
    fn from(why: FileError) -> Error {
        Error::Argument(why.to_string())
    }
}

/// Measures, keeps, shows.
///
/// # Errors
/// A file that cannot be read or understood, or a store, file or process that cannot be had.
pub fn run(options: &Options) -> Result<Status, Error> {
    options.results.check()?;
    let (experiment, outcome) = match (&options.measuring.resume, &options.file) {
        (None, Some(path)) => {
            let (path, text) = read(path)?;
            let experiment = file::parse(&path, &text)?;
            let mut store = options.measuring.open_store()?;
            let command = format!("holdup run {}", quoted(&path));
            let outcome = match options.shard {
                None => {
                    announce(std::slice::from_ref(&experiment), &options.amount);
                    measure(&experiment, &text, &command, &options.amount, &options.measuring, &mut store)?
                }
                Some(shard) => match measure_shard(&experiment, &text, &command, shard, options, &mut store)? {
                    Some(outcome) => outcome,
                    None => return Ok(Status::Success),
                },
            };
            (experiment, outcome)
        }
        (run, _) => resume(&options.measuring, run.as_deref().unwrap_or_default())?,
    };
    let claims = evaluate(&experiment, &outcome.record);
    if let Some(path) = &options.results.html {
        show::page(path, &outcome.record, &experiment.plots, &claims, options.results.force)?;
    }
    match options.results.json {
        true => output::print(&json(&[(&outcome.record, &claims)]))?,
        false => output::print(&screen(&experiment, &outcome.record, &claims))?,
    }
    Ok(measure::status(&outcome))
}

/// Tells before measuring how long it will take.
pub fn announce(experiments: &[Experiment], amount: &Amount) {
    let machine = Machine::here();
    let (mut runs, mut time) = (0, std::time::Duration::ZERO);
    for experiment in experiments {
        let (more_runs, more) = experiment.planned(amount.quick, amount.repeat, &machine);
        (runs, time) = (runs + more_runs, time + more);
    }
    let shorter = if amount.quick { "" } else { "; --quick is shorter" };
    output::note(format_args!(
        "holdup: {runs} runs, {}, up to half as long again if something else uses the machine{shorter}",
        experiment::about(time)
    ));
}

/// Measures an experiment as a run of its own.
///
/// # Errors
/// The store cannot be written, or no worker can be started.
pub fn measure(
    experiment: &Experiment,
    text: &str,
    command: &str,
    amount: &Amount,
    measuring: &Measuring,
    store: &mut Store,
) -> Result<Outcome, Error> {
    let new = planned(experiment, text, command, amount, measuring, measuring.seed())?;
    measuring.measure(store, &new)
}

/// Measures a part of an experiment as a run of its own, or the rest of it if it was begun; `None` if there is nothing
/// to do. Every part must come from the same plan, so that nobody's seed is drawn.
fn measure_shard(
    experiment: &Experiment,
    text: &str,
    command: &str,
    shard: Shard,
    options: &Options,
    store: &mut Store,
) -> Result<Option<Outcome>, Error> {
    let seed = options.measuring.given_seed().unwrap_or_else(|| u64::from(seed_of(text)));
    let whole = planned(experiment, text, command, &options.amount, &options.measuring, seed)?;
    let plan = whole.plan.shard(shard);
    if plan.tasks.is_empty() {
        output::note(format_args!(
            "holdup: nothing to measure: the sweeps have fewer groups of cells than {shard} asks for"
        ));
        return Ok(None);
    }
    let command = format!("{} --shard {shard}", whole.command);
    let begun = store.runs()?.into_iter().find(|run| run.command == command);
    match begun {
        Some(run) if run.complete => {
            output::note(format_args!(
                "holdup: shard {shard} is measured already, as run {}; another --seed measures it anew",
                run.id
            ));
            Ok(None)
        }
        Some(run) => Ok(Some(options.measuring.measure_rest(store, &run.id.to_string())?)),
        None => {
            let all = whole.plan.tasks.len();
            output::note(format_args!("holdup: shard {shard}: {} of {all} runs", plan.tasks.len()));
            let mut environment = whole.environment;
            environment.push((SHARD.to_owned(), shard.to_string()));
            Ok(Some(options.measuring.measure(store, &NewRun { command, environment, plan, ..whole })?))
        }
    }
}

/// A seed that every job makes of the experiment alike.
fn seed_of(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// The whole experiment as a run that nobody has begun.
fn planned(
    experiment: &Experiment,
    text: &str,
    command: &str,
    amount: &Amount,
    measuring: &Measuring,
    seed: u64,
) -> Result<NewRun, Error> {
    let mut sweeps = experiment.sweeps(amount.quick, &Machine::here());
    if sweeps.is_empty() {
        return Err(Error::Argument(format!(
            "{}: this machine can measure none of its sweeps; 'holdup list factors' shows what it could vary",
            experiment.path
        )));
    }
    if let Some(repeats) = amount.repeat {
        sweeps.iter_mut().for_each(|sweep| sweep.repeats = repeats);
    }
    Ok(NewRun {
        title: experiment.name.clone(),
        command: format!("{command}{} --seed={seed}{}", amount.options(), measuring.repeat_options()),
        baseline: common_baseline(&sweeps),
        repeats: sweeps.iter().map(|sweep| sweep.repeats).min().unwrap_or(1),
        options: measuring.options()?,
        definition: Some(text.to_owned()),
        environment: measure::environment(),
        plan: Plan::new(&sweeps, seed)?,
    })
}

/// The baseline of most sweeps, for the tables; claims name their own.
fn common_baseline(sweeps: &[Sweep]) -> Option<String> {
    let named: Vec<&String> = sweeps.iter().filter_map(|sweep| sweep.baseline.as_ref()).collect();
    let count = |name: &str| named.iter().filter(|other| other.as_str() == name).count();
    named.iter().max_by_key(|name| count(name)).map(|name| (*name).clone())
}

/// Continues a run whose experiment the store has kept.
fn resume(measuring: &Measuring, run: &str) -> Result<(Experiment, Outcome), Error> {
    let mut store = measuring.open_store()?;
    let id = if run.is_empty() { store.last_incomplete()? } else { store.find(run)? };
    let (_, definition) = store.definition(id)?;
    let Some(text) = definition else {
        return Err(Error::Argument(format!(
            "run {id} is no experiment; continue it with 'holdup bench --resume {id}'"
        )));
    };
    let experiment = file::parse(&format!("run {id}"), &text)?;
    let outcome = measuring.measure_rest(&mut store, &id.to_string())?;
    Ok((experiment, outcome))
}

/// A file's text; a name that is no file may be that of a carried experiment.
fn read(path: &Path) -> Result<(String, String), Error> {
    let name = path.to_string_lossy().into_owned();
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((name, text)),
        Err(why) => match experiment::carried(&name) {
            Some((path, text)) => Ok((path.to_owned(), text.to_owned())),
            None if why.kind() == std::io::ErrorKind::NotFound => Err(Error::Argument(format!(
                "{name}: no such file, and no experiment that holdup carries has this name; \
                 'holdup list experiments' shows those"
            ))),
            None => Err(Error::File { path: path.to_owned(), why }),
        },
    }
}

/// Tables, charts and claims. A chart over the locks says no more than the table above it; the page draws it.
pub fn screen(experiment: &Experiment, record: &RunRecord, claims: &[ClaimResult]) -> String {
    let drawn = |plot: &&Plot| plot.x != "lock" && record.sweep(&plot.sweep).next().is_some();
    let plots: Vec<Plot> = experiment.plots.iter().filter(drawn).cloned().collect();
    let mut text = show::screen(record, &plots);
    if !claims.is_empty() {
        text.push('\n');
        text.push_str(&report::claims::table(claims).terminal(&output::style()));
    }
    text + &format!("\nThe same again, in the same order:\n  {}\n", record.command)
}

/// Runs with their claims, for programs.
pub fn json(runs: &[(&RunRecord, &Vec<ClaimResult>)]) -> String {
    let all: Vec<serde_json::Value> = runs
        .iter()
        .map(|(record, claims)| {
            let claims: Vec<serde_json::Value> = claims.iter().map(claim_json).collect();
            serde_json::json!({ "run": report::json::Run::new(record), "claims": claims })
        })
        .collect();
    let one_or_all = match <[_; 1]>::try_from(all) {
        Ok([one]) => one,
        Err(all) => serde_json::Value::Array(all),
    };
    format!("{one_or_all:#}\n")
}

fn claim_json(claim: &ClaimResult) -> serde_json::Value {
    let mut value = reading_json(&claim.then);
    let setting = &claim.setting;
    let more = serde_json::json!({
        "id": claim.id,
        "experiment": claim.experiment,
        "claim": claim.claim,
        "published": claim.published,
        "on": setting.on,
        "same": setting.same,
        "not_same": setting.not_same,
        "now": claim.now.as_ref().map(reading_json),
    });
    if let (Some(value), serde_json::Value::Object(more)) = (value.as_object_mut(), more) {
        value.extend(more);
    }
    value
}

fn reading_json(reading: &Reading) -> serde_json::Value {
    let figure =
        reading.figure.map(|e| serde_json::json!({ "median": e.median, "low": e.low, "high": e.high, "n": e.n }));
    serde_json::json!({
        "measured": reading.measured,
        "figure": figure,
        "verdict": reading.verdict.to_string(),
        "close": reading.close,
        "why": reading.why,
    })
}

impl Amount {
    /// The options that repeat it, with a space before each.
    fn options(&self) -> String {
        let quick = if self.quick { " --quick" } else { "" };
        let repeat = self.repeat.map_or_else(String::new, |n| format!(" --repeat={n}"));
        format!("{quick}{repeat}")
    }
}

impl Results {
    /// Refuses to measure for minutes what could not be written afterwards.
    ///
    /// # Errors
    /// The page's file exists.
    pub fn check(&self) -> Result<(), Error> {
        match self.html.as_deref().filter(|path| !self.force && path.exists()) {
            Some(path) => Err(Error::FileExists(path.to_owned())),
            None => Ok(()),
        }
    }
}
