//! Who runs alone: what is told by CPU samples that were taken while only one thread was running or runnable. Serial
//! phases are told by it, and uneven shares of work whose threads end with them.

use std::sync::Arc;

use super::weigh;
use crate::facts::{AccountState, Facts, Site, ThreadFacts};
use crate::names::{Frame, Role};

/// A program that mostly has something to do, now with one thread, now with several.
pub(super) struct Alone {
    /// The share of the recording in which exactly one thread ran or could run.
    pub share: f64,
    /// The share in which several did.
    pub parallel: f64,
    /// Samples that were taken while one ran alone.
    pub samples: u64,
}

/// No thread wants a CPU for so much of the time at most.
pub(super) const MOST_IDLE: f64 = 0.2;
/// So many samples tell who it was.
const LEAST_SAMPLES: u64 = 50;

impl Alone {
    /// `None` if the program is mostly idle, or there is too little to tell.
    pub(super) fn of(facts: &Facts) -> Option<Alone> {
        let (idle, share, parallel) = runnable_shares(facts);
        // Where there are many places, only the first ones are told of.
        let of_threads: u64 = facts.threads.iter().map(|thread| thread.alone_samples).sum();
        let samples = sum(&facts.alone_sites).max(of_threads);
        (idle <= MOST_IDLE && samples >= LEAST_SAMPLES).then_some(Alone { share, parallel, samples })
    }
}

/// The shares of the recording in which no thread, exactly one, and several ran or could run.
pub(super) fn runnable_shares(facts: &Facts) -> (f64, f64, f64) {
    let runnable = &facts.totals.runnable_ns;
    let share = |ns| weigh::share(ns, facts.span_ns());
    let of = |threads: usize| share(runnable.get(threads).copied().unwrap_or(0));
    (of(0), of(1), share(runnable.iter().skip(2).sum()))
}

/// The share of the samples of one thread alone that are in functions which several threads run as well.
pub(super) fn in_common(facts: &Facts) -> f64 {
    const LEAST: f64 = 0.02;
    let common = facts.alone_sites.iter().filter(|site| parallel_share(facts, site) >= LEAST);
    weigh::share(common.map(|site| site.count).sum(), sum(&facts.alone_sites))
}

/// The share of the time of several threads that goes to the function which is run most by one thread alone.
pub(super) fn in_parallel_too(facts: &Facts) -> f64 {
    facts.alone_sites.first().map_or(0.0, |site| parallel_share(facts, site))
}

/// The share of the time of several threads that goes to one function.
fn parallel_share(facts: &Facts, site: &Site) -> f64 {
    let same = facts.parallel_sites.iter().filter(|other| is_same(other, site));
    weigh::share(same.map(|other| other.count).sum(), sum(&facts.parallel_sites))
}

fn sum(sites: &[Site]) -> u64 {
    sites.iter().map(|site| site.count).sum()
}

/// The program's own functions on a call path, by their name or where they begin; without `main`, which only the first
/// thread comes from.
pub(super) fn functions(site: &Site) -> impl Iterator<Item = (Option<Arc<str>>, u64)> {
    let own = site.call_path.iter().filter(|frame| frame.role == Role::Program);
    own.filter_map(function).filter(|(name, _)| name.as_deref() != Some("main"))
}

/// Whether two sites are in one function of the program.
pub(super) fn is_same(one: &Site, other: &Site) -> bool {
    one.caller().zip(other.caller()).is_some_and(|(one, other)| is_same_function(one, other))
}

/// Whether a call path leads through the function of the program at a site.
pub(super) fn leads_through(path: &Site, site: &Site) -> bool {
    site.caller().is_some_and(|there| path.call_path.iter().any(|frame| is_same_function(frame, there)))
}

fn is_same_function(one: &Frame, other: &Frame) -> bool {
    one.module == other.module && function(one).is_some_and(|of_one| function(other) == Some(of_one))
}

/// What a frame's function is known by: its name, or where it begins. Of code that was made as it ran and has no names,
/// nothing is known.
fn function(frame: &Frame) -> Option<(Option<Arc<str>>, u64)> {
    let start = if frame.function.is_none() { frame.start } else { 0 };
    (!frame.is_nameless_code()).then(|| (frame.function.clone(), start))
}

/// Whether threads do nothing but run, want to run, and wait for others to come or end.
pub(super) fn only_work(threads: &[&ThreadFacts]) -> bool {
    let states = [AccountState::Lock, AccountState::Work, AccountState::Io, AccountState::Memory, AccountState::Sleep];
    let rest = |thread: &&ThreadFacts| states.iter().map(|state| thread.account.of(*state)).sum::<u64>();
    let lives_ns = threads.iter().map(|thread| thread.life_ns()).sum();
    weigh::share(threads.iter().map(rest).sum(), lives_ns) <= 0.2
}
