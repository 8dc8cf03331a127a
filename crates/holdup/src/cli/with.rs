//! `holdup with`: a program under another lock, or with a profile of its locks; it runs as ever, and says at its end
//! what that did.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use holdup_control::{Policy, Profile, RwPolicy};
use holdup_run::Conditions;
use holdup_run::Finished;

use super::{Error, Status, output};
use crate::interposer::naming::{self, Named};
use crate::interposer::program::{self, Program, Refusal};
use crate::interposer::rules::{self, Wish};
use crate::interposer::{Control, Figures, Settings, policy};
use crate::report::interposed::{self, Run};
use crate::trial::remedy;

/// Runs a program with another lock under its pthread mutexes, or with a profile of them. The program itself is not
/// changed: a library that is loaded with it decides how its threads wait.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// How threads wait for every lock: glibc, spin-park:N, spin-learn, ttas, capped:N or throttle:N [default: glibc]
    #[arg(long, value_name = "POLICY", value_parser = policy::parse)]
    lock: Option<Policy>,
    /// At most this many threads hold or contend for a lock at once: short for --lock throttle:N
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(Policy::MOST)))]
    gate: Option<u32>,
    /// Another policy for the locks of this name: a variable, a function that makes or takes them, or FILE:LINE; for
    /// reader-writer locks one of --rw; may be repeated
    #[arg(long, value_name = "NAME=POLICY", value_parser = rules::parse)]
    lock_for: Vec<Wish>,
    /// How threads wait for reader-writer locks (pthread_rwlock_t, std::shared_mutex): glibc, prefer-writer or
    /// spin-park:N [default: glibc]
    #[arg(long, value_name = "POLICY", value_parser = policy::parse_rw)]
    rw: Option<RwPolicy>,
    /// A lock that has waiters but is not acquired for this long returns to glibc's policy; 0 for never
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    watchdog: u32,
    /// Profile every lock: count only, sampled (times one acquisition in 16) or full (times all, some 15 to 35 ns each)
    #[arg(long, value_name = "HOW", num_args = 0..=1, require_equals = true, default_missing_value = "sampled")]
    profile: Option<Measured>,
    /// Number of locks to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
    /// Write the report and the profile as JSON to this file; docs/profile-json.md describes it
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replace the --json file if it exists
    #[arg(long, requires = "json")]
    force: bool,
    /// Time slice of its threads, from 100us to 100ms (Linux 6.12 and later); on its own this touches no lock
    #[arg(long, value_name = "TIME")]
    slice: Option<String>,
    /// Slots of the kernel's table of its futexes, whatever locks they are of: a power of two, or 'shared' for the
    /// table of all processes (Linux 6.17 and later)
    #[arg(long, value_name = "N")]
    futex_hash: Option<String>,
    /// Serve only the program of this name, not others that it starts
    #[arg(long, value_name = "PROGRAM")]
    only: Option<String>,
    /// The program to start, and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

/// What is measured of every lock, as the command line names it.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Measured {
    /// Acquisitions and how many had to wait
    Count,
    /// And the times of one acquisition in 16
    Sampled,
    /// And the times of all
    Full,
}

const EXAMPLES: &str = "\
Examples:
  holdup with --lock spin-park -- ./server   look 100 times before sleeping
  holdup with --lock throttle:2 -- ./server  two threads at a lock, others sleep
  holdup with --lock-for 'g_cache_lock=throttle:2' -- ./server  that lock alone
  holdup with --rw prefer-writer -- ./server no writer starves behind readers
  holdup with --lock-for 'g_routes=prefer-writer' -- ./server   nor at that lock
  holdup with --profile -- ./server          which locks cost what, and where
  holdup with --profile=full --json locks.json -- ./server

The program keeps its input, output, signals and exit status; the report goes to
stderr. Served are pthread mutexes, libgomp's locks, by spin-park semaphores, and by
--rw reader-writer locks of the default kind; Rust's std, Go and static programs
keep their own. The report counts them.";

/// Runs it and reports.
///
/// # Errors
/// The program cannot be started, or cannot be interposed.
pub fn run(options: &Options) -> Result<Status, Error> {
    let policy = chosen(options)?;
    let conditions = conditions(options)?;
    if let Some(path) = options.json.as_ref().filter(|path| !options.force && path.symlink_metadata().is_ok()) {
        return Err(Error::FileExists(path.clone()));
    }
    if options.slice.is_some() && !options.touches_locks() {
        return start(options, Vec::new(), &conditions).map(|finished| Status::Child(finished.code));
    }
    let program = program::find(&options.command).map_err(refused)?;
    let settings = settings(options, policy, &program)?;
    let control = Control::create(&settings).map_err(no_control)?;
    let finished = start(options, control.environment(), &conditions)?;
    let figures = control.figures().map_err(no_control)?;
    let uncounted = control.uncounted().map_err(no_control)?;
    let run = Run { policy, settings: &settings, figures: &figures, uncounted, finished: &finished };
    report(options, &run)?;
    Ok(Status::Child(finished.code))
}

impl Options {
    /// Whether anything is asked for that needs the interposer.
    fn touches_locks(&self) -> bool {
        let other_way = self.lock.is_some() || self.gate.is_some() || !self.lock_for.is_empty();
        other_way || self.rw.is_some() || self.futex_hash.is_some() || self.profile.is_some() || self.json.is_some()
    }
}

/// What the program runs under but for its locks; tried on a thread of our own, for the program could not say why it
/// does not start.
fn conditions(options: &Options) -> Result<Conditions, Error> {
    if let Some(text) = &options.futex_hash {
        let conditions = Conditions { futex_hash: true, ..Conditions::default() };
        holdup_run::check(&conditions).map_err(|why| Error::Argument(format!("--futex-hash {text}: {why}")))?;
    }
    let Some(text) = &options.slice else { return Ok(Conditions::default()) };
    let refuse = |why: String| Error::Argument(format!("--slice {text}: {why}"));
    let ns = holdup_bench::work::parse_ns(text).map_err(refuse)?;
    if !(1e5..=1e8).contains(&ns) {
        return Err(refuse("the kernel takes slices from 100us to 100ms".to_owned()));
    }
    let conditions = Conditions { slice_ns: Some(ns as u64), ..Conditions::default() };
    holdup_run::check(&conditions).map_err(refuse)?;
    Ok(conditions)
}

/// What the run was, on stderr, and as a file where one is wanted.
fn report(options: &Options, run: &Run<'_>) -> Result<(), Error> {
    let wanted = options.profile.is_some() || options.json.is_some();
    let has_locks = |figures: &Figures| wanted && !figures.locks.is_empty();
    let named: Vec<Option<Named>> =
        run.figures.iter().map(|figures| has_locks(figures).then(|| naming::named(figures))).collect();
    let written = match &options.json {
        None => Ok(()),
        Some(path) => output::json(&interposed::Json::new(run, &named))
            .and_then(|text| output::write_file(path, &text, options.force)),
    };
    // Where the file cannot be written, what was counted is at least shown.
    if options.profile.is_some() || written.is_err() {
        show(named.into_iter().flatten().collect(), options.limit);
    }
    output::note_document(&interposed::coverage(run));
    written
}

/// The profiles of the processes that took most locks.
fn show(mut named: Vec<Named>, limit: usize) {
    let acquisitions = |named: &Named| named.locks.iter().map(|lock| lock.figures.acquisitions).sum::<u64>();
    named.sort_by_key(|named| std::cmp::Reverse(acquisitions(named)));
    for named in named.iter().take(PROCESSES) {
        output::note_document(&interposed::profile(named, limit));
        output::note("");
    }
    if named.len() > PROCESSES {
        let more = named.len() - PROCESSES;
        output::note(format_args!("{more} more processes took locks; --json FILE lists them all"));
    }
}

/// Profiles of so many processes are shown, those that took most locks.
const PROCESSES: usize = 3;

/// One policy: a gate is one by itself here.
fn chosen(options: &Options) -> Result<Policy, Error> {
    match (options.lock, options.gate) {
        (None, None) => Ok(Policy::Glibc),
        (Some(policy), None) => Ok(policy),
        (None | Some(Policy::Glibc), Some(threads)) => Ok(Policy::Throttle(threads)),
        (Some(policy), Some(threads)) => Err(Error::Argument(format!(
            "--lock {policy} --gate {threads}: a lock has one policy at a time; give --lock {policy} or --gate {threads}, and \
             --lock-for 'NAME=throttle:{threads}' for a gate at single locks"
        ))),
    }
}

fn settings(options: &Options, policy: Policy, program: &Program) -> Result<Settings, Error> {
    let rules = rules::resolve(&options.lock_for, program).map_err(Error::Argument)?;
    let profile = match options.profile {
        None => Profile::Off,
        Some(Measured::Count) => Profile::Count,
        Some(Measured::Sampled) => Profile::Sampled,
        Some(Measured::Full) => Profile::Full,
    };
    // The program itself is a place in every process: whoever names a lock in it means it alone.
    let own = rules.iter().any(|rule| rule.module.is_none()).then(|| program.name()).flatten();
    let only = options.only.clone().or(own);
    let slots = options.futex_hash.as_deref().map(remedy::futex_slots).transpose();
    let slots = slots.map_err(|why| Error::Argument(format!("--futex-hash {why}")))?;
    let futex_hash = slots.map_or(0, |slots| slots.unwrap_or(holdup_control::FUTEX_HASH_SHARED));
    let rw = options.rw.unwrap_or_default();
    Ok(Settings { policy, rw, profile, watchdog_ms: options.watchdog, futex_hash, rules, program: only })
}

/// Runs the program to its end.
fn start(
    options: &Options,
    environment: Vec<(OsString, OsString)>,
    conditions: &Conditions,
) -> Result<Finished, Error> {
    let (name, arguments) = options.command.split_first().ok_or_else(|| Error::Argument("no program".to_owned()))?;
    let mut command = Command::new(name);
    command.args(arguments).envs(environment);
    holdup_run::forward(&mut command, conditions)
        .map_err(|why| Error::Command { name: name.to_string_lossy().into_owned(), why })
}

/// Why a program cannot be interposed.
pub(super) fn refused(why: Refusal) -> Error {
    match why {
        Refusal::Start { name, why } => Error::Command { name, why },
        other => Error::Argument(other.to_string()),
    }
}

/// Why there is no interposer.
pub(super) fn no_control(why: std::io::Error) -> Error {
    Error::Argument(format!("cannot prepare the program's locks: {why}"))
}
