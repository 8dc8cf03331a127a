//! serial-phase: one thread works alone for a good part of the time, and the others wait until it is done (Amdahl,
//! 1967).
//!
//! Signs and thresholds:
//! - exactly one thread runs or could run for at least [`LEAST_ALONE_SHARE`] of the recording, and at least two do for
//!   [`LEAST_PARALLEL_SHARE`]: the program is parallel at times;
//! - the others wait for that thread meanwhile: at a barrier, for its end, or for work that it hands to all of them at
//!   once; what they wait for it is at least [`LEAST_WAITED`] of that time, each on average.
//!
//! - the critical path is with that thread for at least half as long, where the path tells; the thread for which Java's
//!   machine stops all others (to collect garbage) needs no path.
//!
//! The severity is what even work of all would save: the time alone, less its part of one thread.
//!
//! How it can be wrong: what one thread does alone may have no parallel form.

use super::runtime;
use super::stages::{self, Limiter};
use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::Facts;

pub(super) const RULE: Rule = Rule {
    kind: Kind::SerialPhase,
    judge,
    evidence: &["alone_share", "parallel_share", "waited_share", "waiters", "alone_ns"],
};

pub(super) const LEAST_ALONE_SHARE: f64 = 0.2;
pub(super) const LEAST_PARALLEL_SHARE: f64 = 0.03;
pub(super) const LEAST_WAITED: f64 = 0.4;
const LEAST_NS: u64 = 20 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    let limiters = stages::limiters(facts);
    let worst = limiters.iter().max_by_key(|one| one.together_ns);
    worst.and_then(|one| finding(facts, one)).into_iter().collect()
}

fn finding(facts: &Facts, limiter: &Limiter) -> Option<Finding> {
    let span_ns = facts.span_ns();
    let alone_ns = facts.totals.runnable_ns.get(1).copied().unwrap_or(0);
    let parallel_ns: u64 = facts.totals.runnable_ns.iter().skip(2).sum();
    let (alone_share, parallel_share) = (weigh::share(alone_ns, span_ns), weigh::share(parallel_ns, span_ns));
    let waiters = limiter.waiters.len() as u64;
    let waited_share = weigh::share(limiter.together_ns, alone_ns * waiters.max(1)).min(1.0);
    let is_serial = alone_share >= LEAST_ALONE_SHARE
        && parallel_share >= LEAST_PARALLEL_SHARE
        && waited_share >= LEAST_WAITED
        && limiter.together_ns >= LEAST_NS
        && (runtime::stops_all(facts, limiter.tid)
            || weigh::path_share(facts, |tid| tid == limiter.tid).is_none_or(|share| share >= alone_share / 2.0))
        && limiter.together_ns >= limiter.work_ns + limiter.blocked_ns;
    if !is_serial {
        return None;
    }
    let cpus = u64::from(facts.header.machine.cpus).min(waiters + 1).max(2);
    let thread = facts.thread(limiter.tid)?;
    Some(Finding {
        severity: alone_share * waited_share * (1.0 - 1.0 / cpus as f64),
        subjects: vec![weigh::thread_subject(facts, limiter.tid)],
        place: thread.hot_sites.first().cloned(),
        evidence: vec![
            part("alone_share", alone_share),
            part("parallel_share", parallel_share),
            part("waited_share", waited_share),
            count("waiters", waiters),
            ns("alone_ns", alone_ns),
        ],
        ..Finding::new(Kind::SerialPhase, Cure::DivideSerialPart, weigh::record_again())
    })
}
