//! A run as a table for the terminal: headline, one block of rows per sweep, then what went wrong.

use std::fmt::Write as _;

use holdup_bench::sample::FailureKind;
use holdup_bench::spec::Spec;

use super::figures::{self, Difference};
use super::{Ink, Style, headline, number};
use crate::results::{CellRecord, RunRecord};
use crate::stats::{self, Estimate};
use crate::text;

/// A longer name does not stand in a heading.
const LONGEST_BASELINE: usize = 16;

/// The loop without a lock: a bound, no contender.
const NO_LOCK: &str = "none";

/// Cells named one by one in a note; more are counted.
const MOST_NAMED: usize = 6;

/// Headline, table, and what went wrong, within the style's width.
pub fn run(run: &RunRecord, style: &Style) -> String {
    let mut out = String::new();
    let sweeps = figures::sweeps(run);
    if sweeps.is_empty() {
        out.push_str("The run has no cells.\n");
    }
    for (index, name) in sweeps.iter().enumerate() {
        if index > 0 {
            out.push('\n');
        }
        let cells: Vec<&CellRecord> = run.sweep(name).collect();
        if !name.is_empty() {
            let title = text::wrap(&text::clean(name), style.width, 0);
            let _ = writeln!(out, "{}", style.paint(Ink::Bold, &title));
        }
        sweep(&mut out, run, &cells, style);
    }
    legend(&mut out, run, style);
    notes(&mut out, run, style);
    out
}

fn sweep(out: &mut String, run: &RunRecord, cells: &[&CellRecord], style: &Style) {
    let headline = text::wrap(&headline::of_sweep(run, cells), style.width, 0);
    for line in headline.lines() {
        let _ = writeln!(out, "{}", style.paint(Ink::Bold, line));
    }
    let _ = writeln!(out, "{}\n", text::wrap(&context(run, cells), style.width, 0));
    let measured = |cell: &&CellRecord| cell.counted().next().is_some();
    if cells.iter().any(measured) {
        let shown: Vec<&CellRecord> =
            cells.iter().copied().filter(|cell| measured(cell) || has_failed(cell)).collect();
        body(out, run, cells, &shown, style);
    }
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
        .map(|(name, value)| figures::describe(name, &text::clean(value)))
        .collect();
    let amount = constant.iter().find_map(|(name, value)| match *name {
        "iterations" => Some(format!(" of {value} operations per thread")),
        "duration" => Some(format!(" of {value}")),
        _ => None,
    });
    let amount = amount.or_else(|| default_amount(cells)).unwrap_or_default();
    let all = if words.is_empty() { String::new() } else { format!("{}; ", words.join(", ")) };
    let machine =
        run.cpus().map(|cpus| format!(", on {}", number::counted(cpus as usize, "CPU"))).unwrap_or_default();
    format!("All cells: {all}{}{amount} per cell{machine}.", number::counted(repeats(run, cells), "run"))
}

/// Runs per cell of these cells: the sweeps of an experiment may differ. Before anything was measured, what was asked for.
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

/// A text and its colour.
type Inked = (String, Option<Ink>);

/// A column of figures.
struct Column {
    /// Two lines of heading.
    head: [String; 2],
    cell: Box<dyn Fn(&CellRecord) -> Inked>,
    /// Left-aligned, as words and intervals are.
    left: bool,
}

fn column(head: [&str; 2], cell: impl Fn(&CellRecord) -> String + 'static) -> Column {
    Column { head: head.map(str::to_owned), cell: Box::new(move |record| (cell(record), None)), left: false }
}

/// A column with a metric's median.
fn median(head: [&str; 2], metric: &'static str, format: fn(f64) -> String) -> Column {
    column(head, move |cell| {
        stats::of_cell(cell, figures::named(metric))
            .map_or_else(|| "-".to_owned(), |estimate| format(estimate.median))
    })
}

/// A sweep's rows as texts, for the page: the same cells and columns as on the terminal.
pub(crate) struct Grid {
    /// Names of the varied factors.
    pub factors: Vec<&'static str>,
    /// Headings of the figures.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<GridRow>,
}

/// One cell of a sweep in a [`Grid`].
pub(crate) struct GridRow {
    /// The factors' values.
    pub values: Vec<String>,
    /// The figures, or why there are none.
    pub figures: Result<Vec<Inked>, String>,
    /// `!` where every run was disturbed, `x` where some failed.
    pub mark: &'static str,
}

/// The rows of these cells with all figures that the terminal shows.
pub(crate) fn grid(run: &RunRecord, cells: &[&CellRecord]) -> Grid {
    let shown: Vec<&CellRecord> =
        cells.iter().copied().filter(|cell| cell.counted().next().is_some() || has_failed(cell)).collect();
    let mut factors = figures::varied(cells);
    if factors.is_empty() {
        factors.push("lock");
    }
    let mut columns = columns(run, &shown);
    if has_latency(&shown) {
        columns.extend(latency_columns("time to acquire"));
    }
    let table = Table::new(&factors, &shown, &columns);
    let head = columns.iter().map(|column| {
        let words = column.head.each_ref().map(|line| line.trim());
        words.join(" ").trim().replace(" below", ", below")
    });
    let head = head.collect();
    let figures = table.cells.into_iter().zip(table.instead).map(|(figures, instead)| match instead {
        Some(why) => Err(why),
        None => Ok(figures.into_iter().map(|(text, ink)| (text.trim().to_owned(), ink)).collect()),
    });
    let rows = table.values.into_iter().zip(figures).zip(table.marks);
    let rows = rows.map(|((values, figures), mark)| GridRow { values, figures, mark: mark.trim() }).collect();
    Grid { factors, head, rows }
}

fn has_latency(cells: &[&CellRecord]) -> bool {
    cells.iter().any(|cell| cell.spec.latency)
}

/// The columns of figures that fit these cells.
fn columns(run: &RunRecord, cells: &[&CellRecord]) -> Vec<Column> {
    let mut columns = vec![median(["", "ops/s"], "ops_per_s", number::scaled)];
    if let Some(baseline) = &run.baseline
        && cells.iter().any(|cell| figures::time_ratio(run, cell).is_some())
    {
        columns.push(ratio_column(run, baseline, cells));
    } else {
        columns.push(interval_column(cells));
    }
    columns.push(median(["user", "per op"], "user_per_op_ns", number::time_ns));
    columns.push(median(["kernel", "per op"], "kernel_per_op_ns", number::time_ns));
    columns.push(median(["switches", "per op"], "switches_per_op", number::rate));
    if cells.iter().any(|cell| cell.spec.threads > 1) {
        columns.push(median(["", "Jain"], "jain", |jain| format!("{jain:.2}")));
    }
    columns
}

fn ratio_column(run: &RunRecord, baseline: &str, cells: &[&CellRecord]) -> Column {
    // The ratios are worked out here, so that the closure borrows nothing.
    let ratios: Vec<(Spec, Option<Estimate>)> =
        cells.iter().map(|cell| (cell.spec.clone(), figures::time_ratio(run, cell))).collect();
    let digits =
        ratios.iter().filter_map(|(_, ratio)| Some(number::ratio((*ratio)?.median).len())).max().unwrap_or(4);
    let name = text::clean(baseline);
    let own = baseline.to_owned();
    Column {
        head: [format!("  time vs {name}"), "  below 1 = faster".to_owned()],
        cell: Box::new(move |cell| {
            if cell.spec.lock == own {
                return (format!("  {} baseline", text::right("1", digits)), Some(Ink::Faint));
            }
            let found = ratios.iter().find(|(spec, _)| *spec == cell.spec).and_then(|(_, ratio)| *ratio);
            let Some(ratio) = found else { return ("  - no pair".to_owned(), None) };
            let (mark, ink) = match Difference::of(&ratio) {
                Difference::Below | Difference::Above if cell.spec.lock == NO_LOCK => (" ", Ink::Faint),
                Difference::NotShown => ("=", Ink::Faint),
                Difference::TooFew => ("?", Ink::Faint),
                Difference::Below => (" ", Ink::Good),
                Difference::Above => (" ", Ink::Bad),
            };
            let pad = digits - number::ratio(ratio.median).len().min(digits);
            (format!("{mark} {}{}", " ".repeat(pad), number::ratio_interval(&ratio)), Some(ink))
        }),
        left: true,
    }
}

/// The baseline's name where it fits a heading; the legend says it in full.
fn short_baseline(name: &str) -> &str {
    if text::columns(name) <= LONGEST_BASELINE { name } else { "baseline" }
}

/// Time per operation with its interval, where there is nothing to compare with.
fn interval_column(cells: &[&CellRecord]) -> Column {
    let metric = figures::time();
    let sure = cells.iter().any(|cell| cell.counted().nth(1).is_some());
    let longest = cells
        .iter()
        .filter_map(|cell| stats::of_cell(cell, metric))
        .map(|estimate| number::time_ns(estimate.median).len())
        .max()
        .unwrap_or(0);
    Column {
        head: [
            "time per op".to_owned(),
            if sure { "[95% interval]".to_owned() } else { "(one run)".to_owned() },
        ],
        cell: Box::new(move |cell| match stats::of_cell(cell, metric) {
            None => ("-".to_owned(), None),
            Some(estimate) => {
                let pad = longest - number::time_ns(estimate.median).len().min(longest);
                (format!("{}{}", " ".repeat(pad), number::metric_interval(metric, &estimate)), None)
            }
        }),
        left: true,
    }
}

/// The rows: varied factors, then figures.
fn body(out: &mut String, run: &RunRecord, all: &[&CellRecord], shown: &[&CellRecord], style: &Style) {
    let mut factors = figures::varied(all);
    if factors.is_empty() {
        factors.push("lock");
    }
    let figures = columns(run, shown);
    let mut table = Table::new(&factors, shown, &figures);
    // Factors that do not fit beside the figures become headings, slowest first.
    let mut headings = 0;
    while headings + 1 < factors.len()
        && (table.width(headings) > style.width || factors.len() - headings > 2)
    {
        headings += 1;
    }
    table.fit_names(headings, style.width);
    table.write(out, headings, style);
    if has_latency(shown) {
        latency(out, &factors, shown, style);
    }
}

/// Percentiles of the time to acquire, in a table of their own.
fn latency(out: &mut String, factors: &[&'static str], shown: &[&CellRecord], style: &Style) {
    let columns = latency_columns("");
    let _ = writeln!(out, "\n{}", style.paint(Ink::Bold, "Time to acquire"));
    let mut table = Table::new(factors, shown, &columns);
    let headings = factors.len().saturating_sub(2);
    table.fit_names(headings, style.width);
    table.write(out, headings, style);
}

/// The columns of [`latency`], with a word before the percentiles where nothing else says what they are of.
fn latency_columns(what: &str) -> Vec<Column> {
    vec![
        median([what, "p50"], "latency_p50_ns", number::time_ns),
        median([what, "p99"], "latency_p99_ns", number::time_ns),
        median([what, "max"], "latency_max_ns", number::time_ns),
        column(["timed one", "in"], |cell| {
            of_latency(cell, |l| l.sampled_every as f64, |n| format!("{n:.0}"))
        }),
        column(["timing cost", "of CPU time"], |cell| of_latency(cell, |l| l.cost_share, number::percent)),
    ]
}

fn of_latency(
    cell: &CellRecord,
    read: impl Fn(&holdup_bench::sample::Latency) -> f64,
    format: fn(f64) -> String,
) -> String {
    let values: Vec<f64> =
        cell.counted().filter_map(|(_, sample)| sample.latency.as_ref().map(&read)).collect();
    stats::median(&values).map_or_else(|| "-".to_owned(), format)
}

/// Rows laid out in columns.
struct Table<'a> {
    factors: &'a [&'static str],
    /// Per row the factors' values.
    values: Vec<Vec<String>>,
    /// Per row the figures with their colour.
    cells: Vec<Vec<Inked>>,
    /// What stands in place of a row's figures where it has none.
    instead: Vec<Option<String>>,
    /// Rows with something to explain below the table.
    marks: Vec<&'static str>,
    figures: &'a [Column],
    /// Width of each factor's column.
    factor_widths: Vec<usize>,
    widths: Vec<usize>,
}

impl<'a> Table<'a> {
    fn new(factors: &'a [&'static str], rows: &[&CellRecord], figures: &'a [Column]) -> Self {
        let values: Vec<Vec<String>> = rows
            .iter()
            .map(|cell| factors.iter().map(|f| text::clean(&figures::value(&cell.spec, f))).collect())
            .collect();
        let cells: Vec<Vec<Inked>> =
            rows.iter().map(|cell| figures.iter().map(|column| (column.cell)(cell)).collect()).collect();
        let widest = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or(0);
        let factor_widths = (0..factors.len())
            .map(|i| widest(&mut values.iter().map(|v| text::columns(&v[i])).chain([factors[i].len()])))
            .collect();
        let widths = (0..figures.len())
            .map(|i| {
                let head = figures[i].head.iter().map(|line| text::columns(line));
                widest(&mut cells.iter().map(|row| text::columns(&row[i].0)).chain(head))
            })
            .collect();
        let mark = |cell: &&CellRecord| match () {
            () if cell.only_rejected() => " !",
            () if has_failed(cell) => " x",
            () => "",
        };
        let instead = |cell: &&CellRecord| {
            let without = cell.counted().next().is_none();
            let why = cell.failure().filter(|_| without)?;
            Some(format!("failed: {}", failure_word(why.kind)))
        };
        let instead: Vec<Option<String>> = rows.iter().map(instead).collect();
        let marks = rows.iter().map(mark).collect();
        Table { factors, values, cells, instead, marks, figures, factor_widths, widths }
    }

    /// Width of a row when the first factors are headings.
    fn width(&self, headings: usize) -> usize {
        let columns = self.factor_widths[headings..].iter().chain(&self.widths);
        let mark = self.marks.iter().map(|mark| mark.len()).max().unwrap_or(0);
        columns.map(|width| width + 2).sum::<usize>() + mark - 2
    }

    /// Narrows the last factor's column; names that do not fit stand on a line of their own.
    fn fit_names(&mut self, headings: usize, width: usize) {
        let over = self.width(headings).saturating_sub(width);
        if let (Some(last), Some(name)) = (self.factor_widths.last_mut(), self.factors.last()) {
            *last = last.saturating_sub(over).max(name.len());
        }
    }

    fn write(&self, out: &mut String, headings: usize, style: &Style) {
        self.head(out, headings, style);
        let mut before: Option<&[String]> = None;
        for (row, values) in self.values.iter().enumerate() {
            let new_heading = before.is_none_or(|before| before[..headings] != values[..headings]);
            if headings > 0 && new_heading {
                let words: Vec<String> = self.factors[..headings]
                    .iter()
                    .zip(values)
                    .map(|(factor, value)| figures::describe(factor, value))
                    .collect();
                let gap = if before.is_some() { "\n" } else { "" };
                let _ = writeln!(
                    out,
                    "{gap}{}",
                    style.paint(Ink::Bold, &text::wrap(&words.join(", "), style.width, 0))
                );
            }
            let last = self.factors.len() - 1;
            let same = |upto: usize| before.is_some_and(|before| before[..upto] == values[..upto]);
            if headings < last && !new_heading && !same(last) {
                out.push('\n');
            }
            self.row(out, row, headings, &same, style);
            before = Some(values);
        }
    }

    fn head(&self, out: &mut String, headings: usize, style: &Style) {
        for line in 0..2 {
            let mut text_line = String::new();
            for (i, factor) in self.factors.iter().enumerate().skip(headings) {
                let name = if line == 1 { *factor } else { "" };
                text_line.push_str(&self.align_factor(i, name));
                text_line.push_str("  ");
            }
            for (column, width) in self.figures.iter().zip(&self.widths) {
                let head = &column.head[line];
                let head = if column.left { text::left(head, *width) } else { text::right(head, *width) };
                text_line.push_str(&head);
                text_line.push_str("  ");
            }
            if !text_line.trim().is_empty() {
                let _ = writeln!(out, "{}", style.paint(Ink::Faint, text_line.trim_end()));
            }
        }
    }

    fn align_factor(&self, factor: usize, value: &str) -> String {
        let numbers = self.values.iter().all(|values| figures::place(&values[factor]).is_some());
        match numbers {
            true => text::right(value, self.factor_widths[factor]),
            false => text::left(value, self.factor_widths[factor]),
        }
    }

    fn row(
        &self,
        out: &mut String,
        row: usize,
        headings: usize,
        same: &dyn Fn(usize) -> bool,
        style: &Style,
    ) {
        let mut line = String::new();
        let values = &self.values[row];
        let last = values.len() - 1;
        for (i, value) in values.iter().enumerate().skip(headings) {
            let shown = if i < last && same(i + 1) { "" } else { value.as_str() };
            line.push_str(&self.align_factor(i, shown));
            if text::columns(shown) > self.factor_widths[i] {
                // The name has the line to itself; the figures stand below it, in their columns.
                out.push_str(line.trim_end());
                out.push('\n');
                let indent: usize = self.factor_widths[headings..=i].iter().map(|w| w + 2).sum::<usize>() - 2;
                line = " ".repeat(indent);
            }
            line.push_str("  ");
        }
        if let Some(instead) = &self.instead[row] {
            let _ = writeln!(out, "{line}{}", style.paint(Ink::Bad, instead));
            return;
        }
        for (i, (figure, ink)) in self.cells[row].iter().enumerate() {
            let left = self.figures[i].left;
            let aligned =
                if left { text::left(figure, self.widths[i]) } else { text::right(figure, self.widths[i]) };
            line.push_str(&ink.map_or_else(|| aligned.clone(), |ink| style.paint(ink, &aligned)));
            line.push_str("  ");
        }
        let mut line = line.trim_end().to_owned();
        line.push_str(self.marks[row]);
        out.push_str(&line);
        out.push('\n');
    }
}

fn legend(out: &mut String, run: &RunRecord, style: &Style) {
    for (i, sentence) in explained(run).into_iter().enumerate() {
        let gap = if i == 0 { "\n" } else { "" };
        let _ = writeln!(out, "{gap}{}", text::wrap(&sentence, style.width, 2));
    }
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
    let counted = shown().flat_map(|cell| cell.counted()).any(|(_, sample)| sample.switches().is_some());
    words.push(match counted {
        true => "switches: context switches per operation".to_owned(),
        false => "switches: n/a, this system does not count context switches".to_owned(),
    });
    if shown().any(|cell| cell.spec.threads > 1) {
        words.push(
            "Jain: 1 = all threads did the same number of operations, 1/threads = one did all".to_owned(),
        );
    }
    words
}

/// Failures, what this machine cannot do, disturbed runs and warnings.
fn notes(out: &mut String, run: &RunRecord, style: &Style) {
    let mut section = |title: &str, ink: Option<Ink>, lines: Vec<String>| {
        if lines.is_empty() {
            return;
        }
        let title = ink.map_or_else(|| title.to_owned(), |ink| style.paint(ink, title));
        let _ = writeln!(out, "\n{title}");
        for line in lines {
            let _ = writeln!(out, "  {}", text::wrap(&line, style.width.saturating_sub(2), 4));
        }
    };
    section("Failed", Some(Ink::Bad), failed(run));
    section("Not possible on this machine", None, unsupported(run));
    section("Read with care", None, doubts(run));
    let warnings =
        run.warnings.iter().map(|(code, why)| format!("{}: {}", text::clean(code), text::clean(why)));
    section("Warnings", None, warnings.collect());
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
pub fn failed(run: &RunRecord) -> Vec<String> {
    let failing = run.cells.iter().filter(|cell| !cell.unsupported());
    failing
        .filter_map(|cell| {
            let failure = cell.failure()?;
            let count = cell.samples.iter().filter(|sample| sample.outcome.is_err()).count();
            Some(format!(
                "{}: {} in {count} of {}: {}",
                text::clean(&figures::name_of(run, cell)),
                failure_word(failure.kind),
                number::counted(cell.samples.len(), "run"),
                text::clean(&failure.detail)
            ))
        })
        .collect()
}

/// Cells that this machine cannot measure, those with the same reason together.
pub fn unsupported(run: &RunRecord) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<String>)> = Vec::new();
    for cell in run.cells.iter().filter(|cell| cell.unsupported()) {
        let Some(failure) = cell.failure() else { continue };
        let everywhere =
            run.cells.iter().filter(|other| other.spec.lock == cell.spec.lock).all(CellRecord::unsupported);
        let name = if everywhere { cell.spec.lock.clone() } else { figures::name_of(run, cell) };
        let (name, reason) = (text::clean(&name), text::clean(&failure.detail));
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, names)) if names.contains(&name) => {}
            Some((_, names)) => names.push(name),
            None => reasons.push((reason, vec![name])),
        }
    }
    reasons.into_iter().map(|(reason, names)| format!("{}: {reason}", some(&names))).collect()
}

/// Whatever makes the figures weaker than they look.
pub fn doubts(run: &RunRecord) -> Vec<String> {
    let mut doubts = Vec::new();
    if !run.complete {
        doubts.push(
            "The run is not complete: it was stopped before every planned run was measured.".to_owned(),
        );
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
        cells.map(|cell| text::clean(&figures::name_of(run, cell))).collect()
    };
    let disturbed = names(&mut run.cells.iter().filter(|cell| cell.only_rejected()));
    if disturbed.len() == run.cells.len() && !disturbed.is_empty() {
        doubts
            .push("! every run of every cell was disturbed; the figures are shown all the same.".to_owned());
    } else if !disturbed.is_empty() {
        doubts.push(format!(
            "! every run was disturbed; the figures are shown all the same: {}.",
            some(&disturbed)
        ));
    }
    let few = names(&mut run.cells.iter().filter(|cell| {
        let n = cell.counted().count();
        n > 0 && n < run.repeats as usize
    }));
    if !few.is_empty() {
        doubts.push(format!(
            "Fewer than {} count for: {}.",
            number::counted(run.repeats as usize, "run"),
            some(&few)
        ));
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
