//! yield-storm: threads give the CPU away again and again while they wait: `sched_yield` in a loop is waiting, not
//! sharing.
//!
//! Signs and thresholds:
//! - at least [`LEAST_YIELDS`] calls, and [`LEAST_PER_S`] a second of the recording, without those that are the
//!   beginning of a wait that is known;
//! - they cost at least [`LEAST_SHARE`] of the CPU time: by CPU samples below `sched_yield` where the kernel could be
//!   sampled, otherwise by the calls themselves at [`YIELD_NS`] each, which is what one takes that finds nobody else to
//!   run; or, together with loops that spin, they cost as much, and others had the CPU that was given away for
//!   [`LEAST_GIVEN`] of the threads' working time: to give a CPU to those who have work costs nothing by itself;
//! - fewer than four in five are by workers of rayon or .NET that find no task: they yield a few times before they
//!   sleep.
//!
//! The place is the caller of most of them. The severity is the share of the threads' working time, at most what the
//! program has of the CPUs: yields on idle CPUs keep nobody from anything. Where threads give the CPU away and then
//! sleep for a contended lock in the same function, that is one wait, and the lock is reported.
//!
//! Where threads were only looked at, the calls are not seen. But the kernel counts how often a thread left the CPU
//! while it could run: with hardly a wait in between ([`MOST_WAITS_ONE_IN`]), and so soon ([`MOST_RUN_NS`]) that
//! neither the end of a time slice nor a wake-up of another explains it, it gave the CPU away. Whoever finds nobody
//! else to run is not counted.
//!
//! Goroutines that call `runtime.Gosched` do so without a system call: from [`go_scheduler::LEAST_YIELDED`] of the CPU
//! samples on below it, they are told. The place is where most goroutines are that could run and do not.
//!
//! How it can be wrong: the cost of a call is an estimate for an ordinary user. A loop that yields while it polls
//! something that takes long would better sleep; one that waits for a few hundred nanoseconds may be right on idle
//! CPUs.

use super::weigh::{self, count, part, rate};
use super::{Cure, Finding, Kind, Rule, Subject, go_scheduler, runtime};
use crate::facts::{AccountState, Facts, Site, ThreadFacts};

pub(super) const RULE: Rule =
    Rule { kind: Kind::YieldStorm, judge, evidence: &["yield_share", "yields_per_s", "yields", "sites", "samples"] };

pub(super) const LEAST_YIELDS: u64 = 2_000;
pub(super) const LEAST_PER_S: f64 = 2_000.0;
pub(super) const LEAST_SHARE: f64 = 0.05;
pub(super) const LEAST_GIVEN: f64 = 0.2;
pub(super) const YIELD_NS: u64 = 1_000;

/// Of the switches of a thread that gives the CPU away, at most such a part is for a wait.
pub(super) const MOST_WAITS_ONE_IN: u64 = 5;
/// It runs for so long in between, on average, at most.
pub(super) const MOST_RUN_NS: u64 = 100 * weigh::US;

fn judge(facts: &Facts) -> Vec<Finding> {
    of_threads(facts).or_else(|| of_goroutines(facts)).into_iter().collect()
}

fn of_threads(facts: &Facts) -> Option<Finding> {
    if facts.header.is_sampled() {
        return by_counts(facts);
    }
    let yields: u64 = facts.yield_sites.iter().map(|site| site.count).sum();
    let per_s = weigh::per_s(yields, facts.span_ns());
    let cpu_share = cpu_share(facts, yields);
    let spun = weigh::share(crate::spinning::hits(facts), weigh::samples(facts));
    let costs = cpu_share >= LEAST_SHARE || (given(facts) >= LEAST_GIVEN && cpu_share + spun >= LEAST_SHARE);
    if are_idle(facts) || yields < LEAST_YIELDS || per_s < LEAST_PER_S || !costs {
        return None;
    }
    let place = facts.yield_sites.first().cloned();
    let function = place.as_ref().and_then(Site::caller).and_then(|frame| frame.function.as_ref());
    let subject = function.map(|function| Subject::Function(function.to_string()));
    let threads = facts.threads.iter().filter(|thread| thread.on_cpu_ns > 0).count().clamp(1, 64);
    Some(Finding {
        severity: severity(facts, cpu_share),
        subjects: subject.into_iter().collect(),
        place,
        evidence: vec![
            part("yield_share", cpu_share),
            rate("yields_per_s", per_s),
            count("yields", yields),
            count("sites", facts.yield_sites.len() as u64),
        ],
        ..Finding::new(
            Kind::YieldStorm,
            Cure::ParkInsteadOfSpin,
            weigh::bench(&format!("--lock ttas,adaptive,pthread --threads {threads}")),
        )
    })
}

/// Goroutines that call `runtime.Gosched` in a loop.
fn of_goroutines(facts: &Facts) -> Option<Finding> {
    let spent = go_scheduler::on_yields(facts)?;
    let place = spent.place?;
    Some(Finding {
        severity: weigh::of_work(facts, spent.share),
        subjects: weigh::function_subject(&place),
        place: Some(place),
        evidence: vec![part("yield_share", spent.share), count("samples", spent.hits)],
        ..Finding::new(Kind::YieldStorm, Cure::BlockInsteadOfLooking, weigh::record_again())
    })
}

/// By the kernel's counts of switches.
fn by_counts(facts: &Facts) -> Option<Finding> {
    let gives = |thread: &&ThreadFacts| {
        let switches = thread.voluntary + thread.involuntary;
        thread.voluntary * MOST_WAITS_ONE_IN <= switches && thread.on_cpu_ns <= thread.involuntary * MOST_RUN_NS
    };
    let givers: Vec<&ThreadFacts> = facts.threads.iter().filter(gives).collect();
    let yields: u64 = givers.iter().map(|thread| thread.involuntary).sum();
    let per_s = weigh::per_s(yields, facts.span_ns());
    let cost_ns = (yields * weigh::SWITCH_NS).min(givers.iter().map(|thread| thread.on_cpu_ns).sum());
    let cpu_share = weigh::share(cost_ns, weigh::cpu_ns(facts)).min(1.0);
    if yields < LEAST_YIELDS || per_s < LEAST_PER_S || cpu_share < LEAST_SHARE {
        return None;
    }
    Some(Finding {
        severity: severity(facts, cpu_share),
        subjects: vec![Subject::Function("sched_yield".to_owned())],
        evidence: vec![
            part("yield_share", cpu_share),
            rate("yields_per_s", per_s),
            count("yields", yields),
            count("sites", 0),
        ],
        ..Finding::new(
            Kind::YieldStorm,
            Cure::ParkInsteadOfSpin,
            weigh::bench(&format!("--lock ttas,adaptive,pthread --threads {}", givers.len().clamp(1, 64))),
        )
    })
}

/// Whether most yields are by workers that have nothing to do.
pub(super) fn are_idle(facts: &Facts) -> bool {
    let count = |is: fn(&Site) -> bool| -> u64 {
        facts.yield_sites.iter().filter(|site| is(site)).map(|site| site.count).sum()
    };
    let idle = count(runtime::is_idle);
    idle > 0 && idle * 5 >= count(|_| true) * 4
}

/// The time for which others had the CPU that was given away, as a share of the threads' working time.
fn given(facts: &Facts) -> f64 {
    let spun_ns: u64 = facts.threads.iter().map(|thread| thread.spun_ns).sum();
    weigh::share(facts.account.of(AccountState::Spinning).saturating_sub(spun_ns), weigh::work_ns(facts))
}

/// The calls, and the time for which others had the CPU that was given away; at most what the program has of the CPUs.
fn severity(facts: &Facts, cpu_share: f64) -> f64 {
    let cpus_ns = facts.span_ns() * u64::from(facts.header.machine.cpus.max(1));
    (given(facts) + weigh::of_work(facts, cpu_share)).min(weigh::share(weigh::cpu_ns(facts), cpus_ns)).min(1.0)
}

fn cpu_share(facts: &Facts, yields: u64) -> f64 {
    let called: u64 = facts.yield_sites.iter().map(|site| site.count).sum();
    let estimate = weigh::share(yields.min(called) * YIELD_NS, weigh::cpu_ns(facts)).min(1.0);
    let yielding = |code: &&crate::Code| code.frame.function.as_deref().is_some_and(is_yield);
    let sampled = facts.symbols.iter().filter(yielding).map(|code| code.inclusive).max().unwrap_or(0);
    match facts.totals.kernel_samples {
        Some(_) => weigh::share(sampled, weigh::samples(facts)).max(estimate.min(0.5)),
        None => estimate,
    }
}

fn is_yield(function: &str) -> bool {
    function.ends_with("sched_yield")
}
