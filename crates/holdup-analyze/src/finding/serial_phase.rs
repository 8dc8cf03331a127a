//! serial-phase: one thread works alone for a good part of the time, and the others wait until it is done (Amdahl,
//! 1967).
//!
//! Signs and thresholds:
//! - exactly one thread runs or could run for at least [`LEAST_ALONE_SHARE`] of the recording, and at least two do for
//!   [`LEAST_PARALLEL_SHARE`]: the program is parallel at times;
//! - the others wait for that thread meanwhile: at a barrier, for its end, or for work that it hands to all of them at
//!   once; what they wait for it is at least [`LEAST_WAITED`] of that time, each on average.
//!
//! - the critical path is with that thread for at least half as long, where the path tells; the thread for which Java's
//!   machine stops all others (to collect garbage) needs no path.
//!
//! Or, where threads are over or wait in a way that does not tell for whom: one thread has [`LEAST_OWN_ALONE`] of the
//! samples taken while only one thread ran, in a function that the others do not run, or hardly ever beside them
//! ([`LEAST_OF_ITS_OWN`] of its samples are such); it waits for the others in turn, for [`LEAST_OWN_WAIT`] of its life,
//! but does not play ping-pong with one; at least two threads run for [`LEAST_FORKED`] of the time, and some thread
//! wants a CPU for most of it.
//!
//! Goroutines have no thread of their own. What runs alone is known by the function that it began with:
//! - goroutines that began so have at least half of the samples that were taken while only one thread ran, and
//!   [`LEAST_TASK_ALONE`] of their samples are such; others have [`LEAST_TASK_OTHERS`] of all;
//! - some thread wants a CPU for [`LEAST_TASK_BUSY`] of the time;
//! - no others mostly wait until a channel takes what they send: then it is a slow stage.
//!
//! OpenMP's threads may spin while they wait, so that all look busy: what one runs between parallel regions, for
//! [`regions::LEAST_BETWEEN`] of the recording, is done alone if the others wait for each other for
//! [`regions::LEAST_WAITED`] of that.
//!
//! The event loop of Node may do itself what libuv's pool could do beside it: the first thread of a process has
//! [`LEAST_LOOP_CPU`] of the CPU time, and [`LEAST_SYNC`] of the samples, [`LEAST_SYNC_SAMPLES`] or more, are in calls
//! that compress, hash or derive keys before they return (`gzipSync`, `pbkdf2Sync`).
//!
//! Or threads are started one after the other, each waited for before the next is: see [`one_by_one`]. Or Java's
//! machine waits for one thread to stop: see [`safepoints`].
//!
//! The severity is what even work of all would save: the time alone, less its part of one thread.
//!
//! How it can be wrong: what one thread does alone may have no parallel form.

use super::alone::{self, Alone};
use super::goroutines;
use super::one_by_one;
use super::ping_pong;
use super::regions;
use super::runtime;
use super::safepoints;
use super::stages::{self, Limiter};
use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule, Subject};
use crate::facts::{Facts, Site, ThreadFacts};
use crate::names::Frame;
use crate::spans::most_at_once;

pub(super) const RULE: Rule = Rule {
    kind: Kind::SerialPhase,
    judge,
    evidence: &[
        "alone_share",
        "parallel_share",
        "waited_share",
        "waiters",
        "alone_ns",
        "sync_share",
        "threads",
        "ran_share",
        "waits",
    ],
};

pub(super) const LEAST_ALONE_SHARE: f64 = 0.2;
pub(super) const LEAST_PARALLEL_SHARE: f64 = 0.03;
pub(super) const LEAST_WAITED: f64 = 0.4;
pub(super) const LEAST_OWN_ALONE: f64 = 0.8;
pub(super) const LEAST_OF_ITS_OWN: f64 = 0.85;
pub(super) const LEAST_OWN_WAIT: f64 = 0.03;
pub(super) const LEAST_FORKED: f64 = 0.03;
pub(super) const LEAST_TASK_ALONE: f64 = 0.7;
pub(super) const LEAST_TASK_OTHERS: f64 = 0.1;
pub(super) const LEAST_TASK_BUSY: f64 = 0.8;
const LEAST_NS: u64 = 20 * MS;
pub(super) const LEAST_LOOP_CPU: f64 = 0.5;
pub(super) const LEAST_SYNC: f64 = 0.3;
pub(super) const LEAST_SYNC_SAMPLES: u64 = 200;

fn judge(facts: &Facts) -> Vec<Finding> {
    let limiters = stages::limiters(facts);
    let worst = limiters.iter().max_by_key(|one| one.together_ns);
    safepoints::finding(facts)
        .or_else(|| regions::serial(facts))
        .or_else(|| worst.and_then(|one| finding(facts, one)))
        .or_else(|| forked(facts))
        .or_else(|| of_tasks(facts))
        .or_else(|| of_event_loop(facts))
        .or_else(|| one_by_one::finding(facts))
        .into_iter()
        .collect()
}

/// What Node's event loop does in calls that have a form which libuv's pool runs.
fn of_event_loop(facts: &Facts) -> Option<Finding> {
    let thread = facts.threads.iter().max_by_key(|thread| thread.on_cpu_ns)?;
    let sync = weigh::samples_below(facts, is_synchronous);
    let sync_share = weigh::share(sync, weigh::samples(facts)).min(1.0);
    let alone_share = (weigh::share(thread.on_cpu_ns, facts.span_ns()) * sync_share).min(1.0);
    let is_loop = thread.tid.0 == thread.pid.0
        && weigh::share(thread.on_cpu_ns, weigh::cpu_ns(facts)) >= LEAST_LOOP_CPU
        && alone_share >= LEAST_ALONE_SHARE;
    let below = |site: &&Site| site.call_path.iter().any(is_synchronous);
    (is_loop && sync >= LEAST_SYNC_SAMPLES && sync_share >= LEAST_SYNC).then(|| Finding {
        severity: weigh::divided(alone_share, facts.header.machine.cpus.max(1).into()),
        subjects: vec![weigh::thread_subject(facts, thread.tid)],
        place: thread.hot_sites.iter().filter(below).max_by_key(|site| site.count).cloned(),
        evidence: vec![part("alone_share", alone_share), part("sync_share", sync_share)],
        ..Finding::new(Kind::SerialPhase, Cure::CallAsynchronously, weigh::record_again())
    })
}

/// Whether Node does in this call, before it returns, what it could have libuv's pool do.
fn is_synchronous(frame: &Frame) -> bool {
    frame.function.as_deref().is_some_and(|name| {
        let packs = name.contains("CompressionStream<") && name.contains(">::Write<false>");
        let hashes = name.starts_with("node::crypto::") && name.contains("Job<") && name.contains(">::Run");
        packs || hashes
    })
}

/// The same of a thread that hands work to others, waits for it, and goes on alone.
fn forked(facts: &Facts) -> Option<Finding> {
    let alone = Alone::of(facts)?;
    let thread = facts.threads.iter().max_by_key(|thread| thread.alone_samples)?;
    let own = weigh::share(thread.alone_samples, alone.samples);
    let of_its_own = weigh::share(thread.alone_samples, thread.user_samples + thread.kernel_samples);
    let helps =
        |other: &&ThreadFacts| other.pid == thread.pid && other.tid != thread.tid && !runtime::is_of_java(&other.name);
    let helpers_ns: u64 = facts.threads.iter().filter(helps).map(|other| other.on_cpu_ns).sum();
    let is_serial = alone.share * own >= LEAST_ALONE_SHARE
        && alone.parallel >= LEAST_FORKED
        && own >= LEAST_OWN_ALONE
        && (alone::in_parallel_too(facts) < 0.2 || of_its_own >= LEAST_OF_ITS_OWN)
        && stages::idle_share(thread) >= LEAST_OWN_WAIT
        && !ping_pong::takes_turns(facts, thread.tid)
        && weigh::share(helpers_ns, weigh::cpu_ns(facts)) >= LEAST_FORKED;
    // Those that there are at a time: each round of work may have threads of its own.
    let lives = facts.threads.iter().filter(helps).map(ThreadFacts::life);
    let waiters = most_at_once(lives);
    is_serial.then(|| Finding {
        subjects: vec![weigh::thread_subject(facts, thread.tid)],
        place: facts.alone_sites.first().cloned(),
        evidence: vec![
            part("alone_share", alone.share * own),
            part("parallel_share", alone.parallel),
            part("waited_share", own),
            count("waiters", waiters),
            ns("alone_ns", (alone.share * own * facts.span_ns() as f64) as u64),
        ],
        ..phase(facts, alone.share, own, waiters)
    })
}

/// The same of goroutines.
fn of_tasks(facts: &Facts) -> Option<Finding> {
    let (idle_share, alone_share, parallel_share) = alone::runnable_shares(facts);
    let alone_ns = facts.totals.runnable_ns.get(1).copied().unwrap_or(0);
    let task = facts.tasks.iter().max_by_key(|task| task.alone)?;
    let (alone, all) = facts.tasks.iter().fold((0, 0), |(alone, all), task| (alone + task.alone, all + task.samples));
    let own_share = weigh::share(task.alone, alone);
    let is_serial = alone_share * own_share >= LEAST_ALONE_SHARE
        && parallel_share >= LEAST_PARALLEL_SHARE
        && own_share >= 0.5
        && weigh::share(task.alone, task.samples) >= LEAST_TASK_ALONE
        && weigh::share(all - task.samples, all) >= LEAST_TASK_OTHERS
        && 1.0 - idle_share >= LEAST_TASK_BUSY
        && !goroutines::are_queued(facts)
        && alone_ns >= LEAST_NS;
    let waiters = (facts.threads.len() as u64).saturating_sub(1);
    is_serial.then(|| Finding {
        subjects: vec![Subject::Function(task.function.clone())],
        place: Some(task.site.clone()),
        evidence: vec![
            part("alone_share", alone_share * own_share),
            part("parallel_share", parallel_share),
            part("waited_share", own_share),
            count("waiters", waiters),
            ns("alone_ns", (alone_ns as f64 * own_share) as u64),
        ],
        ..phase(facts, alone_share, own_share, waiters)
    })
}

fn finding(facts: &Facts, limiter: &Limiter) -> Option<Finding> {
    let alone_ns = facts.totals.runnable_ns.get(1).copied().unwrap_or(0);
    let (_, alone_share, parallel_share) = alone::runnable_shares(facts);
    let waiters = limiter.waiters.len() as u64;
    let waited_share = weigh::share(limiter.together_ns, alone_ns * waiters.max(1)).min(1.0);
    let is_serial = alone_share >= LEAST_ALONE_SHARE
        && parallel_share >= LEAST_PARALLEL_SHARE
        && waited_share >= LEAST_WAITED
        && limiter.together_ns >= LEAST_NS
        && (runtime::stops_all(facts, limiter.tid)
            || weigh::path_share(facts, |tid| tid == limiter.tid).is_none_or(|share| share >= alone_share / 2.0))
        && limiter.together_ns >= limiter.work_ns + limiter.blocked_ns;
    if !is_serial {
        return None;
    }
    let thread = facts.thread(limiter.tid)?;
    Some(Finding {
        subjects: vec![weigh::thread_subject(facts, limiter.tid)],
        place: thread.hot_sites.first().cloned().or_else(|| stages::waited_at(facts, limiter.tid)),
        evidence: vec![
            part("alone_share", alone_share),
            part("parallel_share", parallel_share),
            part("waited_share", waited_share),
            count("waiters", waiters),
            ns("alone_ns", alone_ns),
        ],
        ..phase(facts, alone_share, waited_share, waiters)
    })
}

/// A phase in which one thread runs alone, so much of it for what the others wait for: divided among the CPUs that they
/// can use, it takes so much less.
fn phase(facts: &Facts, alone_share: f64, waited_share: f64, waiters: u64) -> Finding {
    let cpus = u64::from(facts.header.machine.cpus).min(waiters + 1).max(2);
    Finding {
        severity: weigh::divided(alone_share * waited_share, cpus),
        bound: Some(1.0 / (1.0 - alone_share)),
        ..Finding::new(Kind::SerialPhase, Cure::DivideSerialPart, weigh::record_again())
    }
}
