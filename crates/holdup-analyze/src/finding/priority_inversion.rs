//! priority-inversion: a thread of low priority holds a lock and has no CPU, while one of higher priority waits for
//! the lock.
//!
//! Signs and thresholds, per lock without priority inheritance:
//! - at least [`LEAST_INVERSIONS`] waits during which the holder had the lower priority and wanted a CPU, whoever had it;
//! - for at least [`LEAST_NS`] in all.
//!
//! The place is where the holder releases the lock: that tells which section it is. The severity is the time that
//! holders had none while one of higher priority waited.
//!
//! How it can be wrong: priorities are those that the kernel told when it was asked; a thread that changed its priority
//! for a moment in between is misjudged.

use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, LockFacts, LockNumber, Primitive};

pub(super) const RULE: Rule = Rule {
    kind: Kind::PriorityInversion,
    judge,
    evidence: &["inverted_share", "inversions", "inverted_ns", "wait_ns_p99", "waits"],
};

pub(super) const LEAST_INVERSIONS: u64 = 2;
pub(super) const LEAST_NS: u64 = 5 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    let inverted = weigh::contended(facts).filter(|(_, lock)| {
        lock.primitive != Primitive::PiMutex
            && lock.inversions.count >= LEAST_INVERSIONS
            && lock.inversions.ns >= LEAST_NS
    });
    inverted.map(|(number, lock)| finding(facts, number, lock)).collect()
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    let inverted_share = weigh::share(lock.inversions.ns, weigh::work_ns(facts)).min(1.0);
    Finding {
        kind: Kind::PriorityInversion,
        bound: None,
        severity: inverted_share,
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.wake_sites.first().or(lock.wait_sites.first()).cloned(),
        evidence: vec![
            part("inverted_share", inverted_share),
            count("inversions", lock.inversions.count),
            ns("inverted_ns", lock.inversions.ns),
            ns("wait_ns_p99", lock.wait_ns.quantile_ns(0.99)),
            count("waits", lock.waits),
        ],
        moments: weigh::longest(lock),
        cure: Cure::InheritPriority,
        proof: weigh::record_again(),
    }
}
