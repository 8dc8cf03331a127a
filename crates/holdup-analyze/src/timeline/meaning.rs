//! What each wait is for: a lock, work, time, a device; by what threads do there, by names, by the kernel's stacks.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::behaviour::{self, Behaviour};
use super::chains::Meaning;
use super::doing::{Doing, NONE};
use super::lock::Place;
use super::lookup::Lookup;
use super::waiting::{FILE_LOCK, SEMAPHORE};
use super::{blocked, golang};
use crate::facts::{Primitive, Reason, Site};
use crate::names::{Frame, Role};

/// Fewer waits on words of the threads' own are no queue.
const OWN_WORD_WAITS: usize = 4;

/// What waits mean.
pub(super) struct Meanings {
    /// Per wait site: what it waits for, and whether the futex is a word of the waiting thread.
    pub primitives: Vec<(Primitive, bool)>,
    /// Per wait site: whether it is how a runtime sleeps, on a futex that nobody wakes.
    pub sleeps: Vec<bool>,
    /// Where goroutines take the mutex that they wait for.
    pub go_sites: Vec<Site>,
    /// Per block.
    pub reasons: Vec<Reason>,
    /// Per wait site: index in the list of locks, [`NONE`] if it is not listed.
    pub locks: Vec<u32>,
}

impl Meanings {
    pub(super) fn of(lookup: &mut Lookup) -> Meanings {
        let engine = lookup.engine;
        let reasons = engine.blocks.iter().map(|block| blocked::reason(lookup, *block)).collect();
        let sleeps = vec![false; engine.wait_sites.len()];
        let mut judge = Judge { lookup, primitives: Vec::new(), sleeps, go_sites: Vec::new() };
        judge.judge_wait_sites();
        let Judge { primitives, sleeps, go_sites, .. } = judge;
        Meanings { primitives, sleeps, go_sites, reasons, locks: vec![NONE; engine.wait_sites.len()] }
    }

    pub(super) fn futex_reason(&self, wait_site: u32) -> Reason {
        if self.sleeps[wait_site as usize] {
            Reason::Sleep
        } else {
            Reason::Futex(self.primitives[wait_site as usize].0)
        }
    }
}

impl Meaning for Meanings {
    fn reason(&self, doing: Doing) -> Reason {
        match doing {
            Doing::Futex(wait_site) => self.futex_reason(wait_site),
            Doing::Block(block) => self.reasons[block as usize],
            Doing::Plain(plain) => plain.reason(),
            Doing::Running(_) | Doing::Ready => Reason::Unknown,
        }
    }

    fn lock(&self, doing: Doing) -> u32 {
        match doing {
            Doing::Futex(wait_site) => self.locks[wait_site as usize],
            _ => NONE,
        }
    }
}

struct Judge<'a, 'b> {
    lookup: &'a mut Lookup<'b>,
    primitives: Vec<(Primitive, bool)>,
    sleeps: Vec<bool>,
    go_sites: Vec<Site>,
}

impl Judge<'_, '_> {
    fn judge_wait_sites(&mut self) {
        let engine = self.lookup.engine;
        for wait_site in &engine.wait_sites {
            let call_path = self.lookup.call_path(wait_site.place);
            let primitive = match engine.locks[wait_site.lock as usize].addr {
                FILE_LOCK => Primitive::FileLock,
                SEMAPHORE => Primitive::Semaphore,
                _ => self.lookup.naming.primitive(wait_site.op, &call_path),
            };
            let own_word = wait_site.place_group != NONE
                && (primitive == Primitive::ParkingLotMutex
                    || (primitive.is_contention() && call_path.iter().any(waits_on_own_word)));
            self.primitives.push((primitive, own_word));
        }
        self.judge_by_behaviour();
        // A stack that could not be named waits for what the others wait for at the same address.
        let mut best: FxHashMap<u32, (u64, Primitive)> = FxHashMap::default();
        for (wait_site, (primitive, _)) in engine.wait_sites.iter().zip(&self.primitives) {
            let weight = wait_site.waiters.iter().map(|(_, time)| time.ns + 1).sum::<u64>() + wait_site.eagain;
            let entry = best.entry(wait_site.lock).or_default();
            if *primitive != Primitive::Unknown && weight >= entry.0 {
                *entry = (weight, *primitive);
            }
        }
        for (wait_site, known) in engine.wait_sites.iter().zip(&mut self.primitives) {
            if known.0 == Primitive::Unknown {
                known.0 = best.get(&wait_site.lock).map_or(Primitive::Unknown, |(_, primitive)| *primitive);
            }
        }
    }

    /// What threads do with a futex says more than what its functions are called.
    fn judge_by_behaviour(&mut self) {
        let engine = self.lookup.engine;
        let told = |primitive: Primitive| {
            use Primitive::*;
            matches!(primitive, Semaphore | Condvar | Park | OtherLock | GoRuntime | Unknown)
        };
        let primitives = std::mem::take(&mut self.primitives);
        let object = |wait_site: u32| {
            let (primitive, own_word) = primitives[wait_site as usize];
            let at = &engine.wait_sites[wait_site as usize];
            let lock = &engine.locks[at.lock as usize];
            // A condition variable of glibc has two words, side by side.
            let addr = if primitive == Primitive::Condvar { lock.addr & !7 } else { lock.addr };
            (told(primitive) && !own_word).then_some((lock.space, addr, primitive))
        };
        let objects = behaviour::gather(engine, object);
        let roles: FxHashMap<_, _> = objects.iter().map(|(key, waits)| (*key, behaviour::of(engine, waits))).collect();
        let mut judged = primitives.clone();
        for (wait_site, known) in (0..).zip(&mut judged) {
            let Some(role) = object(wait_site).and_then(|key| roles.get(&key)) else { continue };
            let call_path = self.lookup.call_path(engine.wait_sites[wait_site as usize].place);
            known.0 = by_behaviour(known.0, *role, &call_path);
            let sleeps = call_path.iter().any(is_sleep)
                || (behaviour::is_own_word(engine, wait_site) && is_of_interpreter(&call_path));
            self.sleeps[wait_site as usize] = *role == Behaviour::Timer && sleeps;
        }
        self.primitives = judged;
        self.judge_own_words();
        self.judge_go();
    }

    /// Threads that each wait on a word of their own may stand in one queue for all that: those of parking_lot, of
    /// Java. Then they wait at the same place, and wake each other.
    fn judge_own_words(&mut self) {
        let mut keys = self.own_words();
        self.join_interpreters(&mut keys);
        self.judge_queues(&keys);
    }

    /// For each wait site where threads wait on words of their own and that no lock is known for: what tells queues
    /// apart, and what kind of a lock it would be.
    fn own_words(&mut self) -> Vec<Option<(behaviour::Callers, Primitive)>> {
        use Primitive::{Condvar, Park, Unknown};
        let engine = self.lookup.engine;
        let mut keys = Vec::new();
        for (wait_site, (primitive, own_word)) in (0..).zip(&self.primitives) {
            let may = !own_word && matches!(primitive, Park | Unknown | Condvar);
            let place = engine.wait_sites[wait_site as usize].place;
            let call_path = if may && behaviour::is_own_word(engine, wait_site) {
                self.lookup.call_path(place)
            } else {
                Arc::from([])
            };
            let keeps = !call_path.is_empty() && !call_path.iter().any(is_of_executor);
            let lock = if is_of_interpreter(&call_path) { Primitive::InterpreterLock } else { Primitive::OtherLock };
            keys.push(keeps.then(|| (behaviour::callers(place, &call_path), lock)));
        }
        keys
    }

    fn judge_queues(&mut self, keys: &[Option<(behaviour::Callers, Primitive)>]) {
        let engine = self.lookup.engine;
        let queues = behaviour::gather(engine, |wait_site| keys[wait_site as usize].map(|(key, _)| key));
        let locks: Vec<behaviour::Callers> = queues
            .iter()
            .filter(|(_, waits)| {
                waits.len() >= OWN_WORD_WAITS
                    && behaviour::is_passed_on(waits)
                    && behaviour::of(engine, waits) == Behaviour::Lock
            })
            .map(|(key, _)| *key)
            .collect();
        for (key, known) in keys.iter().zip(&mut self.primitives) {
            if let Some((_, lock)) = key.filter(|(key, _)| locks.contains(key)) {
                *known = (lock, true);
            }
        }
    }

    /// A thread of an interpreter waits for its lock on one word, wherever it comes from and whether or not for a
    /// limited time: places that share a word are places of one queue.
    fn join_interpreters(&self, keys: &mut [Option<(behaviour::Callers, Primitive)>]) {
        let mut of_word: FxHashMap<u32, behaviour::Callers> = FxHashMap::default();
        let mut same: FxHashMap<behaviour::Callers, behaviour::Callers> = FxHashMap::default();
        fn first(
            same: &FxHashMap<behaviour::Callers, behaviour::Callers>,
            mut key: behaviour::Callers,
        ) -> behaviour::Callers {
            while let Some(other) = same.get(&key) {
                key = *other;
            }
            key
        }
        let of_interpreter =
            |key: &Option<(behaviour::Callers, Primitive)>| key.filter(|(_, lock)| *lock == Primitive::InterpreterLock);
        for (wait_site, key) in self.lookup.engine.wait_sites.iter().zip(keys.iter()) {
            let Some((key, _)) = of_interpreter(key) else { continue };
            let own = first(&same, key);
            let word = first(&same, *of_word.entry(wait_site.lock).or_insert(own));
            if own != word {
                same.insert(own, word);
            }
        }
        for key in keys.iter_mut() {
            if let Some((one, lock)) = of_interpreter(key) {
                *key = Some((first(&same, one), lock));
            }
        }
    }

    /// Threads of Go's scheduler that park until a mutex is released wait for that mutex.
    fn judge_go(&mut self) {
        let engine = self.lookup.engine;
        let mut idle = Vec::new();
        for (index, wait_site) in (0..).zip(&engine.wait_sites) {
            if wait_site.place_group != NONE && golang::is_out_of_work(&self.lookup.call_path(wait_site.place)) {
                idle.push(index);
            }
        }
        let woken = |judge: &mut Judge, wait_site: u32| {
            let group = &engine.groups[engine.wait_sites[wait_site as usize].group as usize];
            group.wakes as usize >= OWN_WORD_WAITS
                && golang::is_woken_by_semaphore(group, |place| judge.lookup.call_path(place))
        };
        idle.retain(|wait_site| woken(self, *wait_site));
        if idle.is_empty() {
            return;
        }
        let mut places: Vec<(Place, u64)> = engine.samples.iter().map(|((place, _), hits)| (*place, *hits)).collect();
        places.sort_unstable();
        self.go_sites =
            golang::mutex_sites(places.into_iter().map(|(place, hits)| (self.lookup.call_path(place), hits)));
        for wait_site in idle.into_iter().filter(|_| !self.go_sites.is_empty()) {
            self.primitives[wait_site as usize] = (Primitive::OtherLock, true);
        }
    }
}

/// What a futex is, if threads do this with it. Where a name is certain, it stays.
fn by_behaviour(primitive: Primitive, role: Behaviour, call_path: &[Frame]) -> Primitive {
    use Primitive::*;
    match (primitive, role) {
        (Condvar | OtherLock | Unknown, Behaviour::Lock) if is_of_interpreter(call_path) => InterpreterLock,
        (Unknown | OtherLock | GoRuntime | Condvar | Park, Behaviour::Lock) => OtherLock,
        (Semaphore, Behaviour::Lock) => SemaphoreLock,
        (OtherLock, Behaviour::Queue | Behaviour::Turn | Behaviour::Timer) => Unknown,
        (OtherLock | Unknown | Condvar | Semaphore, Behaviour::Barrier) => Barrier,
        (OtherLock | Unknown, Behaviour::Join) => Join,
        (primitive, _) => primitive,
    }
}

/// Whether threads wait here for tasks: those of an executor park one after the other and wake each other on, without
/// any lock.
fn is_of_executor(frame: &Frame) -> bool {
    const STARTS: &[&str] =
        &["runtime.", "tokio::", "rayon_core::", "crossbeam_", "async_executor::", "futures_executor::"];
    frame.function.as_deref().is_some_and(|name| STARTS.iter().any(|start| name.starts_with(start)))
}

/// Whether a call path leads through the part of an interpreter that takes its lock.
fn is_of_interpreter(call_path: &[Frame]) -> bool {
    const PARTS: &[&str] =
        &["take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread", "_PyEval_", "gvl_", "thread_sched_"];
    const PROGRAMS: &[&str] = &["python", "libpython", "ruby", "libruby"];
    call_path.iter().any(|frame| {
        let file = frame.module.rsplit('/').next().unwrap_or_default();
        let named = frame.function.as_deref().is_some_and(|name| PARTS.iter().any(|part| name.contains(part)));
        named || PROGRAMS.iter().any(|program| file.starts_with(program))
    })
}

/// Whether this is a function of a lock whose threads each wait on a word of their own: parking_lot's, Java's monitors,
/// Ruby's mutexes.
fn waits_on_own_word(frame: &Frame) -> bool {
    const PARTS: &[&str] = &["parking_lot", "ObjectMonitor::enter", "rb_mutex_"];
    frame.function.as_deref().is_some_and(|function| PARTS.iter().any(|part| function.contains(part)))
}

/// Whether this is a function by which a runtime lets a thread sleep.
fn is_sleep(frame: &Frame) -> bool {
    frame.role != Role::Kernel && frame.function.as_deref().is_some_and(crate::names::is_sleep)
}
