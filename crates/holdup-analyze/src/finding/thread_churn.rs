//! thread-churn: threads are made for little work each, and most of the time goes to making and ending them.
//!
//! Signs and thresholds, per process:
//! - at least [`LEAST_THREADS`] threads began and ended within the recording, and as many a second;
//! - they ran for at most [`MOST_RUN_NS`] each, on average;
//! - at [`THREAD_NS`] each, and with what they waited for the address space in which their stacks are mapped, they cost
//!   at least [`LEAST_SHARE`] of the CPU time and those waits.
//!
//! Or workers of Node are made for little each: at least [`LEAST_WORKERS`] threads began and ended, and what makes an
//! environment for each of them (`node::CreateEnvironment`) has [`LEAST_MADE`] of the CPU samples.
//!
//! The severity is that estimate. The place is where the program makes threads, as far as samples or waits for their
//! ends tell.
//!
//! How it can be wrong: what a thread costs is an estimate (clone, a stack mapped and unmapped, the end, the join);
//! a program that keeps the stacks of ended threads pays less.

use super::weigh::{self, US, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, Primitive, ProcessFacts, Reason, Site, ThreadFacts};

pub(super) const RULE: Rule = Rule {
    kind: Kind::ThreadChurn,
    judge,
    evidence: &["cost_share", "threads_per_s", "run_ns_mean", "threads", "kernel_share"],
};

pub(super) const LEAST_THREADS: u64 = 200;
pub(super) const MOST_RUN_NS: u64 = 300 * US;
pub(super) const LEAST_SHARE: f64 = 0.05;
/// Measured here: 28 us of CPU time for std::thread and join of an empty function, on both sides together.
pub(super) const THREAD_NS: u64 = 25 * US;

const LEAST_WORKERS: u64 = 20;
pub(super) const LEAST_MADE: f64 = 0.15;
const LEAST_SAMPLES: u64 = 100;

fn judge(facts: &Facts) -> Vec<Finding> {
    let plain = facts.processes.iter().filter_map(|process| of_process(facts, process));
    plain.chain(of_workers(facts)).collect()
}

/// Workers of Node, each of which has a heap, an event loop and a library of its own.
fn of_workers(facts: &Facts) -> Option<Finding> {
    const MAKES: [&str; 2] = ["node::CreateEnvironment", "node::FreeEnvironment"];
    let makes = |name: &str| MAKES.iter().any(|start| weigh::is_function(name, start));
    let made = weigh::samples_below(facts, |frame| frame.function.as_deref().is_some_and(makes));
    let cost = weigh::share(made, weigh::samples(facts)).min(1.0);
    let process = facts.processes.iter().max_by_key(|process| short_lived(facts, process).count())?;
    let threads = short_lived(facts, process).count() as u64;
    (threads >= LEAST_WORKERS && made >= LEAST_SAMPLES && cost >= LEAST_MADE).then(|| found(facts, process, cost))
}

/// Threads of a process that began and ended within the recording, but the first.
fn short_lived<'a>(facts: &'a Facts, process: &'a ProcessFacts) -> impl Iterator<Item = &'a ThreadFacts> {
    facts.threads.iter().filter(|thread| {
        thread.pid == process.pid && thread.tid.0 != process.pid.0 && thread.exited && thread.born_ns > facts.start_ns
    })
}

fn of_process(facts: &Facts, process: &ProcessFacts) -> Option<Finding> {
    let short = || short_lived(facts, process);
    let threads = short().count() as u64;
    let mean_ns = mean_run_ns(facts, process)?;
    let memory_ns: u64 = short().filter_map(|thread| thread.off.get(&Reason::Memory)).map(|time| time.ns).sum();
    let cost = weigh::share(threads * THREAD_NS + memory_ns, weigh::cpu_ns(facts) + memory_ns).min(1.0);
    let per_s = weigh::per_s(threads, facts.span_ns());
    if threads < LEAST_THREADS || per_s < LEAST_THREADS as f64 || mean_ns > MOST_RUN_NS || cost < LEAST_SHARE {
        return None;
    }
    Some(found(facts, process, cost))
}

fn mean_run_ns(facts: &Facts, process: &ProcessFacts) -> Option<u64> {
    let run_ns: u64 = short_lived(facts, process).map(|thread| thread.on_cpu_ns).sum();
    run_ns.checked_div(short_lived(facts, process).count() as u64)
}

fn found(facts: &Facts, process: &ProcessFacts, cost: f64) -> Finding {
    let threads = short_lived(facts, process).count() as u64;
    Finding {
        severity: cost,
        subjects: vec![weigh::process_subject(process)],
        place: place(facts, process),
        evidence: vec![
            part("cost_share", cost),
            rate("threads_per_s", weigh::per_s(threads, facts.span_ns())),
            ns("run_ns_mean", mean_run_ns(facts, process).unwrap_or_default()),
            count("threads", threads),
            part("kernel_share", super::kernel_heavy::kernel_share(facts)),
        ],
        ..Finding::new(Kind::ThreadChurn, Cure::KeepThreads, weigh::record_again())
    }
}

/// Where the program makes threads; else where it waits for their ends.
fn place(facts: &Facts, process: &ProcessFacts) -> Option<Site> {
    const MAKES: [&str; 3] = ["pthread_create", "clone", "spawn_unchecked"];
    let named = |site: &&Site| {
        let mut functions = site.call_path.iter().filter_map(|frame| frame.function.as_deref());
        functions.any(|name| MAKES.iter().any(|part| name.contains(part)))
    };
    let own = || facts.threads.iter().filter(|thread| thread.pid == process.pid);
    let sampled = own().flat_map(|thread| &thread.hot_sites).chain(&facts.kernel_sites);
    let made = sampled.filter(named).filter(|site| site.is_by_program()).max_by_key(|site| site.count);
    let joins = facts.locks.iter().filter(|lock| lock.pid == process.pid && lock.primitive == Primitive::Join);
    made.or_else(|| joins.flat_map(|lock| &lock.wait_sites).max_by_key(|site| site.ns)).cloned()
}
