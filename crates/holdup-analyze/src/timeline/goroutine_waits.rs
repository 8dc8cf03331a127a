//! Looks at Go's goroutines, added up: what they do, which mutexes and channels they wait for, and who keeps them
//! waiting. No thread shows it, for the thread of a goroutine that waits goes on with another.
//!
//! A mutex does not say who holds it. Whoever waits for it is in the function that takes it, and so is its holder, but
//! further on: it is believed to be the holder if it is alone there at nearly all looks that find others waiting, and
//! nobody runs who could be it as well. So is who is blocked in another method of the same type, if others hardly wait
//! while nobody is in there.
//!
//! A channel of tokens, a semaphore made of channels, a pool's condition let so many go on at a time: as many as the
//! channel has places, or always the same number, but not always the same goroutines. Workers that wait for work look
//! alike where somebody else hands it to them; where nobody does, or a library began the goroutines with a request
//! each, they are callers.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_trace::{Pid, StackId, TaskGroup, TaskState};
use rustc_hash::{FxHashMap, FxHashSet};

use super::goroutines::Process;
use super::lookup::{Lookup, function_name};
use super::naming::Naming;
use crate::facts::{
    GoroutineFacts, GoroutineGroup, GoroutineHolder, GoroutineLock, GoroutineState, LastGoroutine, LockName, Looking,
    Site,
};
use crate::names::{Between, Frame, Role, SpaceId, caller, is_wait_for_group, leads_through};

/// Groups, locks and sites that are told.
const MOST_TOLD: usize = 16;
/// Of the looks that find somebody waiting, so many find the holder, and so few find two that could be it.
const LEAST_FOUND: f64 = 0.6;
const MOST_DOUBTFUL: f64 = 0.1;
/// While nobody is in another method, at so many looks at least, others wait that much rarer.
const MOST_BESIDE: f64 = 0.7;
const LEAST_FREE: f64 = 3.0;
/// So many run at those looks, on average, at most: any of them could be the holder.
const MOST_RUNNING: f64 = 0.5;
/// The looks that find somebody waiting for one of a few entries, and all those who may be further on there; and those
/// that find more.
const LEAST_FULL: f64 = 0.8;
const MOST_OVERFULL: f64 = 0.05;
/// So often another goroutine is there, at least, and at so many of the looks.
const LEAST_TURNS: u64 = 5;
const LEAST_TURNS_SHARE: f64 = 0.02;
/// So far out from where they wait lies the function that they go on in.
const MOST_OUT: usize = 6;
/// Others that could hand out work are fewer than this, on average.
const MOST_HANDING_OUT: f64 = 0.2;
/// The looks that find a worker waiting for work are so few, if it is always busy.
const MOST_IDLE: f64 = 0.1;

/// So many begin together, and one of them is alone at so many of the looks.
const LEAST_TOGETHER: u64 = 3;
const LEAST_ALONE: f64 = 0.2;

/// A kind of group with names.
struct Kind {
    state: GoroutineState,
    /// The semaphore's address; 0 where it is not known.
    addr: u64,
    /// How many places the channel has, if it is one.
    places: Option<u64>,
    path: Arc<[Frame]>,
    /// Whether it is the program's, not the runtime's.
    is_own: bool,
}

/// Everything that is told of goroutines, by process.
pub(super) fn sum_up(lookup: &mut Lookup<'_>) -> Vec<GoroutineFacts> {
    let engine = lookup.engine;
    let mut pids: Vec<Pid> = engine.goroutines.processes.keys().copied().collect();
    pids.sort_unstable();
    let facts = |pid| of_process(lookup.naming, pid, &engine.goroutines.processes[&pid]);
    pids.into_iter().map(facts).collect()
}

fn of_process(naming: &mut dyn Naming, pid: Pid, process: &Process) -> GoroutineFacts {
    let space = process.space.unwrap_or(SpaceId(0));
    let mut path = |stack: Option<StackId>| match stack {
        Some(stack) => naming.call_path(space, stack),
        None => Arc::from([]),
    };
    let kinds: Vec<Kind> = process
        .kinds
        .iter()
        .map(|group| {
            let path = path(group.stack);
            Kind { state: state(group, &path), addr: group.addr, places: group.places, is_own: is_own(&path), path }
        })
        .collect();
    let means = means(process, kinds.len());
    let looks = Looks { process, kinds: &kinds, means: &means };
    let mut groups: FxHashMap<_, (GoroutineGroup, Vec<usize>)> = FxHashMap::default();
    for (number, (kind, mean)) in kinds.iter().zip(&means).enumerate().filter(|(_, (kind, _))| kind.is_own) {
        let place = caller(told(&kind.path)).map(|frame| (frame.function.clone(), frame.line));
        let (group, numbers) = groups.entry((kind.state, place)).or_insert_with(|| {
            let site = Site { call_path: told(&kind.path).to_vec(), ..Site::default() };
            (GoroutineGroup { state: kind.state, site, ..GoroutineGroup::default() }, Vec::new())
        });
        group.mean += mean;
        numbers.push(number);
    }
    for (group, numbers) in groups.values_mut().filter(|(group, _)| group.state == GoroutineState::Sleep) {
        if naming.between_sleeps(space, &group.site.call_path).is_some_and(|does| does != Between::HandsOn) {
            group.looking = Some(looks.looking(&Kinds::of(std::mem::take(numbers), kinds.len())));
        }
    }
    let mut doing: Vec<GoroutineGroup> = groups.into_values().map(|(group, _)| group).collect();
    doing.sort_by(|a, b| b.mean.total_cmp(&a.mean));
    let mean = doing.iter().map(|one| one.mean).sum();
    let mut mutexes: Vec<GoroutineLock> = looks
        .waited(GoroutineState::Mutex)
        .into_iter()
        .map(|(addr, waiting)| {
            let mut lock = looks.lock(&waiting);
            // A mutex has its semaphore behind its state.
            let variable = addr.and_then(|addr| naming.variable(space, addr.checked_sub(4)?));
            if let Some(name) = variable {
                lock.name = of_mutex(name);
            }
            lock.holder = looks.holder(&waiting, 1..=1).or_else(|| looks.in_other_method(&waiting));
            lock
        })
        .collect();
    let mut sends: Vec<GoroutineLock> = looks
        .waited(GoroutineState::Send)
        .into_iter()
        .map(|(_, waiting)| {
            let places = looks.holder(&waiting, 1..=usize::MAX).filter(|holder| holder.doing.is_blocked());
            let places = places.map(|holder| GoroutineHolder { began: None, ..holder });
            let holder = places.or_else(|| looks.receivers(&waiting)).or_else(|| looks.consumers(&waiting));
            GoroutineLock { holder, ..looks.lock(&waiting) }
        })
        .collect();
    let mut entries: Vec<GoroutineLock> = [GoroutineState::Receive, GoroutineState::Others]
        .into_iter()
        .flat_map(|state| looks.waited(state))
        .filter_map(|(_, waiting)| Some(GoroutineLock { holder: Some(looks.few(&waiting)?), ..looks.lock(&waiting) }))
        .collect();
    for locks in [&mut mutexes, &mut sends, &mut entries] {
        locks.sort_by(|a, b| {
            (b.waiters, &a.name).partial_cmp(&(a.waiters, &b.name)).unwrap_or(std::cmp::Ordering::Equal)
        });
        locks.truncate(MOST_TOLD);
    }
    let last = looks.last_of_several();
    GoroutineFacts { pid, looks: process.looks.len() as u64, mean, doing, mutexes, sends, entries, last }
}

/// How many goroutines there were of each kind, on average.
fn means(process: &Process, kinds: usize) -> Vec<f64> {
    let mut sums = vec![0.0; kinds];
    for (weight, found) in process.all() {
        found.iter().for_each(|(kind, count)| sums[*kind as usize] += weight * *count as f64);
    }
    sums.iter().map(|sum| sum / process.looks.len().max(1) as f64).collect()
}

/// All looks at a process.
#[derive(Clone, Copy)]
struct Looks<'a> {
    process: &'a Process,
    kinds: &'a [Kind],
    /// How many there were of each kind, on average.
    means: &'a [f64],
}

impl<'a> Looks<'a> {
    fn count(self) -> f64 {
        self.process.looks.len().max(1) as f64
    }

    /// Kinds that wait so, by what they wait for: by its address if the runtime tells it, or by the function that
    /// waits. Those that most wait for.
    fn waited(self, state: GoroutineState) -> Vec<(Option<u64>, Kinds)> {
        let function = |kind: &Kind| takes(&kind.path).map(function_name).unwrap_or_default();
        let waiting = || (0..).zip(self.kinds).filter(|(_, kind)| kind.is_own && kind.state == state);
        let mut found: FxHashMap<u64, Vec<usize>> = FxHashMap::default();
        let mut by_function: FxHashMap<String, Vec<usize>> = FxHashMap::default();
        let mut addresses: FxHashMap<String, u64> = FxHashMap::default();
        for (number, kind) in waiting().filter(|(_, kind)| kind.addr != 0) {
            found.entry(kind.addr).or_default().push(number);
            addresses.insert(function(kind), kind.addr);
        }
        // Who began to wait after the table of semaphores was read waits for what others in the function do.
        for (number, kind) in waiting().filter(|(_, kind)| kind.addr == 0) {
            match addresses.get(&function(kind)) {
                Some(addr) => found.entry(*addr).or_default().push(number),
                None => by_function.entry(function(kind)).or_default().push(number),
            }
        }
        let by_address = found.into_iter().map(|(addr, numbers)| (Some(addr), numbers));
        let mean = |numbers: &[usize]| numbers.iter().map(|number| self.means[*number]).sum::<f64>();
        let mut all: Vec<(Option<u64>, Vec<usize>)> =
            by_address.chain(by_function.into_values().map(|numbers| (None, numbers))).collect();
        all.sort_by(|a, b| mean(&b.1).total_cmp(&mean(&a.1)).then_with(|| a.cmp(b)));
        all.truncate(MOST_TOLD);
        all.into_iter().map(|(addr, numbers)| (addr, Kinds::of(numbers, self.kinds.len()))).collect()
    }

    fn lock(self, waiting: &Kinds) -> GoroutineLock {
        let mut lock = GoroutineLock::default();
        let mut sites: Vec<Site> = Vec::new();
        for number in &waiting.numbers {
            let kind = &self.kinds[*number];
            let mean = self.means[*number];
            lock.waiters += mean;
            add_site(&mut sites, &kind.path, mean);
        }
        for (weight, found) in self.process.all() {
            let count = weight * waiting.count(found) as f64;
            lock.most = lock.most.max(count as u64);
            lock.contended += if count > 0.0 { 1.0 / self.count() } else { 0.0 };
        }
        lock.wait_sites = sorted(sites);
        let named = lock.wait_sites.first().and_then(Site::caller);
        lock.name = named.map_or(LockName::Address, |frame| LockName::Site(function_name(frame)));
        lock
    }

    /// How often goroutines were found looking there, and how often that changed.
    fn looking(self, there: &Kinds) -> Looking {
        let found: Vec<bool> = self.process.all().map(|(_, found)| there.count(found) > 0).collect();
        let others: u64 = there.numbers.iter().map(|number| self.process.turns[*number]).sum();
        let changes = found.windows(2).filter(|pair| pair[0] != pair[1]).count() as u64;
        let share = found.iter().filter(|found| **found).count() as f64 / self.count();
        Looking { share, turns: others + changes }
    }

    /// Goroutines that began with one function, all together each time, and end one by one until a last one is alone,
    /// while somebody waits for a wait group: the one that is alone at most looks.
    fn last_of_several(self) -> Option<LastGoroutine> {
        let began = |number: &usize| outermost(&self.kinds[*number].path).and_then(|frame| frame.function.clone());
        let waits = |kind: &Kind| leads_through(&kind.path, is_wait_for_group);
        let numbers = (0..).zip(self.kinds).filter(|(_, kind)| waits(kind)).map(|(number, _)| number).collect();
        let waiting = Kinds::of(numbers, self.kinds.len());
        let is_waited_for: Vec<bool> = self.process.all().map(|(_, found)| waiting.count(found) > 0).collect();
        let mut by_function: BTreeMap<Arc<str>, (Vec<usize>, bool)> = BTreeMap::new();
        for number in 0..self.kinds.len() {
            let Some(function) = began(&number) else { continue };
            let (numbers, may_be) = by_function.entry(function).or_default();
            numbers.push(number);
            *may_be |= self.kinds[number].is_own && !accepts(&self.kinds[number].path);
        }
        for function in waiting.numbers.iter().filter_map(began) {
            by_function.remove(&function);
        }
        let may_be = by_function.into_values().filter(|(_, may_be)| *may_be);
        let all = may_be.filter_map(|(own, _)| self.last_of(&Kinds::of(own, self.kinds.len()), &is_waited_for));
        all.max_by(|a, b| a.alone.total_cmp(&b.alone))
    }

    fn last_of(self, own: &Kinds, is_waited_for: &[bool]) -> Option<LastGoroutine> {
        let each = self.process.all().zip(is_waited_for);
        let looks: Vec<_> = each.map(|((_, found), waited_for)| (own.count(found), *waited_for, found)).collect();
        let most = looks.iter().map(|(count, ..)| *count).max()?;
        let alone: Vec<_> = looks.iter().filter(|(count, is_waited_for, _)| *count == 1 && *is_waited_for).collect();
        // Who comes one by one was not begun with the others.
        let (mut rises, mut together) = (0_u64, 0_u64);
        for pair in looks.windows(2).filter(|pair| pair[1].0 > pair[0].0) {
            rises += 1;
            together += u64::from(pair[1].0 * 4 >= most * 3);
        }
        let share = alone.len() as f64 / self.count();
        if most < LEAST_TOGETHER || share < LEAST_ALONE || together * 5 < rises * 4 {
            return None;
        }
        let mut places: FxHashMap<u32, u64> = FxHashMap::default();
        for (.., found) in &alone {
            let (kind, _) = found.iter().find(|(kind, _)| own.are[*kind as usize])?;
            *places.entry(*kind).or_default() += 1;
        }
        let (kind, _) = places.into_iter().max_by_key(|(kind, looks)| (*looks, *kind))?;
        let call_path = told(&self.kinds[kind as usize].path).to_vec();
        Some(LastGoroutine { most, alone: share, site: Site { call_path, ..Site::default() } })
    }

    /// Those that are further on in a function that others wait in to enter: so many, at nearly all looks.
    fn holder(self, waiting: &Kinds, many: std::ops::RangeInclusive<usize>) -> Option<GoroutineHolder> {
        let places = waiting.numbers.iter().flat_map(|number| takers(&self.kinds[*number].path));
        let mut holding = self.beyond(waiting, places);
        holding.retain(|kind| !self.kinds[kind].state.is_ready());
        self.judged(waiting, &holding, many)
    }

    /// The one that is blocked in another method of what those who wait are in a method of, nearly always when somebody
    /// waits; while nobody is in another, others wait much rarer.
    fn in_other_method(self, waiting: &Kinds) -> Option<GoroutineHolder> {
        let takers = waiting.numbers.iter().flat_map(|number| takers(&self.kinds[*number].path));
        let receivers: FxHashSet<&str> = takers.filter_map(|(function, ..)| receiver(function)).collect();
        let is_method = |frame: &Frame| {
            frame.function.as_deref().and_then(receiver).is_some_and(|receiver| receivers.contains(receiver))
        };
        let is_inside = |number: &usize| {
            let kind = &self.kinds[*number];
            !waiting.are[*number] && kind.is_own && kind.path.iter().any(is_method)
        };
        let around = Kinds::of((0..self.kinds.len()).filter(is_inside).collect(), self.kinds.len());
        let blocked = around.numbers.iter().copied().filter(|number| self.kinds[*number].state.is_blocked());
        let holding = Kinds::of(blocked.collect(), self.kinds.len());
        // Of the looks that find somebody in there, or nobody: how many, and how many find others waiting.
        let waited = |there: bool| -> (f64, f64) {
            let looks = self.process.all().filter(|(_, found)| (around.count(found) > 0) == there);
            looks.fold((0.0, 0.0), |(all, waited), (_, found)| {
                (all + 1.0, waited + f64::from(u8::from(waiting.count(found) > 0)))
            })
        };
        let ((held, waited_then), (free, waited_else)) = (waited(true), waited(false));
        let comes_and_goes = free >= LEAST_FREE && waited_else / free <= MOST_BESIDE * waited_then / held;
        self.judged(waiting, &holding, 1..=1).filter(|_| comes_and_goes)
    }

    /// Those that are further on than these places, in the same functions.
    fn beyond(self, waiting: &Kinds, places: impl Iterator<Item = Position<'a>>) -> Kinds {
        let mut taken: FxHashMap<(&str, &str), u64> = FxHashMap::default();
        for (function, whole, place) in places {
            let first = taken.entry((function, whole)).or_insert(place);
            *first = place.min(*first);
        }
        let is_inside = |kind: &Kind| {
            let mut frames = (0..kind.path.len()).filter_map(|at| position(&kind.path, at));
            kind.is_own
                && frames
                    .any(|(function, whole, place)| taken.get(&(function, whole)).is_some_and(|first| place > *first))
        };
        let inside = (0..).zip(self.kinds).filter(|(number, kind)| !waiting.are[*number] && is_inside(kind));
        Kinds::of(inside.map(|(number, _)| number).collect(), self.kinds.len())
    }

    /// The few that may be further on while the others wait, if that is what they wait for.
    fn few(self, waiting: &Kinds) -> Option<GoroutineHolder> {
        let kinds = || waiting.numbers.iter().map(|number| &self.kinds[*number]);
        let mean = |number: &&usize| self.means[**number];
        let most = &self.kinds[*waiting.numbers.iter().max_by(|a, b| mean(a).total_cmp(&mean(b)))?];
        let of_condition = |kind: &Kind| leads_through(&kind.path, |name| name.starts_with("sync.(*Cond)."));
        // Who waits in the function that it began with goes back there each time, as workers do.
        let is_called = |kind: &Kind| {
            takes(&kind.path).map(|frame| &frame.function) != outermost(&kind.path).map(|frame| &frame.function)
        };
        if waits_for_connection(&most.path) {
            return self.connected(waiting);
        }
        if !kinds().all(is_called) || !(most.places.is_some() || of_condition(most)) {
            return None;
        }
        let places = most.places.filter(|places| most.addr != 0 && *places > 0);
        if places.is_none() && !self.are_callers(waiting) {
            return None;
        }
        (0..MOST_OUT).find_map(|out| {
            let holding =
                self.beyond(waiting, kinds().filter_map(|kind| position(&kind.path, taker(&kind.path) + out)));
            let most = self.steady(waiting, &holding, places)?;
            self.judged(waiting, &holding, 1..=most as usize)
        })
    }

    /// The few that have a connection of the pool of Go's libraries that the others wait for: those who are further on
    /// in any function of theirs, mostly as many; some go on there for a moment after they gave it back. Who waits
    /// while connections are made waits for these.
    fn connected(self, waiting: &Kinds) -> Option<GoroutineHolder> {
        let mean = |numbers: &mut dyn Iterator<Item = usize>| numbers.map(|number| self.means[number]).sum::<f64>();
        let connects = |number: &usize| {
            let path = &self.kinds[*number].path;
            leads_through(path, |name| name.starts_with("net/http.(*Transport).dialConn"))
        };
        if mean(&mut (0..self.kinds.len()).filter(connects)) * 2.0 >= mean(&mut waiting.numbers.iter().copied()) {
            return None;
        }
        let paths = waiting.numbers.iter().map(|number| &self.kinds[*number].path);
        let places = paths.flat_map(|path| (taker(path)..path.len()).filter_map(|at| position(path, at)));
        let holding = self.beyond(waiting, places);
        let counts: Vec<u64> = self
            .process
            .all()
            .filter(|(weight, found)| *weight < 1.5 && waiting.count(found) > 0)
            .map(|(_, found)| holding.count(found))
            .collect();
        let found = |many: u64| counts.iter().filter(|count| **count == many).count();
        let usual = counts.iter().copied().filter(|many| *many > 0).max_by_key(|many| found(*many))?;
        let is_few = found(usual) as f64 >= LEAST_FOUND * counts.len() as f64;
        self.judged(waiting, &holding, 1..=usize::MAX).filter(|_| is_few)
    }

    /// How many are further on at nearly all looks that find others waiting: as many as there are places, if that is
    /// known, and not always the same.
    fn steady(self, waiting: &Kinds, holding: &Kinds, places: Option<u64>) -> Option<u64> {
        let counts: Vec<(u64, u64)> = self
            .process
            .all()
            .filter(|(weight, found)| *weight < 1.5 && waiting.count(found) > 0)
            .map(|(_, found)| (holding.count(found), self.ready(found)))
            .collect();
        let share = |is: &dyn Fn(u64, u64) -> bool| {
            counts.iter().filter(|(count, running)| is(*count, *running)).count() as f64 / counts.len().max(1) as f64
        };
        let most = match places {
            Some(places) => places,
            None => counts
                .iter()
                .map(|(count, _)| *count)
                .filter(|most| share(&|count, _| count > *most) <= MOST_OVERFULL)
                .min()?,
        };
        let turns: u64 = holding.numbers.iter().map(|kind| self.process.turns[*kind]).sum();
        let is_few = most > 0
            && share(&|count, _| count > most) <= MOST_OVERFULL
            && share(&|count, running| count <= most && count + running >= most) >= LEAST_FULL
            && turns >= LEAST_TURNS.max((LEAST_TURNS_SHARE * counts.len() as f64) as u64);
        is_few.then_some(most)
    }

    /// Whether those who wait ask for something themselves, and are not handed what others ask for: a library began
    /// them with a request each, or there is nobody else who could hand them anything.
    fn are_callers(self, waiting: &Kinds) -> bool {
        let began = |kind: &Kind| outermost(&kind.path).map(|frame| (frame.function.clone(), frame.role));
        let callers: Vec<_> = waiting.numbers.iter().filter_map(|number| began(&self.kinds[*number])).collect();
        let hands_out = |kind: &Kind| {
            let of_main = |function: Option<Arc<str>>| {
                function.is_some_and(|name| &*name == "runtime.main" || &*name == "main.main")
            };
            let other = began(kind).is_some_and(|began| !callers.contains(&began) && !of_main(began.0));
            kind.is_own && !kind.state.is_ready() && other
        };
        let others: f64 =
            self.kinds.iter().zip(self.means).filter(|(kind, _)| hands_out(kind)).map(|(_, mean)| mean).sum();
        callers.iter().all(|(_, role)| *role != Role::Program) || others <= MOST_HANDING_OUT
    }

    /// Those that take what others send, if nobody else could: goroutines that begin with one function, never wait for
    /// what comes, and sleep or wait for the network, but not for somebody to connect.
    fn receivers(self, waiting: &Kinds) -> Option<GoroutineHolder> {
        let began = |kind: &'a Kind| outermost(&kind.path).and_then(|frame| frame.function.clone());
        let mut sums: FxHashMap<Arc<str>, (f64, f64)> = FxHashMap::default();
        for (number, kind) in self.kinds.iter().enumerate().filter(|(_, kind)| kind.is_own) {
            let Some(function) = began(kind).filter(|_| !accepts(&kind.path)) else { continue };
            let sum = sums.entry(function).or_default();
            match kind.state {
                state if state.is_blocked() => sum.0 += self.means[number],
                _ => sum.1 += self.means[number],
            }
        }
        let sends: Vec<Arc<str>> = waiting.numbers.iter().filter_map(|number| began(&self.kinds[*number])).collect();
        let mut busy = sums.iter().filter(|(function, (blocked, other))| {
            !sends.contains(function) && *blocked >= LEAST_FOUND && *other <= MOST_IDLE * (blocked + other)
        });
        let (function, _) = busy.next().filter(|_| busy.next().is_none())?;
        let of_it = |kind: &'a Kind| kind.is_own && began(kind).as_ref() == Some(function);
        let numbers = (0..).zip(self.kinds).filter(|(_, kind)| of_it(kind)).map(|(number, _)| number).collect();
        let numbers = Kinds::of(numbers, self.kinds.len());
        self.judged(waiting, &numbers, 1..=usize::MAX)
    }

    /// Of goroutines that take from channels in one and the same function, those that are further on there and sleep or
    /// wait for the network, while the others wait for what comes: one subscriber of many may be the slow one.
    fn consumers(self, waiting: &Kinds) -> Option<GoroutineHolder> {
        let mut found: Vec<Kinds> = Vec::new();
        for (_, receiving) in self.waited(GoroutineState::Receive) {
            let places = receiving.numbers.iter().flat_map(|number| takers(&self.kinds[*number].path));
            let mut serving = self.beyond(&receiving, places);
            serving.retain(|kind| self.kinds[kind].state.is_blocked() && !waiting.are[kind]);
            let mean: f64 = serving.numbers.iter().map(|number| self.means[*number]).sum();
            if mean >= LEAST_FOUND && !found.iter().any(|known| known.numbers == serving.numbers) {
                found.push(serving);
            }
        }
        let only = found.pop().filter(|_| found.is_empty())?;
        self.judged(waiting, &only, 1..=usize::MAX)
    }

    /// Those of a look that run or could.
    fn ready(self, found: &[(u32, u64)]) -> u64 {
        sum(found, |kind| self.kinds[kind as usize].is_own && self.kinds[kind as usize].state.is_ready())
    }

    fn judged(
        self,
        waiting: &Kinds,
        holding: &Kinds,
        many: std::ops::RangeInclusive<usize>,
    ) -> Option<GoroutineHolder> {
        let (mut looks, mut found_at, mut doubtful, mut running, mut mean) = (0.0, 0.0, 0.0, 0.0, 0.0);
        let mut states: FxHashMap<GoroutineState, f64> = FxHashMap::default();
        let mut sites: Vec<Site> = Vec::new();
        for (weight, found) in self.process.all().filter(|(_, found)| waiting.count(found) > 0) {
            looks += 1.0;
            let count = holding.count(found) as usize;
            running += self.ready(found) as f64;
            if count > *many.end() {
                doubtful += 1.0;
            } else if many.contains(&count) {
                found_at += 1.0;
                mean += weight * count as f64;
                for (number, count) in found.iter().filter(|(number, _)| holding.are[*number as usize]) {
                    let kind = &self.kinds[*number as usize];
                    *states.entry(kind.state).or_default() += *count as f64;
                    add_site(&mut sites, &kind.path, *count as f64);
                }
            }
        }
        let is_sure =
            found_at >= LEAST_FOUND * looks && doubtful <= MOST_DOUBTFUL * looks && running <= MOST_RUNNING * looks;
        let all: f64 = states.values().sum();
        let (doing, most) = states.into_iter().max_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)))?;
        let sites = sorted(sites);
        let began = sites.first().and_then(|site| outermost(&site.call_path)).map(function_name);
        let mean = mean / found_at;
        (is_sure && most >= LEAST_FOUND * all).then_some(GoroutineHolder { mean, doing, sites, began })
    }
}

/// The variable without the fields in it that a mutex of readers and writers waits with.
fn of_mutex(name: LockName) -> LockName {
    let LockName::Symbol { mut name, .. } = name else { return name };
    if let Some((of, _)) = name.rsplit_once('.').filter(|(_, field)| ["writerSem", "readerSem"].contains(field)) {
        name = of.strip_suffix(".RWMutex").unwrap_or(of).to_owned();
    }
    LockName::Symbol { name, offset: 0 }
}

/// Some of the kinds: their numbers, and for each kind whether it is one.
struct Kinds {
    numbers: Vec<usize>,
    are: Vec<bool>,
}

impl Kinds {
    fn of(numbers: Vec<usize>, all: usize) -> Kinds {
        let mut are = vec![false; all];
        numbers.iter().for_each(|number| are[*number] = true);
        Kinds { numbers, are }
    }

    fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        self.numbers.retain(|number| stays(*number));
        (0..).zip(&mut self.are).for_each(|(number, is)| *is &= stays(number));
    }

    /// How many of them a look found.
    fn count(&self, found: &[(u32, u64)]) -> u64 {
        sum(found, |kind| self.are[kind as usize])
    }
}

impl GoroutineState {
    /// Whether it waits for nothing that another goroutine does.
    fn is_blocked(self) -> bool {
        matches!(self, GoroutineState::Sleep | GoroutineState::Network | GoroutineState::Call)
    }

    /// Whether it runs or could.
    fn is_ready(self) -> bool {
        matches!(self, GoroutineState::Running | GoroutineState::Runnable)
    }
}

fn sum(found: &[(u32, u64)], is: impl Fn(u32) -> bool) -> u64 {
    found.iter().filter(|(kind, _)| is(*kind)).fold(0, |sum, (_, count)| sum.saturating_add(*count))
}

/// Adds to the site with the same call path, in thousandths of a goroutine.
fn add_site(sites: &mut Vec<Site>, path: &Arc<[Frame]>, mean: f64) {
    let count = (mean * 1_000.0).round() as u64;
    match sites.iter_mut().find(|site| site.call_path[..] == path[..]) {
        Some(site) => (site.count, site.ns) = (site.count.saturating_add(count), site.ns.saturating_add(count)),
        None => sites.push(Site { call_path: path.to_vec(), count, ns: count }),
    }
}

fn sorted(mut sites: Vec<Site>) -> Vec<Site> {
    sites.sort_by_key(|site| std::cmp::Reverse(site.count));
    sites.truncate(MOST_TOLD);
    sites
}

/// What goroutines do, by what the runtime says and by where they are.
fn state(group: &TaskGroup, path: &[Frame]) -> GoroutineState {
    use GoroutineState::*;
    match group.state {
        TaskState::Running => return Running,
        TaskState::Runnable => return Runnable,
        TaskState::Call => return Call,
        TaskState::Waiting => {}
    }
    let through = |start: &str| leads_through(path, |name| name.starts_with(start));
    match &*group.reason {
        "sync.Mutex.Lock" | "sync.RWMutex.Lock" | "sync.RWMutex.RLock" => Mutex,
        "semacquire" if through("sync.(*WaitGroup).") || through("sync.(*Cond).") => Others,
        "semacquire"
            if through("sync.(*Mutex).") || through("sync.(*RWMutex).") || through("internal/sync.(*Mutex).") =>
        {
            Mutex
        }
        "chan send" => Send,
        // The goroutine that reads the connection hands on what comes.
        "select" if through("net/http.(*persistConn).roundTrip") => Network,
        "chan receive" | "select" => Receive,
        "sync.Cond.Wait" | "sync.WaitGroup.Wait" => Others,
        "sleep" => Sleep,
        "IO wait" => Network,
        _ => Unknown,
    }
}

/// Whether goroutines with this call path are the program's own; of those without one, nothing else is known.
fn is_own(path: &[Frame]) -> bool {
    let Some(function) = outermost(path).and_then(|frame| frame.function.as_deref()) else { return true };
    let of_runtime = function.starts_with("runtime.") && function != "runtime.main";
    !of_runtime && !function.starts_with("os/signal.") && !function.starts_with("runtime/")
}

/// The call path as it is told: nothing of goroutines that are a library's from beginning to end.
fn told(path: &[Frame]) -> &[Frame] {
    if path.iter().any(|frame| frame.role == Role::Program) { path } else { &[] }
}

fn is_end(function: &str) -> bool {
    function.starts_with("runtime.goexit")
}

/// Whether it waits until somebody connects.
fn accepts(path: &[Frame]) -> bool {
    leads_through(path, |name| name.starts_with("net.(*") && name.ends_with("Listener).Accept"))
}

/// Whether it waits for a connection of a pool of Go's libraries.
fn waits_for_connection(path: &[Frame]) -> bool {
    const POOLS: [&str; 2] = ["net/http.(*Transport).getConn", "database/sql.(*DB).conn"];
    let taker = takes(path).and_then(|frame| frame.function.as_deref());
    taker.is_some_and(|name| POOLS.contains(&name))
}

/// What a goroutine began with.
fn outermost(path: &[Frame]) -> Option<&Frame> {
    let is_wrap = |name: &str| name.rsplit('.').next().is_some_and(|last| last.starts_with("gowrap"));
    let mut outer = path.iter().rev().skip_while(|frame| frame.function.as_deref().is_none_or(is_end));
    let first = outer.next()?;
    // What the compiler wraps around the call of a `go` statement bears the name of the function with the statement.
    let wrapped = outer.next().filter(|_| first.function.as_deref().is_some_and(is_wrap));
    wrapped.or(Some(first))
}

fn is_way_to_wait(frame: &Frame) -> bool {
    let of_runtime = frame.function.as_deref().is_some_and(|name| name.starts_with("runtime."));
    frame.role == Role::Lock || of_runtime
}

/// The function that takes what is waited for: the first that is no way to wait.
fn takes(path: &[Frame]) -> Option<&Frame> {
    path.get(taker(path))
}

/// Where in the call path that is; its length if it is nowhere.
fn taker(path: &[Frame]) -> usize {
    path.iter().position(|frame| !is_way_to_wait(frame)).unwrap_or(path.len())
}

/// The functions that take what is waited for, and where in them: its caller too, if the first only locks.
fn takers(path: &[Frame]) -> Vec<Position<'_>> {
    let first = taker(path);
    let own = position(path, first);
    let only_locks = own.is_some_and(|(function, ..)| {
        let last = function.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
        ["lock", "acquire", "enter"].iter().any(|word| last.starts_with(word) || last.ends_with(word))
    });
    own.into_iter().chain(position(path, first + 1).filter(|_| only_locks)).collect()
}

/// What a function is a method of: `main.(*Board)` of `main.(*Board).Price`.
fn receiver(function: &str) -> Option<&str> {
    let (receiver, method) = function.split_once(").")?;
    (receiver.contains("(*") && !method.is_empty()).then_some(receiver)
}

/// A function, what it was inlined into, and where in it.
type Position<'a> = (&'a str, &'a str, u64);

/// A frame's function, and where in it: by the line, for compilers move what is unlikely to the function's end. Without
/// lines by the address, in the function that it was inlined into.
fn position(path: &[Frame], at: usize) -> Option<Position<'_>> {
    let frame = path.get(at)?;
    let function = frame.function.as_deref()?;
    if let Some(line) = frame.line {
        return Some((function, "", line.into()));
    }
    let whole = path[at..].iter().find(|frame| !frame.inlined).unwrap_or(frame);
    Some((function, whole.function.as_deref()?, frame.address))
}

#[cfg(test)]
mod tests {
    use holdup_trace::Tasks;

    use super::*;
    use crate::timeline::goroutines::Found;

    const WAITS: u32 = 0;
    const HOLDS: u32 = 1;
    const BEFORE: u32 = 2;
    const SENDS: u32 = 3;
    const SERVES: u32 = 4;
    const COLLECTS: u32 = 5;
    const ENTERS: u32 = 6;
    const ENTERED: u32 = 7;
    const HANDS_OUT: u32 = 8;
    const TAKES: u32 = 9;
    const LISTENS: u32 = 10;
    const JOINS: u32 = 11;

    const READS: u32 = 12;
    const SAVES: u32 = 13;
    const CONNECTS: u32 = 14;
    const ASKS: u32 = 15;
    const PARSES: u32 = 16;
    const DIALS: u32 = 17;

    struct Paths;

    impl Naming for Paths {
        fn call_path(&mut self, _: SpaceId, stack: StackId) -> Arc<[Frame]> {
            let names: &[(&str, u32)] = match stack.0 {
                WAITS => &[("runtime.gopark", 1), ("sync.(*Mutex).Lock", 2), ("main.get", 10), ("main.serve", 3)],
                HOLDS => &[("time.Sleep", 1), ("main.load", 5), ("main.get", 12), ("main.serve", 3)],
                BEFORE => &[("time.Sleep", 1), ("main.load", 5), ("main.get", 8), ("main.serve", 3)],
                SENDS => &[("runtime.gopark", 1), ("runtime.chansend1", 2), ("main.ask", 20), ("main.client", 7)],
                SERVES => &[("time.Sleep", 1), ("main.fetch", 30), ("main.worker", 31), ("main.main.gowrap1", 40)],
                ENTERS => &[("runtime.gopark", 1), ("main.acquire", 50), ("main.visit", 60), ("main.guest", 70)],
                ENTERED => &[("time.Sleep", 1), ("main.eat", 55), ("main.visit", 61), ("main.guest", 70)],
                TAKES => &[("runtime.gopark", 1), ("runtime.chanrecv2", 2), ("main.worker", 29), ("main.start", 40)],
                LISTENS => &[("internal/poll.wait", 1), ("net.(*TCPListener).Accept", 2), ("main.listen", 90)],
                JOINS => &[("runtime.gopark", 1), ("sync.(*WaitGroup).Wait", 2), ("main.run", 90)],
                HANDS_OUT => &[("time.Sleep", 1), ("main.timer", 80)],
                READS => &[("runtime.gopark", 1), ("sync.(*RWMutex).RLock", 2), ("main.(*Board).Price", 49)],
                SAVES => &[("time.Sleep", 1), ("main.(*Board).save", 71), ("main.(*Board).Reprice", 101)],
                CONNECTS => &[
                    ("runtime.gopark", 1),
                    ("net/http.(*Transport).getConn", 50),
                    ("net/http.(*Transport).roundTrip", 60),
                    ("main.copy", 70),
                    ("main.run", 3),
                ],
                ASKS => &[
                    ("runtime.gopark", 1),
                    ("net/http.(*persistConn).roundTrip", 9),
                    ("net/http.(*Transport).roundTrip", 61),
                    ("main.copy", 70),
                    ("main.run", 3),
                ],
                PARSES => &[("runtime.gopark", 1), ("main.commit", 80), ("main.copy", 71), ("main.run", 3)],
                DIALS => &[("internal/poll.wait", 1), ("net/http.(*Transport).dialConnFor", 5)],
                _ => &[("runtime.gopark", 1), ("runtime.bgsweep", 2)],
            };
            let frame = |(name, line): &(&str, u32)| {
                let role = match name.split('.').next() {
                    Some("runtime" | "time" | "net/http") => Role::Runtime,
                    Some("sync") => Role::Lock,
                    _ => Role::Program,
                };
                Frame { line: Some(*line), ..Frame::named(name, role) }
            };
            names.iter().chain(&[("runtime.goexit", 1)]).map(frame).collect()
        }

        fn variable(&mut self, _: SpaceId, addr: u64) -> Option<LockName> {
            let name = "main.table.RWMutex.writerSem".to_owned();
            (addr == 0xffc).then_some(LockName::Symbol { name, offset: 4 })
        }
    }

    fn group(count: u64, reason: &str, stack: u32) -> TaskGroup {
        let addr = if stack == WAITS { 0x1000 } else { 0 };
        TaskGroup { count, reason: reason.into(), addr, stack: Some(StackId(stack)), ..TaskGroup::default() }
    }

    /// Looks that find so many waiting for this channel to enter, and the others.
    fn entries(places: u64, addr: u64, more: &[TaskGroup], turns: bool) -> Vec<GoroutineLock> {
        let look = |number: u64| {
            let enters = TaskGroup { addr, places: Some(places), ..group(9, "chan receive", ENTERS) };
            let example = if turns { number } else { 1 };
            let entered = TaskGroup { example, ..group(2, "sleep", ENTERED) };
            [&[enters, entered], more].concat()
        };
        let mut found = Found::default();
        for groups in (1..20).map(look) {
            let looked = groups.iter().map(|group| group.count).sum();
            found.found(Pid(7), SpaceId(0), &Tasks { all: looked, looked, groups });
        }
        of_process(&mut Paths, Pid(7), &found.processes[&Pid(7)]).entries
    }

    #[test]
    fn the_last_of_those_that_began_together_is_told_if_it_is_alone_for_long() {
        let last = |counts: &[u64], waits: u64| {
            let looks: Vec<Vec<TaskGroup>> = counts
                .iter()
                .map(|count| vec![group(*count, "sleep", SERVES), group(waits, "sync.WaitGroup.Wait", JOINS)])
                .map(|groups| groups.into_iter().filter(|group| group.count > 0).collect())
                .collect();
            facts(&looks).last.map(|last| (last.most, last.alone))
        };
        assert_eq!(last(&[8, 8, 1, 1, 1, 1, 1, 1, 8, 1], 1), Some((8, 0.7)));
        assert_eq!(last(&[4, 4, 4, 4, 4, 4, 4, 4, 1, 1], 1), Some((4, 0.2)));
        assert_eq!(last(&[4, 4, 4, 4, 4, 4, 4, 4, 4, 1], 1), None, "not for long");
        assert_eq!(last(&[8, 8, 1, 1, 1, 1, 1, 1, 8, 1], 0), None, "nobody waits for it");
        assert_eq!(last(&[1, 2, 1, 2, 3, 2, 1, 1, 2, 1], 1), None, "they come one by one, as connections do");
        assert_eq!(last(&[2, 2, 1, 1, 1, 1, 1, 1, 2, 1], 1), None, "two are no crowd");
    }

    #[test]
    fn few_may_enter_where_as_many_as_there_are_places_are_inside_in_turn() {
        let found = entries(2, 0x5000, &[], true);
        let holder = found[0].holder.as_ref().expect("those inside");
        assert_eq!((found[0].waiters, holder.mean, holder.doing), (9.0, 2.0, GoroutineState::Sleep));
        assert_eq!(holder.sites[0].caller().and_then(|frame| frame.line), Some(55));
        assert_eq!(entries(3, 0x5000, &[], true).len(), 0, "one place is free, and nobody takes it");
        assert_eq!(entries(2, 0x5000, &[], false).len(), 0, "always the same are inside");
        let hands_out = group(1, "sleep", HANDS_OUT);
        assert_eq!(entries(2, 0x5000, std::slice::from_ref(&hands_out), true).len(), 1, "the channel's places tell");
        assert_eq!(entries(0, 0, &[], true).len(), 1, "each waits on a channel of its own, and nobody hands out work");
        assert_eq!(entries(0, 0, &[hands_out], true).len(), 0, "they may be workers that wait for work");
    }

    #[test]
    fn few_connections_of_gos_library_are_had_by_those_who_are_further_on() {
        let entries = |dialing: u64| {
            let mut found = Found::default();
            for (example, asking) in (1..).zip([1, 2, 1, 0, 1, 1, 2, 1, 1, 1]) {
                let has = |count, reason, stack| TaskGroup { example, ..group(count, reason, stack) };
                let groups = [
                    group(9, "select", CONNECTS),
                    has(asking, "select", ASKS),
                    has(4 - asking, "IO wait", PARSES),
                    group(dialing, "IO wait", DIALS),
                ];
                let groups: Vec<TaskGroup> = groups.into_iter().filter(|group| group.count > 0).collect();
                let looked = groups.iter().map(|group| group.count).sum();
                found.found(Pid(7), SpaceId(0), &Tasks { all: looked, looked, groups });
            }
            of_process(&mut Paths, Pid(7), &found.processes[&Pid(7)]).entries
        };
        let found = entries(0);
        let holder = found[0].holder.as_ref().expect("those who have one");
        assert_eq!((found[0].waiters, holder.mean, holder.doing), (9.0, 4.0, GoroutineState::Network));
        let at = |site: &Site| site.caller().and_then(|frame| frame.line);
        assert_eq!((at(&found[0].wait_sites[0]), at(&holder.sites[0])), (Some(70), Some(80)));
        assert_eq!(entries(5).len(), 0, "connections are made");
    }

    fn facts(looks: &[Vec<TaskGroup>]) -> GoroutineFacts {
        let mut found = Found::default();
        for groups in looks {
            let looked = groups.iter().map(|group| group.count).sum();
            found.found(Pid(7), SpaceId(0), &Tasks { all: looked * 2, looked, groups: groups.clone() });
        }
        of_process(&mut Paths, Pid(7), &found.processes[&Pid(7)])
    }

    #[test]
    fn a_holder_in_another_method_is_told_if_others_wait_only_while_it_is_there() {
        let reads = || group(5, "sync.RWMutex.RLock", READS);
        let saves = |count| group(count, "sleep", SAVES);
        let holder = |looks: &[Vec<TaskGroup>]| facts(looks).mutexes.remove(0).holder;
        let held = || vec![vec![reads(), saves(1)]; 20];
        let free = |found: Vec<TaskGroup>| [held(), vec![found; 3]].concat();
        let found = holder(&free(vec![group(1, "sleep", HOLDS)])).expect("the one that saves");
        assert_eq!(found.sites[0].caller().and_then(|frame| frame.line), Some(71));
        assert!(holder(&held()).is_none(), "it may always be there");
        assert!(holder(&free(vec![reads()])).is_none(), "they wait without it, too");
        assert!(holder(&vec![vec![reads(), saves(2)]; 20]).is_none(), "two");
    }

    #[test]
    fn a_holder_that_sleeps_is_found_where_it_is_alone_behind_the_lock() {
        let waiting = || group(5, "sync.Mutex.Lock", WAITS);
        let look = |more: &[TaskGroup]| [&[waiting(), group(3, "GC sweep wait", COLLECTS)], more].concat();
        let held = facts(&[look(&[group(1, "sleep", HOLDS)]), look(&[group(1, "sleep", HOLDS)])]);
        let lock = &held.mutexes[0];
        assert_eq!((lock.waiters, lock.contended, held.mean), (10.0, 1.0, 12.0), "each stands for two");
        assert_eq!(lock.name, LockName::Symbol { name: "main.table".into(), offset: 0 });
        let holder = lock.holder.as_ref().expect("a holder");
        assert_eq!((holder.doing, holder.mean), (GoroutineState::Sleep, 2.0));
        assert_eq!(holder.sites[0].caller().and_then(|frame| frame.line), Some(5));
        let none = |more: &[TaskGroup], why| assert!(facts(&[look(more)]).mutexes[0].holder.is_none(), "{why}");
        none(&[], "nobody");
        none(&[group(1, "sleep", BEFORE)], "before the lock");
        none(&[group(2, "sleep", HOLDS)], "two, of whom one has it at most");
        let running = TaskGroup { state: TaskState::Running, stack: None, ..group(1, "", 0) };
        none(&[group(1, "sleep", HOLDS), running], "it may be the one that runs");
    }

    #[test]
    fn workers_are_who_else_is_busy_while_others_wait_to_send() {
        let workers = |serving, receiving: &[TaskGroup]| {
            let look = [&[group(9, "chan send", SENDS), group(serving, "sleep", SERVES)], receiving].concat();
            facts(&[look.clone(), look]).sends.remove(0).holder
        };
        let found = workers(3, &[]).expect("workers");
        assert_eq!(
            (found.mean, found.doing, found.began.as_deref()),
            (6.0, GoroutineState::Sleep, Some("main.worker"))
        );
        assert!(workers(3, &[group(3, "chan receive", SERVES)]).is_none(), "half of them wait for work");
        assert!(workers(3, &[group(1, "sleep", HOLDS)]).is_none(), "others could be the workers as well");
    }

    #[test]
    fn one_slow_consumer_is_found_beside_others_that_wait_in_the_same_function() {
        let slow = |serving, more: &[TaskGroup]| {
            let takes = group(2, "chan receive", TAKES);
            let look = [&[group(6, "chan send", SENDS), group(serving, "IO wait", SERVES), takes], more].concat();
            facts(&[look.clone(), look]).sends.remove(0).holder
        };
        let others = [group(1, "IO wait", LISTENS)];
        let found = slow(1, &others).expect("the one that waits for the network");
        assert_eq!((found.mean, found.doing), (2.0, GoroutineState::Network));
        assert_eq!(found.sites[0].caller().and_then(|frame| frame.line), Some(30));
        assert!(slow(0, &others).is_none(), "all wait for what comes");
    }
}
