//! What holders did while others waited for a lock that is known by where it is taken: each of its threads waits on a
//! word of its own (Java's monitors, Ruby's mutexes, parking_lot), so that which waits belong together is known only
//! when names are. So it is for a lock whose readers and writers wait on a word each (Rust's RwLock).
//!
//! From the beginning of a wait, or the lock's last release in it, to the release that ends it, the time is what the
//! releasing thread did; its own wait for the same lock ends the look back. Where threads were only looked at, whoever
//! has waited for the lock before is believed to release it.

use rustc_hash::FxHashMap;

use super::doing::Doing;
use super::engine::Engine;
use super::ids::{Table, ThreadId, WaitSiteId};
use super::lock::Place;
use super::tally::Tally;
use crate::facts::OffTime;

/// Of a lock that is waited for more often, so many waits are looked at.
const MOST_WAITS: usize = 200_000;

/// What holders of one lock did.
#[derive(Debug, Default)]
pub(super) struct Held {
    pub running_ns: u64,
    pub unknown_ns: u64,
    pub off: Tally<Doing, u64>,
    pub off_sites: Tally<Place, OffTime>,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    woken: u64,
    from: u64,
    thread: ThreadId,
    waker: Option<ThreadId>,
}

/// What holders did, by lock. `lock_of` tells which a wait site belongs to; `None` for wait sites of no such lock.
pub(super) fn by_lock(engine: &Engine, lock_of: &Table<WaitSiteId, Option<usize>>) -> FxHashMap<usize, Held> {
    let lock = |doing: Doing| match doing {
        Doing::Futex(wait_site) => lock_of[wait_site],
        _ => None,
    };
    let mut waits: FxHashMap<usize, Vec<Wait>> = FxHashMap::default();
    if lock_of.iter().all(Option::is_none) {
        return FxHashMap::default();
    }
    for (thread, life) in engine.threads.each() {
        for stay in life.log.stays() {
            if let Some(of) = lock(stay.doing()) {
                let wait = Wait { woken: stay.woken(), from: stay.from, thread, waker: stay.waking_thread() };
                waits.entry(of).or_default().push(wait);
            }
        }
    }
    let held = |(of, mut waits): (usize, Vec<Wait>)| {
        waits.sort_unstable_by_key(|wait| (wait.woken, wait.thread));
        waits.truncate(MOST_WAITS);
        let mut held = Held::default();
        let (mut released, mut taker) = (0, None);
        for wait in waits {
            let from = wait.from.max(released).min(wait.woken);
            let holder = if engine.is_sampled { taker } else { wait.waker };
            match holder.filter(|holder| *holder != wait.thread) {
                Some(holder) => held.look_back(engine, holder, from, wait.woken, |doing| lock(doing) == Some(of)),
                None => held.unknown_ns += wait.woken - from,
            }
            (released, taker) = (released.max(wait.woken), Some(wait.thread));
        }
        (of, held)
    };
    waits.into_iter().map(held).collect()
}

impl Held {
    fn look_back(
        &mut self,
        engine: &Engine,
        holder: ThreadId,
        from: u64,
        to: u64,
        waits_itself: impl Fn(Doing) -> bool,
    ) {
        let thread = &engine.threads[holder];
        let from = from.max(thread.born).min(to);
        let mut rest = to;
        for stay in thread.log.within(from, to).iter().rev() {
            self.running_ns += rest.saturating_sub(stay.to.max(from));
            let end = stay.to.min(rest);
            let begin = stay.from.max(from);
            if waits_itself(stay.doing()) {
                return;
            }
            let length = end.saturating_sub(begin);
            *self.off.at(stay.doing()) += length;
            if stay.stack.is_some() && length > 0 {
                *self.off_sites.at(Place { space: thread.space, stack: stay.stack }) += OffTime::once(length);
            }
            rest = begin;
        }
        self.running_ns += rest.saturating_sub(from);
    }
}
