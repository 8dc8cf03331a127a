//! From a cell to its sample, inside the worker process.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::lock::{self, BenchLock};
use crate::sample::{Failure, FailureKind, Sample};
use crate::spec::{self, Between, Budget, GateKind, Spec, Workload};
use crate::sys;
use crate::workload::drive::{self, Member, PhaseKind, Plan, Raw, Tally, Task};
use crate::workload::random::{Draw, Random};
use crate::workload::{self, Context, burn};

/// Measures one cell once, in this process: calibrates, warms up, measures and checks.
///
/// # Errors
/// The lock lost an update, or this machine cannot do what the cell asks for. A lock that hangs hangs here: run it in a
/// process of its own.
pub fn measure(spec: &Spec) -> Result<Sample, Failure> {
    let unit_ns = burn::unit_ns();
    let cpus = spec::cpus(spec).map_err(unsupported)?;
    let nice = sys::thread_nice() + if spec.background { LOWER_PRIORITY } else { 0 };
    let context = Context { spec, unit_ns, hold: Draw::of(spec.hold, unit_ns), gap: Draw::of(spec.gap, unit_ns), nice };
    // Forks: before there is a second thread.
    let hogs = if spec.background { sys::Hogs::start(&cpus).map(Some) } else { Ok(None) };
    let hogs = hogs.map_err(|e| unsupported(format!("no process could be started to compete: {e}")))?;
    // The conductor of the threads runs where they run.
    sys::bind_thread(&cpus).map_err(|e| unsupported(format!("the worker cannot be bound to CPUs {cpus:?}: {e}")))?;
    let plan = plan(spec, &cpus, nice);
    let result = if spec.workload == Workload::Map {
        let task = workload::map::build(&context).ok_or_else(|| unsupported(format!("'{}' is no map", spec.lock)))?;
        finish(&context, &plan, task.as_ref())
    } else {
        let lock = if spec.depth == 0 { "none" } else { &spec.lock };
        lock::dispatch(lock, spec.rmw, spec.depth > 1, Measure { context: &context, plan })
    };
    drop(hogs);
    result
}

/// How much lower the priority of ours is than that of the competing processes.
const LOWER_PRIORITY: i32 = 10;

/// What is done with the lock type behind a name.
struct Measure<'a> {
    context: &'a Context<'a>,
    plan: Plan,
}

impl lock::Visitor for Measure<'_> {
    type Out = Result<Sample, Failure>;

    fn visit<L: BenchLock>(self) -> Self::Out {
        let wrapper_ns = L::wrapper_ns(self.context.spec);
        let mut sample = finish(self.context, &self.plan, workload::build::<L>(self.context)?.as_ref())?;
        sample.extra.extend(wrapper_ns.map(|ns| ("recursion_wrapper_ns".to_owned(), ns)));
        Ok(sample)
    }

    fn unknown(self, name: &str) -> Self::Out {
        Err(unsupported(format!("there is no lock '{name}' in this build")))
    }
}

/// The part that does not depend on the lock's type, so that it is compiled once.
fn finish(context: &Context<'_>, plan: &Plan, task: &dyn Task) -> Result<Sample, Failure> {
    let rivals = match context.spec.between {
        Between::Threads => None,
        Between::Processes => Some(rivals(context.spec.threads - 1, task)?),
    };
    let raw = drive::drive(plan, task)?;
    drop(rivals);
    Ok(sample(context, &raw, task))
}

/// Processes that do the same work until they are killed.
fn rivals(count: u32, task: &dyn Task) -> Result<sys::Hogs, Failure> {
    let compete = |index: usize| {
        let stop = AtomicBool::new(false);
        task.run(&mut Member {
            index,
            phase: PhaseKind::Measured,
            random: Random::stream(index as u64),
            limit: u64::MAX,
            stop: &stop,
            tally: Tally::default(),
            timing: None,
        });
    };
    sys::Hogs::rivals(count, &compete).map_err(|why| unsupported(format!("no process could be started: {why}")))
}

fn sample(context: &Context<'_>, raw: &Raw, task: &dyn Task) -> Sample {
    let sum = |of: fn(&sys::Usage) -> u64| raw.usages.iter().map(of).sum::<u64>();
    let counted = |of: fn(&sys::Usage) -> Option<u64>| raw.usages.iter().map(of).sum::<Option<u64>>();
    let total = |of: fn(&drive::Tally) -> u64| raw.tallies.iter().map(of).sum::<u64>();
    let ops = total(|tally| tally.ops);
    // A packet is worked on once inside and once outside, and is an operation of each side.
    let draws = if context.spec.workload == Workload::PingPong { ops / workload::ping_pong::SIDES } else { ops };
    let mean_ns = |steps: u64| steps as f64 * context.unit_ns / draws.max(1) as f64;
    let (user_ns, kernel_ns) = (sum(|u| u.user_ns), sum(|u| u.kernel_ns));
    Sample {
        elapsed_ns: raw.elapsed_ns,
        user_ns,
        kernel_ns,
        voluntary_switches: counted(|u| u.voluntary_switches),
        involuntary_switches: counted(|u| u.involuntary_switches),
        minor_faults: counted(|u| u.minor_faults),
        major_faults: counted(|u| u.major_faults),
        thread_ops: raw.tallies.iter().map(|tally| tally.ops).collect(),
        thread_finish_ns: raw.finish_ns.clone(),
        thread_life_switches: raw.life_switches.clone(),
        acquisitions: total(|tally| tally.acquisitions),
        unit_ns: context.unit_ns,
        hold_ns_mean: mean_ns(total(|tally| tally.hold_steps)),
        gap_ns_mean: mean_ns(total(|tally| tally.gap_steps)),
        latency: raw.timing.as_ref().map(|timing| timing.summary(user_ns + kernel_ns)),
        counters: raw.counters.clone(),
        extra: task.extra(raw),
    }
}

fn plan(spec: &Spec, cpus: &[u32], nice: i32) -> Plan {
    // Of processes the first is measured.
    let threads = if spec.between == Between::Processes { 1 } else { spec.threads as usize };
    let of_thread = |index: usize| if spec.pin { vec![cpus[index % cpus.len()]] } else { cpus.to_vec() };
    Plan {
        cpus: (0..threads).map(of_thread).collect(),
        nice: spec.background.then_some(nice),
        slice_ns: spec.slice_ns,
        boost: spec.boost,
        limits: (0..threads).map(|index| limit(spec, index)).collect(),
        duration: match spec.budget {
            Budget::DurationNs(ns) => Some(Duration::from_nanos(ns)),
            Budget::Iterations(_) => None,
        },
        gate: spec.active.filter(|active| spec.gate == GateKind::Thread && *active < spec.threads),
        latency: spec.latency,
        check: threads > 1
            && matches!(spec.workload, Workload::Empty | Workload::Counter | Workload::FreeList | Workload::ThreadId),
    }
}

/// Operations of one thread.
fn limit(spec: &Spec, index: usize) -> u64 {
    match spec.budget {
        Budget::DurationNs(_) => u64::MAX,
        // Split evenly, the remainder to the first threads.
        Budget::Iterations(total) if spec.workload == Workload::Db => {
            let threads = u64::from(spec.threads);
            total / threads + u64::from((index as u64) < total % threads)
        }
        Budget::Iterations(each) => each,
    }
}

fn unsupported(detail: String) -> Failure {
    Failure { kind: FailureKind::Unsupported, detail }
}
