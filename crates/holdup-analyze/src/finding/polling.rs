//! polling: a thread looks again and again whether something has happened, and sleeps for a moment in between.
//!
//! Signs and thresholds, per thread:
//! - at least [`LEAST_SLEEPS`] sleeps of at most [`LONGEST_SLEEP_NS`] on average, together at least [`LEAST_SHARE`] of
//!   its life;
//! - or as many waits for a condition that end by their timeout, four of five of all its waits there; where nobody ever
//!   signals the condition, [`LEAST_UNSIGNALLED`] of its life is enough;
//! - or sleeps of up to [`LONGEST_ALIKE_NS`], for [`LEAST_ALIKE_SHARE`] of the life of each of [`LEAST_ALIKE`] threads
//!   or more that began with one function, as long on average for one as for the other ([`MOST_APART`]) and many of one
//!   length ([`LEAST_OF_ONE_LENGTH`]), with runs of at most [`LONGEST_LOOK_NS`];
//! - of its sleeps, many are of one length ([`LEAST_OF_ONE_LENGTH`]): those that signals end are not;
//! - it runs for at most [`MOST_RUN`] of a period, and [`LONGEST_RUN_NS`], in between: it looks, and does nothing.
//!
//! - it wakes others less than every second time: one that sleeps and then hands out work sets the pace, and so does
//!   one that has waited for another end and ends waits of others with what it writes as often. But one that waits for
//!   a condition which nobody signals, for [`LONGEST_SLEEP_NS`] at a time, looks. One that never waits for another end
//!   and ends a wait of another with each of its rounds sets the pace, too, if that one passes on what it gets.
//!
//! What a thread looks for is late to nobody where the elapsed time goes by without it and no other thread waits for
//! it, less than [`LEAST_COST`] each: the one that reads ahead of busy workers, say.
//!
//! A sleep in a task of an executor of Java is the task's. One that waits for locks as long as for
//! [`MOST_LOCK_WAITS`] of its life does work between its sleeps, and they set its pace.
//!
//! Or it waits for a condition that nobody signals, up to [`LONGEST_IN_THE_WAY_NS`] at a time and at least
//! [`LEAST_IN_THE_WAY`] times, while others that have work to do wait for it, for [`LEAST_WAITED`] of the recording.
//!
//! Or threads sleep in a loop that reads memory, decides by what it read, and does nothing else: the code itself says
//! that they look, however long the sleeps are. Half a sleep for each time that they go on with other things is at
//! least [`LEAST_LATE`] of the recording, and so much of what the elapsed time goes by with. Goroutines are found in
//! such a loop at [`LEAST_LOOKING`] of the looks at least, but not always the same one, while [`LEAST_IDLE`] of the
//! CPUs' time is idle.
//!
//! Or two threads or more sleep after they have called for the lock of a file once and did not have to wait: they try,
//! [`LEAST_TRIES`] times each, for [`LEAST_TRYING`] of the time that they have something to do and [`LEAST_TRIED`] of
//! their lives. (Who gives it back calls for it twice.) Or they sleep in a loop that does nothing but try to take a
//! lock, or to make a file that only one can make.
//!
//! Or at least [`LEAST_ALIKE`] threads that began with one function sleep as long as each other, up to
//! [`LONGEST_IN_THE_WAY_NS`] and at least [`LEAST_IN_THE_WAY`] times, as above; two of them or more hand on what they
//! find without ending waits of others, for the next one looks, too; and others that hand things on in turn wait for
//! the last of them, for [`LEAST_WAITED`] of the recording.
//!
//! The place is where it sleeps. The severity is the share of the elapsed time that it polls, at most
//! [`MOST_SEVERITY`]: what it costs is half a period for whatever it waits for, and the CPU time of its looks.
//!
//! How it can be wrong: a thread that does a little work every millisecond by design looks alike.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_trace::Tid;

use super::weigh::{self, MS, US, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule};
use super::{runtime, safepoints, stages};
use crate::facts::{Blame, Facts, Leaf, LockFacts, Looking, OffTime, Reason, Site, ThreadFacts};
use crate::names::{is_sleep, leads_through};

pub(super) const RULE: Rule = Rule {
    kind: Kind::Polling,
    judge,
    evidence: &["sleep_share", "polls_per_s", "period_ns", "run_ns_median", "threads", "polls", "goroutines"],
};

pub(super) const LEAST_SLEEPS: u64 = 200;
/// A sleep of 2 ms ends a little late.
pub(super) const LONGEST_SLEEP_NS: u64 = 2_200 * US;
pub(super) const LONGEST_RUN_NS: u64 = 200 * US;
/// One thread that sleeps for longer may as well send something at its own pace; several that do so alike look.
pub(super) const LONGEST_ALIKE_NS: u64 = 10 * MS;
pub(super) const LEAST_ALIKE: usize = 3;
pub(super) const LEAST_ALIKE_SHARE: f64 = 0.9;
pub(super) const MOST_APART: f64 = 0.1;
/// So many of all sleeps are of one length, or up to so much longer: who sleeps until something is due sleeps now
/// shorter, now longer.
pub(super) const LEAST_OF_ONE_LENGTH: f64 = 0.3;
const ALIKE: f64 = 1.12;
pub(super) const LONGEST_LOOK_NS: u64 = 50 * US;
pub(super) const LEAST_SHARE: f64 = 0.5;
pub(super) const LEAST_UNSIGNALLED: f64 = 0.2;
pub(super) const MOST_RUN: f64 = 0.4;
pub(super) const MOST_SEVERITY: f64 = 0.3;
pub(super) const LONGEST_IN_THE_WAY_NS: u64 = 50 * MS;
pub(super) const LEAST_IN_THE_WAY: u64 = 50;
pub(super) const LEAST_WAITED: f64 = 0.3;
/// Of the elapsed time, what goes by with threads that poll, or is waited for them.
const LEAST_COST: f64 = 0.05;
/// Who only looks hardly waits for a lock.
const MOST_LOCK_WAITS: f64 = 0.03;
/// A condition that is signalled once for so many timeouts is signalled at the end.
const SIGNALLED_ONE_IN: u64 = 50;
/// Looks at goroutines that tell something; so many of them find one that sleeps in a loop that only looks, and so
/// often another one than before, or one again or no longer.
const LEAST_GO_LOOKS: u64 = 20;
const LEAST_LOOKING: f64 = 0.3;
const LEAST_TURNS: u64 = 5;
/// So often two threads or more sleep after they have tried to take the lock of a file, for so much of the time that
/// they have something to do, and of their lives.
const LEAST_TRIES: u64 = 10;
const LEAST_TRYING: f64 = 0.2;
const LEAST_TRIED: f64 = 0.05;
/// Of the recording, what is found late; nobody knows more of what is estimated.
const LEAST_LATE: f64 = 0.1;
const MOST_LATE: f64 = 0.9;
/// Of the CPUs' time.
const LEAST_IDLE: f64 = 0.5;
/// Who waits has work to do if it runs for so much of its life.
const LEAST_WORK: f64 = 0.01;

/// A thread that polls: how often, and how long it slept in between in all.
#[derive(Clone, Copy)]
struct Poller<'a> {
    thread: &'a ThreadFacts,
    times: u64,
    slept_ns: u64,
    /// Where it waits; for a sleep, the blame knows.
    place: Option<&'a Site>,
    /// Whether somebody could end its wait sooner, but nobody does.
    unsignalled: bool,
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let sleepers = facts.threads.iter().filter_map(|thread| {
        let time = thread.off.get(&Reason::Sleep)?;
        Some(Poller { thread, times: time.count, slept_ns: time.ns, place: None, unsignalled: false })
    });
    // How a runtime sleeps is a sleep, on a futex or not.
    let sleeps =
        |lock: &LockFacts| lock.wait_sites.first().is_some_and(|site| leads_through(&site.call_path, is_sleep));
    let timed = facts
        .locks
        .iter()
        .filter(|lock| lock.timeouts * 5 >= lock.waits * 4 && !lock.primitive.is_contention() && !sleeps(lock));
    let waiters = timed.flat_map(|lock| {
        lock.waiters.iter().filter_map(|(tid, time)| {
            let place = lock.wait_sites.first();
            let unsignalled = (lock.wakes + lock.wasted_wakes) * SIGNALLED_ONE_IN <= lock.timeouts;
            Some(Poller { thread: facts.thread(*tid)?, times: time.count, slept_ns: time.ns, place, unsignalled })
        })
    });
    // Who polls for an answer ends a wait with each question, too, but never waits for one.
    let hands_on = |Poller { thread, times, .. }: &Poller| {
        let by_turns =
            thread.hands_on || thread.ended_waits * 2 >= *times && stages::reads_and_pauses(facts, thread.tid);
        by_turns || thread.ended_waits * 5 >= *times * 4 && gives_to_who_passes_on(facts, thread)
    };
    // A task that sleeps is an executor's, whoever runs it.
    let in_task = |poller: &Poller| {
        let sleeps = poller.thread.off_sites.first().filter(|_| poller.place.is_none());
        sleeps.is_some_and(runtime::is_in_task_of_java)
    };
    let own = |poller: &Poller| {
        let tid = poller.thread.tid;
        !runtime::is_monitor(facts, tid) && !safepoints::is_machine(facts, tid) && !in_task(poller)
    };
    let waits: Vec<Poller> = sleepers.chain(waiters).filter(own).collect();
    let relayed = relayed(facts, &waits);
    let pollers: Vec<Poller> = waits.into_iter().filter(|poller| !hands_on(poller)).collect();
    let in_the_way = in_the_way(facts, &pollers);
    let (quick, slow): (Vec<Poller>, Vec<Poller>) = pollers
        .into_iter()
        .filter(|poller| polls(facts, poller))
        .partition(|poller| poller.slept_ns / poller.times <= LONGEST_SLEEP_NS);
    let polling = if quick.is_empty() { alike(facts, slow, LONGEST_LOOK_NS) } else { quick };
    let polling = if polling.is_empty() { in_the_way } else { polling };
    let polling = if polling.is_empty() { relayed } else { polling };
    let polling = if costs_nobody(facts, &polling) { Vec::new() } else { polling };
    let Some(worst) = polling.iter().max_by_key(|poller| poller.times) else {
        return of_lookers(facts).or_else(|| of_tries(facts)).or_else(|| of_goroutines(facts)).into_iter().collect();
    };
    let share = weigh::share(worst.slept_ns, facts.span_ns()).min(1.0);
    let told = Told {
        thread: worst.thread,
        threads: polling.len(),
        polls: worst.times,
        period_ns: worst.thread.life_ns() / worst.times.max(1),
        sleep_share: share,
        gain: share,
    };
    vec![told.finding(facts, place(facts, worst))]
}

/// Whether the elapsed time goes by without these threads, and no other waits for them.
fn costs_nobody(facts: &Facts, polling: &[Poller]) -> bool {
    let is_of = |tid| polling.iter().any(|poller| poller.thread.tid == tid);
    weigh::path_share(facts, is_of).is_some_and(|share| share < LEAST_COST)
        && weigh::share(waited_ns(facts, is_of, |_| true), facts.span_ns()) < LEAST_COST
}

/// How long others that count wait for the sleeps of these threads.
fn waited_ns(facts: &Facts, is_of: impl Fn(Tid) -> bool, counts: impl Fn(Tid) -> bool) -> u64 {
    let waits = |row: &&Blame| row.leaf == Leaf::Sleep && is_of(row.thread) && !is_of(row.waiter) && counts(row.waiter);
    facts.blame.iter().filter(waits).map(|row| row.ns).sum()
}

/// What is told of threads that poll.
struct Told<'a> {
    /// The one that does so most.
    thread: &'a ThreadFacts,
    threads: usize,
    polls: u64,
    period_ns: u64,
    sleep_share: f64,
    /// The part of the time that may go.
    gain: f64,
}

impl Told<'_> {
    fn finding(self, facts: &Facts, place: Option<Site>) -> Finding {
        Finding {
            severity: self.gain.min(MOST_SEVERITY),
            bound: Some(1.0 / (1.0 - self.gain)),
            subjects: vec![weigh::thread_subject(facts, self.thread.tid)],
            place,
            evidence: vec![
                part("sleep_share", self.sleep_share),
                rate("polls_per_s", weigh::per_s(self.polls, facts.span_ns())),
                ns("period_ns", self.period_ns),
                ns("run_ns_median", self.thread.run_ns.median_ns()),
                count("threads", self.threads as u64),
                count("polls", self.polls),
            ],
            ..Finding::new(Kind::Polling, Cure::WaitInsteadOfPolling, weigh::record_again())
        }
    }
}

/// Threads that sleep in a loop of one function that does nothing but look, and go on in between.
fn of_lookers(facts: &Facts) -> Option<Finding> {
    let mut families: BTreeMap<Option<&Arc<str>>, Vec<(&ThreadFacts, &Site)>> = BTreeMap::new();
    for thread in &facts.threads {
        if let Some(site) = &thread.looking {
            let function = site.caller().and_then(|frame| frame.function.as_ref());
            families.entry(function).or_default().push((thread, site));
        }
    }
    let sum_ns = |family: &[(&ThreadFacts, &Site)]| family.iter().map(|(_, site)| site.ns).sum::<u64>();
    let family = families.into_values().max_by_key(|family| sum_ns(family))?;
    let sleeps: u64 = family.iter().map(|(_, site)| site.count).sum();
    let mean_ns = sum_ns(&family).checked_div(sleeps)?;
    let late_ns = family.iter().map(|(thread, site)| goes_on(thread).min(site.count)).sum::<u64>() * mean_ns / 2;
    let is_of = |tid| family.iter().any(|(thread, _)| thread.tid == tid);
    let parts = facts.path.parts.iter().filter(|part| part.leaf == Leaf::Sleep && is_of(part.thread));
    let on_path = weigh::share(parts.map(|part| part.ns).sum(), facts.span_ns());
    let late = weigh::share(late_ns, facts.span_ns()).min(on_path);
    let (thread, site) = family.iter().max_by_key(|(_, site)| site.ns)?;
    let told = Told {
        thread,
        threads: family.len(),
        polls: sleeps,
        period_ns: mean_ns,
        sleep_share: on_path,
        gain: late.min(MOST_LATE),
    };
    (late >= LEAST_LATE).then(|| told.finding(facts, Some((*site).clone())))
}

/// Threads that try to take the lock of a file, and sleep before they try again.
fn of_tries(facts: &Facts) -> Option<Finding> {
    let tries = |thread: &&ThreadFacts| {
        let OffTime { count, ns } = thread.retries;
        let work_ns = thread.on_cpu_ns + weigh::waiting_ns(thread) + ns;
        count >= LEAST_TRIES
            && weigh::share(ns, thread.life_ns()) >= LEAST_TRIED
            && weigh::share(ns, work_ns) >= LEAST_TRYING
    };
    let trying: Vec<&ThreadFacts> = facts.threads.iter().filter(tries).collect();
    let worst = trying.iter().max_by_key(|thread| thread.retries.ns).filter(|_| trying.len() >= 2)?;
    let sum = |of: fn(&ThreadFacts) -> u64| trying.iter().map(|thread| of(thread)).sum::<u64>();
    let (times, slept_ns) = (sum(|thread| thread.retries.count), sum(|thread| thread.retries.ns));
    let share = weigh::share(slept_ns, sum(ThreadFacts::life_ns));
    let sleeps = || weigh::worst_site(facts, |row| row.leaf == Leaf::Sleep && row.waiter == worst.tid);
    let told = Told {
        thread: worst,
        threads: trying.len(),
        polls: times,
        period_ns: slept_ns / times,
        sleep_share: share,
        gain: share.min(MOST_LATE),
    };
    Some(told.finding(facts, worst.looking.clone().or_else(|| sleeps().map(|(_, site)| site))))
}

/// How often a thread did more than to look: it ran for much longer, waited for something else, or ended a wait of
/// another; once at least, before it ended.
fn goes_on(thread: &ThreadFacts) -> u64 {
    const LONGER: u64 = 4;
    let look_ns = thread.run_ns.quantile_ns(0.1);
    let runs = thread.run_ns.buckets().filter(|(from, ..)| *from >= LONGER * look_ns);
    let longer: u64 = runs.map(|(.., count)| count).sum();
    let sleeps = thread.looking.as_ref().map_or(0, |site| site.count);
    longer.max(thread.voluntary.saturating_sub(sleeps)).max(thread.ended_waits).max(1)
}

/// Goroutines that sleep in a loop that does nothing but look, and go on in between, while the CPUs are mostly idle.
fn of_goroutines(facts: &Facts) -> Option<Finding> {
    let of = facts.goroutines.iter().find(|of| of.looks >= LEAST_GO_LOOKS)?;
    let looking = of.doing.iter().filter_map(|group| Some((group, group.looking?)));
    let goes_on = |looking: &Looking| looking.share >= LEAST_LOOKING && looking.turns >= LEAST_TURNS;
    let (group, looking) =
        looking.filter(|(_, looking)| goes_on(looking)).max_by(|a, b| a.0.mean.total_cmp(&b.0.mean))?;
    let idle = weigh::idle(facts);
    (idle >= LEAST_IDLE).then(|| Finding {
        severity: (looking.share * idle).min(MOST_SEVERITY),
        subjects: weigh::function_subject(&group.site),
        place: Some(group.site.clone()),
        evidence: vec![part("sleep_share", looking.share), count("goroutines", group.mean.ceil() as u64)],
        ..Finding::new(Kind::Polling, Cure::BlockInsteadOfLooking, weigh::record_again())
    })
}

/// Whether many of a thread's sleeps are of one length, as far as looks from outside do not blur it.
fn is_steady(facts: &Facts, thread: &ThreadFacts) -> bool {
    let sleeps: Vec<(u64, u64)> = thread.timed_ns.buckets().map(|(from, _, count)| (from, count)).collect();
    let alike = |from: u64| -> u64 {
        let upto = (from as f64 * ALIKE) as u64;
        sleeps.iter().filter(|(length, _)| (from..=upto).contains(length)).map(|(_, count)| count).sum()
    };
    let most = sleeps.iter().map(|(from, _)| alike(*from)).max().unwrap_or(0);
    facts.header.is_sampled() || most as f64 >= thread.timed_ns.count() as f64 * LEAST_OF_ONE_LENGTH
}

/// Whether those who mostly wait for this thread's sleeps end as many waits themselves as it does: a thread that asks
/// keeps its answer to itself.
fn gives_to_who_passes_on(facts: &Facts, giver: &ThreadFacts) -> bool {
    let waits = |row: &&Blame| row.thread == giver.tid && row.waiter != giver.tid && row.leaf == Leaf::Sleep;
    let takers = facts.blame.iter().filter(waits).filter_map(|row| facts.thread(row.waiter));
    takers.into_iter().any(|taker| taker.tid != giver.tid && taker.ended_waits * 5 >= giver.ended_waits * 4)
}

fn polls(facts: &Facts, poller: &Poller) -> bool {
    let Poller { thread, times, slept_ns, place, unsignalled } = *poller;
    let least = if unsignalled { LEAST_UNSIGNALLED } else { LEAST_SHARE };
    times >= LEAST_SLEEPS
        && slept_ns / times <= LONGEST_ALIKE_NS
        && weigh::share(slept_ns, thread.life_ns()) >= least
        && weigh::share(thread.lock_wait_ns, thread.life_ns()) <= MOST_LOCK_WAITS
        && thread.run_ns.median_ns() <= LONGEST_RUN_NS
        && weigh::share(thread.on_cpu_ns, thread.life_ns()) <= MOST_RUN
        && times * 5 >= thread.voluntary * 4
        && (place.is_some() || is_steady(facts, thread))
        && (thread.wakes * 2 < times || (unsignalled && slept_ns / times <= LONGEST_SLEEP_NS))
}

/// Those that wait for their timeouts while others with work to do wait for them.
fn in_the_way<'a>(facts: &Facts, pollers: &[Poller<'a>]) -> Vec<Poller<'a>> {
    let works = |tid| facts.thread(tid).is_some_and(|one| weigh::share(one.on_cpu_ns, one.life_ns()) >= LEAST_WORK);
    let waited_ns = |poller: &Poller| waited_ns(facts, |tid| tid == poller.thread.tid, works);
    let may = |poller: &&Poller| {
        let long_enough = poller.times >= LEAST_IN_THE_WAY && poller.slept_ns / poller.times <= LONGEST_IN_THE_WAY_NS;
        poller.unsignalled && long_enough && is_steady(facts, poller.thread) && waited_ns(poller) > 0
    };
    let all: Vec<Poller> = pollers.iter().filter(may).copied().collect();
    let enough = weigh::share(all.iter().map(waited_ns).sum(), facts.span_ns()) >= LEAST_WAITED;
    if enough { all } else { Vec::new() }
}

/// Those of a chain, each of which looks whether the one before has something for it, while others wait for its end.
fn relayed<'a>(facts: &Facts, waits: &[Poller<'a>]) -> Vec<Poller<'a>> {
    let may = |poller: &&Poller| {
        let Poller { times, slept_ns, place, .. } = **poller;
        place.is_none() && times >= LEAST_IN_THE_WAY && slept_ns / times <= LONGEST_IN_THE_WAY_NS
    };
    let family = alike(facts, waits.iter().filter(may).copied().collect(), LONGEST_RUN_NS);
    let silent = family.iter().filter(|poller| poller.thread.ended_waits * 2 < poller.times).count();
    let is_of = |tid| family.iter().any(|poller| poller.thread.tid == tid);
    let hands_on = |tid| facts.thread(tid).is_some_and(|thread| thread.ended_waits >= LEAST_IN_THE_WAY);
    let waited_ns = waited_ns(facts, is_of, hands_on);
    let is_chain = silent >= 2 && weigh::share(waited_ns, facts.span_ns()) >= LEAST_WAITED;
    if is_chain { family } else { Vec::new() }
}

/// Those that sleep for as long as most others do, with short looks in between.
fn alike<'a>(facts: &Facts, slow: Vec<Poller<'a>>, longest_look_ns: u64) -> Vec<Poller<'a>> {
    let looks = |poller: &Poller| {
        weigh::share(poller.slept_ns, poller.thread.life_ns()) >= LEAST_ALIKE_SHARE
            && poller.thread.run_ns.median_ns() <= longest_look_ns
            && is_steady(facts, poller.thread)
    };
    let mut slow: Vec<Poller> = slow.into_iter().filter(looks).collect();
    slow.sort_by_key(|poller| poller.slept_ns / poller.times);
    let mean_ns = |poller: &Poller| poller.slept_ns as f64 / poller.times as f64;
    let Some(middle) = slow.get(slow.len() / 2).map(mean_ns) else { return Vec::new() };
    slow.retain(|poller| (mean_ns(poller) - middle).abs() <= MOST_APART * middle);
    // The stages of a pipeline may be as slow as each other, but began with functions of their own.
    let mut families: BTreeMap<Option<Arc<str>>, Vec<Poller>> = BTreeMap::new();
    for poller in slow {
        let began = place(facts, &poller).and_then(|site| site.began_with().cloned());
        families.entry(began).or_default().push(poller);
    }
    let largest = families.into_values().max_by_key(Vec::len);
    largest.filter(|family| family.len() >= LEAST_ALIKE).unwrap_or_default()
}

/// Where it waits, or mostly sleeps.
fn place(facts: &Facts, poller: &Poller) -> Option<Site> {
    let tid = poller.thread.tid;
    let sleeps = || weigh::worst_site(facts, |row| row.leaf == Leaf::Sleep && row.waiter == tid).map(|(_, site)| site);
    poller.place.cloned().or_else(sleeps)
}
