//! Runs of several machines: how each lock does beside the baseline of the same machine, and what holds on all of them.
//! Times of different machines are never set beside each other.

use holdup_bench::spec::{FACTORS, Spec};

use super::document::{Column, Document, Ink, Table, Text, ink};
use super::figures::{self, Difference};
use super::number;
use crate::results::RunRecord;
use crate::stats::{self, Estimate};
use crate::text;

/// Machines that have a column of their own; of more, only what holds across them is shown.
const MOST_COLUMNS: usize = 3;

/// Locks beside the baseline, by machine.
#[derive(Clone, Debug, PartialEq)]
pub struct ByMachine {
    /// The machines, with how many runs each has.
    pub machines: Vec<(String, usize)>,
    /// Cells that have a baseline beside them on at least one machine.
    pub rows: Vec<Row>,
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its sweep.
    pub sweep: String,
    /// The cell.
    pub spec: Spec,
    /// Its time over the baseline's, by machine; `None` where that was not measured.
    pub ratios: Vec<Option<Estimate>>,
}

impl Row {
    /// The geometric mean over the machines, and the least and most of them.
    pub fn across(&self) -> Option<Estimate> {
        let medians: Vec<f64> =
            self.ratios.iter().flatten().map(|ratio| ratio.median).filter(|ratio| *ratio > 0.0).collect();
        let (low, high) = (medians.iter().copied().reduce(f64::min)?, medians.iter().copied().reduce(f64::max)?);
        let median = (medians.iter().map(|ratio| ratio.ln()).sum::<f64>() / medians.len() as f64).exp();
        Some(Estimate { median, low, high, n: medians.len() })
    }

    /// On how many machines it is faster, slower, and neither as far as can be told.
    pub fn verdicts(&self) -> [usize; 3] {
        let count = |wanted: &[Difference]| {
            self.ratios.iter().flatten().filter(|ratio| wanted.contains(&Difference::of(ratio))).count()
        };
        [count(&[Difference::Below]), count(&[Difference::Above]), count(&[Difference::NotShown, Difference::TooFew])]
    }
}

/// Gathers the runs by machine. Within one, the ratios of neighbouring samples are taken, of all its runs together.
pub fn compare(runs: &[RunRecord]) -> ByMachine {
    let mut machines: Vec<(String, Vec<&RunRecord>)> = Vec::new();
    for run in runs {
        let machine = machine(run);
        match machines.iter_mut().find(|(known, _)| *known == machine) {
            Some((_, of)) => of.push(run),
            None => machines.push((machine, vec![run])),
        }
    }
    let mut rows: Vec<Row> = Vec::new();
    let all = runs.iter().flat_map(|run| &run.cells);
    for cell in all {
        if rows.iter().any(|row| row.sweep == cell.sweep && row.spec == cell.spec) {
            continue;
        }
        let ratios: Vec<Option<Estimate>> = machines
            .iter()
            .map(|(_, runs)| {
                let of_run = |run: &&RunRecord| {
                    let twin = run.cells.iter().find(|other| other.sweep == cell.sweep && other.spec == cell.spec)?;
                    Some(stats::paired_ratios(twin, figures::baseline_of(run, twin)?, figures::time()))
                };
                stats::estimate(&runs.iter().filter_map(of_run).flatten().collect::<Vec<f64>>())
            })
            .collect();
        if ratios.iter().any(Option::is_some) {
            rows.push(Row { sweep: cell.sweep.clone(), spec: cell.spec.clone(), ratios });
        }
    }
    ByMachine { machines: machines.into_iter().map(|(name, runs)| (name, runs.len())).collect(), rows }
}

/// What a machine is known by: the model of its CPU, and how many of them a run could use.
fn machine(run: &RunRecord) -> String {
    let cpu = run.environment.iter().find(|(name, _)| name == "cpu").map(|(_, value)| text::clean(value));
    let cpu = cpu.unwrap_or_else(|| "a machine that is not known".to_owned());
    match run.cpus() {
        Some(cpus) => format!("{cpu}, {}", number::counted(cpus as usize, "CPU")),
        None => cpu,
    }
}

/// The comparison for people.
pub fn view(of: &ByMachine) -> Document {
    let mut view = Document::default();
    view.headline(headline(of));
    view.paragraph(
        "Time per operation over the baseline's beside it on the same machine; below 1 = faster than the baseline. Across \
         machines: the geometric mean, and the least and most of them.",
    );
    if !of.rows.is_empty() {
        view.gap();
        view.table(table(of));
    }
    let runs = |(number, (name, runs)): (usize, &(String, usize))| {
        format!("{}: {name}, {}", letter(number), number::counted(*runs, "run"))
    };
    if !of.machines.is_empty() {
        view.section("Machines".to_owned(), of.machines.iter().enumerate().map(runs));
    }
    view
}

fn headline(of: &ByMachine) -> String {
    let machines = number::counted(of.machines.len(), "machine");
    if of.rows.is_empty() {
        return format!("No lock was measured beside a baseline on {machines}.");
    }
    let wins = |row: &&Row| row.verdicts()[0] == of.machines.len();
    let split = of.rows.iter().filter(|row| row.verdicts()[0] > 0 && row.verdicts()[1] > 0).count();
    let best = of.rows.iter().filter(wins).filter_map(|row| Some((row, row.across()?)));
    let best = best.min_by(|(_, a), (_, b)| a.median.total_cmp(&b.median));
    let found = match best {
        Some((row, across)) => format!(
            "{} is faster than the baseline on all of {machines}, {} of its time",
            cell_name(of, row),
            number::ratio(across.median)
        ),
        None => format!("Nothing is faster than the baseline on all of {machines}"),
    };
    match split {
        0 => format!("{found}."),
        split => {
            format!("{found}; {} on one machine and slower on another.", number::counted(split, "cell") + " faster")
        }
    }
}

fn table(of: &ByMachine) -> Table {
    let own_columns = if of.machines.len() <= MOST_COLUMNS { of.machines.len() } else { 0 };
    let mut columns = vec![Column::left("cell").wrapped()];
    columns.extend((0..own_columns).map(|number| Column::fixed(&letter(number))));
    columns.extend([
        Column::fixed("across"),
        Column::fixed("faster"),
        Column::fixed("slower"),
        Column::fixed("neither"),
    ]);
    let mut table = Table::new(columns);
    for row in &of.rows {
        let mut cells = vec![Text::from(cell_name(of, row))];
        let told = |ratio: &Option<Estimate>| ratio.as_ref().map_or_else(|| "-".to_owned(), number::ratio_interval);
        cells.extend(row.ratios.iter().take(own_columns).map(|ratio| Text::from(told(ratio))));
        let [faster, slower, neither] = row.verdicts();
        let colour = match (faster, slower) {
            (0, 0) => Ink::Faint,
            (_, 0) => Ink::Good,
            (0, _) => Ink::Bad,
            _ => Ink::Bold,
        };
        cells.push(ink(colour, told(&row.across())));
        cells.extend([faster, slower, neither].map(|count| Text::from(count.to_string())));
        table.row(cells);
    }
    table
}

/// Machines are A, B and so on in the table, for their names are long.
fn letter(number: usize) -> String {
    match u8::try_from(number) {
        Ok(number) if number < 26 => char::from(b'A' + number).to_string(),
        _ => format!("M{}", number + 1),
    }
}

/// What tells a cell from the others.
fn cell_name(of: &ByMachine, row: &Row) -> String {
    let varied = FACTORS.iter().filter(|factor| {
        factor.name == "lock" || of.rows.iter().any(|other| factor.get(&other.spec) != factor.get(&of.rows[0].spec))
    });
    let words: Vec<String> = varied
        .map(|factor| match factor.name {
            "lock" => text::clean(&row.spec.lock),
            name => figures::describe(name, &text::clean(&factor.get(&row.spec))),
        })
        .collect();
    let place = if row.sweep.is_empty() { String::new() } else { format!("{}: ", text::clean(&row.sweep)) };
    format!("{place}{}", words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Style;
    use crate::report::specimen::Specimen;

    /// A run on a machine where `std` takes so many times the baseline's 100 ns, or a tenth of all that.
    fn run(cpu: &str, ratio: f64, speed: f64) -> RunRecord {
        let mut run = Specimen::new(Some("pthread"), 5);
        run.cell("pthread", 2, 100.0 * speed, &[]);
        run.cell("std", 2, 100.0 * speed * ratio, &[]);
        for (name, value) in &mut run.run().environment {
            if name == "cpu" {
                *value = cpu.to_owned();
            }
        }
        run.run().clone()
    }

    #[test]
    fn locks_are_compared_within_a_machine_and_ratios_across() {
        let of = compare(&[run("old", 0.5, 10.0), run("new", 0.25, 1.0), run("new", 0.25, 1.1)]);
        let machines: Vec<(bool, usize)> =
            of.machines.iter().map(|(name, runs)| (name.starts_with("old"), *runs)).collect();
        assert_eq!(machines, [(true, 1), (false, 2)]);
        assert_eq!(of.rows.len(), 1, "the baseline is compared with nothing");
        let across = of.rows[0].across().unwrap();
        assert!((across.median - (0.5_f64 * 0.25).sqrt()).abs() < 0.02, "{across:?}");
        assert!((across.low - 0.25).abs() < 0.02 && (across.high - 0.5).abs() < 0.02);
        assert_eq!(of.rows[0].verdicts(), [2, 0, 0]);
        let text = view(&of).terminal(&Style::default());
        assert!(text.starts_with("std") && text.contains("on all of 2 machines"), "{text}");
    }

    #[test]
    fn what_is_faster_here_and_slower_there_is_said() {
        let of = compare(&[run("a", 0.5, 1.0), run("b", 2.0, 1.0)]);
        assert_eq!(of.rows[0].verdicts(), [1, 1, 0]);
        let text = view(&of).terminal(&Style::default()).replace('\n', " ");
        assert!(text.contains("Nothing is faster") && text.contains("1 cell faster on one machine"), "{text}");
    }

    #[test]
    fn no_runs_and_runs_without_a_baseline_say_so() {
        assert!(view(&compare(&[])).terminal(&Style::default()).contains("No lock was measured"));
    }
}
