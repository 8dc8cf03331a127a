//! What Java's machine waits for when it stops all threads: the one that runs on to its next safepoint.

use super::chains::Meaning as _;
use super::ids::ThreadId;
use super::lock::Place;
use super::lookup::Lookup;
use super::meaning::Meanings;
use crate::facts::{Reason, SafepointFacts};
use crate::names::leads_through;

/// The thread that stops all others.
const MACHINE: &str = "VM Thread";
/// Threads that are told, those first that ran longest.
const TOLD: usize = 8;

/// Of the process whose machine slept longest until its threads had stopped.
pub(super) fn find(lookup: &mut Lookup<'_>, meanings: &Meanings) -> Option<SafepointFacts> {
    let engine = lookup.engine;
    let mut stops = |ti: ThreadId| -> Vec<(u64, u64)> {
        let thread = &engine.threads[ti];
        let sleeps = thread.log.stays().iter().filter(|stay| meanings.reason(stay.doing()) == Reason::Sleep);
        let waits = sleeps.filter(|stay| {
            let call_path = lookup.call_path(Place { space: thread.space, stack: stay.stack });
            leads_through(&call_path, |name| name.starts_with("SafepointSynchronize::"))
        });
        waits.map(|stay| (stay.from, stay.to)).collect()
    };
    let length = |spans: &[(u64, u64)]| spans.iter().map(|(from, to)| to - from).sum::<u64>();
    let machines = engine.threads.each().filter(|(_, thread)| thread.name == MACHINE);
    let all = machines.map(|(ti, _)| (ti, stops(ti))).filter(|(_, spans)| !spans.is_empty());
    let (machine, spans) = all.max_by_key(|(_, spans)| length(spans))?;
    let pid = engine.threads[machine].pid;
    let mut ran: Vec<_> = Vec::new();
    for (ti, thread) in engine.threads.each().filter(|(ti, thread)| *ti != machine && thread.pid == pid) {
        let (born, ended) = (thread.born, thread.last.max(thread.born));
        let ran_ns: u64 = spans
            .iter()
            .map(|(from, to)| {
                let (from, to) = ((*from).max(born), (*to).min(ended));
                let off = thread
                    .log
                    .within(from, to)
                    .iter()
                    .filter(|stay| !matches!(meanings.reason(stay.doing()), Reason::Preempted | Reason::Displaced));
                let off_ns: u64 = off.map(|stay| stay.woken().min(to).saturating_sub(stay.from.max(from))).sum();
                to.saturating_sub(from).saturating_sub(off_ns)
            })
            .sum();
        ran.push((lookup.tid(ti), ran_ns));
    }
    ran.sort_by_key(|(tid, ns)| (std::cmp::Reverse(*ns), *tid));
    ran.truncate(TOLD);
    Some(SafepointFacts { machine: lookup.tid(machine), ns: length(&spans), times: spans.len() as u64, ran })
}
