//! Threads that wait for events in one function and are woken together, for what one of them can have: a socket that
//! several poll, say.
//!
//! The kernel wakes all who poll the same thing within one call, which takes it a microsecond or two for each: who
//! sends something to several takes longer for each of them.

use rustc_hash::FxHashMap;

use super::chains::Meaning as _;
use super::doing::Waker;
use super::in_turn::{self, Function};
use super::lock::Place;
use super::lookup::Lookup;
use super::meaning::Meanings;
use super::waking::HERD_RUN_NS;
use crate::facts::{Herds, PollHerds, Reason, Site};

/// The next of a herd is woken so soon after the one before.
const NEXT_NS: u64 = 4_000;

/// The end of a wait for events.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Woken {
    at: u64,
    /// Who woke, by number; all the same outside.
    waker: u32,
    /// Whether the thread waits again after it ran for a moment.
    again: bool,
}

/// The function in which most are woken for nothing.
pub(super) fn find(lookup: &mut Lookup<'_>, meanings: &Meanings) -> Option<PollHerds> {
    let engine = lookup.engine;
    if !engine.capabilities.wakings {
        return None;
    }
    let mut functions: FxHashMap<Place, Option<usize>> = FxHashMap::default();
    let mut found: Vec<(Place, Vec<Woken>)> = Vec::new();
    let mut known: FxHashMap<Function, usize> = FxHashMap::default();
    for (_, thread) in engine.threads.each() {
        let stays = thread.log.stays();
        let polls = |at: usize| stays.get(at).is_some_and(|stay| meanings.reason(stay.doing()) == Reason::Poll);
        for (at, stay) in stays.iter().enumerate().filter(|(at, stay)| stay.stack.is_some() && polls(*at)) {
            let waker = match stay.waker() {
                Some(Waker::Thread(waker)) => lookup.tid(waker).0,
                Some(Waker::Outside) => 0,
                Some(Waker::Timeout) | None => continue,
            };
            let place = Place { space: thread.space, stack: stay.stack };
            let function = *functions.entry(place).or_insert_with(|| {
                let function = in_turn::function(&lookup.call_path(place))?;
                Some(*known.entry(function).or_insert_with(|| {
                    found.push((place, Vec::new()));
                    found.len() - 1
                }))
            });
            let Some(function) = function else { continue };
            let again = polls(at + 1) && stays[at + 1].from.saturating_sub(stay.to) <= HERD_RUN_NS;
            found[function].1.push(Woken { at: stay.woken(), waker, again });
        }
    }
    let herds = found.into_iter().map(|(place, woken)| (place, herds(woken)));
    let (place, herds) = herds.max_by_key(|(_, herds)| herds.back_to_sleep)?;
    let site = Site { call_path: lookup.call_path(place).to_vec(), count: herds.woken, ns: 0 };
    Some(PollHerds { herds, site }).filter(|found| found.herds.calls > 0)
}

/// Of these wake-ups, those that come together.
fn herds(mut woken: Vec<Woken>) -> Herds {
    woken.sort_unstable();
    let mut herds = Herds::default();
    for together in woken.chunk_by(|one, next| one.waker == next.waker && next.at - one.at <= NEXT_NS) {
        if together.len() >= 2 {
            herds.calls += 1;
            herds.woken += together.len() as u64;
            herds.back_to_sleep += together.iter().filter(|one| one.again).count() as u64;
        }
    }
    herds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_woken_within_one_call_comes_together() {
        let woken = |at, waker, again| Woken { at, waker, again };
        let three = [woken(10_000, 7, true), woken(14_000, 7, false), woken(16_000, 7, true)];
        let others = [woken(21_000, 7, true), woken(23_000, 8, true)];
        let found = herds([&others[..], &three[..]].concat());
        assert_eq!((found.calls, found.woken, found.back_to_sleep), (1, 3, 2));
        assert_eq!(herds(Vec::new()).calls, 0);
    }
}
