//! Worker processes: one per run, so that a lock that hangs or crashes costs one run.

use std::io;
use std::time::Duration;

use holdup_bench::machine::{Contamination, Window};
use holdup_bench::sample::{Failure, FailureKind, Sample};
use holdup_bench::spec::{Spec, cpus};
use holdup_bench::worker::{self, Report};
use holdup_run::{Outcome, OwnProgram, ProcessUse};

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

/// Runs one cell once in a fresh worker process.
///
/// # Errors
/// Only when no worker could be started at all; whatever happens to a started worker is an outcome.
pub fn run(program: &OwnProgram, spec: &Spec, limit: Duration) -> io::Result<Run> {
    let mut command = program.command();
    command.args(spec.to_words()).env(worker::PARENT, std::process::id().to_string());
    // A cell that names CPUs which are not there has no window of its own; its failure comes from the worker.
    let cpus = cpus(spec).unwrap_or_else(|_| holdup_run::allowed_cpus());
    let window = Window::open(&cpus);
    let (ended, in_time) = holdup_run::run_for(&mut command, limit)?;
    let contamination = window.close(ended.process.user_ns + ended.process.kernel_ns);
    let outcome = if in_time { outcome(&ended) } else { Err(hang(limit)) };
    Ok(Run { outcome, process: ended.process, contamination })
}

fn hang(limit: Duration) -> Failure {
    let limit_s = limit.as_secs_f64();
    let detail = format!("no end within {limit_s} s: a thread waits for ever, or the time limit is too short");
    Failure { kind: FailureKind::Hang, detail }
}

fn outcome(ended: &Outcome) -> Result<Sample, Failure> {
    let crash = |detail| Failure { kind: FailureKind::Crash, detail };
    let last_words = ended.last_words();
    if let Some(signal) = &ended.signal {
        return Err(crash(format!("ended by {signal}{last_words}")));
    }
    match serde_json::from_str(&ended.stdout) {
        Ok(Report { sample: Some(sample), failure: None, .. }) if ended.status.success() => Ok(sample),
        Ok(Report { failure: Some(failure), .. }) if !ended.status.success() => Err(failure),
        Ok(_) => Err(crash(format!("{}{last_words}", ended.status))),
        Err(why) if why.is_eof() => Err(crash(format!("{} in the middle of its report{last_words}", ended.status))),
        Err(why) => Err(crash(format!("its report makes no sense: {why}"))),
    }
}
