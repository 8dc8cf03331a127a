//! Pools of a few places, as of connections, whose callers wait until one is given back.
//!
//! Conditions of Python, .NET, Java and Ruby give each who waits a word of its own, so that all waits there are told by
//! the function of the program that waits. Places are those of which nearly always as many are taken while others wait:
//! those who wait are woken by each other, most of them wait, and the number of those who do not is steady. Of threads
//! that hand each other work, now more are busy and now fewer.
//!
//! Who takes a place again at once, before the one that it woke has run, may never wait: it is one of the callers if it
//! was found in the function that waits for a place, or in the one that calls it. So it is under an interpreter's lock.
//!
//! What threads of Java and Ruby execute in a wait is known of those that were looked at: others are for what those of
//! the same thread are that came from the same functions of the runtime.
//!
//! Who looks for a place and yields, before it waits for one, has none: on a busy machine that takes milliseconds.
//!
//! .NET compiles a method again when it was called often, and then within its caller: waits of what was called before,
//! and of its caller without it, are for the same.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::behaviour::{self, Callers, Waited};
use super::ids::{Table, ThreadId, WaitSiteId};
use super::lock::Place;
use super::lookup::Lookup;
use super::tally::Tally;
use crate::facts::Primitive;
use crate::names::interpreted::{self, RubyWait};
use crate::names::{Frame, JAVA, Role, leads_through};

/// A pool.
#[derive(Clone, Debug)]
pub(super) struct Pool {
    /// The function of the program that waits for a place.
    pub caller: Frame,
    pub primitive: Primitive,
    pub places: u64,
    /// Those who wait for one or have one.
    pub callers: Vec<ThreadId>,
}

/// All pools, and which each wait site is for.
#[derive(Debug, Default)]
pub(super) struct Pools {
    pub all: Vec<Pool>,
    pub of: Table<WaitSiteId, Option<usize>>,
}

/// So many distinct places of a thread are looked at for what it executed.
const MOST_STACKS: usize = 64;

/// The pools that threads wait for. `may` tells which wait sites are for a condition, as far as their functions tell.
pub(super) fn find(lookup: &mut Lookup, may: impl Fn(WaitSiteId) -> bool) -> Pools {
    let engine = lookup.engine;
    let mut waits = Waits { told: engine.wait_sites.map(|_| None), by_way: FxHashMap::default() };
    waits.look(lookup, may);
    waits.join_inlined();
    waits.count_ways(lookup);
    let keys = waits.keys(lookup);
    let mut found: FxHashMap<Callers, usize> = FxHashMap::default();
    let mut all = Vec::new();
    let mut gathered: Vec<(Callers, Vec<Waited>)> =
        behaviour::gather(engine, |wait_site| keys[wait_site]).into_iter().collect();
    gathered.sort_unstable_by_key(|(key, _)| *key);
    for (key, waited) in gathered {
        let told = || waits.told.iter().flatten().filter(|told| told.key == Some(key));
        let Some((caller, primitive)) = told().next().and_then(|told| told.condition.clone()) else { continue };
        let inside: FxHashSet<&Function> = told().flat_map(|told| &told.inside).collect();
        let at: FxHashSet<Callers> = told().filter_map(|told| told.own_key).collect();
        let yields = behaviour::yields(engine, &waited, |place| yields_at(lookup, place, &at));
        let Some(places) = behaviour::places(&waited, &yields, |thread| was_inside(lookup, thread, &inside)) else {
            continue;
        };
        found.insert(key, all.len());
        all.push(Pool { caller, primitive, places: places.places, callers: places.callers });
    }
    let of = keys.map(|key| key.and_then(|key| found.get(&key).copied()));
    Pools { all, of }
}

/// What is known of the waits at one wait site.
struct Told {
    /// The function of the program that waits for a condition, and what that is of.
    condition: Option<(Frame, Primitive)>,
    key: Option<Callers>,
    /// Its own, before it joined another's.
    own_key: Option<Callers>,
    /// Whether what the program executed is known.
    is_known: bool,
    /// The function that waits and the one that calls it, which may have a place meanwhile.
    inside: Vec<Function>,
    /// The key of the function that the one that waits may be compiled into.
    outer: Option<Callers>,
}

/// A function and its file.
type Function = (Arc<str>, Arc<str>);

/// How Ruby calls what a file executes outside of its methods.
const OUTERMOST: [&str; 2] = ["<main>", "<top (required)>"];

/// A thread and the functions of its runtime by which it waits.
type Way = (ThreadId, Callers);

struct Waits {
    told: Table<WaitSiteId, Option<Told>>,
    /// What waits that came the same way are for, and how often.
    by_way: FxHashMap<Way, Tally<Option<Callers>, u64>>,
}

impl Waits {
    fn look(&mut self, lookup: &mut Lookup, may: impl Fn(WaitSiteId) -> bool) {
        let engine = lookup.engine;
        for (index, told) in self.told.each_mut() {
            let wait_site = &engine.wait_sites[index];
            let place = wait_site.place;
            if !may(index) || wait_site.place_group.is_none() {
                continue;
            }
            let call_path = lookup.own_path(place);
            let condition = waits_for_condition(&call_path).map(|(frame, what)| (frame.clone(), what));
            let is_known = call_path.iter().any(is_known);
            let condition = condition.filter(|_| is_known);
            let inside = condition.as_ref().map_or_else(Vec::new, |(frame, _)| functions_inside(&call_path, frame));
            let key_of = |frame| behaviour::callers(place, std::slice::from_ref(frame));
            let key = condition.as_ref().map(|(frame, _)| key_of(frame));
            let outer = condition.as_ref().and_then(|(frame, _)| may_be_compiled_into(&call_path, frame)).map(key_of);
            let outer = outer.filter(|outer| Some(*outer) != key);
            *told = Some(Told { condition, key, own_key: key, is_known, inside, outer });
        }
    }

    /// Whose function may be compiled into one that waits, too, waits for the same, unless there are several of them.
    fn join_inlined(&mut self) {
        let mut inner: FxHashMap<Callers, Option<Callers>> = FxHashMap::default();
        for told in self.told.iter().flatten() {
            if let (Some(outer), Some(_)) = (told.outer, told.key) {
                let known = inner.entry(outer).or_insert(told.key);
                *known = known.filter(|known| Some(*known) == told.key);
            }
        }
        let innermost = |key: Callers| {
            // One that calls itself by way of others has none.
            let steps = std::iter::successors(Some(key), |key| inner.get(key).copied().flatten());
            steps.take(inner.len() + 1).last().filter(|found| *found != key && !inner.contains_key(found))
        };
        let waits: FxHashMap<Callers, _> = self
            .told
            .iter()
            .flatten()
            .filter_map(|told| Some((told.key?, (told.condition.clone(), told.inside.clone()))))
            .collect();
        for told in self.told.iter_mut().flatten() {
            if let Some(key) = told.key.and_then(innermost)
                && let Some((condition, inside)) = waits.get(&key)
            {
                (told.key, told.condition) = (Some(key), condition.clone());
                told.inside.extend(inside.iter().cloned());
            }
        }
    }

    fn count_ways(&mut self, lookup: &mut Lookup) {
        let engine = lookup.engine;
        for (index, told) in self.told.each() {
            let Some(told) = told.as_ref().filter(|told| told.is_known) else { continue };
            if let Some(way) = way(lookup, index) {
                let count: u64 = engine.wait_sites[index].waiters.iter().map(|(_, time)| time.count).sum();
                *self.by_way.entry(way).or_default().at(told.key) += count;
            }
        }
    }

    /// What each wait site is for, if it is for a condition.
    fn keys(&self, lookup: &mut Lookup) -> Table<WaitSiteId, Option<Callers>> {
        let mut keys = self.told.map(|told| told.as_ref().and_then(|told| told.key));
        for (index, key) in keys.each_mut() {
            if self.told[index].as_ref().is_some_and(|told| !told.is_known) {
                *key = way(lookup, index).and_then(|way| self.by_way.get(&way)).and_then(mostly);
            }
        }
        keys
    }
}

/// What two of three waits are for.
fn mostly(waits: &Tally<Option<Callers>, u64>) -> Option<Callers> {
    let all: u64 = waits.iter().map(|(_, count)| count).sum();
    waits.iter().find(|(_, count)| *count * 3 >= all * 2).and_then(|(key, _)| *key)
}

/// How the thread whose word it is came to wait at a wait site.
fn way(lookup: &mut Lookup, wait_site: WaitSiteId) -> Option<Way> {
    let engine = lookup.engine;
    let place = engine.wait_sites[wait_site].place;
    let thread = engine.locks[engine.wait_sites[wait_site].lock].waiters.only()?;
    Some((thread, behaviour::callers(place, &lookup.lock_path(place))))
}

/// Whether this is a function of the program. What Java's machine compiled does not tell what was inlined.
fn is_known(frame: &Frame) -> bool {
    frame.role == Role::Program && frame.function.is_some() && *frame.module != *JAVA
}

/// The function that waits, and who calls it; not the one that the thread began with, as others may have begun with it,
/// nor a script's outermost, from which all of its threads come.
fn functions_inside(call_path: &[Frame], waits: &Frame) -> Vec<Function> {
    let own = call_path.iter().filter(|frame| is_known(frame)).skip_while(|frame| *frame != waits);
    let mut functions: Vec<Function> = own.filter_map(function).collect();
    if functions.len() > 1 {
        functions.pop();
    }
    functions.retain(|(method, _)| !OUTERMOST.contains(&&**method));
    functions.dedup();
    functions.truncate(2);
    functions
}

/// The function of a frame; of a block of Ruby, the method that it is in.
fn function(frame: &Frame) -> Option<Function> {
    let name = frame.function.clone()?;
    let method = name.strip_prefix("block ").and_then(|rest| rest.split_once("in ")).map(|(_, method)| method.into());
    Some((method.unwrap_or(name), frame.module.clone()))
}

/// Whether a thread yields here before it waits for a place, in one of the functions with these keys.
fn yields_at(lookup: &mut Lookup, place: Place, waits: &FxHashSet<Callers>) -> bool {
    let call_path = lookup.own_path(place);
    let own = call_path.iter().find(|frame| is_own(frame));
    own.is_some_and(|frame| waits.contains(&behaviour::callers(place, std::slice::from_ref(frame))))
}

/// Whether a thread was found in one of these functions.
fn was_inside(lookup: &mut Lookup, thread: ThreadId, inside: &FxHashSet<&Function>) -> bool {
    let engine = lookup.engine;
    let thread = &engine.threads[thread];
    let mut stacks: FxHashSet<_> = FxHashSet::default();
    for stack in thread.log.stays().iter().filter_map(|stay| stay.stack) {
        if stacks.len() < MOST_STACKS && stacks.insert(stack) {
            let call_path = lookup.own_path(Place { space: thread.space, stack: Some(stack) });
            if call_path.iter().filter_map(function).any(|function| inside.contains(&function)) {
                return true;
            }
        }
    }
    false
}

/// The function of the program that waits for a condition of Python's `threading`, a monitor of .NET, a condition or a
/// hand-over of Java, a condition or a queue of Ruby, of which queues, semaphores and pools are made; and what it waits
/// for.
fn waits_for_condition(call_path: &[Frame]) -> Option<(&Frame, Primitive)> {
    let waits = |frame: &Frame| match frame.function.as_deref() {
        // Names without their class are those of 3.10 and before.
        Some("Condition.wait" | "wait") => frame.file.as_deref().is_some_and(|file| file.ends_with("/threading.py")),
        Some(name) => name.starts_with("SyncBlock::Wait") && is_of_coreclr(frame) || is_condition_of_java(name),
        None => false,
    };
    let of_ruby = || interpreted::ruby_wait(call_path).filter(|wait| *wait == RubyWait::Event).map(|_| 0);
    let at = call_path.iter().position(waits).or_else(of_ruby)?;
    let (inner, outer) = call_path[at..].split_at(call_path[at..].iter().position(is_own)?);
    // Who waits for the end of a thread waits on its monitor.
    let is_join = leads_through(inner, |name| name == "java.lang.Thread.join");
    let primitive = if acquires_shared(inner) { Primitive::Semaphore } else { Primitive::Condvar };
    outer.first().filter(|_| !is_join).map(|frame| (frame, primitive))
}

/// Whether this is a function of the program, and not of .NET's library.
fn is_own(frame: &Frame) -> bool {
    let of_system = frame.function.as_deref().is_none_or(|name| name.starts_with("System."));
    frame.role == Role::Program && !of_system
}

/// The function of the program that calls the one that waits, where the runtime may compile that into it and tell
/// nobody.
fn may_be_compiled_into<'p>(call_path: &'p [Frame], waits: &Frame) -> Option<&'p Frame> {
    let of_dot_net = call_path.iter().any(is_of_coreclr);
    let outer = || call_path.iter().filter(|frame| is_own(frame)).skip_while(|frame| *frame != waits).nth(1);
    of_dot_net.then(outer).flatten()
}

/// Whether a frame is in the runtime of .NET.
pub(super) fn is_of_coreclr(frame: &Frame) -> bool {
    frame.module.ends_with("/libcoreclr.so")
}

/// Whether this function of Java's library waits for a condition, a permit, a notification, or until another thread
/// hands over or takes something. Waits for a lock, a task or its result lead through others.
fn is_condition_of_java(name: &str) -> bool {
    const WAITS: &[&str] = &[
        "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await",
        "java.util.concurrent.locks.AbstractQueuedLongSynchronizer$ConditionObject.await",
        "java.util.concurrent.SynchronousQueue",
        "java.util.concurrent.LinkedTransferQueue.",
        "java.lang.Object.wait",
    ];
    WAITS.iter().any(|start| name.starts_with(start)) || is_permit(name)
}

/// Whether a permit of Java's semaphore is waited for.
pub(super) fn acquires_shared(call_path: &[Frame]) -> bool {
    leads_through(call_path, is_permit)
}

fn is_permit(name: &str) -> bool {
    const SEMAPHORE: [&str; 2] =
        ["java.util.concurrent.Semaphore.acquire", "java.util.concurrent.Semaphore.tryAcquire"];
    SEMAPHORE.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_for_a_condition_is_the_programs_function() {
        let frame = |name: &str, role, module: &str, file: Option<&str>| Frame {
            module: module.into(),
            file: file.map(Into::into),
            ..Frame::named(name, role)
        };
        let python = |condition: &str, file: &str| {
            let waits = frame(condition, Role::Lock, "python", Some(file));
            let get = frame("Queue.get", Role::Lock, "python", Some("/lib/queue.py"));
            [waits, get, frame("Pool.take", Role::Program, "python", Some("/srv/shop.py"))]
        };
        let asks = |path: &[Frame]| {
            waits_for_condition(path).and_then(|(found, _)| found.function.as_deref().map(str::to_owned))
        };
        assert_eq!(asks(&python("Condition.wait", "/lib/threading.py")).as_deref(), Some("Pool.take"));
        assert_eq!(asks(&python("wait", "/lib/threading.py")).as_deref(), Some("Pool.take"), "before 3.11");
        assert_eq!(asks(&python("wait", "/srv/shop.py")), None);
        let waits = frame("SyncBlock::Wait(int, int)", Role::Runtime, "/x/libcoreclr.so", None);
        let system = frame("System.Threading.SemaphoreSlim.Wait", Role::Program, "[generated code]", None);
        let own = frame("Shop.Pool.Take", Role::Program, "[generated code]", None);
        assert_eq!(asks(&[waits, system, own]).as_deref(), Some("Shop.Pool.Take"));
        let java = |inner: &str, outer: &str| {
            let name = |name: &str, role| frame(name, role, "[java]", Some("X.java"));
            [name(inner, Role::Lock), name(outer, Role::Runtime), name("Shop.take", Role::Program)]
        };
        const AWAIT: &str = "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.awaitNanos";
        let taken = java(AWAIT, "java.util.concurrent.ArrayBlockingQueue.take");
        assert_eq!(asks(&taken).as_deref(), Some("Shop.take"));
        assert_eq!(asks(&java("java.lang.Object.wait", "java.lang.Thread.join")), None, "it waits for a thread's end");
        assert_eq!(asks(&java("java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire", "a")), None, "a lock");
        let ruby = |method: &str| {
            let of = |name: &str, role, file: &str| frame(name, role, file, Some(file));
            [of(method, Role::Lock, "<internal:c>"), of("checkout", Role::Program, "/srv/shop.rb")]
        };
        assert_eq!(asks(&ruby("pop")).as_deref(), Some("checkout"));
        assert_eq!(asks(&ruby("synchronize")), None);
    }

    #[test]
    fn what_dotnet_compiles_into_its_caller_waits_for_the_same() {
        let coreclr = Frame { module: "/x/libcoreclr.so".into(), ..Frame::named("SyncBlock::Wait", Role::Runtime) };
        let path = |names: &[&str]| {
            let own = names.iter().map(|name| Frame::named(name, Role::Program));
            std::iter::once(coreclr.clone()).chain(own).collect::<Vec<_>>()
        };
        let outer = |path: &[Frame]| may_be_compiled_into(path, &path[1]).and_then(|frame| frame.function.clone());
        let whole = path(&["Pool.Borrow", "System.Action.Invoke", "Shop.Serve"]);
        assert_eq!(outer(&whole).as_deref(), Some("Shop.Serve"));
        assert_eq!(outer(&path(&["Shop.Serve"])), None);
        assert_eq!(may_be_compiled_into(&whole[1..], &whole[1]), None, "no runtime that does so");
        let (borrow, lend, serve) = ((Default::default(), 1), (Default::default(), 2), (Default::default(), 3));
        let told = |name: &str, key, outer| {
            let condition = Some((Frame::named(name, Role::Program), Primitive::Condvar));
            let key = Some(key);
            Some(Told { condition, key, own_key: key, is_known: true, inside: Vec::new(), outer })
        };
        let joined = |all: Vec<Option<Told>>| {
            let mut waits = Waits { told: Table::default(), by_way: FxHashMap::default() };
            all.into_iter().for_each(|told| {
                waits.told.push(told);
            });
            waits.join_inlined();
            let told = waits.told.iter().flatten();
            told.map(|told| told.condition.as_ref().unwrap().0.function.clone().unwrap().to_string())
                .collect::<Vec<_>>()
        };
        let both = vec![told("Serve", serve, None), told("Borrow", borrow, Some(serve))];
        assert_eq!(joined(both), ["Borrow", "Borrow"]);
        let calls = |name: &str, key| told(name, key, Some(serve));
        let two = vec![told("Serve", serve, None), calls("Borrow", borrow), calls("Lend", lend)];
        assert_eq!(joined(two), ["Serve", "Borrow", "Lend"], "nobody knows which");
        let circle = vec![calls("Borrow", borrow), told("Serve", serve, Some(borrow))];
        assert_eq!(joined(circle), ["Borrow", "Serve"]);
    }

    #[test]
    fn who_has_a_place_is_in_the_function_that_waits_or_in_its_caller() {
        let of = |names: &[&str]| {
            let path: Vec<Frame> = names.iter().map(|name| Frame::named(name, Role::Program)).collect();
            let inside = functions_inside(&path, &path[0]).into_iter();
            inside.map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(of(&["Pool.take", "serve", "run"]), ["Pool.take", "serve"]);
        assert_eq!(of(&["consume", "run"]), ["consume"], "those who produce were started by it, too");
        assert_eq!(of(&["run"]), ["run"]);
        let blocks = ["block (2 levels) in pop", "block in pop", "pop", "with_redis", "get", "block in <main>"];
        assert_eq!(of(&blocks), ["pop", "with_redis"]);
        assert_eq!(of(&["pop", "get", "block in <main>"]), ["pop", "get"]);
        let script = ["block (2 levels) in <main>", "block in <main>"];
        assert!(of(&script).is_empty(), "each of its threads is in a block of the script");
    }

    #[test]
    fn a_semaphore_of_java_is_known_by_name() {
        let path =
            |outer: &str| [Frame::named("jdk.internal.misc.Unsafe.park", Role::Lock), Frame::named(outer, Role::Lock)];
        assert!(acquires_shared(&path("java.util.concurrent.Semaphore.acquireUninterruptibly")));
        assert!(acquires_shared(&path("java.util.concurrent.Semaphore.tryAcquire")));
        assert!(!acquires_shared(&path("java.util.concurrent.CountDownLatch.await")));
    }
}
