//! cpu-quota: the control group that the program is in, a container's or a service's, may use so much CPU time in each
//! period, and the kernel stops it when it has used that up.
//!
//! Signs and thresholds:
//! - there is such a limit, and it ended at least [`LEAST_THROTTLED`] of the periods;
//! - the threads want more CPUs than the limit allows, on average over the recording, and there are more.
//!
//! The severity is that part of the time, less what would still be waited with all CPUs. The place is where the program
//! runs most.
//!
//! How it can be wrong: others in the same group may use its time up; the other CPUs may be busy with other programs.

use holdup_trace::Counter;

use super::weigh::{self, count, mean, part};
use super::{Cure, Finding, Kind, Rule};
use crate::facts::Facts;

pub(super) const RULE: Rule = Rule {
    kind: Kind::CpuQuota,
    judge,
    evidence: &["throttled_share", "allowed_cpu_time", "wanted_cpus", "throttled_periods", "cpus"],
};

pub(super) const LEAST_THROTTLED: f64 = 0.1;

fn judge(facts: &Facts) -> Vec<Finding> {
    let throttled = facts.counted(Counter::ThrottledPeriods);
    let throttled_share = weigh::share(throttled, facts.counted(Counter::QuotaPeriods));
    let per_elapsed = |ns: u64| ns as f64 / facts.span_ns().max(1) as f64;
    let allowed = per_elapsed(facts.counted(Counter::QuotaNs));
    let wanted = per_elapsed(facts.threads.iter().map(|thread| thread.account.active_ns()).sum());
    let cpus = facts.header.machine.cpus;
    let usable = wanted.min(f64::from(cpus));
    let process = weigh::busiest_process(facts, facts.threads.iter());
    let is_held = throttled_share >= LEAST_THROTTLED && allowed > 0.0 && allowed < usable;
    let finding = process.filter(|_| is_held).map(|process| Finding {
        severity: throttled_share.min(1.0) * (1.0 - allowed / usable),
        subjects: vec![weigh::process_subject(process)],
        place: weigh::hottest(facts.threads.iter()),
        evidence: vec![
            part("throttled_share", throttled_share.min(1.0)),
            mean("allowed_cpu_time", allowed),
            mean("wanted_cpus", wanted),
            count("throttled_periods", throttled),
            count("cpus", u64::from(cpus)),
        ],
        ..Finding::new(Kind::CpuQuota, Cure::RaiseQuota, weigh::record_again())
    });
    finding.into_iter().collect()
}
