//! Worker processes: one per run, so that a lock that hangs or crashes costs one run.

use std::path::PathBuf;
use std::time::Duration;

use crate::machine::Contamination;
use crate::sample::Sample;
use crate::spec::Spec;

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

/// Resources of a whole process, as wait4 tells them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUse {
    /// From start to end.
    pub elapsed_ns: u64,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub kernel_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// Page faults without I/O.
    pub minor_faults: u64,
    /// Page faults with I/O.
    pub major_faults: u64,
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
pub fn run(_program: &WorkerProgram, _spec: &Spec, _limit: Duration) -> std::io::Result<Run> {
    Err(std::io::Error::from(std::io::ErrorKind::Unsupported))
}
