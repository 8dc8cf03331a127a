//! Tasks of an executor of Java or Python that wait for others of the same: while they wait, they have the threads that
//! should run what they wait for.
//!
//! Threads of one pool wait in its tasks for results, for [`LEAST_WAITED`] of their lives together; mostly threads of
//! that pool end these waits ([`LEAST_OWN`]), and they hardly ever wait for tasks ([`MOST_IDLE`]).

use std::collections::BTreeMap;

use holdup_trace::Tid;

use super::weigh::{self, count, ns, part};
use super::{Cure, Finding, Kind, runtime, stages};
use crate::facts::{Facts, LockFacts, Site, ThreadFacts};

pub(super) const LEAST_WAITED: f64 = 0.3;
pub(super) const LEAST_OWN: f64 = 0.8;
pub(super) const MOST_IDLE: f64 = 0.25;
/// So much of the waits of one lock, or more, are for results.
const MOSTLY: f64 = 0.9;
/// Or it is one task that waits once.
const LEAST_WAITS: u64 = 10;

/// The pool whose tasks wait longest for each other.
pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let waits: Vec<&LockFacts> = facts.locks.iter().filter(|lock| is_for_results(lock)).collect();
    let mut waited: BTreeMap<Tid, (u64, u64)> = BTreeMap::new();
    for (tid, time) in waits.iter().flat_map(|lock| &lock.waiters) {
        let (count, ns) = waited.entry(*tid).or_default();
        (*count, *ns) = (*count + time.count, *ns + time.ns);
    }
    let (longest, _) = waited.iter().max_by_key(|(_, (_, ns))| *ns)?;
    let name = runtime::pool_of(facts.thread(*longest)?);
    let is_worker = |thread: &&ThreadFacts| runtime::pool_of(thread) == name;
    let workers: Vec<&ThreadFacts> = facts.threads.iter().filter(is_worker).collect();
    let lives_ns: u64 = workers.iter().map(|one| one.life_ns()).sum();
    let of_workers = || workers.iter().filter_map(|one| waited.get(&one.tid));
    let waited_ns: u64 = of_workers().map(|(_, ns)| ns).sum();
    let idle_ns: u64 = workers.iter().map(|one| idle_ns(one)).sum::<u64>().saturating_sub(waited_ns);
    let ended = |is: &dyn Fn(Tid) -> bool| -> u64 {
        let enders = waits.iter().flat_map(|lock| &lock.holders);
        enders.filter(|ender| is(ender.tid)).map(|ender| ender.count).sum()
    };
    let own = ended(&|tid| workers.iter().any(|one| one.tid == tid));
    let waited_share = weigh::share(waited_ns, lives_ns).min(1.0);
    let small = waited_share >= LEAST_WAITED
        && of_workers().map(|(count, _)| count).sum::<u64>() >= LEAST_WAITS
        && weigh::share(own, ended(&|_| true)) >= LEAST_OWN
        && weigh::share(idle_ns, lives_ns) <= MOST_IDLE;
    let sites = waits.iter().flat_map(|lock| &lock.wait_sites).filter(|site| is_result(site));
    small.then(|| Finding {
        severity: waited_share,
        subjects: workers.iter().take(3).map(|one| weigh::thread_subject(facts, one.tid)).collect(),
        place: sites.max_by_key(|site| site.ns).cloned(),
        evidence: vec![
            part("waited_share", waited_share),
            count("workers", workers.len() as u64),
            count("callers", of_workers().count() as u64),
            ns("waited_ns", waited_ns),
        ],
        ..Finding::new(Kind::SmallPool, Cure::WaitElsewhere, weigh::record_again())
    })
}

fn is_for_results(lock: &LockFacts) -> bool {
    let ns_of = |is: fn(&Site) -> bool| lock.wait_sites.iter().filter(|site| is(site)).map(|site| site.ns).sum();
    weigh::share(ns_of(is_result), ns_of(|_| true)) >= MOSTLY
}

/// Who waits for a future of C++ may be anybody.
fn is_result(site: &Site) -> bool {
    runtime::is_in_executor(site) && runtime::waits_in_task_for_result(site)
}

/// How long a thread waited for what others of the program bring, its tasks above all.
fn idle_ns(thread: &ThreadFacts) -> u64 {
    thread.off.iter().filter(|(reason, _)| stages::is_for_tasks(**reason)).map(|(_, time)| time.ns).sum()
}
