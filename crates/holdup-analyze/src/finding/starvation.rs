//! starvation: one thread waits for a lock far longer than its like: others have it again and again meanwhile.
//!
//! Signs and thresholds, per lock:
//! - one wait of at least [`LEAST_NS`] and [`LEAST_SPAN_SHARE`] of the recording;
//! - other threads of the process ran for at least a tenth as long (a hundredth, of a lock that readers share), and
//!   none of them waited for the lock for a tenth as long: they got it. Of a reader-writer lock that readers share,
//!   their waits are none at all;
//! - the thread that ended the wait did not sleep for most of it: else it is a sleeping holder.
//!
//! Or, of a reader-writer lock that readers share: all waits of one thread together are at least [`LEAST_SUM_SHARE`] of
//! the recording, and no other waited for a quarter as long; or others for more than half as long, and none of the
//! rest, of whom at least [`LEAST_SHARING`] have the lock and run.
//!
//! Of locks whose words are the waiting threads' own, only where they wait is known, not for which lock: they are left
//! out.
//!
//! How it can be wrong: a wait for a lock that is held for a whole phase looks the same. The call path of the holder
//! shows it.

use std::collections::BTreeSet;

use super::weigh::{self, MS, count, ns, part};
use super::{Command, Cure, Finding, Kind, Moment, Rule};
use crate::facts::{Facts, LockFacts, LockNumber, Primitive};
use crate::names::Frame;
use holdup_trace::Tid;

pub(super) const RULE: Rule = Rule {
    kind: Kind::Starvation,
    judge,
    evidence: &["longest_share", "wait_ns_longest", "others_wait_ns_longest", "waits", "threads"],
};

pub(super) const LEAST_NS: u64 = 100 * MS;
pub(super) const LEAST_SPAN_SHARE: f64 = 0.2;
pub(super) const LEAST_SUM_SHARE: f64 = 0.6;
const LEAST_SHARING: usize = 2;

fn judge(facts: &Facts) -> Vec<Finding> {
    let starving = |(number, lock)| finding(facts, number, lock).or_else(|| again_and_again(facts, number, lock));
    weigh::contended(facts).filter_map(starving).collect()
}

/// One thread, or some, wait for readers all the time, who hardly ever wait.
fn again_and_again(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Option<Finding> {
    let (tid, waited) = lock.waiters.iter().max_by_key(|(_, time)| time.ns)?;
    let (kept_out, others): (Vec<_>, Vec<_>) = lock.waiters.iter().partition(|(_, time)| time.ns * 2 > waited.ns);
    let others_ns = others.iter().map(|(_, time)| time.ns).max().unwrap_or(0);
    let share = weigh::share(waited.ns, facts.span_ns());
    // Where several wait, one may have it all the while, unless several others have it.
    let is_kept_out = |tid: Tid| kept_out.iter().any(|(other, _)| *other == tid);
    let is_shared = || {
        let have: BTreeSet<Tid> =
            lock.holders.iter().map(|holder| holder.tid).filter(|tid| !is_kept_out(*tid)).collect();
        let ran_ns = have.iter().filter_map(|tid| facts.thread(*tid)).map(|thread| thread.on_cpu_ns).sum::<u64>();
        have.len() >= LEAST_SHARING && ran_ns * 10 >= waited.ns
    };
    let is_starved = lock.primitive == Primitive::RwLock
        && waited.ns >= LEAST_NS
        && share >= LEAST_SUM_SHARE
        && others_ns * 4 <= waited.ns
        && (kept_out.len() == 1 || is_shared())
        && weigh::holding(lock).asleep < 0.5;
    let (_, from_ns, to_ns) = *lock.longest.iter().find(|(waiter, ..)| waiter == tid)?;
    if !is_starved {
        return None;
    }
    let mut found = starved(facts, number, lock, (*tid, from_ns, to_ns), others_ns);
    found.evidence.extend((kept_out.len() > 1).then(|| count("threads", kept_out.len() as u64)));
    Some(Finding { severity: share.min(1.0), ..found })
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Option<Finding> {
    lock.addr?;
    let (tid, from_ns, to_ns) = *lock.longest.first()?;
    let length = to_ns - from_ns;
    let longest_share = weigh::share(length, facts.span_ns());
    let others_ns = longest_of_others_ns(lock, tid);
    let holding = weigh::holding(lock);
    let held = holding.asleep >= 0.5 && lock.primitive != Primitive::RwLock;
    if length < LEAST_NS || longest_share < LEAST_SPAN_SHARE || others_ns * 10 > length || held {
        return None;
    }
    let ran: u64 = facts
        .threads
        .iter()
        .filter(|thread| thread.pid == lock.pid && thread.tid != tid)
        .map(|thread| thread.on_cpu_ns)
        .sum();
    // What others need to have the lock all the while.
    let shared = lock.primitive == Primitive::RwLock || lock.waits >= 20;
    let least = if lock.primitive == Primitive::RwLock { length / 100 } else { length / 10 };
    (ran >= least && shared).then(|| starved(facts, number, lock, (tid, from_ns, to_ns), others_ns))
}

fn longest_of_others_ns(lock: &LockFacts, tid: Tid) -> u64 {
    let others = lock.longest.iter().filter(|(other, ..)| *other != tid);
    others.map(|(_, from, to)| to - from).max().unwrap_or(0)
}

fn starved(facts: &Facts, number: LockNumber, lock: &LockFacts, wait: (Tid, u64, u64), others_ns: u64) -> Finding {
    let (tid, from_ns, to_ns) = wait;
    let longest_share = weigh::share(to_ns - from_ns, facts.span_ns());
    Finding {
        severity: longest_share,
        subjects: vec![weigh::lock_subject(number, lock), weigh::thread_subject(facts, tid)],
        place: lock.wait_sites.first().cloned(),
        evidence: vec![
            part("longest_share", longest_share),
            ns("wait_ns_longest", to_ns - from_ns),
            ns("others_wait_ns_longest", others_ns),
            count("waits", lock.waits),
        ],
        moments: vec![Moment { tid, from_ns, to_ns }],
        ..Finding::new(Kind::Starvation, Cure::FairLock, proof(lock))
    }
}

/// The C library's reader-writer locks can be made to prefer writers under the program.
fn proof(lock: &LockFacts) -> Command {
    let is_pthreads = |frame: &Frame| frame.function.as_deref().is_some_and(|name| name.contains("pthread_rwlock_"));
    let mut frames = lock.wait_sites.iter().flat_map(|site| &site.call_path);
    match lock.primitive {
        Primitive::RwLock if frames.any(is_pthreads) => weigh::try_with("--rw prefer-writer,spin-park"),
        _ => weigh::record_again(),
    }
}
