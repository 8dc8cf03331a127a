//! A run as a table for the terminal: headline, one block of rows per sweep, then what went wrong.

use std::fmt::Write as _;

use holdup_bench::sample::FailureKind;
use holdup_bench::spec::{Spec, Workload};

use super::document::{Column, Document, Ink, Table, Text, ink};
use super::figures::{self, Difference};
use super::{headline, number};
use crate::profile;
use crate::results::{CellRecord, RunRecord};
use crate::stats::{self, Estimate};
use crate::text;

/// A longer name does not stand in a heading.
const LONGEST_BASELINE: usize = 16;

/// The loop without a lock: a bound, no contender.
const NO_LOCK: &str = "none";

/// Cells named one by one in a note; more are counted.
const MOST_NAMED: usize = 6;

/// Headline, table, and what went wrong.
pub fn run(run: &RunRecord) -> Document {
    let mut all = Document::default();
    let sweeps = figures::sweeps(run);
    if sweeps.is_empty() {
        all.paragraph("The run has no cells.");
    }
    for (index, name) in sweeps.iter().enumerate() {
        if index > 0 {
            all.gap();
        }
        let cells: Vec<&CellRecord> = run.sweep(name).collect();
        if !name.is_empty() {
            all.headline(*name);
        }
        all.headline(headline::of_sweep(run, &cells));
        all.paragraph(context(run, &cells));
        all.gap();
        all.append(of_sweep(run, &cells));
    }
    let explained = explained(run);
    if !explained.is_empty() {
        all.gap();
        explained.into_iter().for_each(|sentence| all.hanging(2, sentence));
    }
    all.append(notes(run));
    all
}

/// Whether runs failed for another reason than that this machine cannot serve them.
fn has_failed(cell: &CellRecord) -> bool {
    cell.failure().is_some() && !cell.unsupported()
}

/// What is the same in every cell, in one sentence.
pub fn context(run: &RunRecord, cells: &[&CellRecord]) -> String {
    let constant = figures::constant(cells);
    let words: Vec<String> = constant
        .iter()
        .filter(|(name, _)| *name != "duration" && *name != "iterations")
        .map(|(name, value)| figures::describe(name, value))
        .collect();
    let amount = constant.iter().find_map(|(name, value)| match *name {
        "iterations" => Some(format!(" of {value} operations{}", of_whom(cells))),
        "duration" => Some(format!(" of {value}")),
        _ => None,
    });
    let amount = amount.or_else(|| default_amount(cells)).unwrap_or_default();
    let all = if words.is_empty() { String::new() } else { format!("{}; ", words.join(", ")) };
    let machine = run.cpus().map(|cpus| format!(", on {}", number::counted(cpus as usize, "CPU"))).unwrap_or_default();
    format!("All cells: {all}{}{amount} per cell{machine}.", number::counted(repeats(run, cells), "run"))
}

/// Whose operations the iterations are: those of each thread, or of all together.
fn of_whom(cells: &[&CellRecord]) -> &'static str {
    let shared = |cell: &CellRecord| matches!(cell.spec.workload, Workload::Db | Workload::ParallelFor);
    match cells.iter().filter(|cell| shared(cell)).count() {
        0 => " per thread",
        all if all == cells.len() => ", split over the threads",
        _ => "",
    }
}

/// Runs per cell of these cells: the sweeps of an experiment may differ. Before anything was measured, what was asked
/// for.
fn repeats(run: &RunRecord, cells: &[&CellRecord]) -> usize {
    let measured = |cell: &CellRecord| cell.samples.iter().map(|sample| sample.repeat as usize + 1).max();
    cells.iter().filter_map(|cell| measured(cell)).max().unwrap_or(run.repeats as usize)
}

/// The default length of a run, where every cell has it.
fn default_amount(cells: &[&CellRecord]) -> Option<String> {
    let default = figures::value(&Spec::default(), "duration");
    let same = cells.iter().all(|cell| figures::value(&cell.spec, "duration") == default);
    (same && default != "auto").then(|| format!(" of {default}"))
}

/// A column and what stands in it.
struct Figure {
    column: Column,
    cell: Box<dyn Fn(&CellRecord) -> Text>,
}

fn figure(head: &str, cell: impl Fn(&CellRecord) -> String + 'static) -> Figure {
    Figure { column: Column::right(head), cell: Box::new(move |record| cell(record).into()) }
}

/// A column with a metric's median.
fn median(head: &str, metric: &'static str, format: fn(f64) -> String) -> Figure {
    figure(head, move |cell| {
        stats::of_cell(cell, figures::named(metric)).map_or_else(|| "-".to_owned(), |estimate| format(estimate.median))
    })
}

/// The figures of these cells, for the terminal and the page alike; nothing where none was measured.
pub(crate) fn of_sweep(run: &RunRecord, cells: &[&CellRecord]) -> Document {
    let measured = |cell: &&CellRecord| cell.counted().next().is_some();
    let mut tables = Document::default();
    if !cells.iter().any(measured) {
        return tables;
    }
    let shown: Vec<&CellRecord> = cells.iter().copied().filter(|cell| measured(cell) || has_failed(cell)).collect();
    let mut factors = figures::varied(cells);
    if factors.is_empty() {
        factors.push("lock");
    }
    tables.table(table(&factors, &shown, columns(run, &shown)).named("All figures"));
    if shown.iter().any(|cell| is_uneven(cell)) {
        tables.heading(SPREAD);
        tables.table(table(&factors, &shown, spread()).named(SPREAD));
    }
    if shown.iter().any(|cell| cell.spec.latency) {
        tables.heading("Time to acquire");
        tables.table(table(&factors, &shown, latency()).named("Time to acquire"));
    }
    if shown.iter().any(|cell| cell.spec.workload == Workload::Rw) {
        tables.heading(SIDES);
        tables.table(table(&factors, &shown, readers_and_writers(&shown)).named(SIDES));
    }
    if shown.iter().any(|cell| cell.spec.profile) {
        tables.heading(PROFILE);
        tables.table(table(&factors, &shown, where_cpu_time_goes()).named(PROFILE));
    }
    tables
}

/// A row per cell: the varied factors, slowest first, then figures, then whether something is to be explained below.
fn table(factors: &[&'static str], shown: &[&CellRecord], figures: Vec<Figure>) -> Table {
    let keys = factors.iter().map(|factor| {
        let numbers = shown.iter().all(|cell| figures::place(&figures::value(&cell.spec, factor)).is_some());
        if numbers { Column::right(factor).key() } else { Column::left(factor).key().whole() }
    });
    let heads = figures.iter().map(|figure| figure.column.clone());
    let mut table = Table::new(keys.chain(heads).chain([Column::fixed("")])).titled(figures::describe);
    for cell in shown {
        let mut row: Vec<Text> = factors.iter().map(|factor| figures::value(&cell.spec, factor).into()).collect();
        match cell.failure().filter(|_| cell.counted().next().is_none()) {
            Some(why) => row.push(ink(Ink::Bad, format!("failed: {}", failure_word(why.kind)))),
            None => {
                row.extend(figures.iter().map(|figure| (figure.cell)(cell)));
                row.push(Text::from(match () {
                    () if cell.only_rejected() => "!",
                    () if has_failed(cell) => "x",
                    () => "",
                }));
            }
        }
        table.row(row);
    }
    table
}

/// The columns of figures that fit these cells.
fn columns(run: &RunRecord, cells: &[&CellRecord]) -> Vec<Figure> {
    let head = if figures::speed(cells) == "packets_per_s" { "packets/s" } else { "ops/s" };
    let mut columns = vec![median(head, figures::speed(cells), number::scaled)];
    if let Some(baseline) = &run.baseline
        && cells.iter().any(|cell| figures::time_ratio(run, cell).is_some())
    {
        columns.push(ratio_column(run, baseline, cells));
    } else {
        columns.push(interval_column(cells));
    }
    columns.push(median("user\nper op", "user_per_op_ns", number::time_ns));
    columns.push(median("kernel\nper op", "kernel_per_op_ns", number::time_ns));
    columns.push(median("switches\nper op", "switches_per_op", number::rate));
    if cells.iter().any(|cell| cell.spec.threads > 1) {
        columns.push(median("Jain", "jain", |jain| format!("{jain:.2}")));
    }
    columns
}

const SPREAD: &str = "How much runs and threads differ";

/// Heading of what either side of a reader-writer lock gets.
const SIDES: &str = "Readers and writers";

/// Heading of the shares of the CPU time.
const PROFILE: &str = "Where the CPU time goes";

/// From which on the slowest run against the fastest, or the busiest thread against the idlest, is worth a table.
const UNEVEN: f64 = 2.0;

fn is_uneven(cell: &CellRecord) -> bool {
    let shares = stats::of_cell(cell, figures::named("share_max_to_min")).map(|estimate| estimate.median);
    stats::run_spread(cell).into_iter().chain(shares).any(|quotient| quotient >= UNEVEN)
}

/// Columns of what a median hides: runs of one cell, and threads of one run.
fn spread() -> Vec<Figure> {
    let run = |of: fn(f64, f64) -> f64| {
        move |cell: &CellRecord| {
            let time = figures::named("time_per_op_ns");
            let times = cell.counted().filter_map(|(_, sample)| time.of(sample));
            times.reduce(of).map_or_else(|| "-".to_owned(), number::time_ns)
        }
    };
    let worst = |cell: &CellRecord| {
        let shares = figures::named("share_max_to_min");
        let worst = cell.counted().filter_map(|(_, sample)| shares.of(sample)).reduce(f64::max);
        worst.map_or_else(|| "-".to_owned(), times)
    };
    vec![
        figure("fastest run\nper op", run(f64::min)),
        figure("slowest run\nper op", run(f64::max)),
        figure("slowest /\nfastest", |cell| stats::run_spread(cell).map_or_else(|| "-".to_owned(), times)),
        median("busiest /\nidlest thread", "share_max_to_min", times),
        figure("in the most\nuneven run", worst),
    ]
}

/// A quotient of two figures of one kind, which is 1 at least.
fn times(quotient: f64) -> String {
    match quotient {
        small if small < 9.995 => format!("{small:.2}"),
        large => number::count(large.round()),
    }
}

fn ratio_column(run: &RunRecord, baseline: &str, cells: &[&CellRecord]) -> Figure {
    // The ratios are worked out here, so that the closure borrows nothing.
    let ratios: Vec<(Spec, Option<Estimate>)> =
        cells.iter().map(|cell| (cell.spec.clone(), figures::time_ratio(run, cell))).collect();
    let digits = ratios.iter().filter_map(|(_, ratio)| Some(number::ratio((*ratio)?.median).len())).max().unwrap_or(4);
    let name = text::clean(baseline);
    let own = baseline.to_owned();
    let cell = move |cell: &CellRecord| {
        if cell.spec.lock == own {
            return ink(Ink::Faint, format!("  {} baseline", text::right("1", digits)));
        }
        let found = ratios.iter().find(|(spec, _)| *spec == cell.spec).and_then(|(_, ratio)| *ratio);
        let Some(ratio) = found else { return Text::from("  - no pair") };
        let (mark, colour) = match Difference::of(&ratio) {
            Difference::Below | Difference::Above if cell.spec.lock == NO_LOCK => (" ", Ink::Faint),
            Difference::NotShown => ("=", Ink::Faint),
            Difference::TooFew => ("?", Ink::Faint),
            Difference::Below => (" ", Ink::Good),
            Difference::Above => (" ", Ink::Bad),
        };
        let pad = digits.saturating_sub(number::ratio(ratio.median).len());
        ink(colour, format!("{mark} {}{}", " ".repeat(pad), number::ratio_interval(&ratio)))
    };
    let head = format!("  time vs {}\n  below 1 = faster", short_baseline(&name));
    Figure { column: Column::fixed(&head), cell: Box::new(cell) }
}

/// The baseline's name where it fits a heading; the legend says it in full.
fn short_baseline(name: &str) -> &str {
    if text::columns(name) <= LONGEST_BASELINE { name } else { "baseline" }
}

/// Time per operation with its interval, where there is nothing to compare with.
fn interval_column(cells: &[&CellRecord]) -> Figure {
    let metric = figures::time();
    let sure = cells.iter().any(|cell| cell.counted().nth(1).is_some());
    let length = |estimate: &Estimate| number::time_ns(estimate.median).len();
    let estimates = cells.iter().filter_map(|cell| stats::of_cell(cell, metric));
    let longest = estimates.map(|estimate| length(&estimate)).max().unwrap_or(0);
    let cell = move |cell: &CellRecord| match stats::of_cell(cell, metric) {
        None => "-".into(),
        Some(estimate) => {
            let pad = " ".repeat(longest.saturating_sub(length(&estimate)));
            Text::from(pad + &number::metric_interval(metric, &estimate))
        }
    };
    let head = format!("time per op\n{}", if sure { "[95% interval]" } else { "(one run)" });
    Figure { column: Column::fixed(&head), cell: Box::new(cell) }
}

/// Percentiles of the time to acquire.
fn latency() -> Vec<Figure> {
    vec![
        median("p50", "latency_p50_ns", number::time_ns),
        median("p99", "latency_p99_ns", number::time_ns),
        median("max", "latency_max_ns", number::time_ns),
        figure("timed one\nin", |cell| of_latency(cell, |l| l.sampled_every as f64, |n| format!("{n:.0}"))),
        figure("timing cost\nof CPU time", |cell| of_latency(cell, |l| l.cost_share, number::percent)),
    ]
}

/// What either side gets, and how long it waits for it where that is timed.
fn readers_and_writers(cells: &[&CellRecord]) -> Vec<Figure> {
    let mut columns =
        vec![median("reads/s", "reads_per_s", number::scaled), median("writes/s", "writes_per_s", number::scaled)];
    if cells.iter().any(|cell| cell.spec.latency) {
        columns.extend([
            median("reader waits\np50", "read_wait_p50_ns", number::time_ns),
            median("p99", "read_wait_p99_ns", number::time_ns),
            median("max", "read_wait_max_ns", number::time_ns),
            median("writer waits\np50", "write_wait_p50_ns", number::time_ns),
            median("p99", "write_wait_p99_ns", number::time_ns),
            median("max", "write_wait_max_ns", number::time_ns),
        ]);
    }
    columns
}

/// Shares of the CPU samples.
fn where_cpu_time_goes() -> Vec<Figure> {
    vec![
        median("the lock's own\nfunctions", profile::LOCK, number::percent),
        median("the kernel\nfor it", profile::KERNEL, number::percent),
    ]
}

fn of_latency(
    cell: &CellRecord,
    read: impl Fn(&holdup_bench::sample::Latency) -> f64,
    format: fn(f64) -> String,
) -> String {
    let values: Vec<f64> = cell.counted().filter_map(|(_, sample)| sample.latency.as_ref().map(&read)).collect();
    stats::median(&values).map_or_else(|| "-".to_owned(), format)
}

/// What the columns mean, one sentence each.
pub fn explained(run: &RunRecord) -> Vec<String> {
    let shown = || run.cells.iter().filter(|cell| cell.counted().next().is_some());
    if shown().next().is_none() {
        return Vec::new();
    }
    let mut words = Vec::new();
    let ratios: Vec<Estimate> = run.cells.iter().filter_map(|cell| figures::time_ratio(run, cell)).collect();
    if let (Some(baseline), false) = (&run.baseline, ratios.is_empty()) {
        let name = text::clean(baseline);
        let mut meaning =
            format!("time vs {}: median of the paired ratios of time per operation", short_baseline(&name));
        if ratios.iter().any(|ratio| ratio.n > 1) {
            meaning.push_str(" [95% interval]");
        }
        let _ = write!(meaning, "; below 1 = faster than {name}");
        let says = |difference| ratios.iter().any(|ratio| Difference::of(ratio) == difference);
        if says(Difference::NotShown) {
            meaning.push_str("; '=' no difference shown");
        }
        if says(Difference::TooFew) {
            let _ = write!(meaning, "; '?' fewer than {} runs decide nothing", figures::RUNS_TO_DECIDE);
        }
        words.push(meaning);
    }
    if shown().any(|cell| cell.spec.lock == NO_LOCK) {
        words.push("none: the same loop without a lock, which no lock can beat".to_owned());
    }
    words.push("user, kernel: CPU time of all threads per operation".to_owned());
    if shown().any(|cell| cell.spec.profile) {
        words.push(
            "the lock's own functions, the kernel for it: shares of the CPU samples, without the recorder's own; \
             recording costs time at each switch, which the other figures of these runs contain"
                .to_owned(),
        );
    }
    let counted = shown().flat_map(|cell| cell.counted()).any(|(_, sample)| sample.switches().is_some());
    words.push(match counted {
        true => "switches: context switches per operation".to_owned(),
        false => "switches: n/a, this system does not count context switches".to_owned(),
    });
    if shown().any(|cell| cell.spec.threads > 1) {
        words.push("Jain: 1 = all threads did the same number of operations, 1/threads = one did all".to_owned());
    }
    words
}

/// Failures, what this machine cannot do, disturbed runs and warnings.
pub(crate) fn notes(run: &RunRecord) -> Document {
    let warnings = run.warnings.iter().map(|(code, why)| format!("{code}: {why}"));
    let sections = [
        (ink(Ink::Bad, "Failed"), failed(run)),
        ("Not possible on this machine".into(), unsupported(run)),
        ("Read with care".into(), doubts(run)),
        ("Warnings".into(), warnings.collect()),
    ];
    let mut notes = Document::default();
    for (title, lines) in sections.into_iter().filter(|(_, lines)| !lines.is_empty()) {
        notes.section(title, lines);
    }
    notes
}

/// What a failure is called.
pub fn failure_word(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::LostUpdate => "lost an update",
        FailureKind::Hang => "hung",
        FailureKind::Crash => "crashed",
        FailureKind::Unsupported => "not supported",
    }
}

/// Cells with failed runs, one line each, with how many of the runs failed and why.
fn failed(run: &RunRecord) -> Vec<String> {
    let failing = run.cells.iter().filter(|cell| !cell.unsupported());
    failing
        .filter_map(|cell| {
            let failure = cell.failure()?;
            let count = cell.samples.iter().filter(|sample| sample.outcome.is_err()).count();
            Some(format!(
                "{}: {} in {count} of {}: {}",
                figures::name_of(run, cell),
                failure_word(failure.kind),
                number::counted(cell.samples.len(), "run"),
                failure.detail
            ))
        })
        .collect()
}

/// Cells that this machine cannot measure, those with the same reason together.
fn unsupported(run: &RunRecord) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for cell in run.cells.iter().filter(|cell| cell.unsupported()) {
        let Some(failure) = cell.failure() else { continue };
        let everywhere =
            run.cells.iter().filter(|other| other.spec.lock == cell.spec.lock).all(CellRecord::unsupported);
        let name = if everywhere { cell.spec.lock.clone() } else { figures::name_of(run, cell) };
        let reason = failure.detail.clone();
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons.into_iter().map(|(reason, names)| format!("{}: {reason}", some(&names))).collect()
}

/// Whatever makes the figures weaker than they look.
fn doubts(run: &RunRecord) -> Vec<String> {
    let mut doubts = Vec::new();
    if !run.complete {
        doubts.push("The run is not complete: it was stopped before every planned run was measured.".to_owned());
    }
    let rejected = run.rejected();
    if rejected > 0 {
        let total: usize = run.cells.iter().map(|cell| cell.samples.len()).sum();
        doubts.push(format!(
            "{rejected} of {} {} rejected because something else used the machine meanwhile.",
            number::counted(total, "run"),
            if rejected == 1 { "was" } else { "were" },
        ));
    }
    let partly = run.cells.iter().filter(|cell| has_failed(cell) && cell.counted().next().is_some()).count();
    if partly > 0 {
        doubts.push(format!(
            "x some runs of {} failed, see above; the figures come from the others.",
            number::counted(partly, "cell")
        ));
    }
    let names = |cells: &mut dyn Iterator<Item = &CellRecord>| -> Vec<String> {
        cells.map(|cell| figures::name_of(run, cell)).collect()
    };
    let disturbed = names(&mut run.cells.iter().filter(|cell| cell.only_rejected()));
    if disturbed.len() == run.cells.len() && !disturbed.is_empty() {
        doubts.push("! every run of every cell was disturbed; the figures are shown all the same.".to_owned());
    } else if !disturbed.is_empty() {
        doubts.push(format!("! every run was disturbed; the figures are shown all the same: {}.", some(&disturbed)));
    }
    let few = names(&mut run.cells.iter().filter(|cell| {
        let n = cell.counted().count();
        n > 0 && n < run.repeats as usize
    }));
    if !few.is_empty() {
        doubts.push(format!("Fewer than {} count for: {}.", number::counted(run.repeats as usize, "run"), some(&few)));
    }
    if run.baseline.is_some() && (run.repeats as usize) < figures::RUNS_FOR_INTERVAL {
        doubts.push(format!(
            "{} per cell: an interval needs {} to be a 95% one, and fewer than {} decide nothing; use --repeat.",
            number::counted(run.repeats as usize, "run"),
            figures::RUNS_FOR_INTERVAL,
            figures::RUNS_TO_DECIDE
        ));
    }
    doubts
}

/// The names, or the first of them and how many more.
fn some(names: &[String]) -> String {
    if names.len() <= MOST_NAMED {
        return names.join("; ");
    }
    format!("{}; and {} more", names[..MOST_NAMED].join("; "), names.len() - MOST_NAMED)
}
