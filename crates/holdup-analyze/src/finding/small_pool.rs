//! small-pool: callers queue behind a few workers, which are never idle and mostly wait for something themselves: a remote call, a
//! device, a sleep. More workers would let more of these waits go on at once.
//!
//! Signs and thresholds:
//! - several threads wait for work to be done by others, for at least [`LEAST_WAITED`] of their lives; they are more than those;
//! - the workers are idle for at most [`MOST_IDLE`] of their lives, get their work from other threads, and what the callers wait for is
//!   mostly not their running.
//!
//! The place is where the workers are while the callers wait.
//!
//! How it can be wrong: a limit on how many calls go on at once may be what the other side asks for.

use std::collections::BTreeSet;

use holdup_trace::Tid;

use super::stages::{self, Limiter};
use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::Facts;

pub(super) const RULE: Rule = Rule {
    kind: Kind::SmallPool,
    judge,
    evidence: &["waited_share", "workers", "callers", "blocked_share", "waited_ns"],
};

pub(super) const MOST_IDLE: f64 = 0.25;
pub(super) const LEAST_WAITED: f64 = 0.3;
const LEAST_NS: u64 = 20 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    let limiters = stages::limiters(facts);
    let workers: Vec<&Limiter> = limiters.iter().filter(|one| is_worker(facts, one)).collect();
    let own: BTreeSet<Tid> = workers.iter().map(|one| one.tid).collect();
    let callers: BTreeSet<Tid> =
        workers.iter().flat_map(|one| one.waiters.iter().copied()).filter(|tid| !own.contains(tid)).collect();
    let blocked_ns: u64 = workers.iter().map(|one| one.blocked_ns).sum();
    let waited_ns: u64 = workers.iter().map(|one| one.work_ns + one.together_ns).sum::<u64>() + blocked_ns;
    let waited_share = weigh::share(waited_ns, stages::lives_ns(facts, &callers)).min(1.0);
    let small = !workers.is_empty()
        && callers.len() > workers.len()
        && waited_share >= LEAST_WAITED
        && waited_ns >= LEAST_NS
        && blocked_ns * 2 >= waited_ns;
    if !small {
        return Vec::new();
    }
    let worst = weigh::worst_site(facts, |row| own.contains(&row.thread) && callers.contains(&row.waiter));
    vec![Finding {
        severity: waited_share * (1.0 - weigh::share(workers.len() as u64, callers.len() as u64)),
        subjects: workers.iter().take(3).map(|one| weigh::thread_subject(facts, one.tid)).collect(),
        place: worst.map(|(_, site)| site),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", workers.len() as u64),
            count("callers", callers.len() as u64),
            part("blocked_share", weigh::share(blocked_ns, waited_ns)),
            ns("waited_ns", waited_ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::MoreWorkers, weigh::record_again())
    }]
}

fn is_worker(facts: &Facts, one: &Limiter) -> bool {
    facts.thread(one.tid).is_some_and(|thread| {
        stages::idle_share(thread) <= MOST_IDLE
            && stages::is_fed(facts, one.tid)
            && stages::has_backlog(thread)
    })
}
