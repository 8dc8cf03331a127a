//! Java's machine stops all threads, to collect garbage above all. One that runs a long loop without a look whether it
//! is to stop keeps the others waiting: a serial phase.
//!
//! The machine's thread sleeps until all have stopped for [`LEAST_SHARE`] of the recording, and one thread that runs
//! code of Java runs or could run for [`LEAST_RAN`] of that.

use super::runtime;
use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind};
use crate::facts::Facts;
use holdup_trace::Tid;

pub(super) const LEAST_SHARE: f64 = 0.1;
pub(super) const LEAST_RAN: f64 = 0.5;

/// The thread that the others wait for.
pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let waits = facts.safepoints.as_ref()?;
    // Threads of the machine itself go on while others stop.
    let of_machine = |name: &str| runtime::is_of_java(name) || runtime::collects(name);
    let of_java = |(tid, ns): &(Tid, u64)| {
        let thread = facts.thread(*tid).filter(|thread| !of_machine(&thread.name))?;
        Some((thread, *ns))
    };
    let (thread, ran_ns) = waits.ran.iter().find_map(of_java)?;
    let alone_share = weigh::share(waits.ns, facts.span_ns()).min(1.0);
    (alone_share >= LEAST_SHARE && weigh::share(ran_ns, waits.ns) >= LEAST_RAN).then(|| Finding {
        severity: weigh::divided(alone_share, facts.header.machine.cpus.max(1).into()),
        bound: Some(1.0 / (1.0 - alone_share)),
        subjects: vec![weigh::thread_subject(facts, thread.tid)],
        place: thread.hot_sites.first().cloned(),
        evidence: vec![
            part("alone_share", alone_share),
            part("ran_share", weigh::share(ran_ns, waits.ns).min(1.0)),
            count("waits", waits.times),
        ],
        ..Finding::new(
            Kind::SerialPhase,
            Cure::ReachSafepoints,
            weigh::try_with("--env JAVA_TOOL_OPTIONS=-XX:+UseCountedLoopSafepoints"),
        )
    })
}

/// Whether a thread is the one that waits until others have stopped: it sleeps for that, and does not poll.
pub(super) fn is_machine(facts: &Facts, tid: Tid) -> bool {
    facts.safepoints.as_ref().is_some_and(|waits| waits.machine == tid)
}
