//! Runs a workload's threads through warm-up and the measured part, and collects what each of them used.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use holdup_locks::technique::Gate;

use super::place::Padded;

use super::random::Random;
use super::timing::Timing;
use crate::sample::{Counters, Failure, FailureKind};
use crate::spec::Boost;
use crate::sys::{self, Usage};

/// A workload with its lock and data: what the threads of one run share.
pub trait Task: Sync {
    /// Operations of one thread until its limit or until it is told to stop.
    fn run(&self, me: &mut Member<'_>);

    /// Called after the stop flag was set, for tasks whose threads may sleep.
    fn stop(&self) {}

    /// Called between the phases, while all threads rest: checks the invariant of the phase that ended and makes ready
    /// for the next. `Err` says what was lost.
    fn settle(&self, phase: &Phase<'_>) -> Result<(), String>;

    /// Figures that only this workload has.
    fn extra(&self, _raw: &Raw) -> Vec<(String, f64)> {
        Vec::new()
    }
}

/// A phase that ended.
#[derive(Debug)]
pub struct Phase<'a> {
    /// Which.
    pub kind: PhaseKind,
    /// What each thread did in it.
    pub tallies: &'a [Tally],
    /// How many operations it could have at most.
    pub limit: u64,
}

/// The phases of a run, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PhaseKind {
    /// First of all: does the lock exclude? Figures of one that does not are worth nothing.
    Check,
    /// Caches, page tables and the lock get ready; bounded by operations and by time.
    WarmUp,
    /// What the sample says.
    Measured,
}

/// One measuring thread's own things; lives on the thread's stack, so on cache lines of its own.
#[derive(Debug)]
pub struct Member<'a> {
    /// 0, 1, 2 ...
    pub index: usize,
    /// Which part of the run this is.
    pub phase: PhaseKind,
    /// Own random stream.
    pub random: Random,
    /// Operations to do in this phase.
    pub limit: u64,
    /// Set when the time of the phase is over.
    pub stop: &'a AtomicBool,
    /// What was done in this phase.
    pub tally: Tally,
    /// Samples the time to acquire, when asked for.
    pub timing: Option<Timing>,
}

impl Member<'_> {
    /// Whether the time of the phase is over.
    #[inline(always)]
    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// What one thread did in one phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Operations.
    pub ops: u64,
    /// Lock acquisitions.
    pub acquisitions: u64,
    /// Steps of work inside the section.
    pub hold_steps: u64,
    /// Steps of work outside it.
    pub gap_steps: u64,
    /// Signs of lost exclusion that the thread saw itself.
    pub violations: u64,
    /// A workload's own sum: indices claimed, updates done.
    pub sum: u64,
}

/// How the threads are set up and how long they run.
#[derive(Debug)]
pub struct Plan {
    /// CPUs of each thread.
    pub cpus: Vec<Vec<u32>>,
    /// Nice value of the measuring threads.
    pub nice: Option<i32>,
    /// Time slice of the measuring threads.
    pub slice_ns: Option<u64>,
    /// Threads raise their priority: try at the start whether they may.
    pub boost: Boost,
    /// Operations of each thread in the measured part; `u64::MAX` where time decides.
    pub limits: Vec<u64>,
    /// Time of the measured part.
    pub duration: Option<Duration>,
    /// At most so many threads in their loop: each enters once and leaves at its end.
    pub gate: Option<u32>,
    /// Sample the time to acquire.
    pub latency: bool,
    /// Check the lock first.
    pub check: bool,
}

/// What the measured part gave.
#[derive(Debug, Default)]
pub struct Raw {
    /// From the release of the threads to the last one's finish.
    pub elapsed_ns: u64,
    /// When each thread finished.
    pub finish_ns: Vec<u64>,
    /// What each thread did.
    pub tallies: Vec<Tally>,
    /// What each thread used.
    pub usages: Vec<Usage>,
    /// Switches of each thread from its start to its finish, warm-up included; empty where the system does not count
    /// them.
    pub life_switches: Vec<u64>,
    /// Hardware counters, if every thread had them.
    pub counters: Option<Counters>,
    /// Sampled times to acquire of all threads.
    pub timing: Option<Timing>,
}

/// Warm-up ends after so many operations of each thread ...
const WARM_UP_OPS: u64 = 2_000;
/// ... or after this time.
const WARM_UP: Duration = Duration::from_millis(10);

/// Runs the task's threads to the end.
pub fn drive(plan: &Plan, task: &dyn Task) -> Result<Raw, Failure> {
    let threads = plan.limits.len();
    let shared = Shared {
        released: AtomicU32::new(0),
        arrived: AtomicU32::new(0),
        start_ns: AtomicU64::new(0),
        aborted: AtomicBool::new(false),
        stop: Padded(AtomicBool::new(false)),
        origin: Instant::now(),
        gate: plan.gate.map(Gate::new),
        reports: (0..threads).map(|_| Mutex::default()).collect(),
    };
    std::thread::scope(|scope| {
        for index in 0..threads {
            let shared = &shared;
            let started = std::thread::Builder::new()
                .name(format!("measure-{index}"))
                .stack_size(256 * 1024)
                .spawn_scoped(scope, move || thread_main(index, plan, task, shared));
            if let Err(error) = started {
                shared.abort();
                return Err(unsupported(format!("thread {} of {threads} could not start: {error}", index + 1)));
            }
        }
        let result = conduct(plan, task, &shared);
        if result.is_err() {
            shared.abort();
        }
        result
    })
}

/// The coordinating thread's part: it sleeps whenever the others work.
fn conduct(plan: &Plan, task: &dyn Task, shared: &Shared) -> Result<Raw, Failure> {
    shared.wait_all(None);
    let setup = shared.reports.iter().find_map(|report| report.locked().setup.clone().err());
    if let Some(why) = setup {
        return Err(unsupported(why));
    }
    let mut raw = Raw::default();
    for &kind in phases(plan) {
        let time = if kind == PhaseKind::Measured { plan.duration } else { Some(WARM_UP) };
        let start_ns = shared.release();
        if !shared.wait_all(time) {
            shared.stop.0.store(true, Ordering::Relaxed);
            task.stop();
            shared.wait_all(None);
        }
        let tallies: Vec<Tally> = shared.reports.iter().map(|report| report.locked().tally).collect();
        if kind == PhaseKind::Measured {
            raw = shared.collect(start_ns);
        }
        let settled = task.settle(&Phase { kind, tallies: &tallies, limit: phase_limit(plan, kind, 0) });
        settled.map_err(|detail| Failure { kind: FailureKind::LostUpdate, detail })?;
        shared.stop.0.store(false, Ordering::Relaxed);
    }
    shared.release();
    Ok(raw)
}

fn phases(plan: &Plan) -> &'static [PhaseKind] {
    const ALL: [PhaseKind; 3] = [PhaseKind::Check, PhaseKind::WarmUp, PhaseKind::Measured];
    if plan.check { &ALL } else { &ALL[1..] }
}

fn phase_limit(plan: &Plan, kind: PhaseKind, index: usize) -> u64 {
    match kind {
        PhaseKind::Measured => plan.limits[index],
        PhaseKind::WarmUp | PhaseKind::Check => WARM_UP_OPS,
    }
}

fn unsupported(detail: String) -> Failure {
    Failure { kind: FailureKind::Unsupported, detail }
}

/// What the threads and their conductor share.
struct Shared {
    /// How many phases have been released; threads sleep on it.
    released: AtomicU32,
    /// How many threads rest; the conductor sleeps on it.
    arrived: AtomicU32,
    /// When the current phase was released.
    start_ns: AtomicU64,
    aborted: AtomicBool,
    /// Read in every operation and written once: on a line of its own.
    stop: Padded<AtomicBool>,
    origin: Instant,
    gate: Option<Gate>,
    reports: Vec<Mutex<Report>>,
}

/// What a thread leaves for the conductor.
struct Report {
    setup: Result<(), String>,
    tally: Tally,
    usage: Usage,
    life_switches: Option<u64>,
    finish_ns: u64,
    counters: Option<Counters>,
    timing: Option<Timing>,
}

impl Default for Report {
    fn default() -> Report {
        Report {
            setup: Ok(()),
            tally: Tally::default(),
            usage: Usage::default(),
            life_switches: None,
            finish_ns: 0,
            counters: None,
            timing: None,
        }
    }
}

/// Locks a mutex whatever happened to its last holder: reports are plain figures.
trait Locked<T> {
    fn locked(&self) -> std::sync::MutexGuard<'_, T>;
}

impl<T> Locked<T> for Mutex<T> {
    fn locked(&self) -> std::sync::MutexGuard<'_, T> {
        self.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Shared {
    fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// Lets the threads go; returns when.
    fn release(&self) -> u64 {
        self.arrived.store(0, Ordering::Relaxed);
        let now = self.now_ns();
        self.start_ns.store(now, Ordering::Relaxed);
        // Release: a thread that sees the new number sees everything that was set up before it.
        self.released.fetch_add(1, Ordering::Release);
        sys::wake(&self.released, i32::MAX);
        now
    }

    fn abort(&self) {
        self.aborted.store(true, Ordering::Relaxed);
        self.release();
    }

    /// A thread rests until the given release; false when the run was given up.
    fn rest(&self, until: u32) -> bool {
        // AcqRel: the conductor, having seen the last arrival, sees what every thread wrote.
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.reports.len() as u32 {
            sys::wake(&self.arrived, 1);
        }
        loop {
            let released = self.released.load(Ordering::Acquire);
            if released >= until || self.aborted.load(Ordering::Relaxed) {
                return !self.aborted.load(Ordering::Relaxed);
            }
            sys::wait_on(&self.released, released, None);
        }
    }

    /// Sleeps until all threads rest, or until the time is over (false).
    fn wait_all(&self, time: Option<Duration>) -> bool {
        let deadline = time.map(|time| Instant::now() + time);
        loop {
            let arrived = self.arrived.load(Ordering::Acquire);
            if arrived as usize == self.reports.len() {
                return true;
            }
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            sys::wait_on(&self.arrived, arrived, left);
        }
    }

    fn collect(&self, start_ns: u64) -> Raw {
        let mut raw = Raw { counters: Some(Counters::default()), ..Raw::default() };
        for report in &self.reports {
            let mut report = report.locked();
            raw.tallies.push(report.tally);
            raw.usages.push(report.usage);
            raw.life_switches.extend(report.life_switches);
            raw.finish_ns.push(report.finish_ns.saturating_sub(start_ns));
            raw.counters = raw.counters.zip(report.counters.take()).map(|(all, one)| all.plus(&one));
            raw.timing = match (raw.timing.take(), report.timing.take()) {
                (Some(all), Some(one)) => Some(all.merged(one)),
                (all, one) => all.or(one),
            };
        }
        raw.elapsed_ns = raw.finish_ns.iter().copied().max().unwrap_or(0);
        raw
    }
}

/// A measuring thread's whole life.
fn thread_main(index: usize, plan: &Plan, task: &dyn Task, shared: &Shared) {
    let _abort = AbortOnPanic;
    shared.reports[index].locked().setup = set_up(index, plan);
    let mut counters = sys::counters::Group::open(&plan.cpus[index], plan.cpus.len()).ok();
    let mut timing = None;
    for (number, &kind) in phases(plan).iter().enumerate() {
        let mut me = Member {
            index,
            phase: kind,
            random: Random::stream(index as u64),
            limit: phase_limit(plan, kind, index),
            stop: &shared.stop.0,
            tally: Tally::default(),
            timing,
        };
        if !shared.rest(number as u32 + 1) {
            return;
        }
        let gate = shared.gate.as_ref().filter(|_| kind == PhaseKind::Measured);
        let (usage, counted) = (sys::thread_usage(), counters.as_mut().and_then(sys::counters::Group::read));
        let pass = gate.map(Gate::enter);
        task.run(&mut me);
        let finish_ns = shared.now_ns();
        drop(pass);
        let life = sys::thread_usage();
        let used = minus(life, usage);
        let mut report = shared.reports[index].locked();
        report.tally = me.tally;
        report.usage = used;
        report.life_switches = life.switches();
        report.finish_ns = finish_ns;
        report.counters = counters.as_mut().and_then(sys::counters::Group::read).zip(counted).map(|(b, a)| b.since(&a));
        timing = match kind {
            // Of CPU time, not of elapsed time: what timing costs is a share of that.
            PhaseKind::WarmUp => plan.latency.then(|| {
                let cpu_ns = (used.user_ns + used.kernel_ns) as f64;
                Timing::for_op_time(cpu_ns / me.tally.ops.max(1) as f64, index)
            }),
            PhaseKind::Measured | PhaseKind::Check => {
                report.timing = me.timing.take();
                None
            }
        };
    }
    shared.rest(phases(plan).len() as u32 + 1);
}

/// Ends the process when its thread panics: the others would wait for it for ever, and a crash is told as a crash.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

/// Where and how eagerly the calling thread runs.
fn set_up(index: usize, plan: &Plan) -> Result<(), String> {
    let cpus = &plan.cpus[index];
    sys::bind_thread(cpus).map_err(|e| format!("thread {index} cannot be bound to CPUs {cpus:?}: {e}"))?;
    if let Some(nice) = plan.nice {
        sys::set_thread_nice(nice).map_err(|e| format!("thread {index} cannot have nice value {nice}: {e}"))?;
    }
    if let Some(slice_ns) = plan.slice_ns {
        sys::set_slice(slice_ns)?;
    }
    let tried = match plan.boost {
        Boost::Off => Ok(()),
        Boost::Share => {
            let nice = sys::thread_nice();
            sys::set_thread_nice(raised(nice)).and_then(|()| sys::set_thread_nice(nice))
        }
        Boost::Realtime => sys::Priority::now().and_then(|usual| usual.raise().and_then(|()| usual.restore())),
    };
    tried.map_err(|e| format!("raising the priority is not allowed ({e}); {}", sys::BOOST_RIGHT))
}

/// The nice value inside a section with `boost`: better than everything that runs at the default, or at our own.
pub fn raised(nice: i32) -> i32 {
    nice.min(0) - 5
}

fn between(end: Option<u64>, start: Option<u64>) -> Option<u64> {
    Some(end? - start?)
}

fn minus(end: Usage, start: Usage) -> Usage {
    Usage {
        user_ns: end.user_ns.saturating_sub(start.user_ns),
        kernel_ns: end.kernel_ns.saturating_sub(start.kernel_ns),
        voluntary_switches: between(end.voluntary_switches, start.voluntary_switches),
        involuntary_switches: between(end.involuntary_switches, start.involuntary_switches),
        minor_faults: between(end.minor_faults, start.minor_faults),
        major_faults: between(end.major_faults, start.major_faults),
    }
}
