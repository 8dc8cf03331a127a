//! Worker processes: one per run, so that a lock that hangs or crashes costs one run.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use holdup_bench::machine::{Contamination, Window};
use holdup_bench::sample::{Failure, FailureKind, Sample};
use holdup_bench::spec::{Spec, cpus};
use holdup_bench::worker::{self, Report};
use holdup_run::{Outcome, OwnProgram, ProcessUse};

use crate::slow;

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

fn crash(detail: String) -> Failure {
    Failure { kind: FailureKind::Crash, detail }
}

fn outcome(ended: &Outcome) -> Result<Sample, Failure> {
    let last_words = ended.last_words();
    if let Some(signal) = &ended.signal {
        return Err(crash(format!("ended by {signal}{last_words}")));
    }
    told(&ended.stdout, ended.status.success(), &ended.status.to_string(), &last_words)
}

/// What a worker's report says, which it wrote before it ended like this.
fn told(report: &str, success: bool, status: &str, last_words: &str) -> Result<Sample, Failure> {
    match serde_json::from_str(report) {
        Ok(Report { sample: Some(sample), failure: None, .. }) if success => Ok(sample),
        Ok(Report { failure: Some(failure), .. }) if !success => Err(failure),
        Ok(_) => Err(crash(format!("{status}{last_words}"))),
        Err(why) if why.is_eof() => Err(crash(format!("{status} in the middle of its report{last_words}"))),
        Err(why) => Err(crash(format!("its report makes no sense: {why}"))),
    }
}

/// Runs one cell once in a fresh worker process, and records it into this file.
///
/// # Errors
/// It cannot be recorded, or no worker can be started.
pub fn recorded(program: &OwnProgram, spec: &Spec, limit: Duration, file: PathBuf) -> io::Result<Run> {
    const INTO_FILE: [&str; 3] = ["/bin/sh", "-c", "file=$1; shift; exec \"$@\" </dev/null >\"$file\" 2>&1"];
    let report = file.with_extension("json");
    let words = INTO_FILE.map(OsString::from).into_iter().chain(["holdup".into(), report.clone().into_os_string()]);
    let words = words.chain([program.exe.clone().into_os_string()]);
    let words = words.chain(program.args.iter().cloned().chain(spec.to_words()).map(OsString::from));
    let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
    let environment = [
        (worker::PARENT, std::process::id().to_string()),
        (worker::LIMIT_MS, limit_ms.to_string()),
        ("RUST_BACKTRACE", "0".to_owned()),
    ];
    let environment = environment.map(|(name, value)| (name.into(), value.into())).into();
    let cpus = cpus(spec).unwrap_or_else(|_| holdup_run::allowed_cpus());
    let window = Window::open(&cpus);
    let ended = slow::record(words.collect(), environment, file).map_err(|why| io::Error::other(why.to_string()))?;
    let process = ended.process;
    let contamination = window.close(process.user_ns + process.kernel_ns + ended.recorder_cpu_ns);
    let said = std::fs::read_to_string(&report).unwrap_or_default();
    // What goes with its folder anyway.
    let _ = std::fs::remove_file(&report);
    let outcome = match ended.status {
        Some(code) if code != 0 && process.elapsed_ns >= limit_ms.saturating_mul(1_000_000) => Err(hang(limit)),
        status => told(&said, status == Some(0), &format!("exit status {}", status.unwrap_or(-1)), ""),
    };
    Ok(Run { outcome, process, contamination })
}
