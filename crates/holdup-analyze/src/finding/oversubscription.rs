//! oversubscription: more threads of one process want to run than there are CPUs for them, all the time.
//!
//! Signs and thresholds:
//! - more threads are running or runnable than the program has CPUs during at least [`LEAST_OVER_SHARE`] of the
//!   recording;
//! - in one process more threads than CPUs are runnable: each spends at least [`RUNNABLE_SHARE`] of its life on a CPU
//!   or preempted by other threads of the program, and lives through at least a fifth of the recording. The time for
//!   which other programs had its CPU is taken off its life. A tree of single-threaded processes (a build) is its
//!   user's choice;
//! - others of the program have the CPUs of these threads for at least [`LEAST_DELAY_SHARE`] of the time that all
//!   threads had or wanted one;
//! - at least [`LEAST_PREEMPTIONS`] preemptions, so that slices and not one accident are at work;
//! - it costs something: at least [`LEAST_COST`] of the threads' working time is waited for lock holders that are
//!   preempted, as far as CPUs are idle or go to switching, or spent spinning. Threads that only compute and share
//!   nothing lose nothing by taking turns.
//!
//! Or more threads than CPUs meet at barriers, so often that the program switches excessively (see
//! excessive-switching), and at least half of these switches are waits there: with as many threads as CPUs nobody would
//! have to leave one for the next to come. The place is the barrier with most waits, the severity the share of CPU time
//! that goes to the kernel, which switches, and to spinning.
//!
//! The place is the function of the program in which the runnable threads have most CPU samples.
//!
//! The severity is that cost.
//!
//! How it can be wrong: a program that is bound to some of the machine's CPUs is judged by all of them. What taking
//! turns costs in caches is not seen: `holdup try --vary` shows it.

use holdup_trace::Tid;
use rustc_hash::FxHashSet;

use super::weigh::{self, count, part, rate};
use super::{Command, Cure, Finding, Kind, Rule};
use super::{excessive_switching, kernel_heavy};
use crate::facts::{Facts, LockFacts, Primitive, ProcessFacts, ThreadFacts};
use crate::names::Frame;
use crate::spans::most_at_once;

pub(super) const RULE: Rule = Rule {
    kind: Kind::Oversubscription,
    judge,
    evidence: &["cost_share", "delay_share", "over_share", "hungry_threads", "cpus", "preemptions_per_s"],
};

pub(super) const LEAST_OVER_SHARE: f64 = 0.25;
pub(super) const LEAST_DELAY_SHARE: f64 = 0.25;
pub(super) const RUNNABLE_SHARE: f64 = 0.5;
pub(super) const LEAST_LIFE_SHARE: f64 = 0.2;
pub(super) const LEAST_PREEMPTIONS: u64 = 20;
pub(super) const LEAST_COST: f64 = 0.1;

fn judge(facts: &Facts) -> Vec<Finding> {
    let cpus = facts.header.machine.cpus as usize;
    if cpus == 0 {
        return Vec::new();
    }
    let are_wanted = over_share(facts, cpus) >= LEAST_OVER_SHARE;
    let costs = |process: &&ProcessFacts| is_over(facts, process, cpus) && cost_share(facts, process) >= LEAST_COST;
    let over = facts.processes.iter().filter(|process| are_wanted && costs(process));
    let findings: Vec<Finding> = over.map(|process| finding(facts, process, cpus)).collect();
    if findings.is_empty() { at_barrier(facts, cpus).into_iter().collect() } else { findings }
}

/// More threads than CPUs meet at barriers, over and over. What that costs is the kernel's part of the CPU time, which
/// goes to letting threads sleep and go on, and what is spun for.
fn at_barrier(facts: &Facts, cpus: usize) -> Option<Finding> {
    let barriers = || facts.locks.iter().filter(|lock| lock.primitive == Primitive::Barrier);
    let barrier = barriers().max_by_key(|lock| lock.waits)?;
    let switching = excessive_switching::of_threads(facts)?;
    let of_process = || barriers().filter(|lock| lock.pid == barrier.pid);
    let threads = of_process().map(|lock| at_once(facts, lock)).max()?;
    let waits: u64 = of_process().map(|lock| lock.waits).sum();
    let process = facts.process(barrier.pid)?;
    let is_over = threads > cpus as u64 && waits as f64 * 2.0 >= weigh::value(&switching, "switches");
    let cost = switching.severity.max((kernel_heavy::kernel_share(facts) + spin_share(facts)).min(1.0));
    is_over.then(|| Finding {
        severity: cost,
        subjects: vec![weigh::process_subject(process)],
        place: of_process()
            .flat_map(|lock| &lock.wait_sites)
            .find(|site| site.is_by_program())
            .or(barrier.wait_sites.first())
            .cloned(),
        evidence: vec![
            part("cost_share", cost),
            part("over_share", over_share(facts, cpus)),
            count("hungry_threads", threads),
            count("cpus", cpus as u64),
        ],
        ..Finding::new(Kind::Oversubscription, Cure::FewerThreads, proof(barrier, cpus))
    })
}

/// How many threads wait for a lock that are there at a time: they may be made anew for each piece of work.
fn at_once(facts: &Facts, lock: &LockFacts) -> u64 {
    let waiters: FxHashSet<Tid> = lock.waiters.iter().map(|(tid, _)| *tid).collect();
    let threads = facts.threads.iter().filter(|thread| waiters.contains(&thread.tid));
    most_at_once(threads.map(ThreadFacts::life))
}

/// OpenMP's threads are told by a variable how many they are.
fn proof(barrier: &LockFacts, cpus: usize) -> Command {
    let mut frames = barrier.wait_sites.iter().flat_map(|site| &site.call_path);
    if frames.any(Frame::is_of_openmp) {
        return weigh::try_with(&format!("--env OMP_THREAD_LIMIT={cpus},1"));
    }
    weigh::try_with("--cpus all,1 --slices default,20ms")
}

/// Gates can only be put before the mutexes of pthread: for Rust's std, Go and static programs there are others.
fn crowd_proof(facts: &Facts) -> Command {
    let serves = facts.locks.iter().any(|lock| lock.primitive == Primitive::Mutex);
    weigh::try_with(if serves { "--slices default,20ms --gates 1,2" } else { "--slices default,20ms --cpus all,1" })
}

fn spin_share(facts: &Facts) -> f64 {
    weigh::share(crate::spinning::hits(facts), weigh::samples(facts)) * weigh::sampled_share(facts)
}

/// Whether some of the threads mostly spin, while at least as many others hardly do: those that spin are too many, not
/// the threads.
fn spinners_are_too_many<'a>(threads: impl Iterator<Item = &'a ThreadFacts>) -> bool {
    const HARDLY: f64 = 0.1;
    let shares: Vec<f64> = threads.map(|thread| weigh::share(thread.spun_ns, thread.on_cpu_ns)).collect();
    let spinning = shares.iter().filter(|share| **share >= 0.5).count();
    let working = shares.iter().filter(|share| **share <= HARDLY).count();
    spinning > 0 && working >= spinning
}

/// What taking turns costs: waits for holders that wait for a CPU, and spinning while somebody else should run.
fn cost_share(facts: &Facts, process: &ProcessFacts) -> f64 {
    let waits: f64 =
        weigh::contended(facts).map(|(_, lock)| weigh::wait_share(facts, lock) * weigh::holding(lock).preempted).sum();
    // While a holder waits for a CPU, the thread that has it works: only switches are lost, and what is idle anyway.
    let spun = if spinners_are_too_many(runnable_threads(facts, process)) { 0.0 } else { spin_share(facts) };
    waits
        .min(weigh::idle(facts) + weigh::switching(facts, facts.totals.switches))
        .max(weigh::of_work(facts, spun))
        .min(1.0)
}

fn is_over(facts: &Facts, process: &ProcessFacts, cpus: usize) -> bool {
    let preemptions: u64 = runnable_threads(facts, process).map(|thread| weigh::preempted(thread).count).sum();
    let runnable_threads = runnable_threads(facts, process).count();
    runnable_threads > cpus && delay_share(facts, process) >= LEAST_DELAY_SHARE && preemptions >= LEAST_PREEMPTIONS
}

/// How long more threads wanted to run than there are CPUs.
fn over_share(facts: &Facts, cpus: usize) -> f64 {
    let over_ns: u64 = facts.totals.runnable_ns.iter().skip(cpus + 1).sum();
    weigh::share(over_ns, facts.span_ns())
}

fn runnable_threads<'a>(facts: &'a Facts, process: &'a ProcessFacts) -> impl Iterator<Item = &'a ThreadFacts> {
    let span_ns = facts.span_ns();
    facts.threads.iter().filter(move |thread| {
        thread.pid == process.pid
            && weigh::share(weigh::wanted_ns(thread), own_life_ns(thread)) >= RUNNABLE_SHARE
            && weigh::share(thread.life_ns(), span_ns) >= LEAST_LIFE_SHARE
    })
}

/// A thread's life without what other programs took of it.
fn own_life_ns(thread: &ThreadFacts) -> u64 {
    thread.life_ns().saturating_sub(weigh::displaced_ns(thread))
}

fn delay_share(facts: &Facts, process: &ProcessFacts) -> f64 {
    let delay_ns: u64 = runnable_threads(facts, process).map(|thread| weigh::preempted(thread).ns).sum();
    let all_ns: u64 = facts.threads.iter().map(weigh::wanted_ns).sum();
    weigh::share(delay_ns, all_ns)
}

fn finding(facts: &Facts, process: &ProcessFacts, cpus: usize) -> Finding {
    let delay_share = delay_share(facts, process);
    let preemptions: u64 = runnable_threads(facts, process).map(|thread| weigh::preempted(thread).count).sum();
    let cost = cost_share(facts, process);
    // Those that there are at a time: they may be made anew for each piece of work.
    let lives = runnable_threads(facts, process).map(ThreadFacts::life);
    Finding {
        kind: Kind::Oversubscription,
        bound: None,
        severity: cost,
        subjects: vec![weigh::process_subject(process)],
        place: weigh::hottest(runnable_threads(facts, process)),
        evidence: vec![
            part("cost_share", cost),
            part("delay_share", delay_share),
            part("over_share", over_share(facts, cpus)),
            count("hungry_threads", most_at_once(lives)),
            count("cpus", cpus as u64),
            rate("preemptions_per_s", weigh::per_s(preemptions, facts.span_ns())),
        ],
        moments: Vec::new(),
        cure: Cure::FewerThreads,
        proof: crowd_proof(facts),
    }
}
