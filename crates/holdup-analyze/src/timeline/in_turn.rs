//! Calls that threads block in by turns: never two of them at once, though nobody is seen to wait for a lock. Something
//! else lets one go on at a time: a strand of an executor, one connection, a permit.
//!
//! Threads that block without regard to each other are found there together for as long as chance has it, which is
//! often if some thread is there nearly all the time. And whose turn it is was woken by one that had its turn before,
//! not by whoever asks from outside for one thing after the other.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::chains::Meaning as _;
use super::ids::ThreadId;
use super::lock::Place;
use super::log::Stay;
use super::lookup::Lookup;
use super::meaning::Meanings;
use crate::facts::{Reason, Site, TurnFacts};
use crate::names::{Frame, Role, caller};

/// Some thread is there for so much of the recording.
const LEAST_THERE: f64 = 0.6;
/// Two are for so much of that at most.
const MOST_TOGETHER: f64 = 0.02;
/// So many threads are, each for so much of it.
const LEAST_THREADS: usize = 3;
const LEAST_PART: f64 = 0.05;
/// So often another's turn comes; and so many of these were woken by one of them.
const LEAST_TURNS: u64 = 50;
const LEAST_WOKEN: f64 = 0.5;
/// Waits before a call in which it may have been woken for it.
const WAITS_BEFORE: usize = 4;

/// A function of the program: its module and name, or where it begins.
pub(super) type Function = (Arc<str>, Option<Arc<str>>, u64);

/// The one that blocks, in this process.
type Blocks = (u32, Function);

/// A stretch in such a call.
#[derive(Clone, Copy)]
struct Turn {
    from: u64,
    to: u64,
    thread: ThreadId,
    place: Place,
}

/// All such calls, the longest first.
pub(super) fn find(lookup: &mut Lookup<'_>, meanings: &Meanings, span_ns: u64) -> Vec<TurnFacts> {
    let engine = lookup.engine;
    let blocks = |stay: &Stay| {
        let reason = meanings.reason(stay.doing());
        stay.stack.is_some() && matches!(reason, Reason::Sleep | Reason::Io | Reason::Peer | Reason::OtherCall)
    };
    let mut functions: FxHashMap<(u32, Place), Option<Blocks>> = FxHashMap::default();
    let mut sums: FxHashMap<Blocks, FxHashMap<ThreadId, u64>> = FxHashMap::default();
    for (ti, thread) in engine.threads.each() {
        for stay in thread.log.stays().iter().filter(|stay| blocks(stay)) {
            let place = Place { space: thread.space, stack: stay.stack };
            let function = functions
                .entry((thread.pid.0, place))
                .or_insert_with(|| Some((thread.pid.0, function(&lookup.call_path(place))?)));
            let Some(function) = function else { continue };
            let of_thread = sums.get_mut(function);
            match of_thread {
                Some(threads) => *threads.entry(ti).or_default() += stay.to - stay.from,
                None => _ = sums.entry(function.clone()).or_default().insert(ti, stay.to - stay.from),
            }
        }
    }
    let mut found: Vec<TurnFacts> = Vec::new();
    for (function, threads) in sums {
        let all: u64 = threads.values().sum();
        let takers: Vec<ThreadId> =
            threads.iter().filter(|(_, ns)| **ns as f64 >= LEAST_PART * all as f64).map(|(ti, _)| *ti).collect();
        let there = all as f64 / span_ns.max(1) as f64;
        if takers.len() < LEAST_THREADS || !(LEAST_THERE..=1.0 + MOST_TOGETHER).contains(&there) {
            continue;
        }
        let mut turns: Vec<Turn> = Vec::new();
        for ti in threads.keys() {
            let thread = &engine.threads[*ti];
            for stay in thread.log.stays().iter().filter(|stay| blocks(stay)) {
                let place = Place { space: thread.space, stack: stay.stack };
                if functions.get(&(thread.pid.0, place)).and_then(Option::as_ref) == Some(&function) {
                    turns.push(Turn { from: stay.from, to: stay.to, thread: *ti, place });
                }
            }
        }
        turns.sort_unstable_by_key(|turn| (turn.from, turn.thread));
        if !are_in_turn(lookup, &turns) {
            continue;
        }
        let longest = turns.iter().max_by_key(|turn| turn.to - turn.from);
        let call_path = longest.map(|turn| lookup.call_path(turn.place).to_vec()).unwrap_or_default();
        let mut tids: Vec<_> = takers.iter().map(|ti| lookup.tid(*ti)).collect();
        tids.sort_unstable();
        found.push(TurnFacts { threads: tids, site: Site { call_path, count: turns.len() as u64, ns: all } });
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.site.ns));
    found
}

/// The function of the program that a thread is in.
pub(super) fn function(call_path: &[Frame]) -> Option<Function> {
    let own = caller(call_path).filter(|frame| frame.role == Role::Program)?;
    let start = if own.function.is_some() { 0 } else { own.start };
    Some((own.module.clone(), own.function.clone(), start))
}

/// Whether these, by when they begin, never are two at once, and who begins was mostly woken by another of them.
fn are_in_turn(lookup: &Lookup<'_>, turns: &[Turn]) -> bool {
    let (mut all, mut together, mut until) = (0, 0, 0);
    let (mut changes, mut woken) = (0_u64, 0_u64);
    let mut before: Option<ThreadId> = None;
    let takes = |thread: ThreadId| turns.iter().any(|turn| turn.thread == thread);
    let mut known: FxHashMap<ThreadId, bool> = FxHashMap::default();
    for turn in turns {
        all += turn.to - turn.from;
        together += until.min(turn.to).saturating_sub(turn.from);
        until = until.max(turn.to);
        if before.is_some_and(|before| before != turn.thread) {
            changes += 1;
            let stays = lookup.engine.threads[turn.thread].log.stays();
            let at = stays.partition_point(|stay| stay.to <= turn.from);
            let waits = stays[..at].iter().rev().take(WAITS_BEFORE);
            let waker = waits.filter_map(Stay::waking_thread).next();
            woken += u64::from(waker.is_some_and(|waker| *known.entry(waker).or_insert_with(|| takes(waker))));
        }
        before = Some(turn.thread);
    }
    together as f64 <= MOST_TOGETHER * all as f64
        && changes >= LEAST_TURNS
        && woken as f64 >= LEAST_WOKEN * changes as f64
}

#[cfg(test)]
mod tests {
    use holdup_trace::{Blocked, CallNumber, Event, FutexOp, Header, NO_CPU, OffCpu, Pid, Stack, Stacks, Tid, What};

    use crate::{Analysis, NoModules, Options};

    /// Threads 2, 3 and 4 write by turns, each of which wakes the next one; every write takes so long, and the next one
    /// begins so long after it did.
    fn turns(write_us: u64, every_us: u64, wakes: bool) -> usize {
        let mut header = Header::default();
        header.capabilities.wakings = true;
        let mut stacks = Stacks::new();
        let stack = stacks.intern(&Stack { user: vec![0x40_1000], ..Stack::default() });
        let mut analysis = Analysis::new(&header, Options::default());
        let mut events: Vec<(u64, u32, What)> = Vec::new();
        for tid in 2..5 {
            events.push((0, tid, What::Started { pid: Pid(2), parent: None }));
            events.push((1, tid, What::SwitchIn));
        }
        for n in 0..300 {
            let (tid, at) = (2 + n % 3, 1_000 + u64::from(n) * every_us);
            let next = 2 + (n + 1) % 3;
            let op = FutexOp(FutexOp::WAIT);
            events.push((at, tid, What::SwitchOut { off: OffCpu::Blocked, stack: Some(stack) }));
            let found = Blocked {
                nr: Some(CallNumber(1)),
                file: Some("pipe:[7]".into()),
                stack: Some(stack),
                ..Blocked::default()
            };
            events.push((at + 1, tid, What::Blocked(Box::new(found))));
            events.push((at + write_us, tid, What::SwitchIn));
            if wakes {
                events.push((at + write_us + 1, tid, What::Waking { target: Tid(next), stack: None }));
            }
            events.push((
                at + write_us + 2,
                tid,
                What::FutexWait { op, addr: 0x5000 + u64::from(tid) * 64, value: 0, stack: None },
            ));
            events.push((at + write_us + 3, tid, What::SwitchOut { off: OffCpu::Blocked, stack: None }));
            events.push((at + every_us * 3 - 1, tid, What::SwitchIn));
        }
        events.sort_by_key(|(at, ..)| *at);
        for (at, tid, what) in events {
            analysis.feed(&Event { time_ns: 1_000_000 + at * 1_000, tid: Tid(tid), cpu: NO_CPU, what });
        }
        analysis.finish(None, &stacks, &NoModules).facts.turns.len()
    }

    #[test]
    fn who_blocks_by_turns_and_wakes_the_next_is_let_in_one_by_one() {
        assert_eq!(turns(90, 100, true), 1);
        assert_eq!(turns(90, 100, false), 0, "something from outside asks for one thing after the other");
        assert_eq!(turns(90, 80, true), 0, "two are in at once");
        assert_eq!(turns(50, 100, true), 0, "mostly nobody is in");
    }
}
