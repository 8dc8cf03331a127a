//! Who runs alone: what is told by CPU samples that were taken while only one thread was running or runnable. Serial
//! phases are told by it, and uneven shares of work whose threads end with them.

use std::sync::Arc;

use super::weigh;
use crate::facts::{AccountState, Facts, Site, ThreadFacts};
use crate::names::Role;

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
        let runnable = &facts.totals.runnable_ns;
        let share = |ns: u64| weigh::share(ns, facts.span_ns());
        let alone = Alone {
            share: share(runnable.get(1).copied().unwrap_or(0)),
            parallel: share(runnable.iter().skip(2).sum()),
            samples: facts.alone_sites.iter().map(|site| site.count).sum(),
        };
        let idle = share(runnable.first().copied().unwrap_or(0));
        (idle <= MOST_IDLE && alone.samples >= LEAST_SAMPLES).then_some(alone)
    }
}

/// The share of the samples of one thread alone that are in functions which several threads run as well.
pub(super) fn in_common(facts: &Facts) -> f64 {
    const LEAST: f64 = 0.02;
    let all: u64 = facts.parallel_sites.iter().map(|site| site.count).sum();
    let is_common = |site: &&Site| {
        let same = facts.parallel_sites.iter().filter(|other| is_same(site, other));
        weigh::share(same.map(|other| other.count).sum(), all) >= LEAST
    };
    let alone: u64 = facts.alone_sites.iter().map(|site| site.count).sum();
    weigh::share(facts.alone_sites.iter().filter(is_common).map(|site| site.count).sum(), alone)
}

/// The share of the time of several threads that goes to the function which is run most by one thread alone.
pub(super) fn in_parallel_too(facts: &Facts) -> f64 {
    let Some(alone) = facts.alone_sites.first() else { return 0.0 };
    let all: u64 = facts.parallel_sites.iter().map(|site| site.count).sum();
    let same: u64 = facts.parallel_sites.iter().filter(|site| is_same(site, alone)).map(|site| site.count).sum();
    weigh::share(same, all)
}

/// The program's own functions on a call path, by their name or where they begin; without `main`, which only the first
/// thread comes from.
pub(super) fn functions(site: &Site) -> impl Iterator<Item = (Option<Arc<str>>, u64)> {
    let own = site.call_path.iter().filter(|frame| frame.role == Role::Program && !frame.is_nameless_code());
    let all = own.map(|frame| (frame.function.clone(), if frame.function.is_none() { frame.start } else { 0 }));
    all.filter(|(name, _)| name.as_deref() != Some("main"))
}

/// Whether two sites are in one function of the program. Of code that was made as it ran and has no names, nothing is
/// known.
pub(super) fn is_same(one: &Site, other: &Site) -> bool {
    let function = |site: &Site| {
        let frame = site.caller().filter(|frame| !frame.is_nameless_code())?;
        let start = if frame.function.is_none() { frame.start } else { 0 };
        Some((frame.module.clone(), frame.function.clone(), start))
    };
    function(one).is_some_and(|one| function(other) == Some(one))
}

/// Whether a thread does nothing but run, want to run, and wait for others to come or end.
pub(super) fn only_works(thread: &ThreadFacts) -> bool {
    let account = &thread.account;
    let rest = [AccountState::Lock, AccountState::Work, AccountState::Io, AccountState::Memory, AccountState::Sleep];
    rest.iter().map(|state| account.share(*state)).sum::<f64>() <= 0.2
}
