//! lost-wakeups: the program stands still until timed waits for a condition run out, although the condition is
//! signalled: its signals miss who could go on.
//!
//! Signs and thresholds, per condition:
//! - at least [`LEAST_TIMEOUTS`] of its waits end by their timeout, and as many end by a signal or more;
//! - at least [`LEAST_WAITERS`] threads wait for it;
//! - those that run out take as long as each other: the lower part of them ([`LOWER_PART`]) lasts for [`LEAST_ALIKE`]
//!   of the longest, so what runs out is one patience, and no schedule;
//! - for [`LEAST_STILL`] of the elapsed time the program waits for that and nothing else, by the path; less than half
//!   of a CPU is busy.
//!
//! Of two such conditions, if those that wait for one are [`LEAST_CROSSED`] of what ends the waits for the other, and
//! the other way round, who waits for one has what the others wait for: one finding tells of both.
//!
//! Or one thread waits for more to come, until it has waited long enough, while all who could send more wait for it:
//! at least [`LEAST_RESULTS`] of its waits run out, and others end some; for [`LEAST_STILL`] of the elapsed time the
//! program waits for that and nothing else; others that wake that thread, and are woken by it, wait for it for
//! [`LEAST_STILL`] of the elapsed time, too.
//!
//! Or tasks of an executor of Java or Python, or holders of futures of C++, wait for results of others until they have
//! waited long enough: at least [`LEAST_RESULTS`] waits of [`LEAST_WAITERS`] threads or more run out, half of them or
//! more, and for [`LEAST_STILL`] of the elapsed time the program waits for that and nothing else. Nobody is left to run
//! what they wait for.
//!
//! The severity is that share of the elapsed time. The place is where most of the waits are.
//!
//! How it can be wrong: several threads that do something in turn after always the same pause, and make the pause by a
//! condition that is signalled for other things as well.

use std::collections::BTreeSet;

use super::weigh::{self, count, ns, part, rate};
use super::{Cure, Evidence, Finding, Kind, Rule, alone, runtime};
use crate::facts::{Blame, Facts, Holder, Leaf, LockFacts, LockNumber, PairFacts, Primitive, Site};
use crate::names::{is_sleep, leads_through};
use holdup_trace::Tid;
use rustc_hash::FxHashSet;

pub(super) const RULE: Rule = Rule {
    kind: Kind::LostWakeups,
    judge,
    evidence: &["still_share", "patience_ns", "timeouts_per_s", "timeouts", "wakes", "waiters", "customers"],
};

pub(super) const LEAST_TIMEOUTS: u64 = 50;
pub(super) const LEAST_RESULTS: u64 = 8;
pub(super) const LEAST_WAITERS: usize = 2;
/// So often a thread wakes one that waits for more, and is woken by it.
const LEAST_SENT: u64 = 3;
/// One wait at least is ended by somebody else for so many that run out.
const SENT_ONE_IN: u64 = 8;
pub(super) const LOWER_PART: f64 = 0.2;
pub(super) const LEAST_ALIKE: f64 = 0.75;
pub(super) const LEAST_STILL: f64 = 0.4;
pub(super) const LEAST_CROSSED: f64 = 0.5;

fn judge(facts: &Facts) -> Vec<Finding> {
    if weigh::cpu_ns(facts) * 2 >= facts.span_ns() {
        return Vec::new();
    }
    let mut conditions: Vec<(&LockFacts, Finding)> =
        facts.numbered_locks().filter_map(|(number, lock)| Some((lock, of_condition(facts, number, lock)?))).collect();
    if let [(one, first), (other, second), ..] = &mut conditions[..]
        && wakes(one, other)
        && wakes(other, one)
    {
        first.subjects.append(&mut second.subjects);
        first.cure = Cure::LockInOrder;
        conditions.remove(1);
    }
    let batches = facts.locks.iter().filter_map(|lock| of_batch(facts, lock));
    conditions.into_iter().map(|(_, finding)| finding).chain(of_results(facts)).chain(batches).collect()
}

/// Whether those that wait for one thing mostly end the waits for the other.
fn wakes(one: &LockFacts, other: &LockFacts) -> bool {
    let is_waiter = |holder: &&Holder| one.waiters.iter().any(|(waiter, _)| *waiter == holder.tid);
    let all: u64 = other.holders.iter().map(|holder| holder.count).sum();
    let by_waiters = other.holders.iter().filter(is_waiter).map(|holder| holder.count).sum();
    weigh::share(by_waiters, all) >= LEAST_CROSSED
}

/// One thread waits for more of what only those can send who wait for it.
fn of_batch(facts: &Facts, lock: &LockFacts) -> Option<Finding> {
    let runs_out = lock.timeouts >= LEAST_RESULTS;
    let is_sent_to = lock.wakes * SENT_ONE_IN >= lock.timeouts;
    if !runs_out || !is_sent_to || lock.primitive.is_contention() || lock.waiters.len() != 1 {
        return None;
    }
    let batcher = lock.waiters[0].0;
    let sleeps = |site: &Site| leads_through(&site.call_path, is_sleep);
    let site = lock.wait_sites.first().filter(|_| !lock.wait_sites.iter().any(sleeps))?;
    let customers: FxHashSet<Tid> = facts.pairs.iter().filter_map(|pair| customer(pair, batcher)).collect();
    let waits = |row: &&Blame| row.thread == batcher && row.leaf == Leaf::Sleep && customers.contains(&row.waiter);
    let waited_ns: u64 = facts.blame.iter().filter(waits).map(|row| row.ns).sum();
    let still = still_share(facts, |place| alone::is_same(place, site));
    let enough = still >= LEAST_STILL && weigh::share(waited_ns, facts.span_ns()) >= LEAST_STILL;
    enough.then(|| Finding {
        subjects: vec![weigh::thread_subject(facts, batcher)],
        place: Some(site.clone()),
        cure: Cure::TakeWhatIsThere,
        ..found(facts, still, (ran_out_ns(lock, 0.5), lock.timeouts), &[count("customers", customers.len() as u64)])
    })
}

/// What is told of all: for how long the program stands still, the patience and how often it runs out, and more.
fn found(facts: &Facts, still: f64, (patience_ns, timeouts): (u64, u64), more: &[Evidence]) -> Finding {
    let mut evidence = vec![
        part("still_share", still),
        ns("patience_ns", patience_ns),
        rate("timeouts_per_s", weigh::per_s(timeouts, facts.span_ns())),
        count("timeouts", timeouts),
    ];
    evidence.extend_from_slice(more);
    Finding {
        severity: still,
        bound: Some(1.0 / (1.0 - still)),
        evidence,
        ..Finding::new(Kind::LostWakeups, Cure::WakeWhoCanGoOn, weigh::record_again())
    }
}

/// The other one of a pair with this thread, if it sends something and is answered.
fn customer(pair: &PairFacts, of: Tid) -> Option<Tid> {
    let both = pair.wakings.a_to_b.min(pair.wakings.b_to_a) >= LEAST_SENT;
    let other = if pair.a == of { pair.b } else { pair.a };
    (both && [pair.a, pair.b].contains(&of)).then_some(other)
}

/// Tasks that wait for other tasks of their pool, all of whose threads do.
fn of_results(facts: &Facts) -> Option<Finding> {
    let is_result = |lock: &&LockFacts| lock.wait_sites.first().is_some_and(runtime::waits_in_task_for_result);
    let locks: Vec<&LockFacts> = facts.locks.iter().filter(is_result).collect();
    let sum = |of: fn(&LockFacts) -> u64| locks.iter().map(|lock| of(lock)).sum::<u64>();
    let (waits, timeouts) = (sum(|lock| lock.waits), sum(|lock| lock.timeouts));
    let waiters: BTreeSet<_> = locks.iter().flat_map(|lock| &lock.waiters).map(|(tid, _)| *tid).collect();
    if timeouts < LEAST_RESULTS || timeouts * 2 < waits || waiters.len() < LEAST_WAITERS {
        return None;
    }
    let still = still_share(facts, runtime::waits_in_task_for_result);
    let longest = locks.iter().max_by_key(|lock| lock.wait_ns.sum_ns())?;
    let place = longest.wait_sites.first()?.clone();
    let more = [count("waiters", waiters.len() as u64)];
    (still >= LEAST_STILL).then(|| Finding {
        subjects: weigh::function_subject(&place),
        place: Some(place),
        ..found(facts, still, (longest.wait_ns.max_ns(), timeouts), &more)
    })
}

/// For how much of the elapsed time the program waits for sleeps at such places.
fn still_share(facts: &Facts, is_there: impl Fn(&Site) -> bool) -> f64 {
    let stands = facts.path.parts.iter().filter(|part| matches!(part.leaf, Leaf::Sleep | Leaf::Unknown));
    let still_ns = stands.filter(|part| part.site.as_ref().is_some_and(&is_there)).map(|part| part.ns).sum();
    weigh::share(still_ns, facts.span_ns()).min(1.0)
}

fn of_condition(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Option<Finding> {
    let is_signalled = lock.timeouts >= LEAST_TIMEOUTS && lock.wakes >= lock.timeouts;
    if lock.primitive != Primitive::Condvar || !is_signalled || lock.waiters.len() < LEAST_WAITERS {
        return None;
    }
    let patience_ns = patience(lock)?;
    let waits_there = |site: &Site| lock.wait_sites.iter().any(|of_lock| alone::is_same(site, of_lock));
    let still = still_share(facts, waits_there);
    let more = [count("wakes", lock.wakes), count("waiters", lock.waiters.len() as u64)];
    (still >= LEAST_STILL).then(|| Finding {
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.wait_sites.first().cloned(),
        ..found(facts, still, (patience_ns, lock.timeouts), &more)
    })
}

/// For how long those of its waits last that run out, the longest of all, if they are alike.
fn patience(lock: &LockFacts) -> Option<u64> {
    let [lower, middle, longest] = [LOWER_PART, 0.5, 0.9].map(|part| ran_out_ns(lock, part));
    (lower as f64 >= LEAST_ALIKE * longest as f64).then_some(middle)
}

/// How long such a part of its waits that run out, the longest of all, last at most.
fn ran_out_ns(lock: &LockFacts, part: f64) -> u64 {
    let ran_out = weigh::share(lock.timeouts, lock.waits).min(1.0);
    lock.wait_ns.quantile_ns(1.0 - ran_out * (1.0 - part))
}
