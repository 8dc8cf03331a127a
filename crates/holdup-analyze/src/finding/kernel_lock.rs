//! kernel-lock: threads spin inside the kernel for a lock that another of them has: of a file that several write, of a
//! pipe or a socket, of the table of descriptors.
//!
//! Signs and thresholds:
//! - at least [`LEAST_SHARE`] of all CPU samples are in the kernel's functions that spin for its locks;
//! - at least [`LEAST_HITS`] of them;
//! - at least two threads have [`LEAST_THREAD_SHARE`] of the CPU time each.
//!
//! The severity is a share of CPU time. The place is the function of the program whose calls take most CPU time in the
//! kernel.
//!
//! How it can be wrong: seen only where the kernel is sampled (root, or CAP_PERFMON). Which of the kernel's locks it
//! is, only the call at the place tells. Other processes may be the ones that have it.

use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Code, Facts};
use crate::names::Role;

pub(super) const RULE: Rule =
    Rule { kind: Kind::KernelLock, judge, evidence: &["spin_share", "kernel_share", "samples", "threads"] };

pub(super) const LEAST_SHARE: f64 = 0.15;
pub(super) const LEAST_HITS: u64 = 50;
pub(super) const LEAST_THREAD_SHARE: f64 = 0.1;

/// Functions of the kernel that spin for one of its locks, or let a thread sleep for it.
const SPINNING: [&str; 7] = [
    "mutex_spin_on_owner",
    "rwsem_spin_on_owner",
    "rwsem_down_",
    "osq_lock",
    "queued_spin_lock_slowpath",
    "queued_read_lock_slowpath",
    "queued_write_lock_slowpath",
];

fn judge(facts: &Facts) -> Vec<Finding> {
    let spins = |code: &&Code| {
        let name = code.frame.function.as_deref().unwrap_or_default();
        matches!(code.frame.role, Role::Kernel | Role::Scheduler) && SPINNING.iter().any(|part| name.contains(part))
    };
    let hits: u64 = facts.symbols.iter().filter(spins).map(|code| code.hits).sum();
    let share = weigh::share(hits, weigh::samples(facts)).min(1.0);
    let cpu_ns = weigh::cpu_ns(facts);
    let busy = facts.threads.iter().filter(|thread| weigh::share(thread.on_cpu_ns, cpu_ns) >= LEAST_THREAD_SHARE);
    let threads = busy.count();
    if share < LEAST_SHARE || hits < LEAST_HITS || threads < 2 {
        return Vec::new();
    }
    let busiest = facts.threads.iter().max_by_key(|thread| thread.kernel_samples);
    let process = busiest.and_then(|thread| facts.process(thread.pid));
    vec![Finding {
        severity: share * weigh::sampled_share(facts),
        subjects: process.map(weigh::process_subject).into_iter().collect(),
        place: facts.kernel_sites.first().cloned(),
        evidence: vec![
            part("spin_share", share),
            part("kernel_share", super::kernel_heavy::kernel_share(facts)),
            count("samples", hits),
            count("threads", threads as u64),
        ],
        ..Finding::new(Kind::KernelLock, Cure::OwnObjects, weigh::record_again())
    }]
}
