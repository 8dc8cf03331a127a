//! small-pool: callers queue behind a few workers, which are never idle and mostly wait for something themselves: a
//! remote call, a device, a sleep. More workers would let more of these waits go on at once.
//!
//! Signs and thresholds:
//! - several threads wait for work to be done by others, for at least [`LEAST_WAITED`] of their lives; they are more
//!   than those;
//! - the workers are idle for at most [`MOST_IDLE`] of their lives, get their work from other threads, and what the
//!   callers wait for is mostly not their running;
//! - a thread that sleeps, and hardly ever waits for anything though mostly other processes wait for it, is none of
//!   them: it sends at a pace of its own, as a load generator does;
//! - it is not the program's first thread alone that lets callers go together: then it hands out work.
//!
//! Or several threads wait for a semaphore that they release themselves, or for a place of a pool behind a condition of
//! their runtime, for [`LEAST_WAITED`] of their lives, and those who have it mostly sleep or wait: few places, as of a
//! pool of connections.
//!
//! Or all threads of the pool that Node's library hands blocking work to (libuv's) are busy for three quarters of their
//! lives, while the event loop waits for [`LEAST_WAITED`] of the time: what is asked of them queues, unless they run
//! on every CPU that there is. `UV_THREADPOOL_SIZE` is their number, 4 if it is not set.
//!
//! Calls for names may have half of that pool: they are as many for [`LEAST_HALF`] of the time.
//!
//! Or threads wait for [`LEAST_WAITED`] of their lives in a function that by its name borrows something of a pool
//! (`borrowObject`, `checkout`, `acquire`, `get_connection`), each on a word of its own, until another of them gives it
//! back; and those that have it mostly wait for something else.
//!
//! Or threads block in one call by turns, three or more, never two at once and together for most of the recording,
//! though no lock is waited for: a strand, one connection, one permit lets them go on one by one. Whose turn it is was
//! woken by one that had it before.
//!
//! Or all workers of tokio sleep or wait for devices and other ends in the calls of their tasks, for [`LEAST_BLOCKED`]
//! of their lives, and are hardly idle: tasks that could run wait for them.
//!
//! Or the thread of an event loop (asyncio's; Node's, where it waits for a process of its own) sleeps or waits for
//! other ends in its callbacks, in [`LEAST_CALLS`] calls and for [`LEAST_BLOCKED`] of its life; or so do all threads of
//! Java's common pool, and the one that shares its work with them.
//!
//! Or all threads of an executor (Java's, by their names or their call paths) mostly wait for other ends, devices or
//! sleep, hardly ever for a task, and somebody waits for what they finish, for [`LEAST_WAITED`] of the time and at
//! least [`LEAST_ANSWERS`] times for each of them: then there are more tasks than threads. That may be an event loop
//! that they wake, whose tasks show on no thread.
//! A thread of Java waits on one word of its own for its tasks and in them: call paths tell which.
//!
//! Or tasks of an executor wait for others of the same: see [`own_pool`].
//!
//! Or at least [`LEAST_NOT_ACCEPTED`] connections, on average, wait to be accepted, while [`LEAST_LEFT`] of the CPUs'
//! time is left: the program takes no more at a time, or all who could accept them wait for something else.
//!
//! Of .NET's thread pool, which gets a thread or two more a second, the proof is more of them from the beginning.
//!
//! Workers that are never idle never wait for work, so that nothing may tell who gives it to them: then they are known
//! by the functions of their library, or by callers that are at least [`LEAST_CALLERS`] for each of them and wait for
//! answers, each on a word of its own, or all on one and most in vain.
//!
//! The place is where the workers are while the callers wait. The severity is what callers wait, less what each would
//! still wait if it had a worker of its own; all of it where some hand things over and wait for no answer.
//!
//! How it can be wrong: a limit on how many calls go on at once may be what the other side asks for.

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::{Counter, Pid, Tid};

use super::stages::{self, Limiter};
use super::weigh::{self, MS, count, mean, ns, part};
use super::{Cure, Finding, Kind, Rule, Subject, alone, goroutines, own_pool, runtime};
use crate::facts::{AccountState, Blame, Facts, Leaf, LockFacts, LockNumber, Primitive, Reason, Site, ThreadFacts};
use crate::names::{Frame, Role, is_sleep, leads_through, words};

pub(super) const RULE: Rule = Rule {
    kind: Kind::SmallPool,
    judge,
    evidence: &[
        "waited_share",
        "workers",
        "callers",
        "blocked_share",
        "waited_ns",
        "goroutines",
        "entries",
        "borrowers",
        "takers",
        "waiting_connections",
        "threads",
    ],
};

pub(super) const MOST_IDLE: f64 = 0.25;
pub(super) const LEAST_WAITED: f64 = 0.3;
/// Of the lives of workers that should run tasks.
pub(super) const LEAST_BLOCKED: f64 = 0.5;
/// So many for each worker, where nothing else tells that they ask it.
pub(super) const LEAST_CALLERS: usize = 4;
/// So many waits of others does each thread of an executor end, if its tasks queue: not just its one task.
pub(super) const LEAST_ANSWERS: u64 = 4;
/// Where waits for tasks are no rarer than those of the tasks, they take so little of the threads' lives.
const MOST_FOR_TASKS: f64 = 0.02;
/// A semaphore that so many have at once, on average, is no lock, though those who have it take turns by its wakes.
const LEAST_AT_ONCE: f64 = 1.5;
/// Each worker is waited for at least so much of what the one is that is waited for most.
pub(super) const LEAST_PART: f64 = 0.1;
const LEAST_NS: u64 = 20 * MS;
/// Half of libuv's pool is in calls for names for so much of the time, if more of them wait.
const LEAST_HALF: f64 = 0.7;
/// So many calls of tasks that block are no accident.
const LEAST_CALLS: u64 = 10;
/// More threads for .NET's pool from the beginning, which gets one or two a second by itself: 16 and 64, hexadecimal.
const MORE_FOR_DOTNET: &str = "--env COMPlus_ThreadPool_ForceMinWorkerThreads=10,40";
/// So many connections wait to be accepted, on average, and so much of the CPUs' time is left. One that nobody ever
/// accepts, at a socket that is not used, is not quite as many.
pub(super) const LEAST_NOT_ACCEPTED: f64 = 1.0;
pub(super) const LEAST_LEFT: f64 = 0.5;
/// How many tasks wait for their turn shows on no thread.
const TASKS_NOT_SEEN: Option<f64> = Some(f64::INFINITY);

fn judge(facts: &Facts) -> Vec<Finding> {
    let of_goroutines = goroutines::small_pools(facts);
    if !of_goroutines.is_empty() {
        return of_goroutines;
    }
    let places: Vec<Finding> =
        facts.numbered_locks().filter_map(|(number, lock)| few_places(facts, number, lock)).collect();
    if !places.is_empty() {
        return places;
    }
    let of_library = [
        borrowed,
        half_pool_of_uv,
        pool_of_uv,
        blocked_executor,
        own_pool::finding,
        queued_executor,
        blocked_loop,
        blocked_common_pool,
        not_accepted,
    ];
    if let Some(pool) = of_library.into_iter().find_map(|pool| pool(facts)) {
        return vec![pool];
    }
    let limiters = stages::limiters(facts);
    let mut workers: Vec<&Limiter> = limiters.iter().filter(|one| is_busy(facts, one)).collect();
    // Whoever once ended a wait of a thread that waits for the pool's work is none of its workers.
    let most_ns = workers.iter().map(|one| waited_for_ns(one)).max().unwrap_or(0);
    workers.retain(|one| waited_for_ns(one) as f64 >= LEAST_PART * most_ns as f64);
    if !are_asked(facts, &workers) {
        workers.retain(|one| stages::is_fed(facts, one));
    }
    let own: BTreeSet<Tid> = workers.iter().map(|one| one.tid).collect();
    let callers: BTreeSet<Tid> =
        workers.iter().flat_map(|one| one.waiters.iter().copied()).filter(|tid| !own.contains(tid)).collect();
    let blocked_ns: u64 = workers.iter().map(|one| one.blocked_ns).sum();
    let waited_ns: u64 = workers.iter().map(|one| waited_for_ns(one)).sum();
    let waited_share = weigh::share(waited_ns, stages::lives_ns(facts, &callers)).min(1.0);
    let small = !workers.is_empty()
        && !hands_out(facts, &workers, &callers)
        && callers.len() > workers.len()
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && blocked_ns * 2 >= waited_ns;
    if !small {
        return in_turn(facts).into_iter().collect();
    }
    let worst = weigh::worst_site(facts, |row| own.contains(&row.thread) && callers.contains(&row.waiter));
    let blocked_at = || weigh::blocked_at(own.iter().filter_map(|tid| facts.thread(*tid)));
    let asks = workers.iter().any(|one| one.mostly_asks());
    let left = if workers.iter().any(|one| stages::has_queue(facts, one.tid)) {
        0.0
    } else {
        weigh::share(workers.len() as u64, callers.len() as u64)
    };
    let place = worst.map(|(_, site)| site).filter(|_| !asks).or_else(blocked_at);
    let proof = if place.as_ref().is_some_and(runtime::is_in_pool_of_dotnet) {
        weigh::try_with(MORE_FOR_DOTNET)
    } else {
        weigh::record_again()
    };
    vec![Finding {
        severity: waited_share * (1.0 - left),
        subjects: workers.iter().take(3).map(|one| weigh::thread_subject(facts, one.tid)).collect(),
        place,
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", workers.len() as u64),
            count("callers", callers.len() as u64),
            part("blocked_share", weigh::share(blocked_ns, waited_ns)),
            ns("waited_ns", waited_ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, proof)
    }]
}

/// How long others waited for a thread.
fn waited_for_ns(one: &Limiter) -> u64 {
    one.work_ns + one.together_ns + one.blocked_ns
}

/// Few places for many callers, who mostly wait for something else while they have one: connections, say. That is a
/// semaphore that those who wait for it release, or what was found to be a pool.
fn few_places(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Option<Finding> {
    let waits_here = |tid: Tid| lock.waiters.iter().any(|(waiter, _)| *waiter == tid);
    let woken: u64 = lock.holders.iter().map(|holder| holder.count).sum();
    let mutual: u64 = lock.holders.iter().filter(|one| waits_here(one.tid)).map(|one| one.count).sum();
    let waiters = || lock.waiters.iter().map(|(tid, _)| *tid).collect::<BTreeSet<Tid>>();
    let callers: BTreeSet<Tid> =
        lock.places.as_ref().map_or_else(waiters, |pool| pool.callers.iter().copied().collect());
    let waited_ns = weigh::waited_ns(lock);
    // Of callers that were never seen to wait, as where looks at a runtime tell of some waits only, nothing is known.
    let waited_share = weigh::share(waited_ns, stages::lives_ns(facts, &waiters())).min(1.0);
    // Who has a place of a pool may wait for other threads, too.
    let asleep = if lock.places.is_some() { weigh::off_share(lock) } else { weigh::holding(lock).asleep };
    let may = matches!(lock.primitive, Primitive::Semaphore | Primitive::Unknown | Primitive::Condvar)
        || lock.primitive == Primitive::SemaphoreLock && held_at_once(facts, lock) >= LEAST_AT_ONCE;
    let is_shared = lock.places.is_some() || may && mutual * 5 >= woken * 4;
    let few = is_shared
        && callers.len() >= 3
        && lock.waits >= 10
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && asleep >= 0.5;
    let guessed = || places_of(lock, callers.len() as u64);
    few.then(|| Finding {
        severity: waited_share,
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.holder_doing.off_sites.first().or(lock.wait_sites.first()).cloned(),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", lock.places.as_ref().map_or_else(guessed, |pool| pool.places)),
            count("callers", callers.len() as u64),
            part("blocked_share", asleep),
            ns("waited_ns", waited_ns),
        ],
        moments: weigh::longest(lock),
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    })
}

/// Threads wait in a function that by its name borrows something of a pool, for what those of them give back that have
/// it and mostly wait for something else meanwhile. How many have it at a time, nothing shows.
fn borrowed(facts: &Facts) -> Option<Finding> {
    struct Borrowing<'a> {
        place: &'a Site,
        callers: BTreeSet<Tid>,
        waits: u64,
        waited_ns: u64,
        /// Waits that were ended: all, and by which threads.
        ended: BTreeMap<Tid, u64>,
    }
    let mut all: BTreeMap<(Pid, &str), Borrowing> = BTreeMap::new();
    for lock in facts.locks.iter().filter(|lock| !lock.primitive.is_contention()) {
        let [(waiter, _)] = lock.waiters[..] else { continue };
        for site in &lock.wait_sites {
            let Some(function) = site.call_path.iter().find_map(borrows) else { continue };
            let new =
                || Borrowing { place: site, callers: BTreeSet::new(), waits: 0, waited_ns: 0, ended: BTreeMap::new() };
            let one = all.entry((lock.pid, function)).or_insert_with(new);
            one.callers.insert(waiter);
            (one.waits, one.waited_ns) = (one.waits + site.count, one.waited_ns + site.ns);
            for holder in &lock.holders {
                *one.ended.entry(holder.tid).or_default() += holder.count;
            }
        }
    }
    let ((_, function), one) = all.into_iter().max_by_key(|(_, one)| one.waited_ns)?;
    let waited_share = weigh::share(one.waited_ns, stages::lives_ns(facts, &one.callers)).min(1.0);
    let ended: u64 = one.ended.values().sum();
    let by_callers: u64 = one.ended.iter().filter(|(tid, _)| one.callers.contains(tid)).map(|(_, count)| count).sum();
    let callers = || one.callers.iter().filter_map(|tid| facts.thread(*tid));
    let blocked_ns: u64 = callers().map(|thread| peers_ns(thread) + blocked_ns(thread)).sum();
    let running_ns: u64 = callers().map(|thread| thread.on_cpu_ns).sum();
    let small = one.callers.len() >= 3
        && one.waits >= 10
        && waited_share >= LEAST_WAITED
        && one.waited_ns >= LEAST_NS
        && by_callers * 2 >= ended
        && blocked_ns >= running_ns;
    small.then(|| Finding {
        severity: waited_share,
        subjects: vec![Subject::Function(function.to_owned())],
        place: weigh::blocked_at(callers()).or_else(|| Some(one.place.clone())),
        evidence: vec![
            part("waited_share", waited_share),
            count("borrowers", one.callers.len() as u64),
            ns("waited_ns", one.waited_ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    })
}

/// The function, if it takes something of a pool by its name: `borrowObject`, `checkout`, `get_connection`.
fn borrows(frame: &Frame) -> Option<&str> {
    const VERBS: [&str; 5] = ["borrow", "checkout", "lease", "acquire", "obtain"];
    const TAKEN: [&str; 2] = ["connection", "conn"];
    const OF_LIBRARY: [&str; 3] = ["java.", "jdk.", "sun."];
    let function = frame.function.as_deref().filter(|_| frame.role == Role::Program)?;
    if OF_LIBRARY.iter().any(|start| function.starts_with(start)) {
        return None;
    }
    let last = function.rsplit(['.', ':', '#']).next().unwrap_or(function);
    let words: Vec<String> = words(last).collect();
    let is = words.first().is_some_and(|verb| VERBS.contains(&verb.as_str()))
        || words.windows(2).any(|pair| pair[0] == "get" && TAKEN.contains(&pair[1].as_str()))
        || words.windows(2).any(|pair| pair[0] == "check" && pair[1] == "out");
    is.then_some(function)
}

/// How long a thread slept or waited for devices.
fn blocked_ns(thread: &ThreadFacts) -> u64 {
    thread.account.of(AccountState::Sleep) + thread.account.of(AccountState::Io)
}

/// Threads block in one call by turns, though no lock is waited for.
fn in_turn(facts: &Facts) -> Option<Finding> {
    const MOST_OF_LOCKS: f64 = 0.05;
    let turns = facts.turns.first()?;
    let at_locks = weigh::contended(facts).any(|(_, lock)| weigh::wait_share(facts, lock) >= MOST_OF_LOCKS);
    let share = weigh::share(turns.site.ns, facts.span_ns()).min(1.0);
    (!at_locks).then(|| Finding {
        severity: weigh::divided(share, turns.threads.len().max(1) as u64),
        subjects: weigh::function_subject(&turns.site),
        place: Some(turns.site.clone()),
        evidence: vec![
            part("waited_share", share),
            count("takers", turns.threads.len() as u64),
            ns("waited_ns", turns.site.ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::LetSeveralIn, weigh::record_again())
    })
}

/// How many have a permit at once, by how long threads are off CPU where its holders mostly are while others wait.
fn held_at_once(facts: &Facts, lock: &LockFacts) -> f64 {
    let Some(place) = lock.holder_doing.off_sites.first() else { return 0.0 };
    let there = facts.threads.iter().flat_map(|thread| &thread.off_sites).filter(|site| alone::is_same(site, place));
    there.map(|site| site.ns).sum::<u64>() as f64 / lock.contended_ns.max(1) as f64
}

/// How many have a permit: those who do not wait, when most wait; where that never is anybody, on average.
fn places_of(lock: &LockFacts, callers: u64) -> u64 {
    let waiting = weigh::share(weigh::waited_ns(lock), lock.contended_ns).round() as u64;
    let most = u64::from(lock.max_waiters);
    if most < callers { callers - most } else { callers.saturating_sub(waiting).max(1) }
}

/// libuv lets calls for names have half of its pool: these are always as many, while others of it may be idle.
fn half_pool_of_uv(facts: &Facts) -> Option<Finding> {
    // The frames of the C library's resolver are so large that what called it may lie beyond what was recorded.
    const RESOLVES: [&str; 4] =
        ["uv__getaddrinfo_work", "uv__getnameinfo_work", "__res_context_query", "__res_context_send"];
    let resolves = |frame: &Frame| frame.function.as_deref().is_some_and(|name| RESOLVES.contains(&name));
    let is_worker = |tid: Tid| facts.thread(tid).is_some_and(|thread| runtime::is_of_uv(facts, thread));
    let in_calls = |row: &&Blame| {
        let is_own = row.waiter == row.thread && row.leaf == Leaf::Outside;
        is_own && row.site.as_ref().is_some_and(|site| site.call_path.iter().any(resolves)) && is_worker(row.waiter)
    };
    let calls: Vec<&Blame> = facts.blame.iter().filter(in_calls).collect();
    let resolving: BTreeSet<Tid> = calls.iter().map(|row| row.waiter).collect();
    let workers: Vec<&ThreadFacts> = resolving.iter().filter_map(|tid| facts.thread(*tid)).collect();
    let pid = workers.first()?.pid;
    let all = facts.threads.iter().filter(|thread| thread.pid == pid && runtime::is_of_uv(facts, thread)).count();
    let main = facts.threads.iter().find(|thread| thread.pid == pid && thread.tid.0 == pid.0)?;
    let waited_ns = main.off.get(&Reason::Poll).map_or(0, |time| time.ns);
    let waited_share = weigh::share(waited_ns, main.life_ns());
    let half = all.max(workers.len()).div_ceil(2) as u64;
    let blocked_ns: u64 = calls.iter().map(|row| row.ns).sum();
    let blocked_share = weigh::share(blocked_ns, half.saturating_mul(facts.span_ns())).min(1.0);
    let call_path = &calls.iter().max_by_key(|row| row.ns)?.site.as_ref()?.call_path;
    let outer = call_path.iter().rposition(resolves).unwrap_or(0);
    let small = half >= 1 && blocked_share >= LEAST_HALF && waited_share >= LEAST_WAITED && waited_ns >= LEAST_NS;
    small.then(|| Finding {
        severity: waited_share * blocked_share,
        place: Some(Site { call_path: call_path[outer..].to_vec(), count: calls.len() as u64, ns: blocked_ns }),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", half),
            count("callers", 1),
            part("blocked_share", blocked_share),
            ns("waited_ns", waited_ns),
        ],
        ..full_pool(facts, &workers)
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
    // An ordinary user does not see of every call what it waits for.
    let other_ns = |one: &ThreadFacts| one.off.get(&Reason::OtherCall).map_or(0, |off| off.ns);
    let peers_ns: u64 = workers.iter().map(|one| peers_ns(one) + other_ns(one)).sum();
    let peers = weigh::share(peers_ns, workers.iter().map(|one| one.life_ns()).sum());
    let blocked = of_workers(&[AccountState::Sleep, AccountState::Io, AccountState::Memory]) + peers;
    let cpus = u64::from(facts.header.machine.cpus).max(1);
    let taken = weigh::share(workers.len() as u64, cpus).min(1.0) * (1.0 - blocked);
    let small = workers.iter().all(|one| is_hardly_idle(one) && one.life_ns() * 2 >= facts.span_ns())
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && taken <= 0.75;
    let busiest = || weigh::hottest(workers.iter().copied());
    // Where they mostly wait, that is where they are.
    let blocked_at = || weigh::blocked_at(workers.iter().copied()).filter(|_| blocked >= LEAST_BLOCKED);
    small.then(|| Finding {
        severity: waited_share * (1.0 - taken),
        place: blocked_at().or_else(busiest),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", workers.len() as u64),
            count("callers", 1),
            part("blocked_share", blocked),
            ns("waited_ns", waited_ns),
        ],
        ..full_pool(facts, &workers)
    })
}

/// Workers of tokio that mostly wait in the calls of its tasks, while all other tasks wait for a worker.
fn blocked_executor(facts: &Facts) -> Option<Finding> {
    let blocks = |row: &&Blame| {
        let blocked = matches!(row.leaf, Leaf::Sleep | Leaf::Io | Leaf::Outside) && row.lock.is_none();
        blocked && row.site.as_ref().is_some_and(runtime::is_in_task)
    };
    let mut in_tasks: BTreeSet<Tid> = facts.blame.iter().filter(blocks).map(|row| row.waiter).collect();
    // Where who is asked is another thread of the recording, the blame leads there.
    in_tasks.extend(facts.threads.iter().filter(|one| is_blocked_in(one, runtime::is_in_task)).map(|one| one.tid));
    let is_worker = |thread: &&ThreadFacts| {
        let lives = thread.life_ns() * 2 >= facts.span_ns();
        lives && (runtime::is_of_tokio(&thread.name) || in_tasks.contains(&thread.tid))
    };
    let workers: Vec<&ThreadFacts> = facts.threads.iter().filter(is_worker).collect();
    let blocked_ns =
        |one: &ThreadFacts| one.account.of(AccountState::Sleep) + one.account.of(AccountState::Io) + peers_ns(one);
    let is_full =
        |one: &&ThreadFacts| weigh::share(blocked_ns(one), one.life_ns()) >= LEAST_BLOCKED && is_hardly_idle(one);
    let waited_ns: u64 = workers.iter().map(|one| blocked_ns(one)).sum();
    // The threads that it has for calls that block bear the same name: where they alone are busy, some worker is not.
    (waited_ns >= LEAST_NS && workers.iter().all(is_full))
        .then(|| blocked_pool(facts, &workers, waited_ns, weigh::blocked_at(workers.iter().copied())))
}

/// The thread of an event loop that mostly waits in calls of its callbacks, while all others wait for their turns.
fn blocked_loop(facts: &Facts) -> Option<Finding> {
    let is_task = runtime::is_in_event_loop;
    let lives = facts.threads.iter().filter(|thread| thread.life_ns() * 2 >= facts.span_ns());
    let blocked = lives.filter(|thread| is_blocked_in(thread, is_task));
    let thread = blocked.max_by_key(|thread| blocked_in(thread, is_task).1)?;
    Some(Finding { cure: Cure::LetLoopGoOn, ..blocked_in_tasks(facts, &[thread], is_task) })
}

/// All threads of Java's common pool, and the thread whose work they share, mostly wait in the calls of its tasks.
fn blocked_common_pool(facts: &Facts) -> Option<Finding> {
    const WORKERS: &str = "ForkJoinPool.commonPool-worker";
    let is_blocked = |one: &ThreadFacts| is_blocked_in(one, runtime::is_in_common_pool);
    let (mut all, others): (Vec<&ThreadFacts>, Vec<&ThreadFacts>) =
        facts.threads.iter().partition(|one| one.name.starts_with(WORKERS));
    let workers = all.len();
    let all_blocked = all.iter().all(|one| is_blocked(one));
    all.extend(others.into_iter().filter(|one| is_blocked(one)));
    (all_blocked && all.len() > workers).then(|| blocked_in_tasks(facts, &all, runtime::is_in_common_pool))
}

/// Whether a thread mostly waits in the calls of tasks, and often.
fn is_blocked_in(thread: &ThreadFacts, is_task: fn(&Site) -> bool) -> bool {
    let (count, waited_ns) = blocked_in(thread, is_task);
    count >= LEAST_CALLS && weigh::share(waited_ns, thread.life_ns()) >= LEAST_BLOCKED
}

/// How often and how long a thread left the CPU in such call paths, by itself.
fn blocked_in(thread: &ThreadFacts, is_task: fn(&Site) -> bool) -> (u64, u64) {
    let sites = thread.off_sites.iter().filter(|site| is_task(site));
    sites.fold((0, 0), |(count, ns), site| (count + site.count, ns + site.ns))
}

/// Workers that wait in the call paths of tasks.
fn blocked_in_tasks(facts: &Facts, workers: &[&ThreadFacts], is_task: fn(&Site) -> bool) -> Finding {
    let waited_ns = workers.iter().map(|one| blocked_in(one, is_task).1).sum();
    let sites = workers.iter().flat_map(|one| &one.off_sites).filter(|site| is_task(site));
    blocked_pool(facts, workers, waited_ns, sites.max_by_key(|site| site.ns).cloned())
}

/// Workers that should run tasks wait in calls of the tasks.
fn blocked_pool(facts: &Facts, workers: &[&ThreadFacts], waited_ns: u64, place: Option<Site>) -> Finding {
    let share = weigh::share(waited_ns, workers.iter().map(|one| one.life_ns()).sum()).min(1.0);
    Finding {
        severity: share,
        place,
        evidence: vec![
            part("waited_share", share),
            count("workers", workers.len() as u64),
            part("blocked_share", share),
            ns("waited_ns", waited_ns),
        ],
        ..full_pool(facts, workers)
    }
}

/// Connections that wait to be accepted, on average, by a program whose threads mostly wait as well.
fn not_accepted(facts: &Facts) -> Option<Finding> {
    let waited_ns = facts.counted(Counter::ConnectionsWaitedNs);
    let waiting = waited_ns as f64 / facts.span_ns().max(1) as f64;
    let threads: Vec<&ThreadFacts> =
        facts.threads.iter().filter(|thread| thread.life_ns() * 2 >= facts.span_ns()).collect();
    let process = weigh::busiest_process(facts, threads.iter().copied())?;
    let small = waiting >= LEAST_NOT_ACCEPTED && weigh::idle(facts) >= LEAST_LEFT;
    small.then(|| Finding {
        severity: waiting / (waiting + threads.len() as f64),
        bound: TASKS_NOT_SEEN,
        subjects: vec![weigh::process_subject(process)],
        place: weigh::blocked_at(threads.iter().copied()),
        evidence: vec![
            mean("waiting_connections", waiting),
            count("threads", threads.len() as u64),
            ns("waited_ns", waited_ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::AcceptMore, weigh::record_again())
    })
}

/// Executors of which all threads are so, the one that is waited for longest.
fn queued_executor(facts: &Facts) -> Option<Finding> {
    let in_pool = |one: &ThreadFacts| {
        let waits = facts.blame.iter().filter(|row| row.thread == one.tid).filter_map(|row| row.site.as_ref());
        let is_own = |lock: &&LockFacts| matches!(lock.waiters[..], [(waiter, _)] if waiter == one.tid);
        let own = facts.locks.iter().filter(is_own).flat_map(|lock| &lock.wait_sites);
        let sites: Vec<&Site> = waits.chain(&one.off_sites).chain(own).collect();
        // Those who run tokio's tasks began in its pool of threads for calls that block, too.
        let runs_tasks = sites.iter().any(|site| runtime::is_in_scheduler_of_tokio(site));
        !runs_tasks && (sites.into_iter().any(runtime::is_in_pool) || runtime::blocks_for_tokio(one))
            || one.hot_sites.iter().any(runtime::is_in_executor_of_python)
    };
    let is_worker =
        |one: &&ThreadFacts| one.life_ns() * 2 >= facts.span_ns() && (runtime::is_of_pool(&one.name) || in_pool(one));
    let mut pools: BTreeMap<(Pid, &str), Vec<&ThreadFacts>> = BTreeMap::new();
    for worker in facts.threads.iter().filter(is_worker) {
        pools.entry(runtime::pool_of(worker)).or_default().push(worker);
    }
    let found = pools.values().filter_map(|workers| queued(facts, workers));
    found.max_by(|a, b| a.severity.total_cmp(&b.severity))
}

/// Threads of an executor that mostly wait in its tasks and hardly ever for one, while others wait for what they
/// finish.
fn queued(facts: &Facts, workers: &[&ThreadFacts]) -> Option<Finding> {
    let tids: BTreeSet<Tid> = workers.iter().map(|one| one.tid).collect();
    // An ordinary user does not see of every call what it waits for. Who polls waits for a socket of its task.
    let blocks = |reason: &Reason| {
        stages::is_in_call(*reason) || matches!(AccountState::of(*reason), AccountState::Sleep | AccountState::Io)
    };
    let ended_by_them = |lock: &LockFacts| {
        let sum = |is: &dyn Fn(Tid) -> bool| -> u64 {
            lock.holders.iter().filter(|one| is(one.tid)).map(|one| one.count).sum()
        };
        // Those who run tokio's tasks pass on to each other what the pool has finished.
        let passes_on =
            |tid| !tids.contains(&tid) && facts.thread(tid).is_some_and(|thread| runtime::is_of_tokio(&thread.name));
        let (own, passed_on, all) = (sum(&|tid| tids.contains(&tid)), sum(&passes_on), sum(&|_| true));
        own > 0 && own * 5 >= (all - passed_on) * 4 && own * 3 >= all
    };
    let in_tasks: BTreeMap<Tid, OwnWaits<'_>> = tids.iter().map(|tid| (*tid, OwnWaits::of(facts, *tid))).collect();
    let blocked = |one: &ThreadFacts| {
        let times = one.off.iter().filter(|(reason, _)| blocks(reason)).map(|(_, time)| time);
        let (count, ns) = times.fold((0, 0), |(count, ns), time| (count + time.count, ns + time.ns));
        (count + in_tasks[&one.tid].count, ns + in_tasks[&one.tid].ns)
    };
    let is_full = |one: &&ThreadFacts| {
        let tasks = || one.off.iter().filter(|(reason, _)| stages::is_for_tasks(**reason)).map(|(_, time)| time);
        let (tasks, tasks_ns): (u64, u64) = (tasks().map(|time| time.count).sum(), tasks().map(|time| time.ns).sum());
        let own = &in_tasks[&one.tid];
        let (tasks, tasks_ns) = (tasks.saturating_sub(own.count), tasks_ns.saturating_sub(own.ns));
        let (count, ns) = blocked(one);
        let hardly_waits = tasks * 10 <= count || weigh::share(tasks_ns, one.life_ns()) <= MOST_FOR_TASKS;
        let idle_ns =
            one.life_ns().saturating_sub(one.on_cpu_ns + ns + weigh::preempted(one).ns + weigh::displaced_ns(one));
        let is_busy = weigh::share(idle_ns, one.life_ns()) <= MOST_IDLE;
        hardly_waits && is_busy && weigh::share(ns, one.life_ns()) >= LEAST_BLOCKED
    };
    let answered: Vec<(Tid, u64, u64)> = facts
        .locks
        .iter()
        .filter(|lock| ended_by_them(lock))
        .flat_map(|lock| lock.waiters.iter().map(|(tid, time)| (*tid, time.count, time.ns)))
        .filter(|(tid, ..)| !tids.contains(tid))
        .chain(event_loops(facts, workers, &tids))
        .filter(|(.., ns)| *ns as f64 >= LEAST_WAITED * facts.span_ns() as f64)
        .collect();
    let callers: BTreeSet<Tid> = answered.iter().map(|(tid, ..)| *tid).collect();
    let answers: u64 = answered.iter().map(|(_, count, _)| count).sum();
    let waited_ns: u64 = answered.iter().map(|(.., ns)| ns).sum();
    let waited_share = weigh::share(waited_ns, stages::lives_ns(facts, &callers)).min(1.0);
    let blocked_share =
        weigh::share(workers.iter().map(|one| blocked(one).1).sum(), workers.iter().map(|one| one.life_ns()).sum());
    let small = !workers.is_empty()
        && workers.iter().all(is_full)
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && answers >= LEAST_ANSWERS * workers.len() as u64;
    // Whoever answers them may be another thread of the program, which their waits are followed to.
    let in_task = || in_tasks.values().filter_map(|own| own.place).max_by_key(|place| place.ns).cloned();
    let blocked_at = || in_task().or_else(|| weigh::blocked_at(workers.iter().copied()));
    small.then(|| Finding {
        severity: waited_share * blocked_share,
        place: blocked_at().or_else(|| weigh::hottest(workers.iter().copied())),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", workers.len() as u64),
            count("callers", callers.len() as u64),
            part("blocked_share", blocked_share),
            ns("waited_ns", waited_ns),
        ],
        ..full_pool(facts, workers)
    })
}

/// Threads that wait for events and are woken by these workers as they finish a task: for how long, and how often at
/// most. Whose tasks those are shows on no thread.
fn event_loops(facts: &Facts, workers: &[&ThreadFacts], tids: &BTreeSet<Tid>) -> Vec<(Tid, u64, u64)> {
    let answers = workers.iter().map(|one| one.ended_waits).sum();
    let mut waited: BTreeMap<Tid, u64> = BTreeMap::new();
    for row in facts.blame.iter().filter(|row| row.lock.is_none() && !tids.contains(&row.waiter)) {
        let polls = facts.thread(row.waiter).is_some_and(|thread| thread.off.contains_key(&Reason::Poll));
        if polls && (tids.contains(&row.thread) || row.asker.is_some_and(|asker| tids.contains(&asker))) {
            *waited.entry(row.waiter).or_default() += row.ns;
        }
    }
    waited.into_iter().map(|(tid, ns)| (tid, answers, ns)).collect()
}

/// The waits of a thread on the word that it alone waits on, as far as they are in tasks of an executor of Java: by the
/// same word it waits for tasks.
#[derive(Default)]
struct OwnWaits<'a> {
    count: u64,
    ns: u64,
    /// Where most of them are.
    place: Option<&'a Site>,
}

impl OwnWaits<'_> {
    fn of(facts: &Facts, tid: Tid) -> OwnWaits<'_> {
        let is_own = |lock: &&LockFacts| matches!(lock.waiters[..], [(waiter, _)] if waiter == tid);
        // How it sleeps is a wait by itself.
        let in_task = |site: &&Site| runtime::is_in_task_of_java(site) && !leads_through(&site.call_path, is_sleep);
        let mut found = OwnWaits::default();
        for site in facts.locks.iter().filter(is_own).flat_map(|lock| &lock.wait_sites).filter(in_task) {
            (found.count, found.ns) = (found.count + site.count, found.ns + site.ns);
            found.place = found.place.filter(|most| most.ns >= site.ns).or(Some(site));
        }
        found
    }
}

/// Workers that all have something to do, while nothing shows how many tasks wait for one of them.
fn full_pool(facts: &Facts, workers: &[&ThreadFacts]) -> Finding {
    Finding {
        bound: TASKS_NOT_SEEN,
        subjects: workers.iter().take(3).map(|one| weigh::thread_subject(facts, one.tid)).collect(),
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    }
}

/// Whether a worker of a library's pool always has a task. A read of a pipe or a socket is what it is busy with.
fn is_hardly_idle(worker: &ThreadFacts) -> bool {
    let idle_ns = worker.account.of(AccountState::Work).saturating_sub(peers_ns(worker));
    weigh::share(idle_ns, worker.life_ns()) <= MOST_IDLE
}

/// How long a thread waited for the other end of a pipe or a socket.
fn peers_ns(thread: &ThreadFacts) -> u64 {
    thread.off.get(&Reason::Peer).map_or(0, |off| off.ns)
}

/// Whether it is the program's first thread alone that all wait for, and it mostly lets them go together: who asks one
/// worker is answered alone.
fn hands_out(facts: &Facts, workers: &[&Limiter], callers: &BTreeSet<Tid>) -> bool {
    let [only] = workers else { return false };
    let (mut together_ns, mut all_ns) = (0, 0);
    for row in facts.blame.iter().filter(|row| row.thread == only.tid && callers.contains(&row.waiter)) {
        let lock = row.lock.and_then(|lock| facts.lock(lock));
        all_ns += row.ns;
        together_ns += if lock.is_some_and(stages::is_together) { row.ns } else { 0 };
    }
    facts.processes.iter().any(|process| process.pid.0 == only.tid.0) && together_ns * 2 > all_ns
}

/// Whether a thread always has something to do, and mostly waits for something else there.
fn is_busy(facts: &Facts, one: &Limiter) -> bool {
    stages::idle_share_of(facts, one) <= MOST_IDLE && stages::has_backlog(facts, one)
}

/// Whether it is waited for in a future of C++, for the result of a task, or in a call of an entry of Ada's.
fn is_result(lock: &LockFacts) -> bool {
    const WAITS: [&str; 3] =
        ["std::__future_base::", "std::__basic_future<", "system__tasking__entry_calls__wait_for_completion"];
    let mut functions = lock.wait_sites.iter().flat_map(|site| &site.call_path).filter_map(|f| f.function.as_deref());
    functions.any(|name| WAITS.iter().any(|part| name.contains(part)))
}

/// Whether threads that never wait for work themselves get it from those who wait for them: these are several times as
/// many, and wait as one waits for an answer: each is woken alone, on a word that nobody else waits on, or all are
/// woken and most wait again, for the answer was another's. Who hands out work by the clock wakes whoever is next at
/// the queue, or lets all go on. Java's threads wait on words of their own for everything.
fn are_asked(facts: &Facts, workers: &[&Limiter]) -> bool {
    let callers: BTreeSet<Tid> = workers.iter().flat_map(|one| one.waiters.iter().copied()).collect();
    let of_workers = |row: &&Blame| workers.iter().any(|one| one.tid == row.thread) && callers.contains(&row.waiter);
    let is_answer = |row: &Blame| {
        let lock = row.lock.and_then(|lock| facts.lock(lock));
        lock.is_some_and(|lock| {
            let own_word = lock.waiters.len() == 1 && lock.primitive != Primitive::Park;
            own_word || is_result(lock) || (lock.herds.calls > 0 && lock.herds.back_to_sleep * 2 >= lock.herds.woken)
        })
    };
    let (mut answers_ns, mut all_ns) = (0, 0);
    for row in facts.blame.iter().filter(of_workers) {
        all_ns += row.ns;
        answers_ns += if is_answer(row) { row.ns } else { 0 };
    }
    // One worker might as well set the pace, unless callers say by name that they wait for the result of a task.
    let is_result = |row: &Blame| row.lock.and_then(|lock| facts.lock(lock)).is_some_and(is_result);
    let results_ns: u64 = facts.blame.iter().filter(of_workers).filter(|row| is_result(row)).map(|row| row.ns).sum();
    let is_pool = workers.len() >= 2 || results_ns * 2 >= all_ns;
    is_pool && callers.len() >= LEAST_CALLERS * workers.len() && answers_ns * 5 >= all_ns * 4
}
