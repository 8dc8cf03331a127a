//! What a reader must know before trusting the figures; each has a stable code, and is stored with the run.

use std::fmt;

use holdup_bench::spec::Take;
use holdup_bench::work::format_ns;

use crate::results::RunRecord;

/// One warning about a whole run.
#[derive(Clone, Debug, PartialEq)]
pub enum Warning {
    /// The machine stayed busy: measurements that should have been rejected had to be kept.
    Noisy {
        /// Measurements kept all the same.
        kept: usize,
        /// Measurements made.
        of: usize,
    },
    /// The baseline failed somewhere: there is nothing to compare with.
    BaselineFailed {
        /// The baseline.
        lock: String,
        /// Cells without it.
        cells: usize,
    },
    /// The work that was really done is far from what was asked for.
    WorkMissed {
        /// `hold` or `gap`.
        factor: &'static str,
        /// What was asked for.
        asked_ns: f64,
        /// What was done, on average.
        done_ns: f64,
    },
    /// Timing the acquisitions slowed the run by more than promised.
    LatencyCost {
        /// The largest share of CPU time that timing took.
        share: f64,
    },
    /// The program itself was built without optimisation.
    Unoptimised,
    /// Something plays the system that the program was built for.
    Translated {
        /// What it is.
        by: String,
    },
}

/// Calibrated work may be off by so much, as a share of what was asked for.
const WORK_TOLERANCE: f64 = 0.25;
/// Timing may take so much of the CPU time.
const LATENCY_TOLERANCE: f64 = 0.05;

impl Warning {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Warning::Noisy { .. } => "noisy-machine",
            Warning::BaselineFailed { .. } => "baseline-failed",
            Warning::WorkMissed { .. } => "work-missed",
            Warning::LatencyCost { .. } => "latency-cost",
            Warning::Unoptimised => "unoptimised-build",
            Warning::Translated { .. } => "translated",
        }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Noisy { kept, of } => write!(
                f,
                "something else used the machine all the time: {kept} of {of} runs are marked and count all the same \
                 where a cell has no clean one; stop the other work and measure again"
            ),
            Warning::BaselineFailed { lock, cells } => write!(
                f,
                "the baseline {lock} failed in {cells} {}: no ratios there; choose another one with --baseline LOCK",
                if *cells == 1 { "cell" } else { "cells" }
            ),
            Warning::WorkMissed { factor, asked_ns, done_ns } => write!(
                f,
                "--{factor} asked for {} and the threads did {} on average: read the figures with the second",
                format_ns(asked_ns.round()),
                format_ns(done_ns.round())
            ),
            Warning::LatencyCost { share } => write!(
                f,
                "timing the acquisitions took up to {:.0}% of the CPU time; without --latency the times are lower",
                share * 100.0
            ),
            Warning::Translated { by } => f.write_str(&translated(by)),
            Warning::Unoptimised => {
                write!(
                    f,
                    "this holdup was built without optimisation: its figures mean nothing; build it with --release"
                )
            }
        }
    }
}

/// The warnings that a run deserves; `optimised` is how this program was built.
pub fn of(run: &RunRecord, optimised: bool) -> Vec<Warning> {
    let mut warnings = Vec::new();
    warnings.extend((!optimised).then_some(Warning::Unoptimised));
    warnings.extend(translated_by(run).map(|by| Warning::Translated { by }));
    warnings.extend(noisy(run));
    warnings.extend(baseline_failed(run));
    warnings.extend(work_missed(run));
    warnings.extend(latency_cost(run));
    warnings
}

/// What a figure measured under a stand-in of the system is worth, in a sentence.
pub fn translated(by: &str) -> String {
    let name = by.split(' ').next().unwrap_or(by);
    format!("measured under {by}: these times are {name}'s, and say nothing about the system that it stands for")
}

fn translated_by(run: &RunRecord) -> Option<String> {
    let (_, by) = run.environment.iter().find(|(name, _)| name == "translated_by")?;
    (by != "nothing").then(|| by.clone())
}

/// A rejected measurement without a clean one of the same place in the order was kept for want of a better one.
fn noisy(run: &RunRecord) -> Option<Warning> {
    let samples = || run.cells.iter().flat_map(|cell| &cell.samples);
    let mut clean: Vec<u32> = samples().filter(|s| !s.rejected).map(|s| s.order).collect();
    clean.sort_unstable();
    let mut kept: Vec<u32> =
        samples().filter(|s| s.rejected && clean.binary_search(&s.order).is_err()).map(|s| s.order).collect();
    kept.sort_unstable();
    kept.dedup();
    let of = clean.len() + kept.len();
    (!kept.is_empty()).then_some(Warning::Noisy { kept: kept.len(), of })
}

fn baseline_failed(run: &RunRecord) -> Option<Warning> {
    let lock = run.baseline.clone()?;
    let cells = run.cells.iter().filter(|cell| cell.spec.lock == lock && cell.failure().is_some()).count();
    (cells > 0).then_some(Warning::BaselineFailed { lock, cells })
}

/// The worst miss of each kind of work.
fn work_missed(run: &RunRecord) -> Vec<Warning> {
    let mut worst: Vec<Warning> = Vec::new();
    for cell in &run.cells {
        for (_, sample) in cell.counted() {
            for (factor, asked, done_ns) in
                [("hold", cell.spec.hold, sample.hold_ns_mean), ("gap", cell.spec.gap, sample.gap_ns_mean)]
            {
                // Who tries does more outside the sections: that is the point.
                if factor == "gap" && cell.spec.take == Take::Try {
                    continue;
                }
                let asked_ns = asked.mean().units(sample.unit_ns) * sample.unit_ns;
                if asked_ns > 0.0 && (done_ns / asked_ns - 1.0).abs() > WORK_TOLERANCE {
                    keep_worst(&mut worst, Warning::WorkMissed { factor, asked_ns, done_ns });
                }
            }
        }
    }
    worst
}

fn keep_worst(worst: &mut Vec<Warning>, new: Warning) {
    let miss = |w: &Warning| match w {
        Warning::WorkMissed { asked_ns, done_ns, .. } => (done_ns / asked_ns - 1.0).abs(),
        _ => 0.0,
    };
    let same = |w: &Warning| matches!((w, &new), (Warning::WorkMissed { factor: a, .. }, Warning::WorkMissed { factor: b, .. }) if a == b);
    match worst.iter_mut().find(|w| same(w)) {
        Some(old) if miss(old) < miss(&new) => *old = new,
        Some(_) => {}
        None => worst.push(new),
    }
}

fn latency_cost(run: &RunRecord) -> Option<Warning> {
    let shares =
        run.cells.iter().flat_map(|cell| cell.counted()).filter_map(|(_, s)| Some(s.latency.as_ref()?.cost_share));
    let share = shares.fold(0.0, f64::max);
    (share > LATENCY_TOLERANCE).then_some(Warning::LatencyCost { share })
}

#[cfg(test)]
mod tests;
