//! What ends up holding threads up: the account of every thread's time, each wait followed to what its waker did
//! meanwhile, and the path that the elapsed time is made of.
//!
//! **The chain** of a wait (cascaded blame: Zhou and others, OSDI'18): from its beginning to the wake, time is what the
//! waker did then. Where the waker waited too, its waker is followed, on and on, until something is reached that is no
//! wait for a thread: code that runs, a CPU that it did not get, a device, memory, a sleep, the outside.
//!
//! **The path** (critical path: Yang and Miller, 1988): backwards from the end, on the thread that ended last; where a
//! thread was woken, on with who woke it. While the path runs elsewhere because a thread of it waited for something,
//! that thing is on the path: without it, this is what could go (critical lock analysis: Chen and Stenström, 2012).

use rustc_hash::FxHashMap;

use super::doing::{Doing, Waker};
use super::engine::Engine;
use super::ids::{FoundId, ListedId, Table, ThreadId, unknown_last};
use super::lock::Place;
use super::log::Stay;
use super::thread::{self, Thread};
use crate::facts::{AccountState as State, Leaf, Reason};
use crate::histogram::Histogram;
use crate::names::SpaceId;

/// Chains end here at the latest.
const DEEPEST: usize = 10;
/// So many waits are followed; of more, every second, every third, and so on.
const FOLLOWED: u64 = 200_000;
/// So many times a thread loses the CPU at most between two waits, where it asks another for something.
const MOST_BETWEEN: usize = 8;
/// Threads of one process end within this time of each other as it exits.
const EXIT_NS: u64 = 10_000_000;
/// Waits for the outside of a fifth of the recording are for an end.
const ENDS_IN: u64 = 5;
/// So many steps at most are made for all waits.
const MOST_STEPS: u64 = 60_000_000;

/// What a stretch off the CPU means; comes from names.
pub(super) trait Meaning {
    fn reason(&self, doing: Doing) -> Reason;
    /// The lock of the facts, if it is one.
    fn lock(&self, doing: Doing) -> Option<ListedId>;
    /// What a stretch is part of: who yields before it sleeps for something waits for that already.
    fn part_of(&self, stay: &Stay, space: SpaceId) -> Doing;
}

/// What a chain ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct End {
    pub leaf: Leaf,
    /// Whose doing it was, if anybody's.
    pub thread: Option<ThreadId>,
    /// Where that one left the CPU.
    pub place: Place,
    /// What it was found blocked in, if anything tells.
    pub found: Option<FoundId>,
}

impl End {
    /// The order of those with the same weight.
    pub(super) fn order(&self) -> impl Ord + use<> {
        (self.leaf, unknown_last(self.thread), self.place, unknown_last(self.found))
    }
}

/// A row of the blame: who waits for what, through what, and what that ended in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Row {
    pub waiter: ThreadId,
    /// What it waits for: a lock of the facts, unless the wait is not on a futex.
    pub lock: Option<ListedId>,
    /// What its waker waited for in turn, if it did.
    pub via: Option<ListedId>,
    pub end: End,
    /// Who asked the thread that it ended in for something, and waits for the answer.
    pub asker: Option<ThreadId>,
}

impl Row {
    /// The order of those with the same weight.
    pub(super) fn order(&self) -> impl Ord + use<> {
        (self.waiter, unknown_last(self.lock), unknown_last(self.via), self.end.order(), unknown_last(self.asker))
    }
}

/// What a chain led through so far.
#[derive(Clone, Copy, Debug, Default)]
struct Through {
    via: Option<ListedId>,
    last: Option<Last>,
}

/// The last thread on a chain that waits, and whether it is seen to have asked the one that ends its wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Last {
    thread: ThreadId,
    asked: bool,
}

/// Who asks a thread for so much of its waits for it, as far as is seen, does for all of them: whoever is asked does
/// not always fall asleep between two questions.
const SEEN_ASKING: f64 = 0.25;

/// A piece of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub from: u64,
    pub to: u64,
    pub leaf: Leaf,
    pub thread: Option<ThreadId>,
}

/// The path as it is drawn, backwards in time. Pieces too short to be seen stand together under what most of their time
/// was, so that their number has a limit whatever the recording.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    list: Vec<Piece>,
    /// No piece that stands alone is shorter.
    grain_ns: u64,
    /// The short ones since the last that stands.
    short: Option<Short>,
}

/// Short pieces that stand together: until when, and how much of what.
#[derive(Debug)]
struct Short {
    until: u64,
    shares: Vec<(Leaf, Option<ThreadId>, u64)>,
}

/// Pieces that stand alone are at least this part of the recording.
const GRAINS: u64 = 65_536;

impl Pieces {
    /// The next piece, which ends where the last one began.
    fn push(&mut self, from: u64, to: u64, leaf: Leaf, thread: Option<ThreadId>) {
        match self.list.last_mut() {
            Some(last) if self.short.is_none() && (last.leaf, last.thread, last.from) == (leaf, thread, to) => {
                last.from = from;
                return;
            }
            _ => {}
        }
        if to - from >= self.grain_ns {
            self.flush(to);
            self.list.push(Piece { from, to, leaf, thread });
            return;
        }
        let Short { until, shares } = self.short.get_or_insert_with(|| Short { until: to, shares: Vec::new() });
        match shares.iter_mut().find(|(known, whose, _)| (*known, *whose) == (leaf, thread)) {
            Some((_, _, ns)) => *ns += to - from,
            None => shares.push((leaf, thread, to - from)),
        }
        if *until - from >= self.grain_ns {
            self.flush(from);
        }
    }

    fn flush(&mut self, from: u64) {
        let Some(Short { until: to, shares }) = self.short.take() else { return };
        let most = shares.into_iter().max_by_key(|(leaf, thread, ns)| (*ns, *leaf, *thread));
        self.list.extend(most.map(|(leaf, thread, _)| Piece { from, to, leaf, thread }));
    }

    pub(super) fn list(&self) -> &[Piece] {
        &self.list
    }
}

/// Everything at once.
#[derive(Debug, Default)]
pub(super) struct Chains {
    /// By thread: time by state.
    pub accounts: Vec<[u64; State::COUNT]>,
    /// By thread: how long those of its waits took, until it could go on, that no other thread ended.
    pub timed_waits: Vec<Histogram>,
    /// By thread: waits of others that it ended, but for those for a lock: who releases one hands nothing on.
    pub ended_waits: Table<ThreadId, u64>,
    pub blame: Vec<(Row, u64)>,
    /// What the path consists of.
    pub path: FxHashMap<End, u64>,
    pub pieces: Pieces,
    /// Time of the path that ran elsewhere because one of it waited for this lock.
    pub path_locks: FxHashMap<ListedId, u64>,
}

pub(super) struct Walker<'a, M> {
    engine: &'a Engine,
    meaning: &'a M,
    steps: u64,
}

pub(super) fn follow<M: Meaning>(engine: &Engine, meaning: &M, from: u64, to: u64) -> Chains {
    let mut walker = Walker { engine, meaning, steps: 0 };
    let (accounts, timed_waits) = engine.threads.iter().map(|thread| walker.account(thread)).unzip();
    let mut chains = Chains { accounts, ended_waits: walker.ended_waits(), timed_waits, ..Chains::default() };
    walker.blame(&mut chains);
    walker.path(&mut chains, from, to);
    chains
}

impl<M: Meaning> Walker<'_, M> {
    // The account.

    /// Its time by state, and its waits that no other thread ended.
    fn account(&self, thread: &Thread) -> ([u64; State::COUNT], Histogram) {
        let (mut account, mut timed_waits) = ([0; State::COUNT], Histogram::default());
        let mut off = 0;
        for stay in thread.log.stays() {
            let length = stay.to - stay.from;
            off += length;
            let state = self.state(self.meaning.part_of(stay, thread.space));
            let ready = if state.is_wait() { stay.to - stay.woken() } else { 0 };
            account[state as usize] += length - ready;
            let waits_for = if stay.is_displaced() { State::CpuOther } else { State::CpuOwn };
            account[waits_for as usize] += ready;
            if state.is_wait() && stay.waking_thread().is_none() {
                timed_waits.add(length - ready);
            }
        }
        let life = thread.last.saturating_sub(thread.born);
        account[State::Running as usize] += life.saturating_sub(off);
        (account, timed_waits)
    }

    fn ended_waits(&self) -> Table<ThreadId, u64> {
        let mut ended = self.engine.threads.map(|_| 0);
        for (thread, life) in self.engine.threads.each() {
            let is_for_lock = |stay: &Stay| self.state(self.meaning.part_of(stay, life.space)) == State::Lock;
            let wakers = life.log.stays().iter().filter(|stay| !is_for_lock(stay)).filter_map(Stay::waking_thread);
            wakers.filter(|waker| *waker != thread).for_each(|waker| ended[waker] += 1);
        }
        ended
    }

    fn state(&self, doing: Doing) -> State {
        State::of(self.meaning.reason(doing))
    }

    // The blame.

    fn blame(&mut self, chains: &mut Chains) {
        // No two threads have a row in common.
        let mut found: Vec<(Row, Option<Last>, u64)> = Vec::new();
        let all: u64 = self.engine.threads.iter().map(|thread| thread.log.stays().len() as u64).sum();
        let stride = all.div_ceil(FOLLOWED).max(1);
        for (waiter, thread) in self.engine.threads.each() {
            let mut sampled: FxHashMap<Option<ListedId>, (u64, u64)> = FxHashMap::default();
            let mut rows: FxHashMap<(Row, Option<Last>), u64> = FxHashMap::default();
            for (index, stay) in (0_u64..).zip(thread.log.stays()) {
                let doing = self.meaning.part_of(stay, thread.space);
                if !self.state(doing).is_wait() {
                    continue;
                }
                let lock = self.meaning.lock(doing);
                let length = stay.woken() - stay.from;
                let sums = sampled.entry(lock).or_default();
                sums.0 += length;
                if !index.is_multiple_of(stride) || self.steps > MOST_STEPS {
                    continue;
                }
                sums.1 += length;
                self.follow_wait(stay, waiter, &mut |Through { via, last }, end, ns| {
                    *rows.entry((Row { waiter, lock, via, end, asker: None }, last)).or_default() += ns;
                });
            }
            found.extend(rows.into_iter().map(|((row, last), ns)| {
                let (all, seen) = sampled[&row.lock];
                let ns = if seen == 0 { 0 } else { (ns as f64 * all as f64 / seen as f64) as u64 };
                (row, last, ns)
            }));
        }
        let mut asking: FxHashMap<(ThreadId, Option<ThreadId>), [u64; 2]> = FxHashMap::default();
        for (row, last, ns) in &found {
            if let Some(Last { thread, asked }) = *last {
                asking.entry((thread, row.end.thread)).or_default()[usize::from(asked)] += ns;
            }
        }
        let told = found.into_iter().map(|(row, last, ns)| {
            let asks = |last: &Last| {
                let [unseen, seen] = asking[&(last.thread, row.end.thread)];
                last.asked || seen as f64 >= (seen + unseen) as f64 * SEEN_ASKING
            };
            (Row { asker: last.filter(asks).map(|last| last.thread), ..row }, ns)
        });
        let mut told: Vec<(Row, u64)> = told.collect();
        told.sort_unstable_by_key(|(row, _)| row.order());
        told.dedup_by(|(row, ns), (before, sum)| {
            let is_same = row == before;
            *sum += if is_same { *ns } else { 0 };
            is_same
        });
        chains.blame = told;
    }

    fn follow_wait(&mut self, stay: &Stay, waiter: ThreadId, sink: &mut dyn FnMut(Through, End, u64)) {
        let (from, to) = (stay.from, stay.woken());
        match stay.waking_thread() {
            Some(waker) if waker != waiter => {
                let through = Through { via: None, last: Some(self.last(waiter, stay, waker)) };
                self.did(waker, from, to, through, 1, sink);
            }
            _ => sink(Through::default(), self.own_end(stay, waiter), to - from),
        }
    }

    /// The thread that waits here; it asked the one that ends the wait if it had woken it since its own last wait.
    fn last(&self, thread: ThreadId, stay: &Stay, waker: ThreadId) -> Last {
        let life = &self.engine.threads[thread];
        let before = life.log.before(stay.from).map_or(&[][..], |(index, _)| &life.log.stays()[..=index]);
        let before = &before[before.len().saturating_sub(MOST_BETWEEN)..];
        let last_wait = before.iter().rev().find(|stay| self.state(stay.doing()).is_wait());
        let ran_from = last_wait.or(before.first()).map_or(life.born, |before| before.to);
        let since = self.engine.threads[waker].log.within(ran_from, stay.woken());
        let asks = |other: &Stay| other.waking_thread() == Some(thread) && other.woken() >= ran_from;
        Last { thread, asked: since.iter().any(asks) }
    }

    /// What a wait that no thread ended stands for.
    fn own_end(&self, stay: &Stay, thread: ThreadId) -> End {
        let place = Place { space: self.engine.threads[thread].space, stack: stay.stack };
        let leaf = match self.meaning.reason(stay.doing()) {
            Reason::Io => Leaf::Io,
            Reason::PageFault | Reason::Memory => Leaf::Memory,
            Reason::Sleep => Leaf::Sleep,
            Reason::Yielded => Leaf::Yielding,
            Reason::Preempted => Leaf::Cpu,
            Reason::Displaced => Leaf::OtherPrograms,
            Reason::Peer if self.is_from_within(stay) => Leaf::Unknown,
            Reason::Poll | Reason::Child | Reason::Peer => Leaf::Outside,
            Reason::Futex(_) if stay.waker() == Some(Waker::Timeout) => Leaf::Sleep,
            Reason::Futex(_) | Reason::OtherCall if stay.waker() == Some(Waker::Outside) => Leaf::Outside,
            Reason::Futex(_) | Reason::OtherCall | Reason::Starting | Reason::Unknown => Leaf::Unknown,
        };
        let found = match stay.doing() {
            Doing::Block(block) => self.engine.blocks[block].found,
            _ => None,
        };
        End { leaf, thread: Some(thread), place, found }
    }

    /// Whether a wait at a pipe has another thread of the program at its other end, which nothing shows.
    fn is_from_within(&self, stay: &Stay) -> bool {
        let Doing::Block(block) = stay.doing() else { return false };
        let is_own = |found| self.engine.found[found].own_pipe;
        !self.engine.capabilities.wakings && self.engine.blocks[block].found.is_some_and(is_own)
    }

    /// What a thread did from one moment to another.
    fn did(
        &mut self,
        thread: ThreadId,
        from: u64,
        to: u64,
        through: Through,
        depth: usize,
        sink: &mut dyn FnMut(Through, End, u64),
    ) {
        let engine = self.engine;
        let life = &engine.threads[thread];
        let nowhere = Place { space: life.space, stack: None };
        let ran = End { leaf: Leaf::Running, thread: Some(thread), place: nowhere, found: None };
        let mut at = from;
        if life.born > from {
            let unborn = life.born.min(to);
            sink(through, End { leaf: Leaf::Running, thread: None, place: nowhere, found: None }, unborn - from);
            at = unborn;
        }
        for stay in life.log.within(at, to) {
            self.steps += 1;
            if stay.from > at {
                sink(through, ran, stay.from - at);
                at = stay.from;
            }
            let woken = stay.woken().min(to);
            if woken > at {
                let waits = self.state(stay.doing()).is_wait();
                match stay.waking_thread() {
                    Some(waker) if waits && waker != thread && depth < DEEPEST => {
                        let via = through.via.or_else(|| self.meaning.lock(stay.doing()));
                        let last = Some(self.last(thread, stay, waker));
                        self.did(waker, at, woken, Through { via, last }, depth + 1, sink);
                    }
                    _ => sink(through, self.own_end(stay, thread), woken - at),
                }
                at = woken;
            }
            let end = stay.to.min(to);
            if end > at {
                sink(
                    through,
                    End { leaf: wait_for_cpu(stay), thread: Some(thread), place: nowhere, found: None },
                    end - at,
                );
                at = end;
            }
        }
        if to > at {
            sink(through, ran, to - at);
        }
    }

    // The path.

    fn path(&mut self, chains: &mut Chains, start: u64, end: u64) {
        let Some(mut thread) = self.last_thread(start) else { return };
        let mut at = end.min(self.engine.threads[thread].last);
        chains.pieces.grain_ns = end.saturating_sub(start).div_ceil(GRAINS);
        let end_wait_ns = end.saturating_sub(start) / ENDS_IN;
        // Locks that the path left a thread for, until when.
        let mut waited: Vec<(ListedId, u64)> = Vec::new();
        let most = 2 * self.engine.threads.iter().map(|thread| thread.log.stays().len() + 2).sum::<usize>();
        let (mut before, mut hops) = (at, 0);
        // The thread that the path left last, and when that began to wait.
        let mut left: Option<(ThreadId, u64)> = None;
        for _ in 0..most {
            if at <= start {
                break;
            }
            // Wakers that are only inferred may wait for each other.
            hops = if at < before { 0 } else { hops + 1 };
            before = at;
            let life = &self.engine.threads[thread];
            let nowhere = Place { space: life.space, stack: None };
            let Some((_, stay)) = life.log.before(at).filter(|(_, stay)| stay.to > start) else {
                let born = life.born.clamp(start, at);
                piece(
                    chains,
                    &mut waited,
                    born,
                    at,
                    End { leaf: Leaf::Running, thread: Some(thread), place: nowhere, found: None },
                );
                at = born;
                match self.parent(thread).filter(|_| born > start) {
                    Some(parent) => thread = parent,
                    None => break,
                }
                continue;
            };
            if stay.to < at {
                piece(
                    chains,
                    &mut waited,
                    stay.to,
                    at,
                    End { leaf: Leaf::Running, thread: Some(thread), place: nowhere, found: None },
                );
                at = stay.to;
            }
            let waits = self.state(stay.doing()).is_wait();
            let woken = if waits { stay.woken().min(at) } else { at };
            let lost = End { leaf: wait_for_cpu(stay), thread: Some(thread), place: nowhere, found: None };
            piece(chains, &mut waited, woken.max(start), at, lost);
            at = woken;
            let waker = stay.waking_thread().filter(|waker| waits && *waker != thread && hops < DEEPEST);
            if let Some(waker) = waker {
                waited.extend(self.meaning.lock(stay.doing()).map(|lock| (lock, stay.from)));
                left = Some((thread, stay.from));
                thread = waker;
                continue;
            }
            // Nobody waited for this sleep while it lasted: until then, the thread that was left did something else.
            let end = self.own_end(stay, thread);
            let back = left.take_if(|_| waits);
            let unneeded = |(_, since): &(ThreadId, u64)| *since >= at && end.leaf == Leaf::Sleep;
            if let Some((back, _)) = back.filter(unneeded) {
                thread = back;
                continue;
            }
            // Nor was it for this one, which has waited for an end for long when the other thread began to wait.
            let is_for_end = end.leaf == Leaf::Outside && (at - stay.from) >= end_wait_ns;
            let back = back.filter(|(_, since)| is_for_end && (stay.from..at).contains(since));
            let from = back.map_or(stay.from, |(_, since)| since).max(start);
            let lock = self.meaning.lock(self.meaning.part_of(stay, life.space));
            waited.extend(lock.map(|lock| (lock, from)));
            piece(chains, &mut waited, from, at, end);
            at = from;
            thread = back.map_or(thread, |(back, _)| back);
        }
        chains.pieces.flush(at);
    }

    /// The thread that ends the program. As a process exits, its threads end at once, in any order: then it is the
    /// first one, if that ends with them. Where the program goes on as the recording ends, it is the one that worked
    /// most: the first thread of a server may do nothing.
    fn last_thread(&self, start: u64) -> Option<ThreadId> {
        let ends = || self.engine.threads.each().filter(|(_, thread)| thread.last > start);
        let end = ends().map(|(_, thread)| thread.last).max()?;
        let is_last = |thread: &Thread| end - thread.last <= EXIT_NS;
        let is_first = |thread: &Thread| thread.tid.0 == thread.pid.0 && is_last(thread);
        let has_ended = ends().any(|(_, one)| is_last(one) && one.state == thread::State::Ended);
        let worked_ns = |thread: &Thread| if has_ended { 0 } else { thread.on_cpu_ns };
        let rank = |thread: &Thread| (worked_ns(thread), is_first(thread), thread.last);
        ends().max_by_key(|(index, thread)| (rank(thread), std::cmp::Reverse(*index))).map(|(index, _)| index)
    }

    /// Who started a thread, as far as it is known: the first thread of its process.
    fn parent(&self, thread: ThreadId) -> Option<ThreadId> {
        let life = &self.engine.threads[thread];
        life.parent.filter(|parent| *parent != thread)
    }
}

/// What keeps a woken thread from running.
fn wait_for_cpu(stay: &Stay) -> Leaf {
    if stay.is_displaced() { Leaf::OtherPrograms } else { Leaf::Cpu }
}

/// One more piece, earlier than those before.
fn piece(chains: &mut Chains, waited: &mut Vec<(ListedId, u64)>, from: u64, to: u64, end: End) {
    if to <= from {
        return;
    }
    let mut told: Vec<ListedId> = Vec::new();
    for (lock, until) in waited.iter() {
        if !told.contains(lock) {
            *chains.path_locks.entry(*lock).or_default() += to - from.max(*until).min(to);
            told.push(*lock);
        }
    }
    waited.retain(|(_, until)| *until < from);
    *chains.path.entry(end).or_default() += to - from;
    chains.pieces.push(from, to, end.leaf, end.thread);
}

#[cfg(test)]
mod tests {
    use super::super::ids::Id as _;
    use super::*;

    #[test]
    fn short_pieces_of_the_path_stand_together() {
        let thread = |index| Some(ThreadId::of(index));
        let mut pieces = Pieces { grain_ns: 100, ..Pieces::default() };
        // Backwards: a long run, a hundred short ones of two threads in turn, the long run of a third.
        pieces.push(9_000, 9_500, Leaf::Running, thread(1));
        for turn in (0..100).rev() {
            let (from, leaf) = (8_000 + turn * 10, if turn % 2 == 0 { Leaf::Running } else { Leaf::Cpu });
            pieces.push(from, from + 10, leaf, thread(turn as usize % 2));
        }
        pieces.push(0, 8_000, Leaf::Io, thread(3));
        pieces.flush(0);
        let list = pieces.list();
        assert_eq!(list.first(), Some(&Piece { from: 9_000, to: 9_500, leaf: Leaf::Running, thread: thread(1) }));
        assert_eq!(list.last(), Some(&Piece { from: 0, to: 8_000, leaf: Leaf::Io, thread: thread(3) }));
        assert_eq!(list.len(), 2 + 10);
        assert!(list.windows(2).all(|pair| pair[0].from == pair[1].to));
    }
}
