//! Runs as CSV for Apache Otava, which looks for changes in a history: a row per run, a column per figure of a cell.
//! Otava takes no empty cells, so that only cells that all runs measured have columns.

use super::{csv, figures};
use crate::results::{CellRecord, RunRecord};
use crate::stats;

/// The table, oldest run first, and how many cells have no columns.
pub fn runs(runs: &[RunRecord]) -> (String, usize) {
    let mut runs: Vec<&RunRecord> = runs.iter().collect();
    runs.sort_by_key(|run| (run.started_unix_s, run.id));
    let cells = runs.last().map(|run| run.cells.as_slice()).unwrap_or_default();
    let mut columns: Vec<Column<'_>> = Vec::new();
    let mut left_out = 0;
    for (cell, run) in cells.iter().zip(std::iter::repeat(runs.last())) {
        let name = run.map(|run| column_name(&figures::name_of(run, cell))).unwrap_or_default();
        let all = [("time_per_op_ns", time as Figure), ("time_ratio", ratio as Figure)];
        let known = all.map(|(figure, of)| Column { name: format!("{name}_{figure}"), cell, of });
        let before = columns.len();
        columns.extend(known.into_iter().filter(|column| runs.iter().all(|run| column.value(run).is_some())));
        left_out += usize::from(columns.len() == before);
    }
    let fact = |run: &RunRecord, name: &str| {
        let found = run.environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    };
    let mut out = String::new();
    let header = ["time", "run", "holdup", "cpu", "kernel"].into_iter().map(str::to_owned);
    csv::write_row(&mut out, header.chain(columns.iter().map(|column| column.name.clone())));
    for run in &runs {
        let about = [time_of(run), run.id.to_string(), fact(run, "holdup"), fact(run, "cpu"), fact(run, "kernel")];
        let values = columns.iter().map(|column| column.value(run).map(|value| value.to_string()).unwrap_or_default());
        csv::write_row(&mut out, about.into_iter().map(|text| csv::text(&text)).chain(values));
    }
    (out, left_out)
}

type Figure = fn(&RunRecord, &CellRecord) -> Option<f64>;

/// A figure of a cell.
struct Column<'a> {
    name: String,
    cell: &'a CellRecord,
    of: Figure,
}

impl Column<'_> {
    fn value(&self, run: &RunRecord) -> Option<f64> {
        let twin = run.cells.iter().find(|other| other.sweep == self.cell.sweep && other.spec == self.cell.spec)?;
        (self.of)(run, twin).filter(|value| value.is_finite())
    }
}

fn time(_: &RunRecord, cell: &CellRecord) -> Option<f64> {
    stats::of_cell(cell, figures::time()).map(|of| of.median)
}

fn ratio(run: &RunRecord, cell: &CellRecord) -> Option<f64> {
    figures::time_ratio(run, cell).map(|of| of.median)
}

/// `2026-11-21 05:50:12 +0000`
fn time_of(run: &RunRecord) -> String {
    super::number::utc(run.started_unix_s).replace(" UTC", " +0000")
}

/// A name that stands in a configuration without quotes: `loop_std_8_threads`.
fn column_name(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut plain: String = name.chars().map(plain).collect();
    while plain.contains("__") {
        plain = plain.replace("__", "_");
    }
    plain.trim_matches('_').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::specimen::Specimen;

    fn run(id: i64, started_unix_s: i64, more: bool) -> RunRecord {
        let mut of = Specimen::new(Some("pthread"), 5);
        of.cell("pthread", 2, 100.0, &[]);
        of.cell("std", 2, 50.0, &[]);
        if more {
            of.cell("std", 4, 50.0, &[]);
        }
        RunRecord { id, started_unix_s, ..of.run().clone() }
    }

    #[test]
    fn a_row_is_a_run_and_no_cell_is_empty() {
        let (text, left_out) = runs(&[run(2, 1_767_340_800, true), run(1, 1_767_254_400, false)]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("time,run,holdup,cpu,kernel,"), "{text}");
        assert!(lines[0].contains("std") && lines[0].ends_with("_time_ratio"), "{text}");
        assert!(lines[1].starts_with("2026-01-01 08:00:00 +0000,1,"), "the oldest first: {text}");
        let cells: Vec<usize> =
            lines.iter().map(|line| line.split(',').filter(|cell| !cell.is_empty()).count()).collect();
        assert_eq!(cells, [cells[0]; 3], "{text}");
        assert_eq!(left_out, 1);
    }

    #[test]
    fn names_of_columns_need_no_quotes() {
        assert_eq!(column_name("loop: std, 8 threads, hold 1us"), "loop_std_8_threads_hold_1us");
        assert_eq!(runs(&[]).0, "time,run,holdup,cpu,kernel\r\n");
    }
}
