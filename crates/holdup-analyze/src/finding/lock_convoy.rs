//! lock-convoy: threads take one lock in turn, each waiting asleep for it nearly every time, so that every short
//! section costs a switch and a wake-up.
//!
//! Signs and thresholds, per lock:
//! - at least [`LEAST_WAITS`] waits that slept, which no start-up makes;
//! - waits take at least [`LEAST_WAIT_SHARE`] of the threads' working time;
//! - at least [`LEAST_SWITCH_SHARE`] of the times that the waiters left the CPU to wait were for this lock: most of
//!   their runs end here, so most acquisitions end in a switch;
//! - the median run before a wait is at most [`LONGEST_RUN_NS`], the short runs that the Windows CE team (2007) saw in
//!   a system that did little but switch. With longer runs the switches hardly matter and the lock is merely hot;
//! - that run is at most [`MOST_HANDOVERS`] times the median hand-over (with two threads nobody else is in the queue,
//!   and the wait itself stands for it): threads do little but pass the lock on;
//! - that hand-over takes no longer than such a run: of longer sections the switch is a small part.
//!
//! Where threads were only looked at, neither waits nor runs are seen one by one. Then the kernel's counts of the
//! waiters' switches tell how long a run is on average, and the share of their blocked time that goes by at the lock,
//! how many of the switches are for it.
//!
//! How it can be wrong: acquisitions that do not wait are invisible here, so a lock that is taken a thousand times per
//! wait looks the same if runs are short for another reason. `holdup with --profile` counts them. A holder that sleeps
//! under the lock gives the same picture; where that is seen, sleeping-holder is reported in its place.

use super::weigh::{self, US, count, ns, part, rate};
use super::{Cure, Evidence, Finding, Kind, Rule, hot_lock};
use crate::facts::{Facts, LockFacts, LockNumber, Reason};

pub(super) const RULE: Rule = Rule {
    kind: Kind::LockConvoy,
    judge,
    evidence: &[
        "wait_share",
        "waits_per_s",
        "switch_share",
        "run_ns_median",
        "handover_ns_median",
        "wait_ns_median",
        "wait_ns_p99",
        "contended_share",
        "max_waiters",
    ],
};

pub(super) const LEAST_WAITS: u64 = 50;
pub(super) const LEAST_WAIT_SHARE: f64 = 0.05;
pub(super) const LEAST_SWITCH_SHARE: f64 = 0.5;
pub(super) const LONGEST_RUN_NS: u64 = 500 * US;
pub(super) const MOST_HANDOVERS: u64 = 4;

fn judge(facts: &Facts) -> Vec<Finding> {
    if facts.header.is_sampled() {
        return by_counts(facts);
    }
    let convoys = weigh::contended(facts).filter(|(_, lock)| is_convoy(facts, lock));
    convoys.map(|(number, lock)| hot_lock::of_queue(facts, finding(facts, number, lock))).collect()
}

/// The convoys among the hot locks, by the kernel's counts.
fn by_counts(facts: &Facts) -> Vec<Finding> {
    let hot = weigh::contended(facts).filter(|(_, lock)| hot_lock::is_hot(facts, lock));
    hot.filter_map(|(number, lock)| {
        let counts = Counts::of(facts, lock)?;
        let told = finding(facts, number, lock);
        let evidence = told.evidence.into_iter().map(|number| counts.replace(facts, number)).collect();
        counts.is_convoy().then_some(Finding { evidence, ..told })
    })
    .collect()
}

/// What the kernel counted of the threads that wait for a lock.
struct Counts {
    /// How often they left the CPU for it.
    waits: u64,
    /// Of all the times that they left it to wait.
    switch_share: f64,
    /// How long they ran between two switches, on average.
    run_ns: u64,
    /// From one hand-over to the next.
    handover_ns: u64,
}

impl Counts {
    fn of(facts: &Facts, lock: &LockFacts) -> Option<Counts> {
        let waiters = || lock.waiters.iter().filter_map(|(tid, _)| facts.thread(*tid));
        let is_blocked = |reason: &Reason| {
            !matches!(reason, Reason::Preempted | Reason::Displaced | Reason::Starting | Reason::Yielded)
        };
        let off = waiters().flat_map(|thread| &thread.off).filter(|(reason, _)| is_blocked(reason));
        let blocked_ns: u64 = off.map(|(_, time)| time.ns).sum();
        let switch_share = weigh::share(lock.wait_ns.sum_ns(), blocked_ns).min(1.0);
        let voluntary: u64 = waiters().map(|thread| thread.voluntary).sum();
        let switches = voluntary + waiters().map(|thread| thread.involuntary).sum::<u64>();
        let waits = (voluntary as f64 * switch_share) as u64;
        Some(Counts {
            waits,
            switch_share,
            run_ns: waiters().map(|thread| thread.on_cpu_ns).sum::<u64>().checked_div(switches)?,
            handover_ns: lock.contended_ns.checked_div(waits)?,
        })
    }

    fn is_convoy(&self) -> bool {
        self.waits >= LEAST_WAITS
            && self.switch_share >= LEAST_SWITCH_SHARE
            && self.run_ns <= LONGEST_RUN_NS
            && self.handover_ns <= LONGEST_RUN_NS
            && self.run_ns <= self.handover_ns * MOST_HANDOVERS
    }

    /// What was counted, for what looks would tell.
    fn replace(&self, facts: &Facts, number: Evidence) -> Evidence {
        match number.name {
            "waits_per_s" => rate("waits_per_s", weigh::per_s(self.waits, facts.span_ns())),
            "switch_share" => part("switch_share", self.switch_share),
            "run_ns_median" => ns("run_ns_median", self.run_ns),
            "handover_ns_median" => ns("handover_ns_median", self.handover_ns),
            _ => number,
        }
    }
}

fn is_convoy(facts: &Facts, lock: &LockFacts) -> bool {
    let run_ns = lock.run_before_ns.median_ns();
    lock.waits >= LEAST_WAITS
        && weigh::wait_share(facts, lock) >= LEAST_WAIT_SHARE
        && switch_share(facts, lock) >= LEAST_SWITCH_SHARE
        && run_ns <= LONGEST_RUN_NS
        && run_ns <= pace_ns(lock) * MOST_HANDOVERS
        && pace_ns(lock) <= LONGEST_RUN_NS
}

/// The time from one hand-over to the next, or of a wait where there is mostly one thread in the queue.
fn pace_ns(lock: &LockFacts) -> u64 {
    let queued = lock.handover_ns.count() * 10 >= lock.waits;
    if queued { lock.handover_ns.median_ns() } else { lock.wait_ns.median_ns() }
}

/// How many of the waiters' voluntary switches were waits for this lock.
fn switch_share(facts: &Facts, lock: &LockFacts) -> f64 {
    let waiters = lock.waiters.iter().filter_map(|(tid, _)| facts.thread(*tid));
    let switches: u64 = waiters.map(|thread| thread.voluntary).sum();
    weigh::share(lock.waits, switches).min(1.0)
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    let wait_share = weigh::wait_share(facts, lock);
    Finding {
        kind: Kind::LockConvoy,
        bound: None,
        severity: weigh::lock_severity(facts, number, lock),
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.wait_sites.first().cloned(),
        evidence: vec![
            part("wait_share", wait_share),
            rate("waits_per_s", weigh::per_s(lock.waits, facts.span_ns())),
            part("switch_share", switch_share(facts, lock)),
            ns("run_ns_median", lock.run_before_ns.median_ns()),
            ns("handover_ns_median", pace_ns(lock)),
            ns("wait_ns_median", lock.wait_ns.median_ns()),
            ns("wait_ns_p99", lock.wait_ns.quantile_ns(0.99)),
            part("contended_share", weigh::share(lock.contended_ns, facts.span_ns())),
            count("max_waiters", u64::from(lock.max_waiters)),
        ],
        moments: weigh::longest(lock),
        cure: Cure::ShortenSplitOrGate,
        proof: weigh::try_locks(lock.primitive),
    }
}
