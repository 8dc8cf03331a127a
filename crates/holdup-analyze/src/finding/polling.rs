//! polling: a thread looks again and again whether something has happened, and sleeps for a moment in between.
//!
//! Signs and thresholds, per thread:
//! - at least [`LEAST_SLEEPS`] sleeps of at most [`LONGEST_SLEEP_NS`] on average, together at least [`LEAST_SHARE`] of its life;
//! - it runs for at most [`MOST_RUN`] of a period, and [`LONGEST_RUN_NS`], in between: it looks, and does nothing.
//!
//! The place is where it sleeps. The severity is the share of the elapsed time that it polls, at most [`MOST_SEVERITY`]: what it
//! costs is half a period for whatever it waits for, and the CPU time of its looks.
//!
//! How it can be wrong: a thread that does a little work every millisecond by design looks alike.

use super::weigh::{self, MS, US, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, Leaf, Reason, ThreadFacts};

pub(super) const RULE: Rule = Rule {
    kind: Kind::Polling,
    judge,
    evidence: &["sleep_share", "polls_per_s", "period_ns", "run_ns_median", "threads", "polls"],
};

pub(super) const LEAST_SLEEPS: u64 = 200;
pub(super) const LONGEST_SLEEP_NS: u64 = 2 * MS;
pub(super) const LONGEST_RUN_NS: u64 = 30 * US;
pub(super) const LEAST_SHARE: f64 = 0.5;
pub(super) const MOST_RUN: f64 = 0.25;
pub(super) const MOST_SEVERITY: f64 = 0.3;

fn judge(facts: &Facts) -> Vec<Finding> {
    let polling: Vec<&ThreadFacts> = facts.threads.iter().filter(|thread| polls(thread)).collect();
    let Some(worst) = polling.iter().copied().max_by_key(|thread| sleeps(thread).0) else {
        return Vec::new();
    };
    let (times, slept_ns) = sleeps(worst);
    let share = weigh::share(slept_ns, facts.span_ns()).min(1.0);
    vec![Finding {
        severity: share.min(MOST_SEVERITY),
        subjects: vec![weigh::thread_subject(facts, worst.tid)],
        place: weigh::worst_site(facts, |row| row.leaf == Leaf::Sleep && row.waiter == worst.tid)
            .map(|(_, site)| site),
        evidence: vec![
            part("sleep_share", share),
            rate("polls_per_s", weigh::per_s(times, facts.span_ns())),
            ns("period_ns", worst.life_ns() / times.max(1)),
            ns("run_ns_median", worst.run_ns.median_ns()),
            count("threads", polling.len() as u64),
            count("polls", times),
        ],
        ..Finding::new(Kind::Polling, Cure::WaitInsteadOfPolling, weigh::record_again())
    }]
}

/// How often and how long a thread slept.
fn sleeps(thread: &ThreadFacts) -> (u64, u64) {
    thread.off.get(&Reason::Sleep).map_or((0, 0), |time| (time.count, time.ns))
}

fn polls(thread: &ThreadFacts) -> bool {
    let (times, slept_ns) = sleeps(thread);
    let run_ns = thread.run_ns.median_ns();
    times >= LEAST_SLEEPS
        && slept_ns / times <= LONGEST_SLEEP_NS
        && weigh::share(slept_ns, thread.life_ns()) >= LEAST_SHARE
        && run_ns <= LONGEST_RUN_NS
        && weigh::share(thread.on_cpu_ns, thread.life_ns()) <= MOST_RUN
        && times * 5 >= thread.voluntary * 4
}
