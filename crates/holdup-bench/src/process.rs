//! Worker processes: one per run, so that a lock that hangs or crashes costs one run.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::machine::{self, Contamination};
use crate::measure;
use crate::sample::Sample;
use crate::spec::Spec;
use crate::sys::{self, Ended};
use crate::worker;

/// How to start a worker: this program again, with the arguments that make it one.
#[derive(Clone, Debug)]
pub struct WorkerProgram {
    /// The executable.
    pub exe: PathBuf,
    /// Arguments before the cell's words.
    pub args: Vec<String>,
}

/// One finished run, good or not.
#[derive(Clone, Debug)]
pub struct Run {
    /// The sample, or why there is none.
    pub outcome: Result<Sample, Failure>,
    /// The whole worker process, warm-up and start included, as the kernel accounts for it.
    pub process: ProcessUse,
    /// What else the machine did meanwhile.
    pub contamination: Contamination,
}

/// Resources of a whole process, as the system accounts for them (wait4 on Linux); `None` is what it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUse {
    /// From start to end.
    pub elapsed_ns: u64,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub kernel_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches.
    pub involuntary_switches: Option<u64>,
    /// Page faults without I/O.
    pub minor_faults: Option<u64>,
    /// Page faults with I/O.
    pub major_faults: Option<u64>,
    /// Peak resident memory.
    pub max_rss_bytes: u64,
}

/// Why a run has no sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind, for exit status and tables.
    pub kind: FailureKind,
    /// One sentence for people.
    pub detail: String,
}

/// Kinds of failed runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The workload's invariant did not hold at the end: the lock does not exclude.
    LostUpdate,
    /// No end within the time limit.
    Hang,
    /// Ended by a signal or an unexpected exit.
    Crash,
    /// This machine or user cannot do what the cell asks for; not the lock's fault.
    Unsupported,
}

/// Runs one cell once in a fresh worker process.
///
/// # Errors
/// Only when no worker could be started at all; whatever happens to a started worker is an outcome.
pub fn run(program: &WorkerProgram, spec: &Spec, limit: Duration) -> std::io::Result<Run> {
    let mut command = Command::new(&program.exe);
    command
        .args(&program.args)
        .args(spec.to_words())
        .env(worker::PARENT, std::process::id().to_string())
        // A worker's last line is kept as the reason of its end; a backtrace would push the reason out.
        .env("RUST_BACKTRACE", "0");
    // A cell that names CPUs which are not there has no window of its own; its failure comes from the worker.
    let cpus = measure::cpus(spec).unwrap_or_else(|_| sys::allowed_cpus());
    let window = machine::Window::open(&cpus);
    let ended = sys::supervise(&mut command, limit)?;
    let contamination = window.close(ended.process.user_ns + ended.process.kernel_ns);
    Ok(Run { outcome: outcome(&ended, limit), process: ended.process, contamination })
}

fn outcome(ended: &Ended, limit: Duration) -> Result<Sample, Failure> {
    let crash = |detail| Err(Failure { kind: FailureKind::Crash, detail });
    if ended.killed {
        let limit_s = limit.as_secs_f64();
        let detail =
            format!("no end within {limit_s} s: a thread waits for ever, or the time limit is too short");
        return Err(Failure { kind: FailureKind::Hang, detail });
    }
    let last_words = last_words(&ended.stderr);
    if let Some(signal) = sys::signal_name(ended.status) {
        return crash(format!("ended by {signal}{last_words}"));
    }
    match ended.stdout.strip_suffix(&format!("{}\n", worker::END)) {
        None => crash(format!("{} in the middle of its report{last_words}", ended.status)),
        Some(text) if ended.status.success() => {
            Sample::from_text(text).or_else(|why| crash(format!("its report makes no sense: {why}")))
        }
        Some(text) => Err(worker::read_failure(text).unwrap_or_else(|| Failure {
            kind: FailureKind::Crash,
            detail: format!("{}{last_words}", ended.status),
        })),
    }
}

/// The last line that a worker wrote on stderr, as the end of a sentence.
fn last_words(stderr: &str) -> String {
    // A panic's own last line is an advice how to see more, not what happened.
    let says_something = |line: &&str| !line.trim().is_empty() && !line.starts_with("note: ");
    let line = stderr.lines().rev().find(says_something);
    line.map_or_else(String::new, |line| format!("; its last words: {}", line.trim()))
}
