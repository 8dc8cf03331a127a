//! Measures a plan: one worker process per run, each sample stored at once, noise rejected, failures kept as results.
//!
//! What to do next is decided by [`Course`], which sees only the plan and what came back; workers, store and screen are
//! behind [`Workers`], [`Store`] and [`Watch`], so that tests can play a machine that is noisy or a lock that hangs.

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdup_bench::machine::Contamination;
use holdup_bench::sample::Sample;
use holdup_bench::spec::{Boost, Budget, Spec};
use holdup_run::{OwnProgram, ProcessUse};

use crate::plan::{Plan, Task};
use crate::profile;
use crate::recording::EXTENSION;
use crate::results::{RunRecord, SampleRecord};
use crate::scratch::Folder;
use crate::slow::Keeper;
use crate::store::{NewRun, Store, StoreError};
use crate::warning;

pub mod worker;

use worker::Run;

/// First argument of a worker process; not for users.
pub const WORKER: &str = "__worker";

/// A run is rejected when the hypervisor took more than this share of the machine while it ran: pairs of neighbouring
/// runs agreed within their usual spread below it.
pub const STEAL_LIMIT: f64 = 0.05;
/// A run is rejected when other processes used more than this share of the machine while it ran.
pub const BACKGROUND_LIMIT: f64 = 0.10;
/// A rejected run is measured again at most so many times.
pub const RERUNS_PER_TASK: u32 = 3;
/// All re-runs together may take this share of the planned time.
pub const RERUN_TIME_SHARE: f64 = 0.5;
/// Where more than this share of all runs so far was rejected, the machine is busy for good, and re-runs are no
/// cleaner.
pub const HOPELESS_SHARE: f64 = 0.8;
/// Runs from which on that share says something.
const RUNS_TO_DESPAIR: u64 = 10;

/// Whatever measures one cell once.
pub trait Workers {
    /// Runs the cell; an error means that no worker could be started at all.
    ///
    /// # Errors
    /// The system refused to start a process.
    fn run(&mut self, spec: &Spec, limit: Duration) -> io::Result<Run>;
}

/// Workers as processes of their own.
#[derive(Debug)]
pub struct Processes {
    program: OwnProgram,
}

impl Processes {
    /// This program again, as a worker.
    ///
    /// # Errors
    /// The system does not tell which file this program is.
    pub fn of_this_program() -> io::Result<Processes> {
        let exe = std::env::current_exe()?;
        Ok(Processes { program: OwnProgram { exe, args: vec![WORKER.to_owned()] } })
    }
}

impl Workers for Processes {
    fn run(&mut self, spec: &Spec, limit: Duration) -> io::Result<Run> {
        match spec.profile {
            true => self.profiled(spec, limit),
            false => worker::run(&self.program, spec, limit),
        }
    }
}

impl Processes {
    /// Runs a cell in a worker that is recorded, for its profile alone.
    fn profiled(&self, spec: &Spec, limit: Duration) -> io::Result<Run> {
        let folder = Folder::new("profile")?;
        let file = folder.path().join("run").with_extension(EXTENSION);
        match worker::recorded(&self.program, spec, limit, file.clone()) {
            Ok(run) => Ok(Run { outcome: run.outcome.and_then(|sample| profile::added(sample, &file)), ..run }),
            Err(why) => Ok(Run {
                outcome: Err(profile::unsupported(&why.to_string())),
                process: ProcessUse::default(),
                contamination: Contamination::default(),
            }),
        }
    }
}

/// Workers as processes of their own, each of them recorded.
#[derive(Debug)]
pub struct Recorded {
    processes: Processes,
    keeper: Keeper,
}

impl Recorded {
    /// This program again, as a worker; of each cell the recordings of runs are kept that take so many times the
    /// median.
    ///
    /// # Errors
    /// The system does not tell which file this program is, or no folder for recordings can be made.
    pub fn new(times: f64) -> io::Result<Recorded> {
        Ok(Recorded { processes: Processes::of_this_program()?, keeper: Keeper::new(times)? })
    }

    /// The recordings so far.
    pub fn into_keeper(self) -> Keeper {
        self.keeper
    }
}

impl Workers for Recorded {
    fn run(&mut self, spec: &Spec, limit: Duration) -> io::Result<Run> {
        let file = self.keeper.next_file();
        let mut run = worker::recorded(&self.processes.program, spec, limit, file.clone())?;
        if spec.profile {
            run.outcome = run.outcome.and_then(|sample| profile::added(sample, &file));
        }
        let per_op = |sample: &Sample| sample.elapsed_ns as f64 / sample.ops().max(1) as f64;
        if let Ok(sample) = &run.outcome {
            self.keeper.add(&in_short(spec), per_op(sample), file);
        }
        Ok(run)
    }
}

/// A cell by the factors that have not their default.
fn in_short(spec: &Spec) -> String {
    let default = Spec::default().to_words();
    let words: Vec<String> = spec.to_words().into_iter().filter(|word| !default.contains(word)).collect();
    if words.is_empty() { "defaults".to_owned() } else { words.join(" ") }
}

/// Whoever looks on: a progress bar, or nobody.
pub trait Watch {
    /// Measuring begins: runs planned, and runs that an earlier attempt already made.
    fn begin(&mut self, planned: usize, made: usize) {
        let _ = (planned, made);
    }
    /// This cell is measured next.
    fn next(&mut self, spec: &Spec) {
        let _ = spec;
    }
    /// A planned run is done with, `skipped` because its cell failed.
    fn done(&mut self, skipped: bool) {
        let _ = skipped;
    }
    /// A run was rejected and is measured again.
    fn again(&mut self) {}
    /// Measuring has ended.
    fn end(&mut self) {}
}

/// Nobody looks on.
#[derive(Debug)]
pub struct Nobody;

impl Watch for Nobody {}

/// How measuring ended.
#[derive(Debug)]
pub struct Outcome {
    /// Everything measured, as it stands in the store.
    pub record: RunRecord,
    /// The user stopped it before its end.
    pub interrupted: bool,
}

impl Outcome {
    /// Cells that failed by their lock's fault.
    pub fn failed_cells(&self) -> usize {
        failed_cells(&self.record)
    }
}

/// Cells that failed by their lock's fault, not for want of something on this machine.
pub fn failed_cells(record: &RunRecord) -> usize {
    record.cells.iter().filter(|cell| cell.failure().is_some() && !cell.unsupported()).count()
}

/// Why measuring could not go on.
#[derive(Debug)]
pub enum RunError {
    /// The store cannot serve.
    Store(StoreError),
    /// No worker process could be started.
    NoWorker {
        /// The run, whose samples so far are kept.
        run: i64,
        /// The system's reason.
        why: io::Error,
    },
    /// The run to resume came to its end long ago.
    Complete {
        /// The run.
        run: i64,
    },
}

impl From<StoreError> for RunError {
    fn from(why: StoreError) -> RunError {
        RunError::Store(why)
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Store(why) => why.fmt(f),
            RunError::NoWorker { run, why } => write!(
                f,
                "cannot start a worker process: {why}. What was measured is kept as run {run}; --resume {run} \
                 measures the rest"
            ),
            RunError::Complete { run } => write!(
                f,
                "run {run} came to its end: nothing is missing. 'holdup export {run} --csv' shows it, 'holdup bench' \
                 measures anew"
            ),
        }
    }
}

impl std::error::Error for RunError {}

/// Plans a new run in the store and measures it.
///
/// # Errors
/// The store cannot be written, or no worker can be started.
pub fn run(
    store: &mut Store,
    new: &NewRun,
    workers: &mut dyn Workers,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> Result<Outcome, RunError> {
    let id = store.begin_run(new)?;
    measure(store, id, workers, watch, stop)
}

/// Measures what a stored run lacks.
///
/// # Errors
/// There is no such run, it is complete, the store cannot be written, or no worker can be started.
pub fn resume(
    store: &mut Store,
    id: i64,
    workers: &mut dyn Workers,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> Result<Outcome, RunError> {
    if store.load(id)?.complete {
        return Err(RunError::Complete { run: id });
    }
    measure(store, id, workers, watch, stop)
}

fn measure(
    store: &mut Store,
    id: i64,
    workers: &mut dyn Workers,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> Result<Outcome, RunError> {
    let options = store.options(id)?;
    let mut course = Course::new(store.plan(id)?, &store.load(id)?, options.reject);
    watch.begin(course.plan.tasks.len(), course.made());
    let ended = sweep(&mut course, store, id, options.limit, workers, watch, stop);
    watch.end();
    let interrupted = ended?;
    let record = close(store, id, !interrupted)?;
    Ok(Outcome { record, interrupted })
}

/// Measures until nothing is left to do, or until the user stops it, which is told.
fn sweep(
    course: &mut Course,
    store: &mut Store,
    id: i64,
    limit: Option<Duration>,
    workers: &mut dyn Workers,
    watch: &mut dyn Watch,
    stop: &AtomicBool,
) -> Result<bool, RunError> {
    while let Some(step) = course.next() {
        if stop.load(Ordering::Relaxed) {
            return Ok(true);
        }
        let Step::Measure { task, cell } = step else {
            watch.done(true);
            continue;
        };
        let spec = &course.plan.cells[cell].1;
        watch.next(spec);
        let limit = limit.unwrap_or_else(|| default_limit(spec));
        let run = workers.run(spec, limit).map_err(|why| RunError::NoWorker { run: id, why })?;
        let (record, again) = course.judge(task, run);
        store.add_sample(id, cell, &record)?;
        if again { watch.again() } else { watch.done(false) }
    }
    Ok(false)
}

fn close(store: &mut Store, id: i64, complete: bool) -> Result<RunRecord, StoreError> {
    let mut record = store.load(id)?;
    let optimised = !cfg!(debug_assertions);
    record.warnings = warning::of(&record, optimised).iter().map(|w| (w.code().to_owned(), w.to_string())).collect();
    record.complete = complete;
    store.finish(id, complete, &record.warnings)?;
    Ok(record)
}

/// A generous limit: a run that needs twenty times what was asked for hangs.
///
/// A duration is known. Iterations are not: each acquisition is taken for one microsecond (about forty times its price
/// without contention), of several threads for three (a lock that hands over switches each time), each yield for ten,
/// each priority change for two, and the work for what it says.
pub fn default_limit(spec: &Spec) -> Duration {
    const TIMES: f64 = 20.0;
    const START: Duration = Duration::from_secs(10);
    const LONGEST_S: f64 = 1e6;
    let threads = f64::from(spec.threads);
    let expected_ns = match spec.budget {
        // Every thread may be inside its last operation when the time is over, and they leave one by one.
        Budget::DurationNs(ns) => ns as f64 + threads * op_ns(spec),
        Budget::Iterations(n) => n as f64 * threads * op_ns(spec),
    };
    START + Duration::from_secs_f64((expected_ns * TIMES / 1e9).min(LONGEST_S))
}

fn op_ns(spec: &Spec) -> f64 {
    const ACQUISITION_NS: f64 = 1e3;
    const HAND_OVER_NS: f64 = 3e3;
    const YIELD_NS: f64 = 1e4;
    const BOOST_NS: f64 = 2e3;
    // A step of the work loop takes about a nanosecond; the limit is generous enough not to care.
    let ns = |work: holdup_bench::work::Work| work.mean().units(1.0);
    let pauses = f64::from(u8::from(spec.pause.holding) + u8::from(spec.pause.released));
    let pause_ns = spec.pause.sleep_ns.map_or(YIELD_NS, |ns| ns as f64 + YIELD_NS);
    let database = match spec.workload {
        holdup_bench::spec::Workload::Db => ns(spec.read).max(ns(spec.update)),
        _ => 0.0,
    };
    f64::from(spec.depth.max(1) * spec.nest) * if spec.threads > 1 { HAND_OVER_NS } else { ACQUISITION_NS }
        + ns(spec.hold)
        + ns(spec.gap)
        + database
        + pauses * pause_ns
        + f64::from(u8::from(spec.boost != Boost::Off)) * BOOST_NS
}

/// Where a sweep stands, and what comes next.
struct Course {
    plan: Plan,
    reject: bool,
    /// Position of the task that is next.
    at: usize,
    /// Per task: done with.
    done: Vec<bool>,
    /// Per task: rejected so often.
    rejected: Vec<u32>,
    /// Per cell: failed, not measured any more.
    failed: Vec<bool>,
    /// Time of all measurements, their number, and the part that was rejected.
    spent_ns: u64,
    measurements: u64,
    rejected_ns: u64,
}

enum Step {
    Measure { task: usize, cell: usize },
    Skip,
}

impl Course {
    fn new(plan: Plan, so_far: &RunRecord, reject: bool) -> Course {
        let mut course = Course {
            reject,
            at: 0,
            done: vec![false; plan.tasks.len()],
            rejected: vec![0; plan.tasks.len()],
            failed: vec![false; plan.cells.len()],
            spent_ns: 0,
            measurements: 0,
            rejected_ns: 0,
            plan,
        };
        for (cell, record) in so_far.cells.iter().enumerate() {
            for sample in &record.samples {
                course.take(sample.order as usize, cell, sample);
            }
        }
        course
    }

    fn made(&self) -> usize {
        self.done.iter().filter(|done| **done).count()
    }

    fn next(&mut self) -> Option<Step> {
        while self.done.get(self.at) == Some(&true) {
            self.at += 1;
        }
        let Task { cell, .. } = *self.plan.tasks.get(self.at)?;
        if self.failed[cell] {
            self.done[self.at] = true;
            return Some(Step::Skip);
        }
        Some(Step::Measure { task: self.at, cell })
    }

    /// Makes a record of a finished run, and decides whether its task is measured again.
    fn judge(&mut self, task: usize, run: Run) -> (SampleRecord, bool) {
        let Task { cell, repeat, block } = self.plan.tasks[task];
        let rejected = self.reject && run.outcome.is_ok() && self.contaminated(&run);
        let record = SampleRecord {
            repeat,
            block,
            order: u32::try_from(task).unwrap_or(u32::MAX),
            outcome: run.outcome,
            process: run.process,
            contamination: run.contamination,
            rejected,
        };
        self.take(task, cell, &record);
        if rejected && !self.may_run_again(task) {
            self.done[task] = true;
        }
        (record, !self.done[task])
    }

    fn take(&mut self, task: usize, cell: usize, record: &SampleRecord) {
        self.spent_ns += record.process.elapsed_ns;
        self.measurements += 1;
        let Some(done) = self.done.get_mut(task) else { return };
        if record.rejected {
            self.rejected[task] += 1;
            self.rejected_ns += record.process.elapsed_ns;
            *done = self.rejected[task] > RERUNS_PER_TASK;
        } else {
            *done = true;
        }
        self.failed[cell] |= record.outcome.is_err();
    }

    fn may_run_again(&self, task: usize) -> bool {
        let mean_ns = self.spent_ns as f64 / self.measurements.max(1) as f64;
        let planned_ns = mean_ns * self.plan.tasks.len() as f64;
        let rejected: u32 = self.rejected.iter().sum();
        let hopeless =
            self.measurements >= RUNS_TO_DESPAIR && f64::from(rejected) > self.measurements as f64 * HOPELESS_SHARE;
        let affordable = self.rejected_ns as f64 <= planned_ns * RERUN_TIME_SHARE;
        self.rejected[task] <= RERUNS_PER_TASK && affordable && !hopeless
    }

    /// The hypervisor's share is told in ticks of 10 ms: one tick more or less on each CPU must not decide.
    fn contaminated(&self, run: &Run) -> bool {
        const TICK_NS: f64 = 10e6;
        let grain = TICK_NS / run.process.elapsed_ns.max(1) as f64;
        let seen = &run.contamination;
        seen.background_share > BACKGROUND_LIMIT || seen.steal_share > STEAL_LIMIT + grain
    }
}

#[cfg(test)]
mod tests;
