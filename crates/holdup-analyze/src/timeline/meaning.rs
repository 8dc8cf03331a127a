//! What each wait is for: a lock, work, time, a device; by what threads do there, by names, by the kernel's stacks.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::behaviour::{self, Behaviour};
use super::chains::Meaning;
use super::doing::{Doing, Plain};
use super::ids::{BlockId, ListedId, LockId, Table, ThreadId, WaitSiteId};
use super::lock::Place;
use super::log::Stay;
use super::lookup::Lookup;
use super::places::{self, Pools, acquires_shared, is_of_coreclr};
use super::tally::Tally;
use super::waiting::{FILE_LOCK, SEMAPHORE};
use super::{blocked, golang, yielding};
use crate::facts::{Primitive, Reason, Site};
use crate::names::interpreted::RubyWait;
use crate::names::{Frame, Role, SpaceId, is_scheduler_of_asio, leads_through};

/// Fewer waits on words of the threads' own are no queue.
const OWN_WORD_WAITS: usize = 4;

/// What waits mean.
pub(super) struct Meanings {
    /// Per wait site: what it waits for, and whether the futex is a word of the waiting thread.
    pub primitives: Table<WaitSiteId, (Primitive, bool)>,
    /// Per wait site: whether it is how a runtime sleeps, on a futex that nobody wakes.
    pub sleeps: Table<WaitSiteId, bool>,
    /// Where goroutines take the mutex that they wait for.
    pub go_sites: Vec<Site>,
    /// Per block.
    pub reasons: Table<BlockId, Reason>,
    /// Per wait site: the lock, if it is listed.
    pub locks: Table<WaitSiteId, Option<ListedId>>,
    /// Pools of a few places that threads wait for.
    pub pools: Pools,
    /// By where threads yield: the wait site of what they then sleep for.
    pub yields: FxHashMap<Place, WaitSiteId>,
    /// Per wait site: how long threads yielded before they slept there, or had what they wanted.
    pub yielded_ns: FxHashMap<WaitSiteId, u64>,
}

impl Meanings {
    pub(super) fn of(lookup: &mut Lookup) -> Meanings {
        let engine = lookup.engine;
        let reasons = engine.blocks.iter().map(|block| blocked::reason(lookup, *block)).collect();
        let sleeps = engine.wait_sites.map(|_| false);
        let (primitives, known, pools) = (Table::default(), Table::default(), Pools::default());
        let mut judge = Judge { lookup, primitives, sleeps, known, pools, go_sites: Vec::new() };
        judge.judge_wait_sites();
        let Judge { primitives, sleeps, pools, go_sites, .. } = judge;
        let yields = yielding::by_place(lookup);
        let yielded_ns = yielding::times(engine, &yields);
        let locks = engine.wait_sites.map(|_| None);
        Meanings { primitives, sleeps, go_sites, reasons, locks, pools, yields, yielded_ns }
    }

    pub(super) fn futex_reason(&self, wait_site: WaitSiteId) -> Reason {
        if self.sleeps[wait_site] { Reason::Sleep } else { Reason::Futex(self.primitives[wait_site].0) }
    }
}

impl Meaning for Meanings {
    fn reason(&self, doing: Doing) -> Reason {
        match doing {
            Doing::Futex(wait_site) => self.futex_reason(wait_site),
            Doing::Block(block) => self.reasons[block],
            Doing::Plain(plain) => plain.reason(),
            Doing::Running(_) | Doing::Ready => Reason::Unknown,
        }
    }

    fn lock(&self, doing: Doing) -> Option<ListedId> {
        match doing {
            Doing::Futex(wait_site) => self.locks[wait_site],
            _ => None,
        }
    }

    fn part_of(&self, stay: &Stay, space: SpaceId) -> Doing {
        let yields = stay.doing() == Doing::Plain(Plain::Yielded);
        let sleeps = yields.then(|| self.yields.get(&Place { space, stack: stay.stack })).flatten();
        sleeps.map_or(stay.doing(), |wait_site| Doing::Futex(*wait_site))
    }
}

struct Judge<'a, 'b> {
    lookup: &'a mut Lookup<'b>,
    primitives: Table<WaitSiteId, (Primitive, bool)>,
    sleeps: Table<WaitSiteId, bool>,
    /// What waits of Ruby are for, where looks tell.
    known: Table<WaitSiteId, Option<RubyWait>>,
    pools: Pools,
    go_sites: Vec<Site>,
}

impl Judge<'_, '_> {
    fn judge_wait_sites(&mut self) {
        let engine = self.lookup.engine;
        self.known = self.waits_of_ruby();
        for (index, wait_site) in engine.wait_sites.each() {
            let call_path = self.lookup.call_path(wait_site.place);
            let primitive = match engine.locks[wait_site.lock].addr {
                FILE_LOCK => Primitive::FileLock,
                SEMAPHORE => Primitive::Semaphore,
                _ => self.lookup.naming.primitive(wait_site.op, &call_path),
            };
            let of_interpreter = is_lock_of_pypy(primitive, &call_path) || guards_gil(primitive, &call_path);
            let primitive = if of_interpreter { Primitive::InterpreterLock } else { primitive };
            let own_word = wait_site.place_group.is_some()
                && (primitive == Primitive::ParkingLotMutex
                    || (primitive.is_contention() && call_path.iter().any(waits_on_own_word)));
            // By name, mutexes are no waits of Ruby's, but of its interpreter within.
            let known = self.known[index].filter(|_| primitive != Primitive::Mutex);
            self.known[index] = known;
            let is_own = wait_site.place_group.is_some();
            self.primitives.push(match known {
                Some(RubyWait::Interpreter) => (Primitive::InterpreterLock, is_own),
                Some(RubyWait::Mutex) => (Primitive::OtherLock, is_own),
                Some(RubyWait::Join) => (Primitive::Join, false),
                Some(RubyWait::Sleep | RubyWait::Event) => (Primitive::Condvar, false),
                None => (primitive, own_word),
            });
        }
        self.judge_by_behaviour();
        // A stack that could not be named waits for what the others wait for at the same address.
        let mut best: FxHashMap<LockId, (u64, Primitive)> = FxHashMap::default();
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

    /// What waits of Ruby are for, where looks tell, and elsewhere where they come from the same functions of the
    /// interpreter as those of which looks tell.
    fn waits_of_ruby(&mut self) -> Table<WaitSiteId, Option<RubyWait>> {
        let engine = self.lookup.engine;
        let mut known = engine.wait_sites.map(|wait_site| self.lookup.ruby_wait(wait_site.place));
        if known.iter().all(Option::is_none) {
            return known;
        }
        let functions = engine.wait_sites.map(|wait_site| self.lookup.ruby_functions(wait_site.place));
        let mut told: FxHashMap<u64, Tally<RubyWait, u64>> = FxHashMap::default();
        for ((functions, wait), wait_site) in functions.iter().zip(known.iter()).zip(&engine.wait_sites) {
            if let (Some(functions), Some(wait)) = (functions, wait) {
                let times: u64 = wait_site.waiters.iter().map(|(_, time)| time.count).sum();
                *told.entry(*functions).or_default().at(*wait) += times + 1;
            }
        }
        let mostly = |waits: &Tally<RubyWait, u64>| {
            let all: u64 = waits.iter().map(|(_, times)| times).sum();
            waits.iter().find(|(_, times)| *times * 3 >= all * 2).map(|(wait, _)| *wait)
        };
        for (functions, wait) in functions.iter().zip(known.iter_mut()) {
            *wait = wait.or_else(|| mostly(told.get(&(*functions)?)?));
        }
        known
    }

    /// What threads do with a futex says more than what its functions are called.
    fn judge_by_behaviour(&mut self) {
        let engine = self.lookup.engine;
        let told = |primitive: Primitive| {
            use Primitive::*;
            matches!(primitive, Semaphore | Condvar | Park | OtherLock | GoRuntime | Unknown)
        };
        let primitives = std::mem::take(&mut self.primitives);
        let open = self.known.clone().map(|known| known.is_none());
        let by_glibc = |name: &str| name.trim_start_matches('_').starts_with("pthread_cond_");
        let is_condition = |wait_site: &WaitSiteId| primitives[*wait_site].0 == Primitive::Condvar;
        let conditions = engine.wait_sites.each().filter(|(index, _)| is_condition(index));
        let of_glibc: FxHashSet<WaitSiteId> = conditions
            .filter(|(_, wait_site)| leads_through(&self.lookup.call_path(wait_site.place), by_glibc))
            .map(|(index, _)| index)
            .collect();
        let object = |wait_site: WaitSiteId| {
            let (primitive, own_word) = primitives[wait_site];
            let at = &engine.wait_sites[wait_site];
            let lock = &engine.locks[at.lock];
            // A condition variable of glibc has two words, side by side; of others, that may be two of them.
            let addr = if of_glibc.contains(&wait_site) { lock.addr & !7 } else { lock.addr };
            let is_open = told(primitive) && !own_word && open[wait_site];
            is_open.then_some((lock.space, addr, primitive))
        };
        let objects = behaviour::gather(engine, object);
        let roles: FxHashMap<_, _> = objects
            .iter()
            .map(|(key, waits)| match key.2 == Primitive::Condvar && behaviour::is_for_one(waits) {
                true => (*key, Behaviour::Queue),
                false => (*key, self.role(waits, key.2 == Primitive::Condvar)),
            })
            .collect();
        let alone: FxHashMap<_, _> =
            objects.iter().map(|(key, waits)| (*key, behaviour::is_among_waiters(engine, waits))).collect();
        // A condition may be slept on in one place, and waited for in another.
        let timed_sites: FxHashSet<WaitSiteId> =
            objects.values().flat_map(|waits| behaviour::timed_sites(waits)).collect();
        let among = |wait_site: WaitSiteId| object(wait_site).is_some_and(|key| alone.get(&key) == Some(&true));
        let mut judged = primitives.clone();
        let mut of_interpreters = engine.wait_sites.map(|_| None);
        for (wait_site, known) in judged.each_mut() {
            let Some(role) = object(wait_site).and_then(|key| roles.get(&key)) else { continue };
            let place = engine.wait_sites[wait_site].place;
            let call_path = self.lookup.call_path(place);
            let by_word = known.0 == Primitive::Unknown && behaviour::has_word_of_lock(engine, wait_site);
            let by_waiters = *role == Behaviour::Unclear && is_counted(known.0, &call_path) && among(wait_site);
            let shown = if *role == Behaviour::Unclear && by_word || by_waiters { Behaviour::Lock } else { *role };
            known.0 = by_behaviour(known.0, shown, &call_path);
            let shares_word = is_of_interpreter(&call_path) || is_of_atomics(&call_path);
            if shares_word && behaviour::is_own_word(engine, wait_site) {
                of_interpreters[wait_site] = Some(behaviour::callers(place, &self.lookup.lock_path(place)));
            }
            // Where nobody was seen to wake anybody, nor time to end a wait, the name has to do.
            let is_timed = *role == Behaviour::Timer || engine.is_sampled || timed_sites.contains(&wait_site);
            self.sleeps[wait_site] = is_timed && call_path.iter().any(is_sleep);
        }
        self.primitives = judged;
        self.judge_interpreters_words(&of_interpreters);
        for (sleeps, known) in self.sleeps.iter_mut().zip(self.known.iter()) {
            *sleeps |= *known == Some(RubyWait::Sleep);
        }
        self.judge_places();
        self.judge_own_words();
        self.judge_go();
    }

    /// Where threads wait for one of a few places, as for connections of a pool, their waits are told as one;
    /// elsewhere, who waits for a condition may as well wait for work.
    fn judge_places(&mut self) {
        use Primitive::{Condvar, Park, Semaphore, Unknown};
        let (primitives, sleeps) = (&self.primitives, &self.sleeps);
        let may = |wait_site: WaitSiteId| {
            matches!(primitives[wait_site].0, Condvar | Semaphore | Park | Unknown) && !sleeps[wait_site]
        };
        self.pools = places::find(self.lookup, may);
        for (known, pool) in self.primitives.iter_mut().zip(self.pools.of.iter()) {
            if let Some(pool) = pool {
                *known = (self.pools.all[*pool].primitive, true);
            }
        }
    }

    /// On one word of its own, a thread of an interpreter sleeps, waits for what the program makes it wait for, and
    /// waits for the interpreter's lock: Ruby keeps all in one place, V8 all of `Atomics.wait`, which with a timeout is
    /// the way to sleep there. Call paths tell these apart, over all threads.
    fn judge_interpreters_words(&mut self, callers: &Table<WaitSiteId, Option<behaviour::Callers>>) {
        let engine = self.lookup.engine;
        let all = behaviour::gather(engine, |wait_site| callers[wait_site]);
        let timers = all.into_iter().filter(|(_, waits)| behaviour::of(engine, waits, false) == Behaviour::Timer);
        let timers: FxHashSet<behaviour::Callers> = timers.map(|(callers, _)| callers).collect();
        for (sleeps, callers) in self.sleeps.iter_mut().zip(callers) {
            *sleeps |= callers.as_ref().is_some_and(|callers| timers.contains(callers));
        }
    }

    fn role(&mut self, waits: &[behaviour::Waited], is_condition: bool) -> Behaviour {
        let engine = self.lookup.engine;
        let role = behaviour::of(engine, waits, is_condition);
        let by_epoll = |place| leads_through(&self.lookup.call_path(place), |name| name.contains("epoll_"));
        let leads = role == Behaviour::Lock && behaviour::polls_in_holds(engine, waits).is_some_and(by_epoll);
        if leads { Behaviour::Queue } else { role }
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
    fn own_words(&mut self) -> Table<WaitSiteId, Option<(behaviour::Callers, Primitive)>> {
        use Primitive::{Condvar, Park, Unknown};
        let engine = self.lookup.engine;
        let mut keys = Table::default();
        for (wait_site, (primitive, own_word)) in self.primitives.each() {
            let is_open = self.known[wait_site].is_none() && !self.sleeps[wait_site];
            let may = !own_word && is_open && matches!(primitive, Park | Unknown | Condvar);
            let place = engine.wait_sites[wait_site].place;
            let call_path = if may && behaviour::is_own_word(engine, wait_site) {
                self.lookup.lock_path(place)
            } else {
                Arc::from([])
            };
            let told = if call_path.is_empty() { Arc::from([]) } else { self.lookup.call_path(place) };
            let keeps = !call_path.is_empty() && !told.iter().any(is_of_executor) && !waits_by_design(&told);
            let lock = if is_of_interpreter(&call_path) { Primitive::InterpreterLock } else { Primitive::OtherLock };
            keys.push(keeps.then(|| (behaviour::callers(place, &call_path), lock)));
        }
        keys
    }

    fn judge_queues(&mut self, keys: &Table<WaitSiteId, Option<(behaviour::Callers, Primitive)>>) {
        let engine = self.lookup.engine;
        let queues = behaviour::gather(engine, |wait_site| keys[wait_site].map(|(key, _)| key));
        // Of each lock, who stands in its queue. Others may wait in the same place for something else: an answer, say.
        let mut locks: FxHashMap<behaviour::Callers, FxHashSet<ThreadId>> = FxHashMap::default();
        for (key, waits) in queues {
            let queue = if self.is_lock(&waits) {
                waits
            } else {
                let passing = behaviour::among_those_who_pass_on(&waits);
                if passing.len() == waits.len() || !self.is_lock(&passing) {
                    continue;
                }
                passing
            };
            locks.insert(key, queue.iter().map(|wait| wait.thread).collect());
        }
        for (key, queue) in self.locks_by_name(keys) {
            locks.entry(key).or_default().extend(queue);
        }
        let semaphores = self.semaphores(keys);
        let known = self.primitives.iter_mut().zip(semaphores.iter());
        for ((key, (known, semaphore)), wait_site) in keys.iter().zip(known).zip(&engine.wait_sites) {
            let only = engine.locks[wait_site.lock].waiters.only();
            let stands =
                |key: &behaviour::Callers| locks.get(key).zip(only).is_some_and(|(queue, only)| queue.contains(&only));
            if *semaphore {
                *known = (Primitive::Semaphore, true);
            } else if let Some((_, lock)) = key.filter(|(key, _)| stands(key)) {
                *known = (lock, true);
            }
        }
    }

    /// Whether permits of Java's semaphores are waited for at a wait site. Where nothing tells what Java executed, most
    /// of what is known of the same process counts.
    fn semaphores(
        &mut self,
        keys: &Table<WaitSiteId, Option<(behaviour::Callers, Primitive)>>,
    ) -> Table<WaitSiteId, bool> {
        let engine = self.lookup.engine;
        // What is known of them: that it is a semaphore, or another thing.
        let mut known = engine.wait_sites.map(|_| None);
        let mut waits: FxHashMap<SpaceId, (u64, u64)> = FxHashMap::default();
        for (index, wait_site) in engine.wait_sites.each().filter(|(index, _)| keys[*index].is_some()) {
            let call_path = self.lookup.call_path(wait_site.place);
            let is_semaphore = acquires_shared(&call_path);
            let is_told = call_path.iter().any(|frame| frame.role == Role::Program && frame.file.is_some());
            if is_semaphore || is_told {
                known[index] = Some(is_semaphore);
                let count: u64 = wait_site.waiters.iter().map(|(_, time)| time.count).sum();
                let (semaphores, all) = waits.entry(wait_site.place.space).or_default();
                (*semaphores, *all) = (*semaphores + if is_semaphore { count } else { 0 }, *all + count);
            }
        }
        let mostly = |space: SpaceId| waits.get(&space).is_some_and(|(semaphores, all)| semaphores * 3 > all * 2);
        let mut found = engine.wait_sites.map(|_| false);
        for (index, wait_site) in engine.wait_sites.each().filter(|(index, _)| keys[*index].is_some()) {
            found[index] = known[index].unwrap_or_else(|| mostly(wait_site.place.space));
        }
        found
    }

    /// Whether threads that wait on words of their own stand in the queue of one lock.
    fn is_lock(&mut self, waits: &[behaviour::Waited]) -> bool {
        waits.len() >= OWN_WORD_WAITS
            && behaviour::is_passed_on(self.lookup.engine, waits)
            && self.role(waits, false) == Behaviour::Lock
    }

    /// Whoever has a lock of Java's and never waits for it is seen to wake others only. There, the names tell: those of
    /// waiters that stand in the queue of a lock that one thread has at a time.
    fn locks_by_name(
        &mut self,
        keys: &Table<WaitSiteId, Option<(behaviour::Callers, Primitive)>>,
    ) -> FxHashMap<behaviour::Callers, FxHashSet<ThreadId>> {
        let engine = self.lookup.engine;
        let mut locks: FxHashMap<behaviour::Callers, FxHashSet<ThreadId>> = FxHashMap::default();
        for (key, wait_site) in keys.iter().zip(&engine.wait_sites) {
            let Some((key, _)) = key else { continue };
            if acquires_alone(&self.lookup.call_path(wait_site.place)) {
                locks.entry(*key).or_default().extend(engine.locks[wait_site.lock].waiters.only());
            }
        }
        locks
    }

    /// A thread of an interpreter waits for its lock on one word, wherever it comes from and whether or not for a
    /// limited time: places that share a word are places of one queue.
    fn join_interpreters(&self, keys: &mut Table<WaitSiteId, Option<(behaviour::Callers, Primitive)>>) {
        let mut of_word: FxHashMap<LockId, behaviour::Callers> = FxHashMap::default();
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
        for (index, wait_site) in engine.wait_sites.each() {
            if wait_site.place_group.is_some() && golang::is_out_of_work(&self.lookup.call_path(wait_site.place)) {
                idle.push(index);
            }
        }
        let woken = |judge: &mut Judge, wait_site: WaitSiteId| {
            let group = &engine.groups[engine.wait_sites[wait_site].group];
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
            self.primitives[wait_site] = (Primitive::OtherLock, true);
        }
    }
}

/// Whether a lock is likely where all who run wait: a semaphore, or the condition that an interpreter's lock is
/// made of.
fn is_counted(primitive: Primitive, call_path: &[Frame]) -> bool {
    let in_kernel = |frame: &&Frame| matches!(frame.role, Role::Kernel | Role::Scheduler | Role::Lock);
    let asks = call_path.iter().find(|frame| !in_kernel(frame));
    match primitive {
        Primitive::Semaphore => true,
        Primitive::Condvar => asks.is_some_and(is_interpreter),
        _ => false,
    }
}

/// What a futex is, if threads do this with it. Where a name is certain, it stays.
fn by_behaviour(primitive: Primitive, role: Behaviour, call_path: &[Frame]) -> Primitive {
    use Primitive::*;
    match (primitive, role) {
        // Threads of Erlang's machine, each on a word of its own, until they have something to do.
        _ if is_event_of_beam(call_path) => Condvar,
        // Debian's Python names only what calls the function that waits.
        (Condvar, _) if leads_through(call_path, |name| ["take_gil", "PyEval_RestoreThread"].contains(&name)) => {
            InterpreterLock
        }
        (Condvar, Behaviour::Lock) if is_wait_of_machine(call_path) => Condvar,
        // Threads that run handlers of asio wake each other on.
        (Condvar, Behaviour::Lock) if leads_through(call_path, is_scheduler_of_asio) => Condvar,
        (Condvar | Park | OtherLock | Unknown, _) if is_barrier_of_java(call_path) => Barrier,
        // Go's scheduler waits here until something has happened, such as a collection's stop of all goroutines.
        (GoRuntime | Unknown | Park, Behaviour::Lock)
            if leads_through(call_path, |name| name.starts_with("runtime.note")) =>
        {
            GoRuntime
        }
        (Condvar | OtherLock | Unknown, Behaviour::Lock) if is_of_interpreter(call_path) => InterpreterLock,
        (Unknown | OtherLock | GoRuntime | Condvar | Park, Behaviour::Lock) => OtherLock,
        // An executor of Python's: its threads wait for work, or are told to end, each by the one before it.
        (Semaphore, _) if is_queue_of_python(call_path) || is_queue_of_processes(call_path) => Semaphore,
        (Semaphore, Behaviour::Lock) => SemaphoreLock,
        (OtherLock, Behaviour::Queue | Behaviour::Turn | Behaviour::Timer) => Unknown,
        (OtherLock | Unknown | Condvar | Semaphore, Behaviour::Barrier) => Barrier,
        (OtherLock | Unknown, Behaviour::Join) => Join,
        (primitive, _) => primitive,
    }
}

/// Whether `queue.SimpleQueue` is empty here: who waits for something in it has taken the semaphore and waits for it
/// again. The module of Debian's Python has no names of functions, and waits for nothing else.
fn is_queue_of_python(call_path: &[Frame]) -> bool {
    let is_module =
        |frame: &Frame| frame.module.rsplit('/').next().is_some_and(|file| file.starts_with("_queue.cpython-"));
    leads_through(call_path, |name| name.starts_with("_queue_SimpleQueue_get")) || call_path.iter().any(is_module)
}

/// Whether a process of Python's `multiprocessing` waits here for its turn to wait for work: one waits for what comes
/// through the pipe, the others behind its lock.
fn is_queue_of_processes(call_path: &[Frame]) -> bool {
    let gets = |frame: &Frame| {
        let of_queue = frame.file.as_deref().is_some_and(|file| file.ends_with("/multiprocessing/queues.py"));
        of_queue && frame.function.as_deref().is_some_and(|name| name == "get" || name.ends_with("Queue.get"))
    };
    call_path.iter().any(gets)
}

/// Whether a thread of .NET waits here for something else than a monitor's lock, by names that are certain: all waits
/// go through the same few functions.
fn is_wait_of_dot_net(call_path: &[Frame]) -> bool {
    let starts = |start: &'static str| {
        move |frame: &Frame| {
            frame.function.as_deref().is_some_and(|name| name.starts_with(start) && is_of_coreclr(frame))
        }
    };
    call_path.iter().any(starts("CorUnix::CPalSynchronizationManager::"))
        && !call_path.iter().any(starts("AwareLock::"))
}

/// Whether a lock of java.util.concurrent is waited for that one thread has at a time, and not anew after a condition.
fn acquires_alone(call_path: &[Frame]) -> bool {
    const QUEUE: &str = "java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire";
    let name = |frame: &Frame| frame.function.clone().unwrap_or_default();
    let acquires =
        |name: &str| name.strip_prefix(QUEUE).is_some_and(|rest| ["", "Queued", "Interruptibly"].contains(&rest));
    // Since 17 all ways lead through one function, also those of several at a time.
    let is_other = |name: &str| name.contains("ConditionObject.await") || name.contains("cquireShared");
    call_path.iter().any(|frame| acquires(&name(frame))) && !call_path.iter().any(|frame| is_other(&name(frame)))
}

/// Whether threads wait here for tasks: those of an executor park one after the other and wake each other on, without
/// any lock.
fn is_of_executor(frame: &Frame) -> bool {
    const STARTS: &[&str] = &[
        "runtime.",
        "tokio::",
        "rayon_core::",
        "crossbeam_",
        "async_executor::",
        "futures_executor::",
        "java.util.concurrent.ThreadPoolExecutor.getTask",
        "java.util.concurrent.ForkJoinPool.",
        "java.util.concurrent.FutureTask.get",
        "java.util.concurrent.CompletableFuture.",
    ];
    frame.function.as_deref().is_some_and(|name| STARTS.iter().any(|start| name.starts_with(start)))
}

/// Whether a thread waits here on a word of its own for something else than a lock, by a name that is certain.
fn waits_by_design(call_path: &[Frame]) -> bool {
    is_wait_of_machine(call_path)
        || is_condvar_of_musl(call_path)
        || is_wait_of_dot_net(call_path)
        || leads_through(call_path, is_meeting_of_java)
}

/// Whether threads of Java wait in a function of such a name for each other, by the queue that their locks have too.
fn is_meeting_of_java(name: &str) -> bool {
    const MEETINGS: [&str; 4] = ["CountDownLatch.await", "CyclicBarrier.", "Phaser.", "Exchanger."];
    let within = name.strip_prefix("java.util.concurrent.");
    within.is_some_and(|within| MEETINGS.iter().any(|start| within.starts_with(start)))
}

/// Whether a thread waits on a condition variable of musl: who waits there does so on a word in its own frame, and is
/// woken by the one before it.
fn is_condvar_of_musl(call_path: &[Frame]) -> bool {
    let calls = |pair: &[Frame]| {
        let [inner, outer] = [0, 1].map(|at| pair[at].function.as_deref().map(|name| name.trim_start_matches('_')));
        inner == Some("timedwait_cp") && outer == Some("pthread_cond_timedwait")
    };
    call_path.windows(2).any(calls)
}

/// Whether a thread of Erlang's machine waits here for an event, and not for one of its locks, which are made of such.
fn is_event_of_beam(call_path: &[Frame]) -> bool {
    let is_lock = |name: &str| name.starts_with("ethr_mutex_") || name.starts_with("ethr_rwmutex_");
    leads_through(call_path, |name| name.starts_with("ethr_event_")) && !leads_through(call_path, is_lock)
}

/// Whether a thread waits here until Java's machine wants something done: by a name that is certain, and for which no
/// lock is taken.
fn is_wait_of_machine(call_path: &[Frame]) -> bool {
    let waits = |frame: &Frame| frame.function.as_deref().is_some_and(|name| name.starts_with("Monitor::wait"));
    call_path.iter().any(|frame| waits(frame) && frame.module.ends_with("/libjvm.so"))
}

/// Whether a thread of Java waits here until the others have come as far: each parks on a word of its own.
fn is_barrier_of_java(call_path: &[Frame]) -> bool {
    const BARRIERS: [&str; 2] =
        ["java.util.concurrent.CyclicBarrier.dowait", "java.util.concurrent.Phaser.internalAwaitAdvance"];
    leads_through(call_path, |name| BARRIERS.contains(&name))
}

/// Whether a call path leads through the part of an interpreter that takes its lock.
fn is_of_interpreter(call_path: &[Frame]) -> bool {
    const PARTS: &[&str] =
        &["take_gil", "PyEval_RestoreThread", "PyEval_AcquireThread", "_PyEval_", "gvl_", "thread_sched_"];
    call_path.iter().any(|frame| {
        let named = frame.function.as_deref().is_some_and(|name| PARTS.iter().any(|part| name.contains(part)));
        named || is_interpreter(frame)
    })
}

/// Whether a call path leads through `Atomics.wait`.
fn is_of_atomics(call_path: &[Frame]) -> bool {
    leads_through(call_path, |name| name.starts_with("v8::internal::FutexEmulation::Wait"))
}

/// Whether it is the mutex that guards the word of Python's interpreter lock.
fn guards_gil(primitive: Primitive, call_path: &[Frame]) -> bool {
    primitive == Primitive::Mutex && leads_through(call_path, |name| ["take_gil", "drop_gil"].contains(&name))
}

/// Whether PyPy's own code, whose functions have no names, waits for a mutex or a condition variable. It has both for
/// its interpreter's lock, behind which threads queue, and semaphores for the program's locks.
fn is_lock_of_pypy(primitive: Primitive, call_path: &[Frame]) -> bool {
    let asks = call_path.iter().find(|frame| !matches!(frame.role, Role::Kernel | Role::Scheduler | Role::Lock));
    let is_pypy = |frame: &Frame| frame.module.rsplit('/').next().is_some_and(|file| file.starts_with("libpypy"));
    matches!(primitive, Primitive::Mutex | Primitive::Condvar) && asks.is_some_and(is_pypy)
}

/// Whether a frame is in the file of an interpreter.
pub(super) fn is_interpreter(frame: &Frame) -> bool {
    const PROGRAMS: &[&str] = &["python", "libpython", "ruby", "libruby", "pypy", "libpypy"];
    let file = frame.module.rsplit('/').next().unwrap_or_default();
    PROGRAMS.iter().any(|program| file.starts_with(program))
}

/// Whether this is a function of a lock whose threads each wait on a word of their own: parking_lot's, Java's monitors,
/// .NET's, Ruby's mutexes.
fn waits_on_own_word(frame: &Frame) -> bool {
    const PARTS: &[&str] = &["parking_lot", "ObjectMonitor::enter", "AwareLock::Enter", "rb_mutex_"];
    frame.function.as_deref().is_some_and(|function| PARTS.iter().any(|part| function.contains(part)))
}

/// Whether this is a function by which a runtime lets a thread sleep.
fn is_sleep(frame: &Frame) -> bool {
    frame.role != Role::Kernel && frame.function.as_deref().is_some_and(crate::names::is_sleep)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_the_scheduler_of_go_waits_for_is_no_lock() {
        let path = |function| [Frame::named("runtime.futex", Role::Lock), Frame::named(function, Role::Lock)];
        let of = |primitive, function| by_behaviour(primitive, Behaviour::Lock, &path(function));
        for primitive in [Primitive::GoRuntime, Primitive::Park, Primitive::Unknown] {
            assert_eq!(of(primitive, "runtime.notetsleep_internal"), Primitive::GoRuntime);
            assert_eq!(of(primitive, "runtime.lock2"), Primitive::OtherLock);
        }
    }

    #[test]
    fn an_executor_of_python_waits_for_work_though_its_module_has_no_names() {
        let take = |module: &str| {
            let lock = Frame::named("PyThread_acquire_lock_timed", Role::Lock);
            let get = Frame { module: module.into(), function: None, ..Frame::named("", Role::Program) };
            by_behaviour(Primitive::Semaphore, Behaviour::Lock, &[lock, get])
        };
        let library = "/usr/lib/python3.11/lib-dynload/_queue.cpython-311-x86_64-linux-gnu.so";
        assert_eq!(take(library), Primitive::Semaphore);
        assert_eq!(take("/srv/_queues.cpython-311-x86_64-linux-gnu.so"), Primitive::SemaphoreLock);
    }

    #[test]
    fn a_monitor_of_dot_net_is_waited_for_on_words_of_the_threads_own() {
        assert!(waits_on_own_word(&Frame::named("AwareLock::EnterEpilogHelper(Thread*, int)", Role::Runtime)));
        assert!(!waits_on_own_word(&Frame::named("SyncBlock::Wait(int, int)", Role::Runtime)), "it waits for a pulse");
    }

    #[test]
    fn waits_of_dot_net_are_for_a_lock_only_where_it_enters_a_monitor() {
        let path = |outer: &str| {
            let of = |name: &str| Frame { module: "/x/libcoreclr.so".into(), ..Frame::named(name, Role::Runtime) };
            [of("CorUnix::CPalSynchronizationManager::BlockThread"), of(outer)]
        };
        assert!(waits_by_design(&path("CLRLifoSemaphore::WaitForSignal")), "it waits for a task");
        assert!(!waits_by_design(&path("AwareLock::EnterEpilogHelper")));
    }

    #[test]
    fn processes_of_python_wait_for_work_behind_the_lock_of_their_pipe() {
        let take = |function: &str| {
            let file = Some("/usr/lib/python3.10/multiprocessing/queues.py".into());
            let queue = Frame { file, ..Frame::named(function, Role::Program) };
            by_behaviour(Primitive::Semaphore, Behaviour::Lock, &[Frame::named("sem_wait", Role::Lock), queue])
        };
        assert_eq!(["get", "SimpleQueue.get"].map(take), [Primitive::Semaphore; 2]);
        assert_eq!(take("put"), Primitive::SemaphoreLock, "who writes waits for who writes");
    }

    #[test]
    fn what_guards_the_interpreters_lock_is_part_of_it() {
        let path = ["pthread_mutex_lock", "drop_gil"].map(|name| Frame::named(name, Role::Lock));
        assert!(guards_gil(Primitive::Mutex, &path));
        assert!(!guards_gil(Primitive::Mutex, &path[..1]));
    }

    #[test]
    fn a_scheduler_of_erlang_that_has_nothing_to_do_waits_for_no_lock() {
        let path =
            |names: &[&str]| -> Vec<Frame> { names.iter().map(|name| Frame::named(name, Role::Runtime)).collect() };
        let idle = path(&["syscall", "ethr_event_twait", "erts_schedule"]);
        assert_eq!(by_behaviour(Primitive::RwLock, Behaviour::Lock, &idle), Primitive::Condvar);
        let lock = path(&["syscall", "ethr_event_wait", "ethr_mutex_lock_wait__", "erts_schedule"]);
        assert_eq!(by_behaviour(Primitive::Unknown, Behaviour::Lock, &lock), Primitive::OtherLock);
    }

    #[test]
    fn a_condition_variable_of_musl_is_no_lock() {
        let path = |names: [&str; 3]| names.map(|name| Frame::named(name, Role::Lock));
        assert!(waits_by_design(&path(["__syscall_cp_c", "__timedwait_cp", "pthread_cond_timedwait"])));
        assert!(!waits_by_design(&path(["futex_wait", "pthread_cond_timedwait", "os::PlatformEvent::park"])));
    }

    #[test]
    fn pypy_keeps_its_interpreters_lock_without_names() {
        let path = |library: &str, outer: &str| {
            let lock = Frame::named("pthread_mutex_lock", Role::Lock);
            let of = |module: &str| Frame { module: module.into(), ..Frame::named("f", Role::Program) };
            [lock, of(library), of(outer)]
        };
        let pypy = "/usr/lib/x86_64-linux-gnu/libpypy3.9-c.so";
        for primitive in [Primitive::Mutex, Primitive::Condvar] {
            assert!(is_lock_of_pypy(primitive, &path(pypy, "/usr/bin/pypy3")));
            assert!(!is_lock_of_pypy(primitive, &path("/usr/lib/libssl.so.3", pypy)), "a library's own lock");
        }
        assert!(!is_lock_of_pypy(Primitive::Semaphore, &path(pypy, pypy)), "the program's own lock");
    }

    #[test]
    fn a_lock_of_java_is_known_by_the_queue_that_its_waiters_stand_in() {
        let alone = |innermost: &str, outer: &str| {
            let frame = |name: String| Frame::named(&name, Role::Program);
            let name = |rest: &str| format!("java.util.concurrent.locks.AbstractQueuedSynchronizer{rest}");
            acquires_alone(&[frame(name(innermost)), frame(name(outer))])
        };
        assert!(alone(".acquire", "") && alone(".acquireQueued", ".acquire") && alone(".acquireInterruptibly", ""));
        assert!(!alone(".acquireShared", "") && !alone("", ""));
        assert!(!alone(".acquire", "$ConditionObject.await"), "it waits for its turn after it was signalled");
        for shared in [".acquireSharedInterruptibly", ".tryAcquireSharedNanos", ".acquireShared"] {
            assert!(!alone(".acquire", shared), "several may have it, as since 17");
        }
        let by_design = |outer: &str| waits_by_design(&[Frame::named(outer, Role::Program)]);
        assert!(by_design("java.util.concurrent.CountDownLatch.await"));
        assert!(by_design("java.util.concurrent.CyclicBarrier.dowait"));
        assert!(!by_design("java.util.concurrent.locks.ReentrantLock.lock"));
    }
}
