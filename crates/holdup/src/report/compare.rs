//! Two runs side by side: the same cells, measured at different times or on different machines.

use holdup_bench::spec::{FACTORS, Spec};

use super::document::{Column, Document, Ink, Table, Text, ink};
use super::figures::{self, Difference};
use super::number;
use crate::metric::Metric;
use crate::results::{CellRecord, RunRecord};
use crate::stats::{self, Estimate};
use crate::text;

/// Two runs, cell by cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The earlier or first run: number in the store, start in seconds since 1970.
    pub before: (i64, i64),
    /// The other run.
    pub after: (i64, i64),
    /// Cells that both runs measured.
    pub rows: Vec<Row>,
    /// Cells (sweep, spec) that only the first run has figures for.
    pub only_before: Vec<(String, Spec)>,
    /// Cells that only the second run has figures for.
    pub only_after: Vec<(String, Spec)>,
    /// Facts of the environment that differ: name, first run's value, second run's.
    pub environment: Vec<(String, String, String)>,
}

/// One cell in both runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Sweep of the cell.
    pub sweep: String,
    /// The cell.
    pub spec: Spec,
    /// Time per operation in the first run, in ns.
    pub before_ns: Estimate,
    /// Time per operation in the second run, in ns.
    pub after_ns: Estimate,
    /// The second run's median time over the first one's; below 1 the second is faster.
    pub ratio: Estimate,
    /// What that says.
    pub verdict: Change,
}

/// What became of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The second run is faster.
    Faster,
    /// The second run is slower.
    Slower,
    /// The interval contains 1, or there are too few runs.
    NotShown,
}

/// How many times `over`'s median is `under`'s, for samples that have no partner: both sides are resampled on their
/// own.
pub fn unpaired_ratio(over: &CellRecord, under: &CellRecord, metric: &Metric) -> Option<Estimate> {
    let values =
        |cell: &CellRecord| -> Vec<f64> { cell.counted().filter_map(|(_, sample)| metric.of(sample)).collect() };
    stats::ratio_of_medians(&values(over), &values(under))
}

/// Compares two runs: the cells that both have, matched by sweep and every factor.
pub fn runs(before: &RunRecord, after: &RunRecord) -> Comparison {
    let rows = before.cells.iter().filter_map(|cell| Row::of(cell, twin(after, cell)?));
    Comparison {
        before: (before.id, before.started_unix_s),
        after: (after.id, after.started_unix_s),
        rows: rows.collect(),
        only_before: alone(before, after),
        only_after: alone(after, before),
        environment: environment(before, after),
    }
}

impl Row {
    /// `None` where one of the two has no figures.
    fn of(before: &CellRecord, after: &CellRecord) -> Option<Row> {
        let ratio = unpaired_ratio(after, before, figures::time())?;
        Some(Row {
            sweep: before.sweep.clone(),
            spec: before.spec.clone(),
            before_ns: stats::of_cell(before, figures::time())?,
            after_ns: stats::of_cell(after, figures::time())?,
            ratio,
            verdict: match Difference::of(&ratio) {
                Difference::Below => Change::Faster,
                Difference::Above => Change::Slower,
                Difference::NotShown | Difference::TooFew => Change::NotShown,
            },
        })
    }
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Change::Faster => "faster",
            Change::Slower => "slower",
            Change::NotShown => "no difference shown",
        })
    }
}

/// The same cell of the other run.
fn twin<'a>(run: &'a RunRecord, cell: &CellRecord) -> Option<&'a CellRecord> {
    run.cells.iter().find(|other| other.sweep == cell.sweep && other.spec == cell.spec)
}

/// Cells with figures whose twin has none.
fn alone(run: &RunRecord, other: &RunRecord) -> Vec<(String, Spec)> {
    let measured = |cell: &CellRecord| cell.counted().next().is_some();
    run.cells
        .iter()
        .filter(|cell| measured(cell) && !twin(other, cell).is_some_and(measured))
        .map(|cell| (cell.sweep.clone(), cell.spec.clone()))
        .collect()
}

/// Facts that differ, with `-` where a run does not know one.
fn environment(before: &RunRecord, after: &RunRecord) -> Vec<(String, String, String)> {
    let read = |run: &RunRecord, name: &str| {
        run.environment.iter().find(|(known, _)| known == name).map_or_else(|| "-".to_owned(), |(_, v)| v.clone())
    };
    let mut names: Vec<&String> = before.environment.iter().chain(&after.environment).map(|(name, _)| name).collect();
    let mut seen = Vec::new();
    names.retain(|name| {
        !VOLATILE.contains(&name.as_str()) && !seen.contains(name) && {
            seen.push(name);
            true
        }
    });
    names
        .into_iter()
        .map(|name| (name.clone(), read(before, name), read(after, name)))
        .filter(|(_, before, after)| before != after)
        .collect()
}

/// Facts that are never the same twice and say nothing about the machine.
const VOLATILE: &[&str] = &["load_before", "clock_ns", "clock_system_call_ns", "time_stamp_ns"];

/// The comparison for people.
pub fn view(comparison: &Comparison) -> Document {
    let mut view = Document::default();
    view.headline(headline(comparison));
    let run = |(id, when): (i64, i64)| format!("run {id} ({})", number::utc(when));
    view.paragraph(format!(
        "Time per operation in {} against {}; below 1 = the second is faster. The runs were measured at different times, so \
         drift of the machine is not taken out.",
        run(comparison.before),
        run(comparison.after)
    ));
    if !comparison.rows.is_empty() {
        view.gap();
        view.table(rows(comparison));
    }
    let environment = comparison.environment.iter();
    let environment = environment.map(|(name, before, after)| format!("{name}: {before} -> {after}"));
    let only = |run: i64| format!("Only run {run} has figures for");
    for (title, lines) in [
        ("What else is different".to_owned(), environment.collect()),
        (only(comparison.before.0), names(&comparison.only_before)),
        (only(comparison.after.0), names(&comparison.only_after)),
    ] {
        if !lines.is_empty() {
            view.section(title, lines);
        }
    }
    view
}

/// How many cells changed, and which changed most.
fn headline(comparison: &Comparison) -> String {
    let rows = &comparison.rows;
    if rows.is_empty() {
        return "The two runs have no cell in common.".to_owned();
    }
    let count = |verdict| rows.iter().filter(|row| row.verdict == verdict).count();
    let (faster, slower) = (count(Change::Faster), count(Change::Slower));
    if faster + slower == 0 {
        return format!("No difference is shown in {}.", number::counted(rows.len(), "cell"));
    }
    let most = rows
        .iter()
        .filter(|row| row.verdict != Change::NotShown)
        .max_by(|a, b| a.ratio.median.ln().abs().total_cmp(&b.ratio.median.ln().abs()));
    let most = most.map_or_else(String::new, |row| {
        format!("; most: {} at {}", number::ratio(row.ratio.median), cell_name(&row.sweep, &row.spec, rows))
    });
    format!(
        "Of {}, {faster} faster and {slower} slower in run {}{most}.",
        number::counted(rows.len(), "cell"),
        comparison.after.0
    )
}

fn rows(comparison: &Comparison) -> Table {
    let run = |id: i64| Column::right(&format!("run {id}"));
    let mut table = Table::new([
        Column::left("cell").wrapped(),
        run(comparison.before.0),
        run(comparison.after.0),
        Column::fixed("ratio"),
        Column::fixed("verdict"),
    ]);
    for row in &comparison.rows {
        let colour = match row.verdict {
            Change::Faster => Ink::Good,
            Change::Slower => Ink::Bad,
            Change::NotShown => Ink::Faint,
        };
        table.row([
            Text::from(cell_name(&row.sweep, &row.spec, &comparison.rows)),
            number::time_ns(row.before_ns.median).into(),
            number::time_ns(row.after_ns.median).into(),
            number::ratio_interval(&row.ratio).into(),
            ink(colour, row.verdict.to_string()),
        ]);
    }
    table
}

/// What tells a cell from the others that both runs have.
fn cell_name(sweep: &str, spec: &Spec, rows: &[Row]) -> String {
    let varied = FACTORS.iter().filter(|factor| {
        factor.name == "lock" || rows.iter().any(|row| factor.get(&row.spec) != factor.get(&rows[0].spec))
    });
    let words: Vec<String> = varied
        .map(|factor| match factor.name {
            "lock" => text::clean(&spec.lock),
            name => figures::describe(name, &text::clean(&factor.get(spec))),
        })
        .collect();
    let place = if sweep.is_empty() { String::new() } else { format!("{}: ", text::clean(sweep)) };
    format!("{place}{}", words.join(", "))
}

/// Cells with all that is not the default.
fn names(cells: &[(String, Spec)]) -> Vec<String> {
    cells
        .iter()
        .map(|(sweep, spec)| {
            let mut words = vec![text::clean(&spec.lock), figures::describe("threads", &spec.threads.to_string())];
            let changed = spec.changed();
            let others = changed.iter().filter(|(name, _)| !["lock", "threads"].contains(name));
            words.extend(others.map(|(name, value)| figures::describe(name, &text::clean(value))));
            let place = if sweep.is_empty() { String::new() } else { format!("{}: ", text::clean(sweep)) };
            format!("{place}{}", words.join(", "))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::specimen::{self, Specimen};

    #[test]
    fn a_run_compared_with_itself_shows_no_difference() {
        let run = specimen::full();
        let same = runs(&run, &run);
        assert!(same.rows.iter().all(|row| row.verdict == Change::NotShown && row.ratio.median == 1.0));
        assert!(same.only_before.is_empty() && same.only_after.is_empty() && same.environment.is_empty());
    }

    #[test]
    fn cells_are_matched_by_every_factor_and_the_rest_is_named() {
        let mut before = Specimen::new(Some("pthread"), 5);
        before.cell("pthread", 2, 100.0, &[]);
        before.cell("pthread", 4, 100.0, &[]);
        before.cell("std", 2, 50.0, &[("hold", "100ns")]);
        let mut after = Specimen::new(Some("pthread"), 5);
        after.cell("pthread", 4, 200.0, &[]);
        after.cell("pthread", 2, 50.0, &[]);
        after.cell("std", 2, 50.0, &[("hold", "1us")]);
        after.run().environment[4].1 = "6.19.0".to_owned();
        let comparison = runs(before.run(), after.run());
        let verdicts: Vec<(u32, Change)> = comparison.rows.iter().map(|row| (row.spec.threads, row.verdict)).collect();
        assert_eq!(verdicts, [(2, Change::Faster), (4, Change::Slower)]);
        assert_eq!(comparison.only_before.len(), 1);
        assert_eq!(comparison.only_after[0].1.get("hold").unwrap(), "1us");
        assert_eq!(comparison.environment, [("kernel".to_owned(), "6.18.0".to_owned(), "6.19.0".to_owned())]);
    }

    #[test]
    fn two_runs_each_decide_nothing() {
        let ratio = stats::ratio_of_medians(&[1.0, 1.1], &[2.0, 2.1]).unwrap();
        assert_eq!((Difference::of(&ratio), ratio.n), (Difference::TooFew, 2));
        assert_eq!(stats::ratio_of_medians(&[], &[1.0]), None);
        assert_eq!(stats::ratio_of_medians(&[1.0], &[0.0]), None);
    }

    #[test]
    fn the_interval_of_a_clear_difference_excludes_one() {
        let ratio = stats::ratio_of_medians(&[1.0, 1.1, 1.05, 0.95, 1.0], &[2.0, 2.1, 1.9, 2.05, 2.0]).unwrap();
        assert!(ratio.low > 0.4 && ratio.median == 0.5 && ratio.high < 0.6, "{ratio:?}");
        assert_eq!(Difference::of(&ratio), Difference::Below);
    }
}
