//! memory-lock: threads of one process wait for its address space, which one of them changes: mmap, munmap, mprotect,
//! and the page faults of others wait for each other behind one lock of the kernel.
//!
//! Signs and thresholds, per process:
//! - waits for the address space take at least [`LEAST_SHARE`] of the threads' working time, [`LEAST_NS`] in all.
//!
//! They are known by the kernel's part of a stack, where rights allow to see it; for an ordinary user by looks at
//! /proc.
//!
//! How it can be wrong: an allocator that gives memory back at every free shows here; the place names it.

use super::weigh::{self, MS, count, ns, part};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, Leaf, Reason, Site};
use crate::names::pattern::plain;

pub(super) const RULE: Rule =
    Rule { kind: Kind::MemoryLock, judge, evidence: &["wait_share", "wait_ns", "waits", "threads"] };

pub(super) const LEAST_SHARE: f64 = 0.05;
pub(super) const LEAST_NS: u64 = 10 * MS;

fn judge(facts: &Facts) -> Vec<Finding> {
    facts
        .processes
        .iter()
        .filter_map(|process| {
            let own = facts.threads.iter().filter(|thread| thread.pid == process.pid);
            let times: Vec<_> = own.filter_map(|thread| thread.off.get(&Reason::Memory)).collect();
            let wait_ns: u64 = times.iter().map(|time| time.ns).sum();
            let wait_share = weigh::share(wait_ns, weigh::work_ns(facts)).min(1.0);
            if wait_share < LEAST_SHARE || wait_ns < LEAST_NS || times.len() < 2 {
                return None;
            }
            let place = weigh::worst_site(facts, |row| row.leaf == Leaf::Memory).map(|(_, site)| site);
            let proof = match place.as_ref().is_some_and(maps_itself) {
                true => weigh::record_again(),
                false => weigh::try_with("--arenas 1,8"),
            };
            Some(Finding {
                severity: wait_share,
                subjects: vec![weigh::process_subject(process)],
                place,
                evidence: vec![
                    part("wait_share", wait_share),
                    ns("wait_ns", wait_ns),
                    count("waits", times.iter().map(|time| time.count).sum()),
                    count("threads", times.len() as u64),
                ],
                ..Finding::new(Kind::MemoryLock, Cure::FewerMappings, proof)
            })
        })
        .collect()
}

/// Whether the program maps and unmaps by itself, without an allocator: no arenas help there.
fn maps_itself(site: &Site) -> bool {
    const CALLS: [&str; 5] = ["mmap", "mmap64", "munmap", "mprotect", "madvise"];
    let named = |names: &dyn Fn(&str) -> bool| site.call_path.iter().filter_map(|f| f.function.as_deref()).any(names);
    named(&|name| CALLS.contains(&&*plain(name))) && !named(&weigh::allocates)
}
