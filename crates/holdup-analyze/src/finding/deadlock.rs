//! deadlock: threads wait for locks that will never be released: in a circle, each for a lock that the next one has;
//! for a lock that the waiting thread has itself; or for one whose holder has ended.
//!
//! Signs and thresholds: as the recording ends, or the process that waits so,
//! - looks at the words of locks name their holders, who have released nothing since;
//! - following from who waits to who has the lock leads back to where it began, or to a thread that has ended;
//! - each of the threads on the way has waited for at least [`LEAST_NS`].
//!
//! The severity is the longest of these waits, as a share of the elapsed time.
//!
//! How it can be wrong: only mutexes of glibc say who has them. A circle in which a thread waits for something else (a
//! condition variable, another process, a reader-writer lock) is not seen; its locks are seen as those of a holder that
//! sleeps. A lock that its holder hands to another thread on purpose looks as if its holder had kept it.

use std::collections::BTreeMap;

use holdup_trace::Tid;

use super::weigh::{self, MS, count, ns};
use super::{Cure, Finding, Kind, Moment, Rule, Subject};
use crate::facts::{Facts, Kept, LockFacts, LockNumber, Primitive};

pub(super) const RULE: Rule =
    Rule { kind: Kind::Deadlock, judge, evidence: &["waited_ns", "threads", "stuck_threads"] };

pub(super) const LEAST_NS: u64 = 500 * MS;

/// What a thread waits for as the recording ends.
#[derive(Clone, Copy)]
struct Edge<'a> {
    number: LockNumber,
    lock: &'a LockFacts,
    kept: &'a Kept,
    from_ns: u64,
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let edges = edges(facts);
    let mut told: Vec<Tid> = Vec::new();
    let mut found = Vec::new();
    for tid in edges.keys().copied() {
        let way = way(&edges, tid);
        if !way.is_empty() && !way.iter().any(|one| told.contains(one)) {
            told.extend(&way);
            found.push(finding(facts, &edges, &way));
        }
    }
    found
}

fn edges(facts: &Facts) -> BTreeMap<Tid, Edge<'_>> {
    let is_mutex = |lock: &LockFacts| matches!(lock.primitive, Primitive::Mutex | Primitive::PiMutex);
    let kept = facts.numbered_locks().filter(|(_, lock)| is_mutex(lock));
    let kept = kept.filter_map(|(number, lock)| Some((number, lock, lock.kept.as_ref()?)));
    let each = kept.flat_map(|(number, lock, kept)| {
        kept.waiters.iter().map(move |(tid, from_ns)| (*tid, Edge { number, lock, kept, from_ns: *from_ns }))
    });
    each.filter(|(_, edge)| facts.end_ns.saturating_sub(edge.from_ns) >= LEAST_NS).collect()
}

/// The threads of the circle that this one is in; or itself, if the holder of what it waits for has ended; or none.
fn way(edges: &BTreeMap<Tid, Edge<'_>>, from: Tid) -> Vec<Tid> {
    let mut way = Vec::new();
    let mut at = from;
    while let Some(edge) = edges.get(&at).filter(|_| !way.contains(&at)) {
        way.push(at);
        if edge.kept.has_ended && way.len() == 1 {
            return way;
        }
        at = edge.kept.holder;
    }
    if at == from { way } else { Vec::new() }
}

/// Whether a thread waits for one of these, directly or behind others.
fn is_stuck(edges: &BTreeMap<Tid, Edge<'_>>, way: &[Tid], tid: Tid) -> bool {
    let next = |at: &Tid| edges.get(at).map(|edge| edge.kept.holder);
    std::iter::successors(Some(tid), next).take(edges.len() + 1).any(|at| way.contains(&at))
}

fn finding(facts: &Facts, edges: &BTreeMap<Tid, Edge<'_>>, way: &[Tid]) -> Finding {
    let each = || way.iter().filter_map(|tid| Some((*tid, *edges.get(tid)?)));
    let longest_ns = each().map(|(_, edge)| facts.end_ns - edge.from_ns).max().unwrap_or(0);
    let has_ended = each().any(|(_, edge)| edge.kept.has_ended);
    let behind = |(tid, edge): &(&Tid, &Edge<'_>)| {
        is_stuck(edges, way, **tid) || has_ended && each().any(|(_, one)| one.number == edge.number)
    };
    let subjects = |(tid, edge): (Tid, Edge<'_>)| {
        let lock = weigh::lock_subject(edge.number, edge.lock);
        let holder = edge.kept.has_ended.then(|| weigh::thread_subject(facts, edge.kept.holder));
        [Some(lock), Some(weigh::thread_subject(facts, tid)), holder]
    };
    let subjects: Vec<Subject> = each().flat_map(subjects).flatten().collect();
    let cure = if has_ended || way.len() == 1 { Cure::ReleaseAlways } else { Cure::LockInOrder };
    Finding {
        severity: weigh::share(longest_ns, facts.span_ns()).min(1.0),
        subjects,
        place: each().next().and_then(|(_, edge)| edge.lock.wait_sites.first().cloned()),
        evidence: vec![
            ns("waited_ns", longest_ns),
            count("threads", way.len() as u64),
            count("stuck_threads", edges.iter().filter(behind).count() as u64),
        ],
        moments: each().map(|(tid, edge)| Moment { tid, from_ns: edge.from_ns, to_ns: facts.end_ns }).collect(),
        ..Finding::new(Kind::Deadlock, cure, weigh::record_again())
    }
}
