//! The things that threads wait for, each put together from the sums of its parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_trace::Tid;
use rustc_hash::FxHashMap;

use super::chains::Meaning as _;
use super::doing::{Doing, Waker};
use super::golang;
use super::holding::{self, Held};
use super::ids::{GroupId, Id, ListedId, LockId, Table, ThreadId, WaitSiteId};
use super::lock::{self, Group, Place, keep_longest};
use super::lookup::{Lookup, SITES, function_name, part};
use super::meaning::{Meanings, is_interpreter};
use super::tally::Tally;
use super::waiting::{FILE_LOCK, SEMAPHORE};
use crate::facts::{Holder, Kept, LockFacts, LockName, OffTime, Places, Primitive, Reason, Site};
use crate::names::{Frame, Role, SpaceId, caller, interpreted};

/// Addresses without any wait that are listed because of wasted wakes.
const WASTED_ONLY: usize = 16;
/// Fewer looks at holders do not tell what they do.
const LEAST_LOOKS: u64 = 8;
/// Words of one object (the parts of a condition variable, say) are within so many bytes.
const OBJECT_BYTES: u64 = 16;

/// A thing that threads wait for, put together from the sums of its parts.
struct Unit {
    primitive: Primitive,
    space: SpaceId,
    /// `None` where the futex is not the lock.
    addr: Option<u64>,
    groups: Vec<GroupId>,
    wait_sites: Vec<WaitSiteId>,
    locks: Vec<LockId>,
    caller: Option<Frame>,
    /// Where it is waited for, if its waits do not tell.
    sites: Vec<Site>,
    /// The pool of few places that it is.
    pool: Option<usize>,
}

/// What tells apart things that are known by where they are waited for: kind, function, pool.
type PlaceKey = (SpaceId, Primitive, Arc<str>, String, Option<usize>);

/// All of them, those first that were waited for longest; and that of each wait site.
pub(super) fn all(lookup: &mut Lookup, meanings: &Meanings) -> (Vec<LockFacts>, Table<WaitSiteId, Option<ListedId>>) {
    let lock_of_wait_site = lookup.engine.wait_sites.map(|_| None);
    let mut objects = Objects { lookup, meanings, units: Vec::new(), lock_of_wait_site };
    objects.gather_units();
    (objects.locks(), objects.lock_of_wait_site)
}

struct Objects<'a, 'b> {
    lookup: &'a mut Lookup<'b>,
    meanings: &'a Meanings,
    units: Vec<Unit>,
    lock_of_wait_site: Table<WaitSiteId, Option<ListedId>>,
}

impl Objects<'_, '_> {
    /// The primitive of a group: that of its heaviest wait site.
    fn group_primitives(&self) -> Table<GroupId, (Primitive, bool, u64)> {
        let mut all = self.lookup.engine.groups.map(|_| (Primitive::Unknown, false, 0));
        for (wait_site, (primitive, own_word)) in self.lookup.engine.wait_sites.iter().zip(&self.meanings.primitives) {
            let weight = wait_site.waiters.iter().map(|(_, time)| time.ns + 1).sum::<u64>() + wait_site.eagain;
            let group = &mut all[wait_site.group];
            if weight > group.2 {
                *group = (*primitive, *own_word, weight);
            }
        }
        all
    }

    fn gather_units(&mut self) {
        let primitives = self.group_primitives();
        let mut wait_sites_of: Table<GroupId, Vec<WaitSiteId>> = self.lookup.engine.groups.map(|_| Vec::new());
        for (index, wait_site) in self.lookup.engine.wait_sites.each() {
            wait_sites_of[wait_site.group].push(index);
        }
        let mut by_address: Vec<(SpaceId, Primitive, u64, GroupId)> = Vec::new();
        let mut by_place: Vec<WaitSiteId> = Vec::new();
        for (index, group) in self.lookup.engine.groups.each() {
            let (primitive, own_word, _) = primitives[index];
            let idle = group.wait_ns.count() + group.eagain + group.wakes == 0;
            if group.by_place || idle {
                continue;
            }
            if own_word {
                by_place.extend(&wait_sites_of[index]);
                continue;
            }
            let lock = &self.lookup.engine.locks[group.lock];
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
                        pool: None,
                    });
                    let last = self.units.len() - 1;
                    &mut self.units[last]
                }
            };
            unit.groups.push(group);
            unit.wait_sites.extend(&wait_sites_of[group]);
            let lock = self.lookup.engine.groups[group].lock;
            if !unit.locks.contains(&lock) {
                unit.locks.push(lock);
            }
        }
        self.gather_places(&by_place);
        self.gather_wasted();
    }

    /// Waits on words of the threads' own belong together by where the lock is taken.
    fn gather_places(&mut self, wait_sites: &[WaitSiteId]) {
        let mut units: Vec<Unit> = Vec::new();
        let mut known: FxHashMap<PlaceKey, usize> = FxHashMap::default();
        for index in wait_sites {
            let wait_site = &self.lookup.engine.wait_sites[*index];
            let primitive = self.meanings.primitives[*index].0;
            let call_path = self.lookup.lock_path(wait_site.place);
            let of_go = golang::is_out_of_work(&call_path);
            let at = self.meanings.go_sites.first().filter(|_| of_go).map_or(&*call_path, |site| &site.call_path);
            let pool = self.meanings.pools.of[*index];
            let of_pool = pool.map(|pool| &self.meanings.pools.all[pool].caller);
            let Some(caller) = of_pool.or_else(|| caller(at)) else { continue };
            let interpreter =
                call_path.iter().find(|frame| primitive == Primitive::InterpreterLock && is_interpreter(frame));
            let caller = interpreter.map_or_else(|| caller.clone(), file_of);
            let key = (wait_site.place.space, primitive, caller.module.clone(), function_name(&caller), pool);
            let at = *known.entry(key).or_insert_with(|| {
                units.push(Unit {
                    primitive,
                    space: wait_site.place.space,
                    addr: None,
                    groups: Vec::new(),
                    wait_sites: Vec::new(),
                    locks: Vec::new(),
                    caller: Some(caller),
                    sites: if of_go { self.meanings.go_sites.clone() } else { Vec::new() },
                    pool,
                });
                units.len() - 1
            });
            let unit = &mut units[at];
            unit.wait_sites.push(*index);
            if let Some(group) = wait_site.place_group.filter(|group| !unit.groups.contains(group)) {
                unit.groups.push(group);
            }
            if !unit.locks.contains(&wait_site.lock) {
                unit.locks.push(wait_site.lock);
            }
        }
        self.units.extend(units);
    }

    /// Addresses on which nobody was ever seen to wait, and yet others were to be woken.
    fn gather_wasted(&mut self) {
        let locks = self.lookup.engine.locks.each().filter(|(_, lock)| lock.wasted > 0);
        let listed: Vec<LockId> = self.units.iter().flat_map(|unit| unit.locks.iter().copied()).collect();
        let listed: rustc_hash::FxHashSet<LockId> = listed.into_iter().collect();
        let mut rest: Vec<LockId> = locks.map(|(index, _)| index).filter(|index| !listed.contains(index)).collect();
        rest.sort_by_key(|index| std::cmp::Reverse(self.lookup.engine.locks[*index].wasted));
        for index in rest.into_iter().take(WASTED_ONLY) {
            let lock = &self.lookup.engine.locks[index];
            self.units.push(Unit {
                primitive: Primitive::Unknown,
                space: lock.space,
                addr: Some(lock.addr),
                groups: Vec::new(),
                wait_sites: Vec::new(),
                locks: vec![index],
                caller: None,
                sites: Vec::new(),
                pool: None,
            });
        }
    }

    fn locks(&mut self) -> Vec<LockFacts> {
        let units = std::mem::take(&mut self.units);
        let mut by_place = self.lookup.engine.wait_sites.map(|_| None);
        // Readers and writers of one lock may wait on a word each: what a holder did is known by both together.
        let is_sampled = self.lookup.engine.is_sampled;
        let of_words = |unit: &Unit| unit.primitive == Primitive::RwLock && unit.locks.len() > 1 && !is_sampled;
        for (index, unit) in units.iter().enumerate().filter(|(_, unit)| unit.addr.is_none() || of_words(unit)) {
            unit.wait_sites.iter().for_each(|wait_site| by_place[*wait_site] = Some(index));
        }
        let mut held = holding::by_lock(self.lookup.engine, &by_place);
        let mut all: Vec<(LockFacts, Vec<WaitSiteId>)> =
            (0..).zip(units).map(|(index, unit)| (self.lock(&unit, held.remove(&index)), unit.wait_sites)).collect();
        all.sort_by_cached_key(|(lock, _)| {
            std::cmp::Reverse((lock.wait_ns.sum_ns(), lock.waits, lock.eagain_waits + lock.wasted_wakes))
        });
        for (index, (_, wait_sites)) in all.iter().enumerate() {
            for wait_site in wait_sites {
                self.lock_of_wait_site[*wait_site] = Some(Id::of(index));
            }
        }
        all.into_iter().map(|(lock, _)| lock).collect()
    }

    fn lock(&mut self, unit: &Unit, held: Option<Held>) -> LockFacts {
        let engine = self.lookup.engine;
        // What stands for the kernel's objects is no address.
        let addr = unit.addr.filter(|addr| !matches!(*addr, FILE_LOCK | SEMAPHORE));
        let mut lock = LockFacts { primitive: unit.primitive, addr, ..LockFacts::default() };
        let first = unit.locks.first().map(|lock| &engine.locks[*lock]);
        lock.pid = first.map(|lock| engine.threads[lock.thread].pid).unwrap_or_default();
        let mut parts = Parts::default();
        for group in &unit.groups {
            self.add_group(&engine.groups[*group], &mut lock, &mut parts);
        }
        if let Some(held) = held {
            self.replace_holding(&held, &mut lock, &mut parts);
        } else if engine.is_sampled && !unit.primitive.is_contention() {
            // Who ends such waits is none of those who wait.
            (lock.holder_doing, lock.inversions) = Default::default();
            lock.holder_doing.unknown_ns = lock.wait_ns.sum_ns();
            (parts.holders, parts.off_sites) = Default::default();
        } else if engine.is_sampled {
            self.replace_by_looks(unit, &mut lock, &mut parts);
        }
        let mut waits: Tally<Place, OffTime> = Tally::default();
        let mut waiters: Tally<ThreadId, OffTime> = Tally::default();
        for wait_site in unit.wait_sites.iter().map(|wait_site| &engine.wait_sites[*wait_site]) {
            let eagain = wait_site.eagain;
            let site = waits.at(wait_site.place);
            site.count += eagain;
            for (thread, time) in wait_site.waiters.iter() {
                *site += *time;
                *waiters.at(*thread) += *time;
            }
        }
        lock.yield_ns = unit.wait_sites.iter().filter_map(|wait_site| self.meanings.yielded_ns.get(wait_site)).sum();
        for address in unit.locks.iter().map(|lock| &engine.locks[*lock]) {
            lock.wasted_wakes += address.wasted;
            lock.figures = lock.figures.or(address.figures);
            lock.herds.calls += address.together.0;
            lock.herds.woken += address.together.1;
            if address.words.looks > 0 {
                let (all, held, contended) = lock.words.unwrap_or_default();
                let words = address.words;
                lock.words = Some((all + words.looks, held + words.held, contended + words.contended));
            }
        }
        lock.kept = unit.locks.iter().find_map(|lock| engine.locks[*lock].kept.as_ref()).map(|kept| self.kept(kept));
        lock.contended_ns = lock.contended_ns.min(engine.span_ns());
        lock.waiters = self.by_time(&waiters, |thread| Some(*thread));
        lock.holders = self.holders(&parts.holders);
        lock.wait_sites = self.lookup.sites(&waits, |time| (time.count, time.ns));
        if !unit.sites.is_empty() {
            lock.wait_sites = shared_out(&unit.sites, lock.waits, lock.wait_ns.sum_ns());
        }
        if unit.primitive == Primitive::InterpreterLock {
            lock.hold_sites = self.lookup.hold_sites(&unit.locks, lock.contended_ns);
        }
        lock.wake_sites = self.lookup.sites(&parts.wake_sites, |count| (*count, 0));
        lock.holder_doing.off_sites = self.lookup.sites(&parts.off_sites, |time| (time.count, time.ns));
        lock.longest = parts.longest.iter().map(|(ti, from, to)| (self.lookup.tid(*ti), *from, *to)).collect();
        lock.places = unit.pool.map(|pool| self.places(pool));
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
        lock.inversions += group.inversions;
        let doing = &mut lock.holder_doing;
        doing.running_ns += group.running_ns;
        doing.unknown_ns += group.unknown_ns;
        for (what, ns) in group.off.iter().filter(|(_, ns)| *ns > 0) {
            *doing.off.entry(self.meanings.reason(*what)).or_default() += ns;
        }
        group.holders.iter().for_each(|(thread, time)| *parts.holders.at(*thread) += *time);
        group.off_sites.iter().for_each(|(place, time)| *parts.off_sites.at(*place) += *time);
        group.wake_sites.iter().for_each(|(place, count)| *parts.wake_sites.at(*place) += count);
        group.longest.iter().for_each(|wait| keep_longest(&mut parts.longest, *wait));
    }

    fn places(&self, pool: usize) -> Places {
        let pool = &self.meanings.pools.all[pool];
        Places { places: pool.places, callers: pool.callers.iter().map(|thread| self.lookup.tid(*thread)).collect() }
    }

    fn kept(&self, kept: &lock::Kept) -> Kept {
        let waiters = kept.waiters.iter().map(|(thread, from_ns)| (self.lookup.tid(*thread), *from_ns));
        Kept { holder: self.lookup.tid(kept.holder), has_ended: kept.has_ended, waiters: waiters.collect() }
    }

    /// Of a lock that is known by where it is taken, only the waits that belong to it tell what its holders did.
    fn replace_holding(&self, held: &Held, lock: &mut LockFacts, parts: &mut Parts) {
        let doing = &mut lock.holder_doing;
        (doing.running_ns, doing.unknown_ns) = (held.running_ns, held.unknown_ns);
        doing.off.clear();
        for (what, ns) in held.off.iter().filter(|(_, ns)| *ns > 0) {
            *doing.off.entry(self.meanings.reason(*what)).or_default() += ns;
        }
        parts.off_sites = Tally::default();
        held.off_sites.iter().for_each(|(place, time)| *parts.off_sites.at(*place) += *time);
    }

    /// Where holders of a lock were looked at, these looks tell what they do with it. Of the time in which they could
    /// run, the counters tell whether they did.
    fn replace_by_looks(&self, unit: &Unit, lock: &mut LockFacts, parts: &mut Parts) {
        let (mut held, mut held_at): (Tally<Doing, u64>, Tally<Place, u64>) = Default::default();
        for lock in unit.locks.iter().map(|lock| &self.lookup.engine.locks[*lock]) {
            lock.held.iter().for_each(|(doing, looks)| *held.at(*doing) += looks);
            lock.held_at.iter().for_each(|(place, looks)| *held_at.at(*place) += looks);
        }
        let all: u64 = held.iter().map(|(_, looks)| looks).sum();
        if all < LEAST_LOOKS {
            return;
        }
        let doing = &mut lock.holder_doing;
        let whole_ns = doing.running_ns + doing.unknown_ns + doing.off.values().sum::<u64>();
        let is_taken = |reason: &Reason| matches!(reason, Reason::Preempted | Reason::Displaced);
        let mut able: BTreeMap<Reason, u64> = std::mem::take(&mut doing.off);
        able.retain(|reason, _| is_taken(reason));
        let able_ns = doing.running_ns + able.values().sum::<u64>();
        (doing.running_ns, doing.unknown_ns) = (0, 0);
        for (what, looks) in held.iter() {
            let ns = part(whole_ns, *looks, all);
            let reason = match what {
                Doing::Running(_) | Doing::Ready => None,
                what => Some(self.meanings.reason(*what)).filter(|reason| !is_taken(reason)),
            };
            if let Some(reason) = reason {
                *doing.off.entry(reason).or_default() += ns;
                continue;
            }
            let taken = able.iter().map(|(reason, taken_ns)| (*reason, part(ns, *taken_ns, able_ns.max(1))));
            let mut rest_ns = ns;
            for (reason, taken_ns) in taken {
                *doing.off.entry(reason).or_default() += taken_ns;
                rest_ns -= taken_ns.min(rest_ns);
            }
            doing.running_ns += rest_ns;
        }
        parts.off_sites = Tally::default();
        for (place, looks) in held_at.iter() {
            *parts.off_sites.at(*place) += OffTime { count: *looks, ns: part(whole_ns, *looks, all) };
        }
    }

    fn by_time<K>(&self, times: &Tally<K, OffTime>, thread: impl Fn(&K) -> Option<ThreadId>) -> Vec<(Tid, OffTime)>
    where
        K: Copy + Eq + std::hash::Hash,
    {
        let with_tid = |(key, time): &(K, OffTime)| (self.lookup.tid_of(thread(key)), *time);
        let mut list: Vec<(Tid, OffTime)> = times.iter().map(with_tid).collect();
        list.sort_by_key(|(tid, time)| (std::cmp::Reverse((time.ns, time.count)), *tid));
        list
    }

    fn holders(&self, times: &Tally<Waker, OffTime>) -> Vec<Holder> {
        let list = self.by_time(times, |waker| waker.thread()).into_iter();
        list.map(|(tid, time)| Holder { tid, count: time.count, ns: time.ns }).collect()
    }

    fn lock_name(&mut self, unit: &Unit, lock: &LockFacts) -> LockName {
        if let Some(name) = unit.addr.and_then(|addr| self.lookup.naming.variable(unit.space, addr)) {
            return name;
        }
        let own = || lock.wait_sites.first()?.caller().cloned();
        if unit.primitive == Primitive::InterpreterLock
            && let Some(frame) = &unit.caller
        {
            return LockName::Site(function_name(frame));
        }
        // Java's own method says more than the machine's function for all monitors, and so does a script's function
        // than that of an extension in C.
        let is_own = |frame: &Frame| frame.role == Role::Program;
        let says_more = |frame: &Frame| {
            let is_script = interpreted::is_script(frame);
            let than = |native: &Frame| !is_own(native) || is_script && !interpreted::is_script(native);
            is_own(frame) && unit.caller.as_ref().is_some_and(than)
        };
        let of_source = own().filter(says_more);
        let caller = of_source.or_else(|| unit.caller.clone()).or_else(own);
        caller.map_or(LockName::Address, |frame| LockName::Site(function_name(&frame)))
    }
}

/// The lock of an interpreter is one, wherever it is taken: it stands under the name of the interpreter's file.
fn file_of(frame: &Frame) -> Frame {
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    Frame { function: Some(file.into()), ..frame.clone() }
}

/// Sums of a lock that still need names.
#[derive(Default)]
struct Parts {
    holders: Tally<Waker, OffTime>,
    off_sites: Tally<Place, OffTime>,
    wake_sites: Tally<Place, u64>,
    longest: Vec<(ThreadId, u64, u64)>,
}

/// Sites that are known by samples, with the waits shared out among them.
fn shared_out(sites: &[Site], waits: u64, ns: u64) -> Vec<Site> {
    let all: u64 = sites.iter().map(|site| site.count).sum::<u64>().max(1);
    let share =
        |site: &Site| Site { count: part(waits, site.count, all), ns: part(ns, site.count, all), ..site.clone() };
    sites.iter().take(SITES).map(share).collect()
}

/// Whether a primitive has several words that threads wait on.
fn has_parts(primitive: Primitive) -> bool {
    use Primitive::{Barrier, Condvar, InterpreterLock, RwLock, Semaphore};
    matches!(primitive, Barrier | Condvar | InterpreterLock | RwLock | Semaphore)
}
