//! sleeping-holder: threads wait for a lock whose holder is off CPU: asleep, in I/O, in a page fault, in another
//! blocking call, or preempted.
//!
//! Signs and thresholds, per lock:
//! - at least [`LEAST_WAITS`] waits, [`LEAST_WAIT_NS`] in all, and [`LEAST_WAIT_SHARE`] of the threads' working time;
//! - of the time that holders are known to have held the lock while others waited, at least [`LEAST_ASLEEP`] was
//!   asleep, [`LEAST_OFF_SHARE`] off CPU in all, or [`LEAST_IO_SHARE`] in I/O, which costs CPU time in the kernel as
//!   well. A holder that waited for another lock does not count: that lock is the one to look at. Preemption counts if
//!   other threads of the program had the holder's CPU: what other programs take is not its fault. Neither does a
//!   pipe that holders read and that other programs of the recording write into: what comes in sets the pace, with the
//!   lock or without.
//!
//! The place is where the holder left the CPU with the lock held, not where the others wait. The severity is the share
//! of the waits, without those whose holder was preempted: its CPU did other work of the program. Waits for other locks
//! whose holders wait for this one are added: it is the one to look at.
//!
//! How it can be wrong: the holder is the thread that ended the wait, known to have held the lock since its own last
//! wait for it. A thread that takes the lock late, after sleeping without it, cannot be told from one that slept with
//! it, if it never waited for it. The call path of the place shows which it was. Preempted holders are reported here
//! only where neither oversubscription nor priorities explain them.

use super::weigh::{self, Holding, MS, count, ns, part, rate};
use super::{Command, Cure, Finding, Kind, Rule, goroutines};
use crate::facts::{Facts, LockFacts, LockNumber, Site};
use crate::names::{Role, leads_through};

pub(super) const RULE: Rule = Rule {
    kind: Kind::SleepingHolder,
    judge,
    evidence: &[
        "wait_share",
        "holders_off_share",
        "holders_preempted_share",
        "holders_running_share",
        "waits_per_s",
        "wait_ns_median",
        "wait_ns_p99",
        "max_waiters",
        "contended_share",
        "behind_share",
        "waiting_goroutines",
        "goroutines",
    ],
};

pub(super) const LEAST_WAITS: u64 = 3;
pub(super) const LEAST_WAIT_NS: u64 = 10 * MS;
pub(super) const LEAST_WAIT_SHARE: f64 = 0.05;
pub(super) const LEAST_OFF_SHARE: f64 = 0.5;
pub(super) const LEAST_ASLEEP: f64 = 0.4;
pub(super) const LEAST_IO_SHARE: f64 = 0.3;
/// Waits behind it that take less are not told.
const LEAST_BEHIND: f64 = 0.05;

fn judge(facts: &Facts) -> Vec<Finding> {
    let held = weigh::contended(facts).filter(|(_, lock)| {
        let holding = weigh::holding(lock);
        // A look does not tell whether a thread that waits for a CPU has the lock already.
        let preempted = if facts.header.is_sampled() { 0.0 } else { holding.preempted };
        lock.waits >= LEAST_WAITS
            && lock.wait_ns.sum_ns() >= LEAST_WAIT_NS
            && weigh::wait_share(facts, lock) >= LEAST_WAIT_SHARE
            && (holding.asleep >= LEAST_ASLEEP * known_share(facts, lock)
                || holding.asleep + preempted >= LEAST_OFF_SHARE
                || holding.io >= LEAST_IO_SHARE
                || yields_inside(facts, lock).is_some())
    });
    let of_threads = held.map(|(number, lock)| finding(facts, number, lock));
    of_threads.chain(goroutines::sleeping_holders(facts)).collect()
}

/// Where threads were only looked at, nothing tells who has most locks that are known by where they are taken: what is
/// known of some waits is believed of all.
fn known_share(facts: &Facts, lock: &LockFacts) -> f64 {
    const LEAST_KNOWN: f64 = 0.2;
    let doing = &lock.holder_doing;
    let known_ns = doing.running_ns + doing.off.values().sum::<u64>();
    let share = weigh::share(known_ns, known_ns + doing.unknown_ns);
    if facts.header.is_sampled() && share >= LEAST_KNOWN { share } else { 1.0 }
}

/// Where holders give the CPU away with the lock: in the function that takes it, at least once for each two waits. A
/// yield that finds nobody to run is no time off the CPU.
fn yields_inside(facts: &Facts, lock: &LockFacts) -> Option<Site> {
    let function = |site: &Site| site.caller().map(crate::spinning::key);
    let takes = function(lock.wait_sites.first()?)?;
    // A lock that yields before it sleeps does so while it waits.
    let by_program = |site: &&Site| site.call_path.iter().all(|frame| frame.role != Role::Lock);
    let site = facts.yield_sites.first().filter(by_program).filter(|site| function(site).as_ref() == Some(&takes))?;
    (site.count * 2 >= lock.waits).then(|| site.clone())
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    let (wait_share, behind_share) = (weigh::wait_share(facts, lock), weigh::behind_share(facts, number));
    let holding = weigh::holding(lock);
    let (cure, proof) = cure(lock, holding);
    let mut evidence = vec![
        part("wait_share", wait_share),
        part("holders_off_share", holding.asleep),
        part("holders_preempted_share", holding.preempted),
        part("holders_running_share", holding.running),
        rate("waits_per_s", weigh::per_s(lock.waits, facts.span_ns())),
        ns("wait_ns_median", lock.wait_ns.median_ns()),
        ns("wait_ns_p99", lock.wait_ns.quantile_ns(0.99)),
        count("max_waiters", u64::from(lock.max_waiters)),
    ];
    if behind_share >= LEAST_BEHIND {
        evidence.push(part("behind_share", behind_share));
    }
    Finding {
        kind: Kind::SleepingHolder,
        bound: None,
        severity: (weigh::unpreempted_share(facts, lock) + behind_share).min(1.0),
        subjects: vec![weigh::lock_subject(number, lock)],
        place: yields_inside(facts, lock).or(lock.holder_doing.off_sites.first().or(lock.wait_sites.first()).cloned()),
        evidence,
        moments: weigh::longest(lock),
        cure,
        proof,
    }
}

/// What sleeps has to leave the section, which only the program's author can do; a preempted holder needs the CPU.
fn cure(lock: &LockFacts, holding: Holding) -> (Cure, Command) {
    if holding.asleep >= holding.preempted {
        let writes = |site: &Site| leads_through(&site.call_path, |name| name.contains("pipe_write"));
        let cure = match () {
            () if 2.0 * holding.io > holding.asleep => Cure::MoveIoOutOfSection,
            () if lock.holder_doing.off_sites.first().is_some_and(writes) => Cure::FasterReader,
            () => Cure::MoveOutOfSection,
        };
        return (cure, weigh::record_again());
    }
    let proof = match lock.primitive {
        crate::Primitive::Mutex => weigh::try_with("--gates 1,2 --slices default,20ms"),
        _ => weigh::try_with("--cpus all,1 --slices default,20ms"),
    };
    (Cure::FewerThreads, proof)
}
