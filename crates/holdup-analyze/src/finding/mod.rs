//! What holds threads up: one file per kind of finding, one row each in [`RULES`].
//!
//! A rule is a pure function from [`Facts`] to findings. Its file begins with signs, thresholds and how it can be
//! wrong, as docs/findings.md tells them to users. A finding is data; its sentences are made by the program that prints
//! it.

mod alike;
mod allocator;
mod alone;
mod connection_churn;
mod copied_messages;
mod cpu_affinity;
mod cpu_quota;
mod data;
mod deadlock;
mod excessive_switching;
mod explain;
mod forked;
mod garbage_collection;
mod go_scheduler;
mod goroutines;
mod has_all;
mod hot_atomic;
mod hot_line;
mod hot_lock;
mod imbalance;
mod interpreter_lock;
mod io_bound;
mod kernel_heavy;
mod kernel_lock;
mod lock_convoy;
mod lost_wakeups;
mod memory_lock;
mod one_by_one;
mod oversubscription;
mod own_pool;
mod page_faults;
mod ping_pong;
mod polling;
mod priority_inversion;
mod regions;
mod runtime;
mod safepoints;
mod serial_phase;
mod sleeping_holder;
mod slow_stage;
mod small_pool;
mod spin_waste;
mod stages;
mod starvation;
mod thread_churn;
mod thundering_herd;
mod wasted_wakeups;
mod weigh;
mod yield_storm;

pub use data::{Command, Cure, Evidence, Finding, Kind, Subject, Unit};

pub use weigh::{lock_ahead, lock_of};

pub use goroutines::{blocked_holder, goroutine_lock, lock_of_goroutines};

use data::Rule;

use crate::doubt::SHORTEST_SPAN_NS;
use crate::facts::{Facts, Moment};

/// Adding a finding: its file, its row, its section in docs/findings.md.
const RULES: &[Rule] = &[
    lock_convoy::RULE,
    hot_lock::RULE,
    deadlock::RULE,
    sleeping_holder::RULE,
    excessive_switching::RULE,
    ping_pong::RULE,
    oversubscription::RULE,
    thundering_herd::RULE,
    spin_waste::RULE,
    hot_atomic::RULE,
    kernel_heavy::RULE,
    wasted_wakeups::RULE,
    imbalance::RULE,
    priority_inversion::RULE,
    io_bound::RULE,
    memory_lock::RULE,
    page_faults::RULE,
    allocator::RULE,
    starvation::RULE,
    serial_phase::RULE,
    slow_stage::RULE,
    small_pool::RULE,
    polling::RULE,
    yield_storm::RULE,
    interpreter_lock::RULE,
    garbage_collection::RULE,
    kernel_lock::RULE,
    thread_churn::RULE,
    cpu_affinity::RULE,
    cpu_quota::RULE,
    lost_wakeups::RULE,
    copied_messages::RULE,
    connection_churn::RULE,
];

/// What costs less is not worth a line.
const LEAST_SEVERITY: f64 = 0.05;

/// The same for kinds whose blame is shared by all who wait for work: a little of that is in every pool and pipeline.
const LEAST_SHARED: f64 = 0.1;

/// What goes with a cause and is not seen: starts, the way to a CPU, caches that are warm.
const UNSEEN: f64 = 0.05;

/// So much of what the code that faults does itself may go with the faults: a fault's way into the kernel and back is
/// put down to the instruction that faults, and memory that is used again is in the caches.
const MOST_OF_FAULTING: f64 = 0.75;

/// A bound beyond this is none: what is left is within what is not seen.
const MOST_BOUND: f64 = 20.0;

fn least(kind: Kind) -> f64 {
    match kind {
        Kind::SerialPhase | Kind::SlowStage | Kind::SmallPool => LEAST_SHARED,
        _ => LEAST_SEVERITY,
    }
}

/// Everything that holds threads up, worst first. A finding that another explains (the switches of a convoy, say) is
/// left out: see [`explain`].
pub(crate) fn all(facts: &Facts) -> Vec<Finding> {
    if facts.span_ns() < SHORTEST_SPAN_NS {
        return Vec::new();
    }
    let slack = weigh::slack(facts).unwrap_or(1.0);
    let found = RULES.iter().flat_map(|rule| (rule.judge)(facts)).map(|mut finding| {
        finding.severity = finding.severity.min(weigh::room(facts, &finding));
        within(slack, facts, finding)
    });
    let mut findings: Vec<Finding> = found.filter(|finding| finding.severity >= least(finding.kind)).collect();
    findings.sort_by(|a, b| b.severity.total_cmp(&a.severity));
    explain::leave_out_consequences(facts, findings)
}

/// No cure of waiting wins more than what the CPUs have left, but for those who starve, or wait for a lock that nobody
/// gives up, while they are full, for what a collector keeps them full with, and for who is stopped by a limit, as if
/// others had them; and what would go bounds the gain.
fn within(slack: f64, facts: &Facts, mut finding: Finding) -> Finding {
    let on_full_cpus =
        matches!(finding.kind, Kind::Starvation | Kind::PriorityInversion | Kind::GarbageCollection | Kind::CpuQuota);
    if !finding.costs_cpu_time() && !on_full_cpus {
        finding.severity = finding.severity.min(slack);
    }
    let left = left(facts, &finding) * (1.0 - UNSEEN);
    let bound = if left > 0.0 { 1.0 / left } else { f64::INFINITY }.max(finding.bound.unwrap_or(1.0));
    finding.bound = Some(bound).filter(|bound| *bound <= MOST_BOUND);
    finding
}

/// The part of the time that is left at least if the cause goes. More may go with it than was put down to it. Where the
/// cost is CPU time (cold caches, the other side of each wake-up): all but what does the program's work. Where threads
/// wait: the CPU time that waits take of what is left.
fn left(facts: &Facts, finding: &Finding) -> f64 {
    use Kind::*;
    let left = 1.0 - finding.severity;
    match finding.kind {
        // What is not sent is neither made nor waited for.
        CopiedMessages => 0.0,
        // Nor is a connection that is kept set up in the kernel, and at the other end.
        ConnectionChurn => 0.0,
        _ if finding.cure == Cure::LargerTasks => 0.0,
        // As many at once as the CPUs allow.
        _ if finding.cure == Cure::StartSeveral => 1.0 - weigh::idle(facts),
        HotAtomic => left.min(1.0 - weigh::value(finding, "samples_share")).min(weigh::useful(facts)),
        PingPong => left.min(weigh::useful(facts) * (1.0 - weigh::idle(facts))),
        KernelHeavy | ThreadChurn => left.min(weigh::of_program(facts)),
        PageFaults => left.min(weigh::useful(facts) - MOST_OF_FAULTING * weigh::own_share(facts, finding)),
        kind if finding.costs_cpu_time()
            || matches!(kind, Oversubscription | ThunderingHerd | MemoryLock | Allocator) =>
        {
            left.min(weigh::useful(facts))
        }
        IoBound => left * weigh::outside_kernel(facts),
        // What holders write one by one, one of them may write for all.
        SleepingHolder => (left - weigh::of_devices(facts)).max(0.0) * (1.0 - weigh::waiting_cost(facts)),
        _ => left.min(1.0 - weigh::of_calls(facts, finding)) * (1.0 - weigh::waiting_cost(facts)),
    }
}

/// Every kind with the names of the numbers that its findings may show, in the order of docs/findings.md.
pub fn vocabulary() -> impl Iterator<Item = (Kind, &'static [&'static str])> {
    RULES.iter().map(|rule| (rule.kind, rule.evidence))
}

#[cfg(test)]
mod tests;
