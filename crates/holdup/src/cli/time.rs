//! `holdup time`: what a whole command cost, as the kernel accounts for it.

use std::ffi::OsString;

use holdup_run::ProcessUse;

use super::{Error, Status, output};

/// Runs a command and says what it cost: real, user and kernel time, context switches, page faults, peak memory. Exits
/// as the command does (128 plus the number of a signal, 127 if there is no such command, 126 if it cannot run).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  holdup time -- make -j8
  holdup time -- ./server --once

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
    let (name, arguments) = options.command.split_first().ok_or_else(|| Error::Argument("no command".to_owned()))?;
    let mut command = std::process::Command::new(name);
    command.args(arguments);
    let finished = holdup_run::time(&mut command)
        .map_err(|why| Error::Command { name: name.to_string_lossy().into_owned(), why })?;
    output::note(text(&finished.process).trim_end());
    Ok(Status::Child(finished.code))
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
