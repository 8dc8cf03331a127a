//! The command line: one file per subcommand. Adding one: its file, a variant of [`Command`] and an arm of [`run`].

mod bench;
mod capture;
mod compare;
pub mod demo;
mod diff;
mod doctor;
mod error;
mod export;
pub mod factors;
mod flight;
mod gate;
mod generate;
mod glance;
mod history;
mod import;
mod list;
pub mod measure;
pub mod output;
mod progress;
mod record;
mod report;
mod reproduce;
mod revisions;
mod run;
mod runtime_help;
mod selftest;
mod show;
mod slow;
mod status;
mod stop;
mod time;
mod timemutex;
mod top;
mod try_;
mod turn;
mod watch;
mod whom;
mod with;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser};

use crate::runner;

pub use error::Error;
pub use status::Status;

/// What the user asked for.
#[derive(Debug)]
pub enum Request {
    /// A subcommand.
    Command(Command),
    /// To be a worker: the words that follow.
    Worker(Vec<String>),
    /// To be the demo's program: the words that follow.
    Answer(Vec<String>),
    /// To look at a recording that is under way: the words that follow.
    Look(Vec<String>),
    /// To try one behaviour of locks: the words that follow.
    Behaviour(Vec<String>),
    /// To take a turn of a service that watches, as it is told on the input.
    Turn,
}

/// Finds out what makes a multithreaded program wait, and measures which fix helps.
#[derive(Debug, Parser)]
#[command(name = "holdup", version, after_help = EXAMPLES, after_long_help = EXAMPLES, max_term_width = 80)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  holdup demo                     what holdup does, on a built-in program
  holdup bench                    what the main locks cost here, in a minute
  holdup bench --lock adaptive,pthread --threads 1..8 --gap 0,500ns
  holdup timemutex 1 5 10 8       the 1998 program: Depth 5, Delay 10, 8 threads
  holdup reproduce all --quick    do published claims about locks hold here?
  holdup record -- ./server       what do its threads wait for?
  holdup record -p 1234 --for 10s  the same for a running process
  holdup top -p 1234              the same, live
  holdup watch -p 1234            the same always, as metrics for Prometheus
  holdup try -- ./prog -t 16      which fix helps, and how sure is that?
  holdup with --lock spin-learn -- ./server  keep a fix: run with another lock
  holdup time -- make             time, switches and memory of any command
  holdup list locks               what can be measured

Exit status: 0 success, 1 a measured lock failed or a gate found the new build
slower, 2 the input is wrong, 3 a report found nothing but is no all-clear or a
gate cannot tell, 130 stopped with Ctrl-C; 'time',
'record' and 'with' exit as their program does.";

/// What is said to someone who names no command.
const START: &str = "\
holdup finds out what makes a multithreaded program wait, and which fix helps.

  holdup record ./prog ARGS   run a program, and say what its threads wait for
  holdup record -p PID        the same of a running program, until Ctrl-C
  holdup try -- ./prog ARGS   run it under other locks and settings: which helps?
  holdup demo                 both on a built-in program, in less than a minute
  holdup doctor               what may this user record on this machine?
  holdup --help               all commands, with examples
";

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Measure locks under chosen conditions
    ///
    /// Every combination of the factors' values is a cell. Each cell is measured several times, next to the baseline,
    /// in random order and each time in a process of its own. Every sample is kept in the store.
    Bench(bench::Options),
    /// Measure an experiment file: its sweeps, charts and claims
    Run(run::Options),
    /// Check published claims about threads and locks on this machine
    Reproduce(reproduce::Options),
    /// Run the 1998 program TimeMutex, with its arguments and checks
    ///
    /// NUMTHREADS threads each repeat 1,000,000 times: take a lock DEPTH times, perhaps yield, use CPU time, release it
    /// DEPTH times, perhaps yield. It shows elapsed, user and kernel time, and context switches of one run.
    #[command(name = "timemutex")]
    TimeMutex(timemutex::Options),
    /// Measure time, context switches, page faults and peak memory of a command
    ///
    /// The kernel counts the command and the children that it waited for. The exit status is the command's: 128 plus
    /// the number of a signal, 127 for a command that does not exist, 126 for one that cannot be started.
    Time(time::Options),
    /// Record what a program's threads wait for, started or running; no root needed
    ///
    /// Records switches, lock waits with call paths, and CPU samples in a file for 'holdup report'. The exit status is
    /// the program's.
    Record(Box<record::Options>),
    /// Watch a running program: where its time goes, its locks and threads, now
    ///
    /// A screen that is refreshed every two seconds. The last minute is kept in memory, and 'w' writes it as a
    /// recording.
    Top(top::Options),
    /// Watch programs always, within a budget; serve figures for Prometheus and profiles
    ///
    /// Each target is recorded for some seconds every some minutes. What is seen is served on this machine as metrics
    /// and profiles, and goes into tables where that is asked for.
    Watch(Box<watch::Options>),
    /// Find which fix helps a program: other locks, gates, fewer CPUs, arguments
    ///
    /// The program runs unchanged and under each remedy, in randomised paired runs, until it is decided what helps.
    /// "Nothing helps" and "too noisy to tell" are answers too.
    Try(Box<try_::Options>),
    /// Decide in CI whether a new build is slower than an old one
    ///
    /// Both run in random pairs within one job. The exit status is the verdict: 0 for faster or the same within the
    /// limit, 1 for slower, 3 if that cannot be told.
    Gate(Box<gate::Options>),
    /// Show on a built-in program, in less than a minute, what holds it up and which fix helps
    Demo(demo::Options),
    /// Show a recording: findings, threads, locks, pairs, functions, switches
    Report(Box<report::Options>),
    /// Compare two recordings: findings gone, new, better, worse
    Diff(diff::Options),
    /// Turn what perf recorded (perf.data) into a recording
    Import(import::Options),
    /// Say what this machine and user can record, and what would allow more
    Doctor(doctor::Options),
    /// Run a program with another lock under its pthread mutexes, or with a profile of them
    ///
    /// The program is not changed: a library that is loaded with it decides how its threads wait. It keeps its input,
    /// output, signals and exit status; the report goes to stderr.
    With(with::Options),
    /// Check that locks keep their promises here, natively and under holdup's interposer
    Selftest(selftest::Options),
    /// List locks, workloads, factors, metrics, experiments or claims
    List(list::Options),
    /// Show the runs in the store, newest first
    History(history::Options),
    /// Compare two runs: ratio, interval, verdict; or many runs by machine
    ///
    /// Cells are matched by the values of all factors. What differs between the machines is named.
    Compare(compare::Options),
    /// Write a run as CSV or JSON, or recordings as Parquet tables
    ///
    /// CSV has one row per sample and units in the header; JSON has everything: factors, samples, environment,
    /// warnings. The tables are for engines that ask many recordings at once, such as DuckDB and Spark.
    Export(Box<export::Options>),
    /// Write completions for a shell, or manual pages
    Generate(generate::Options),
}

/// Reads the command line.
///
/// # Errors
/// It makes no sense, or the user asked for help, which is printed then.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Request, Error> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let words = || arguments.iter().skip(2).map(|word| word.to_string_lossy().into_owned()).collect();
    match arguments.get(1).and_then(|first| first.to_str()) {
        Some(runner::WORKER) => return Ok(Request::Worker(words())),
        Some(demo::WORKER) => return Ok(Request::Answer(words())),
        Some(glance::LOOK) => return Ok(Request::Look(words())),
        Some(turn::TURN) => return Ok(Request::Turn),
        Some(selftest::BEHAVIOUR) => return Ok(Request::Behaviour(words())),
        None if arguments.len() < 2 => return Err(Error::Usage(START.to_owned())),
        _ => {}
    }
    match Arguments::try_parse_from(arguments) {
        Ok(arguments) => Ok(Request::Command(arguments.command)),
        Err(why) if why.use_stderr() => Err(Error::Usage(usage(&why))),
        Err(help) => output::printed(help.print()).and(Err(Error::Help)),
    }
}

/// Whether there is a subcommand of this name: what the docs propose must be there.
pub fn has_command(name: &str) -> bool {
    command().find_subcommand(name).is_some()
}

/// The definition of the command line.
fn command() -> clap::Command {
    Arguments::command()
}

/// clap's message in the form of our own.
fn usage(why: &clap::Error) -> String {
    let text = why.render().to_string();
    let text = match text.strip_prefix("error: ") {
        Some(text) => format!("holdup: {text}"),
        None => text,
    };
    let meant = match why.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(word)) if why.kind() == ErrorKind::UnknownArgument => bench::meant(word),
        _ => None,
    };
    match text.split_once("\n\nUsage: holdup bench ").zip(meant) {
        Some(((before, after), meant)) => {
            format!("{before}\n\n  tip: give what is measured as an option: {meant}\n\nUsage: holdup bench {after}")
        }
        None => text,
    }
}

/// Does what was asked.
///
/// # Errors
/// It cannot be done; the message says why and what can.
pub fn run(request: Request) -> Result<Status, Error> {
    match request {
        Request::Worker(words) => Ok(Status::Child(u8::from(holdup_bench::worker::worker_main(&words) != 0))),
        Request::Behaviour(words) => Ok(Status::Child(u8::from(holdup_run::behaviour::behaviour_main(&words) != 0))),
        Request::Answer(words) => output::print(&holdup_bench::demo::answer(&words)).map(|()| Status::Success),
        Request::Look(words) => output::print(&glance::answer(&words)).map(|()| Status::Success),
        Request::Turn => turn::take().map(|()| Status::Success),
        Request::Command(Command::Bench(options)) => bench::run(&options),
        Request::Command(Command::Run(options)) => run::run(&options),
        Request::Command(Command::Reproduce(options)) => reproduce::run(&options),
        Request::Command(Command::TimeMutex(options)) => timemutex::run(&options),
        Request::Command(Command::Time(options)) => time::run(&options),
        Request::Command(Command::Record(options)) => record::run(&options),
        Request::Command(Command::Top(options)) => top::run(&options),
        Request::Command(Command::Watch(options)) => watch::run(&options),
        Request::Command(Command::Demo(options)) => demo::run(&options),
        Request::Command(Command::Try(options)) => try_::run(&options),
        Request::Command(Command::Gate(options)) => gate::run(&options),
        Request::Command(Command::Report(options)) => report::run(&options),
        Request::Command(Command::Diff(options)) => diff::run(&options),
        Request::Command(Command::Import(options)) => import::run(&options),
        Request::Command(Command::Doctor(options)) => doctor::run(&options),
        Request::Command(Command::With(options)) => with::run(&options),
        Request::Command(Command::Selftest(options)) => selftest::run(&options),
        Request::Command(Command::List(options)) => list::run(&options),
        Request::Command(Command::History(options)) => history::run(&options),
        Request::Command(Command::Compare(options)) => compare::run(&options),
        Request::Command(Command::Export(options)) => export::run(&options),
        Request::Command(Command::Generate(options)) => generate::run(&options, command()),
    }
}
