//! The small workloads: empty, counter, free-list and thread-id are one loop around different sections.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use super::context::{Context, Lost, equal, lost_extra, work};
use super::drive::{self, Member, Phase, PhaseKind, Raw, Tally, Task};
use super::gate::PerAcquisition;
use super::place::{Data, Padded, Placed};
use super::random::Draw;
use super::timing::Timing;
use crate::lock::BenchLock;
use crate::sample::Failure;
use crate::spec::{Boost, GateKind, Pause, Share, Take, Workload};
use crate::sys;

/// What happens inside the section, around the work there.
trait Section: Sync {
    /// Runs under the lock; `work` is the section's work, to be done between its two halves.
    fn run(&self, data: &Data, me: &mut Own, work: impl FnOnce());
}

/// A section that is a workload: most can tell whether they were alone.
trait Workable: Section {
    /// The same for the loops that take any section.
    fn any(&self) -> AnySection<'_>;

    /// Checks a phase in which the threads did this: how much was lost, and a sentence about it.
    fn check(&self, data: &Data, done: &[Tally]) -> Result<(), Lost>;

    /// Makes ready for the next phase.
    fn reset(&self, data: &Data) {
        data.word.store(0, Relaxed);
    }
}

/// What a section keeps per thread.
#[derive(Debug, Default)]
struct Own {
    /// The thread's number, from 1.
    id: u64,
    /// The node that a thread has popped and not yet pushed back; 0 is none.
    node: u64,
    /// Signs of lost exclusion.
    violations: u64,
}

/// Nothing but the work; only the check before it tells whether the lock excludes.
struct Empty;

impl Section for Empty {
    #[inline(always)]
    fn run(&self, _: &Data, _: &mut Own, work: impl FnOnce()) {
        work();
    }
}

impl Workable for Empty {
    fn any(&self) -> AnySection<'_> {
        AnySection::Empty
    }

    fn check(&self, _: &Data, _: &[Tally]) -> Result<(), Lost> {
        Ok(())
    }
}

/// Reads a counter, works, writes it one higher: an intruder's addition is lost.
struct Counter;

impl Section for Counter {
    #[inline(always)]
    fn run(&self, data: &Data, _: &mut Own, work: impl FnOnce()) {
        let count = data.word.load(Relaxed);
        work();
        data.word.store(count.wrapping_add(1), Relaxed);
    }
}

impl Workable for Counter {
    fn any(&self) -> AnySection<'_> {
        AnySection::Counter
    }

    fn check(&self, data: &Data, done: &[Tally]) -> Result<(), Lost> {
        equal("counter", data.word.load(Relaxed), done.iter().map(|tally| tally.ops).sum())
    }
}

/// Writes the own number to a global; an intruder's number in its place at the end is a sign of lost exclusion.
struct ThreadId;

impl Section for ThreadId {
    #[inline(always)]
    fn run(&self, data: &Data, me: &mut Own, work: impl FnOnce()) {
        data.word.store(me.id, Relaxed);
        work();
        me.violations += u64::from(data.word.load(Relaxed) != me.id);
    }
}

impl Workable for ThreadId {
    fn any(&self) -> AnySection<'_> {
        AnySection::ThreadId
    }

    fn check(&self, _: &Data, done: &[Tally]) -> Result<(), Lost> {
        equal("sections that another thread entered", done.iter().map(|tally| tally.violations).sum(), 0)
    }
}

/// A shared list of free nodes: pops one, and the next time pushes it back.
struct FreeList {
    /// `nodes[i]` is the number of the node behind node `i`; 0 ends the list. The head is the data's word.
    nodes: Vec<Padded<AtomicU64>>,
}

impl FreeList {
    fn new(threads: u32) -> FreeList {
        FreeList { nodes: (0..=u64::from(threads) * 4).map(|_| Padded::default()).collect() }
    }

    /// Chains all nodes behind the head.
    fn refill(&self, data: &Data) {
        let last = self.nodes.len() - 1;
        for (index, node) in self.nodes.iter().enumerate() {
            node.store(if index == last { 0 } else { index as u64 + 1 }, Relaxed);
        }
        data.word.store(1, Relaxed);
    }

    /// Walks the list: how many nodes, each of them once.
    fn walk(&self, data: &Data) -> Result<u64, Lost> {
        let mut seen = vec![false; self.nodes.len()];
        let mut at = data.word.load(Relaxed);
        let mut listed = 0;
        while at != 0 {
            let damaged = |what: &str| (1, format!("the free list {what} node {at}: the lock does not exclude"));
            let mark = seen.get_mut(at as usize).ok_or_else(|| damaged("points to the missing"))?;
            if std::mem::replace(mark, true) {
                return Err(damaged("has twice the"));
            }
            listed += 1;
            at = self.nodes[at as usize].load(Relaxed);
        }
        Ok(listed)
    }
}

impl Section for FreeList {
    #[inline(always)]
    fn run(&self, data: &Data, me: &mut Own, work: impl FnOnce()) {
        let head = data.word.load(Relaxed);
        if me.node == 0 {
            // With fewer nodes out than there are, an empty list is a lost node; the check at the end tells how many.
            let next = self.nodes[head as usize].load(Relaxed);
            work();
            data.word.store(next, Relaxed);
            me.node = head;
            me.violations += u64::from(head == 0);
        } else {
            self.nodes[me.node as usize].store(head, Relaxed);
            work();
            data.word.store(me.node, Relaxed);
            me.node = 0;
        }
    }
}

impl Workable for FreeList {
    fn any(&self) -> AnySection<'_> {
        AnySection::FreeList(self)
    }

    fn check(&self, data: &Data, done: &[Tally]) -> Result<(), Lost> {
        let held: u64 = done.iter().map(|tally| tally.sum).sum();
        equal("nodes of the free list", self.walk(data)? + held, self.nodes.len() as u64 - 1)
    }

    fn reset(&self, data: &Data) {
        self.refill(data);
    }
}

/// A counter whose section now and then gives up the CPU in the middle: an intruder comes in even on one CPU.
struct Probe;

impl Section for Probe {
    fn run(&self, data: &Data, _: &mut Own, work: impl FnOnce()) {
        const SELDOM: u64 = 16;
        let count = data.word.load(Relaxed);
        work();
        if count.is_multiple_of(SELDOM) {
            std::thread::yield_now();
        }
        data.word.store(count.wrapping_add(1), Relaxed);
    }
}

/// Any section: loops whose work outweighs a predicted branch are compiled once per lock, for all sections.
#[derive(Clone, Copy)]
enum AnySection<'a> {
    Empty,
    Counter,
    ThreadId,
    FreeList(&'a FreeList),
    Probe,
}

impl Section for AnySection<'_> {
    #[inline(always)]
    fn run(&self, data: &Data, me: &mut Own, work: impl FnOnce()) {
        match self {
            AnySection::Empty => Empty.run(data, me, work),
            AnySection::Counter => Counter.run(data, me, work),
            AnySection::ThreadId => ThreadId.run(data, me, work),
            AnySection::FreeList(list) => list.run(data, me, work),
            AnySection::Probe => Probe.run(data, me, work),
        }
    }
}

/// The loops around one lock, or around several that are taken in order.
struct Loops<L> {
    /// The first is taken first; the data lies with it.
    locks: Vec<Placed<L>>,
    hold: Draw,
    gap: Draw,
    /// What the cell asks for beyond the plain loop.
    general: General,
    /// It asks for nothing.
    plain: bool,
    /// The lock is tried, and other work done while it is taken.
    tries: bool,
}

/// A workload: the loops, and a section in them.
struct Around<L, S> {
    loops: Loops<L>,
    section: S,
    /// The data's word at the start of a phase.
    first: u64,
    /// Threads whose check is not done.
    probing: AtomicU32,
    /// What the measured phase lost.
    lost_updates: AtomicU64,
}

/// What the plain loop does not have.
struct General {
    depth: u32,
    pause: Pause,
    gate: Option<PerAcquisition>,
    /// How the priority is raised inside the section.
    boost: Boost,
    /// Nice value outside it.
    nice: i32,
    neighbour: bool,
}

/// The workload of the cell.
pub fn build<'a, L: BenchLock + 'a>(context: &Context<'_>) -> Result<Box<dyn Task + 'a>, Failure> {
    let loops = Loops::<L>::new(context)?;
    let threads = context.spec.threads;
    Ok(match context.spec.workload {
        Workload::Counter => Around::boxed(loops, Counter, threads),
        Workload::ThreadId => Around::boxed(loops, ThreadId, threads),
        Workload::FreeList => Around::boxed(loops, FreeList::new(threads), threads),
        _ => Around::boxed(loops, Empty, threads),
    })
}

impl<L: BenchLock> Loops<L> {
    fn new(context: &Context<'_>) -> Result<Self, Failure> {
        let spec = context.spec;
        let general = General {
            depth: spec.depth,
            pause: spec.pause,
            // More active threads than threads are all of them, as in 1998; the gate's own cost stays visible.
            gate: spec
                .active
                .filter(|_| spec.gate == GateKind::Acquire)
                .and_then(|active| PerAcquisition::new(active.min(spec.threads))),
            boost: spec.boost,
            nice: context.nice,
            neighbour: spec.share == Share::Neighbour,
        };
        Ok(Loops {
            locks: (0..spec.nest).map(|_| context.place()).collect::<Result<_, _>>()?,
            hold: context.hold,
            gap: context.gap,
            // Depth 0 is the lock `none`, taken once: the same plain loop.
            plain: spec.depth <= 1
                && spec.nest == 1
                && !(spec.pause.holding || spec.pause.released || spec.latency)
                && !(general.gate.is_some() || general.boost != Boost::Off || general.neighbour),
            tries: spec.take == Take::Try,
            general,
        })
    }

    /// Nothing but the lock, the section and, if there is any, the work.
    #[inline(never)]
    fn plain<S: Section, const WORK: bool>(&self, section: &S, own: &mut Own, me: &mut Member<'_>) {
        let (lock, data) = (self.locks[0].lock(), self.locks[0].data());
        let (hold, gap, limit) = (self.hold, self.gap, me.limit);
        let (mut ops, mut hold_steps, mut gap_steps) = (0, 0, 0);
        while ops < limit && !me.stopped() {
            if WORK {
                let (inside, outside) = (hold.steps(&mut me.random), gap.steps(&mut me.random));
                lock.with(|| section.run(data, own, || work(inside)));
                work(outside);
                hold_steps += inside;
                gap_steps += outside;
            } else {
                lock.with(|| section.run(data, own, || ()));
            }
            ops += 1;
        }
        me.tally = Tally { ops, acquisitions: ops, hold_steps, gap_steps, ..Tally::default() };
    }

    /// A thread that finds the lock taken does the work outside and tries again: what it did in between counts as work
    /// outside of the operation that follows.
    #[inline(never)]
    fn trying(&self, section: AnySection<'_>, own: &mut Own, me: &mut Member<'_>) {
        let (lock, data) = (self.locks[0].lock(), self.locks[0].data());
        let mut tally = Tally::default();
        while tally.ops < me.limit && !me.stopped() {
            let (inside, outside) = (self.hold.steps(&mut me.random), self.gap.steps(&mut me.random));
            if lock.try_with(|| section.run(data, own, || work(inside))).is_some() {
                tally.ops += 1;
                tally.hold_steps += inside;
            }
            work(outside);
            tally.gap_steps += outside;
        }
        tally.acquisitions = tally.ops;
        me.tally = tally;
    }

    /// Everything that a cell can ask for.
    #[inline(never)]
    fn general(&self, section: AnySection<'_>, own: &mut Own, me: &mut Member<'_>) {
        let (with, data) = (&self.general, self.locks[0].data());
        let mut tally = Tally::default();
        let per_op = u64::from(with.depth) * self.locks.len() as u64;
        let mut timing = me.timing.take();
        let usual = (with.boost == Boost::Realtime).then(|| sys::Priority::now().ok()).flatten();
        while tally.ops < me.limit && !me.stopped() {
            let (inside, outside) = (self.hold.steps(&mut me.random), self.gap.steps(&mut me.random));
            let asked = timing.as_mut().is_some_and(Timing::due).then(Instant::now);
            let place = with.gate.as_ref().map(PerAcquisition::enter);
            let had = nested(&self.locks, with.depth, with.depth, || {
                let had = asked.map(|_| Instant::now());
                raise(with, usual.as_ref());
                section.run(data, own, || {
                    work(inside);
                    if with.pause.holding {
                        pause(with.pause.sleep_ns);
                    }
                });
                restore(with, usual.as_ref());
                had
            });
            if let (Some(gate), Some(place)) = (&with.gate, place) {
                gate.leave(place);
            }
            if let (Some(timing), Some(asked), Some(had)) = (&mut timing, asked, had) {
                timing.record(asked, had);
            }
            if with.pause.released {
                pause(with.pause.sleep_ns);
            }
            if with.neighbour {
                data.neighbour.store(tally.ops, Relaxed);
            }
            work(outside);
            tally.ops += 1;
            tally.acquisitions += per_op;
            tally.hold_steps += inside;
            tally.gap_steps += outside;
        }
        (me.tally, me.timing) = (tally, timing);
    }
}

impl<'a, L: BenchLock + 'a, S: Workable + 'a> Around<L, S> {
    fn boxed(loops: Loops<L>, section: S, threads: u32) -> Box<dyn Task + 'a> {
        let data = loops.locks[0].data();
        section.reset(data);
        let first = data.word.load(Relaxed);
        let probing = AtomicU32::new(threads);
        Box::new(Around { loops, section, first, probing, lost_updates: AtomicU64::new(0) })
    }
}

impl<L: BenchLock, S: Workable> Around<L, S> {
    /// Goes on until every thread has done its operations: one that ran before the others woke would prove nothing.
    fn probe(&self, own: &mut Own, me: &mut Member<'_>) {
        let mut done = Tally::default();
        loop {
            self.loops.general(AnySection::Probe, own, me);
            done.ops += me.tally.ops;
            done.acquisitions += me.tally.acquisitions;
            if done.ops == me.limit {
                self.probing.fetch_sub(1, Relaxed);
            }
            if self.probing.load(Relaxed) == 0 || me.stopped() {
                break;
            }
        }
        me.tally = done;
    }
}

impl<L: BenchLock, S: Workable> Task for Around<L, S> {
    fn run(&self, me: &mut Member<'_>) {
        let mut own = Own { id: me.index as u64 + 1, ..Own::default() };
        let loops = &self.loops;
        if me.phase == PhaseKind::Check {
            self.probe(&mut own, me);
        } else if L::WRAPPED || !loops.plain {
            // A wrapped lock is always taken more than once: the plain loop is not compiled for it.
            loops.general(self.section.any(), &mut own, me);
        } else if loops.tries {
            loops.trying(self.section.any(), &mut own, me);
        } else if loops.hold == Draw::None && loops.gap == Draw::None {
            loops.plain::<S, false>(&self.section, &mut own, me);
        } else {
            loops.plain::<AnySection<'_>, true>(&self.section.any(), &mut own, me);
        }
        me.tally.violations = own.violations;
        me.tally.sum = u64::from(own.node != 0);
        if !L::EXCLUDES {
            me.tally.acquisitions = 0;
        }
    }

    fn settle(&self, phase: &Phase<'_>) -> Result<(), String> {
        let data = self.loops.locks[0].data();
        let checked = if phase.kind == PhaseKind::Check {
            let ops = phase.tallies.iter().map(|tally| tally.ops).sum();
            equal("counter of the check", data.word.load(Relaxed).wrapping_sub(self.first), ops)
        } else {
            self.section.check(data, phase.tallies)
        };
        self.section.reset(data);
        if phase.kind == PhaseKind::Measured {
            self.lost_updates.store(checked.as_ref().err().map_or(0, |(lost, _)| *lost), Relaxed);
        }
        match checked {
            Err((_, why)) if L::EXCLUDES => Err(why),
            _ => Ok(()),
        }
    }

    fn extra(&self, _: &Raw) -> Vec<(String, f64)> {
        lost_extra::<L>(&self.lost_updates)
    }
}

/// Takes each lock `depth` times, in order, around the section; `left` says how often the first is still to be taken.
fn nested<L, R, F>(locks: &[Placed<L>], depth: u32, left: u32, section: F) -> R
where
    L: BenchLock,
    F: FnOnce() -> R,
{
    match locks {
        [first, ..] if left > 0 => first.lock().with(|| nested(locks, depth, left - 1, section)),
        [_, rest @ ..] if !rest.is_empty() => nested(rest, depth, depth, section),
        _ => section(),
    }
}

fn pause(sleep_ns: Option<u64>) {
    match sleep_ns {
        Some(ns) => std::thread::sleep(Duration::from_nanos(ns)),
        None => std::thread::yield_now(),
    }
}

/// Raises the calling thread's priority. The right to do so was tried when the thread was set up.
fn raise(with: &General, usual: Option<&sys::Priority>) {
    let _ = match (with.boost, usual) {
        (Boost::Share, _) => sys::set_thread_nice(drive::raised(with.nice)),
        (Boost::Realtime, Some(usual)) => usual.raise(),
        _ => Ok(()),
    };
}

/// Takes that back.
fn restore(with: &General, usual: Option<&sys::Priority>) {
    let _ = match (with.boost, usual) {
        (Boost::Share, _) => sys::set_thread_nice(with.nice),
        (Boost::Realtime, Some(usual)) => usual.restore(),
        _ => Ok(()),
    };
}
