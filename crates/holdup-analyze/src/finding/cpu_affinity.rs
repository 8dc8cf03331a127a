//! cpu-affinity: threads may run on a few of the program's CPUs only, and wait there for each other, while others are
//! free.
//!
//! Signs and thresholds, per process and set of CPUs:
//! - the kernel lets these threads run on fewer CPUs than the program has: as many as its recorder was allowed when it
//!   started the program, so that a set that the user chose is none; those of the machine where it was attached to;
//! - they wait for each other's CPU for at least [`LEAST_DELAY`] of the time that they want one, each time for at least
//!   [`LEAST_WAIT_NS`] on average: who is woken by who then goes to sleep waits for less, and would not run sooner;
//! - on average more of them want to run than they may at once, and CPUs that they may not use are not taken by the
//!   program's other threads.
//!
//! Or, of Go, whose runtime lets only so many goroutines run at once (GOMAXPROCS): on average over at least
//! [`LEAST_LOOKS`] looks, as good as a whole number of them run ([`MOST_OFF`]), fewer than there are CPUs; at least
//! [`LEAST_RUNNABLE`] more could, and there are CPUs left.
//!
//! The severity is what would go if they had the CPUs that are left, as far as they want them. The place is where these
//! threads run most.
//!
//! How it can be wrong: sets that differ but have as many CPUs and the same first one are taken for the same; the other
//! CPUs may be busy with other programs; what was read of a thread last is taken for all of its life.

use std::collections::BTreeMap;

use holdup_trace::Pid;

use super::weigh::{self, US, count, part, ratio};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::{Facts, GoroutineFacts, GoroutineState, ThreadFacts};

pub(super) const RULE: Rule = Rule {
    kind: Kind::CpuAffinity,
    judge,
    evidence: &["delay_share", "hungry_threads", "allowed_cpus", "first_cpu", "cpus", "runnable_goroutines"],
};

pub(super) const LEAST_DELAY: f64 = 0.1;
pub(super) const LEAST_WAIT_NS: u64 = 200 * US;

pub(super) const LEAST_LOOKS: u64 = 20;
pub(super) const MOST_OFF: f64 = 0.1;
pub(super) const LEAST_RUNNABLE: f64 = 0.5;

/// A process and a set of CPUs: how many and the first.
type Set = (Pid, u32, u32);

fn judge(facts: &Facts) -> Vec<Finding> {
    let machine = &facts.header.machine;
    let of_recorder = machine.allowed_cpus;
    let cpus = if of_recorder == 0 || facts.header.target.attached { machine.cpus } else { of_recorder };
    let mut sets: BTreeMap<Set, Vec<&ThreadFacts>> = BTreeMap::new();
    for thread in &facts.threads {
        let Some((_, last)) = thread.usage else { continue };
        if (1..cpus).contains(&last.allowed_cpus) {
            sets.entry((thread.pid, last.allowed_cpus, last.first_cpu)).or_default().push(thread);
        }
    }
    let of_sets = sets.iter().filter_map(|(set, threads)| of_set(facts, *set, threads, cpus));
    of_sets.chain(facts.goroutines.iter().filter_map(|of| of_go(facts, of, cpus))).collect()
}

/// Goroutines that wait for a place among those that Go lets run at once.
fn of_go(facts: &Facts, of: &GoroutineFacts, cpus: u32) -> Option<Finding> {
    let groups = |state| of.doing.iter().filter(move |group| group.state == state);
    let mean = |state| groups(state).map(|group| group.mean).sum::<f64>();
    let (running, runnable) = (mean(GoroutineState::Running), mean(GoroutineState::Runnable));
    let allowed = running.round();
    let room = allowed + runnable.min(weigh::idle(facts) * f64::from(cpus));
    let process = facts.process(of.pid)?;
    let are_confined = of.looks >= LEAST_LOOKS
        && (1.0..f64::from(cpus)).contains(&allowed)
        && (running - allowed).abs() <= MOST_OFF
        && runnable >= LEAST_RUNNABLE;
    are_confined.then(|| Finding {
        severity: 1.0 - allowed / room,
        subjects: vec![weigh::process_subject(process)],
        place: groups(GoroutineState::Runnable).next().map(|group| group.site.clone()),
        evidence: vec![
            ratio("runnable_goroutines", runnable),
            count("allowed_cpus", allowed as u64),
            count("cpus", u64::from(cpus)),
        ],
        ..Finding::new(Kind::CpuAffinity, Cure::RaiseGomaxprocs, weigh::record_again())
    })
}

fn of_set(facts: &Facts, (pid, allowed, first): Set, threads: &[&ThreadFacts], cpus: u32) -> Option<Finding> {
    let own_ns: u64 = threads.iter().map(|thread| thread.on_cpu_ns).sum();
    let wanted_ns: u64 = threads.iter().map(|thread| weigh::wanted_ns(thread)).sum();
    let waits: u64 = threads.iter().map(|thread| weigh::preempted(thread).count).sum();
    let delay_ns = wanted_ns - own_ns;
    let delay = weigh::share(delay_ns, wanted_ns);
    let others_ns = weigh::cpu_ns(facts) - own_ns;
    let wanted = weigh::share(wanted_ns, facts.span_ns());
    let room = wanted.min(f64::from(cpus) - weigh::share(others_ns, facts.span_ns()));
    let process = facts.process(pid)?;
    let are_confined = delay >= LEAST_DELAY && delay_ns >= waits * LEAST_WAIT_NS && room > f64::from(allowed);
    are_confined.then(|| Finding {
        severity: 1.0 - f64::from(allowed) / room,
        subjects: vec![weigh::process_subject(process)],
        place: weigh::hottest(threads.iter().copied()),
        evidence: vec![
            part("delay_share", delay),
            count("hungry_threads", threads.iter().filter(|one| weigh::preempted(one).ns > 0).count() as u64),
            count("allowed_cpus", u64::from(allowed)),
            count("first_cpu", u64::from(first)),
            count("cpus", u64::from(cpus)),
        ],
        ..Finding::new(Kind::CpuAffinity, Cure::WidenAffinity, weigh::record_again())
    })
}
