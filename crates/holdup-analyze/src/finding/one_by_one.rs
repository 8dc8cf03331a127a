//! Threads that are started one after the other, each waited for before the next is: a serial phase in disguise.
//! Futures of C++ that are dropped as soon as they are made wait so.
//!
//! At least [`LEAST_TURNS`] of them, for [`LEAST_SHARE`] of the recording, hardly ever two at once
//! ([`MOST_TOGETHER`] of the time that there is one), while the one that waits for their ends does so for most of it.

use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind};
use crate::facts::{Facts, LockFacts, Primitive, ThreadFacts};
use crate::spans::time_by_count;

pub(super) const LEAST_TURNS: u64 = 50;
pub(super) const LEAST_SHARE: f64 = 0.4;
const MOST_TOGETHER: f64 = 0.05;
/// A thread that lives for longer is no turn.
const LONGEST_TURN: f64 = 0.1;

/// What one thread starts and waits for, one after the other.
pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let joins = facts.locks.iter().filter(|lock| lock.primitive == Primitive::Join);
    let lock = joins.max_by_key(|lock| lock.wait_ns.sum_ns())?;
    let (waiter, waited) = lock.waiters.first()?;
    let turns = turns(facts, lock);
    let one_ns = turns.get(1).copied().unwrap_or(0);
    let together_ns: u64 = turns.iter().skip(2).sum();
    let alone_share = weigh::share(one_ns, facts.span_ns());
    let is_so = waited.count >= LEAST_TURNS
        && weigh::share(waited.ns, facts.span_ns()) >= LEAST_SHARE
        && alone_share >= LEAST_SHARE
        && weigh::share(together_ns, one_ns + together_ns) <= MOST_TOGETHER;
    is_so.then(|| Finding {
        // Two at once would save half of it.
        severity: weigh::divided(alone_share, 2),
        subjects: vec![weigh::thread_subject(facts, *waiter)],
        place: lock.wait_sites.first().cloned(),
        evidence: vec![part("alone_share", alone_share), count("threads", waited.count)],
        ..Finding::new(Kind::SerialPhase, Cure::StartSeveral, weigh::record_again())
    })
}

/// For how long no, one, two ... threads were there that began and ended within the recording, in the process of those
/// that wait for their ends.
fn turns(facts: &Facts, lock: &LockFacts) -> Vec<u64> {
    let is_turn = |life_ns| weigh::share(life_ns, facts.span_ns()) <= LONGEST_TURN;
    let threads = facts.threads.iter().filter(|thread| {
        thread.pid == lock.pid && thread.exited && thread.born_ns > facts.start_ns && is_turn(thread.life_ns())
    });
    time_by_count(threads.map(ThreadFacts::life))
}
