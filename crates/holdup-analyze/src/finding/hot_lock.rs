//! hot-lock: a good part of the threads' time is lost waiting for one lock.
//!
//! Signs and thresholds, per lock:
//! - at least [`LEAST_WAITS`] waits that slept, [`LEAST_WAIT_NS`] in all: fewer are an accident, not a habit;
//! - waits take at least [`LEAST_WAIT_SHARE`] of the threads' working time: below, even a perfect cure is lost in the
//!   noise.
//!
//! Or nobody waits for long, for the sections are tiny, but the lock's word travels from CPU to CPU: a library's
//! functions that take and release it, called by one function of the program, reach hot-atomic's thresholds together.
//! Or the calls that it makes to sleep and to wake mostly come too late: a library's lock makes none without
//! contention, so where they reach wasted-wakeups' thresholds, the lock is what they tell of.
//!
//! Or threads wait for the lock of a database file by sleeping and looking again, as SQLite does: at least
//! [`LEAST_POLLERS`] of them, as long as waits for other locks.
//!
//! Of a lock that is taken in a function where threads wait for a condition, too, and that they wait for, or pass on
//! too late, thousands of times a second, tasks of a queue are too small: the cure says so.
//!
//! The finding says what holders did meanwhile: if they ran, the section is too long or too popular; if not, another
//! kind (sleeping-holder, priority-inversion) tells more and is reported in place of this one. So is lock-convoy.
//!
//! How it can be wrong: a futex of the program's own make may be an event rather than a lock. It counts as a lock only
//! if those who wake also wait. Time that threads spin before they sleep is not part of the waits: see spin-waste.

use super::weigh::{self, MS, US, count, ns, part, rate};
use super::{Cure, Finding, Kind, Rule, alone, goroutines, hot_atomic, wasted_wakeups};
use crate::facts::{Facts, LockFacts, LockNumber, Primitive, Site, ThreadFacts};
use crate::names::Role;

pub(super) const RULE: Rule = Rule {
    kind: Kind::HotLock,
    judge,
    evidence: &[
        "wait_share",
        "contended_share",
        "waits_per_s",
        "wait_ns_median",
        "wait_ns_p99",
        "max_waiters",
        "holders_running_share",
        "holders_preempted_share",
        "holders_off_share",
        "waiting_goroutines",
        "goroutines",
        "samples_share",
        "threads",
        "samples",
        "wasted_calls_per_s",
        "wasted_share",
    ],
};

pub(super) const LEAST_WAITS: u64 = 5;
pub(super) const LEAST_WAIT_NS: u64 = 10 * MS;
pub(super) const LEAST_WAIT_SHARE: f64 = 0.05;

/// Of a program whose work comes by the clock.
const LEAST_OF_PACED: f64 = 0.2;

pub(super) const LEAST_POLLERS: u64 = 2;

/// The lock of a queue whose tasks are small is waited for, or passed on too late, so often.
const LEAST_OF_QUEUE_PER_S: f64 = 2_000.0;
const LEAST_CONDITION_WAITS: u64 = 50;

/// Waits that are shorter could be spun through for less than a switch and a wake-up cost.
const SPINNABLE_WAIT_NS: u64 = 20 * US;

fn judge(facts: &Facts) -> Vec<Finding> {
    // Where work comes by the clock, short waits make nothing take longer.
    let matters = |lock: &LockFacts| weigh::wait_share(facts, lock) >= LEAST_OF_PACED || !weigh::is_paced(facts);
    let hot = weigh::contended(facts).filter(|(_, lock)| is_hot(facts, lock) && matters(lock));
    let mut of_threads: Vec<Finding> = hot.map(|(number, lock)| finding(facts, number, lock)).collect();
    let refused = wasted_wakeups::refused_lock(facts);
    // What its calls cost is more than the few waits that sleep.
    of_threads.retain(|waited| refused.as_ref().is_none_or(|refused| refused.subjects != waited.subjects));
    let passed = if of_threads.is_empty() { refused.or_else(|| hot_atomic::passed_lock(facts)) } else { refused };
    let of_all = of_threads.into_iter().chain(passed).map(|finding| of_queue(facts, finding));
    of_all.chain(goroutines::hot_locks(facts)).chain(of_database(facts)).collect()
}

/// The same finding; of the lock of a queue that is taken often, with the cure that goes to the root.
pub(super) fn of_queue(facts: &Facts, finding: Finding) -> Finding {
    let lock = weigh::lock_of(&finding).and_then(|number| facts.lock(number));
    let is_queue = lock.is_some_and(|lock| {
        let calls = lock.waits + lock.eagain_waits + lock.wasted_wakes;
        weigh::per_s(calls, facts.span_ns()) >= LEAST_OF_QUEUE_PER_S && guards_condition(facts, lock)
    });
    Finding { cure: if is_queue { Cure::HandOverMore } else { finding.cure }, ..finding }
}

/// Whether threads wait for a condition in a function that takes the lock as well, as consumers of a queue do.
fn guards_condition(facts: &Facts, lock: &LockFacts) -> bool {
    let mut conditions = facts.locks.iter().filter(|one| one.primitive == Primitive::Condvar && one.pid == lock.pid);
    let takes = |site: &Site| lock.wait_sites.iter().chain(&lock.wake_sites).any(|own| alone::is_same(own, site));
    conditions.any(|condition| condition.waits >= LEAST_CONDITION_WAITS && condition.wait_sites.iter().any(takes))
}

/// The lock of a database's file, which no call waits for, or of its rows and tables.
fn of_database(facts: &Facts) -> Option<Finding> {
    let waits_for_it = |site: &Site| sleeps_for_database(site) || site.waits_for_row();
    let waits = |thread: &&ThreadFacts| thread.off_sites.iter().any(waits_for_it);
    let threads: Vec<&ThreadFacts> = facts.threads.iter().filter(waits).collect();
    let sites = || threads.iter().flat_map(|thread| &thread.off_sites).filter(|site| waits_for_it(site));
    let (waits, waited_ns) = sites().fold((0, 0), |(count, ns), site| (count + site.count, ns + site.ns));
    let wait_share = weigh::share(waited_ns, weigh::work_ns(facts) + waited_ns);
    let place = sites().max_by_key(|site| site.ns)?;
    let enough = threads.len() as u64 >= LEAST_POLLERS
        && waits >= LEAST_WAITS
        && waited_ns >= LEAST_WAIT_NS
        && wait_share >= LEAST_WAIT_SHARE;
    enough.then(|| Finding {
        severity: wait_share,
        subjects: match weigh::function_subject(place) {
            subjects if subjects.is_empty() => vec![weigh::thread_subject(facts, threads[0].tid)],
            subjects => subjects,
        },
        place: Some(place.clone()),
        evidence: vec![
            part("wait_share", wait_share),
            rate("waits_per_s", weigh::per_s(waits, facts.span_ns())),
            count("threads", threads.len() as u64),
        ],
        ..Finding::new(Kind::HotLock, Cure::ShortenTransactions, weigh::record_again())
    })
}

/// Whether SQLite itself sleeps here: it does so while another has the lock of the database's file.
fn sleeps_for_database(site: &Site) -> bool {
    let file = |module: &str| module.rsplit('/').next().unwrap_or_default().to_owned();
    let is_call = |role: Role| matches!(role, Role::Kernel | Role::Scheduler | Role::Lock);
    let asks = site.call_path.iter().find(|frame| !is_call(frame.role) && !file(&frame.module).starts_with("libc"));
    asks.is_some_and(|frame| file(&frame.module).starts_with("libsqlite3"))
}

/// Whether a good part of the threads' time is lost waiting for it.
pub(super) fn is_hot(facts: &Facts, lock: &LockFacts) -> bool {
    lock.waits >= LEAST_WAITS
        && weigh::waited_ns(lock) >= LEAST_WAIT_NS
        && weigh::wait_share(facts, lock) >= LEAST_WAIT_SHARE
}

fn finding(facts: &Facts, number: LockNumber, lock: &LockFacts) -> Finding {
    let wait_share = weigh::wait_share(facts, lock);
    let holding = weigh::holding(lock);
    let spinnable = holding.running >= 0.5 && lock.wait_ns.median_ns() <= SPINNABLE_WAIT_NS;
    Finding {
        kind: Kind::HotLock,
        bound: None,
        severity: weigh::lock_severity(facts, number, lock),
        subjects: vec![weigh::lock_subject(number, lock)],
        place: lock.wait_sites.first().cloned(),
        evidence: vec![
            part("wait_share", wait_share),
            part("contended_share", weigh::share(lock.contended_ns, facts.span_ns())),
            rate("waits_per_s", weigh::per_s(lock.waits, facts.span_ns())),
            ns("wait_ns_median", lock.wait_ns.median_ns()),
            ns("wait_ns_p99", lock.wait_ns.quantile_ns(0.99)),
            count("max_waiters", u64::from(lock.max_waiters)),
            part("holders_running_share", holding.running),
            part("holders_preempted_share", holding.preempted),
            part("holders_off_share", holding.asleep),
        ],
        moments: weigh::longest(lock),
        cure: if spinnable { Cure::SpinThenPark } else { Cure::ShortenSplitOrGate },
        proof: weigh::try_locks(lock.primitive),
    }
}
