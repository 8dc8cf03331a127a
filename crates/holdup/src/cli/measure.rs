//! What every measuring command shares: its options, the store, the progress bar, Ctrl-C.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::progress::Bar;
use super::{Error, Status, capture, output, slow, stop};
use crate::runner::{self, Outcome, Processes, Recorded, Workers};
use crate::shell::quoted;
use crate::store::{self, NewRun, RunOptions, Store};

/// Options of commands that measure.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Measuring")]
pub struct Measuring {
    #[command(flatten)]
    store: StoreFile,
    /// Keep nothing: measure, show, forget
    #[arg(long, conflicts_with_all = ["store", "resume"])]
    no_store: bool,
    /// Continue a run that was stopped or killed [default: the newest]
    #[arg(long, value_name = "RUN", num_args = 0..=1, default_missing_value = "")]
    pub resume: Option<String>,
    /// Seed of the order and of every random draw [default: a new one, which is printed]
    #[arg(long, allow_negative_numbers = true)]
    seed: Option<u64>,
    /// Time limit of one run, such as 30s; a run that takes longer has failed [default: 10s and 20 times what you ask
    /// for]
    #[arg(long, value_name = "TIME")]
    limit: Option<String>,
    /// Keep runs even if something else used the machine (default: reject and repeat them, at most half as long again)
    #[arg(long)]
    no_reject: bool,
    #[arg(long, hide = true, conflicts_with = "no_reject")]
    reject: bool,
    /// Record every run, keep the recordings of those that take so many times the median of their cell, such as 2x, and
    /// say what differed
    #[arg(long, value_name = "TIMES", value_parser = crate::slow::parse)]
    keep_slow: Option<f64>,
}

/// Where the store is.
#[derive(Clone, Debug, clap::Args)]
pub struct StoreFile {
    /// The store, one file [default: holdup/holdup.db in your data folder]
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
}

impl StoreFile {
    /// The file that is meant.
    ///
    /// # Errors
    /// Nobody named one, and the environment names no data folder.
    pub fn path(&self) -> Result<PathBuf, Error> {
        self.store.clone().map_or_else(|| Ok(store::default_path()?), Ok)
    }

    /// Opens it for reading.
    ///
    /// # Errors
    /// There is none, or it cannot be read.
    pub fn open_existing(&self) -> Result<Store, Error> {
        Ok(Store::open_existing(&self.path()?)?)
    }

    /// The option that names the file in a command for the user, with a space before it; empty for the default.
    pub fn option(&self) -> String {
        self.store.as_ref().map_or_else(String::new, |path| format!(" --store {}", quoted(&path.to_string_lossy())))
    }
}

impl Measuring {
    /// The seed given, or a new one.
    pub fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(|| fastrand::u64(..u64::from(u32::MAX)))
    }

    /// The seed that was given, if one was.
    pub fn given_seed(&self) -> Option<u64> {
        self.seed
    }

    /// Whether what is measured can be looked at later.
    pub fn keeps(&self) -> bool {
        !self.no_store
    }

    /// The option that names the store in a command for the user, with a space before it; empty for the default.
    pub fn store_option(&self) -> String {
        self.store.option()
    }

    /// How to measure.
    ///
    /// # Errors
    /// The limit is no span of time.
    pub fn options(&self) -> Result<RunOptions, Error> {
        Ok(RunOptions { reject: !self.no_reject, limit: limit(self.limit.as_deref())? })
    }

    /// Options that repeat a command likewise, with a space before each.
    pub fn repeat_options(&self) -> String {
        let limit = self.limit.as_ref().map_or_else(String::new, |limit| format!(" --limit {}", quoted(limit)));
        format!("{limit}{}", if self.no_reject { " --no-reject" } else { "" })
    }

    /// The store, made if need be.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn open_store(&self) -> Result<Store, Error> {
        Ok(if self.no_store { Store::in_memory()? } else { Store::open(&self.store.path()?)? })
    }

    /// Measures a new run.
    ///
    /// # Errors
    /// The store cannot be written, or no worker can be started.
    pub fn measure(&self, store: &mut Store, new: &NewRun) -> Result<Outcome, Error> {
        let outcome =
            self.watched(|workers| Ok(runner::run(store, new, workers, &mut Bar::new(), asked_to_stop()?)?))?;
        self.say_how_to_resume(&outcome);
        Ok(outcome)
    }

    /// Measures what the run lacks that `--resume` names.
    ///
    /// # Errors
    /// There is no such run, nothing is missing, the store cannot be written, or no worker can be started.
    pub fn measure_rest(&self, store: &mut Store, run: &str) -> Result<Outcome, Error> {
        let id = if run.is_empty() { store.last_incomplete()? } else { store.find(run)? };
        let outcome =
            self.watched(|workers| Ok(runner::resume(store, id, workers, &mut Bar::new(), asked_to_stop()?)?))?;
        self.say_how_to_resume(&outcome);
        Ok(outcome)
    }

    /// Measures with workers that are recorded, if slow runs are to be kept.
    fn watched(&self, measure: impl FnOnce(&mut dyn Workers) -> Result<Outcome, Error>) -> Result<Outcome, Error> {
        let Some(times) = self.keep_slow else { return measure(&mut workers()?) };
        let mut recorded = Recorded::new(times).map_err(|why| Error::Argument(format!("--keep-slow: {why}")))?;
        let outcome = measure(&mut recorded)?;
        let kept = slow::keep(recorded.into_keeper(), times, &capture::stem("slow"))?;
        output::note_document(&kept);
        Ok(outcome)
    }

    fn say_how_to_resume(&self, outcome: &Outcome) {
        if !outcome.interrupted {
            return;
        }
        match self.no_store {
            true => output::note("holdup: stopped; nothing was kept, because of --no-store"),
            false => output::note(format_args!(
                "holdup: stopped; what was measured is kept. Continue with 'holdup {} --resume {}{}'",
                resuming_command(&outcome.record.command),
                outcome.record.id,
                self.store.option()
            )),
        }
    }
}

/// The command that continues a run: an experiment's claims are checked where experiments are run.
fn resuming_command(began_with: &str) -> &'static str {
    let experiment = ["holdup run", "holdup reproduce"].iter().any(|begin| began_with.starts_with(begin));
    if experiment { "run" } else { "bench" }
}

/// The exit status of a sweep.
pub fn status(outcome: &Outcome) -> Status {
    match outcome {
        Outcome { interrupted: true, .. } => Status::Interrupted,
        outcome if outcome.failed_cells() > 0 => Status::CellsFailed,
        _ => Status::Success,
    }
}

/// The machine and the program, for a new run.
pub fn environment() -> Vec<(String, String)> {
    let version = ("holdup".to_owned(), env!("CARGO_PKG_VERSION").to_owned());
    let machine = holdup_bench::machine::describe().into_iter().map(|(name, value)| (name.to_owned(), value));
    std::iter::once(version).chain(machine).collect()
}

/// Worker processes of this program.
///
/// # Errors
/// The system does not tell which file this program is.
pub fn workers() -> Result<Processes, Error> {
    Processes::of_this_program()
        .map_err(|why| Error::Argument(format!("cannot find this program's own file to start workers: {why}")))
}

/// Set by Ctrl-C.
///
/// # Errors
/// The system does not let us listen.
fn asked_to_stop() -> Result<&'static AtomicBool, Error> {
    stop::asked_and_answered("holdup: stopping when the run in work has ended")
}

/// The time limit that a user gave, if any.
///
/// # Errors
/// It is no span of time.
pub fn limit(text: Option<&str>) -> Result<Option<Duration>, Error> {
    limit_of("--limit", text)
}

/// The time that a user gave for this option, if any.
///
/// # Errors
/// It is no span of time.
pub fn limit_of(option: &str, text: Option<&str>) -> Result<Option<Duration>, Error> {
    const LONGEST_NS: f64 = 1e15;
    let Some(text) = text else { return Ok(None) };
    match holdup_bench::work::parse_ns(text) {
        Ok(ns) if (1.0..LONGEST_NS).contains(&ns) => Ok(Some(Duration::from_nanos(ns as u64))),
        Ok(_) => Err(Error::Argument(format!("{option}: '{text}' is not between 1ns and 1000000s"))),
        Err(why) => Err(Error::Argument(format!("{option}: {why}"))),
    }
}
