//! `holdup gate`: is the new build slower? For CI.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use super::revisions::Worktrees;
use super::try_::{self, Bar};
use super::{Error, Status, measure, output, stop};
use crate::report::bmf;
use crate::report::gate::{self as shown, Builds};
use crate::report::number;
use crate::trial::figure::{Figure, Metric};
use crate::trial::gate::{self, Problem, Rules, Verdict};
use crate::trial::program::Program;
use crate::trial::run::{Failure, Real, Subject};

/// Runs two builds of a program in random pairs within one job, until it is decided whether the new one is slower.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The command of the build to compare with, as one word; with --build a git revision
    #[arg(long, value_name = "COMMAND")]
    old: String,
    /// The command of the build to judge; with --build a git revision
    #[arg(long, value_name = "COMMAND")]
    new: String,
    /// Build both revisions with this command, each in a worktree of its own that goes afterwards
    #[arg(long, value_name = "COMMAND", requires = "run")]
    build: Option<String>,
    /// With --build, the command that is compared, run where it was built
    #[arg(long, value_name = "COMMAND", requires = "build")]
    run: Option<String>,
    /// A slow-down of this much fails
    #[arg(long, value_name = "PERCENT", default_value = "5%")]
    fail_on: String,
    /// Compare a number that both print instead of their elapsed time: a regular expression whose first group is the
    /// number
    #[arg(long, value_name = "REGEX")]
    metric: Option<String>,
    /// More of the metric is better
    #[arg(long, requires = "metric", conflicts_with = "lower")]
    higher: bool,
    /// Less of the metric is better
    #[arg(long, requires = "metric")]
    lower: bool,
    /// Compare elapsed time, though it looks as if the program ran for a fixed time
    #[arg(long, conflicts_with = "metric")]
    elapsed: bool,
    /// How long it may take
    #[arg(long, value_name = "TIME", default_value = "2m")]
    budget: String,
    /// Exit status of a successful run
    #[arg(long, value_name = "N", default_value_t = 0)]
    status: u8,
    /// File that every run reads on its stdin [default: nothing]
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Seed of the order of runs [default: random]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Write the verdict as JUnit's XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Write the slow-down in the Bencher Metric Format to this file
    #[arg(long, value_name = "FILE")]
    bmf: Option<PathBuf>,
    /// Print everything as JSON, with the raw samples
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holdup gate --old './old --n 9' --new './new --n 9'    is it 5% slower?
  holdup gate --old ./old --new ./new --fail-on 2% --budget 5m
  holdup gate --old ./old --new ./new --metric 'ops/sec: ([0-9.]+)' --higher
  holdup gate --old ./old --new ./new --junit gate.xml
  holdup gate --old main --new HEAD --build 'make bench' --run './bench --n 9'

Exit status: 0 if it is faster, or the same within the limit; 1 if it is slower,
or a build fails; 2 if the input is wrong; 3 if that cannot be told; 130 for
Ctrl-C, 143 for SIGTERM, 129 for SIGHUP. On GitHub the verdict also goes into the step's summary, and a failure is annotated.";

/// Compares and reports.
///
/// # Errors
/// A build fails, or the budget is too small.
pub fn run(options: &Options) -> Result<Status, Error> {
    if let Some(why) = crate::sys::no_trials() {
        return Err(Error::Argument(why.to_owned()));
    }
    let metric = try_::metric(options.metric.as_deref(), options.higher, options.lower)?;
    let (budget, fail_on) = (try_::budget(&options.budget)?, percentage(&options.fail_on)?);
    let stop = stop::asked()?;
    // They stay until the last run has ended.
    let worktrees = match &options.build {
        Some(build) => Some(Worktrees::build([&options.old, &options.new], build, stop)?),
        None => None,
    };
    let place = |name: &str| worktrees.as_ref().map(|worktrees| worktrees.place(name));
    let of = |revision: &str, place| subject(options, options.run.as_deref().unwrap_or(revision), place, &metric);
    let [old, new] = [of(&options.old, place("old"))?, of(&options.new, place("new"))?];
    let words = try_::words(&old);
    let rules = Rules {
        budget,
        fail_on,
        seed: options.seed.unwrap_or_else(|| fastrand::u64(1..1_000_000)),
        code: options.status,
        words: (!options.elapsed).then_some(words),
    };
    let line = |subject: &Subject, given: &str| match options.build {
        Some(_) => format!("{} # {given}", subject.program.line()),
        None => subject.program.line(),
    };
    let builds = Builds { old: line(&old, &options.old), new: line(&new, &options.new) };
    let mut bar = Bar::new();
    let (mut of_old, mut of_new) = (Real::new(&old, stop), Real::new(&new, stop));
    let figure = metric.map_or(Figure::Elapsed, Figure::Printed);
    let found = gate::run([&mut of_old, &mut of_new], figure, &rules, stop, &mut bar);
    bar.finish();
    let found = found.map_err(|problem| refused(&problem, &builds))?;
    if let Some(path) = &options.junit {
        output::write_file(path, &shown::junit(&builds, &rules, &found), true)?;
    }
    if let Some(path) = &options.bmf {
        output::write_file(path, &bmf::gate(&builds, &found), true)?;
    }
    tell_github(&builds, &rules, &found)?;
    match options.json {
        true => {
            let json = shown::json(&builds, &rules, &found, measure::environment());
            output::print(&json.map_err(|why| Error::Output(why.into()))?)?;
        }
        false => output::show(&shown::screen(&rules, &found))?,
    }
    Ok(match found.verdict {
        _ if stop.load(Ordering::Relaxed) => Status::Interrupted,
        Verdict::Slower => Status::Slower,
        Verdict::CannotTell | Verdict::Stopped => Status::Unclear,
        Verdict::Faster | Verdict::Same => Status::Success,
    })
}

/// Where GitHub runs us, it says where a summary goes and reads annotations in what a step writes.
fn tell_github(builds: &Builds, rules: &Rules, found: &gate::Found) -> Result<(), Error> {
    if let Some(path) = std::env::var_os("GITHUB_STEP_SUMMARY").filter(|path| !path.is_empty()).map(PathBuf::from) {
        let file = OpenOptions::new().append(true).create(true).open(&path);
        file.and_then(|mut file| file.write_all(shown::markdown(builds, rules, found).as_bytes()))
            .map_err(|why| Error::File { path, why })?;
    }
    if std::env::var_os("GITHUB_ACTIONS").is_some_and(|is| is == "true")
        && let Some(line) = shown::annotation(rules, found)
    {
        // GitHub reads both streams; stdout may be JSON for another program.
        output::note(line);
    }
    Ok(())
}

/// What `--fail-on` takes, as a share.
pub fn percentage(text: &str) -> Result<f64, Error> {
    let percent = text.strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
    percent
        .filter(|percent| (0.1..=1000.0).contains(percent))
        .map(|percent| percent / 100.0)
        .ok_or_else(|| Error::Argument(format!("--fail-on: '{text}': give a percentage from 0.1% to 1000%, as in 5%")))
}

fn subject(
    options: &Options,
    command: &str,
    folder: Option<PathBuf>,
    metric: &Option<Metric>,
) -> Result<Subject, Error> {
    let program = Program::parse(command, Vec::new()).map_err(Error::Argument)?;
    let program = match folder {
        Some(folder) => program.within(folder),
        None => program,
    };
    try_::check_there(&program)?;
    let (metric, input) = (metric.clone(), options.input.clone());
    Ok(Subject { program, server: None, metric, same_output: false, input, name: None })
}

fn refused(problem: &Problem, builds: &Builds) -> Error {
    match problem {
        Problem::Fails(_, Failure::Stopped, _) => Error::Stopped("stopped before it was decided"),
        Problem::Fails(_, Failure::Start(text), _) => Error::Unmeasured(text.clone()),
        Problem::Fails(new, failure, runs) => {
            let (which, line) = if *new { ("new", &builds.new) } else { ("old", &builds.old) };
            Error::Unmeasured(format!(
                "the {which} build fails after {} of both: {line}\n{}",
                number::counted(*runs, "run"),
                try_::explained(failure)
            ))
        }
        Problem::NoFigure(run_s, moves) => Error::Argument(try_::no_figure(*run_s, moves.as_ref())),
        Problem::Budget { pair_s, needed_s } => Error::Argument(format!(
            "--budget is too small: both builds take {} to run, and no answer needs less than {}; give --budget {}s, \
             or shorter runs",
            number::time_ns(pair_s * 1e9),
            number::time_ns(needed_s * 1e9),
            (needed_s * 1.5).ceil()
        )),
    }
}
