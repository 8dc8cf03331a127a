//! excessive-switching: threads are switched far more often than time slices would do it.
//!
//! A thread that runs to the end of a 100 ms quantum gives 10 switches a second, the ideal that the Windows CE team
//! counts from (2007); a switch every 50 us is 2,000 times that. Linux slices of 3 to 4 ms give some 300 a second: 30
//! times the ideal is what a busy machine does by itself.
//!
//! Signs and thresholds:
//! - counted are switches that the program's threads cause each other: futex waits of all kinds, preemption, yields
//!   (unless most are by workers of rayon that have nothing to do).
//!   Sleeping for devices, descriptors, children or a time is what a program that serves the outside does, and is left
//!   out;
//! - at least [`LEAST_SWITCHES`] of them, and [`LEAST_PER_S`] a second of the recording; together the threads had or
//!   wanted a CPU for at least [`LEAST_WANTED_SHARE`] of it, and had one for [`LEAST_BUSY_SHARE`]: a pool that gets a
//!   small job now and then is not blamed;
//! - what they wait for is not mostly the clock of others ([`weigh::is_paced`]);
//! - at least [`LEAST_PER_BUSY_S`] per second of CPU time (500 times the ideal), that is, runs of at most 200 us:
//!   switching then takes more than 2% of the time, by an estimate of 5 us each.
//!
//! Or goroutines are, which no switch shows: Go's channels and scheduler, with what it takes to begin and end
//! goroutines, have [`go_scheduler::LEAST_HAND_OVER`] of the CPU samples, and as much as one CPU is in use for
//! [`LEAST_WANTED_SHARE`] of the recording. The place is the function that most of these samples come from, the
//! severity their share.
//!
//! The place is where threads most often left the CPU by waits on a futex and yields. The severity is that estimate, as
//! a share of CPU time. Any kind that names a cause (a lock, a pair, a herd, more threads than CPUs) replaces this one.
//!
//! How it can be wrong: the cost of a switch is an estimate. Where hand-overs are the point of the program and its
//! latency is what counts, short runs are right.

use std::cmp::Ordering;

use super::weigh::{self, MS, count, ns, part, rate, ratio};
use super::{Cure, Finding, Kind, Rule, Subject};
use super::{go_scheduler, yield_storm};
use crate::facts::{Facts, GoroutineState, Reason, Site, ThreadFacts};
use crate::names::Frame;

pub(super) const RULE: Rule = Rule {
    kind: Kind::ExcessiveSwitching,
    judge,
    evidence: &[
        "switches_per_s",
        "times_the_ideal",
        "run_ns_mean",
        "run_ns_median",
        "involuntary_share",
        "switches",
        "hand_over_share",
        "samples",
    ],
};

pub(super) const LEAST_SWITCHES: u64 = 1_000;
pub(super) const LEAST_PER_S: f64 = 2_000.0;
pub(super) const LEAST_PER_BUSY_S: f64 = 5_000.0;
pub(super) const LEAST_BUSY_NS: u64 = 20 * MS;
pub(super) const LEAST_WANTED_SHARE: f64 = 0.4;
pub(super) const LEAST_BUSY_SHARE: f64 = 0.2;

/// Switches per second of a thread that always runs to the end of a quantum of 100 ms.
const IDEAL_PER_S: f64 = 10.0;

/// Threads that are named.
const MOST_SUBJECTS: usize = 2;

fn judge(facts: &Facts) -> Vec<Finding> {
    // Of what goroutines hand over, a little shows on threads.
    let found = of_threads(facts).into_iter().chain(of_goroutines(facts));
    found.max_by(|a, b| a.severity.total_cmp(&b.severity)).into_iter().collect()
}

/// The threads of the program switch each other out.
pub(super) fn of_threads(facts: &Facts) -> Option<Finding> {
    let yields = !yield_storm::are_idle(facts);
    let internal = |thread: &ThreadFacts| internal(thread, yields);
    let switches: u64 = facts.threads.iter().map(internal).sum();
    let busy_ns: u64 = facts.threads.iter().filter(|thread| internal(thread) > 0).map(|t| t.on_cpu_ns).sum();
    let per_busy_s = weigh::per_s(switches, busy_ns);
    let wanted_ns: u64 = facts.threads.iter().map(weigh::wanted_ns).sum();
    let enough = switches >= LEAST_SWITCHES
        && busy_ns >= LEAST_BUSY_NS
        && weigh::share(wanted_ns, facts.span_ns()) >= LEAST_WANTED_SHARE
        && weigh::share(busy_ns, facts.span_ns()) >= LEAST_BUSY_SHARE
        && weigh::per_s(switches, facts.span_ns()) >= LEAST_PER_S
        && per_busy_s >= LEAST_PER_BUSY_S
        && !weigh::is_paced(facts);
    enough.then(|| finding(facts, switches, busy_ns))
}

/// The same of goroutines.
fn of_goroutines(facts: &Facts) -> Option<Finding> {
    let is_busy = weigh::share(weigh::cpu_ns(facts), facts.span_ns()) >= LEAST_WANTED_SHARE;
    let spent = go_scheduler::on_hand_overs(facts).filter(|_| is_busy)?;
    let place = spent.place?;
    Some(Finding {
        severity: spent.share,
        subjects: weigh::function_subject(&place),
        place: Some(place),
        evidence: vec![part("hand_over_share", spent.share), count("samples", spent.hits)],
        ..Finding::new(Kind::ExcessiveSwitching, Cure::CoarserWork, weigh::record_again())
    })
}

fn finding(facts: &Facts, switches: u64, busy_ns: u64) -> Finding {
    let run_ns = busy_ns / switches.max(1);
    let place = place(facts);
    // Teams of OpenMP that are more than the CPUs can run, as of several processes, wait for each other at each loop.
    let of_openmp = place.as_ref().is_some_and(|site| site.call_path.iter().any(Frame::is_of_openmp));
    let lives_ns: u64 =
        facts.threads.iter().filter(|thread| internal(thread, true) > 0).map(ThreadFacts::life_ns).sum();
    let at_a_time = weigh::share(lives_ns, facts.span_ns());
    let (cure, proof) = match of_openmp && at_a_time > f64::from(facts.header.machine.cpus) {
        true => (Cure::FewerThreads, weigh::try_with("--env OMP_NUM_THREADS=1")),
        false => (Cure::CoarserWork, weigh::try_with("--cpus all,1 --slices default,20ms")),
    };
    Finding {
        kind: Kind::ExcessiveSwitching,
        bound: None,
        severity: weigh::switching_share(run_ns) * weigh::share(busy_ns, weigh::cpu_ns(facts)).min(1.0),
        subjects: subjects(facts),
        place,
        evidence: vec![
            rate("switches_per_s", weigh::per_s(switches, facts.span_ns())),
            ratio("times_the_ideal", weigh::per_s(switches, busy_ns) / IDEAL_PER_S),
            ns("run_ns_mean", run_ns),
            ns("run_ns_median", facts.totals.run_ns.median_ns()),
            part("involuntary_share", weigh::share(facts.totals.involuntary, facts.totals.switches)),
            count("switches", switches),
        ],
        moments: Vec::new(),
        cure,
        proof,
    }
}

/// Where threads mostly leave the CPU; where that is in the runtime of goroutines, where these mostly wait for each
/// other's hand-overs.
fn place(facts: &Facts) -> Option<Site> {
    use GoroutineState::{Mutex, Receive, Send};
    let first = facts.switch_sites.first();
    let groups = facts.goroutines.iter().flat_map(|of| &of.doing);
    let handing_over =
        groups.filter(|group| matches!(group.state, Send | Receive | Mutex) && group.site.is_by_program());
    let most = || {
        handing_over
            .max_by(|a, b| (a.state == Send, a.mean).partial_cmp(&(b.state == Send, b.mean)).unwrap_or(Ordering::Equal))
    };
    first.filter(|site| site.is_by_program()).or_else(|| most().map(|group| &group.site)).or(first).cloned()
}

/// Switches of a thread that others of the program cause, with its yields or without.
fn internal(thread: &ThreadFacts, yields: bool) -> u64 {
    let is = |reason: &Reason| match reason {
        Reason::Yielded => yields,
        reason => matches!(reason, Reason::Futex(_) | Reason::Preempted),
    };
    thread.off.iter().filter(|(reason, _)| is(reason)).map(|(_, off)| off.count).sum()
}

fn subjects(facts: &Facts) -> Vec<Subject> {
    let mut threads: Vec<&ThreadFacts> = facts.threads.iter().collect();
    threads.sort_by_key(|thread| std::cmp::Reverse(internal(thread, true)));
    threads.iter().take(MOST_SUBJECTS).map(|thread| weigh::thread_subject(facts, thread.tid)).collect()
}
