//! small-pool: callers queue behind a few workers, which are never idle and mostly wait for something themselves: a
//! remote call, a device, a sleep. More workers would let more of these waits go on at once.
//!
//! Signs and thresholds:
//! - several threads wait for work to be done by others, for at least [`LEAST_WAITED`] of their lives; they are more
//!   than those;
//! - the workers are idle for at most [`MOST_IDLE`] of their lives, get their work from other threads, and what the
//!   callers wait for is mostly not their running.
//!
//! Or several threads wait for a semaphore that they release themselves, for [`LEAST_WAITED`] of their lives, and those
//! who have it mostly sleep or wait: few places, as of a pool of connections.
//!
//! Or all threads of the pool that Node's library hands blocking work to (libuv's) are busy for three quarters of their
//! lives, while the event loop waits for [`LEAST_WAITED`] of the time: what is asked of them queues, unless they run
//! on every CPU that there is. `UV_THREADPOOL_SIZE` is their number, 4 if it is not set.
//!
//! Workers that are never idle never wait for work, so that nothing may tell who gives it to them: then they are known
//! by the functions of their library, or by callers that are at least [`LEAST_CALLERS`] for each of them and wait for
//! answers, each on a word of its own.
//!
//! The place is where the workers are while the callers wait.
//!
//! How it can be wrong: a limit on how many calls go on at once may be what the other side asks for.

use std::collections::BTreeSet;

use holdup_trace::Tid;

use super::runtime;
use super::stages::{self, Limiter};
use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{AccountState, Blame, Facts, LockFacts, Primitive, Reason, ThreadFacts};

pub(super) const RULE: Rule = Rule {
    kind: Kind::SmallPool,
    judge,
    evidence: &["waited_share", "workers", "callers", "blocked_share", "waited_ns"],
};

pub(super) const MOST_IDLE: f64 = 0.25;
pub(super) const LEAST_WAITED: f64 = 0.3;
/// So many for each worker, where nothing else tells that they ask it.
pub(super) const LEAST_CALLERS: usize = 4;
const LEAST_NS: u64 = 20 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    let places: Vec<Finding> =
        facts.locks.iter().enumerate().filter_map(|(index, lock)| few_places(facts, index, lock)).collect();
    if !places.is_empty() {
        return places;
    }
    if let Some(pool) = pool_of_uv(facts) {
        return vec![pool];
    }
    let limiters = stages::limiters(facts);
    let (fed, full): (Vec<&Limiter>, Vec<&Limiter>) =
        limiters.iter().filter(|one| is_busy(facts, one)).partition(|one| stages::is_fed(facts, one));
    let workers = if fed.is_empty() && are_asked(facts, &full) { full } else { fed };
    let own: BTreeSet<Tid> = workers.iter().map(|one| one.tid).collect();
    let callers: BTreeSet<Tid> =
        workers.iter().flat_map(|one| one.waiters.iter().copied()).filter(|tid| !own.contains(tid)).collect();
    let blocked_ns: u64 = workers.iter().map(|one| one.blocked_ns).sum();
    let waited_ns: u64 = workers.iter().map(|one| one.work_ns + one.together_ns).sum::<u64>() + blocked_ns;
    let waited_share = weigh::share(waited_ns, stages::lives_ns(facts, &callers)).min(1.0);
    let small = !workers.is_empty()
        && callers.len() > workers.len()
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && blocked_ns * 2 >= waited_ns;
    if !small {
        return Vec::new();
    }
    let worst = weigh::worst_site(facts, |row| own.contains(&row.thread) && callers.contains(&row.waiter));
    vec![Finding {
        severity: waited_share * (1.0 - weigh::share(workers.len() as u64, callers.len() as u64)),
        subjects: workers.iter().take(3).map(|one| weigh::thread_subject(facts, one.tid)).collect(),
        place: worst.map(|(_, site)| site),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", workers.len() as u64),
            count("callers", callers.len() as u64),
            part("blocked_share", weigh::share(blocked_ns, waited_ns)),
            ns("waited_ns", waited_ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    }]
}

/// A semaphore that lets a few threads in at a time, which mostly wait for something else there: connections, say.
fn few_places(facts: &Facts, index: usize, lock: &LockFacts) -> Option<Finding> {
    let waits_here = |tid: Tid| lock.waiters.iter().any(|(waiter, _)| *waiter == tid);
    let woken: u64 = lock.holders.iter().map(|holder| holder.count).sum();
    let mutual: u64 = lock.holders.iter().filter(|one| waits_here(one.tid)).map(|one| one.count).sum();
    let callers: BTreeSet<Tid> = lock.waiters.iter().map(|(tid, _)| *tid).collect();
    let waited_ns = lock.wait_ns.sum_ns();
    let waited_share = weigh::share(waited_ns, stages::lives_ns(facts, &callers)).min(1.0);
    let holding = weigh::holding(lock);
    let may = matches!(lock.primitive, Primitive::Semaphore | Primitive::Unknown | Primitive::Condvar);
    let few = may
        && callers.len() >= 3
        && lock.waits >= 10
        && mutual * 5 >= woken * 4
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && holding.asleep >= 0.5;
    few.then(|| Finding {
        severity: waited_share,
        subjects: vec![weigh::lock_subject(index, lock)],
        place: lock.holder_doing.off_sites.first().or(lock.wait_sites.first()).cloned(),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", (callers.len() as u64).saturating_sub(lock.max_waiters.into())),
            count("callers", callers.len() as u64),
            part("blocked_share", holding.asleep),
            ns("waited_ns", waited_ns),
        ],
        moments: weigh::longest(lock),
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    })
}

/// libuv's pool, whose queue no futex shows while it is full: no worker ever waits then.
fn pool_of_uv(facts: &Facts) -> Option<Finding> {
    let workers: Vec<&ThreadFacts> = facts.threads.iter().filter(|thread| runtime::is_of_uv(facts, thread)).collect();
    let first = workers.first()?;
    let main = facts.threads.iter().find(|thread| thread.tid.0 == thread.pid.0 && thread.pid == first.pid)?;
    let waited_ns = main.off.get(&Reason::Poll).map_or(0, |time| time.ns);
    let waited_share = weigh::share(waited_ns, main.life_ns());
    let of_workers = |state: &[AccountState]| {
        let ns: u64 = workers.iter().flat_map(|one| state.iter().map(|state| one.account.of(*state))).sum();
        weigh::share(ns, workers.iter().map(|one| one.life_ns()).sum())
    };
    let peers =
        weigh::share(workers.iter().map(|one| peers_ns(one)).sum(), workers.iter().map(|one| one.life_ns()).sum());
    let blocked = of_workers(&[AccountState::Sleep, AccountState::Io, AccountState::Memory]) + peers;
    let cpus = u64::from(facts.header.machine.cpus).max(1);
    let taken = weigh::share(workers.len() as u64, cpus).min(1.0) * (1.0 - blocked);
    // A read of a pipe or a socket is what such a worker is busy with.
    let idle_ns = |one: &ThreadFacts| one.account.of(AccountState::Work).saturating_sub(peers_ns(one));
    let is_busy = |one: &ThreadFacts| weigh::share(idle_ns(one), one.life_ns()) <= MOST_IDLE;
    let small = workers.iter().all(|one| is_busy(one) && one.life_ns() * 2 >= facts.span_ns())
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && taken <= 0.75;
    let busiest = || weigh::hottest(workers.iter().copied());
    small.then(|| Finding {
        severity: waited_share * (1.0 - taken),
        subjects: workers.iter().take(3).map(|one| weigh::thread_subject(facts, one.tid)).collect(),
        place: busiest(),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", workers.len() as u64),
            count("callers", 1),
            part("blocked_share", blocked),
            ns("waited_ns", waited_ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    })
}

/// How long a thread waited for the other end of a pipe or a socket.
fn peers_ns(thread: &ThreadFacts) -> u64 {
    thread.off.get(&Reason::Peer).map_or(0, |off| off.ns)
}

/// Whether a thread always has something to do, and mostly waits for something else there.
fn is_busy(facts: &Facts, one: &Limiter) -> bool {
    let busy = |thread: &ThreadFacts| stages::idle_share(thread) <= MOST_IDLE && stages::has_backlog(thread);
    facts.thread(one.tid).is_some_and(busy)
}

/// Whether threads that never wait for work themselves get it from those who wait for them: these are several times as
/// many, and each is woken alone, on a word that nobody else waits on, as one waits for an answer. Who hands out work
/// by the clock wakes whoever is next at the queue. Java's threads wait on words of their own for everything.
fn are_asked(facts: &Facts, workers: &[&Limiter]) -> bool {
    let callers: BTreeSet<Tid> = workers.iter().flat_map(|one| one.waiters.iter().copied()).collect();
    let of_workers = |row: &&Blame| workers.iter().any(|one| one.tid == row.thread) && callers.contains(&row.waiter);
    let own_word = |row: &Blame| {
        let lock = row.lock.and_then(|lock| facts.locks.get(lock));
        lock.is_some_and(|lock| lock.waiters.len() == 1 && lock.primitive != Primitive::Park)
    };
    let (mut own_ns, mut all_ns) = (0, 0);
    for row in facts.blame.iter().filter(of_workers) {
        all_ns += row.ns;
        own_ns += if own_word(row) { row.ns } else { 0 };
    }
    workers.len() >= 2 && callers.len() >= LEAST_CALLERS * workers.len() && own_ns * 5 >= all_ns * 4
}
