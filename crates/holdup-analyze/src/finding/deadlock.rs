//! deadlock: threads wait for locks that will never be released: in a circle, each for a lock that the next one has;
//! for a lock that the waiting thread has itself; or for one whose holder has ended.
//!
//! Signs and thresholds: as the recording ends, or the process that waits so,
//! - looks at the words of locks name their holders, who have released nothing since;
//! - following from who waits to who has the lock leads back to where it began, or to a thread that has ended;
//! - each of the threads on the way has waited for at least [`LEAST_NS`].
//!
//! Most locks do not say who has them (reader-writer locks, those of Rust, Java, Python). Of these, at least two that
//! are waited for by at least two threads (or by the same number of goroutines at nearly all looks) until the end, for
//! [`LEAST_STUCK`] of the recording, are told as well: most likely each of these threads has what another waits for.
//!
//! Or all threads of an executor (Java's, Python's) wait in its tasks for results of tasks until the end, as long: most
//! likely of tasks that only they could run. Or all threads of a process wait for conditions, semaphores and each
//! other's end, without timeouts and as long: only a signal or another process could still wake one.
//!
//! The severity is the longest of these waits, as a share of the elapsed time; where all stand still, the shortest.
//!
//! How it can be wrong: a circle in which a thread waits for something else (a condition variable, another process) is
//! not seen; its locks are seen as those of a holder that sleeps. Two locks of unknown holders may be those of threads
//! that sleep for long. A lock that its holder hands to another thread on purpose looks as if its holder had kept it.

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::Tid;

use super::weigh::{self, MS, count, ns};
use super::{Cure, Finding, Kind, Moment, Rule, Subject, goroutines, runtime};
use crate::facts::{Facts, Kept, LockFacts, LockNumber, Primitive, Site, ThreadFacts};
use crate::names::{Role, leads_through, takes_mutex_of_runtime};

pub(super) const RULE: Rule = Rule {
    kind: Kind::Deadlock,
    judge,
    evidence: &["waited_ns", "threads", "stuck_threads", "waiting_goroutines", "starved_workers", "standing_threads"],
};

pub(super) const LEAST_NS: u64 = 500 * MS;
pub(super) const LEAST_STUCK: f64 = 0.3;
/// Where threads look now and then whether their lock is free, at least this share of these looks finds it taken.
const LEAST_RETRIES: f64 = 0.75;
/// A wait that ends as its thread does ends within this time of it.
const AT_ONCE_NS: u64 = 5 * MS;

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
    if found.is_empty() {
        found.extend(of_unknown_holders(facts).or_else(|| goroutines::deadlock(facts)).or_else(|| standstill(facts)));
    }
    found
}

/// Threads that wait until the end for locks whose holders are not known.
fn of_unknown_holders(facts: &Facts) -> Option<Finding> {
    let may = |lock: &LockFacts| lock.kept.is_none() && (is_own_lock(lock) || is_lock_of_python(lock));
    let mut stuck: Vec<Stuck<'_>> = stuck(facts, may).collect();
    let pid = stuck.first()?.thread.pid;
    stuck.retain(|one| one.thread.pid == pid);
    let numbers: BTreeSet<LockNumber> = stuck.iter().map(|one| one.number).collect();
    let locks: Vec<_> = numbers.into_iter().filter_map(|number| Some((number, facts.lock(number)?))).collect();
    let tids: BTreeSet<Tid> = stuck.iter().map(|one| one.thread.tid).collect();
    // Where threads wait on words of their own, a place stands for all its locks.
    let by_place = locks.iter().any(|(_, lock)| lock.addr.is_none());
    if tids.len() < 2 || (locks.len() < 2 && !by_place) {
        return None;
    }
    let longest_ns = stuck.iter().map(|one| facts.end_ns.saturating_sub(one.from_ns)).max().unwrap_or(0);
    let own = locks.iter().map(|(number, lock)| weigh::lock_subject(*number, lock));
    let place = locks[0].1.wait_sites.first().cloned();
    Some(Finding {
        severity: weigh::share(longest_ns, facts.span_ns()).min(1.0),
        subjects: own.chain(tids.iter().map(|tid| weigh::thread_subject(facts, *tid))).collect(),
        place,
        evidence: vec![ns("waited_ns", longest_ns), count("stuck_threads", tids.len() as u64)],
        moments: stuck.iter().map(|one| one.moment(facts)).collect(),
        ..Finding::new(Kind::Deadlock, Cure::LockInOrder, weigh::record_again())
    })
}

/// A thread that waits for one thing until its end, or that of the recording.
#[derive(Clone, Copy)]
struct Stuck<'a> {
    thread: &'a ThreadFacts,
    number: LockNumber,
    lock: &'a LockFacts,
    from_ns: u64,
}

impl Stuck<'_> {
    fn is_in_task(self) -> bool {
        self.lock.wait_sites.first().is_some_and(runtime::waits_in_task_for_result)
    }

    /// For how long.
    fn ns(self, facts: &Facts) -> u64 {
        facts.end_ns.min(self.thread.ended_ns).saturating_sub(self.from_ns)
    }

    fn moment(self, facts: &Facts) -> Moment {
        Moment { tid: self.thread.tid, from_ns: self.from_ns, to_ns: facts.end_ns }
    }
}

/// All who wait so for some of the locks.
fn stuck<'a>(facts: &'a Facts, may: impl Fn(&LockFacts) -> bool) -> impl Iterator<Item = Stuck<'a>> {
    let locks = facts.numbered_locks().filter(move |(_, lock)| may(lock));
    let waits = locks.flat_map(|(number, lock)| lock.waiters.iter().map(move |wait| (number, lock, wait)));
    waits.filter_map(|(number, lock, (tid, time))| {
        let from_ns = stuck_since(facts, lock, *tid, time.ns)?;
        Some(Stuck { thread: facts.thread(*tid)?, number, lock, from_ns })
    })
}

/// Threads of an executor that all wait for results of tasks, or a process whose threads all wait for each other.
fn standstill(facts: &Facts) -> Option<Finding> {
    let stuck: BTreeMap<Tid, Stuck<'_>> =
        stuck(facts, |lock| lock.timeouts == 0).map(|one| (one.thread.tid, one)).collect();
    // All of some threads, if they are stuck, but for those that had ended when the last one came to wait.
    let all = |is: &dyn Fn(&ThreadFacts) -> bool| -> Option<Vec<Stuck<'_>>> {
        let since_ns = stuck.values().filter(|one| is(one.thread)).map(|one| one.from_ns).max()?;
        let lives = |thread: &&ThreadFacts| thread.ended_ns > since_ns + AT_ONCE_NS && is(thread);
        facts.threads.iter().filter(lives).map(|thread| stuck.get(&thread.tid).copied()).collect()
    };
    let pools: BTreeSet<_> =
        stuck.values().filter(|one| one.is_in_task()).map(|one| runtime::pool_of(one.thread)).collect();
    let workers = pools.into_iter().filter_map(|name| all(&|thread| runtime::pool_of(thread) == name));
    let starved = workers.filter(|workers| workers.iter().all(|one| one.is_in_task())).max_by_key(Vec::len);
    if let Some(workers) = starved {
        return Some(standing(facts, &workers, "starved_workers"));
    }
    let processes = facts.processes.iter().filter_map(|process| all(&|thread| thread.pid == process.pid));
    // Other processes may share a semaphore.
    let is_shared = |one: &Stuck<'_>| facts.processes.len() > 1 && one.lock.primitive == Primitive::Semaphore;
    let waits = |all: &Vec<Stuck<'_>>| {
        let others = all.iter().any(|one| one.lock.primitive != Primitive::Join);
        all.len() >= 2 && others && !all.iter().any(is_shared)
    };
    let whole = processes.filter(waits).max_by_key(Vec::len)?;
    Some(standing(facts, &whole, "standing_threads"))
}

fn standing(facts: &Facts, all: &[Stuck<'_>], key: &'static str) -> Finding {
    let least_ns = all.iter().map(|one| one.ns(facts)).min().unwrap_or(0);
    // Who waits for others' ends waits for them to go on.
    let waits = || all.iter().filter(|one| one.lock.primitive != Primitive::Join);
    let numbers: BTreeSet<LockNumber> = waits().map(|one| one.number).collect();
    let locks = numbers.into_iter().filter_map(|number| Some(weigh::lock_subject(number, facts.lock(number)?)));
    Finding {
        severity: weigh::share(least_ns, facts.span_ns()).min(1.0),
        subjects: locks.collect(),
        place: waits().max_by_key(|one| one.ns(facts)).and_then(|one| one.lock.wait_sites.first().cloned()),
        evidence: vec![ns("waited_ns", least_ns), count(key, all.len() as u64)],
        moments: all.iter().map(|one| one.moment(facts)).collect(),
        ..Finding::new(Kind::Deadlock, Cure::WakeWhoCanGoOn, weigh::record_again())
    }
}

/// Since when a thread has waited for a lock until its end, or that of the recording, if it has for long.
fn stuck_since(facts: &Facts, lock: &LockFacts, tid: Tid, waited_ns: u64) -> Option<u64> {
    let thread = facts.thread(tid)?;
    let end_ns = thread.ended_ns.min(facts.end_ns);
    let least_ns = ((facts.span_ns() as f64 * LEAST_STUCK) as u64).max(LEAST_NS);
    let last = lock.longest.iter().find(|(waiter, _, to_ns)| *waiter == tid && to_ns + AT_ONCE_NS >= end_ns);
    let from_ns = match last {
        // Who looks now and then whether the lock is free waits on, unless others let it in.
        _ if lock.wakes == 0 && lock.timeouts > 0 && lock.timeouts as f64 >= lock.waits as f64 * LEAST_RETRIES => {
            Some(end_ns.saturating_sub(waited_ns))
        }
        found => found.map(|(_, from_ns, _)| *from_ns),
    };
    from_ns.filter(|from_ns| end_ns.saturating_sub(*from_ns) >= least_ns)
}

/// Whether it is a lock by its name, not only by what threads do with it.
fn is_own_lock(lock: &LockFacts) -> bool {
    const OTHERS: [&str; 3] =
        ["java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire", "GOMP_critical_", "omp_set_"];
    let is_named = |name: &str| takes_mutex_of_runtime(name) || OTHERS.iter().any(|start| name.starts_with(start));
    let named = |site: &Site| leads_through(&site.call_path, is_named);
    match lock.primitive {
        Primitive::RustMutex | Primitive::ParkingLotMutex | Primitive::RwLock => true,
        Primitive::OtherLock => lock.wait_sites.first().is_some_and(named),
        _ => false,
    }
}

/// Whether a lock of Python's is waited for: by the functions of its kinds, and from no wait for a condition, an event
/// or a thread's end.
fn is_lock_of_python(lock: &LockFacts) -> bool {
    const ACQUIRE: [&str; 3] = ["lock_PyThread_acquire_lock", "rlock_acquire", "_PyMutex_Lock"];
    let acquires = |site: &Site| leads_through(&site.call_path, |name| ACQUIRE.iter().any(|one| name.starts_with(one)));
    let in_threading = |site: &Site| {
        let mut inner = site.call_path.iter().take_while(|frame| frame.role != Role::Program);
        inner.any(|frame| frame.file.as_deref().is_some_and(|file| file.ends_with("/threading.py")))
    };
    lock.wait_sites.first().is_some_and(|site| acquires(site) && !in_threading(site))
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
