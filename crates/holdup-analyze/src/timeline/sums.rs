//! From sums to facts: asks for names, decides what each futex is, and puts together what belongs together.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_trace::{Ending, StackId, Tid};
use rustc_hash::FxHashMap;

use super::behaviour::{self, Behaviour};
use super::chains::{self, Chains};
use super::doing::{Doing, NONE, Plain};
use super::engine::Engine;
use super::golang;
use super::holding::{self, Held};
use super::lock::{Block, Group, Place, keep_longest};
use super::naming::Naming;
use super::row::{Marks, SampleAt, State, StretchKind, Timeline, Wake};
use super::tally::Tally;
use super::thread::{State as ThreadState, Thread};
use crate::facts::{
    Account, Blame, Code, Facts, Holder, Hotspot, Leaf, LockFacts, LockName, OffTime, PairFacts, Path, PathPart,
    PathPiece, Primitive, ProcessFacts, Reason, Site, ThreadFacts,
};
use crate::names::{Frame, Role, SpaceId, caller};
use crate::{Histogram, Problem};

/// Places of one list that are named at all, by weight; the rest could not show up.
const NAMED_PLACES: usize = 256;
/// Sites of one list that are kept.
const SITES: usize = 16;
/// Addresses without any wait that are listed because of wasted wakes.
const WASTED_ONLY: usize = 16;
/// Rows of the blame that are told.
const NAMED_ROWS: usize = 4_000;
/// Fewer waits on words of the threads' own are no queue.
const OWN_WORD_WAITS: usize = 4;
/// Words of one object (the parts of a condition variable, say) are within so many bytes.
const OBJECT_BYTES: u64 = 16;

/// What the summing-up yields beside the facts.
pub(crate) struct Rest {
    pub problems: Vec<Problem>,
    pub timeline: Option<Timeline>,
}

/// What the engine kept for the timeline alone: large, and so moved, not copied.
struct Kept {
    marks: Vec<Marks>,
    wakes: Vec<Wake>,
    sampled: Vec<(u64, u32, Place)>,
}

/// Ends the recording and tells everything.
pub(crate) fn sum_up(mut engine: Engine, ending: Option<&Ending>, facts: &mut Facts, naming: &mut dyn Naming) -> Rest {
    facts.end_ns = engine.close(ending.map(|ending| ending.ended_ns));
    facts.start_ns = start_ns(&engine, facts);
    facts.ending = ending.cloned();
    let kept = Kept {
        marks: engine.threads.iter_mut().map(|thread| std::mem::take(&mut thread.marks)).collect(),
        wakes: std::mem::take(&mut engine.wakes),
        sampled: std::mem::take(&mut engine.sampled),
    };
    let mut sums = Sums::new(&engine, naming);
    sums.judge_wait_sites();
    sums.gather_units();
    facts.locks = sums.locks();
    facts.threads = sums.threads();
    facts.yield_sites = sums.sites(&engine.yields, |count| (*count, 0));
    facts.switch_sites = sums.switch_sites();
    sums.codes(facts);
    sums.chains(facts);
    facts.pairs = sums.pairs(&engine);
    let timeline = engine.keep.then(|| sums.timeline(kept));
    let mut problems = super::problems::all(&engine, facts);
    totals(&engine, facts);
    tell_locks_apart(facts);
    problems.extend(sums.naming.problems());
    Rest { problems, timeline }
}

fn start_ns(engine: &Engine, facts: &Facts) -> u64 {
    let first = engine.first.unwrap_or(facts.end_ns);
    let began = facts.header.began_ns;
    let start = if began > 0 && began < first { began } else { first };
    start.max(engine.from).min(facts.end_ns)
}

/// A thing that threads wait for, put together from the sums of its parts.
struct Unit {
    primitive: Primitive,
    space: SpaceId,
    /// `None` where the futex is not the lock.
    addr: Option<u64>,
    groups: Vec<u32>,
    wait_sites: Vec<u32>,
    locks: Vec<u32>,
    caller: Option<Frame>,
    /// Where it is waited for, if its waits do not tell.
    sites: Vec<Site>,
}

struct Sums<'a> {
    engine: &'a Engine,
    naming: &'a mut dyn Naming,
    /// Per wait site: what it waits for, and whether the futex is a word of the waiting thread.
    primitives: Vec<(Primitive, bool)>,
    /// Per wait site: whether it is how a runtime sleeps, on a futex that nobody wakes.
    sleeps: Vec<bool>,
    /// Where goroutines take the mutex that they wait for.
    go_sites: Vec<Site>,
    reasons: Vec<Reason>,
    units: Vec<Unit>,
    /// Per wait site: index in the list of locks.
    lock_of_wait_site: Vec<u32>,
}

impl<'a> Sums<'a> {
    fn new(engine: &'a Engine, naming: &'a mut dyn Naming) -> Sums<'a> {
        let lock_of_wait_site = vec![NONE; engine.wait_sites.len()];
        let sleeps = vec![false; engine.wait_sites.len()];
        let (primitives, reasons, units) = (Vec::new(), Vec::new(), Vec::new());
        let go_sites = Vec::new();
        let mut sums = Sums { engine, naming, primitives, sleeps, go_sites, reasons, units, lock_of_wait_site };
        sums.reasons = engine.blocks.iter().map(|block| sums.block_reason(*block)).collect();
        sums
    }

    fn call_path(&mut self, place: Place) -> Arc<[Frame]> {
        match place.stack {
            NONE => Arc::from([]),
            stack => self.naming.call_path(place.space, StackId(stack)),
        }
    }

    fn tid(&self, ti: u32) -> Tid {
        self.engine.threads.get(ti as usize).map_or(Tid(0), |thread| thread.tid)
    }

    /// What the kernel part of a stack says about why the thread blocked, or what a look from outside found.
    fn block_reason(&mut self, block: Block) -> Reason {
        let call_path = self.call_path(block.place);
        let in_kernel = call_path.iter().filter(|frame| matches!(frame.role, Role::Kernel | Role::Scheduler));
        let functions: Vec<&str> = in_kernel.filter_map(|frame| frame.function.as_deref()).collect();
        let known = KERNEL_REASONS
            .iter()
            .find(|(_, names)| functions.iter().any(|function| names.iter().any(|name| function.contains(name))));
        let found = self.engine.found.get(block.found as usize).map(|(reason, _)| *reason);
        // Without the kernel's part of the stack, whoever cannot be interrupted waits for a device, as far as one can
        // tell.
        let nameless = !call_path.iter().any(|frame| frame.role == Role::Kernel && frame.function.is_some());
        let on_file = nameless || functions.iter().any(|function| FILES.iter().any(|name| function.contains(name)));
        let unknown = found.unwrap_or(if block.deep && on_file { Reason::Io } else { Reason::OtherCall });
        known.map_or(unknown, |(reason, _)| *reason)
    }

    // What each futex is.

    fn judge_wait_sites(&mut self) {
        let engine = self.engine;
        for wait_site in &engine.wait_sites {
            let call_path = self.call_path(wait_site.place);
            let primitive = self.naming.primitive(wait_site.op, &call_path);
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
        let engine = self.engine;
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
            let call_path = self.call_path(engine.wait_sites[wait_site as usize].place);
            known.0 = by_behaviour(known.0, *role, &call_path);
            self.sleeps[wait_site as usize] = *role == Behaviour::Timer && call_path.iter().any(is_sleep);
        }
        self.primitives = judged;
        self.judge_own_words();
        self.judge_go();
    }

    /// Threads that each wait on a word of their own may stand in one queue for all that: those of parking_lot, of
    /// Java. Then they wait at the same place, and wake each other.
    fn judge_own_words(&mut self) {
        use Primitive::{Condvar, Park, Unknown};
        let engine = self.engine;
        let mut keys = Vec::new();
        for (wait_site, (primitive, own_word)) in (0..).zip(&self.primitives.clone()) {
            let may = !own_word && matches!(primitive, Park | Unknown | Condvar);
            let place = engine.wait_sites[wait_site as usize].place;
            let call_path =
                if may && behaviour::is_own_word(engine, wait_site) { self.call_path(place) } else { Arc::from([]) };
            let keeps = !call_path.is_empty() && !call_path.iter().any(is_of_executor);
            let lock = if is_of_interpreter(&call_path) { Primitive::InterpreterLock } else { Primitive::OtherLock };
            keys.push(keeps.then(|| (behaviour::callers(place, &call_path), lock)));
        }
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

    /// Threads of Go's scheduler that park until a mutex is released wait for that mutex.
    fn judge_go(&mut self) {
        let engine = self.engine;
        let mut idle = Vec::new();
        for (index, wait_site) in (0..).zip(&engine.wait_sites) {
            if wait_site.place_group != NONE && golang::is_out_of_work(&self.call_path(wait_site.place)) {
                idle.push(index);
            }
        }
        let woken = |sums: &mut Sums, wait_site: u32| {
            let group = &engine.groups[engine.wait_sites[wait_site as usize].group as usize];
            group.wakes as usize >= OWN_WORD_WAITS
                && golang::is_woken_by_semaphore(group, |place| sums.call_path(place))
        };
        idle.retain(|wait_site| woken(self, *wait_site));
        if idle.is_empty() {
            return;
        }
        let mut places: Vec<(Place, u64)> = engine.samples.iter().map(|((place, _), hits)| (*place, *hits)).collect();
        places.sort_unstable();
        self.go_sites = golang::mutex_sites(places.into_iter().map(|(place, hits)| (self.call_path(place), hits)));
        for wait_site in idle.into_iter().filter(|_| !self.go_sites.is_empty()) {
            self.primitives[wait_site as usize] = (Primitive::OtherLock, true);
        }
    }

    /// The primitive of a group: that of its heaviest wait site.
    fn group_primitives(&self) -> Vec<(Primitive, bool, u64)> {
        let mut all = vec![(Primitive::Unknown, false, 0); self.engine.groups.len()];
        for (wait_site, (primitive, own_word)) in self.engine.wait_sites.iter().zip(&self.primitives) {
            let weight = wait_site.waiters.iter().map(|(_, time)| time.ns + 1).sum::<u64>() + wait_site.eagain;
            let group = &mut all[wait_site.group as usize];
            if weight > group.2 {
                *group = (*primitive, *own_word, weight);
            }
        }
        all
    }

    fn gather_units(&mut self) {
        let primitives = self.group_primitives();
        let mut wait_sites_of: Vec<Vec<u32>> = vec![Vec::new(); self.engine.groups.len()];
        for (index, wait_site) in (0..).zip(&self.engine.wait_sites) {
            wait_sites_of[wait_site.group as usize].push(index);
        }
        let mut by_address: Vec<(SpaceId, Primitive, u64, u32)> = Vec::new();
        let mut by_place: Vec<u32> = Vec::new();
        for (index, group) in (0..).zip(&self.engine.groups) {
            let (primitive, own_word, _) = primitives[index as usize];
            let idle = group.wait_ns.count() + group.eagain + group.wakes == 0;
            if group.by_place || idle {
                continue;
            }
            if own_word {
                by_place.extend(&wait_sites_of[index as usize]);
                continue;
            }
            let lock = &self.engine.locks[group.lock as usize];
            by_address.push((lock.space, primitive, lock.addr, index));
        }
        by_address.sort_unstable();
        for (space, primitive, addr, group) in by_address {
            let last = self.units.last_mut();
            let same = last.filter(|unit| {
                let from = unit.addr.unwrap_or(0);
                let near = addr == from || (has_parts(primitive) && addr.wrapping_sub(from) < OBJECT_BYTES);
                unit.space == space && unit.primitive == primitive && near
            });
            let unit = match same {
                Some(unit) => unit,
                None => {
                    self.units.push(Unit {
                        primitive,
                        space,
                        addr: Some(addr),
                        groups: Vec::new(),
                        wait_sites: Vec::new(),
                        locks: Vec::new(),
                        caller: None,
                        sites: Vec::new(),
                    });
                    let last = self.units.len() - 1;
                    &mut self.units[last]
                }
            };
            unit.groups.push(group);
            unit.wait_sites.extend(&wait_sites_of[group as usize]);
            let lock = self.engine.groups[group as usize].lock;
            if !unit.locks.contains(&lock) {
                unit.locks.push(lock);
            }
        }
        self.gather_places(&by_place);
        self.gather_wasted();
    }

    /// Waits on words of the threads' own belong together by where the lock is taken.
    fn gather_places(&mut self, wait_sites: &[u32]) {
        let mut units: Vec<Unit> = Vec::new();
        let mut known: FxHashMap<(SpaceId, Primitive, Arc<str>, String), usize> = FxHashMap::default();
        for index in wait_sites {
            let wait_site = &self.engine.wait_sites[*index as usize];
            let primitive = self.primitives[*index as usize].0;
            let call_path = self.call_path(wait_site.place);
            let of_go = golang::is_out_of_work(&call_path);
            let at = self.go_sites.first().filter(|_| of_go).map_or(&*call_path, |site| &site.call_path);
            let Some(caller) = caller(at) else { continue };
            let key = (wait_site.place.space, primitive, caller.module.clone(), function_name(caller));
            let at = *known.entry(key).or_insert_with(|| {
                units.push(Unit {
                    primitive,
                    space: wait_site.place.space,
                    addr: None,
                    groups: Vec::new(),
                    wait_sites: Vec::new(),
                    locks: Vec::new(),
                    caller: Some(caller.clone()),
                    sites: if of_go { self.go_sites.clone() } else { Vec::new() },
                });
                units.len() - 1
            });
            let unit = &mut units[at];
            unit.wait_sites.push(*index);
            if wait_site.place_group != NONE && !unit.groups.contains(&wait_site.place_group) {
                unit.groups.push(wait_site.place_group);
            }
            if !unit.locks.contains(&wait_site.lock) {
                unit.locks.push(wait_site.lock);
            }
        }
        self.units.extend(units);
    }

    /// Addresses on which nobody was ever seen to wait, and yet others were to be woken.
    fn gather_wasted(&mut self) {
        let locks = (0..).zip(&self.engine.locks).filter(|(_, lock)| lock.wasted > 0);
        let listed: Vec<u32> = self.units.iter().flat_map(|unit| unit.locks.iter().copied()).collect();
        let listed: rustc_hash::FxHashSet<u32> = listed.into_iter().collect();
        let mut rest: Vec<u32> = locks.map(|(index, _)| index).filter(|index| !listed.contains(index)).collect();
        rest.sort_by_key(|index| std::cmp::Reverse(self.engine.locks[*index as usize].wasted));
        for index in rest.into_iter().take(WASTED_ONLY) {
            let lock = &self.engine.locks[index as usize];
            self.units.push(Unit {
                primitive: Primitive::Unknown,
                space: lock.space,
                addr: Some(lock.addr),
                groups: Vec::new(),
                wait_sites: Vec::new(),
                locks: vec![index],
                caller: None,
                sites: Vec::new(),
            });
        }
    }

    // Locks.

    fn locks(&mut self) -> Vec<LockFacts> {
        let units = std::mem::take(&mut self.units);
        let mut by_place = vec![NONE; self.engine.wait_sites.len()];
        for (index, unit) in (0..).zip(&units).filter(|(_, unit)| unit.addr.is_none()) {
            unit.wait_sites.iter().for_each(|wait_site| by_place[*wait_site as usize] = index);
        }
        let mut held = holding::by_lock(self.engine, &by_place);
        let mut all: Vec<(LockFacts, Vec<u32>)> =
            (0..).zip(units).map(|(index, unit)| (self.lock(&unit, held.remove(&index)), unit.wait_sites)).collect();
        all.sort_by_cached_key(|(lock, _)| {
            std::cmp::Reverse((lock.wait_ns.sum_ns(), lock.waits, lock.eagain_waits + lock.wasted_wakes))
        });
        for (index, (_, wait_sites)) in (0..).zip(&all) {
            for wait_site in wait_sites {
                self.lock_of_wait_site[*wait_site as usize] = index;
            }
        }
        all.into_iter().map(|(lock, _)| lock).collect()
    }

    fn lock(&mut self, unit: &Unit, held: Option<Held>) -> LockFacts {
        let engine = self.engine;
        let mut lock = LockFacts { primitive: unit.primitive, addr: unit.addr, ..LockFacts::default() };
        let first = unit.locks.first().map(|lock| &engine.locks[*lock as usize]);
        let thread = first.and_then(|lock| engine.threads.get(lock.thread as usize));
        lock.pid = thread.map(|thread| thread.pid).unwrap_or_default();
        let mut parts = Parts::default();
        for group in &unit.groups {
            self.add_group(&engine.groups[*group as usize], &mut lock, &mut parts);
        }
        if let Some(held) = held {
            self.replace_holding(&held, &mut lock, &mut parts);
        }
        let mut waits: Tally<Place, OffTime> = Tally::default();
        let mut waiters: Tally<u32, OffTime> = Tally::default();
        for wait_site in unit.wait_sites.iter().map(|wait_site| &engine.wait_sites[*wait_site as usize]) {
            let eagain = wait_site.eagain;
            let site = waits.at(wait_site.place);
            site.count += eagain;
            for (thread, time) in wait_site.waiters.iter() {
                add(site, *time);
                add(waiters.at(*thread), *time);
            }
        }
        for address in unit.locks.iter().map(|lock| &engine.locks[*lock as usize]) {
            lock.wasted_wakes += address.wasted;
            lock.figures = lock.figures.or(address.figures);
            if address.words.0 > 0 {
                let (all, held, contended) = lock.words.unwrap_or_default();
                let words = address.words;
                lock.words = Some((all + words.0, held + words.1, contended + words.2));
            }
        }
        lock.contended_ns = lock.contended_ns.min(engine.span_ns());
        lock.waiters = self.threads_by_time(&waiters);
        lock.holders = self.holders(&parts.holders);
        lock.wait_sites = self.sites(&waits, |time| (time.count, time.ns));
        if !unit.sites.is_empty() {
            lock.wait_sites = shared_out(&unit.sites, lock.waits, lock.wait_ns.sum_ns());
        }
        lock.wake_sites = self.sites(&parts.wake_sites, |count| (*count, 0));
        lock.holder_doing.off_sites = self.sites(&parts.off_sites, |time| (time.count, time.ns));
        lock.longest = parts.longest.iter().map(|(ti, from, to)| (self.tid(*ti), *from, *to)).collect();
        lock.name = self.lock_name(unit, &lock);
        lock
    }

    fn add_group(&self, group: &Group, lock: &mut LockFacts, parts: &mut Parts) {
        lock.waits += group.wait_ns.count();
        lock.wait_ns.merge(&group.wait_ns);
        lock.eagain_waits += group.eagain;
        lock.timeouts += group.timeouts;
        lock.wakes += group.wakes;
        lock.max_waiters = lock.max_waiters.max(group.max_waiters);
        lock.handover_ns.merge(&group.handover_ns);
        lock.run_before_ns.merge(&group.run_before_ns);
        lock.contended_ns += group.contended_ns;
        lock.herds.calls += group.herds.calls;
        lock.herds.woken += group.herds.woken;
        lock.herds.back_to_sleep += group.herds.back_to_sleep;
        add(&mut lock.inversions, group.inversions);
        let doing = &mut lock.holder_doing;
        doing.running_ns += group.running_ns;
        doing.unknown_ns += group.unknown_ns;
        for (what, ns) in group.off.iter().filter(|(_, ns)| *ns > 0) {
            *doing.off.entry(self.reason(*what)).or_default() += ns;
        }
        group.holders.iter().for_each(|(thread, time)| add(parts.holders.at(*thread), *time));
        group.off_sites.iter().for_each(|(place, time)| add(parts.off_sites.at(*place), *time));
        group.wake_sites.iter().for_each(|(place, count)| *parts.wake_sites.at(*place) += count);
        group.longest.iter().for_each(|wait| keep_longest(&mut parts.longest, *wait));
    }

    /// Of a lock that is known by where it is taken, only the waits that belong to it tell what its holders did.
    fn replace_holding(&self, held: &Held, lock: &mut LockFacts, parts: &mut Parts) {
        let doing = &mut lock.holder_doing;
        (doing.running_ns, doing.unknown_ns) = (held.running_ns, held.unknown_ns);
        doing.off.clear();
        for (what, ns) in held.off.iter().filter(|(_, ns)| *ns > 0) {
            *doing.off.entry(self.reason(*what)).or_default() += ns;
        }
        parts.off_sites = Tally::default();
        held.off_sites.iter().for_each(|(place, time)| add(parts.off_sites.at(*place), *time));
    }

    fn reason(&self, doing: Doing) -> Reason {
        match doing {
            Doing::Futex(wait_site) => self.futex_reason(wait_site),
            Doing::Block(block) => self.reasons[block as usize],
            Doing::Plain(plain) => plain.reason(),
            Doing::Running(_) | Doing::Ready => Reason::Unknown,
        }
    }

    fn futex_reason(&self, wait_site: u32) -> Reason {
        if self.sleeps[wait_site as usize] {
            Reason::Sleep
        } else {
            Reason::Futex(self.primitives[wait_site as usize].0)
        }
    }

    fn threads_by_time(&self, times: &Tally<u32, OffTime>) -> Vec<(Tid, OffTime)> {
        let mut list: Vec<(Tid, OffTime)> = times.iter().map(|(ti, time)| (self.tid(*ti), *time)).collect();
        list.sort_by_key(|(tid, time)| (std::cmp::Reverse((time.ns, time.count)), *tid));
        list
    }

    fn holders(&self, times: &Tally<u32, OffTime>) -> Vec<Holder> {
        let list = self.threads_by_time(times).into_iter();
        list.map(|(tid, time)| Holder { tid, count: time.count, ns: time.ns }).collect()
    }

    fn lock_name(&mut self, unit: &Unit, lock: &LockFacts) -> LockName {
        if let Some(name) = unit.addr.and_then(|addr| self.naming.variable(unit.space, addr)) {
            return name;
        }
        let caller = unit.caller.clone().or_else(|| lock.wait_sites.first()?.caller().cloned());
        caller.map_or(LockName::Address, |frame| LockName::Site(function_name(&frame)))
    }

    // Places.

    /// Sites of places, heaviest first: by time, then by count. Places with the same call path are one.
    fn sites<V: Default>(&mut self, places: &Tally<Place, V>, weight: impl Fn(&V) -> (u64, u64)) -> Vec<Site> {
        let mut list: Vec<(Place, u64, u64)> = places
            .iter()
            .filter(|(place, _)| place.stack != NONE)
            .map(|(place, value)| {
                let (count, ns) = weight(value);
                (*place, count, ns)
            })
            .collect();
        list.sort_by_key(|(place, count, ns)| (std::cmp::Reverse((*ns, *count)), *place));
        list.truncate(NAMED_PLACES);
        let mut known: FxHashMap<Arc<[Frame]>, usize> = FxHashMap::default();
        let mut sites: Vec<Site> = Vec::new();
        for (place, count, ns) in list {
            let call_path = self.call_path(place);
            if call_path.is_empty() {
                continue;
            }
            let at = *known.entry(call_path.clone()).or_insert_with(|| {
                sites.push(Site { call_path: call_path.to_vec(), ..Site::default() });
                sites.len() - 1
            });
            sites[at].count += count;
            sites[at].ns += ns;
        }
        sites.sort_by_key(|site| std::cmp::Reverse((site.ns, site.count)));
        sites.truncate(SITES);
        sites
    }

    /// Where threads left the CPU because of each other, by how often.
    fn switch_sites(&mut self) -> Vec<Site> {
        let engine = self.engine;
        let mut places: Tally<Place, u64> = Tally::default();
        for wait_site in &engine.wait_sites {
            let waits: u64 = wait_site.waiters.iter().map(|(_, time)| time.count).sum();
            *places.at(wait_site.place) += waits;
        }
        engine.yields.iter().for_each(|(place, count)| *places.at(*place) += count);
        let mut sites = self.sites(&places, |count| (*count, 0));
        sites.retain(|site| site.count > 0);
        sites
    }

    // Threads.

    fn threads(&mut self) -> Vec<ThreadFacts> {
        let mut futex_times: Vec<Vec<(u32, OffTime)>> = vec![Vec::new(); self.engine.threads.len()];
        for (index, wait_site) in (0..).zip(&self.engine.wait_sites) {
            for (thread, time) in wait_site.waiters.iter() {
                futex_times[*thread as usize].push((index, *time));
            }
        }
        let all = self.engine.threads.iter().zip(&futex_times);
        all.filter(|(thread, _)| self.is_kept(thread)).map(|(thread, times)| self.thread(thread, times)).collect()
    }

    /// Threads that ended before the window are not told of.
    fn is_kept(&self, thread: &Thread) -> bool {
        let before = thread.state == ThreadState::Ended && thread.last <= self.engine.from;
        !(before && self.engine.from > 0)
    }

    fn thread(&self, thread: &Thread, futex_times: &[(u32, OffTime)]) -> ThreadFacts {
        let mut facts = ThreadFacts {
            tid: thread.tid,
            pid: thread.pid,
            name: thread.name.clone(),
            born_ns: thread.born,
            ended_ns: thread.last.max(thread.born),
            exited: thread.exited,
            on_cpu_ns: thread.on_cpu_ns,
            involuntary: thread.involuntary,
            voluntary: thread.voluntary,
            run_ns: thread.run_ns.clone(),
            run_delay_ns: thread.run_delay_ns.clone(),
            migrations: thread.migrations,
            wakes: thread.wakes,
            usage: thread.usage,
            ..ThreadFacts::default()
        };
        for (plain, time) in Plain::ALL.iter().zip(thread.plain).filter(|(_, time)| time.count > 0) {
            add(facts.off.entry(plain.reason()).or_default(), time);
        }
        for (block, time) in thread.blocks.iter() {
            add(facts.off.entry(self.reasons[*block as usize]).or_default(), *time);
        }
        for (wait_site, time) in futex_times {
            let reason = self.futex_reason(*wait_site);
            add(facts.off.entry(reason).or_default(), *time);
            let waits = matches!(reason, Reason::Futex(primitive) if primitive.is_contention());
            facts.lock_wait_ns += if waits { time.ns } else { 0 };
        }
        facts
    }

    // Code.

    fn codes(&mut self, facts: &mut Facts) {
        let kernel = facts.header.capabilities.kernel;
        let mut by_place: FxHashMap<Place, Vec<(u32, u64)>> = FxHashMap::default();
        for ((place, thread), hits) in &self.engine.samples {
            by_place.entry(*place).or_default().push((*thread, *hits));
        }
        let mut places: Vec<(Place, Vec<(u32, u64)>)> = by_place.into_iter().collect();
        places.sort_unstable();
        let mut counts = Codes::default();
        let mut samples: FxHashMap<Tid, (u64, u64)> = FxHashMap::default();
        let mut in_kernel = 0;
        let (mut kernel_sites, mut futex_sites) = (Callers::default(), Callers::default());
        let mut hot_sites: FxHashMap<Tid, Callers> = FxHashMap::default();
        for (place, threads) in places {
            let hits: u64 = threads.iter().map(|(_, hits)| hits).sum();
            let call_path = self.call_path(place);
            let top = call_path.first().map_or(Role::Program, |frame| frame.role);
            let kernel_hit = matches!(top, Role::Kernel | Role::Scheduler);
            for (thread, hits) in &threads {
                let counts = samples.entry(self.tid(*thread)).or_default();
                *(if kernel_hit { &mut counts.1 } else { &mut counts.0 }) += hits;
            }
            let own = without_kernel(&call_path);
            match kernel_hit {
                true => {
                    in_kernel += hits;
                    kernel_sites.add(own, hits);
                    if call_path.iter().any(is_futex_code) {
                        futex_sites.add(own, hits);
                    }
                }
                false => facts.totals.user_samples += hits,
            }
            for (thread, hits) in &threads {
                hot_sites.entry(self.tid(*thread)).or_default().add(own, *hits);
            }
            counts.add(&call_path, hits);
            if let Some(suspect) = self.naming.suspect(place.space, StackId(place.stack)) {
                let threads = threads.iter().map(|(ti, hits)| (self.tid(*ti), *hits));
                counts.suspect(suspect, hits, threads, &call_path);
            }
        }
        let period_ns = facts.header.sample_period_ns;
        facts.kernel_sites = kernel_sites.into_sites(period_ns);
        facts.futex_sites = futex_sites.into_sites(period_ns);
        facts.totals.kernel_samples = kernel.then_some(in_kernel);
        for thread in &mut facts.threads {
            let (user, kernel) = samples.get(&thread.tid).copied().unwrap_or_default();
            (thread.user_samples, thread.kernel_samples) = (user, kernel);
            let sites = hot_sites.remove(&thread.tid).unwrap_or_default();
            thread.hot_sites = sites.into_sites(period_ns);
        }
        counts.into_facts(facts);
    }

    // The account, the blame and the path.

    fn chains(&mut self, facts: &mut Facts) {
        let known = Known {
            primitives: &self.primitives,
            sleeps: &self.sleeps,
            reasons: &self.reasons,
            lock_of_wait_site: &self.lock_of_wait_site,
        };
        let chains = chains::follow(self.engine, &known, facts.start_ns, facts.end_ns);
        self.accounts(&chains, facts);
        facts.blame = self.blame(&chains, facts);
        facts.path = self.path(&chains, facts);
    }

    fn accounts(&self, chains: &Chains, facts: &mut Facts) {
        let kept = self.engine.threads.iter().zip(&chains.accounts).filter(|(thread, _)| self.is_kept(thread));
        for (thread, (_, ns)) in facts.threads.iter_mut().zip(kept) {
            thread.account = Account { ns: *ns };
            for (sum, ns) in facts.account.ns.iter_mut().zip(ns) {
                *sum += ns;
            }
        }
    }

    fn blame(&mut self, chains: &Chains, facts: &Facts) -> Vec<Blame> {
        let mut rows: Vec<(chains::Row, u64)> = chains.blame.iter().map(|(row, ns)| (*row, *ns)).collect();
        rows.sort_by_key(|(row, ns)| (std::cmp::Reverse(*ns), *row));
        let all: u64 = rows.iter().map(|(_, ns)| ns).sum();
        let mut told = 0;
        let index = |lock: u32| (lock != NONE).then_some(lock as usize);
        let mut list = Vec::new();
        for (row, ns) in rows {
            // What is left cannot show up.
            if told >= all - all / 500 || list.len() >= NAMED_ROWS {
                break;
            }
            told += ns;
            list.push(Blame {
                waiter: self.tid(row.waiter),
                lock: index(row.lock),
                via: index(row.via),
                leaf: row.end.leaf,
                thread: self.tid(row.end.thread),
                site: self.end_site(row.end, ns, facts),
                file: self.end_file(row.end),
                ns,
            });
        }
        list
    }

    /// Where a thread left the CPU; of one that ran, where it ran mostly.
    fn end_site(&mut self, end: chains::End, ns: u64, facts: &Facts) -> Option<Site> {
        let call_path = self.call_path(end.place);
        if !call_path.is_empty() {
            return Some(Site { call_path: call_path.to_vec(), count: 0, ns });
        }
        let thread = facts.thread(self.tid(end.thread)).filter(|_| end.leaf == Leaf::Running)?;
        thread.hot_sites.first().cloned()
    }

    /// The file that a thread was found blocked on.
    fn end_file(&self, end: chains::End) -> Option<String> {
        let (_, file) = self.engine.found.get(end.found as usize)?;
        file.as_deref().map(str::to_owned)
    }

    fn path(&mut self, chains: &Chains, facts: &Facts) -> Path {
        let mut parts: Vec<(chains::End, u64)> = chains.path.iter().map(|(end, ns)| (*end, *ns)).collect();
        parts.sort_by_key(|(end, ns)| (std::cmp::Reverse(*ns), *end));
        parts.truncate(NAMED_PLACES);
        let mut locks: Vec<(usize, u64)> = chains.path_locks.iter().map(|(lock, ns)| (*lock as usize, *ns)).collect();
        locks.sort_by_key(|(lock, ns)| (std::cmp::Reverse(*ns), *lock));
        let pieces = chains.pieces.list().iter().rev().map(|piece| PathPiece {
            from_ns: piece.from,
            to_ns: piece.to,
            leaf: piece.leaf,
            thread: self.tid(piece.thread),
        });
        let pieces = if self.engine.keep { pieces.collect() } else { Vec::new() };
        let part = |(end, ns): (chains::End, u64)| PathPart {
            leaf: end.leaf,
            thread: self.tid(end.thread),
            site: self.end_site(end, ns, facts),
            file: self.end_file(end),
            ns,
        };
        Path { parts: parts.into_iter().map(part).collect(), locks, pieces }
    }

    // Pairs.

    fn pairs(&mut self, engine: &Engine) -> Vec<PairFacts> {
        let mut list: Vec<PairFacts> = Vec::new();
        for ((a, b, inferred), pair) in engine.pairs.iter() {
            let blocks = |ti: &u32| engine.threads.get(*ti as usize).map_or(0, |thread| thread.silent_blocks);
            // Without wake-ups, only what the two do nearly all the time is believed.
            if *inferred && (pair.round_trips < 16 || pair.round_trips * 5 < blocks(a).max(blocks(b)) * 4) {
                continue;
            }
            let mut places: Tally<Place, u64> = Tally::default();
            pair.places.iter().for_each(|(place, count)| *places.at(*place) += count);
            let (mut wakings, mut tids) = (pair.wakings, (self.tid(*a), self.tid(*b)));
            if tids.0 > tids.1 {
                tids = (tids.1, tids.0);
                std::mem::swap(&mut wakings.a_to_b, &mut wakings.b_to_a);
            }
            list.push(PairFacts {
                a: tids.0,
                b: tids.1,
                wakings,
                round_trips: pair.round_trips,
                run_ns: pair.run_ns.clone(),
                sites: self.sites(&places, |count| (*count, 0)),
                from_ns: pair.from,
                to_ns: pair.to,
            });
        }
        list.sort_by_key(|pair| {
            let all = pair.wakings.a_to_b + pair.wakings.b_to_a;
            (std::cmp::Reverse((pair.round_trips, all)), pair.a, pair.b)
        });
        list
    }

    // Timeline.

    fn timeline(&mut self, kept: Kept) -> Timeline {
        let engine = self.engine;
        let mut timeline = Timeline { wakes: kept.wakes, ..Timeline::default() };
        timeline.wakes.sort_by_key(|wake| wake.time_ns);
        let mut call_paths: FxHashMap<Place, u32> = FxHashMap::default();
        let mut known: FxHashMap<StretchKind, u32> = FxHashMap::default();
        let mut told: Vec<u32> = Vec::new();
        for (doing, place) in &engine.kinds {
            let call_path = self.path_index(&mut call_paths, &mut timeline, *place);
            let kind = StretchKind { state: self.state(*doing), call_path };
            told.push(*known.entry(kind).or_insert_with(|| {
                timeline.kinds.push(kind);
                timeline.kinds.len() as u32 - 1
            }));
        }
        let mut rows: Vec<Option<u32>> = Vec::new();
        for (thread, marks) in engine.threads.iter().zip(kept.marks) {
            let is_kept = self.is_kept(thread);
            rows.push(is_kept.then_some(timeline.threads.len() as u32));
            if is_kept {
                timeline.threads.push(marks.into_row(thread.born, thread.last, |kind| told[kind as usize]));
            }
        }
        for (time_ns, ti, place) in kept.sampled {
            let Some(thread) = rows[ti as usize] else { continue };
            let Some(call_path) = self.path_index(&mut call_paths, &mut timeline, place) else { continue };
            timeline.samples.push(SampleAt { time_ns, thread, call_path });
        }
        timeline.samples.sort_by_key(|sample| sample.time_ns);
        timeline
    }

    /// A call path of the timeline; none where no stack is known.
    fn path_index(&mut self, known: &mut FxHashMap<Place, u32>, timeline: &mut Timeline, place: Place) -> Option<u32> {
        if place.stack == NONE {
            return None;
        }
        Some(*known.entry(place).or_insert_with(|| {
            timeline.call_paths.push(self.call_path(place));
            timeline.call_paths.len() as u32 - 1
        }))
    }

    fn state(&self, doing: Doing) -> State {
        match doing {
            Doing::Running(cpu) => State::Running { cpu },
            Doing::Ready => State::Runnable,
            Doing::Plain(Plain::Unknown) => State::Unknown,
            Doing::Futex(wait_site) => {
                let lock = self.lock_of_wait_site[wait_site as usize];
                State::Off { reason: self.reason(doing), lock: (lock != NONE).then_some(lock) }
            }
            _ => State::Off { reason: self.reason(doing), lock: None },
        }
    }
}

/// What the chains ask for.
struct Known<'a> {
    primitives: &'a [(Primitive, bool)],
    sleeps: &'a [bool],
    reasons: &'a [Reason],
    lock_of_wait_site: &'a [u32],
}

impl chains::Meaning for Known<'_> {
    fn reason(&self, doing: Doing) -> Reason {
        match doing {
            Doing::Futex(wait_site) if self.sleeps[wait_site as usize] => Reason::Sleep,
            Doing::Futex(wait_site) => Reason::Futex(self.primitives[wait_site as usize].0),
            Doing::Block(block) => self.reasons[block as usize],
            Doing::Plain(plain) => plain.reason(),
            Doing::Running(_) | Doing::Ready => Reason::Unknown,
        }
    }

    fn lock(&self, doing: Doing) -> u32 {
        match doing {
            Doing::Futex(wait_site) => self.lock_of_wait_site[wait_site as usize],
            _ => NONE,
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

/// Sums of a lock that still need names.
#[derive(Default)]
struct Parts {
    holders: Tally<u32, OffTime>,
    off_sites: Tally<Place, OffTime>,
    wake_sites: Tally<Place, u64>,
    longest: Vec<(u32, u64, u64)>,
}

/// Samples by function, module and instruction.
#[derive(Default)]
struct Codes {
    symbols: FxHashMap<(Arc<str>, String), Code>,
    modules: FxHashMap<Arc<str>, Code>,
    hotspots: FxHashMap<(Arc<str>, u64), (Hotspot, Callers)>,
}

/// Samples by function of the program: of all call paths of one, that with most samples stands for it.
#[derive(Default)]
struct Callers {
    by_function: FxHashMap<(Arc<str>, String), Heaviest>,
}

#[derive(Default)]
struct Heaviest {
    call_path: Vec<Frame>,
    most: u64,
    hits: u64,
}

impl Callers {
    fn add(&mut self, call_path: &[Frame], hits: u64) {
        let Some(caller) = caller(call_path) else { return };
        let key = (caller.module.clone(), function_name(caller));
        let known = self.by_function.entry(key).or_default();
        known.hits += hits;
        if hits > known.most {
            known.most = hits;
            known.call_path = call_path.to_vec();
        }
    }

    fn into_sites(self, period_ns: u64) -> Vec<Site> {
        let mut list: Vec<_> = self.by_function.into_iter().collect();
        list.sort_by(|(a, left), (b, right)| right.hits.cmp(&left.hits).then_with(|| a.cmp(b)));
        list.truncate(SITES);
        let site = |at: Heaviest| Site { call_path: at.call_path, count: at.hits, ns: at.hits * period_ns };
        list.into_iter().map(|(_, heaviest)| site(heaviest)).collect()
    }
}

/// The frame that a sample is of. A timer that is no NMI fires only when interrupts are on again, right after a switch:
/// what is found in `finish_task_switch` is the time of whoever called the scheduler.
fn sampled(call_path: &[Frame]) -> usize {
    let name = |frame: &Frame| frame.function.as_deref().unwrap_or_default().trim_start_matches('_').to_owned();
    if !call_path.first().is_some_and(|frame| name(frame).starts_with("finish_task_switch")) {
        return 0;
    }
    let switches = ["finish_task_switch", "schedule", "preempt_schedule", "io_schedule", "raw_spin_unlock_irq"];
    let caller = call_path.iter().position(|frame| !switches.iter().any(|switch| name(frame).starts_with(switch)));
    caller.unwrap_or(0)
}

impl Codes {
    fn add(&mut self, call_path: &[Frame], hits: u64) {
        let mut seen: Vec<(&Arc<str>, String)> = Vec::new();
        let mut seen_modules: Vec<&Arc<str>> = Vec::new();
        let sampled = sampled(call_path);
        for (depth, frame) in call_path.iter().enumerate() {
            let own = if depth == sampled { hits } else { 0 };
            let key = (&frame.module, function_name(frame));
            if !seen.contains(&key) {
                let code = Code { frame: frame.clone(), hits: 0, inclusive: 0 };
                let code = self.symbols.entry((frame.module.clone(), key.1.clone())).or_insert(code);
                code.hits += own;
                code.inclusive += hits;
                seen.push(key);
            }
            if !seen_modules.contains(&&frame.module) {
                let of_module = Frame { function: None, file: None, line: None, inlined: false, ..frame.clone() };
                let code = Code { frame: of_module, hits: 0, inclusive: 0 };
                let code = self.modules.entry(frame.module.clone()).or_insert(code);
                code.hits += own;
                code.inclusive += hits;
                seen_modules.push(&frame.module);
            }
        }
    }

    fn suspect(
        &mut self,
        suspect: crate::names::Suspect,
        hits: u64,
        threads: impl Iterator<Item = (Tid, u64)>,
        call_path: &[Frame],
    ) {
        // The sample is right behind the instruction, perhaps on another line.
        let mut path = vec![suspect.frame.clone()];
        path.extend(call_path.iter().skip(1).cloned());
        let key = (suspect.frame.module.clone(), suspect.frame.offset);
        let (hotspot, callers) = self.hotspots.entry(key).or_insert_with(|| {
            let hotspot = Hotspot {
                frame: suspect.frame,
                instruction: suspect.instruction,
                class: suspect.class,
                variable: suspect.variable,
                hits: 0,
                function_hits: 0,
                threads: Vec::new(),
                sites: Vec::new(),
            };
            (hotspot, Callers::default())
        });
        callers.add(&path, hits);
        hotspot.hits += hits;
        for (tid, hits) in threads {
            match hotspot.threads.iter_mut().find(|(known, _)| *known == tid) {
                Some((_, count)) => *count += hits,
                None => hotspot.threads.push((tid, hits)),
            }
        }
    }

    fn into_facts(self, facts: &mut Facts) {
        let period_ns = facts.header.sample_period_ns;
        let named =
            |(hotspot, callers): (Hotspot, Callers)| Hotspot { sites: callers.into_sites(period_ns), ..hotspot };
        let mut hotspots: Vec<Hotspot> = self.hotspots.into_values().map(named).collect();
        for hotspot in &mut hotspots {
            let key = (hotspot.frame.module.clone(), function_name(&hotspot.frame));
            hotspot.function_hits = self.symbols.get(&key).map_or(hotspot.hits, |code| code.hits.max(hotspot.hits));
            hotspot.threads.sort_by_key(|(tid, hits)| (std::cmp::Reverse(*hits), *tid));
        }
        hotspots.sort_by_key(|hotspot| {
            (std::cmp::Reverse(hotspot.hits), hotspot.frame.module.clone(), hotspot.frame.offset)
        });
        facts.hotspots = hotspots;
        facts.symbols = ordered(self.symbols.into_values());
        facts.modules = ordered(self.modules.into_values());
    }
}

fn ordered(codes: impl Iterator<Item = Code>) -> Vec<Code> {
    let mut codes: Vec<Code> = codes.collect();
    codes.sort_by(|a, b| {
        let weight = |code: &Code| std::cmp::Reverse((code.hits, code.inclusive));
        let name = |code: &Code| (code.frame.module.clone(), code.frame.offset);
        weight(a).cmp(&weight(b)).then_with(|| name(a).cmp(&name(b)))
    });
    codes
}

fn totals(engine: &Engine, facts: &mut Facts) {
    let totals = &mut facts.totals;
    totals.events = engine.events;
    totals.lost = engine.trouble.lost.max(facts.ending.as_ref().map_or(0, |ending| ending.lost));
    totals.wasted_wakes = engine.wasted_wakes;
    let mut run_ns = Histogram::default();
    for thread in &facts.threads {
        totals.switches += thread.voluntary + thread.involuntary;
        totals.involuntary += thread.involuntary;
        totals.on_cpu_ns += thread.on_cpu_ns;
        totals.thread_ns += thread.life_ns();
        totals.lock_wait_ns += thread.lock_wait_ns;
        totals.run_delay_ns.merge(&thread.run_delay_ns);
        run_ns.merge(&thread.run_ns);
    }
    totals.run_ns = run_ns;
    totals.runnable_ns = engine.cpus.runnable_ns.clone();
    facts.cpus = engine.cpus.list.iter().map(|cpu| cpu.facts.clone()).collect();
    for ((cpu, counter), (first, last)) in &engine.cpus.counters {
        let value = last - first;
        let sum = facts.counters.entry(*counter).or_default();
        *sum = sum.saturating_add(value);
        if let Some(cpu) = facts.cpus.get_mut(usize::from(*cpu)) {
            cpu.counters.insert(*counter, value);
        }
    }
    facts.calls = engine.call_counts.iter().copied().collect();
    facts.processes = processes(engine, &facts.threads);
}

/// Where locks of several processes share a name, each carries its process.
fn tell_locks_apart(facts: &mut Facts) {
    let mut pids: BTreeMap<&LockName, Vec<holdup_trace::Pid>> = BTreeMap::new();
    for lock in &facts.locks {
        pids.entry(&lock.name).or_default().push(lock.pid);
    }
    let shared = |lock: &LockFacts| pids[&lock.name].iter().any(|pid| *pid != lock.pid);
    let shared: Vec<bool> = facts.locks.iter().map(shared).collect();
    for (lock, _) in facts.locks.iter_mut().zip(shared).filter(|(_, shared)| *shared) {
        let process = facts.processes.iter().find(|process| process.pid == lock.pid);
        lock.process = process.map(|process| format!("{} ({})", process.name, process.pid.0));
    }
}

fn processes(engine: &Engine, threads: &[ThreadFacts]) -> Vec<ProcessFacts> {
    let mut all: BTreeMap<holdup_trace::Pid, ProcessFacts> = BTreeMap::new();
    for thread in threads {
        let process = all.entry(thread.pid).or_insert_with(|| ProcessFacts {
            pid: thread.pid,
            name: thread.name.clone(),
            program: engine.programs.get(&thread.pid).cloned(),
            executed: engine.executed.get(&thread.pid).cloned(),
            threads: 0,
        });
        process.threads += 1;
        if thread.tid.0 == thread.pid.0 {
            process.name.clone_from(&thread.name);
        }
    }
    all.into_values().collect()
}

fn add(sum: &mut OffTime, time: OffTime) {
    sum.count += time.count;
    sum.ns += time.ns;
}

/// Sites that are known by samples, with the waits shared out among them.
fn shared_out(sites: &[Site], waits: u64, ns: u64) -> Vec<Site> {
    let all: u64 = sites.iter().map(|site| site.count).sum::<u64>().max(1);
    let part = |whole: u64, count: u64| (u128::from(whole) * u128::from(count) / u128::from(all)) as u64;
    let share = |site: &Site| Site { count: part(waits, site.count), ns: part(ns, site.count), ..site.clone() };
    sites.iter().take(SITES).map(share).collect()
}

/// Whether a primitive has several words that threads wait on.
fn has_parts(primitive: Primitive) -> bool {
    use Primitive::{Barrier, Condvar, RwLock, Semaphore};
    matches!(primitive, Barrier | Condvar | RwLock | Semaphore)
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

/// The call path in user code alone.
fn without_kernel(call_path: &[Frame]) -> &[Frame] {
    let own = call_path.iter().position(|frame| !matches!(frame.role, Role::Kernel | Role::Scheduler));
    own.map_or(&[], |at| &call_path[at..])
}

/// Whether this is where the kernel handles futex calls.
fn is_futex_code(frame: &Frame) -> bool {
    frame.role == Role::Kernel && frame.function.as_ref().is_some_and(|function| function.contains("futex"))
}

fn function_name(frame: &Frame) -> String {
    match &frame.function {
        Some(function) => function.to_string(),
        None => {
            let module = frame.module.rsplit('/').next().unwrap_or_default();
            format!("{module}+{:#x}", frame.offset)
        }
    }
}

/// Parts of the names of functions that have to do with files.
const FILES: &[&str] =
    &["ext4", "xfs", "btrfs", "f2fs", "fuse", "nfs", "ovl_", "iomap", "_bio", "blk", "folio", "vfs_", "fsync", "inode"];

/// Functions of the kernel that tell why a thread blocks; the first row that fits any frame counts.
const KERNEL_REASONS: &[(Reason, &[&str])] = &[
    // What recording costs the program, whose new threads get events of their own, is no doing of the program's.
    (Reason::Displaced, &["perf_event_init_task", "perf_event_alloc", "perf_event_exit_task", "inherit_event"]),
    (
        Reason::Memory,
        &[
            "mmap_lock",
            "lock_mm_and_find_vma",
            "lock_vma",
            "vma_start_write",
            "vm_mmap_pgoff",
            "vm_munmap",
            "do_munmap",
            "sys_munmap",
            "sys_mprotect",
            "do_madvise",
            "sys_brk",
            "sys_mremap",
        ],
    ),
    (Reason::PageFault, &["handle_mm_fault", "do_user_addr_fault", "exc_page_fault"]),
    (Reason::Futex(Primitive::Unknown), &["futex_wait", "futex_lock_pi"]),
    (Reason::Sleep, &["do_nanosleep", "hrtimer_nanosleep"]),
    (
        Reason::Poll,
        &[
            "ep_poll",
            "do_poll",
            "do_sys_poll",
            "do_select",
            "csk_accept",
            "sigsuspend",
            "sigtimedwait",
            "sys_pause",
            "cqring_wait",
            "read_events",
        ],
    ),
    (Reason::Child, &["do_wait", "kernel_wait4", "kernel_waitid"]),
    (
        Reason::Peer,
        &[
            "pipe_read",
            "pipe_write",
            "anon_pipe_",
            "unix_stream",
            "unix_dgram",
            "sk_wait_data",
            "sock_alloc_send",
            "tcp_recvmsg",
            "tcp_sendmsg",
            "inet_csk_accept",
            "inet_wait_for_connect",
            "skb_wait_for_more",
            "skb_recv",
            "n_tty_",
            "tty_read",
            "eventfd_read",
            "do_msgrcv",
            "do_mq_",
            "wait_for_partner",
            "fifo_open",
        ],
    ),
    (Reason::Io, &["io_schedule", "folio_wait", "wait_on_page", "vfs_fsync", "jbd2_", "blk_mq"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_after_a_switch_is_the_callers() {
        let frame = |name: &str| Frame {
            address: 0,
            function: Some(name.into()),
            module: "[kernel]".into(),
            offset: 0,
            file: None,
            line: None,
            inlined: false,
            role: Role::Kernel,
        };
        let path = |names: &[&str]| names.iter().map(|name| frame(name)).collect::<Vec<_>>();
        assert_eq!(sampled(&path(&["finish_task_switch.isra.0", "__schedule", "schedule", "futex_wait_queue"])), 3);
        assert_eq!(sampled(&path(&["finish_task_switch", "__schedule"])), 0, "nobody else is known");
        assert_eq!(sampled(&path(&["copy_page", "finish_task_switch"])), 0);
        assert_eq!(sampled(&[]), 0);
    }

    #[test]
    fn locks_of_one_name_in_two_processes_carry_them() {
        let mut facts = Facts::default();
        let lock = |pid, name: &str| LockFacts {
            pid: holdup_trace::Pid(pid),
            name: LockName::Symbol { name: name.to_owned(), offset: 0 },
            ..LockFacts::default()
        };
        facts.locks = vec![lock(1, "g_a"), lock(2, "g_a"), lock(2, "g_b")];
        facts.processes = [1, 2]
            .map(|pid| ProcessFacts { pid: holdup_trace::Pid(pid), name: "p".to_owned(), ..ProcessFacts::default() })
            .to_vec();
        tell_locks_apart(&mut facts);
        let told: Vec<Option<&str>> = facts.locks.iter().map(|lock| lock.process.as_deref()).collect();
        assert_eq!(told, [Some("p (1)"), Some("p (2)"), None]);
    }
}
