//! Who ended a wait, where nobody was seen to wake anybody (a recording by looks, or by an ordinary user): whoever ran
//! as it ended.
//!
//! A thread is woken by one that runs. Where looks find that only one other thread of the program ran as a wait ended,
//! that one ended it; where several ran, the one that waited least for others meanwhile is believed to have been waited
//! for. Single waits may so be put down to the wrong thread. Sums over hundreds tell who keeps whom waiting, and only
//! these are made of it: no pair and no hand-over is.
//!
//! An ordinary user's recording shows the wakers of futexes, and of what threads wait for at pipes that the program
//! made itself only when they ran. Nearly all waits at such a pipe have to end while some thread of the program runs,
//! else what is at its other end was not recorded.

use std::collections::BTreeMap;

use super::behaviour::ending_thread;
use super::doing::{Doing, Plain, Waker};
use super::engine::Engine;
use super::ids::{FoundId, LockId, Table, ThreadId};
use super::lock::Waiters;
use super::log::{Log, Stay};

/// Looks place the end of a wait with so much uncertainty, at least;
const LEAST_OFF_NS: u64 = 2_000_000;
/// where waits are longer, with a part of their length,
const PART: u64 = 4;
/// but never with more.
const MOST_OFF_NS: u64 = 50_000_000;
/// Of a program with more threads, those that ran longest are looked at.
const MOST_THREADS: usize = 64;
/// A thread that ends within this time of a wait's end may have ended it.
const ENDS_NS: u64 = 5_000_000;
/// Of longer waits, the end is looked at.
const LONGEST_NS: u64 = 1_000_000_000;

/// Ends of waits that lie so close together are one, in looks,
const TOGETHER_NS: u64 = 3_000_000;
/// if the waits are so many times as long.
const LEAST_LENGTH: u64 = 2;

/// Who ended which waits: when each began, and when it was ended.
type Wakers = Vec<(u64, (Waker, u64))>;

/// Who writes to a pipe still runs when the reader does, or has just stopped.
const NEAR_NS: u64 = 200_000;
/// So much of what is waited at a pipe has to be explained by threads that ran then.
const LEAST_EXPLAINED: f64 = 0.9;
/// Fewer waits tell nothing.
const LEAST_WAITS: usize = 16;

/// Fills in the wakers of waits at pipes that the program made itself: of the threads that ran as one ended, the one
/// that did so at most of the waits there.
pub(super) fn pipe_wakers(engine: &mut Engine) {
    let mut pipes: BTreeMap<(FoundId, ThreadId), Vec<Stay>> = BTreeMap::new();
    for (waiter, thread) in engine.threads.each() {
        for stay in thread.log.stays().iter().filter(|stay| stay.waker().is_none()) {
            let Doing::Block(block) = stay.doing() else { continue };
            if let Some(found) = engine.blocks[block].found.filter(|found| engine.found[*found].own_pipe) {
                pipes.entry((found, waiter)).or_default().push(*stay);
            }
        }
    }
    let busiest = busiest(engine);
    let mut found: BTreeMap<ThreadId, Wakers> = BTreeMap::new();
    for ((_, waiter), stays) in pipes.iter().filter(|(_, stays)| stays.len() >= LEAST_WAITS) {
        let others = || busiest.iter().copied().filter(|other| other != waiter);
        let ran = |other: ThreadId, stay: &Stay| {
            let thread = &engine.threads[other];
            off_by(&thread.log, (thread.born, thread.last), stay.to) <= NEAR_NS
        };
        let sum = |is: &dyn Fn(&Stay) -> bool| -> u64 {
            stays.iter().filter(|stay| is(stay)).map(|stay| stay.to - stay.from).sum()
        };
        let mut candidates: Vec<(u64, ThreadId)> =
            others().map(|other| (sum(&|stay| ran(other, stay)), other)).collect();
        candidates.sort_unstable_by_key(|(ns, other)| (std::cmp::Reverse(*ns), *other));
        let waker = |stay: &Stay| candidates.iter().map(|(_, other)| *other).find(|other| ran(*other, stay));
        if (sum(&|stay| waker(stay).is_some()) as f64) < LEAST_EXPLAINED * sum(&|_| true) as f64 {
            continue;
        }
        let wakers = stays.iter().filter_map(|stay| Some((stay.from, (Waker::Thread(waker(stay)?), stay.to))));
        found.entry(*waiter).or_default().extend(wakers);
    }
    for (waiter, mut wakers) in found {
        wakers.sort_unstable_by_key(|(from, _)| *from);
        engine.threads[waiter].log.set_wakers(&wakers);
    }
}

/// Of a program with more threads than can be looked at, those that ran longest.
fn busiest(engine: &Engine) -> Vec<ThreadId> {
    let mut busiest: Vec<ThreadId> = engine.threads.ids().collect();
    busiest.sort_by_key(|index| std::cmp::Reverse(engine.threads[*index].on_cpu_ns));
    busiest.truncate(MOST_THREADS);
    busiest
}

/// Fills in the wakers of waits that have none, and which waits ended together.
pub(super) fn wakers(engine: &mut Engine) {
    let busiest = busiest(engine);
    for waiter in engine.threads.ids() {
        let found: Wakers = {
            let stays = engine.threads[waiter].log.stays().iter();
            let open = stays.filter(|stay| stay.waking_thread().is_none() && may_be_ended(stay.doing()));
            open.filter_map(|stay| Some((stay.from, (Waker::Thread(waker(engine, &busiest, waiter, stay)?), stay.to))))
                .collect()
        };
        engine.threads[waiter].log.set_wakers(&found);
    }
    together(engine);
}

/// Whether another thread may end such a wait.
fn may_be_ended(doing: Doing) -> bool {
    matches!(doing, Doing::Futex(_) | Doing::Block(_))
}

/// The futex that a stretch is a wait for.
fn futex(engine: &Engine, doing: Doing) -> Option<LockId> {
    match doing {
        Doing::Futex(wait_site) => Some(engine.wait_sites[wait_site].lock),
        _ => None,
    }
}

/// The thread of the same process that ran as a wait ended: of several, the one that waited least for others meanwhile.
/// Who mostly waited for the same is none.
fn waker(engine: &Engine, among: &[ThreadId], waiter: ThreadId, stay: &Stay) -> Option<ThreadId> {
    let (from, to) = (stay.from, stay.to);
    let pid = engine.threads[waiter].pid;
    let most_off = ((to - from) / PART).clamp(LEAST_OFF_NS, MOST_OFF_NS);
    let since = from.max(to.saturating_sub(LONGEST_NS));
    let same = futex(engine, stay.doing());
    let candidate = |index: &ThreadId| {
        let thread = &engine.threads[*index];
        if *index == waiter || thread.pid != pid || thread.born >= to {
            return None;
        }
        let off = off_by(&thread.log, (thread.born, thread.last), to);
        // Who waits for others itself at that moment wakes nobody.
        let rests =
            thread.log.before(to).is_some_and(|(_, last)| last.to > to && waits_for_others(engine, last.doing()));
        let waits = |is: &dyn Fn(Doing) -> bool| waited(&thread.log, (since, to), is);
        let like = waits(&|doing| same.is_some() && futex(engine, doing) == same);
        // What comes through a pipe or a socket may come from outside: only who was busy all the while is believed.
        let is_busy = || off == 0 && waits(&|doing| !matches!(doing, Doing::Plain(Plain::Preempted))) * 2 <= to - since;
        if off > most_off || rests || like * 2 > to - since || same.is_none() && !is_busy() {
            return None;
        }
        // Looks do not tell times apart that are nearly the same.
        let idle = waits(&|doing| matches!(doing, Doing::Futex(_))) * 8 / (to - since).max(1);
        Some((idle, off, *index))
    };
    ended(engine, waiter, stay).or_else(|| among.iter().filter_map(candidate).min().map(|(.., index)| index))
}

/// The thread that ended as a wait for one thread did.
fn ended(engine: &Engine, waiter: ThreadId, stay: &Stay) -> Option<ThreadId> {
    let lock = futex(engine, stay.doing()).map(|lock| &engine.locks[lock])?;
    let only = lock.waiters == Waiters::One(waiter);
    only.then(|| ending_thread(engine, waiter, (stay.from, stay.to), ENDS_NS)).flatten()
}

/// Whether somebody else has to do something before the thread goes on.
fn waits_for_others(engine: &Engine, doing: Doing) -> bool {
    match doing {
        Doing::Futex(_) => true,
        Doing::Block(block) => !engine.blocks[block].deep,
        _ => false,
    }
}

/// Of the waits at each futex, which ended together with those of all others that waited there.
fn together(engine: &mut Engine) {
    let mut waits: Table<LockId, Vec<(u64, u64)>> = engine.locks.map(|_| Vec::new());
    for thread in &engine.threads {
        for stay in thread.log.stays() {
            if let Some(lock) = futex(engine, stay.doing()) {
                waits[lock].push((stay.to, stay.from));
            }
        }
    }
    for (lock, waits) in engine.locks.iter_mut().zip(&mut waits) {
        waits.sort_unstable();
        lock.together = herds(waits);
    }
}

/// How many calls ended several waits, and how many waits they ended; of waits as (end, beginning), in order.
fn herds(waits: &[(u64, u64)]) -> (u64, u64) {
    let (mut calls, mut woken, mut at) = (0, 0, 0);
    while at < waits.len() {
        let first = waits[at].0;
        let len = waits[at..].iter().take_while(|(end, _)| end - first <= TOGETHER_NS).count();
        let group = &waits[at..at + len];
        let is_long = group.iter().all(|(end, begin)| end - begin >= LEAST_LENGTH * TOGETHER_NS);
        let is_left = waits[at + len..].iter().any(|(_, begin)| *begin + TOGETHER_NS < first);
        if len >= 2 && is_long && !is_left {
            calls += 1;
            woken += len as u64;
        }
        at += len;
    }
    (calls, woken)
}

/// How far from this moment the thread ran.
fn off_by(log: &Log, (born, last): (u64, u64), at: u64) -> u64 {
    if at < born || at > last {
        return born.saturating_sub(at).max(at.saturating_sub(last));
    }
    match log.before(at) {
        Some((_, stay)) if stay.to > at => (at - stay.from).min(stay.to - at),
        _ => 0,
    }
}

/// How much of a stretch the thread spent in such waits.
fn waited(log: &Log, (from, to): (u64, u64), is: &dyn Fn(Doing) -> bool) -> u64 {
    let waits = log.within(from, to).iter().filter(|stay| is(stay.doing()));
    waits.map(|stay| stay.to.min(to) - stay.from.max(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(stays: &[(u64, u64)]) -> Log {
        let mut log = Log::default();
        stays.iter().for_each(|(from, to)| log.push(*from, *to, Doing::Plain(Plain::Sleep), None, None));
        log
    }

    #[test]
    fn who_runs_at_a_moment_is_no_way_off_and_who_sleeps_by_the_way_to_its_next_run() {
        let log = log(&[(100, 200), (300, 900)]);
        let off = |at| off_by(&log, (0, 1_000), at);
        assert_eq!([off(50), off(110), off(190), off(250), off(800), off(1_030)], [0, 10, 10, 0, 100, 30]);
        let sleeps = |from, to| waited(&log, (from, to), &|doing| doing == Doing::Plain(Plain::Sleep));
        assert_eq!((sleeps(0, 1_000), sleeps(150, 310)), (700, 60));
    }

    #[test]
    fn waits_that_all_end_at_once_were_ended_by_one_call() {
        const MS: u64 = 1_000_000;
        let at = |waits: &[(u64, u64)]| herds(&waits.iter().map(|(to, from)| (to * MS, from * MS)).collect::<Vec<_>>());
        assert_eq!(at(&[(50, 10), (52, 12), (100, 60), (103, 61)]), (2, 4));
        assert_eq!(at(&[(50, 10), (70, 12), (100, 60), (120, 75)]), (0, 0), "one after the other");
        assert_eq!(at(&[(50, 10), (52, 12), (100, 11)]), (0, 0), "one was left");
        assert_eq!(at(&[(50, 47), (52, 48), (54, 51)]), (0, 0), "too short to be told apart");
    }
}
