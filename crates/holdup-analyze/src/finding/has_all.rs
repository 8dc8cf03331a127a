//! One of several threads, or processes, that wait for the same events has all of them: an imbalance whose others wait
//! for nothing but work.

use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind};
use crate::facts::{AccountState, Facts, Site, ThreadFacts};

/// It has, or wants, a CPU for so much of the recording.
pub(super) const LEAST_BUSY: f64 = 0.85;
/// The others wait for events for so much of their lives,
pub(super) const LEAST_IDLE: f64 = 0.9;
/// which are at least so much of the recording,
const LEAST_LIFE: f64 = 0.5;
/// and all together have so much of the CPU time of theirs and its.
pub(super) const MOST_OF_OTHERS: f64 = 0.1;

/// The busiest thread that has what others wait for.
pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let busiest = facts.threads.iter().max_by_key(|thread| busy_ns(thread))?;
    let busy_share = weigh::share(busy_ns(busiest), facts.span_ns()).min(1.0);
    let others: Vec<&ThreadFacts> = facts.threads.iter().filter(|thread| waits_as(facts, thread, busiest)).collect();
    let others_ns: u64 = others.iter().map(|thread| thread.on_cpu_ns).sum();
    let has_all = busy_share >= LEAST_BUSY
        && !others.is_empty()
        && weigh::share(others_ns, others_ns + busiest.on_cpu_ns) <= MOST_OF_OTHERS;
    let among = (others.len() as u64 + 1).min(facts.header.machine.cpus.max(1).into());
    has_all.then(|| Finding {
        severity: weigh::divided(busy_share, among),
        subjects: vec![weigh::thread_subject(facts, busiest.tid)],
        place: others[0].off_sites.first().cloned(),
        evidence: vec![part("busy_share", busy_share), count("idle_threads", others.len() as u64)],
        ..Finding::new(Kind::Imbalance, Cure::SpreadEvents, weigh::record_again())
    })
}

/// How long a thread did not wait: it was on a CPU or could go on.
fn busy_ns(thread: &ThreadFacts) -> u64 {
    use AccountState::{CpuOther, CpuOwn, Running, Spinning};
    [Running, Spinning, CpuOwn, CpuOther].map(|state| thread.account.of(state)).iter().sum()
}

/// Whether a thread has next to nothing to do, and mostly waits for events where that one waits for them, too.
fn waits_as(facts: &Facts, thread: &ThreadFacts, busiest: &ThreadFacts) -> bool {
    let idle = weigh::share(thread.account.of(AccountState::Work), thread.life_ns());
    let lives = weigh::share(thread.life_ns(), facts.span_ns());
    let of_one_program = thread.pid == busiest.pid || thread.name == busiest.name;
    thread.tid != busiest.tid
        && of_one_program
        && idle >= LEAST_IDLE
        && lives >= LEAST_LIFE
        && thread.off_sites.first().is_some_and(|site| waits_for_events(site) && comes_by(busiest, site))
}

/// Whether that is a call that waits for any of several sockets, or for a connection.
fn waits_for_events(site: &Site) -> bool {
    const CALLS: [&str; 5] = ["epoll_", "poll", "select", "accept", "recvmmsg"];
    let is_call = |name: &str| CALLS.iter().any(|call| name.trim_start_matches("__").starts_with(call));
    site.call_path.iter().any(|frame| frame.function.as_deref().is_some_and(is_call))
}

/// Whether a thread waits in, or works below, the function that waits there.
fn comes_by(thread: &ThreadFacts, site: &Site) -> bool {
    let Some(waits) = site.caller() else { return false };
    let is_there = |own: &Site| {
        own.call_path.iter().any(|frame| {
            let same =
                if waits.function.is_some() { frame.function == waits.function } else { frame.start == waits.start };
            frame.module == waits.module && same
        })
    };
    thread.off_sites.iter().chain(&thread.hot_sites).any(is_there)
}
