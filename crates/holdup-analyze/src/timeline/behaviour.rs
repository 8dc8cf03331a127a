//! What a futex is, told by what threads do with it. Names of functions only give it its name.
//!
//! From the waits at one address, with who ended each, a role follows:
//!
//! - **lock**: those who wake also wait, and between its return from a wait and its next wake each thread has it alone:
//!   these stretches of different threads exclude each other;
//! - **barrier**: one wake ends all waits, and those who wake also wait; of two threads, either is often the first to
//!   wait, and again without having woken the other;
//! - **turn**: two threads in strict alternation, each waiting as soon as it has woken the other;
//! - **queue**: wakers do not wait there, or what look like holders work side by side (work stealing, a limit on how
//!   many);
//! - **join**: the one wait ends as a thread ends; **timer**: waits end by their timeout.
//!
//! A few waits tell nothing: then the name decides.

use rustc_hash::{FxHashMap, FxHashSet};

use super::doing::{Doing, NONE, TIMEOUT};
use super::engine::Engine;
use super::lock::Place;
use super::log::is_thread;

/// What threads do with a futex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Behaviour {
    /// One thread at a time has it.
    Lock,
    /// Some threads work for others that wait.
    Queue,
    /// Two threads in alternation.
    Turn,
    /// The last to come wakes all.
    Barrier,
    /// The end of a thread ends the wait.
    Join,
    /// Time ends the wait.
    Timer,
    /// Too little was seen.
    Unclear,
}

/// Of a futex that is waited on more often, a stretch of time with about so many waits is looked at.
const MOST_WAITS: usize = 8_192;
/// Fewer waits whose end is known tell nothing.
const LEAST_WAITS: usize = 4;
/// Most waits are ended by threads that wait there too.
const LEAST_MUTUAL: f64 = 0.6;
/// Stretches of different holders may overlap by so much: a wake is recorded when its call returns.
const MOST_OVERLAP: f64 = 0.2;
/// Of two threads, one that has a lock wakes the other for so many of its waits at least.
const LEAST_PASSED_ON: f64 = 0.6;
/// Where a lock goes to whoever comes first, so many who are woken for it find it taken and wait again,
const LEAST_BARGED: f64 = 0.25;
/// and so many of the others pass it on.
const LEAST_PASSED_BY_ALL: f64 = 0.9;
/// Wakes by one thread within this time are one call.
const ONE_CALL_NS: u64 = 100_000;
/// Who is woken in vain waits again at once.
const AT_ONCE_NS: u64 = 20_000;
/// Who hands over a turn waits for the next as soon as its call to wake the other is over.
const TURN_NS: u64 = 30_000;
/// A thread whose end ends a wait ends within this time of it.
const ENDS_NS: u64 = 2_000_000;

/// One wait at a futex.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    thread: u32,
    from: u64,
    to: u64,
    waker: u32,
    at: u64,
}

/// The waits of every wait site, gathered by what `key` says is one object.
pub(super) fn gather<K: std::hash::Hash + Eq>(
    engine: &Engine,
    key: impl Fn(u32) -> Option<K>,
) -> FxHashMap<K, Vec<Waited>> {
    let mut all: FxHashMap<K, Vec<Waited>> = FxHashMap::default();
    for (thread, life) in (0..).zip(&engine.threads) {
        for stay in life.log.stays() {
            let Doing::Futex(wait_site) = stay.doing() else { continue };
            let Some(key) = key(wait_site) else { continue };
            let wait = Waited { thread, from: stay.from, to: stay.to, waker: stay.waker, at: stay.woken() };
            all.entry(key).or_default().push(wait);
        }
    }
    for waits in all.values_mut() {
        waits.sort_unstable_by_key(|wait| (wait.at, wait.thread));
        if waits.len() > MOST_WAITS {
            let from = (waits.len() - MOST_WAITS) / 2;
            *waits = waits[from..from + MOST_WAITS].to_vec();
        }
    }
    all
}

/// The role that these waits show. `waits` are in order of their ends.
pub(super) fn of(engine: &Engine, waits: &[Waited]) -> Behaviour {
    if waits.iter().all(|wait| ends_with_a_thread(engine, wait)) && !waits.is_empty() {
        return Behaviour::Join;
    }
    let timeouts = waits.iter().filter(|wait| wait.waker == TIMEOUT).count();
    let known: Vec<Waited> = waits.iter().filter(|wait| is_thread(wait.waker)).copied().collect();
    if timeouts >= LEAST_WAITS && known.len() * 10 <= timeouts {
        return Behaviour::Timer;
    }
    if known.len() < LEAST_WAITS {
        return Behaviour::Unclear;
    }
    let waiters: FxHashSet<u32> = waits.iter().map(|wait| wait.thread).collect();
    let mutual = known.iter().filter(|wait| waiters.contains(&wait.waker)).count();
    if (mutual as f64) < LEAST_MUTUAL * known.len() as f64 {
        return Behaviour::Queue;
    }
    if waiters.len() >= 3 && wakes_all(&known, waits) {
        return Behaviour::Barrier;
    }
    if waiters.len() == 2 && alternates(&known) {
        return Behaviour::Turn;
    }
    let holds = Holds::of(waits);
    // Of two threads, whoever was woken wakes the other before it waits again, if what they want is a lock for which
    // they wait often: at a barrier, either may be the first again.
    if waiters.len() == 2 && !holds.are_passed_on(LEAST_PASSED_ON) {
        return Behaviour::Barrier;
    }
    if waiters.len() >= 3 && holds.are_barged() {
        return Behaviour::Lock;
    }
    match holds.are_alone() {
        Some(true) => Behaviour::Lock,
        Some(false) => Behaviour::Queue,
        None => Behaviour::Unclear,
    }
}

/// Whether a thread of the same process that never waited here ends as the wait does.
fn ends_with_a_thread(engine: &Engine, wait: &Waited) -> bool {
    ending_thread(engine, wait.thread, wait.from, wait.to).is_some()
}

/// The thread whose end ended the wait.
pub(super) fn ending_thread(engine: &Engine, waiter: u32, from: u64, to: u64) -> Option<u32> {
    let pid = engine.threads[waiter as usize].pid;
    let ended = |thread: &super::thread::Thread| {
        thread.exited && thread.pid == pid && thread.last > from && thread.last.abs_diff(to) <= ENDS_NS
    };
    let all = (0..).zip(&engine.threads).filter(|(index, thread)| *index != waiter && ended(thread));
    all.min_by_key(|(_, thread)| thread.last.abs_diff(to)).map(|(index, _)| index)
}

/// Whether calls end all waits that there are, and mostly several.
fn wakes_all(known: &[Waited], waits: &[Waited]) -> bool {
    let (mut calls, mut whole, mut woken) = (0_u32, 0_u32, 0_u32);
    let mut at = 0;
    while at < known.len() {
        let first = known[at];
        let same = |wait: &&Waited| wait.waker == first.waker && wait.at - first.at <= ONE_CALL_NS;
        let len = known[at..].iter().take_while(same).count();
        let last = known[at + len - 1].at;
        let left = waits.iter().filter(|wait| wait.from < first.at && wait.at > last).take(1).count();
        calls += 1;
        woken += len as u32;
        whole += u32::from(left == 0 && len >= 2);
        at += len;
    }
    whole * 10 >= calls * 7 && woken >= calls * 3 / 2
}

/// Whether two threads wake each other in turn, and each waits as soon as it has woken the other.
fn alternates(known: &[Waited]) -> bool {
    let pairs = known.windows(2);
    let turns = pairs.clone().filter(|pair| pair[1].waker == pair[0].thread).count();
    let at_once = pairs
        .clone()
        .filter(|pair| pair[1].thread == pair[0].waker && pair[1].from.saturating_sub(pair[0].at) <= TURN_NS)
        .count();
    turns * 20 >= pairs.len() * 19 && at_once * 10 >= pairs.len() * 8
}

/// Whether most who are woken wake another before they wait again.
pub(super) fn is_passed_on(waits: &[Waited]) -> bool {
    Holds::of(waits).are_passed_on(0.5)
}

/// What looks like holding a lock.
struct Holds {
    /// From the return of each wait to the thread's next wake, if it wakes before it waits again.
    stretches: Vec<(u64, u64)>,
    /// How many waits were not in vain: in the others the thread waits again at once, for another took what it was
    /// woken for.
    waits: usize,
    /// How many waits there were.
    all: usize,
}

impl Holds {
    fn of(waits: &[Waited]) -> Self {
        #[derive(Default)]
        struct Deeds {
            waits: Vec<(u64, u64)>,
            wakes: Vec<u64>,
        }
        let mut of_thread: FxHashMap<u32, Deeds> = FxHashMap::default();
        for wait in waits {
            of_thread.entry(wait.thread).or_default().waits.push((wait.from, wait.to));
            if is_thread(wait.waker) {
                of_thread.entry(wait.waker).or_default().wakes.push(wait.at);
            }
        }
        let mut holds = Self { stretches: Vec::new(), waits: waits.len(), all: waits.len() };
        for Deeds { waits: own, wakes } in of_thread.values() {
            for (index, (_, to)) in own.iter().enumerate() {
                let next_wait = own.get(index + 1).map_or(u64::MAX, |(from, _)| *from);
                let next_wake = wakes.partition_point(|at| at <= to);
                if let Some(at) = wakes.get(next_wake).filter(|at| **at <= next_wait.saturating_add(ONE_CALL_NS)) {
                    holds.stretches.push((*to, *at));
                } else if next_wait.saturating_sub(*to) <= AT_ONCE_NS {
                    holds.waits -= 1;
                }
            }
        }
        holds.stretches.sort_unstable();
        holds
    }

    /// Whether at least this share of those who are woken wake another before they wait again.
    fn are_passed_on(&self, least: f64) -> bool {
        self.stretches.len() as f64 >= least * self.waits as f64
    }

    /// Whether many are woken in vain, for a thread that did not wait was faster, and nearly all others wake the next.
    /// Who released without anybody to wake then seems to have the thing until it wakes one: whether threads have it
    /// one at a time cannot be told.
    fn are_barged(&self) -> bool {
        (self.all - self.waits) as f64 >= LEAST_BARGED * self.all as f64 && self.are_passed_on(LEAST_PASSED_BY_ALL)
    }

    /// Whether threads have the thing one at a time. `None` if that is hardly seen.
    fn are_alone(&self) -> Option<bool> {
        // Who is woken for work hardly ever wakes another before it waits again.
        if self.stretches.len() < 3 || self.stretches.len() * 8 < self.waits {
            return (self.all >= 3 * LEAST_WAITS).then_some(false);
        }
        let (mut sum, mut covered, mut end) = (0, 0, 0);
        for (from, to) in &self.stretches {
            sum += to - from;
            covered += to.saturating_sub(end.max(*from));
            end = end.max(*to);
        }
        Some((sum - covered) as f64 <= MOST_OVERLAP * sum.max(1) as f64)
    }
}

/// What tells waits on words of the threads' own apart: the innermost part of the call path.
pub(super) type Callers = (crate::names::SpaceId, u64);

/// Whether only one thread ever waited at the address of this wait site.
pub(super) fn is_own_word(engine: &Engine, wait_site: u32) -> bool {
    let wait_site = &engine.wait_sites[wait_site as usize];
    let only = engine.locks[wait_site.lock as usize].only_waiter;
    wait_site.place.stack != NONE && is_thread(only)
}

/// The innermost frames of a call path as one number.
pub(super) fn callers(place: Place, call_path: &[crate::Frame]) -> Callers {
    use std::hash::{BuildHasher, Hash, Hasher};
    const FRAMES: usize = 6;
    let mut hasher = rustc_hash::FxBuildHasher.build_hasher();
    let user = call_path
        .iter()
        .filter(|frame| !matches!(frame.role, crate::names::Role::Kernel | crate::names::Role::Scheduler));
    for frame in user.take(FRAMES) {
        match &frame.function {
            Some(function) => (&frame.module, function).hash(&mut hasher),
            None => (&frame.module, frame.start).hash(&mut hasher),
        }
    }
    (place.space, hasher.finish())
}
