//! `holdup time`: what a whole command cost, as the kernel accounts for it.

use std::ffi::OsString;

use holdup_bench::process::ProcessUse;

use super::{Error, Status, output};

/// Runs a command and says what it cost: real, user and kernel time, context switches, page faults, peak memory. Exits as
/// the command does (128 and its number for a signal, 127 for a command that is not there, 126 for one that cannot run).
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

The figures go to stderr, so that the command's own output stays as it is.";

/// Runs it and reports.
///
/// # Errors
/// The command cannot be started.
pub fn run(options: &Options) -> Result<Status, Error> {
    // Ctrl-C is for the command; we stay and report. Without a handler we end with it, which loses no more than the report.
    let _ = ctrlc::set_handler(|| {});
    let (name, arguments) =
        options.command.split_first().ok_or_else(|| Error::Argument("no command".to_owned()))?;
    let mut command = std::process::Command::new(name);
    command.args(arguments);
    let finished = holdup_bench::command::time(&mut command)
        .map_err(|why| Error::Command { name: name.to_string_lossy().into_owned(), why })?;
    output::note(text(&finished.process).trim_end());
    Ok(Status::Child(finished.code))
}

fn text(used: &ProcessUse) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    format!(
        "real      {:10.3} s\nuser      {:10.3} s\nkernel    {:10.3} s\nswitches  {:10} voluntary, {} involuntary\n\
         faults    {:10} without I/O, {} with\nmemory    {:10.1} MiB at most\n",
        seconds(used.elapsed_ns),
        seconds(used.user_ns),
        seconds(used.kernel_ns),
        used.voluntary_switches,
        used.involuntary_switches,
        used.minor_faults,
        used.major_faults,
        used.max_rss_bytes as f64 / f64::from(1 << 20),
    )
}
