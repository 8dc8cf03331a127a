//! What goroutines spend on each other in Go's channels and scheduler: on handing over, or on looking again and again
//! for what another has not done yet. No thread waits for it, and no switch shows it.

use super::weigh;
use crate::facts::{Facts, GoroutineState, Site};
use crate::names::Frame;

/// Hand-overs, from this share of the CPU samples on.
pub(super) const LEAST_HAND_OVER: f64 = 0.35;
/// Looks into channels in vain: a loop that looks now and then whether it is to end spends less.
pub(super) const LEAST_LOOKED: f64 = 0.35;
/// Calls of `runtime.Gosched`.
pub(super) const LEAST_YIELDED: f64 = 0.1;
pub(super) const LEAST_SAMPLES: u64 = 100;
/// They stand for so much of one CPU.
const LEAST_SPAN_SHARE: f64 = 0.05;
/// Below this share of the samples, the scheduler has nothing to do and channels move nothing.
pub(super) const HARDLY: f64 = 0.05;
pub(super) const HARDLY_ANY_MOVED: f64 = 0.005;

/// What a goroutine calls to hand something over, to take it, or to look whether it could. None of them calls another.
const CHANNELS: [&str; 3] = ["runtime.chansend", "runtime.chanrecv", "runtime.selectgo"];
/// What it calls to begin another goroutine, and what the scheduler begins with on its own stack to find the next one,
/// or as one has ended. None of them calls another, or one of [`CHANNELS`].
const SCHEDULER: [&str; 4] = ["runtime.newproc", "runtime.park_m", "runtime.goschedImpl", "runtime.goexit0"];
/// What `runtime.Gosched` calls, and the end of a time slice does not.
const YIELD: &str = "runtime.gosched_m";
/// What channels call once something moves.
const MOVES: [&str; 4] = ["runtime.typedmemmove", "runtime.typedmemclr", "runtime.send", "runtime.recv"];

/// CPU samples of goroutines in channels and the scheduler.
pub(super) struct Spent {
    pub(super) hits: u64,
    pub(super) share: f64,
    /// So many CPUs, on average.
    pub(super) cpus: f64,
    /// Where most of them come from.
    pub(super) place: Option<Site>,
}

/// Goroutines hand over so little at a time that it is most of what they do.
pub(super) fn on_hand_overs(facts: &Facts) -> Option<Spent> {
    let hits = hits(facts, &CHANNELS) + hits(facts, &SCHEDULER);
    spent(facts, hits, LEAST_HAND_OVER, hottest).filter(|_| !look_in_vain(facts))
}

/// Goroutines look into channels that are empty or full, and never sleep.
pub(super) fn on_looks(facts: &Facts) -> Option<Spent> {
    spent(facts, hits(facts, &CHANNELS), LEAST_LOOKED, hottest).filter(|_| look_in_vain(facts))
}

/// Goroutines give the CPU away again and again.
pub(super) fn on_yields(facts: &Facts) -> Option<Spent> {
    spent(facts, hits(facts, &[YIELD]), LEAST_YIELDED, |facts| {
        let groups = facts.goroutines.iter().flat_map(|of| &of.doing);
        let ready = groups.filter(|group| group.state == GoroutineState::Runnable && group.site.caller().is_some());
        let place = ready.max_by(|a, b| a.mean.total_cmp(&b.mean)).map(|group| group.site.clone());
        place.or_else(|| hottest(facts))
    })
}

/// Whether a call path leads through a channel.
pub(super) fn is_in_channel(site: &Site) -> bool {
    site.call_path.iter().any(|frame| is_any(frame, &CHANNELS))
}

fn spent(facts: &Facts, hits: u64, least: f64, place: fn(&Facts) -> Option<Site>) -> Option<Spent> {
    let share = weigh::share(hits, weigh::samples(facts)).min(1.0);
    let cpus = weigh::share(hits * facts.header.sample_period_ns, facts.span_ns());
    let enough = hits >= LEAST_SAMPLES && share >= least && cpus >= LEAST_SPAN_SHARE;
    enough.then(|| Spent { hits, share, cpus, place: place(facts) })
}

fn look_in_vain(facts: &Facts) -> bool {
    let in_channels = hits(facts, &CHANNELS);
    in_channels >= LEAST_SAMPLES
        && weigh::share(hits(facts, &SCHEDULER), in_channels) < HARDLY
        && weigh::share(hits(facts, &MOVES), in_channels) < HARDLY_ANY_MOVED
}

fn hits(facts: &Facts, functions: &[&str]) -> u64 {
    weigh::samples_below(facts, |frame| is_any(frame, functions))
}

/// The function of the program that most samples come from, those in channels before others: what the scheduler does
/// on its own stack is done for one as well.
fn hottest(facts: &Facts) -> Option<Site> {
    let through =
        |site: &Site| site.call_path.iter().any(|frame| is_any(frame, &CHANNELS) || is_any(frame, &SCHEDULER));
    let sites = || facts.threads.iter().flat_map(|thread| &thread.hot_sites);
    let own = sites().filter(|site| site.is_by_program()).max_by_key(|site| (through(site), site.count));
    own.or_else(|| sites().filter(|site| through(site)).max_by_key(|site| site.count)).cloned()
}

fn is_any(frame: &Frame, functions: &[&str]) -> bool {
    frame.function.as_deref().is_some_and(|function| functions.contains(&function))
}
