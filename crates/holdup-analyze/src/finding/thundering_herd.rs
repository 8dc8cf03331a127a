//! thundering-herd: one wake-up releases many threads, of which one finds work and the others go straight back to
//! sleep.
//!
//! Signs and thresholds, per futex:
//! - at least [`LEAST_CALLS`] calls that woke several at once, [`LEAST_WOKEN`] threads each on average;
//! - at least [`LEAST_BACK_SHARE`] of the woken wait again within their first run, without 50 us of anything else;
//! - at least [`LEAST_BACK_PER_S`] of them a second: an idle program that once in a while wakes all its threads harms
//!   nobody.
//!
//! The severity is 5 us for each of them, as a share of the time for which threads ran or waited for locks (at least of
//! the elapsed time), and what they waited for the locks that all who are woken want: as a share of the elapsed time
//! where the critical path tells, otherwise of their lives.
//!
//! Goroutines that a broadcast wakes have no thread of their own: they are such a herd if four for each CPU and more
//! are awake where they wait for a condition, some of them for its mutex, others wait there again, and that takes 30%
//! of the CPU samples.
//!
//! `notifyAll` of a Java monitor wakes its herd one by one, each as the monitor falls to it: such a herd waits in
//! `Object.wait` of one place for [`LEAST_OF_MONITOR`] of what is waited there, at least [`LEAST_CROWD`] threads at a
//! time and [`LEAST_PASSED_PER_S`] times a second, and mostly those who wait so themselves let the next one in.
//!
//! Threads that poll the same socket, pipe or device are such a herd as well, told by where they poll: the kernel wakes
//! all of them for one message or connection.
//!
//! A barrier, the end of a thread and a one-time initialisation release all by design and are left out. A lock whose
//! release wakes all who want it is told as a lock.
//!
//! How it can be wrong: threads that were all given work of less than 50 us also go straight back to sleep; then the
//! work is too fine, which is no better.

use std::collections::BTreeSet;

use holdup_trace::Tid;

use super::stages;
use super::weigh::{self, SWITCH_NS, count, part, rate, ratio};
use super::{Cure, Evidence, Finding, Kind, Rule, goroutines};
use crate::facts::{Facts, Herds, LockFacts, LockNumber, PollHerds, Primitive, Site};
use crate::names::leads_through;

pub(super) const RULE: Rule = Rule {
    kind: Kind::ThunderingHerd,
    judge,
    evidence: &[
        "back_to_sleep_share",
        "woken_per_wake",
        "herds_per_s",
        "woken",
        "max_waiters",
        "samples_share",
        "awake_goroutines",
        "goroutines",
        "passed_per_s",
    ],
};

pub(super) const LEAST_CALLS: u64 = 20;
pub(super) const LEAST_WOKEN: f64 = 2.5;
pub(super) const LEAST_BACK_SHARE: f64 = 0.5;
pub(super) const LEAST_BACK_PER_S: f64 = 500.0;
pub(super) const LEAST_OF_MONITOR: f64 = 0.8;
pub(super) const LEAST_CROWD: u32 = 8;
pub(super) const LEAST_PASSED_PER_S: f64 = 5_000.0;

fn judge(facts: &Facts) -> Vec<Finding> {
    let herds = facts.numbered_locks().filter(|(_, lock)| is_herd(facts, lock));
    let monitors = weigh::contended(facts).filter(|(_, lock)| is_herd_of_monitor(facts, lock));
    let monitors = monitors.map(|(number, lock)| of_monitor(facts, number, lock));
    let herds = herds.map(|(number, lock)| finding(facts, number, lock));
    herds.chain(monitors).chain(goroutines::herds(facts)).chain(of_events(facts)).collect()
}

/// Threads that poll the same thing, all of which are woken for what one of them takes.
fn of_events(facts: &Facts) -> Option<Finding> {
    let PollHerds { herds, site } = facts.poll_herds.as_ref().filter(|found| are_for_nothing(facts, &found.herds))?;
    let busy_ns = weigh::cpu_ns(facts).max(facts.span_ns());
    Some(Finding {
        severity: weigh::share(herds.back_to_sleep * SWITCH_NS, busy_ns).min(1.0),
        subjects: weigh::function_subject(site),
        place: Some(site.clone()),
        evidence: numbers(facts, herds),
        ..Finding::new(Kind::ThunderingHerd, Cure::WaitInCall, weigh::record_again())
    })
}

fn is_herd_of_monitor(facts: &Facts, lock: &LockFacts) -> bool {
    let waits = |site: &&Site| leads_through(&site.call_path, |name| name == "ObjectMonitor::wait");
    let in_wait: u64 = lock.wait_sites.iter().filter(waits).map(|site| site.ns).sum();
    let all: u64 = lock.wait_sites.iter().map(|site| site.ns).sum();
    lock.max_waiters >= LEAST_CROWD
        && weigh::share(in_wait, all) >= LEAST_OF_MONITOR
        && weigh::per_s(lock.waits, facts.span_ns()) >= LEAST_PASSED_PER_S
}

fn of_monitor(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    Finding {
        severity: weigh::lock_severity(facts, number, lock),
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.wait_sites.first().cloned(),
        evidence: vec![
            rate("passed_per_s", weigh::per_s(lock.waits, facts.span_ns())),
            count("max_waiters", u64::from(lock.max_waiters)),
        ],
        moments: weigh::longest(lock),
        ..Finding::new(Kind::ThunderingHerd, Cure::WakeOne, weigh::record_again())
    }
}

fn is_herd(facts: &Facts, lock: &LockFacts) -> bool {
    let by_design = matches!(lock.primitive, Primitive::Barrier | Primitive::Join | Primitive::Once);
    // A lock whose release wakes all is told as a lock.
    !(by_design || lock.primitive.is_contention()) && are_for_nothing(facts, &lock.herds)
}

/// Whether many are woken at once, most of them for nothing.
fn are_for_nothing(facts: &Facts, herds: &Herds) -> bool {
    herds.calls >= LEAST_CALLS
        && weigh::share(herds.woken, herds.calls) >= LEAST_WOKEN
        && back_share(herds) >= LEAST_BACK_SHARE
        && weigh::per_s(herds.back_to_sleep, facts.span_ns()) >= LEAST_BACK_PER_S
}

fn back_share(herds: &Herds) -> f64 {
    weigh::share(herds.back_to_sleep, herds.woken)
}

fn numbers(facts: &Facts, herds: &Herds) -> Vec<Evidence> {
    vec![
        part("back_to_sleep_share", back_share(herds)),
        ratio("woken_per_wake", weigh::share(herds.woken, herds.calls)),
        rate("herds_per_s", weigh::per_s(herds.calls, facts.span_ns())),
        count("woken", herds.woken),
    ]
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    let mut evidence = numbers(facts, &lock.herds);
    evidence.push(count("max_waiters", u64::from(lock.max_waiters)));
    Finding {
        kind: Kind::ThunderingHerd,
        bound: None,
        severity: severity(facts, lock),
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.wake_sites.first().or(lock.wait_sites.first()).cloned(),
        evidence,
        moments: weigh::longest(lock),
        cure: Cure::WakeOne,
        proof: weigh::record_again(),
    }
}

fn severity(facts: &Facts, herd: &LockFacts) -> f64 {
    let locks = || facts.numbered_locks().filter(|(_, lock)| lock.primitive.is_contention());
    let wanted = || locks().filter(|(_, lock)| is_wanted_by_herd(herd, lock));
    let switches_ns = herd.herds.back_to_sleep * SWITCH_NS;
    let locked_ns: u64 = locks().map(|(_, lock)| lock.wait_ns.sum_ns()).sum();
    let busy_ns = (weigh::cpu_ns(facts) + locked_ns).max(facts.span_ns());
    let waited_share = if weigh::path_tells(facts) {
        weigh::share(wanted().map(|(number, _)| facts.path.of_lock(number)).sum(), facts.span_ns())
    } else {
        let waited_ns: u64 = wanted().map(|(_, lock)| lock.wait_ns.sum_ns()).sum();
        let woken: BTreeSet<Tid> = herd.waiters.iter().map(|(tid, _)| *tid).collect();
        weigh::share(waited_ns, stages::lives_ns(facts, &woken))
    };
    (weigh::share(switches_ns, busy_ns) + waited_share * back_share(&herd.herds)).min(1.0)
}

/// Whether the woken all need the lock, and wait for it not much more often than they were woken. In memory that
/// processes share, each is named after one of them.
pub(super) fn is_wanted_by_herd(herd: &LockFacts, lock: &LockFacts) -> bool {
    let woken = |tid: Tid| herd.waiters.iter().any(|(waiter, _)| *waiter == tid);
    let of_woken: u64 = lock.waiters.iter().filter(|(tid, _)| woken(*tid)).map(|(_, off)| off.count).sum();
    of_woken * 5 >= lock.waits * 4 && lock.waits <= 3 * herd.herds.woken
}
