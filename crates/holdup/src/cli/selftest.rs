//! `holdup selftest`: whether locks do what programs rely on, natively and with a library under them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holdup_bench::suggest::did_you_mean;
use holdup_bench::work::parse_ns;
use holdup_control::Policy;
use holdup_run::OwnProgram;
use holdup_run::behaviour::{self, Behaviour};

use super::with::refused;
use super::{Error, Status, output, progress};
use crate::interposer::{policy, program};
use crate::report;
use crate::report::document::Document;
use crate::selftest::{self, Configuration, Plan, SelftestError};

/// First argument of a process that tries one behaviour of locks; not for users.
pub const BEHAVIOUR: &str = "__behaviour";

/// Checks 26 behaviours of locks natively, then under holdup's interposer with every policy, and while the policy keeps
/// changing.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Behaviours to check [default: all]
    #[arg(value_name = "BEHAVIOUR")]
    behaviours: Vec<String>,
    /// Test this library (LD_PRELOAD) instead of holdup's own
    #[arg(long, value_name = "PATH", conflicts_with_all = ["policies", "flip", "native"])]
    library: Option<PathBuf>,
    /// Policies to try, separated by commas
    #[arg(long, value_name = "LIST", default_value = POLICIES)]
    policies: String,
    /// Also change the policy this often while a behaviour runs; 0 for never
    #[arg(long, value_name = "TIME", default_value = "5ms")]
    flip: String,
    /// Check only natively
    #[arg(long)]
    native: bool,
    /// Number of tries of each behaviour
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    /// A behaviour that takes longer counts as hung
    #[arg(long, value_name = "TIME", default_value = "20s")]
    limit: String,
    /// Seed of the first try; each later try adds one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// List the behaviours: what must hold, and how it goes wrong
    #[arg(long)]
    list: bool,
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Run this program instead while the policy changes, and exit as it does
    #[arg(last = true, value_name = "COMMAND", conflicts_with_all = ["behaviours", "library", "native", "list", "json"])]
    command: Vec<OsString>,
}

const POLICIES: &str = "glibc,spin-park:100,spin-learn,ttas,capped:1,throttle:1,throttle:2";

const EXAMPLES: &str = "\
Examples:
  holdup selftest
  holdup selftest --list
  holdup selftest --policies throttle:1,throttle:2 --repeat 20 cond-cancel fork-waiters
  holdup selftest --library ./libmylocks.so
  LD_PRELOAD=libjemalloc.so.2 holdup selftest
  holdup selftest --flip 5ms -- ./my-tests      does my program work under it?

Each try is a process of its own, so one that hangs or crashes costs one cell of
the table. By its seed and policy it takes a profile and a policy for
reader-writer locks (glibc, prefer-writer, spin-park:100), in turn. Exit status: 0 if all behaviours hold, 1 if one does not; with a
program of your own, the program's.";

const NO_BEHAVIOURS: &str = "selftest tries the locks of the GNU C library (glibc) of Linux, and this holdup is not linked with \
     it; run one that is, as the Debian package and 'cargo install holdup' bring it";

/// Tries and tells.
///
/// # Errors
/// A name is unknown, or the library cannot be put under a program.
pub fn run(options: &Options) -> Result<Status, Error> {
    if let Some((name, arguments)) = options.command.split_first() {
        program::find(&options.command).map_err(refused)?;
        return run_program(options, name, arguments);
    }
    if behaviour::all().is_empty() {
        return Err(Error::Argument(NO_BEHAVIOURS.to_owned()));
    }
    if options.list {
        output::print(&list())?;
        return Ok(Status::Success);
    }
    let plan = plan(options)?;
    let library = options.library.as_deref().map(replaced).transpose()?;
    let program = OwnProgram {
        exe: std::env::current_exe().map_err(|why| Error::File { path: "holdup".into(), why })?,
        args: vec![BEHAVIOUR.to_owned()],
    };
    let bar = progress::Line::new();
    let results = selftest::run(&plan, &program, &|done, all, what| bar.show(done, all, what));
    bar.end();
    let results = results.map_err(|why| explain(why, options.library.as_deref()))?;
    output::print(&match options.json {
        true => format!("{:#}\n", report::selftest::json(&results)),
        false => report::selftest::screen(&results).terminal(&output::style()) + &library.unwrap_or_default(),
    })?;
    Ok(if results.all_hold() { Status::Success } else { Status::CellsFailed })
}

fn plan(options: &Options) -> Result<Plan, Error> {
    let behaviours = match options.behaviours.is_empty() {
        true => behaviour::all().iter().collect(),
        false => options.behaviours.iter().map(|name| named(name)).collect::<Result<_, _>>()?,
    };
    let limit = time("--limit", &options.limit)?;
    if limit.is_zero() {
        return Err(Error::Argument("--limit: a behaviour needs some time; give for example 20s".to_owned()));
    }
    let configurations = configurations(options)?;
    Ok(Plan { behaviours, configurations, repeat: options.repeat, seed: options.seed, limit })
}

fn configurations(options: &Options) -> Result<Vec<Configuration>, Error> {
    let mut configurations = vec![Configuration::Native];
    if options.native {
        return Ok(configurations);
    }
    if let Some(library) = &options.library {
        configurations.push(Configuration::Library(loadable(library)?));
        return Ok(configurations);
    }
    let policies = policies(options)?;
    let flip = time("--flip", &options.flip)?;
    configurations.extend(policies.iter().copied().map(Configuration::Policy));
    if !flip.is_zero() && policies.len() > 1 {
        configurations.push(Configuration::Flip(policies, flip));
    }
    Ok(configurations)
}

fn policies(options: &Options) -> Result<Vec<Policy>, Error> {
    let parse = |name: &str| policy::parse(name.trim()).map_err(|why| Error::Argument(format!("--policies: {why}")));
    options.policies.split(',').map(parse).collect()
}

/// Any program, under policies that take turns.
fn run_program(options: &Options, name: &OsStr, arguments: &[OsString]) -> Result<Status, Error> {
    let policies = policies(options)?;
    let flip = time("--flip", &options.flip)?;
    if flip.is_zero() {
        return Err(Error::Argument(
            "--flip 0: to run a program under one policy, use 'holdup with --lock POLICY -- PROGRAM'".to_owned(),
        ));
    }
    let mut command = Command::new(name);
    command.args(arguments);
    let ran = selftest::flip(&mut command, &policies, flip, options.seed)
        .map_err(|why| Error::Argument(format!("selftest: {why}")))?;
    let name = name.to_string_lossy().into_owned();
    let ended = ran.ended.map_err(|why| Error::Command { name, why })?;
    output::note(report::selftest::flipped(ran.flips, &ran.processes));
    Ok(Status::Child(ended.code))
}

fn time(flag: &str, text: &str) -> Result<Duration, Error> {
    let ns = parse_ns(text).map_err(|why| Error::Argument(format!("{flag}: {why}")))?;
    Ok(Duration::from_nanos(ns as u64))
}

fn named(name: &str) -> Result<&'static Behaviour, Error> {
    let all = behaviour::all();
    all.iter().find(|one| one.name == name).ok_or_else(|| {
        let hint = did_you_mean(name, all.iter().map(|one| one.name));
        Error::Argument(format!("there is no behaviour '{name}'{hint} 'holdup selftest --list' shows them all"))
    })
}

/// The library's whole path, as the loader will show it.
fn loadable(path: &Path) -> Result<PathBuf, Error> {
    let whole = path.canonicalize().map_err(|why| Error::File { path: path.to_owned(), why })?;
    if whole.to_string_lossy().contains([' ', ':']) {
        return Err(Error::Argument(format!(
            "{}: LD_PRELOAD takes no path with a space or a colon; copy the library to another place",
            whole.display()
        )));
    }
    Ok(whole)
}

/// Says which functions the library replaces; the others stay the C library's.
fn replaced(path: &Path) -> Result<String, Error> {
    let bytes = std::fs::read(path).map_err(|why| Error::File { path: path.to_owned(), why })?;
    let path = path.display();
    let nothing = |why| Error::Argument(format!("{path}: nothing can be tested: {why}"));
    let replaced = selftest::replaces(&bytes).map_err(nothing)?;
    if replaced.is_empty() {
        return Err(nothing("it replaces none of the functions that programs lock with".to_owned()));
    }
    let missing: Vec<&str> = selftest::FUNCTIONS.iter().copied().filter(|name| !replaced.contains(name)).collect();
    let sentence = match missing.is_empty() {
        true => format!("The library replaces all {} functions.", selftest::FUNCTIONS.len()),
        false => format!(
            "The library replaces {} of {} functions; the C library itself serves {}.",
            replaced.len(),
            selftest::FUNCTIONS.len(),
            some(&missing)
        ),
    };
    Ok(format!("\n{}", Document::from(sentence).terminal(&output::style())))
}

/// The first of these, and how many more.
fn some(names: &[&str]) -> String {
    const MOST: usize = 8;
    match names.len().saturating_sub(MOST) {
        0 | 1 => crate::text::list(names),
        more => format!("{} and {more} more", names[..MOST].join(", ")),
    }
}

fn explain(why: SelftestError, library: Option<&Path>) -> Error {
    match (why, library) {
        (SelftestError::System(why), _) => Error::Argument(format!("selftest: {why}")),
        (SelftestError::NotLoaded(why), Some(library)) => {
            Error::Argument(format!("{}: nothing was tested: {why}", library.display()))
        }
        (SelftestError::NotLoaded(why), None) => Error::Unmeasured(format!("nothing was tested: {why}")),
    }
}

fn list() -> String {
    let lines = behaviour::all()
        .iter()
        .map(|one| format!("{:16} must: {}\n{:16} else: {}\n", one.name, one.holds, "", one.wrong));
    lines.collect::<String>() + "\nTry some: holdup selftest lock cond-cancel\n"
}
