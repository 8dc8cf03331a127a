//! Who waits for whom to do something: what the kinds about uneven work (serial-phase, slow-stage, small-pool) are told
//! by.

use std::collections::{BTreeMap, BTreeSet};

use holdup_trace::Tid;

use super::{runtime, weigh};
use crate::facts::{AccountState, Blame, Facts, Leaf, LockFacts, OffTime, Primitive, Reason, Site, ThreadFacts};
use crate::names::words;

/// A thread that always has something to do is idle for so much of its life at most.
pub(super) const MOST_IDLE: f64 = 0.12;

/// One that always has something to ask others for waits otherwise for so much of its life at most: some of what it
/// waits for those whom it asks is not seen to be an answer.
pub(super) const MOST_IDLE_ASKING: f64 = 0.2;
/// Waits that last for so much of the recording each are for an end.
const LEAST_OF_END: f64 = 0.2;

/// Who waits to hand something over does so for this share of the recording.
const LEAST_SENDING: f64 = 0.2;
/// Its call is among so many innermost frames.
const HAND_OVER_DEPTH: usize = 10;

/// Whoever sends by the clock rarely does so more often than a thousand times a second.
pub(super) const LONGEST_PAUSE_NS: u64 = weigh::MS;
pub(super) const LEAST_PAUSES: u64 = 200;

/// A thread that others wait for, without its having a lock that they want.
#[derive(Clone, Debug, Default)]
pub(super) struct Limiter {
    pub tid: Tid,
    /// What others waited while it ran, or wanted a CPU: at barriers, for threads to end, and for work that is handed
    /// to all at once.
    pub together_ns: u64,
    /// The same, for work that comes one by one.
    pub work_ns: u64,
    /// What they waited for work while it was asleep, in I/O, or waiting for the outside.
    pub blocked_ns: u64,
    /// The part of it in which it waited for an answer, of one that it had asked and that was asleep, in I/O, or
    /// waiting for the outside.
    pub asking_ns: u64,
    /// Whom it asked.
    pub asked: BTreeSet<Tid>,
    /// Who waited.
    pub waiters: BTreeSet<Tid>,
}

impl Limiter {
    /// Whether others mostly wait for answers that it waits for.
    pub(super) fn mostly_asks(&self) -> bool {
        self.asking_ns * 2 > self.together_ns + self.work_ns + self.blocked_ns
    }
}

/// All of them, the worst first.
pub(super) fn limiters(facts: &Facts) -> Vec<Limiter> {
    let mut all: BTreeMap<Tid, Limiter> = BTreeMap::new();
    let mut asked: BTreeMap<Tid, BTreeSet<Tid>> = BTreeMap::new();
    for (asker, row) in facts.blame.iter().filter_map(|row| Some((row.asker?, row))) {
        asked.entry(asker).or_default().insert(row.thread);
    }
    for row in facts.blame.iter().filter(|row| is_for_work(facts, row)) {
        let limiter = all.entry(row.thread).or_default();
        limiter.tid = row.thread;
        let lock = row.lock.and_then(|lock| facts.lock(lock));
        match row.leaf {
            Leaf::OtherPrograms => continue,
            Leaf::Running | Leaf::Cpu | Leaf::Yielding | Leaf::Memory
                if lock.is_some_and(|lock| is_together(lock) && tells(facts, row.thread, lock))
                    || runtime::stops_all(facts, row.thread) =>
            {
                limiter.together_ns += row.ns;
            }
            Leaf::Running | Leaf::Cpu | Leaf::Yielding | Leaf::Memory if lock.is_some_and(is_spare) => continue,
            Leaf::Running | Leaf::Cpu | Leaf::Yielding | Leaf::Memory => limiter.work_ns += row.ns,
            _ => limiter.blocked_ns += row.ns,
        }
        limiter.waiters.insert(row.waiter);
        let is_blocked = matches!(row.leaf, Leaf::Sleep | Leaf::Io | Leaf::Outside);
        let together = lock.is_some_and(is_together);
        let asks = |tid: Tid| !together && tid != row.waiter && !asked[&tid].contains(&row.waiter);
        if let Some(asker) = row.asker.filter(|asker| is_blocked && asks(*asker)) {
            let limiter = all.entry(asker).or_default();
            limiter.tid = asker;
            limiter.blocked_ns += row.ns;
            limiter.asking_ns += row.ns;
            limiter.asked.insert(row.thread);
            limiter.waiters.insert(row.waiter);
        }
    }
    let mut list: Vec<Limiter> = all.into_values().collect();
    // Whoever is asked waits for the next question.
    list.iter_mut().for_each(|Limiter { asked, waiters, .. }| waiters.retain(|tid| !asked.contains(tid)));
    list.sort_by_key(|one| std::cmp::Reverse(one.together_ns + one.work_ns + one.blocked_ns));
    list
}

/// Whether nobody waits here more than once, by a condition: helpers that a library started and nobody needs.
fn is_spare(lock: &LockFacts) -> bool {
    let waiters: BTreeSet<Tid> = lock.waiters.iter().map(|(tid, _)| *tid).collect();
    lock.primitive == Primitive::Condvar && lock.waits <= waiters.len() as u64
}

/// Looks cannot tell waits that end together from those that end soon after each other: one that always has something
/// to do lets others go one by one.
fn tells(facts: &Facts, thread: Tid, lock: &LockFacts) -> bool {
    let by_design = matches!(lock.primitive, Primitive::Barrier | Primitive::Join | Primitive::Once);
    let is_busy = |thread: &ThreadFacts| idle_share(thread) <= MOST_IDLE;
    by_design || !facts.header.is_sampled() || !facts.thread(thread).is_some_and(is_busy)
}

/// Where threads mostly wait for this one: what tells of a place where no CPU samples were taken.
pub(super) fn waited_at(facts: &Facts, tid: Tid) -> Option<Site> {
    let rows = facts.blame.iter().filter(|row| row.thread == tid && is_for_work(facts, row));
    let lock = rows.max_by_key(|row| row.ns)?.lock.and_then(|lock| facts.lock(lock))?;
    lock.wait_sites.first().cloned()
}

/// A wait for another thread of the program that is no wait for a lock, by a thread that has work of its own: no
/// runtime's.
fn is_for_work(facts: &Facts, row: &Blame) -> bool {
    let known = row.thread.0 != 0 && row.thread != row.waiter;
    let has_work = |thread: &ThreadFacts| !is_joiner(thread) && !runtime::is_of_java(&thread.name);
    let watches = facts.thread(row.thread).is_some_and(runtime::watches_go);
    let lock = row.lock.and_then(|lock| facts.lock(lock));
    let idles = lock.and_then(|lock| lock.wait_sites.first()).is_some_and(runtime::is_idle_in_node);
    let waits = known && !watches && !idles && !weigh::is_for_lock(facts, row) && !is_for_an_end(facts, row);
    waits && facts.thread(row.waiter).is_some_and(has_work)
}

/// Whether such a wait lasts for a good part of the recording: whoever waits so waits for an end, or for a visitor.
fn is_for_an_end(facts: &Facts, row: &Blame) -> bool {
    let at_lock = |number| {
        let waiters = facts.lock(number).map_or(&[][..], |lock| &lock.waiters);
        waiters.iter().find(|(tid, _)| *tid == row.waiter).map(|(_, time)| *time)
    };
    let in_call = || {
        let calls =
            facts.thread(row.waiter)?.off.iter().filter(|(reason, _)| matches!(reason, Reason::Poll | Reason::Peer));
        calls.map(|(_, time)| *time).max_by_key(|time| time.ns)
    };
    let time = row.lock.map_or_else(in_call, at_lock).filter(|time| time.count > 0);
    time.is_some_and(|time| weigh::share(time.ns / time.count, facts.span_ns()) >= LEAST_OF_END)
}

/// A thread that does nothing but wait for the others to end.
fn is_joiner(thread: &ThreadFacts) -> bool {
    let account = &thread.account;
    account.share(AccountState::Barrier) >= 0.8 && account.share(AccountState::Running) < 0.1
}

/// Whether all who wait are let go together.
pub(super) fn is_together(lock: &LockFacts) -> bool {
    let herd = lock.herds.calls > 0 && lock.herds.woken * 2 >= lock.waits;
    matches!(lock.primitive, Primitive::Barrier | Primitive::Join | Primitive::Once) || herd
}

/// Whether a thread gets its work from others: for at least a thousandth of its life it waited for what other
/// threads of the program did. What a runtime's own threads do for it is no work, that its threads have ended is none,
/// and what other programs took of the CPUs makes none. Who sets the pace of other processes is fed by nobody.
pub(super) fn is_fed(facts: &Facts, one: &Limiter) -> bool {
    let tid = one.tid;
    let is_end =
        |row: &Blame| row.lock.and_then(|lock| facts.lock(lock)).is_some_and(|lock| lock.primitive == Primitive::Join);
    let feeds = |row: &&Blame| {
        row.waiter == tid
            && row.thread.0 != 0
            && !facts.thread(row.thread).is_some_and(|thread| runtime::is_of_java(&thread.name))
            && row.thread != tid
            && row.asker != Some(tid)
            && row.leaf != Leaf::OtherPrograms
            && !weigh::is_for_lock(facts, row)
            && !is_end(row)
    };
    if sets_the_pace(facts, one) {
        return false;
    }
    let waited_ns: u64 = facts.blame.iter().filter(feeds).map(|row| row.ns).sum();
    let waited = |thread: &ThreadFacts| waited_ns > 0 && waited_ns * 1_000 >= thread.life_ns();
    facts.thread(tid).is_some_and(|thread| runtime::is_of_pool(&thread.name) || waited(thread))
        || one.mostly_asks()
        || has_queue(facts, tid)
        || blocked_at(facts, one).is_some_and(|site| runtime::is_in_pool(&site))
}

/// Whether a thread mostly sleeps, and hardly ever waits for anything, though mostly other processes wait for it: it
/// sends at a pace of its own, as a load generator does.
fn sets_the_pace(facts: &Facts, one: &Limiter) -> bool {
    const MOST_TOLD: u64 = 20;
    let Some(thread) = facts.thread(one.tid) else { return false };
    let is_beyond = |tid: Tid| facts.thread(tid).is_some_and(|waiter| waiter.pid != thread.pid);
    // Who waits in the same process, but at no futex, waits for what comes from beyond.
    let (mut beyond_ns, mut within_ns) = (0, 0);
    for row in facts.blame.iter().filter(|row| row.thread == one.tid && one.waiters.contains(&row.waiter)) {
        match is_beyond(row.waiter) {
            true => beyond_ns += row.ns,
            false if row.lock.is_some() => within_ns += row.ns,
            false => {}
        }
    }
    let waits = thread.off.iter().filter(|(reason, _)| AccountState::of(**reason) == AccountState::Work);
    let told: u64 = waits.map(|(_, time)| time.count).sum();
    let slept = thread.off.get(&Reason::Sleep).map_or(0, |time| time.count);
    beyond_ns > within_ns && told * MOST_TOLD <= slept
}

/// Whether a thread takes what others hand to it and do not wait to have answered, from a queue that is hardly ever
/// empty.
pub(super) fn has_queue(facts: &Facts, tid: Tid) -> bool {
    is_sent_to(facts, tid) || reads_and_pauses(facts, tid)
}

/// Whether a thread reads from another end, so far as it once had to wait for it, and then pauses so briefly that no
/// clock is its reason: a queue of the kernel's that is never empty.
pub(super) fn reads_and_pauses(facts: &Facts, tid: Tid) -> bool {
    let Some(thread) = facts.thread(tid) else { return false };
    let reads = thread.off.get(&Reason::Peer).is_some_and(|time| time.count > 0);
    let pauses = |time: &OffTime| time.count >= LEAST_PAUSES && time.ns / time.count <= LONGEST_PAUSE_NS;
    reads && thread.off.get(&Reason::Sleep).is_some_and(pauses)
}

/// Whether another thread waits to hand this one something, by the name of what it calls: a queue that is always full.
fn is_sent_to(facts: &Facts, tid: Tid) -> bool {
    const HAND_OVERS: [&str; 7] = ["send", "put", "push", "enqueue", "enq", "offer", "submit"];
    let sends = |site: &Site| {
        let functions = site.call_path.iter().filter_map(|frame| frame.function.as_deref()).take(HAND_OVER_DEPTH);
        functions.flat_map(words).any(|word| HAND_OVERS.contains(&word.as_str()))
    };
    let is_it = |row: &Blame| row.thread == tid || row.asker == Some(tid);
    let waits = |row: &&Blame| is_it(row) && row.waiter != tid && is_for_work(facts, row);
    let waited = facts.blame.iter().filter(waits).filter(|row| {
        let lock = row.lock.and_then(|lock| facts.lock(lock));
        lock.is_some_and(|lock| lock.wait_sites.first().is_some_and(sends))
    });
    weigh::share(waited.map(|row| row.ns).sum(), facts.span_ns()) >= LEAST_SENDING
}

/// Whether a thread that sleeps, or waits for a device or the outside, has work waiting all the while: it hardly ever
/// waits for some in between. Who asks, waits for the answer and then thinks for a while holds nobody up.
pub(super) fn has_backlog(facts: &Facts, one: &Limiter) -> bool {
    let Some(thread) = facts.thread(one.tid) else { return false };
    if one.mostly_asks() {
        return idle_share(thread) - asking_share(facts, thread) <= MOST_IDLE_ASKING;
    }
    let (mut blocked, mut waits) = (0, 0);
    let asks_by_poll = polled(facts, thread).is_some();
    for (reason, time) in &thread.off {
        match AccountState::of(*reason) {
            _ if asks_by_poll && *reason == Reason::Poll => blocked += time.count,
            AccountState::Work => waits += time.count,
            AccountState::Sleep | AccountState::Io | AccountState::Memory => blocked += time.count,
            _ => {}
        }
    }
    waits * 2 <= blocked
}

/// Whether a thread waits so in a call, for another end mostly, and not for what the program's others bring.
pub(super) fn is_in_call(reason: Reason) -> bool {
    matches!(reason, Reason::Peer | Reason::Poll | Reason::OtherCall)
}

/// Whether a thread waits so for what the program's others bring: tasks, above all.
pub(super) fn is_for_tasks(reason: Reason) -> bool {
    AccountState::of(reason) == AccountState::Work && !is_in_call(reason)
}

/// What a thread polled for while others waited to hand it something: answers, then, and not the next task.
fn polled(facts: &Facts, thread: &ThreadFacts) -> Option<OffTime> {
    thread.off.get(&Reason::Poll).copied().filter(|_| is_sent_to(facts, thread.tid))
}

/// The share of a thread's life in which it had nothing to do.
pub(super) fn idle_share(thread: &ThreadFacts) -> f64 {
    thread.account.share(AccountState::Work) + thread.account.share(AccountState::Barrier)
}

/// The share of a thread's life in which it waited for answers.
fn asking_share(facts: &Facts, thread: &ThreadFacts) -> f64 {
    let own = |row: &&Blame| row.waiter == thread.tid && row.asker == Some(thread.tid);
    weigh::share(facts.blame.iter().filter(own).map(|row| row.ns).sum(), thread.life_ns())
}

/// The share of its life in which a thread that others wait for had nothing to do. If they wait to hand it something,
/// it polls for what it waits for itself.
pub(super) fn idle_share_of(facts: &Facts, one: &Limiter) -> f64 {
    let polling =
        |thread: &ThreadFacts| polled(facts, thread).map_or(0.0, |time| weigh::share(time.ns, thread.life_ns()));
    let asking = |thread: &ThreadFacts| if one.mostly_asks() { asking_share(facts, thread) } else { polling(thread) };
    facts.thread(one.tid).map_or(1.0, |thread| (idle_share(thread) - asking(thread)).max(0.0))
}

/// Where a thread is while others wait for it and it waits for something else itself.
pub(super) fn blocked_at(facts: &Facts, one: &Limiter) -> Option<Site> {
    if one.mostly_asks() {
        return weigh::blocked_at(facts.thread(one.tid).into_iter());
    }
    weigh::worst_site(facts, |row| row.thread == one.tid && row.waiter != one.tid).map(|(_, site)| site)
}

/// The lives of these threads together.
pub(super) fn lives_ns(facts: &Facts, threads: &BTreeSet<Tid>) -> u64 {
    threads.iter().filter_map(|tid| facts.thread(*tid)).map(ThreadFacts::life_ns).sum()
}
