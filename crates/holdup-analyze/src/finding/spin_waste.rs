//! spin-waste: CPU time is burnt in loops that wait: behind `pause` instructions, in spin locks, in loops that do
//! the same in every round until another thread changes what they read. (`sched_yield` is yield-storm.) Or goroutines
//! look into channels again and again.
//!
//! Signs and thresholds:
//! - at least [`LEAST_SAMPLES`] CPU samples in spinning code, standing for at least [`LEAST_SPAN_SHARE`] of the
//!   recording's length: a runtime that spins briefly before it sleeps is not blamed;
//! - at least [`LEAST_SHARE`] of all CPU samples. Spinning code is a function of [`SPINNERS`], or one in which at least
//!   `LEAST_PAUSE_SHARE` of the samples are right behind a `pause`: then all its samples count, for the loop around
//!   the `pause` spins too. Elsewhere only those behind the `pause`.
//!
//! Of goroutines: calls that send, receive or select have [`go_scheduler::LEAST_LOOKED`] of the CPU samples, while
//! hardly any sample shows that something moves ([`go_scheduler::HARDLY_ANY_MOVED`]) or that Go's scheduler has
//! something to do ([`go_scheduler::HARDLY`]).
//!
//! What is sampled while another thread of the program waits for a CPU that other programs have does not count, unless
//! threads of the program keep each other from the CPUs for [`MOSTLY_OWN`] times as long as other programs do: then
//! who spins has the very CPU that the other waits for.
//!
//! The severity is the share of the threads' working time. Samples of an ordinary user are of user code alone: the time
//! in the kernel is taken off, where it is known.
//!
//! How it can be wrong: spinning pays where the wait is shorter than a switch and CPUs are free (Karlin and others,
//! 1991); try before changing. Loops on a plain read without `pause` are found where all of a round is in one file.

use super::weigh::{self, count, part, ratio};
use super::{Cure, Evidence, Finding, Kind, Rule, Subject};
use super::{go_scheduler, runtime};
use crate::facts::{Facts, Hotspot, LockName, Site};
use crate::names::Frame;
use crate::spinning::{key, spinning};

pub(super) const RULE: Rule =
    Rule { kind: Kind::SpinWaste, judge, evidence: &["spin_share", "spin_samples", "spin_cpus"] };

pub(super) const LEAST_SAMPLES: u64 = 50;
pub(super) const LEAST_SHARE: f64 = 0.1;
pub(super) const LEAST_SPAN_SHARE: f64 = 0.05;
const MOSTLY_OWN: u64 = 4;
/// Of the CPU time, from which on threads that wait for a CPU want it from those that spin.
pub(super) const LEAST_CROWDED: f64 = 0.25;

fn judge(facts: &Facts) -> Vec<Finding> {
    samples(facts).into_iter().chain(of_goroutines(facts)).collect()
}

/// Goroutines that look into channels in a loop, without ever waiting.
fn of_goroutines(facts: &Facts) -> Option<Finding> {
    let spent = go_scheduler::on_looks(facts)?;
    let place = spent.place?;
    Some(Finding {
        severity: weigh::of_work(facts, spent.share),
        subjects: weigh::function_subject(&place),
        place: Some(place),
        evidence: vec![
            part("spin_share", spent.share),
            count("spin_samples", spent.hits),
            ratio("spin_cpus", spent.cpus),
        ],
        ..Finding::new(Kind::SpinWaste, Cure::BlockInsteadOfLooking, weigh::record_again())
    })
}

/// Samples in spinning code, by function.
fn samples(facts: &Facts) -> Option<Finding> {
    let places = spinning(facts);
    let all: u64 = places.values().map(|(_, hits)| hits).sum();
    // Who spins for a thread that other programs keep from the CPU would not, without them.
    let is_own = weigh::preempted_ns(facts) > MOSTLY_OWN * weigh::all_displaced_ns(facts);
    let hits = if is_own { all } else { all.saturating_sub(facts.spun_beside_displaced) };
    let spin_share = weigh::share(hits, weigh::samples(facts)).min(1.0);
    let spin_ns = hits * facts.header.sample_period_ns;
    let spin_cpus = weigh::share(spin_ns, facts.span_ns());
    let (frame, _) = places.values().max_by_key(|(_, hits)| *hits)?;
    if hits < LEAST_SAMPLES || spin_share < LEAST_SHARE || spin_cpus < LEAST_SPAN_SHARE {
        return None;
    }
    let evidence = vec![part("spin_share", spin_share), count("spin_samples", hits), ratio("spin_cpus", spin_cpus)];
    let place = place(facts, frame);
    if runtime::is_idle(&place) {
        return None;
    }
    let function = || match frame.is_of_openmp() && frame.function.is_none() {
        true => frame.module.rsplit('/').next().unwrap_or_default().to_owned(),
        false => worst(facts, frame).map_or_else(|| key(frame), weigh::function_of),
    };
    let subject = variable(facts, frame).map_or_else(|| Subject::Function(function()), Subject::Variable);
    let severity = weigh::of_work(facts, spin_share * weigh::sampled_share(facts));
    Some(finding(facts, severity, Some(place), Some(subject), evidence))
}

/// The call path into the spinning function: of its instructions that were sampled, the one with most samples.
fn place(facts: &Facts, frame: &Frame) -> Site {
    let alone = || Site { call_path: vec![frame.clone()], ..Site::default() };
    worst(facts, frame).map_or_else(alone, weigh::site_of)
}

/// Of the instructions of a function that were sampled, the one with most samples.
fn worst<'a>(facts: &'a Facts, frame: &Frame) -> Option<&'a Hotspot> {
    facts.hotspots.iter().filter(|hotspot| key(&hotspot.frame) == key(frame)).max_by_key(|hotspot| hotspot.hits)
}

/// The variable that the spinning function works on, where one of its instructions names it.
fn variable(facts: &Facts, frame: &Frame) -> Option<LockName> {
    let hotspots = facts.hotspots.iter().filter(|hotspot| key(&hotspot.frame) == key(frame));
    let named = hotspots.filter(|hotspot| hotspot.variable.is_some()).max_by_key(|hotspot| hotspot.hits);
    named.and_then(|hotspot| hotspot.variable.clone())
}

fn finding(
    facts: &Facts,
    severity: f64,
    place: Option<Site>,
    subject: Option<Subject>,
    evidence: Vec<Evidence>,
) -> Finding {
    let threads = facts.threads.iter().filter(|thread| thread.on_cpu_ns > 0).count().clamp(1, 64);
    // Threads of OpenMP that have done their share wait so for the others at the end of a loop: no lock of the
    // program's is there.
    let of_openmp = place.as_ref().and_then(|site| site.call_path.first()).is_some_and(Frame::is_of_openmp);
    let crowded = weigh::share(weigh::preempted_ns(facts), weigh::cpu_ns(facts)) >= LEAST_CROWDED;
    let (cure, proof) = match of_openmp {
        true => (
            if crowded { Cure::SleepAtBarriers } else { Cure::Rebalance },
            weigh::try_with("--env OMP_WAIT_POLICY=active,passive"),
        ),
        false => (Cure::ParkInsteadOfSpin, weigh::bench(&format!("--lock ttas,adaptive,pthread --threads {threads}"))),
    };
    Finding {
        kind: Kind::SpinWaste,
        bound: None,
        severity,
        subjects: subject.into_iter().collect(),
        place,
        evidence,
        moments: Vec::new(),
        cure,
        proof,
    }
}
