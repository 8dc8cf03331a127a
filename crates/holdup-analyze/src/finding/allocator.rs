//! allocator: threads wait for each other in malloc and free.
//!
//! Signs and thresholds: the locks of all arenas of a process together
//! - are waited for during at least [`LEAST_WAIT_SHARE`] of the threads' working time, [`LEAST_WAIT_NS`] in all.
//!
//! A lock belongs to the allocator if threads wait for it below malloc, free and their like. All arenas make one
//! finding: which of them a thread meets is an accident.
//!
//! How it can be wrong: a static, stripped program has no names to tell its allocator by; its locks then show as hot
//! locks.

use super::weigh::{self, MS, count, part, rate};
use super::{Cure, Finding, Kind, Rule, Subject};
use crate::facts::{Facts, LockFacts, LockNumber};

pub(super) const RULE: Rule =
    Rule { kind: Kind::Allocator, judge, evidence: &["wait_share", "waits_per_s", "arenas", "max_waiters"] };

pub(super) const LEAST_WAIT_SHARE: f64 = 0.05;
pub(super) const LEAST_WAIT_NS: u64 = 10 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    facts
        .processes
        .iter()
        .filter_map(|process| {
            let locks = facts.numbered_locks();
            let arenas: Vec<(LockNumber, &LockFacts)> =
                locks.filter(|(_, lock)| lock.pid == process.pid && weigh::is_allocator(lock)).collect();
            let wait_ns: u64 = arenas.iter().map(|(_, lock)| lock.wait_ns.sum_ns()).sum();
            let wait_share = arenas.iter().map(|(_, lock)| weigh::wait_share(facts, lock)).sum::<f64>().min(1.0);
            if wait_ns < LEAST_WAIT_NS || wait_share < LEAST_WAIT_SHARE {
                return None;
            }
            let waits: u64 = arenas.iter().map(|(_, lock)| lock.waits).sum();
            let (number, worst) = *arenas.first()?;
            Some(Finding {
                severity: wait_share,
                subjects: vec![Subject::Function("malloc".to_owned()), weigh::lock_subject(number, worst)],
                place: worst.wait_sites.first().cloned(),
                evidence: vec![
                    part("wait_share", wait_share),
                    rate("waits_per_s", weigh::per_s(waits, facts.span_ns())),
                    count("arenas", arenas.len() as u64),
                    count("max_waiters", arenas.iter().map(|(_, lock)| u64::from(lock.max_waiters)).max()?),
                ],
                moments: weigh::longest(worst),
                ..Finding::new(Kind::Allocator, Cure::OtherAllocator, weigh::try_with("--arenas 1,2,8,32"))
            })
        })
        .collect()
}
