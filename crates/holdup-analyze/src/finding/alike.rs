//! Threads that have the same to do.

use super::{alone, weigh};
use crate::facts::{Facts, Site, ThreadFacts};

/// The median thread does at least one in so many parts of what the busiest does.
pub(super) const LEAST_WORK: u64 = 200;

/// Threads that are alike.
pub(super) struct Group<'a> {
    /// Busiest first.
    pub(super) threads: Vec<&'a ThreadFacts>,
    pub(super) from_ns: u64,
    pub(super) to_ns: u64,
}

impl<'a> Group<'a> {
    pub(super) fn new(mut threads: Vec<&'a ThreadFacts>) -> Self {
        threads.sort_by_key(|thread| std::cmp::Reverse(thread.worked_ns()));
        let from_ns = threads.iter().map(|thread| thread.born_ns).min().unwrap_or(0);
        let to_ns = threads.iter().map(|thread| thread.ended_ns).max().unwrap_or(0);
        Group { threads, from_ns, to_ns }
    }

    pub(super) fn window_ns(&self) -> u64 {
        self.to_ns.saturating_sub(self.from_ns)
    }

    pub(super) fn busiest(&self) -> &'a ThreadFacts {
        self.threads[0]
    }

    pub(super) fn median_ns(&self) -> u64 {
        self.threads[self.threads.len() / 2].worked_ns()
    }

    /// At least half of the others do something: idle threads of a pool are no workers that come short.
    pub(super) fn most_work(&self) -> bool {
        self.median_ns() * LEAST_WORK >= self.busiest().worked_ns()
    }

    /// The share of the recording by which it would be shorter if each had as much to do.
    pub(super) fn cost(&self, facts: &Facts) -> f64 {
        let busiest = self.busiest();
        let uneven = 1.0 - weigh::share(self.even_ns(facts.header.machine.cpus), busiest.worked_ns()).min(1.0);
        (uneven * weigh::share(weigh::wanted_ns(busiest), facts.span_ns())).min(1.0)
    }

    /// How long the same work takes where each of so many CPUs has as much of it.
    fn even_ns(&self, cpus: u32) -> u64 {
        let all: u64 = self.threads.iter().map(|thread| thread.worked_ns()).sum();
        all / (self.threads.len() as u64).min(u64::from(cpus).max(1))
    }
}

/// Those that have the task of the busiest one: others of its name may do something else, or have done their work
/// before it came.
pub(super) fn of_one_task(threads: Vec<&ThreadFacts>) -> Vec<&ThreadFacts> {
    let Some(busiest) = threads.iter().copied().max_by_key(|thread| thread.worked_ns()) else { return threads };
    let begins = |site: &Site| alone::functions(site).last();
    let sites = &busiest.hot_sites;
    let is_its = |site: &Site| {
        let runs_the_same = sites.iter().any(|own| alone::is_same(own, site));
        runs_the_same || begins(site).is_some_and(|begin| sites.iter().filter_map(begins).any(|own| own == begin))
    };
    let unknown = |thread: &ThreadFacts| thread.hot_sites.is_empty();
    let meets = |thread: &ThreadFacts| thread.born_ns < busiest.ended_ns && busiest.born_ns < thread.ended_ns;
    let like = |thread: &&ThreadFacts| {
        meets(thread) && (unknown(busiest) || unknown(thread) || thread.hot_sites.iter().any(is_its))
    };
    threads.into_iter().filter(like).collect()
}

/// Whether a thread has most of its CPU samples in the function of this site.
pub(super) fn mostly_runs(thread: &ThreadFacts, site: &Site) -> bool {
    thread.hot_sites.first().is_some_and(|own| alone::is_same(own, site))
}
