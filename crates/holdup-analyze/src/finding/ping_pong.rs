//! ping-pong: two threads wake each other in turn, so that neither gets far alone and every piece of work costs two
//! switches.
//!
//! Signs (the Windows CE team's, 2007: short runs, the same pattern repeating between the same pair) and thresholds,
//! per pair:
//! - at least [`LEAST_TRIPS`] round trips, over at least [`LEAST_WINDOW_NS`];
//! - at least [`LEAST_TRIPS_PER_S`] round trips a second while they last;
//! - the median stay on a CPU is at most [`LONGEST_RUN_NS`] for either thread: switching takes at least 5% of that;
//! - at least [`LEAST_SWITCH_SHARE`] of the times that the two left the CPU to wait belong to round trips: they do
//!   little else. In a ring of threads each wakes only the next;
//! - none of the two sleeps for every second round trip without being woken by the other: then it sets the pace;
//! - none of the two sleeps, or waits for a device, for [`MOST_ASLEEP`] of the time: then that takes long which the one
//!   asks of the other, and not the asking.
//!
//! On one CPU the woken thread may take it from its waker at once and sleep again before that goes on: then only one of
//! the two wakes the other, and is preempted instead of sleeping. That the CPU is given back counts as the way back.
//!
//! Where threads were only looked at from time to time, nobody is seen to wake anybody. But the kernel counts how often
//! each thread left the CPU to wait: two threads that do so thousands of times a second and, over the whole recording,
//! equally often ([`MOST_APART`]), and that do not run side by side all the time ([`MOST_TOGETHER`]), are in step; if
//! no third thread is, they take turns.
//!
//! Or two threads take turns with long runs, and there is nobody else: at least [`LEAST_TURNS`] round trips, which at
//! least [`LEAST_TURN_SHARE`] of their waits belong to; they have [`LEAST_OF_ALL`] of the CPU time, each
//! [`LEAST_OF_PAIR`] of theirs; exactly one wants a CPU for [`LEAST_IN_TURN`] of the time, and several for
//! [`MOST_AT_ONCE`], where a wait of one for the CPU that the other has is no such time. Then switching costs little,
//! but a CPU is idle all the time: the severity is what would overlap.
//!
//! Pairs are told as one finding, about the one with most round trips; the number of pairs is in the evidence. The
//! severity is the estimated share of CPU time that goes to switching, at 5 us for each stay on a CPU; that the two
//! never run side by side comes on top.
//!
//! How it can be wrong: two threads that contend for a lock also wake each other in turn; where the waits are for a
//! lock, the lock is reported. A request that has to be answered before the next can be asked leaves no choice but to
//! do both in one thread.

use holdup_trace::Tid;

use super::alone;
use super::runtime;
use super::weigh::{self, MS, US, count, ns, part, rate};
use super::{Cure, Finding, Kind, Moment, Rule};
use crate::facts::{AccountState, Facts, PairFacts, Reason, ThreadFacts};

pub(super) const RULE: Rule = Rule {
    kind: Kind::PingPong,
    judge,
    evidence: &["round_trips_per_s", "run_ns_median", "switch_share", "round_trips", "pairs", "alone_share"],
};

pub(super) const LEAST_TRIPS: u64 = 200;
pub(super) const LEAST_WINDOW_NS: u64 = 20 * MS;
pub(super) const LEAST_TRIPS_PER_S: f64 = 1_000.0;
pub(super) const LONGEST_RUN_NS: u64 = 100 * US;
pub(super) const LEAST_SWITCH_SHARE: f64 = 0.5;
pub(super) const MOST_ASLEEP: f64 = 0.4;
pub(super) const MOST_APART: f64 = 0.1;
pub(super) const MOST_TOGETHER: f64 = 0.6;

pub(super) const LEAST_TURNS: u64 = 100;
pub(super) const LEAST_TURN_SHARE: f64 = 0.8;
pub(super) const LEAST_OF_ALL: f64 = 0.9;
pub(super) const LEAST_OF_PAIR: f64 = 0.2;
pub(super) const LEAST_IN_TURN: f64 = 0.75;
pub(super) const MOST_AT_ONCE: f64 = 0.15;

/// A moment shows some round trips, not all of the recording.
const MOMENT_NS: u64 = 5 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    if facts.header.is_sampled() {
        return in_step(facts).into_iter().collect();
    }
    let mut pairs: Vec<&PairFacts> = facts.pairs.iter().filter(|pair| is_ping_pong(facts, pair)).collect();
    pairs.sort_by_key(|pair| std::cmp::Reverse(trips(pair)));
    let quick = pairs.first().map(|worst| finding(facts, worst, &pairs));
    quick.or_else(|| in_long_turns(facts)).into_iter().collect()
}

/// Two threads that do all the work, one at a time.
fn in_long_turns(facts: &Facts) -> Option<Finding> {
    let pair = facts.pairs.iter().filter(|pair| are_own(facts, pair)).max_by_key(|pair| trips(pair))?;
    let ran_ns = |tid| facts.thread(tid).map_or(0, |thread| thread.on_cpu_ns);
    let both_ns = ran_ns(pair.a) + ran_ns(pair.b);
    let less = weigh::share(ran_ns(pair.a).min(ran_ns(pair.b)), both_ns);
    let (_, alone, together) = alone::runnable_shares(facts);
    // On one CPU, whoever is waked first waits for it until the other sleeps: then both want it, and one has it.
    let queued = |tid| facts.thread(tid).map_or(0, |thread| thread.account.of(AccountState::CpuOwn));
    let queued_share = weigh::share(queued(pair.a) + queued(pair.b), facts.span_ns()).min(together);
    let (alone, together) = (alone + queued_share, together - queued_share);
    let take_turns = trips(pair) >= LEAST_TURNS
        && switch_share(facts, pair) >= LEAST_TURN_SHARE
        && weigh::share(both_ns, weigh::cpu_ns(facts)) >= LEAST_OF_ALL
        && less >= LEAST_OF_PAIR
        && alone >= LEAST_IN_TURN
        && together <= MOST_AT_ONCE;
    take_turns.then(|| {
        let mut found = finding(facts, pair, &[pair]);
        found.evidence.push(part("alone_share", alone));
        (found.severity, found.cure, found.proof) = (alone * less, Cure::LetOverlap, weigh::record_again());
        found
    })
}

/// Two threads that leave the CPU to wait equally often, as the kernel counted it, and no third that does.
fn in_step(facts: &Facts) -> Option<Finding> {
    let waits = |thread: &ThreadFacts| {
        let is = |reason: &Reason| match reason {
            Reason::Futex(primitive) => !primitive.is_contention(),
            reason => matches!(reason, Reason::Peer | Reason::OtherCall),
        };
        thread.off.iter().filter(|(reason, _)| is(reason)).map(|(_, off)| off.count).sum::<u64>()
    };
    let is_quick = |thread: &&ThreadFacts| {
        weigh::per_s(thread.voluntary, thread.life_ns()) >= 2.0 * LEAST_TRIPS_PER_S
            && thread.voluntary >= 2 * LEAST_TRIPS
            && waits(thread) as f64 >= thread.voluntary as f64 * (1.0 - LEAST_SWITCH_SHARE / 5.0)
            && thread.run_ns.median_ns() <= LONGEST_RUN_NS
    };
    let quick: Vec<&ThreadFacts> = facts.threads.iter().filter(is_quick).collect();
    let [a, b] = quick[..] else { return None };
    let (_, _, together) = alone::runnable_shares(facts);
    let is_in_step = a.pid == b.pid
        && a.voluntary.abs_diff(b.voluntary) as f64 <= MOST_APART * a.voluntary as f64
        && together <= MOST_TOGETHER;
    let (from_ns, to_ns) = (a.born_ns.max(b.born_ns), a.ended_ns.min(b.ended_ns));
    let pair = PairFacts { a: a.tid, b: b.tid, round_trips: a.voluntary / 2, from_ns, to_ns, ..PairFacts::default() };
    is_in_step.then(|| finding(facts, &pair, &[&pair]))
}

/// Whether a thread is half of a ping-pong: then it runs alone because the other always waits for its turn.
pub(super) fn takes_turns(facts: &Facts, tid: Tid) -> bool {
    facts.pairs.iter().any(|pair| (pair.a == tid || pair.b == tid) && is_ping_pong(facts, pair))
}

/// What a runtime's own thread does beside the program, such as compiling what another asks for, is no turn.
fn is_ping_pong(facts: &Facts, pair: &PairFacts) -> bool {
    are_own(facts, pair)
        && !is_paced(facts, pair)
        && !is_long_asleep(facts, pair)
        && trips(pair) >= LEAST_TRIPS
        && window_ns(pair) >= LEAST_WINDOW_NS
        && trips_per_s(pair) >= LEAST_TRIPS_PER_S
        && run_ns(facts, pair) <= LONGEST_RUN_NS
        && switch_share(facts, pair) >= LEAST_SWITCH_SHARE
}

/// Whether one of the two sleeps for every second round trip, and is hardly ever woken by the other.
fn is_paced(facts: &Facts, pair: &PairFacts) -> bool {
    let paces = |(tid, woken): (Tid, u64)| {
        let sleeps = facts.thread(tid).and_then(|thread| thread.off.get(&Reason::Sleep)).map_or(0, |time| time.count);
        sleeps * 2 >= trips(pair).max(1) && woken * 10 < sleeps
    };
    [(pair.a, pair.wakings.b_to_a), (pair.b, pair.wakings.a_to_b)].into_iter().any(paces)
}

/// Whether one of the two mostly lets time pass, or waits for a device.
fn is_long_asleep(facts: &Facts, pair: &PairFacts) -> bool {
    let asleep = |tid| {
        let off = &facts.thread(tid)?.off;
        Some([Reason::Sleep, Reason::Io].iter().filter_map(|reason| off.get(reason)).map(|time| time.ns).sum::<u64>())
    };
    [pair.a, pair.b].into_iter().filter_map(asleep).any(|ns| ns as f64 >= MOST_ASLEEP * window_ns(pair) as f64)
}

fn are_own(facts: &Facts, pair: &PairFacts) -> bool {
    [pair.a, pair.b].into_iter().all(|tid| facts.thread(tid).is_none_or(|thread| !runtime::is_of_java(&thread.name)))
}

fn window_ns(pair: &PairFacts) -> u64 {
    pair.to_ns.saturating_sub(pair.from_ns)
}

fn trips(pair: &PairFacts) -> u64 {
    pair.round_trips
}

fn trips_per_s(pair: &PairFacts) -> f64 {
    weigh::per_s(trips(pair), window_ns(pair))
}

/// The longer of the two threads' median stays on a CPU.
fn run_ns(facts: &Facts, pair: &PairFacts) -> u64 {
    let median_ns = |tid| facts.thread(tid).map_or(0, |thread| thread.run_ns.median_ns());
    median_ns(pair.a).max(median_ns(pair.b))
}

/// How many of the two threads' voluntary switches belong to round trips: two each, or one where one of the two is
/// preempted.
fn switch_share(facts: &Facts, pair: &PairFacts) -> f64 {
    let threads = [pair.a, pair.b].into_iter().filter_map(|tid| facts.thread(tid));
    let switches: u64 = threads.map(|thread| thread.voluntary).sum();
    weigh::share(2 * trips(pair), switches).min(1.0)
}

fn finding(facts: &Facts, worst: &PairFacts, pairs: &[&PairFacts]) -> Finding {
    Finding {
        kind: Kind::PingPong,
        bound: None,
        severity: severity(facts, pairs),
        subjects: [worst.a, worst.b].into_iter().map(|tid| weigh::thread_subject(facts, tid)).collect(),
        place: worst.sites.first().cloned(),
        evidence: vec![
            rate("round_trips_per_s", trips_per_s(worst)),
            ns("run_ns_median", run_ns(facts, worst)),
            part("switch_share", switch_share(facts, worst)),
            count("round_trips", trips(worst)),
            count("pairs", pairs.len() as u64),
        ],
        moments: vec![Moment {
            tid: worst.a,
            from_ns: worst.from_ns,
            to_ns: worst.to_ns.min(worst.from_ns + MOMENT_NS),
        }],
        cure: Cure::MergeOrBatch,
        proof: weigh::bench("--workload ping-pong --threads 1,2 --batch 1,16"),
    }
}

/// Each thread counts once, however many pairs it is in. Between many short stays on a CPU there may be a few long
/// ones, in which nothing is switched.
fn severity(facts: &Facts, pairs: &[&PairFacts]) -> f64 {
    let in_pair = |tid| pairs.iter().any(|pair| pair.a == tid || pair.b == tid);
    let threads = || facts.threads.iter().filter(|thread| in_pair(thread.tid));
    let busy_ns: u64 = threads().map(|thread| thread.on_cpu_ns).sum();
    let stays: u64 = threads().map(|thread| thread.voluntary + thread.involuntary).sum();
    weigh::switching_share(busy_ns / stays.max(1)) * weigh::share(busy_ns, weigh::cpu_ns(facts)).min(1.0)
}
