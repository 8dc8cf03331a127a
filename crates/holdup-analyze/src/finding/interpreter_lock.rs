//! interpreter-lock: threads take turns at the lock that their interpreter runs under, so that more threads make
//! nothing faster.
//!
//! Signs and thresholds, per lock of an interpreter (Python's global interpreter lock, Ruby's):
//! - waits take at least [`LEAST_WAIT_SHARE`] of the threads' working time, [`LEAST_WAIT_NS`] in all, without those
//!   whose holder's CPU other threads of the program had;
//! - somebody waits for it for [`LEAST_CONTENDED`] of the recording;
//! - the CPUs have [`LEAST_SLACK`] of their time left: where code that releases the lock fills them, it is in nobody's
//!   way;
//! - while somebody waits for it, the program runs for at least [`LEAST_RUNNING`] of the time: who has it runs, but for
//!   what other programs take of the CPUs;
//! - who has it waits for other locks for less than [`MOST_WAITING`] of that time: then those hold the threads up, or
//!   waits for them were taken for waits for this one, as far as a runtime waits for both in the same functions.
//!
//! Where half of the waits lead through Python's `multiprocessing` or its executors of processes, the program has
//! processes already, and hands too little to them at a time.
//!
//! The lock is known by the functions that take it; where these have no names, by how threads of an interpreter behave:
//! those who wake also wait, and have it one at a time. Waits of 5 ms that time out and are made again (so the
//! interpreter asks the holder to let go) count as waiting.
//!
//! How it can be wrong: an extension that sleeps and keeps the lock is not told; extensions in C that release the lock
//! are not held up by it; their threads do not wait here.

use super::weigh::{self, MS, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule, runtime};
use crate::facts::{Facts, LockFacts, LockNumber, Primitive, Site};

pub(super) const RULE: Rule = Rule {
    kind: Kind::InterpreterLock,
    judge,
    evidence: &["wait_share", "waits_per_s", "wait_ns_median", "max_waiters", "holders_running_share"],
};

pub(super) const LEAST_WAIT_SHARE: f64 = 0.05;
pub(super) const LEAST_CONTENDED: f64 = 0.4;
pub(super) const LEAST_WAIT_NS: u64 = 10 * MS;
pub(super) const LEAST_SLACK: f64 = 0.15;
pub(super) const LEAST_RUNNING: f64 = 0.3;
pub(super) const MOST_WAITING: f64 = 0.25;

fn judge(facts: &Facts) -> Vec<Finding> {
    let locks = facts.numbered_locks();
    let hot = locks.filter(|(_, lock)| lock.primitive == Primitive::InterpreterLock && is_hot(facts, lock));
    let worst = hot.max_by_key(|(_, lock)| lock.wait_ns.sum_ns());
    worst.map(|(number, lock)| finding(facts, number, lock)).into_iter().collect()
}

/// Whether those who wait mostly hand things to other processes, each of which has an interpreter of its own.
fn hands_to_processes(lock: &LockFacts) -> bool {
    let ns = |is: fn(&Site) -> bool| lock.wait_sites.iter().filter(|site| is(site)).map(|site| site.ns).sum::<u64>();
    let handing = ns(runtime::hands_to_process_of_python);
    handing > 0 && handing * 2 >= ns(|_| true)
}

fn is_hot(facts: &Facts, lock: &LockFacts) -> bool {
    weigh::slack(facts).is_none_or(|slack| slack >= LEAST_SLACK)
        && lock.wait_ns.sum_ns() >= LEAST_WAIT_NS
        && weigh::unpreempted_share(facts, lock) >= LEAST_WAIT_SHARE
        && weigh::share(lock.contended_ns, facts.span_ns()) >= LEAST_CONTENDED
        && weigh::holding(lock).waiting < MOST_WAITING
        && weigh::cpu_ns(facts) as f64 * weigh::displacement(facts) >= LEAST_RUNNING * lock.contended_ns as f64
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    let hands_over = hands_to_processes(lock);
    let cure = if hands_over { Cure::LargerTasks } else { Cure::LeaveInterpreter };
    // Threads of the library wait in it alone: the program is told first.
    let own = lock.wait_sites.iter().find(|site| hands_over && site.is_by_program());
    let wait_share = weigh::wait_share(facts, lock);
    Finding {
        severity: weigh::unpreempted_share(facts, lock),
        subjects: vec![weigh::lock_subject(number, lock)],
        place: own.or(lock.wait_sites.first()).cloned(),
        evidence: vec![
            part("wait_share", wait_share),
            rate("waits_per_s", weigh::per_s(lock.waits, facts.span_ns())),
            ns("wait_ns_median", lock.wait_ns.median_ns()),
            count("max_waiters", u64::from(lock.max_waiters)),
            part("holders_running_share", weigh::holding(lock).running),
        ],
        moments: weigh::longest(lock),
        ..Finding::new(Kind::InterpreterLock, cure, weigh::record_again())
    }
}
