//! What a futex is, told by what threads do with it. Names of functions only give it its name.
//!
//! From the waits at one address, with who ended each, a role follows:
//!
//! - **lock**: those who wake also wait, and between its return from a wait and its next wake each thread has it alone:
//!   these stretches of different threads exclude each other;
//! - **barrier**: one wake ends all waits (one call, not several in a row), and those who wake also wait; of two
//!   threads, either is often the first to wait, and again without having woken the other;
//! - **turn**: two threads in strict alternation, each waiting as soon as it has woken the other;
//! - **queue**: wakers do not wait there, or what look like holders work side by side (work stealing, a limit on how
//!   many), or all are woken for a condition that only some find;
//! - **join**: the one wait ends as a thread ends; **timer**: waits end by their timeout.
//!
//! What looks like a lock, but who has it waits for events by epoll most of the time, is the turn to lead: of several
//! threads that wait for work, one does so in the kernel, and wakes the next to do so before it handles what came.
//!
//! So is a condition variable that one thread nearly always waits for and others nearly never: they have work for it.
//!
//! A lock that is mostly taken by who comes by while others wait is told by its word: looks find it held, and no count.
//!
//! A few waits tell nothing: then the name decides.

use rustc_hash::{FxHashMap, FxHashSet};

use super::doing::{Doing, Plain, Waker};
use super::engine::Engine;
use super::ids::{ThreadId, WaitSiteId};
use super::lock::{Group, Place, Waiters, Words};
use super::log::Stay;
use crate::names::{Frame, Role};
use crate::spans::time_by_count;

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
/// Fewer looks at a word tell nothing.
const LEAST_LOOKS: u64 = 20;
/// Most waits are ended by threads that wait there too.
const LEAST_MUTUAL: f64 = 0.6;
/// Where many are woken in vain and most of the time that is waited for goes by until a thread wakes that never waits,
/// that one hands out work, and those it wakes pass on that there may be more.
const LEAST_MUTUAL_TIME: f64 = 0.4;
/// Stretches of different holders may overlap by so much: a wake is recorded when its call returns.
const MOST_OVERLAP: f64 = 0.2;
/// Where many are woken in vain, what those have who barge in is not seen: of two at a time, that is most of it.
const MOST_OVERLAP_IN_VAIN: f64 = 0.08;
/// Of two threads, one that has a lock wakes the other for so many of its waits at least.
const LEAST_PASSED_ON: f64 = 0.6;
/// Where a lock goes to whoever comes first, so many who are woken for it find it taken and wait again,
const LEAST_BARGED: f64 = 0.25;
/// and so many of the others pass it on.
const LEAST_PASSED_BY_ALL: f64 = 0.9;
/// Of a condition variable, few are locks: so many who are woken wake another before they wait again.
const LEAST_PASSED_OF_CONDITION: f64 = 1.0 / 3.0;
/// Where a release wakes all, so many find it taken. Of a condition, whose mutex they have to take as well, it is less.
const LEAST_FEW: f64 = 0.4;
/// A limit on how many have a thing is no lock, though many are woken for it in vain: of two that have it, each has the
/// other beside it, half of what both have it.
const LEAST_SHARED: f64 = 0.3;
/// Wakes by one thread within this time are one call.
const ONE_CALL_NS: u64 = 100_000;
/// Who is woken in vain waits again at once.
const AT_ONCE_NS: u64 = 20_000;
/// Who hands over a turn waits for the next as soon as its call to wake the other is over.
const TURN_NS: u64 = 50_000;
/// Where a few of many get what all were woken for, they keep it for so many times as long.
const LEAST_KEPT: u64 = 4;
/// Who waits again so much sooner than those who got it keep it found it taken: an interpreter takes its time to look.
const SOON_ONE_IN: u64 = 20;
/// For so much of the time in which threads wait for one of a few places, as many do, but for one.
const LEAST_STEADY: f64 = 0.8;
/// A thread whose end ends a wait ends within this time of it.
const ENDS_NS: u64 = 2_000_000;

/// Of the CPU time, threads that do not wait have at most such a part.
const OTHERS_ONE_IN: u64 = 25;
/// They leave the CPU so much more rarely.
const OTHERS_RUNS_ONE_IN: usize = 10;

/// One wait at a futex.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waited {
    pub(super) thread: ThreadId,
    wait_site: WaitSiteId,
    from: u64,
    to: u64,
    waker: Option<Waker>,
    at: u64,
}

impl Waited {
    /// The thread that ended it, if one did.
    fn waking_thread(&self) -> Option<ThreadId> {
        self.waker?.thread()
    }

    fn is_ended_by(&self, threads: &FxHashSet<ThreadId>) -> bool {
        self.waking_thread().is_some_and(|waker| threads.contains(&waker))
    }
}

/// The waits of threads that wake others here at least a quarter as often as they wait.
pub(super) fn among_those_who_pass_on(waits: &[Waited]) -> Vec<Waited> {
    let mut counts: FxHashMap<ThreadId, (u64, u64)> = FxHashMap::default();
    for wait in waits {
        counts.entry(wait.thread).or_default().0 += 1;
        if let Some(waker) = wait.waking_thread() {
            counts.entry(waker).or_default().1 += 1;
        }
    }
    let passes_on = |wait: &&Waited| {
        let (waits, wakes) = counts[&wait.thread];
        wakes * 4 >= waits
    };
    waits.iter().filter(passes_on).copied().collect()
}

/// The wait sites where nearly all waits end by their timeouts.
pub(super) fn timed_sites(waits: &[Waited]) -> Vec<WaitSiteId> {
    let mut counts: FxHashMap<WaitSiteId, (usize, usize)> = FxHashMap::default();
    for wait in waits {
        let (all, timeouts) = counts.entry(wait.wait_site).or_default();
        *all += 1;
        *timeouts += usize::from(wait.waker == Some(Waker::Timeout));
    }
    let timed = |(all, timeouts): (usize, usize)| timeouts >= LEAST_WAITS && (all - timeouts) * 10 <= timeouts;
    counts.into_iter().filter(|(_, counts)| timed(*counts)).map(|(wait_site, _)| wait_site).collect()
}

/// The waits of every wait site, gathered by what `key` says is one object.
pub(super) fn gather<K: std::hash::Hash + Eq>(
    engine: &Engine,
    key: impl Fn(WaitSiteId) -> Option<K>,
) -> FxHashMap<K, Vec<Waited>> {
    let mut all: FxHashMap<K, Vec<Waited>> = FxHashMap::default();
    for (thread, life) in engine.threads.each() {
        for stay in life.log.stays() {
            let Doing::Futex(wait_site) = stay.doing() else { continue };
            let Some(key) = key(wait_site) else { continue };
            let (from, to, waker, at) = (stay.from, stay.to, stay.waker(), stay.woken());
            let wait = Waited { thread, wait_site, from, to, waker, at };
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

/// Where nobody is seen to wake anybody, the word tells: one that is always 2, or has its highest bit, while several
/// threads wait for it says that it is held and that others wait, as in "Futexes Are Tricky" (Drepper).
pub(super) fn has_word_of_lock(engine: &Engine, wait_site: WaitSiteId) -> bool {
    let lock = &engine.locks[engine.wait_sites[wait_site].lock];
    let Words { looks, held, contended, .. } = lock.words;
    let several = lock.waiters == Waiters::Several;
    engine.is_sampled && several && looks >= LEAST_WAITS as u64 && contended * 5 >= held * 4 && held * 2 >= looks
}

/// Whether the word is mostly not free while threads wait, and says nothing but "free", "held" and, now and then,
/// "held, and others wait" (who barges in does not know): no count of anything, nor a flag.
fn is_held_or_free(engine: &Engine, wait_site: WaitSiteId) -> bool {
    let Words { looks, held, contended, counts } = engine.locks[engine.wait_sites[wait_site].lock].words;
    looks >= LEAST_LOOKS && held * 2 >= looks && contended * 50 >= held && counts * 20 <= looks
}

/// Where nobody is seen to wake anybody: whether those who wait there have the thing one after the other. Nearly all
/// that runs in the process meanwhile, and all that runs often, are threads that wait there too, so that nobody else is
/// there who could end the waits; and while some wait, another of them mostly does not.
pub(super) fn is_among_waiters(engine: &Engine, waits: &[Waited]) -> bool {
    if !engine.is_sampled || waits.len() < LEAST_WAITS {
        return false;
    }
    let mut times: FxHashMap<ThreadId, u64> = FxHashMap::default();
    waits.iter().for_each(|wait| *times.entry(wait.thread).or_default() += wait.to - wait.from);
    let longest = times.values().max().copied().unwrap_or(0);
    times.retain(|_, ns| *ns * 4 >= longest);
    let pid = engine.threads[waits[0].thread].pid;
    let (from, to) = waits.iter().fold((u64::MAX, 0), |(from, to), wait| (from.min(wait.from), to.max(wait.to)));
    let (mut all_ns, mut others_ns, mut others_runs) = (0, 0, 0);
    for (index, thread) in engine.threads.each().filter(|(_, thread)| thread.pid == pid) {
        let (from, to) = (thread.born.max(from), thread.last.min(to));
        let stays = thread.log.within(from, to.max(from));
        let off: u64 = stays.iter().map(|stay| stay.to.min(to).saturating_sub(stay.from.max(from))).sum();
        let ran_ns = to.saturating_sub(from).saturating_sub(off);
        all_ns += ran_ns;
        if !times.contains_key(&index) {
            others_ns += ran_ns;
            others_runs += stays.len();
        }
    }
    let (some_ns, whole_ns) = waiting(waits, &times);
    times.len() >= 2
        && others_ns * OTHERS_ONE_IN <= all_ns
        && others_runs * OTHERS_RUNS_ONE_IN <= waits.len()
        && whole_ns * 3 <= some_ns
}

/// How long some of these threads waited, and how long all did at once.
fn waiting(waits: &[Waited], of: &FxHashMap<ThreadId, u64>) -> (u64, u64) {
    let waiting = waits.iter().filter(|wait| of.contains_key(&wait.thread));
    let times = time_by_count(waiting.map(|wait| (wait.from, wait.to)));
    let at_least = |count: usize| times.iter().skip(count).sum();
    (at_least(1), at_least(of.len()))
}

/// The role that these waits show. `waits` are in order of their ends. Who returns from a wait for a condition has to
/// take its mutex first.
pub(super) fn of(engine: &Engine, waits: &[Waited], is_condition: bool) -> Behaviour {
    if waits.iter().all(|wait| ends_with_a_thread(engine, wait)) && !waits.is_empty() {
        return Behaviour::Join;
    }
    if engine.is_sampled {
        // Nobody was seen to wake anybody.
        return Behaviour::Unclear;
    }
    let timeouts = waits.iter().filter(|wait| wait.waker == Some(Waker::Timeout)).count();
    let known: Vec<Waited> = waits.iter().filter(|wait| wait.waking_thread().is_some()).copied().collect();
    if timeouts >= LEAST_WAITS && known.len() * 10 <= timeouts {
        return Behaviour::Timer;
    }
    if known.len() < LEAST_WAITS {
        return Behaviour::Unclear;
    }
    let waiters: FxHashSet<ThreadId> = waits.iter().map(|wait| wait.thread).collect();
    let mutual = known.iter().filter(|wait| wait.is_ended_by(&waiters)).count();
    if (mutual as f64) < LEAST_MUTUAL * known.len() as f64 {
        return Behaviour::Queue;
    }
    let holds = Holds::of(engine, waits, is_condition);
    if mutual_time(&known, &waiters) < LEAST_MUTUAL_TIME && holds.are_in_vain() {
        return Behaviour::Queue;
    }
    let one_by_one = holds.are_passed_on(LEAST_PASSED_ON) && wakes_one_by_one(engine, waits);
    if waiters.len() >= 3 && wakes_all(&known, waits) && !one_by_one {
        if !holds.are_few(if is_condition { LEAST_BARGED } else { LEAST_FEW }) {
            return Behaviour::Barrier;
        }
        // A lock whose release wakes all is one; a condition that all are woken for is still waited for.
        if is_condition {
            return Behaviour::Queue;
        }
    }
    if waiters.len() == 2 && alternates(engine, &known) {
        return Behaviour::Turn;
    }
    // Of two threads, whoever was woken wakes the other before it waits again, if what they want is a lock for which
    // they wait often: at a barrier, either may be the first again.
    if waiters.len() == 2 && !holds.are_passed_on(LEAST_PASSED_ON) {
        return Behaviour::Barrier;
    }
    // Where threads barge in that did not wait, stretches tell little; the word does, if there were looks at it. That
    // of a condition says nothing of the kind.
    if !is_condition
        && mutual * 10 >= known.len() * 9
        && waits.iter().all(|wait| is_held_or_free(engine, wait.wait_site))
    {
        return Behaviour::Lock;
    }
    if waiters.len() >= 3 && holds.are_barged() {
        return if holds.overlap() >= LEAST_SHARED { Behaviour::Queue } else { Behaviour::Lock };
    }
    // Who works on what others work on, too, waits now and then for how far they are, and hardly ever wakes another
    // first.
    if is_condition && !holds.are_passed_on(LEAST_PASSED_OF_CONDITION) {
        return Behaviour::Queue;
    }
    match holds.are_alone() {
        Some(true) => Behaviour::Lock,
        Some(false) => Behaviour::Queue,
        None => Behaviour::Unclear,
    }
}

/// Whether one thread does nearly all of the waiting, by time, and others wake it: they have work for it, or it has
/// work for them.
pub(super) fn is_for_one(waits: &[Waited]) -> bool {
    const LEAST: usize = 50;
    const LEAST_OF_MANY: f64 = 0.75;
    const LEAST_OF_TWO: f64 = 0.9;
    let mut times: FxHashMap<ThreadId, u64> = FxHashMap::default();
    waits.iter().for_each(|wait| *times.entry(wait.thread).or_default() += wait.to - wait.from);
    let all: u64 = times.values().sum();
    let Some((one, most)) = times.into_iter().max_by_key(|(thread, ns)| (*ns, *thread)) else { return false };
    let wakers = waits.iter().filter(|wait| wait.thread == one).filter_map(|wait| wait.waker?.thread());
    let wakers: FxHashSet<ThreadId> = wakers.filter(|waker| *waker != one).collect();
    // Several who have a lock in turn wait for each other as well; of two, one may have it for far longer.
    let least = if wakers.len() >= 2 { LEAST_OF_MANY } else { LEAST_OF_TWO };
    waits.len() >= LEAST && !wakers.is_empty() && most as f64 >= least * all as f64
}

/// Whether a thread of the same process that never waited here ends as the wait does.
fn ends_with_a_thread(engine: &Engine, wait: &Waited) -> bool {
    ending_thread(engine, wait.thread, (wait.from, wait.to), ENDS_NS).is_some()
}

/// The thread whose end, so near to that of the wait, ended it.
pub(super) fn ending_thread(
    engine: &Engine,
    waiter: ThreadId,
    (from, to): (u64, u64),
    within_ns: u64,
) -> Option<ThreadId> {
    let pid = engine.threads[waiter].pid;
    let ended = |thread: &super::thread::Thread| {
        thread.exited && thread.pid == pid && thread.last > from && thread.last.abs_diff(to) <= within_ns
    };
    let all = engine.threads.each().filter(|(index, thread)| *index != waiter && ended(thread));
    all.min_by_key(|(_, thread)| thread.last.abs_diff(to)).map(|(index, _)| index)
}

/// Whether calls end all waits that there are, and those of most threads together with others. Both are in order of
/// their ends.
fn wakes_all(known: &[Waited], waits: &[Waited]) -> bool {
    let (mut calls, mut whole, mut woken, mut together) = (0_u32, 0_u32, 0_u32, 0_u32);
    // When the earliest began of this wait and all that ended later.
    let mut earliest: Vec<u64> = waits.iter().map(|wait| wait.from).collect();
    for index in (1..earliest.len()).rev() {
        earliest[index - 1] = earliest[index - 1].min(earliest[index]);
    }
    let mut at = 0;
    while at < known.len() {
        let first = known[at];
        let same = |wait: &&Waited| wait.waker == first.waker && wait.at - first.at <= ONE_CALL_NS;
        let len = known[at..].iter().take_while(same).count();
        let last = known[at + len - 1].at;
        let later = waits.partition_point(|wait| wait.at <= last);
        let is_left = earliest.get(later).is_some_and(|from| *from < first.at);
        calls += 1;
        woken += len as u32;
        whole += u32::from(!is_left);
        together += if !is_left && len >= 2 { len as u32 } else { 0 };
        at += len;
    }
    whole * 10 >= calls * 7 && together * 2 >= woken && woken >= calls * 3 / 2
}

/// Whether hardly any call that wakes wakes several: who releases a lock often in a short time wakes as many, one by
/// one.
fn wakes_one_by_one(engine: &Engine, waits: &[Waited]) -> bool {
    let groups: FxHashSet<_> = waits.iter().map(|wait| engine.wait_sites[wait.wait_site].group).collect();
    let of = |number: &dyn Fn(&Group) -> u64| groups.iter().map(|group| number(&engine.groups[*group])).sum::<u64>();
    let (calls, herds) = (of(&|group| group.wakes), of(&|group| group.herds.calls));
    calls >= LEAST_WAITS as u64 && herds * 10 <= calls
}

/// Of the time between one wake and the next, while somebody waits: the share before wakes by threads that wait too.
fn mutual_time(known: &[Waited], waiters: &FxHashSet<ThreadId>) -> f64 {
    let (mut last, mut mutual, mut all) = (0, 0, 0);
    for wait in known {
        let ns = wait.at.saturating_sub(wait.from.max(last));
        all += ns;
        mutual += if wait.is_ended_by(waiters) { ns } else { 0 };
        last = wait.at;
    }
    mutual as f64 / all.max(1) as f64
}

/// Whether two threads wake each other in turn, and each waits as soon as it has woken the other and has a CPU.
fn alternates(engine: &Engine, known: &[Waited]) -> bool {
    let pairs = known.windows(2);
    let turns = pairs.clone().filter(|pair| pair[1].waking_thread() == Some(pair[0].thread)).count();
    let at_once = pairs
        .clone()
        .filter(|pair| {
            let (waker, woken) = (pair[1].thread, pair[0].at);
            Some(waker) == pair[0].waking_thread() && ran_ns(engine, waker, woken, pair[1].from) <= TURN_NS
        })
        .count();
    // Where the other gets no CPU at once, it need not sleep: some turns are not seen, but those that are all look so.
    turns * 10 >= pairs.len() * 9 && at_once * 10 >= pairs.len() * 8
        || turns * 10 >= pairs.len() * 6 && at_once * 20 >= turns * 19
}

/// A time without the stretches in which the thread could run, but had no CPU.
fn ran_ns(engine: &Engine, thread: ThreadId, from: u64, to: u64) -> u64 {
    let without = |stay: &&Stay| matches!(stay.doing(), Doing::Plain(Plain::Preempted | Plain::Displaced));
    let stays = engine.threads[thread].log.within(from, to).iter().filter(without);
    let off: u64 = stays.map(|stay| stay.to.min(to).saturating_sub(stay.from.max(from))).sum();
    to.saturating_sub(from).saturating_sub(off)
}

/// Whether most who are woken wake another before they wait again, but for those who soon found that another was
/// faster.
pub(super) fn is_passed_on(engine: &Engine, waits: &[Waited]) -> bool {
    let holds = Holds::of(engine, waits, false);
    let kept_ns = holds.median_kept();
    let soon = holds.rounds.iter().filter(|ns| ns.saturating_mul(SOON_ONE_IN) <= kept_ns).count();
    holds.stretches.len() * 2 >= holds.waits - soon
}

/// Places of which there are a few, and who wants one.
#[derive(Debug)]
pub(super) struct FewPlaces {
    pub places: u64,
    pub callers: Vec<ThreadId>,
}

/// Whether threads wait for one of a few places that they give back themselves: they wake each other, most of them
/// wait, and while any do, nearly always as many of them do not. `is_caller` tells of a thread that wakes others here,
/// and never waits, whether it takes places nevertheless.
pub(super) fn places(
    waits: &[Waited],
    yields: &[Waited],
    mut is_caller: impl FnMut(ThreadId) -> bool,
) -> Option<FewPlaces> {
    let waiters: FxHashSet<ThreadId> = waits.iter().map(|wait| wait.thread).collect();
    let ended: Vec<ThreadId> = waits.iter().filter_map(Waited::waking_thread).collect();
    let others: FxHashSet<ThreadId> = ended.iter().copied().filter(|waker| !waiters.contains(waker)).collect();
    let mut callers = waiters;
    callers.extend(others.into_iter().filter(|other| is_caller(*other)));
    let mutual = ended.iter().filter(|waker| callers.contains(waker)).count();
    if callers.len() < LEAST_WAITS || ended.len() < 3 * LEAST_WAITS || mutual * 10 < ended.len() * 8 {
        return None;
    }
    let mut callers: Vec<ThreadId> = callers.into_iter().collect();
    callers.sort_unstable();
    let mut lives: FxHashMap<ThreadId, (u64, u64)> = FxHashMap::default();
    let mut seen = |thread: ThreadId, from: u64, to: u64| {
        let life = lives.entry(thread).or_insert((from, to));
        *life = (life.0.min(from), life.1.max(to));
    };
    for wait in waits {
        seen(wait.thread, wait.from, wait.to);
        wait.waking_thread().into_iter().for_each(|waker| seen(waker, wait.at, wait.at));
    }
    let lives: Vec<(u64, u64)> = callers.iter().filter_map(|thread| lives.get(thread).copied()).collect();
    let all: Vec<Waited> = waits.iter().chain(yields).copied().collect();
    Some(FewPlaces { places: steady_places(&all, &lives)?, callers })
}

/// The times for which those who wait here, or end waits here, yield where `is` says that it is for the same.
pub(super) fn yields(engine: &Engine, waits: &[Waited], mut is: impl FnMut(Place) -> bool) -> Vec<Waited> {
    let Some(first) = waits.first() else { return Vec::new() };
    let threads: FxHashSet<ThreadId> =
        waits.iter().flat_map(|wait| [Some(wait.thread), wait.waking_thread()]).flatten().collect();
    let mut known: FxHashMap<Place, bool> = FxHashMap::default();
    let mut yields = Vec::new();
    for thread in threads {
        let life = &engine.threads[thread];
        for stay in life.log.stays().iter().filter(|stay| stay.doing() == Doing::Plain(Plain::Yielded)) {
            let place = Place { space: life.space, stack: stay.stack };
            if stay.stack.is_some() && *known.entry(place).or_insert_with(|| is(place)) {
                yields.push(Waited { thread, from: stay.from, to: stay.to, waker: None, at: stay.to, ..*first });
            }
        }
    }
    yields
}

/// How many do nearly always not wait while others do, if these are more; from when each was seen there first and last.
fn steady_places(waits: &[Waited], lives: &[(u64, u64)]) -> Option<u64> {
    let of_waits = waits.iter().flat_map(|wait| [(wait.from, [0, 1]), (wait.to, [0, -1])]);
    let of_lives = lives.iter().flat_map(|(born, last)| [(*born, [1, 0]), (*last, [-1, 0])]);
    let mut edges: Vec<(u64, [i64; 2])> = of_waits.chain(of_lives).collect();
    edges.sort_unstable();
    let mut times: Vec<u64> = Vec::new();
    let (mut alive, mut waiting, mut since) = (0_i64, 0_i64, 0);
    let (mut waited, mut had) = (0, 0);
    for (at, [lives, waits]) in edges {
        if waiting > 0 {
            let (ns, have) = (at - since, (alive - waiting).max(0) as usize);
            times.resize(times.len().max(have + 1), 0);
            times[have] += ns;
            waited += ns * waiting as u64;
            had += ns * have as u64;
        }
        (alive, waiting, since) = (alive + lives, waiting + waits, at);
    }
    let most = (1..times.len()).max_by_key(|have| times[*have])?;
    let near: u64 = times[most - 1..].iter().take(3).sum();
    let whole: u64 = times.iter().sum();
    let is_steady = near as f64 >= LEAST_STEADY * whole as f64 && times[most] * 2 >= whole;
    (is_steady && waited >= had).then_some(most as u64)
}

/// Where those who have the thing wait for events meanwhile, if they do so for most of the time.
pub(super) fn polls_in_holds(engine: &Engine, waits: &[Waited]) -> Option<Place> {
    let (mut all_ns, mut polled_ns) = (0, 0);
    let mut places: FxHashMap<Place, u64> = FxHashMap::default();
    for (from, to, thread) in Holds::of(engine, waits, false).stretches {
        all_ns += to - from;
        let thread = &engine.threads[thread];
        let polls = |stay: &&Stay| stay.doing() == Doing::Plain(Plain::Poll);
        for stay in thread.log.within(from, to).iter().filter(polls) {
            let ns = stay.to.min(to).saturating_sub(stay.from.max(from));
            polled_ns += ns;
            *places.entry(Place { space: thread.space, stack: stay.stack }).or_default() += ns;
        }
    }
    let most = places.into_iter().max_by_key(|(place, ns)| (*ns, *place));
    most.filter(|_| polled_ns * 2 >= all_ns).map(|(place, _)| place)
}

/// Whether a thread waits again at once: it does nothing in between, or looks again after it gave the CPU away, or got
/// the condition's mutex.
fn waits_at_once(engine: &Engine, thread: ThreadId, from: u64, to: u64, is_condition: bool) -> bool {
    let (mut ran, mut looks) = (to.saturating_sub(from), 1);
    if ran <= AT_ONCE_NS || to == u64::MAX {
        return to != u64::MAX;
    }
    for stay in engine.threads[thread].log.within(from, to) {
        match stay.doing() {
            Doing::Plain(Plain::Yielded | Plain::Preempted | Plain::Displaced) => {
                ran = ran.saturating_sub(stay.to.min(to) - stay.from.max(from));
                looks += 1;
            }
            Doing::Futex(_) if is_condition => ran = ran.saturating_sub(stay.to.min(to) - stay.from.max(from)),
            _ => return false,
        }
    }
    ran <= looks * AT_ONCE_NS
}

/// What looks like holding a lock.
struct Holds {
    /// From the return of each wait to the thread's next wake, if it wakes before it waits again; and whose.
    stretches: Vec<(u64, u64, ThreadId)>,
    /// How many waits were not in vain: in the others the thread waits again at once, for another took what it was
    /// woken for.
    waits: usize,
    /// How many waits there were.
    all: usize,
    /// From the return of each other wait to the thread's next.
    rounds: Vec<u64>,
}

impl Holds {
    fn of(engine: &Engine, waits: &[Waited], is_condition: bool) -> Self {
        #[derive(Default)]
        struct Deeds {
            waits: Vec<(u64, u64)>,
            wakes: Vec<u64>,
        }
        let mut of_thread: FxHashMap<ThreadId, Deeds> = FxHashMap::default();
        for wait in waits {
            of_thread.entry(wait.thread).or_default().waits.push((wait.from, wait.to));
            if let Some(waker) = wait.waking_thread() {
                of_thread.entry(waker).or_default().wakes.push(wait.at);
            }
        }
        let mut holds = Self { stretches: Vec::new(), waits: waits.len(), all: waits.len(), rounds: Vec::new() };
        for (thread, Deeds { waits: own, wakes }) in &of_thread {
            for (index, (_, to)) in own.iter().enumerate() {
                let next_wait = own.get(index + 1).map_or(u64::MAX, |(from, _)| *from);
                let next_wake = wakes.partition_point(|at| at <= to);
                if let Some(at) = wakes.get(next_wake).filter(|at| **at <= next_wait.saturating_add(ONE_CALL_NS)) {
                    holds.stretches.push((*to, *at, *thread));
                } else if waits_at_once(engine, *thread, *to, next_wait, is_condition) {
                    holds.waits -= 1;
                } else if next_wait != u64::MAX {
                    holds.rounds.push(next_wait.saturating_sub(*to));
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
        self.are_in_vain() && self.are_passed_on(LEAST_PASSED_BY_ALL)
    }

    /// Whether many are woken in vain.
    fn are_in_vain(&self) -> bool {
        (self.all - self.waits) as f64 >= LEAST_BARGED * self.all as f64
    }

    /// Whether of all who are woken at once only some get what they want: at least this share waits again at once, and
    /// who got it keeps it for longer. At a barrier all go on.
    fn are_few(&self, least_in_vain: f64) -> bool {
        if ((self.all - self.waits) as f64) < least_in_vain * self.all as f64 {
            return false;
        }
        self.median_kept() >= LEAST_KEPT * AT_ONCE_NS
    }

    fn median_kept(&self) -> u64 {
        let mut kept: Vec<u64> = self.stretches.iter().map(|(from, to, _)| to - from).collect();
        kept.sort_unstable();
        kept.get(kept.len() / 2).copied().unwrap_or(0)
    }

    /// Of the time that threads have the thing, added up: the share in which another has it too.
    fn overlap(&self) -> f64 {
        let (mut sum, mut covered, mut end) = (0, 0, 0);
        for (from, to, _) in &self.stretches {
            sum += to - from;
            covered += to.saturating_sub(end.max(*from));
            end = end.max(*to);
        }
        (sum - covered) as f64 / sum.max(1) as f64
    }

    /// Whether threads have the thing one at a time. `None` if that is hardly seen.
    fn are_alone(&self) -> Option<bool> {
        // Who is woken for work hardly ever wakes another before it waits again.
        if self.stretches.len() < 3 || self.stretches.len() * 8 < self.waits {
            return (self.all >= 3 * LEAST_WAITS).then_some(false);
        }
        Some(self.overlap() <= if self.are_in_vain() { MOST_OVERLAP_IN_VAIN } else { MOST_OVERLAP })
    }
}

/// What tells waits on words of the threads' own apart: the innermost part of the call path.
pub(super) type Callers = (crate::names::SpaceId, u64);

/// Whether only one thread ever waited at the address of this wait site.
pub(super) fn is_own_word(engine: &Engine, wait_site: WaitSiteId) -> bool {
    let wait_site = &engine.wait_sites[wait_site];
    wait_site.place.stack.is_some() && engine.locks[wait_site.lock].waiters.only().is_some()
}

/// The innermost frames of a call path as one number; of who receives from a channel of Rust, to the function of the
/// program that does: two channels are two queues, whatever library's function waits for both.
pub(super) fn callers(place: Place, call_path: &[Frame]) -> Callers {
    use std::hash::{BuildHasher, Hash, Hasher};
    const FRAMES: usize = 6;
    let user = || call_path.iter().filter(|frame| !matches!(frame.role, Role::Kernel | Role::Scheduler));
    let receiver = user().position(|frame| frame.role == Role::Program).filter(|_| user().any(is_of_channel));
    let mut hasher = rustc_hash::FxBuildHasher.build_hasher();
    for frame in user().take(receiver.map_or(FRAMES, |at| at + 1)) {
        match &frame.function {
            Some(function) => (&frame.module, function).hash(&mut hasher),
            None => (&frame.module, frame.start).hash(&mut hasher),
        }
    }
    (place.space, hasher.finish())
}

fn is_of_channel(frame: &Frame) -> bool {
    const CHANNELS: [&str; 4] = ["std::sync::mpmc::", "std::sync::mpsc::", "crossbeam_channel::", "flume::"];
    let of = |name: &str| CHANNELS.iter().any(|channels| name.starts_with(channels));
    frame.function.as_deref().is_some_and(of)
}

#[cfg(test)]
mod tests {
    use super::super::ids::Id as _;
    use super::*;

    #[test]
    fn who_nearly_always_waits_for_those_who_nearly_never_do_is_given_work() {
        let wait = |thread, waker, ns, at| {
            let waker = Some(Waker::Thread(ThreadId::of(waker)));
            Waited { thread: ThreadId::of(thread), wait_site: WaitSiteId::of(0), from: at - ns, to: at, waker, at }
        };
        // 2 to 4 wake 1 in turn, and wait there as often as they wake it, for so long.
        let given = |own_ns: u64, wakers: u64| -> Vec<Waited> {
            let turn =
                |at: u64| [wait(1, 2 + (at % wakers) as usize, 9, 100 * at + 10), wait(2, 1, own_ns, 100 * at + 90)];
            (0..30).flat_map(turn).collect()
        };
        assert!(is_for_one(&given(1, 3)));
        assert!(!is_for_one(&given(4, 3)), "the others wait for it as well");
        assert!(!is_for_one(&given(1, 3)[..40]), "too few");
        assert!(is_for_one(&given(1, 1)), "one other may work for it, too");
        assert!(is_for_one(&given(2, 3)), "those of a group wait for each other as well if it is a lock");
        assert!(!is_for_one(&given(2, 1)), "who has it for longer waits for less");
    }

    #[test]
    fn where_waits_end_by_their_timeouts_somebody_sleeps() {
        let waits = |timeouts: usize, others: usize| {
            let wait = |index: usize| {
                let waker = if index < timeouts { Waker::Timeout } else { Waker::Thread(ThreadId::of(1)) };
                let (thread, wait_site) = (ThreadId::of(0), WaitSiteId::of(7));
                Waited { thread, wait_site, from: 0, to: 1, waker: Some(waker), at: 1 }
            };
            timed_sites(&(0..timeouts + others).map(wait).collect::<Vec<_>>())
        };
        assert_eq!(waits(10, 1), [WaitSiteId::of(7)]);
        assert!(waits(9, 1).is_empty(), "somebody ends them");
        assert!(waits(LEAST_WAITS - 1, 0).is_empty(), "too few");
    }

    #[test]
    fn places_are_few_where_nearly_always_as_many_do_not_wait() {
        // Six threads in turn: each waits for so many turns of ten, and is woken by the one that had a place before it.
        let turns = |waits_for: &dyn Fn(usize) -> u64, waker: &dyn Fn(usize) -> usize| -> Vec<Waited> {
            let wait = |turn: usize| {
                let to = 1_000 + 10 * turn as u64;
                let waker = Some(Waker::Thread(ThreadId::of(waker(turn))));
                let (thread, from) = (ThreadId::of(turn % 6), to - 10 * waits_for(turn));
                Waited { thread, wait_site: WaitSiteId::of(0), from, to, waker, at: to }
            };
            (0..60).map(wait).collect()
        };
        let others = |turn: usize| (turn + 4) % 6;
        let of = |waits: &[Waited], is_caller: bool| {
            places(waits, &[], |_| is_caller).map(|found| (found.places, found.callers.len()))
        };
        assert_eq!(of(&turns(&|_| 4, &others), false), Some((2, 6)));
        assert_eq!(of(&turns(&|_| 4, &|_| 9), false), None, "who wakes them waits for none: it hands out work");
        assert_eq!(of(&turns(&|_| 4, &|_| 9), true), Some((3, 7)), "it always finds a place");
        assert_eq!(of(&turns(&|_| 1, &others), false), None, "most have one");
        assert_eq!(of(&turns(&|turn| if turn / 12 % 2 == 0 { 1 } else { 5 }, &others), false), None, "now many wait");
        assert_eq!(of(&turns(&|_| 4, &others)[..11], false), None, "too few waits");
        // Who has yielded before it waits has none either.
        let waits = turns(&|_| 3, &others);
        let before = |wait: &Waited| Waited { from: wait.from - 10, to: wait.from, waker: None, ..*wait };
        let yields: Vec<Waited> = waits.iter().map(before).collect();
        let with = |yields: &[Waited]| places(&waits, yields, |_| false).map(|found| found.places);
        assert_eq!((with(&[]), with(&yields)), (Some(3), Some(2)));
        // Two of the callers have done all that they wanted: there still are two places.
        let later = |turn: usize| {
            let to = 1_600 + 10 * turn as u64;
            let waker = Some(Waker::Thread(ThreadId::of((turn + 2) % 4)));
            Waited { thread: ThreadId::of(turn % 4), wait_site: WaitSiteId::of(0), from: to - 20, to, waker, at: to }
        };
        let both: Vec<Waited> = turns(&|_| 4, &others).into_iter().chain((0..60).map(later)).collect();
        assert_eq!(of(&both, false), Some((2, 6)));
    }

    /// All of a program's channels wait in the same functions of std: threads that handed frames to each other through
    /// two of them were told to wait for a lock.
    #[test]
    fn each_channel_is_a_queue_of_its_own_and_a_lock_one_wherever_it_is_taken() {
        let of = |library: &str, program: &str| {
            let inner = (0..6).map(|_| Frame::named("park", Role::Lock));
            let ends = [Frame::named(library, Role::Lock), Frame::named(program, Role::Program)];
            callers(Place { space: crate::names::SpaceId(1), stack: None }, &inner.chain(ends).collect::<Vec<_>>())
        };
        let channel = "std::sync::mpmc::list::Channel<T>::recv";
        assert_ne!(of(channel, "main"), of(channel, "render"));
        assert_eq!(of(channel, "main"), of(channel, "main"));
        let lock = "parking_lot::raw_mutex::RawMutex::lock_slow";
        assert_eq!(of(lock, "main"), of(lock, "render"));
    }

    #[test]
    fn who_is_only_answered_stands_in_no_queue() {
        let wait = |thread, waker, at| {
            let waker = Some(Waker::Thread(ThreadId::of(waker)));
            Waited { thread: ThreadId::of(thread), wait_site: WaitSiteId::of(0), from: at - 1, to: at, waker, at }
        };
        // 1 and 2 pass something on to each other, and both answer 3.
        let turns = (0..8).flat_map(|turn| {
            let (one, other) = if turn % 2 == 0 { (1, 2) } else { (2, 1) };
            [wait(one, other, 10 * turn + 1), wait(3, one, 10 * turn + 5)]
        });
        let waits: Vec<Waited> = turns.collect();
        let left: Vec<usize> = among_those_who_pass_on(&waits).iter().map(|wait| wait.thread.index()).collect();
        assert_eq!(left, [1, 2, 1, 2, 1, 2, 1, 2]);
    }
}
