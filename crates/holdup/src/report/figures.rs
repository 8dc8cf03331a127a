//! The figures behind every report: which cells belong together, what they are compared with, what differs.

use holdup_bench::spec::{FACTORS, Spec, Workload};
use holdup_bench::work::Work;

use crate::metric::Metric;
use crate::results::{CellRecord, RunRecord};
use crate::stats::{self, Estimate};

/// Fewer paired runs than this decide nothing: two runs lie on one side of 1 by chance every second time.
pub const RUNS_TO_DECIDE: usize = 3;

/// With at least so many runs the interval is about what it says; five runs all on one side are chance once in sixteen.
pub const RUNS_FOR_INTERVAL: usize = 5;

/// What an estimate of a ratio says about a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Difference {
    /// The whole interval lies below 1.
    Below,
    /// The whole interval lies above 1.
    Above,
    /// The interval contains 1.
    NotShown,
    /// Too few runs to say.
    TooFew,
}

impl Difference {
    /// Reads it off a ratio.
    pub fn of(ratio: &Estimate) -> Difference {
        match ratio {
            ratio if ratio.n < RUNS_TO_DECIDE => Difference::TooFew,
            ratio if ratio.high < 1.0 => Difference::Below,
            ratio if ratio.low > 1.0 => Difference::Above,
            _ => Difference::NotShown,
        }
    }
}

/// The metric that ratios compare: elapsed time per operation.
pub fn time() -> &'static Metric {
    named("time_per_op_ns")
}

/// A metric that every version has.
pub(crate) fn named(name: &'static str) -> &'static Metric {
    Metric::named(name).expect("the metric is a row of METRICS; a test walks the names used in reports")
}

/// The name of the metric by which these cells are fast or slow: packets of ping-pong, where one thread does the work
/// of two operations, and else operations.
pub fn speed(cells: &[&CellRecord]) -> &'static str {
    let packets = !cells.is_empty() && cells.iter().all(|cell| cell.spec.workload == Workload::PingPong);
    if packets { "packets_per_s" } else { "ops_per_s" }
}

/// Names of the run's sweeps, in order.
pub fn sweeps(run: &RunRecord) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for cell in &run.cells {
        if !names.contains(&cell.sweep.as_str()) {
            names.push(&cell.sweep);
        }
    }
    names
}

/// The cell that this one is compared with: same sweep, same factors, the baseline's lock. `None` for the baseline
/// itself.
pub fn baseline_of<'a>(run: &'a RunRecord, cell: &CellRecord) -> Option<&'a CellRecord> {
    let baseline = run.baseline.as_deref()?;
    if cell.spec.lock == baseline {
        return None;
    }
    run.cells.iter().find(|other| {
        other.sweep == cell.sweep && other.spec.lock == baseline && other.matches_but_for(cell, &["lock"])
    })
}

/// Whether this cell is what others are compared with.
pub fn is_baseline(run: &RunRecord, cell: &CellRecord) -> bool {
    run.baseline.as_deref() == Some(&cell.spec.lock)
}

/// The cell's time over its baseline's, paired.
pub fn time_ratio(run: &RunRecord, cell: &CellRecord) -> Option<Estimate> {
    stats::paired_ratio(cell, baseline_of(run, cell)?, time())
}

/// The factors that vary among these cells, slowest first and lock last, as they were swept.
pub fn varied(cells: &[&CellRecord]) -> Vec<&'static str> {
    let mut factors = RunRecord::varied(cells.iter().copied());
    let changes = |factor: &str| {
        cells.windows(2).filter(|pair| value(&pair[0].spec, factor) != value(&pair[1].spec, factor)).count()
    };
    factors.sort_by_key(|factor| (*factor == "lock", changes(factor)));
    factors
}

/// A factor's value in a cell; empty for a name that is no factor.
pub fn value(spec: &Spec, factor: &str) -> String {
    spec.get(factor).unwrap_or_default()
}

/// Factors that are the same in all cells and worth a word: the workload, and whatever is not the default.
pub fn constant(cells: &[&CellRecord]) -> Vec<(&'static str, String)> {
    let Some(first) = cells.first() else { return Vec::new() };
    let default = Spec::default();
    let varied = RunRecord::varied(cells.iter().copied());
    FACTORS
        .iter()
        .filter(|factor| !varied.contains(&factor.name))
        .filter(|factor| {
            let always = ["lock", "workload", "threads", "hold", "gap"].contains(&factor.name);
            always || factor.get(&first.spec) != factor.get(&default)
        })
        .map(|factor| (factor.name, factor.get(&first.spec)))
        .filter(|(name, value)| !(["iterations", "duration"].contains(name) && value == "auto"))
        .collect()
}

/// Cells that differ in nothing but their lock.
#[derive(Clone, Debug)]
pub struct Group<'a> {
    /// Values of the varied factors other than the lock, in their order.
    pub values: Vec<String>,
    /// The cells, in order.
    pub cells: Vec<&'a CellRecord>,
}

/// The cells by the values of these factors, in order of first appearance.
pub fn groups<'a>(cells: &[&'a CellRecord], factors: &[&str]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for cell in cells {
        let values: Vec<String> = factors.iter().map(|factor| value(&cell.spec, factor)).collect();
        match groups.iter_mut().find(|group| group.values == values) {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group { values, cells: vec![cell] }),
        }
    }
    groups
}

/// What tells this cell from the others of its sweep, such as `lock ticket, threads 8`; the lock alone where nothing
/// does.
pub fn name_of(run: &RunRecord, cell: &CellRecord) -> String {
    let cells: Vec<&CellRecord> = run.sweep(&cell.sweep).collect();
    let mut factors = varied(&cells);
    if !factors.contains(&"lock") {
        factors.push("lock");
    }
    factors.sort_by_key(|factor| *factor != "lock");
    let words: Vec<String> = factors
        .iter()
        .map(|factor| match *factor {
            "lock" => cell.spec.lock.clone(),
            factor => describe(factor, &value(&cell.spec, factor)),
        })
        .collect();
    let place = if cell.sweep.is_empty() { String::new() } else { format!("{}: ", cell.sweep) };
    format!("{place}{}", words.join(", "))
}

/// A factor and its value as words: `8 threads`, `hold 1us`.
pub fn describe(factor: &str, value: &str) -> String {
    match (factor, value) {
        ("threads", "1") => "1 thread".to_owned(),
        ("threads", n) => format!("{n} threads"),
        ("cpus", "1") => "1 CPU".to_owned(),
        ("cpus", n) if n.parse::<u32>().is_ok() => format!("{n} CPUs"),
        ("active", n) if n != "all" => format!("{n} active"),
        _ => format!("{factor} {value}"),
    }
}

/// A factor's value as a place on an axis: a count, or an amount of work by its mean. `None` for words.
pub fn place(value: &str) -> Option<f64> {
    if let Ok(number) = value.parse::<f64>() {
        return Some(number).filter(|number| number.is_finite());
    }
    Work::parse(value).ok().map(|work| work.mean().value())
}

/// The unit in which [`place`] puts this value.
pub fn unit_of_place(value: &str) -> &'static str {
    use holdup_bench::work::Amount;
    match (value.parse::<f64>(), Work::parse(value)) {
        (Ok(_), _) | (_, Err(_)) => "",
        (_, Ok(work)) => match work.mean() {
            Amount::Ns(_) => "ns",
            Amount::Units(_) => "units",
        },
    }
}
