//! Threads that give the CPU away for a moment before they sleep: `std::atomic::wait`, semaphores and barriers of C++,
//! parking_lot and others do so. That is the beginning of the wait, and often all of it.
//!
//! Where threads yield and then, as the next thing, sleep in the same function, all yields of that place are waits for
//! what they slept for most. Who wakes another in between yields with the lock, and lets go of it.

use rustc_hash::FxHashMap;

use super::doing::{Doing, Plain};
use super::engine::Engine;
use super::ids::{Table, ThreadId, WaitSiteId};
use super::lock::Place;
use super::lookup::{Lookup, function_name};
use super::thread::Thread;
use crate::names::caller;

/// Between two yields, and before the sleep, a thread runs for so long at most: it only looks.
const LOOK_NS: u64 = 50_000;
/// So many of the yields of a place that took effect come before a sleep: a loop that yields until there is something
/// to take, and takes it under a lock, sleeps for that lock by chance.
const LEAST_BEFORE_SLEEP: f64 = 0.01;

/// So many of those who sleep woke another since they yielded, at most: others yielded while they had the lock.
const MOST_AFTER_WAKE: f64 = 0.1;

/// The wait site of what threads sleep for after they yielded in a place.
pub(super) fn by_place(lookup: &mut Lookup) -> FxHashMap<Place, WaitSiteId> {
    let engine = lookup.engine;
    let mut all: FxHashMap<Place, u64> = FxHashMap::default();
    let mut before: FxHashMap<(Place, WaitSiteId), (u64, u64)> = FxHashMap::default();
    let yields = |thread: &Thread| {
        thread.log.stays().iter().any(|stay| stay.doing() == Doing::Plain(Plain::Yielded) && stay.stack.is_some())
    };
    if !engine.threads.iter().any(yields) {
        return FxHashMap::default();
    }
    let wakes = wakes(engine);
    for (thread, wakes) in engine.threads.iter().zip(&wakes) {
        let wakes_within =
            |from: u64, to: u64| wakes.get(wakes.partition_point(|at| *at < from)).is_some_and(|at| *at <= to);
        // Where it yielded last, and until when.
        let mut last: Option<(Place, u64)> = None;
        for stay in thread.log.stays() {
            match stay.doing() {
                Doing::Plain(Plain::Yielded) if stay.stack.is_some() => {
                    let place = Place { space: thread.space, stack: stay.stack };
                    *all.entry(place).or_default() += 1;
                    last = Some((place, stay.to));
                }
                Doing::Plain(Plain::Preempted | Plain::Displaced) => {
                    last = last.filter(|(_, to)| stay.from - to <= LOOK_NS).map(|(place, _)| (place, stay.to));
                }
                Doing::Futex(wait_site) => {
                    if let Some((place, to)) = last.take().filter(|(_, to)| stay.from - to <= LOOK_NS) {
                        let (sleeps, after_wake) = before.entry((place, wait_site)).or_default();
                        *sleeps += 1;
                        *after_wake += u64::from(wakes_within(to, stay.from));
                    }
                }
                _ => last = None,
            }
        }
    }
    let mut pairs: Vec<((Place, WaitSiteId), (u64, u64))> = before.into_iter().collect();
    pairs.sort_unstable_by_key(|(pair, counts)| (std::cmp::Reverse(*counts), *pair));
    let mut of_place = FxHashMap::default();
    for ((place, wait_site), (sleeps, after_wake)) in pairs {
        let enough = sleeps as f64 >= LEAST_BEFORE_SLEEP * all[&place] as f64
            && after_wake as f64 <= MOST_AFTER_WAKE * sleeps as f64;
        if enough && !of_place.contains_key(&place) && is_one_function(lookup, place, wait_site) {
            of_place.insert(place, wait_site);
        }
    }
    of_place
}

/// When each thread woke another.
fn wakes(engine: &Engine) -> Table<ThreadId, Vec<u64>> {
    let mut wakes = engine.threads.map(|_| Vec::new());
    for stay in engine.threads.iter().flat_map(|thread| thread.log.stays()) {
        if let Some(waker) = stay.waking_thread() {
            wakes[waker].push(stay.woken());
        }
    }
    wakes.iter_mut().for_each(|wakes: &mut Vec<u64>| wakes.sort_unstable());
    wakes
}

/// How long threads yielded for what they sleep for in each wait site.
pub(super) fn times(engine: &Engine, of_place: &FxHashMap<Place, WaitSiteId>) -> FxHashMap<WaitSiteId, u64> {
    let mut times: FxHashMap<WaitSiteId, u64> = FxHashMap::default();
    for thread in engine.threads.iter().filter(|_| !of_place.is_empty()) {
        for stay in thread.log.stays().iter().filter(|stay| stay.doing() == Doing::Plain(Plain::Yielded)) {
            if let Some(wait_site) = of_place.get(&Place { space: thread.space, stack: stay.stack }) {
                *times.entry(*wait_site).or_default() += stay.to - stay.from;
            }
        }
    }
    times
}

/// Whether threads yield in the function of the program in which they sleep.
fn is_one_function(lookup: &mut Lookup, place: Place, wait_site: WaitSiteId) -> bool {
    let sleeps = lookup.engine.wait_sites[wait_site].place;
    let mut function = |place: Place| {
        let call_path = lookup.call_path(place);
        caller(&call_path).map(|frame| (frame.module.clone(), function_name(frame)))
    };
    let sleeps = function(sleeps);
    sleeps.is_some() && sleeps == function(place)
}
