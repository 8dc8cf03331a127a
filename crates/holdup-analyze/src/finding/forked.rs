//! Processes that share work out, one of which has so much of it that it goes on when the others have ended.
//!
//! They were started by one process and run the same function, they began together ([`MOST_LATER`]) and were busy for
//! [`LEAST_BUSY`] of their lives; then the last was alone for [`LEAST_LAST`] of the recording, while the one that
//! started them waited.

use std::collections::BTreeMap;

use holdup_trace::Pid;

use super::alike::{self, Group};
use super::weigh::{self, count, ns, part};
use super::{Cure, Finding, Kind};
use crate::facts::{Facts, ThreadFacts};

pub(super) const LEAST_LAST: f64 = 0.2;
pub(super) const LEAST_BUSY: f64 = 0.5;
/// Of the recording, from the first one's start to the last one's.
const MOST_LATER: f64 = 0.1;
/// The one that started them has a CPU for so much of the recording.
const MOST_OF_PARENT: f64 = 0.3;

pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let mut families: BTreeMap<Pid, Vec<&ThreadFacts>> = BTreeMap::new();
    for process in facts.processes.iter().filter(|process| process.threads == 1) {
        let first = facts.threads.iter().find(|thread| thread.pid == process.pid);
        if let Some((parent, first)) = process.started_by.zip(first) {
            families.entry(parent).or_default().push(first);
        }
    }
    let found = families.into_iter().filter_map(|(parent, children)| of_children(facts, parent, children));
    found.max_by(|one, other| one.severity.total_cmp(&other.severity))
}

fn of_children(facts: &Facts, parent: Pid, children: Vec<&ThreadFacts>) -> Option<Finding> {
    let group = Group::new(alike::of_one_task(children));
    let of_span = |ns: u64| weigh::share(ns, facts.span_ns());
    let mut ends: Vec<u64> = group.threads.iter().map(|child| child.ended_ns).collect();
    ends.sort_unstable();
    let [.., before, last_ns] = ends[..] else { return None };
    let last = group.threads.iter().find(|child| child.ended_ns == last_ns)?;
    let latest = group.threads.iter().map(|child| child.born_ns).max()?;
    let parent_ns: u64 = facts.threads.iter().filter(|thread| thread.pid == parent).map(|one| one.on_cpu_ns).sum();
    let is_busy = |child: &&ThreadFacts| weigh::share(weigh::wanted_ns(child), child.life_ns()) >= LEAST_BUSY;
    let last_share = of_span(last_ns - before);
    let is_uneven = last_share >= LEAST_LAST
        && of_span(latest - group.from_ns) <= MOST_LATER
        && of_span(parent_ns) <= MOST_OF_PARENT
        && group.threads.iter().all(is_busy)
        && group.most_work();
    is_uneven.then(|| Finding {
        severity: group.cost(facts),
        subjects: vec![weigh::thread_subject(facts, last.tid)],
        place: last.hot_sites.first().cloned(),
        evidence: vec![
            part("last_share", last_share),
            count("processes", group.threads.len() as u64),
            ns("busiest_cpu_ns", group.busiest().worked_ns()),
            ns("median_cpu_ns", group.median_ns()),
        ],
        ..Finding::new(Kind::Imbalance, Cure::Rebalance, weigh::record_again())
    })
}
