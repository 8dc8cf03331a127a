//! One of several threads, or processes, that wait for the same events has all of them: an imbalance whose others wait
//! for nothing but work.

use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind, alone};
use crate::facts::{Facts, Reason, Site, ThreadFacts};

/// It has, or wants, a CPU for so much of the recording.
pub(super) const LEAST_BUSY: f64 = 0.85;
/// The others wait for events for so much of their lives,
pub(super) const LEAST_IDLE: f64 = 0.9;
/// which are at least so much of the recording,
const LEAST_LIFE: f64 = 0.5;
/// and all together, with all who ever wait there, have so much of the CPU time of theirs and its.
pub(super) const MOST_OF_OTHERS: f64 = 0.1;
/// Each of Node's threads has an event loop of its own, for which it waits here.
const OWN_LOOP: &str = "uv__io_poll";

/// The busiest thread that has what others wait for.
pub(super) fn finding(facts: &Facts) -> Option<Finding> {
    let busiest = facts.threads.iter().max_by_key(|thread| thread.account.active_ns())?;
    let busy_share = weigh::share(busiest.account.active_ns(), facts.span_ns()).min(1.0);
    let others: Vec<&ThreadFacts> = facts.threads.iter().filter(|thread| waits_as(facts, thread, busiest)).collect();
    let place = others.first()?.off_sites.first()?;
    let comes_by = |thread: &&ThreadFacts| is_like(thread, busiest) && leads_through(thread, place);
    let others_ns: u64 = facts.threads.iter().filter(comes_by).map(|thread| thread.on_cpu_ns).sum();
    let has_all = busy_share >= LEAST_BUSY && weigh::share(others_ns, others_ns + busiest.on_cpu_ns) <= MOST_OF_OTHERS;
    let among = (others.len() as u64 + 1).min(facts.header.machine.cpus.max(1).into());
    has_all.then(|| Finding {
        severity: weigh::divided(busy_share, among),
        subjects: vec![weigh::thread_subject(facts, busiest.tid)],
        place: Some(place.clone()),
        evidence: vec![part("busy_share", busy_share), count("idle_threads", others.len() as u64)],
        ..Finding::new(Kind::Imbalance, Cure::SpreadEvents, weigh::record_again())
    })
}

/// Whether a thread has next to nothing to do, and mostly waits for events where that one waits for them, too, or which
/// that one works below.
fn waits_as(facts: &Facts, thread: &ThreadFacts, busiest: &ThreadFacts) -> bool {
    let events_ns = thread.off.get(&Reason::Poll).map_or(0, |time| time.ns);
    let is_own = |site: &Site| {
        let function = site.caller().and_then(|frame| frame.function.as_deref());
        thread.pid == busiest.pid && function == Some(OWN_LOOP)
    };
    is_like(thread, busiest)
        && weigh::share(events_ns, thread.life_ns()) >= LEAST_IDLE
        && weigh::share(thread.life_ns(), facts.span_ns()) >= LEAST_LIFE
        && thread.off_sites.first().is_some_and(|site| leads_through(busiest, site) && !is_own(site))
}

/// Whether it is another thread of the same process, or of the same name.
fn is_like(thread: &ThreadFacts, other: &ThreadFacts) -> bool {
    thread.tid != other.tid && (thread.pid == other.pid || thread.name == other.name)
}

/// Whether a thread waits or works below the function of a site.
fn leads_through(thread: &ThreadFacts, site: &Site) -> bool {
    thread.off_sites.iter().chain(&thread.hot_sites).any(|own| alone::leads_through(own, site))
}
