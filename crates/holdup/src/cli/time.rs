//! `holdup time`: what a whole command cost, as the kernel accounts for it.

use std::ffi::OsString;

use holdup_record::Target;
use holdup_run::{Finished, ProcessUse};

use super::{Error, Status, capture, output, slow};
use crate::report::number;
use crate::slow::Keeper;

/// Runs a command and says what it cost: real, user and kernel time, context switches, page faults, peak memory. Exits
/// as the command does (128 plus the number of a signal, 127 if there is no such command, 126 if it cannot run).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// Run it so often: the median, and how much the runs differ
    #[arg(long, alias = "repeats", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    repeat: Option<u32>,
    /// Record every run, keep the recordings of those that take so many times the median, such as 2x, and say what
    /// differed [with 10 runs, if --repeat does not say]
    #[arg(long, value_name = "TIMES", value_parser = crate::slow::parse)]
    keep_slow: Option<f64>,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  holdup time -- make -j8
  holdup time -- ./server --once
  holdup time --repeat 20 --keep-slow 2x -- ./prog   why is it slow at times?

The figures go to stderr, so the command's own output is unchanged. Signals
that end a program go to the command, and holdup stays to report.";

/// Runs it and reports.
///
/// # Errors
/// The command cannot be started.
pub fn run(options: &Options) -> Result<Status, Error> {
    // Ctrl-C is for the command; we stay and report, as on Linux after other signals too. Without a handler we end with
    // it, which loses no more than the report.
    let _ = ctrlc::set_handler(|| {});
    if let Some(times) = options.keep_slow {
        return keep_slow(options, times);
    }
    let mut runs = Vec::new();
    for _ in 0..options.repeat.unwrap_or(1) {
        let finished = once(&options.command)?;
        runs.push(finished.process);
        if finished.code != 0 {
            output::note(several(&runs).trim_end());
            return Ok(Status::Child(finished.code));
        }
    }
    output::note(several(&runs).trim_end());
    Ok(Status::Child(0))
}

fn once(command: &[OsString]) -> Result<Finished, Error> {
    let (name, arguments) = command.split_first().ok_or_else(|| Error::Argument("no command".to_owned()))?;
    let mut command = std::process::Command::new(name);
    command.args(arguments);
    holdup_run::time(&mut command).map_err(|why| Error::Command { name: name.to_string_lossy().into_owned(), why })
}

/// Runs where nobody says how many.
const RUNS: u32 = 10;

/// Records every run, and keeps the slow ones.
fn keep_slow(options: &Options, times: f64) -> Result<Status, Error> {
    let mut keeper = Keeper::new(times).map_err(|why| Error::Argument(format!("--keep-slow: {why}")))?;
    let stem = capture::stem(&capture::name_of(&Target::Command(options.command.clone())));
    let (mut runs, mut code) = (Vec::new(), 0);
    for _ in 0..options.repeat.unwrap_or(RUNS) {
        let file = keeper.next_file();
        let recorded = crate::slow::record(options.command.clone(), Vec::new(), file.clone());
        let recorded = recorded.map_err(capture::refused)?;
        runs.push(recorded.process);
        keeper.add("", recorded.process.elapsed_ns as f64, file);
        code = u8::try_from(recorded.status.unwrap_or(0)).unwrap_or(u8::MAX);
        if code != 0 {
            break;
        }
    }
    let kept = slow::keep(keeper, times, &stem)?;
    output::note(several(&runs).trim_end());
    output::note_document(&kept);
    Ok(Status::Child(code))
}

/// One run's figures; of several those of the median run, and how much they differ.
fn several(runs: &[ProcessUse]) -> String {
    let mut by_time: Vec<&ProcessUse> = runs.iter().collect();
    by_time.sort_by_key(|run| run.elapsed_ns);
    let (Some(fastest), Some(median), Some(slowest)) =
        (by_time.first(), by_time.get(runs.len().saturating_sub(1) / 2), by_time.last())
    else {
        return String::new();
    };
    if runs.len() == 1 {
        return text(median);
    }
    let seconds = |run: &ProcessUse| run.elapsed_ns as f64 / 1e9;
    format!(
        "{} runs, the median one:\n{}runs      {:10.3} s fastest, {:.3} s slowest, {} times as long\n",
        runs.len(),
        text(median),
        seconds(fastest),
        seconds(slowest),
        number::ratio(seconds(slowest) / seconds(fastest).max(1e-9))
    )
}

/// A line of context switches, or the word that the system does not count them.
pub(super) fn switches(voluntary: Option<u64>, involuntary: Option<u64>) -> String {
    match voluntary.zip(involuntary) {
        Some((voluntary, involuntary)) => {
            format!("switches  {voluntary:10} voluntary, {involuntary} involuntary")
        }
        None => "switches         n/a (this system does not count them)".to_owned(),
    }
}

/// Wine has no account of other processes.
fn cpu_time(used: &ProcessUse) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    match used.user_ns + used.kernel_ns {
        0 if holdup_bench::machine::translated_by().is_some() => {
            "user             n/a (this system does not tell it)\nkernel           n/a (this system does not tell it)"
                .to_owned()
        }
        _ => format!("user      {:10.3} s\nkernel    {:10.3} s", seconds(used.user_ns), seconds(used.kernel_ns)),
    }
}

/// Every process has some: none is what a system says that does not know.
fn memory(max_rss_bytes: u64) -> String {
    match max_rss_bytes {
        0 => "memory           n/a (this system does not count it)".to_owned(),
        bytes => format!("memory    {:10.1} MiB at most", bytes as f64 / f64::from(1 << 20)),
    }
}

/// A line that says so where something plays the system that this program was built for.
pub(super) fn translated_note() -> String {
    let note = |by: String| format!("note: {}\n", crate::warning::translated(&by));
    holdup_bench::machine::translated_by().map_or_else(String::new, note)
}

fn faults(minor: Option<u64>, major: Option<u64>) -> String {
    match (minor, major) {
        (Some(minor), Some(major)) => format!("faults    {minor:10} without I/O, {major} with"),
        (Some(all), None) => format!("faults    {all:10} (this system does not tell those with I/O apart)"),
        (None, _) => "faults           n/a (this system does not count them)".to_owned(),
    }
}

fn text(used: &ProcessUse) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    format!(
        "real      {:10.3} s\n{}\n{}\n\
         {}\n{}\n{}",
        seconds(used.elapsed_ns),
        cpu_time(used),
        switches(used.voluntary_switches, used.involuntary_switches),
        faults(used.minor_faults, used.major_faults),
        memory(used.max_rss_bytes),
        translated_note(),
    )
}
