//! A run as CSV: one row per sample, units in the column names, safe to open in a spreadsheet.
//!
//! Columns, in this order and only ever added to at the end of their group: where the sample belongs, every factor, how
//! the run went, the raw sample, the metrics, the worker process, the machine meanwhile, then the figures that only
//! some workloads have (`extra_` and their name, in alphabetical order). docs/export.md describes each.

use holdup_bench::sample::{Failure, Sample};
use holdup_bench::spec::FACTORS;
use serde::Serialize;
use serde_json::Value;

use super::figures;
use crate::metric::METRICS;
use crate::results::{CellRecord, RunRecord, SampleRecord, fields};
use crate::stats;

/// The run as RFC 4180 text with a header line.
pub fn run(run: &RunRecord) -> String {
    let columns = columns(run);
    let mut out = String::new();
    write_row(&mut out, columns.iter().flat_map(|columns| &columns.names).map(|name| text(name)));
    for cell in &run.cells {
        for record in &cell.samples {
            let row = Row { run, cell, record };
            write_row(&mut out, columns.iter().flat_map(|columns| (columns.values)(&row)));
        }
    }
    out
}

/// The names of the columns of this run, in order.
pub fn header(run: &RunRecord) -> Vec<String> {
    columns(run).into_iter().flat_map(|columns| columns.names).collect()
}

/// What a column reads from.
struct Row<'a> {
    run: &'a RunRecord,
    cell: &'a CellRecord,
    record: &'a SampleRecord,
}

/// Columns that come from one thing: their names, and as many values.
struct Columns {
    names: Vec<String>,
    values: Box<Values>,
}

type Values = dyn Fn(&Row) -> Vec<String>;

fn column(name: &str, value: impl Fn(&Row) -> String + 'static) -> Columns {
    Columns { names: vec![name.to_owned()], values: Box::new(move |row| vec![value(row)]) }
}

/// A column that is empty where the run has no sample.
fn of_sample(name: &str, value: impl Fn(&Sample) -> Option<f64> + 'static) -> Columns {
    column(name, move |row| sample(row).and_then(&value).map_or_else(String::new, number))
}

/// A column for each figure of a result, empty where there is no result.
fn all_of<T: Serialize + Default + 'static>(prefix: &str, of: for<'a> fn(&Row<'a>) -> Option<&'a T>) -> Columns {
    let names: Vec<String> = numbers(&T::default()).map(|(name, _)| format!("{prefix}{name}")).collect();
    let none = vec![String::new(); names.len()];
    let values = move |row: &Row| {
        of(row).map_or_else(|| none.clone(), |result| numbers(result).map(|(_, number)| number).collect())
    };
    Columns { names, values: Box::new(values) }
}

/// The figures of a result by their names, in order: its fields that are numbers, and the sum of all threads'
/// operations.
fn numbers(result: &impl Serialize) -> impl Iterator<Item = (String, String)> {
    fields(result).into_iter().filter_map(|(name, value)| match (&*name, value) {
        ("thread_ops", Value::Array(ops)) => {
            Some(("ops".to_owned(), ops.iter().filter_map(Value::as_u64).sum::<u64>().to_string()))
        }
        ("latency" | "counters", _) | (_, Value::Array(_) | Value::Object(_)) => None,
        (_, value) => {
            let real = || value.as_f64().map_or_else(String::new, number);
            Some((name, value.as_u64().map_or_else(real, |count| count.to_string())))
        }
    })
}

fn columns(run: &RunRecord) -> Vec<Columns> {
    let mut columns = vec![
        column("run", |row| row.run.id.to_string()),
        column("started_unix_s", |row| row.run.started_unix_s.to_string()),
        column("sweep", |row| text(&row.cell.sweep)),
    ];
    columns.extend(FACTORS.iter().map(|factor| column(factor.name, |row| text(&factor.get(&row.cell.spec)))));
    columns.extend([
        column("repeat", |row| row.record.repeat.to_string()),
        column("block", |row| row.record.block.to_string()),
        column("order", |row| row.record.order.to_string()),
        column("rejected", |row| u8::from(row.record.rejected).to_string()),
        column("counted", |row| u8::from(row.cell.counts(row.record)).to_string()),
        column("failure_kind", |row| failure(row).map_or_else(String::new, |f| f.kind.to_string())),
        column("failure_detail", |row| failure(row).map_or_else(String::new, |f| text(&f.detail))),
        all_of("", sample),
    ]);
    columns.extend(spread("thread_ops", |s| &s.thread_ops));
    columns.extend(spread("thread_finish_ns", |s| &s.thread_finish_ns));
    columns.push(all_of("latency_", |row| sample(row)?.latency.as_ref()));
    columns.push(all_of("counter_", |row| sample(row)?.counters.as_ref()));
    columns.extend(
        METRICS
            .iter()
            .filter(|metric| !RAW_METRICS.contains(&metric.name))
            .map(|metric| of_sample(metric.name, |sample| metric.of(sample))),
    );
    columns.extend([
        column("time_ratio_to_baseline", |row| ratio(row).map_or_else(String::new, number)),
        all_of("process_", |row| Some(&row.record.process)),
        all_of("", |row| Some(&row.record.contamination)),
    ]);
    columns.extend(extra_names(run).into_iter().map(|name| {
        let header = format!("extra_{name}");
        of_sample(&header, move |sample| sample.extra.iter().find(|(n, _)| *n == name).map(|(_, value)| *value))
    }));
    columns
}

/// Metrics that are raw columns already.
const RAW_METRICS: &[&str] = &["latency_p50_ns", "latency_p99_ns", "latency_max_ns"];

/// Least, median and most of a figure that each thread has.
fn spread(name: &str, values: fn(&Sample) -> &Vec<u64>) -> [Columns; 3] {
    let median = move |sample: &Sample| {
        let values: Vec<f64> = values(sample).iter().map(|value| *value as f64).collect();
        stats::median(&values)
    };
    // The unit stays last.
    let named = |what: &str| match name.strip_suffix("_ns") {
        Some(bare) => format!("{bare}_{what}_ns"),
        None => format!("{name}_{what}"),
    };
    [
        of_sample(&named("min"), move |s| values(s).iter().min().map(|value| *value as f64)),
        of_sample(&named("median"), median),
        of_sample(&named("max"), move |s| values(s).iter().max().map(|value| *value as f64)),
    ]
}

fn extra_names(run: &RunRecord) -> Vec<String> {
    let samples = run.cells.iter().flat_map(|cell| &cell.samples).filter_map(|record| record.outcome.as_ref().ok());
    let mut names: Vec<String> = samples.flat_map(|sample| &sample.extra).map(|(name, _)| name.clone()).collect();
    names.sort();
    names.dedup();
    names
}

fn sample<'a>(row: &Row<'a>) -> Option<&'a Sample> {
    row.record.outcome.as_ref().ok()
}

fn failure<'a>(row: &Row<'a>) -> Option<&'a Failure> {
    row.record.outcome.as_ref().err()
}

/// The sample's time over that of the baseline's run beside it.
fn ratio(row: &Row) -> Option<f64> {
    if !row.cell.counts(row.record) {
        return None;
    }
    let alone =
        CellRecord { samples: vec![row.record.clone()], sweep: row.cell.sweep.clone(), spec: row.cell.spec.clone() };
    let baseline = figures::baseline_of(row.run, row.cell)?;
    stats::paired_ratios(&alone, baseline, figures::time()).first().copied()
}

/// A number in full, so that it reads back as the same number.
fn number(value: f64) -> String {
    if value.is_finite() { format!("{value}") } else { String::new() }
}

/// Text that a spreadsheet takes as text: what it would take for a formula gets an apostrophe in front.
pub(super) fn text(value: &str) -> String {
    let risky = ['=', '+', '-', '@', '\t', '\r', '\n', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
    if value.starts_with(risky) { format!("'{value}") } else { value.to_owned() }
}

/// A row as RFC 4180 wants it: quoted where it must be, quotes doubled, CR LF at the end.
pub(super) fn write_row(out: &mut String, fields: impl Iterator<Item = String>) {
    for (i, field) in fields.enumerate() {
        if i > 0 {
            out.push(',');
        }
        if field.contains([',', '"', '\r', '\n']) {
            out.push('"');
            out.push_str(&field.replace('"', "\"\""));
            out.push('"');
        } else {
            out.push_str(&field);
        }
    }
    out.push_str("\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::specimen;

    /// Reads RFC 4180 back.
    fn parse(text: &str) -> Vec<Vec<String>> {
        let (mut rows, mut row, mut field, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match (quoted, c) {
                (true, '"') if chars.peek() == Some(&'"') => field.push(chars.next().unwrap()),
                (true, '"') => quoted = false,
                (true, c) => field.push(c),
                (false, '"') => quoted = true,
                (false, ',') => row.push(std::mem::take(&mut field)),
                (false, '\r') => assert_eq!(chars.next(), Some('\n')),
                (false, c) => field.push(c),
            }
            if !quoted && c == '\r' {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
        }
        rows
    }

    #[test]
    fn every_row_has_every_column_and_names_are_unique() {
        for record in [specimen::full(), specimen::deep(), specimen::single(), specimen::hostile()] {
            let rows = parse(&run(&record));
            let samples: usize = record.cells.iter().map(|cell| cell.samples.len()).sum();
            assert_eq!(rows.len(), samples + 1);
            assert!(rows.iter().all(|row| row.len() == rows[0].len()));
            let mut names = rows[0].clone();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), rows[0].len());
        }
    }

    #[test]
    fn figures_are_the_samples_own() {
        let record = specimen::deep();
        let rows = parse(&run(&record));
        let at = |name: &str| rows[0].iter().position(|column| column == name).unwrap();
        let sample = record.cells[0].samples[0].outcome.as_ref().unwrap();
        assert_eq!(rows[1][at("elapsed_ns")], sample.elapsed_ns.to_string());
        assert_eq!(rows[1][at("jain")].parse(), Ok(sample.jain()));
        assert_eq!(rows[1][at("extra_round_trips_per_s")], "1234.5");
        assert_eq!(rows[1][at("latency_p99_ns")], sample.latency.as_ref().unwrap().p99_ns.to_string());
        for metric in METRICS {
            let value = rows[1][at(metric.name)].parse::<f64>().ok();
            assert_eq!(value, metric.of(sample), "{}", metric.name);
        }
    }

    #[test]
    fn no_cell_is_a_formula_and_failures_keep_their_text() {
        let rows = parse(&run(&specimen::hostile()));
        for field in rows.iter().skip(1).flatten() {
            assert!(!field.starts_with(['=', '+', '@', '-']), "{field}");
        }
        let detail = rows[0].iter().position(|column| column == "failure_detail").unwrap();
        assert!(rows.last().unwrap()[detail].starts_with("signal 11\r\n"));
    }
}
