//! wasted-wakeups: system calls for a lock that do nothing: wakes when nobody sleeps, waits that the kernel sends back
//! because the value has changed meanwhile.
//!
//! Signs and thresholds, per futex, or for the program where no single one reaches them:
//! - at least [`LEAST_WASTED`] such calls, and as many a second;
//! - at least [`LEAST_RATIO`] for each call that did something;
//! - at 0.5 us each at least [`LEAST_SHARE`] of the CPU time. Measured: one convoy of four threads made 148,190 wakes
//!   and 89,128 waits that got `EAGAIN`, for 358 real sleeps.
//!
//! The severity is that estimate, a share of CPU time.
//!
//! How it can be wrong: the cost of a call is an estimate. Waits that get `EAGAIN` are mostly counted, not recorded
//! one by one; the count then belongs to the program, not to a lock.

use holdup_trace::Counter;

use super::weigh::{self, CALL_NS, count, part, rate};
use super::{Cure, Evidence, Finding, Kind, Rule, Subject, hot_atomic};
use crate::facts::{Facts, LockFacts, Primitive, Site};
use crate::names::{Frame, Role};

pub(super) const RULE: Rule = Rule {
    kind: Kind::WastedWakeups,
    judge,
    evidence: &["wasted_calls_per_s", "wasted_share", "wasted_wakes", "refused_waits", "useful_calls", "cpu_share"],
};

pub(super) const LEAST_WASTED: u64 = 5_000;
pub(super) const LEAST_RATIO: u64 = 2;
pub(super) const LEAST_SHARE: f64 = 0.05;

/// Calls that did nothing, and those that did something.
#[derive(Clone, Copy)]
struct Calls {
    wakes: u64,
    waits: u64,
    useful: u64,
}

impl Calls {
    fn wasted(self) -> u64 {
        self.wakes.saturating_add(self.waits)
    }
}

fn judge(facts: &Facts) -> Vec<Finding> {
    let locks = facts.numbered_locks().map(|(number, lock)| (number, lock, of_lock(lock)));
    let found: Vec<Finding> = locks
        .filter(|(_, _, calls)| is_waste(facts, *calls))
        .map(|(number, lock, calls)| {
            finding(facts, calls, Some(weigh::lock_subject(number, lock)), place(facts, Some(lock)), lock.primitive)
        })
        .collect();
    if !found.is_empty() {
        return found;
    }
    let calls = of_program(facts);
    let whole = is_waste(facts, calls).then(|| finding(facts, calls, None, place(facts, None), Primitive::Unknown));
    whole.into_iter().collect()
}

/// hot-lock, of a lock of a library that changes hands so often that calls for it come too late.
pub(super) fn refused_lock(facts: &Facts) -> Option<Finding> {
    let locks = facts.numbered_locks().filter(|(_, lock)| hot_atomic::is_library_lock(lock));
    let waste = locks.map(|(number, lock)| (number, lock, of_lock(lock)));
    let (number, lock, calls) =
        waste.filter(|(.., calls)| is_waste(facts, *calls)).max_by_key(|(.., calls)| calls.wasted())?;
    let place = lock.wait_sites.first().or(lock.wake_sites.first()).cloned().or_else(|| place(facts, None));
    Some(Finding {
        severity: cpu_share(facts, calls),
        bound: place.as_ref().and_then(|place| share_of_taking(facts, place)).map(|share| 1.0 / (1.0 - share)),
        subjects: vec![weigh::lock_subject(number, lock)],
        place,
        evidence: vec![
            rate("wasted_calls_per_s", weigh::per_s(calls.wasted(), facts.span_ns())),
            part("wasted_share", weigh::share(calls.wasted(), calls.wasted().saturating_add(calls.useful))),
            part("wait_share", weigh::wait_share(facts, lock)),
            count("max_waiters", u64::from(lock.max_waiters)),
        ],
        ..Finding::new(Kind::HotLock, Cure::ShortenSplitOrGate, weigh::try_locks(lock.primitive))
    })
}

/// What the program's function calls there takes the lock, and waits for its word in the caches: so much of the CPU
/// time.
fn share_of_taking(facts: &Facts, place: &Site) -> Option<f64> {
    let by_program = place.call_path.iter().position(|frame| frame.role == Role::Program)?;
    let called = place.call_path[..by_program].last().filter(|frame| frame.function.is_some())?;
    let is_called = |frame: &Frame| (&frame.function, &frame.module) == (&called.function, &called.module);
    Some(weigh::share(weigh::samples_below(facts, is_called), weigh::samples(facts)).min(1.0))
}

/// Where the calls are made. Those that do nothing are counted without their call paths, so it is where the lock is
/// released or waited for, else where samples found the kernel in its futex code, else where they found threads in a
/// function that calls it.
fn place(facts: &Facts, lock: Option<&LockFacts>) -> Option<Site> {
    let of_lock = lock.and_then(|lock| lock.wake_sites.first().or(lock.wait_sites.first()));
    let calls = |site: &&Site| site.call_path.first().is_some_and(|frame| frame.role != Role::Program);
    let sampled = || facts.threads.iter().flat_map(|thread| &thread.hot_sites).filter(calls);
    of_lock.or(facts.futex_sites.first()).or_else(|| sampled().max_by_key(|site| site.count)).cloned()
}

fn of_lock(lock: &LockFacts) -> Calls {
    Calls { wakes: lock.wasted_wakes, waits: lock.eagain_waits, useful: lock.waits + lock.wakes }
}

fn of_program(facts: &Facts) -> Calls {
    let eagain: u64 = facts.locks.iter().map(|lock| lock.eagain_waits).sum();
    let counted = facts.counted(Counter::FutexAgain);
    let useful = facts.locks.iter().map(|lock| lock.waits + lock.wakes).sum();
    Calls { wakes: facts.totals.wasted_wakes, waits: eagain.max(counted), useful }
}

fn is_waste(facts: &Facts, calls: Calls) -> bool {
    calls.wasted() >= LEAST_WASTED
        && weigh::per_s(calls.wasted(), facts.span_ns()) >= LEAST_WASTED as f64
        && calls.wasted() >= LEAST_RATIO.saturating_mul(calls.useful)
        && cpu_share(facts, calls) >= LEAST_SHARE
}

fn cpu_share(facts: &Facts, calls: Calls) -> f64 {
    weigh::share(calls.wasted().saturating_mul(CALL_NS), weigh::cpu_ns(facts)).min(1.0)
}

fn finding(
    facts: &Facts,
    calls: Calls,
    subject: Option<Subject>,
    place: Option<Site>,
    primitive: Primitive,
) -> Finding {
    let evidence: Vec<Evidence> = vec![
        rate("wasted_calls_per_s", weigh::per_s(calls.wasted(), facts.span_ns())),
        part("wasted_share", weigh::share(calls.wasted(), calls.wasted().saturating_add(calls.useful))),
        count("wasted_wakes", calls.wakes),
        count("refused_waits", calls.waits),
        count("useful_calls", calls.useful),
        part("cpu_share", cpu_share(facts, calls)),
    ];
    Finding {
        kind: Kind::WastedWakeups,
        bound: None,
        severity: cpu_share(facts, calls),
        subjects: subject.into_iter().collect(),
        place,
        evidence,
        moments: Vec::new(),
        cure: Cure::WakeOnlyWaiters,
        proof: weigh::try_locks(primitive),
    }
}
