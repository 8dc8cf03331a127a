//! Threads of OpenMP: what is lost between parallel regions, where one works alone, and in them, where some are done
//! before others. Those that wait may spin all the while, so that all look busy: what they spin for tells.

use super::weigh::{self, MS, count, ns, part, ratio};
use super::{Cure, Finding, Kind, Moment};
use crate::facts::{AccountState, Facts, ThreadFacts};

/// One thread works alone between regions for so much of the recording at least.
pub(super) const LEAST_BETWEEN: f64 = 0.1;
/// In the regions, so much is lost at least by waiting for those who have more to do.
pub(super) const LEAST_LOST: f64 = 0.1;
/// The others wait for so much of what one does alone.
pub(super) const LEAST_WAITED: f64 = 0.4;
/// So many times the mean makes one thread the busiest.
const LEAST_ABOVE: f64 = 1.3;
const LEAST_NS: u64 = 20 * MS;

/// The threads that share OpenMP's regions.
struct Team<'a> {
    threads: Vec<&'a ThreadFacts>,
    /// The one that works most between regions.
    first: &'a ThreadFacts,
    period_ns: u64,
}

impl<'a> Team<'a> {
    fn of(facts: &'a Facts) -> Option<Team<'a>> {
        let first = facts.threads.iter().filter(|thread| thread.regions.inside > 0);
        let first = first.max_by_key(|thread| (thread.regions.between, thread.on_cpu_ns))?;
        let is_member = |thread: &&ThreadFacts| {
            thread.pid == first.pid && (thread.regions.inside > 0 || thread.spun_together_ns > 0)
        };
        let threads: Vec<_> = facts.threads.iter().filter(is_member).collect();
        let period_ns = facts.header.sample_period_ns;
        (threads.len() >= 2 && period_ns > 0).then_some(Team { threads, first, period_ns })
    }

    fn between_ns(&self) -> u64 {
        self.first.regions.between * self.period_ns
    }

    fn inside_ns(&self, thread: &ThreadFacts) -> u64 {
        thread.regions.inside * self.period_ns
    }

    /// What threads waited for others to come as far, asleep or not.
    fn waited_ns<'t>(threads: impl Iterator<Item = &'t ThreadFacts>) -> u64 {
        threads.map(|thread| thread.spun_together_ns + thread.account.of(AccountState::Barrier)).sum()
    }

    fn others(&self) -> u64 {
        self.threads.len() as u64 - 1
    }
}

/// serial-phase: what one thread does between regions.
pub(super) fn serial(facts: &Facts) -> Option<Finding> {
    let team = Team::of(facts)?;
    let between_ns = team.between_ns();
    let alone_share = weigh::share(between_ns, facts.span_ns()).min(1.0);
    let waiting = team.threads.iter().copied().filter(|thread| thread.tid != team.first.tid);
    let waited_share = weigh::share(Team::waited_ns(waiting), between_ns * team.others()).min(1.0);
    let is_serial = alone_share >= LEAST_BETWEEN && waited_share >= LEAST_WAITED && between_ns >= LEAST_NS;
    let cpus = u64::from(facts.header.machine.cpus).min(team.threads.len() as u64).max(2);
    is_serial.then(|| Finding {
        severity: weigh::divided(alone_share, cpus),
        subjects: vec![weigh::thread_subject(facts, team.first.tid)],
        place: team.first.regions.site.clone(),
        evidence: vec![
            part("alone_share", alone_share),
            part("parallel_share", weigh::share(team.inside_ns(team.first), facts.span_ns()).min(1.0)),
            part("waited_share", waited_share),
            count("waiters", team.others()),
            ns("alone_ns", between_ns),
        ],
        ..Finding::new(Kind::SerialPhase, Cure::DivideSerialPart, weigh::record_again())
    })
}

/// imbalance: what threads wait for each other in regions. What they lost because one of them got no CPU is none, and
/// neither is what one does between regions.
pub(super) fn imbalance(facts: &Facts) -> Option<Finding> {
    let team = Team::of(facts)?;
    let no_cpu = [AccountState::CpuOwn, AccountState::CpuOther];
    let kept_ns: u64 = team.threads.iter().flat_map(|thread| no_cpu.map(|state| thread.account.of(state))).sum();
    let waited_ns = Team::waited_ns(team.threads.iter().copied());
    let lost_ns = waited_ns.saturating_sub(team.others() * (team.between_ns() + kept_ns)) / team.threads.len() as u64;
    let lost_share = weigh::share(lost_ns, facts.span_ns());
    if lost_share < LEAST_LOST || lost_ns < LEAST_NS {
        return None;
    }
    let busiest = team.threads.iter().copied().max_by_key(|thread| thread.regions.inside)?;
    let mut inside: Vec<u64> = team.threads.iter().map(|thread| team.inside_ns(thread)).collect();
    inside.sort_unstable();
    let (most, median) = (team.inside_ns(busiest), inside[(inside.len() - 1) / 2]);
    let mean = inside.iter().sum::<u64>() as f64 / inside.len() as f64;
    let stands_out = most as f64 >= LEAST_ABOVE * mean;
    Some(Finding {
        severity: lost_share,
        subjects: stands_out.then(|| weigh::thread_subject(facts, busiest.tid)).into_iter().collect(),
        place: busiest.hot_sites.first().cloned(),
        evidence: vec![
            ratio("times_the_median", weigh::share(most, median.max(1))),
            ns("busiest_cpu_ns", most),
            ns("median_cpu_ns", median),
            part("waiting_share", weigh::share(waited_ns, facts.span_ns() * team.threads.len() as u64)),
            count("threads", team.threads.len() as u64),
        ],
        moments: vec![Moment { tid: busiest.tid, from_ns: busiest.born_ns, to_ns: busiest.ended_ns }],
        ..Finding::new(Kind::Imbalance, Cure::Rebalance, weigh::record_again())
    })
}

/// Whether most of what spins waits for others to come as far.
pub(super) fn spin(facts: &Facts) -> bool {
    let sum = |of: fn(&ThreadFacts) -> u64| -> u64 { facts.threads.iter().map(of).sum() };
    let together = sum(|thread| thread.spun_together_ns);
    together > 0 && together * 2 >= sum(|thread| thread.spun_ns)
}
