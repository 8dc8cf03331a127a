//! What to try next, from what a run has shown: each suggestion is a complete command.

use std::collections::BTreeMap;

use holdup_bench::spec::{Factor, Spec, Workload};

use crate::metric::Metric;
use crate::results::{CellRecord, RunRecord};
use crate::shell;
use crate::stats;

/// One suggestion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What was seen, and what the command would show.
    pub why: String,
    /// The command.
    pub command: String,
}

/// A cell whose lock takes this many times longer once threads outnumber CPUs has collapsed.
const COLLAPSE: f64 = 3.0;
/// Below this index one thread had far more than its share.
const UNFAIR: f64 = 0.8;
/// A lock that spends this share of its CPU time in the kernel switches threads in place of working.
const KERNEL_SHARE: f64 = 0.5;
/// A side of a reader-writer lock whose threads get less than this share of what those of the other get starves.
const STARVES: f64 = 0.05;
/// More suggestions than this nobody reads.
const MOST: usize = 3;

/// What to try next on a machine with so many CPUs, most telling first.
pub fn next(run: &RunRecord, cpus: u32) -> Vec<Advice> {
    let all = [
        failed(run),
        starved(run),
        collapsed(run, cpus),
        tight_loop(run),
        unfair(run, cpus),
        kernel(run),
        undecided(run),
    ];
    let mut advice: Vec<Advice> = all.into_iter().flatten().collect();
    advice.truncate(MOST);
    advice
}

fn failed(run: &RunRecord) -> Option<Advice> {
    let cell = run.cells.iter().find(|cell| cell.failure().is_some() && !cell.unsupported())?;
    Some(Advice {
        why: format!("{} failed with {} threads; this measures that cell alone", cell.spec.lock, cell.spec.threads),
        command: command(&cell.spec, &[("lock", &cell.spec.lock), ("threads", &cell.spec.threads.to_string())])
            + " --baseline off",
    })
}

/// The reader-writer lock that treats its sides most unevenly, where some threads only write and the others only read.
fn starved(run: &RunRecord) -> Option<Advice> {
    let (reads, writes) = (Metric::named("reads_per_s")?, Metric::named("writes_per_s")?);
    let rate = |cell: &CellRecord, metric| Some(stats::of_cell(cell, metric)?.median);
    let (share, side, cell) = run
        .cells
        .iter()
        .filter(|cell| cell.spec.lock != "none")
        .filter_map(|cell| {
            let writers = cell.spec.writers.filter(|writers| (1..cell.spec.threads).contains(writers))?;
            let of_reader = rate(cell, reads)? / f64::from(cell.spec.threads - writers);
            let of_writer = rate(cell, writes)? / f64::from(writers);
            match of_writer < of_reader {
                true => Some((of_writer / of_reader, ["writer", "reader"], cell)),
                false => Some((of_reader / of_writer, ["reader", "writer"], cell)),
            }
        })
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    let lock = &cell.spec.lock;
    let is_answered = cell.spec.latency && run.cells.iter().any(|cell| cell.spec.lock == FAIR_TO_BOTH);
    (share < STARVES && !is_answered).then(|| Advice {
        why: format!(
            "{lock} starves its {}s: one gets {} of what a {} gets; how long do they wait, and with a lock that serves both?",
            side[0],
            if share < 0.001 { "less than 0.1%".to_owned() } else { format!("{:.1}%", share * 100.0) },
            side[1],
        ),
        command: command(
            &cell.spec,
            &[("lock", &format!("{lock},{FAIR_TO_BOTH}")), ("threads", &cell.spec.threads.to_string()), ("latency", "on")],
        ),
    })
}

/// The reader-writer lock under which neither side starves.
const FAIR_TO_BOTH: &str = "rw-adaptive";

/// The lock that suffers most from more threads than CPUs.
fn collapsed(run: &RunRecord, cpus: u32) -> Option<Advice> {
    let time = Metric::named("time_per_op_ns")?;
    let median = |cell: &CellRecord| Some(stats::of_cell(cell, time)?.median);
    let (factor, cell) = run
        .cells
        .iter()
        .filter(|cell| cell.spec.threads > cpus && cell.spec.active.is_none() && cell.spec.lock != "none")
        .filter_map(|cell| {
            let roomy = run.cells.iter().filter(|other| {
                other.spec.threads <= cpus
                    && other.spec.lock == cell.spec.lock
                    && other.matches_but_for(cell, &["threads"])
            });
            let before = roomy.max_by_key(|other| other.spec.threads).and_then(median)?;
            Some((median(cell)? / before, cell))
        })
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (factor > COLLAPSE).then(|| Advice {
        why: format!(
            "{} takes {factor:.0} times as long with {} threads on {cpus} CPU{}; fewer active ones may cure it",
            cell.spec.lock,
            cell.spec.threads,
            if cpus == 1 { "" } else { "s" }
        ),
        command: command(
            &cell.spec,
            &[("lock", &cell.spec.lock), ("threads", &cell.spec.threads.to_string()), ("active", &active(cpus))],
        ) + " --gate acquire",
    })
}

fn active(cpus: u32) -> String {
    if cpus > 1 { format!("1,{cpus},all") } else { "1,all".to_owned() }
}

/// A loop that does nothing but lock rewards the thread that takes the lock again at once.
fn tight_loop(run: &RunRecord) -> Option<Advice> {
    let works = [Workload::Db, Workload::ParallelFor, Workload::PingPong, Workload::Map, Workload::Rw];
    let tight = |cell: &CellRecord| {
        cell.spec.gap.is_none() && cell.spec.active.is_none() && !works.contains(&cell.spec.workload)
    };
    let cell = run.cells.first().filter(|_| run.cells.iter().all(tight))?;
    let varied = RunRecord::varied(run.cells.iter());
    let lists: Vec<(&str, String)> =
        ["lock", "threads"].into_iter().chain(varied).map(|name| (name, values(run, name))).collect();
    let mut changes: Vec<(&str, &str)> = lists.iter().map(|(name, list)| (*name, list.as_str())).collect();
    changes.extend([("hold", "100ns"), ("gap", "500ns")]);
    Some(Advice {
        why: "only the tight loop was measured; real programs also work outside the lock".to_owned(),
        command: command(&cell.spec, &changes),
    })
}

/// Where every thread has a CPU: with more threads than that, the scheduler alone makes short runs uneven.
fn unfair(run: &RunRecord, cpus: u32) -> Option<Advice> {
    let jain = Metric::named("jain")?;
    let with_latency = |spec: &Spec| holdup_bench::check_sense(&Spec { latency: true, ..spec.clone() }).is_ok();
    let (index, cell) = run
        .cells
        .iter()
        .filter(|cell| (2..=cpus).contains(&cell.spec.threads) && cell.spec.lock != "none")
        .filter(|cell| !cell.spec.latency && cell.spec.writers.is_none() && with_latency(&cell.spec))
        .filter_map(|cell| Some((stats::of_cell(cell, jain)?.median, cell)))
        .min_by(|a, b| a.0.total_cmp(&b.0))?;
    (index < UNFAIR).then(|| Advice {
        why: format!(
            "{} served its {} threads unevenly (Jain {index:.2}); how long do the others wait?",
            cell.spec.lock, cell.spec.threads
        ),
        command: command(&cell.spec, &[("lock", &cell.spec.lock), ("threads", &cell.spec.threads.to_string())])
            + " --latency",
    })
}

fn kernel(run: &RunRecord) -> Option<Advice> {
    let share = Metric::named("kernel_share")?;
    // A lock of the kernel's own is there by design.
    let kernels_own =
        |name: &str| holdup_bench::locks::all().iter().any(|lock| lock.name == name && lock.family == "kernel");
    let (found, cell) = run
        .cells
        .iter()
        .filter(|cell| cell.spec.threads > 1 && cell.spec.lock != "none" && cell.spec.spin.is_none())
        .filter(|cell| !kernels_own(&cell.spec.lock))
        .filter_map(|cell| Some((stats::of_cell(cell, share)?.median, cell)))
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (found > KERNEL_SHARE).then(|| Advice {
        why: format!(
            "{} spent {:.0}% of its CPU time in the kernel with {} threads; does spinning before sleeping help?",
            cell.spec.lock,
            found * 100.0,
            cell.spec.threads
        ),
        command: command(
            &cell.spec,
            &[("lock", "adaptive"), ("threads", &cell.spec.threads.to_string()), ("spin", "0,100,1000,default")],
        ) + " --baseline off",
    })
}

/// Ratios whose interval contains 1 need more runs.
fn undecided(run: &RunRecord) -> Option<Advice> {
    let time = Metric::named("time_per_op_ns")?;
    let baseline = run.baseline.as_deref()?;
    let ratios: Vec<_> = run
        .cells
        .iter()
        .filter(|cell| cell.spec.lock != baseline)
        .filter_map(|cell| {
            let under =
                run.cells.iter().find(|other| other.spec.lock == baseline && other.matches_but_for(cell, &["lock"]))?;
            stats::paired_ratio(cell, under, time)
        })
        .collect();
    let open = ratios.iter().filter(|ratio| ratio.contains(1.0)).count();
    (open * 3 > ratios.len()).then(|| Advice {
        why: format!(
            "{open} of {} comparisons with {baseline} are undecided; more runs narrow the intervals",
            ratios.len()
        ),
        command: format!("{} --repeat {}", without_repeat(&run.command), run.repeats.max(5) * 3),
    })
}

fn without_repeat(command: &str) -> String {
    let mut words: Vec<&str> = command.split(' ').collect();
    if let Some(at) = words.iter().position(|word| *word == "--repeat") {
        words.drain(at..(at + 2).min(words.len()));
    }
    words.join(" ")
}

/// The values that a factor takes in this run, in the order of the cells.
fn values(run: &RunRecord, name: &str) -> String {
    let mut values: Vec<String> = Vec::new();
    for cell in &run.cells {
        let value = cell.spec.get(name).unwrap_or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values.join(",")
}

/// `holdup bench` with the cell's factors, some of them changed.
fn command(spec: &Spec, changes: &[(&str, &str)]) -> String {
    let mut factors: BTreeMap<&str, String> = spec.changed().into_iter().collect();
    factors.extend(changes.iter().map(|(name, value)| (*name, (*value).to_owned())));
    let flags = holdup_bench::spec::FACTORS.iter().filter_map(|factor| flag(factor, factors.get(factor.name)?));
    std::iter::once("holdup bench".to_owned()).chain(flags).collect::<Vec<_>>().join(" ")
}

fn flag(factor: &Factor, value: &str) -> Option<String> {
    match (value, factor.name) {
        // The other one of the two budgets is in force.
        ("auto", "duration" | "iterations") => None,
        (value, _) => Some(shell::flag(factor, value)),
    }
}

#[cfg(test)]
mod tests;
