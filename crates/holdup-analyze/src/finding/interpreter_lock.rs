//! interpreter-lock: threads take turns at the lock that their interpreter runs under, so that more threads make
//! nothing faster.
//!
//! Signs and thresholds, per lock of an interpreter (Python's global interpreter lock, Ruby's):
//! - waits take at least [`LEAST_WAIT_SHARE`] of the threads' working time, [`LEAST_WAIT_NS`] in all, without those
//!   whose holder's CPU other threads of the program had;
//! - somebody waits for it for [`LEAST_CONTENDED`] of the recording;
//! - while somebody waits for it, the program runs for at least [`LEAST_RUNNING`] of the time: who has it runs, but for
//!   what other programs take of the CPUs;
//! - who has it waits for other locks for less than [`MOST_WAITING`] of that time: then those hold the threads up, or
//!   waits for them were taken for waits for this one, as far as a runtime waits for both in the same functions.
//!
//! The lock is known by the functions that take it; where these have no names, by how threads of an interpreter behave:
//! those who wake also wait, and have it one at a time. Waits of 5 ms that time out and are made again (so the
//! interpreter asks the holder to let go) count as waiting.
//!
//! How it can be wrong: an extension that sleeps and keeps the lock is not told; extensions in C that release the lock
//! are not held up by it; their threads do not wait here.

use super::weigh::{self, MS, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, LockFacts, LockNumber, Primitive};

pub(super) const RULE: Rule = Rule {
    kind: Kind::InterpreterLock,
    judge,
    evidence: &["wait_share", "waits_per_s", "wait_ns_median", "max_waiters", "holders_running_share"],
};

pub(super) const LEAST_WAIT_SHARE: f64 = 0.05;
pub(super) const LEAST_CONTENDED: f64 = 0.4;
pub(super) const LEAST_WAIT_NS: u64 = 10 * MS;
pub(super) const LEAST_RUNNING: f64 = 0.3;
pub(super) const MOST_WAITING: f64 = 0.25;

fn judge(facts: &Facts) -> Vec<Finding> {
    let locks = facts.numbered_locks();
    let hot = locks.filter(|(_, lock)| lock.primitive == Primitive::InterpreterLock && is_hot(facts, lock));
    let worst = hot.max_by_key(|(_, lock)| lock.wait_ns.sum_ns());
    worst.map(|(number, lock)| finding(facts, number, lock)).into_iter().collect()
}

fn is_hot(facts: &Facts, lock: &LockFacts) -> bool {
    lock.wait_ns.sum_ns() >= LEAST_WAIT_NS
        && weigh::unpreempted_share(facts, lock) >= LEAST_WAIT_SHARE
        && weigh::share(lock.contended_ns, facts.span_ns()) >= LEAST_CONTENDED
        && weigh::holding(lock).waiting < MOST_WAITING
        && weigh::cpu_ns(facts) as f64 * weigh::displacement(facts) >= LEAST_RUNNING * lock.contended_ns as f64
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    let wait_share = weigh::wait_share(facts, lock);
    Finding {
        severity: weigh::unpreempted_share(facts, lock),
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.wait_sites.first().cloned(),
        evidence: vec![
            part("wait_share", wait_share),
            rate("waits_per_s", weigh::per_s(lock.waits, facts.span_ns())),
            ns("wait_ns_median", lock.wait_ns.median_ns()),
            count("max_waiters", u64::from(lock.max_waiters)),
            part("holders_running_share", weigh::holding(lock).running),
        ],
        moments: weigh::longest(lock),
        ..Finding::new(Kind::InterpreterLock, Cure::LeaveInterpreter, weigh::record_again())
    }
}
