//! A plot as data: axes, lines and points with their intervals; the terminal and the page draw it.

use super::{figures, number};
use crate::metric::Metric;
use crate::plot::Plot;
use crate::results::{CellRecord, RunRecord};
use crate::stats::{self, Estimate};
use crate::text;

/// A logarithmic axis pays from this ratio of the largest to the smallest value on.
const LOG_FROM: f64 = 20.0;

/// A logarithmic y axis spans at most this.
const MOST_SPREAD: f64 = 1e5;

/// Everything that a drawing needs.
#[derive(Clone, Debug)]
pub struct Drawing<'a> {
    /// Title, as the plot gives it.
    pub title: String,
    /// Label of the x axis: the factor, with its unit.
    pub x_label: String,
    /// Label of the y axis: the figure, with its unit and what is better.
    pub y_label: String,
    /// The x axis.
    pub x: Axis,
    /// The y axis; it covers the intervals.
    pub y: Axis,
    /// The lines, in the order of the cells.
    pub lines: Vec<Line<'a>>,
    /// How a y value is written.
    pub quantity: Quantity,
}

/// One line.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    /// Name for the legend.
    pub name: String,
    /// Dashed, as the plot asks.
    pub dashed: bool,
    /// The points, by x.
    pub points: Vec<Point<'a>>,
}

/// One point: a cell's median and interval.
#[derive(Clone, Debug)]
pub struct Point<'a> {
    /// Where it stands along x.
    pub x: f64,
    /// The factor's value as text.
    pub x_text: String,
    /// The figure.
    pub estimate: Estimate,
    /// The cell behind it.
    pub cell: &'a CellRecord,
}

/// An axis from one value to another.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// Value at the start.
    pub low: f64,
    /// Value at the end.
    pub high: f64,
    /// Logarithmic.
    pub log: bool,
    /// Values with a label.
    pub ticks: Vec<(f64, String)>,
}

/// What y values are.
#[derive(Clone, Copy, Debug)]
pub enum Quantity {
    /// A metric in its own unit.
    Metric(&'static Metric),
    /// A metric's paired ratio to the baseline.
    Ratio,
}

impl Quantity {
    /// The value with its unit.
    pub fn text(self, value: f64) -> String {
        match self {
            Quantity::Metric(metric) => number::of_metric(metric, value),
            Quantity::Ratio => number::ratio(value),
        }
    }

    /// The value as an axis shows it.
    fn tick(self, value: f64) -> String {
        let text = match self {
            Quantity::Metric(metric) if metric.unit == "CPUs" => number::plain(value),
            other => other.text(value),
        };
        // Ticks are round, but their sums are not: 3 times 2e-5 has sixteen digits.
        if text.starts_with('<') { format!("{value:.1e}").replace(".0e", "e") } else { short(&text) }
    }

    /// Median and interval.
    pub fn interval(self, estimate: &Estimate) -> String {
        match self {
            Quantity::Metric(metric) => number::metric_interval(metric, estimate),
            Quantity::Ratio => number::ratio_interval(estimate),
        }
    }
}

impl Axis {
    /// Where the value stands, from 0 at the start to 1 at the end. On a logarithmic axis what is not positive stands
    /// at the start.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high, value) = match self.log {
            true => (self.low.ln(), self.high.ln(), value.max(self.low).ln()),
            false => (self.low, self.high, value),
        };
        if high > low { ((value - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }
}

/// Reads a plot off a run.
///
/// # Errors
/// One sentence that says why there is nothing to draw.
pub fn draw<'a>(run: &'a RunRecord, plot: &Plot) -> Result<Drawing<'a>, String> {
    let metric = Metric::named(&plot.y).ok_or_else(|| format!("There is no metric '{}'.", text::clean(&plot.y)))?;
    let cells: Vec<&CellRecord> = run
        .cells
        .iter()
        .filter(|cell| cell.sweep == plot.sweep)
        .filter(|cell| plot.only.iter().all(|(factor, value)| figures::value(&cell.spec, factor) == *value))
        .collect();
    let Some(first) = cells.first() else {
        return Err("No cell of the run belongs to this chart.".to_owned());
    };
    if first.spec.get(&plot.x).is_err() {
        return Err(format!("There is no factor '{}'.", text::clean(&plot.x)));
    }
    let xs = positions(&cells, &plot.x);
    let factors = line_factors(&cells, plot);
    let read = |cell: &CellRecord| match plot.ratio_to_baseline {
        false => stats::of_cell(cell, metric),
        true if figures::is_baseline(run, cell) => None,
        true => stats::paired_ratio(cell, figures::baseline_of(run, cell)?, metric),
    };
    let mut lines: Vec<Line> = Vec::new();
    for group in figures::groups(&cells, &factors) {
        let mut points: Vec<Point> = group
            .cells
            .iter()
            .filter_map(|cell| {
                let x_text = figures::value(&cell.spec, &plot.x);
                let x = xs.of(&x_text)?;
                Some(Point { x, x_text: text::clean(&x_text), estimate: read(cell)?, cell })
            })
            .collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            let name = line_name(&factors, &group.values, first);
            let dashed = group
                .cells
                .iter()
                .any(|cell| plot.dashed.iter().any(|(factor, value)| figures::value(&cell.spec, factor) == *value));
            lines.push(Line { name, dashed, points });
        }
    }
    if lines.is_empty() {
        return Err("No cell of this chart has the figure that it draws.".to_owned());
    }
    let quantity = if plot.ratio_to_baseline { Quantity::Ratio } else { Quantity::Metric(metric) };
    Ok(Drawing {
        title: text::clean(&plot.title),
        x_label: x_label(&plot.x, &xs),
        y_label: y_label(run, plot, metric),
        x: x_axis(plot, &xs),
        y: y_axis(plot, &lines, quantity),
        lines,
        quantity,
    })
}

/// The values of a factor along an axis: to scale where all of them are numbers, else one after the other.
struct Positions {
    /// Value as text and place, by place.
    places: Vec<(String, f64)>,
    to_scale: bool,
    unit: &'static str,
}

impl Positions {
    /// Whether amounts are spelt so long (`uniform:0units..100units`) that the axis shows their means instead.
    fn wordy(&self) -> bool {
        const LONG: usize = 10;
        self.to_scale && !self.unit.is_empty() && self.places.iter().any(|(text, _)| text.len() > LONG)
    }

    fn of(&self, value: &str) -> Option<f64> {
        self.places.iter().find(|(text, _)| text == value).map(|(_, place)| *place)
    }
}

fn positions(cells: &[&CellRecord], factor: &str) -> Positions {
    let mut texts: Vec<String> = Vec::new();
    for cell in cells {
        let value = figures::value(&cell.spec, factor);
        if !texts.contains(&value) {
            texts.push(value);
        }
    }
    let numbers: Option<Vec<f64>> = texts.iter().map(|text| figures::place(text)).collect();
    // A zero fits every unit.
    let mut units: Vec<&str> =
        texts.iter().filter(|text| *text != "0").map(|text| figures::unit_of_place(text)).collect();
    units.dedup();
    match numbers {
        Some(numbers) if units.len() <= 1 => {
            let mut places: Vec<(String, f64)> = texts.into_iter().zip(numbers).collect();
            places.sort_by(|a, b| a.1.total_cmp(&b.1));
            Positions { places, to_scale: true, unit: units.first().copied().unwrap_or("") }
        }
        _ => {
            let places = texts.into_iter().enumerate().map(|(i, text)| (text, i as f64)).collect();
            Positions { places, to_scale: false, unit: "" }
        }
    }
}

/// The plot's series, and every other factor that varies: cells of one line differ in x alone.
fn line_factors<'a>(cells: &[&CellRecord], plot: &'a Plot) -> Vec<&'a str> {
    let mut factors: Vec<&str> = plot.series.iter().map(String::as_str).collect();
    for factor in figures::varied(cells) {
        if factor != plot.x && !factors.contains(&factor) {
            factors.push(factor);
        }
    }
    factors
}

fn line_name(factors: &[&str], values: &[String], first: &CellRecord) -> String {
    let words: Vec<String> = factors
        .iter()
        .zip(values)
        .map(|(factor, value)| match *factor {
            "lock" | "table" | "counter" | "workload" => text::clean(value),
            "background" | "pin" | "boost" if value == "on" => (*factor).to_owned(),
            "background" | "pin" | "boost" => format!("no {factor}"),
            factor => figures::describe(factor, &text::clean(value)),
        })
        .collect();
    if words.is_empty() { text::clean(&first.spec.lock) } else { words.join(", ") }
}

fn x_label(factor: &str, xs: &Positions) -> String {
    let unit = if xs.unit == "units" { "units of work" } else { xs.unit };
    match (xs.wordy(), unit) {
        (true, _) => format!("{factor}, mean in {unit}"),
        (false, "units of work") => format!("{factor} ({unit})"),
        (false, _) => factor.to_owned(),
    }
}

fn y_label(run: &RunRecord, plot: &Plot, metric: &Metric) -> String {
    let better = match metric.higher_is_better {
        Some(true) => ", higher is better",
        Some(false) => ", lower is better",
        None => "",
    };
    let name = label_of(metric);
    match (&run.baseline, plot.ratio_to_baseline) {
        (Some(baseline), true) => {
            let better = better.replace("higher", "above 1").replace("lower", "below 1");
            format!("{name}, ratio to {}{better}", text::clean(baseline))
        }
        _ => format!("{name}{better}"),
    }
}

/// A metric's name as words.
pub fn label_of(metric: &Metric) -> String {
    match metric.name {
        "ops_per_s" => "operations per second".to_owned(),
        "time_per_op_ns" => "time per operation".to_owned(),
        "user_per_op_ns" => "user time per operation".to_owned(),
        "kernel_per_op_ns" => "kernel time per operation".to_owned(),
        "switches_per_op" => "context switches per operation".to_owned(),
        "switches_per_s" => "context switches per second".to_owned(),
        "jain" => "Jain's fairness index".to_owned(),
        "cpus_used" => "CPUs used".to_owned(),
        name => {
            let bare = ["_ns", "_ms"].iter().find_map(|unit| name.strip_suffix(unit)).unwrap_or(name);
            bare.replace("_per_", " per ").replace('_', " ")
        }
    }
}

fn x_axis(plot: &Plot, xs: &Positions) -> Axis {
    let values: Vec<f64> = xs.places.iter().map(|(_, place)| *place).collect();
    let (low, high) = ends(values.iter().copied());
    let positive = low > 0.0;
    let log = xs.to_scale && positive && high > low && (plot.log_x || high / low > LOG_FROM || doubling(&values));
    let label = |text: &str, place: f64| match xs.wordy() {
        true => short(&number::scaled(place)),
        false => text::clean(text),
    };
    let ticks = xs.places.iter().map(|(text, place)| (*place, label(text, *place))).collect();
    Axis { low, high, log, ticks }
}

/// Whether each value is the same multiple of the one before, as in 1, 2, 4, 8.
fn doubling(values: &[f64]) -> bool {
    let steps: Vec<f64> = values.windows(2).map(|pair| pair[1] / pair[0]).collect();
    steps.len() >= 2 && steps.iter().all(|step| *step > 1.5 && (step / steps[0] - 1.0).abs() < 0.01)
}

fn y_axis(plot: &Plot, lines: &[Line], quantity: Quantity) -> Axis {
    let estimates = || lines.iter().flat_map(|line| &line.points).map(|point| point.estimate);
    let medians = ends(estimates().map(|e| e.median));
    let (low, high) = ends(estimates().flat_map(|e| [e.low, e.median, e.high]));
    let positive = ends(estimates().map(|e| e.median).filter(|value| *value > 0.0));
    let least = ends(estimates().flat_map(|e| [e.low, e.median]).filter(|value| *value > 0.0)).0;
    if positive.0.is_finite() && (plot.log_y || positive.1 / positive.0 > LOG_FROM) {
        // A single wild run must not squeeze the lines: intervals are cut a decade beyond the medians.
        let (least, high) = (least.max(positive.0 / 10.0), high.min(positive.1 * 10.0));
        // What is zero has no place on a logarithmic axis, and what is tiny would leave no room for the rest; both
        // stand on the floor, which is labelled so.
        let tiny = positive.1 / MOST_SPREAD;
        return match () {
            () if positive.0 < tiny => log_axis(tiny, high, Some("less"), quantity),
            () if medians.0 <= 0.0 => log_axis(least / 10.0, high, Some("0"), quantity),
            () => log_axis(least, high, None, quantity),
        };
    }
    // Likewise: at twice the largest median.
    let high = if medians.1 > 0.0 { high.min(medians.1 * 2.0) } else { high };
    linear_axis(low.min(0.0), high, quantity)
}

/// An axis from zero (or below) with three to six round steps.
fn linear_axis(low: f64, high: f64, quantity: Quantity) -> Axis {
    let span = if high > low { high - low } else { 1.0 };
    let raw = span / 4.0;
    let power = 10f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= raw * 0.999)
        .unwrap_or(10.0 * power);
    let (from, to) = ((low / step).floor() as i64, ((low + span) / step - 1e-9).ceil() as i64);
    let ticks = (from..=to).map(|i| i as f64 * step).map(|value| (value, quantity.tick(value))).collect();
    Axis { low: from as f64 * step, high: to as f64 * step, log: false, ticks }
}

/// A logarithmic axis with a tick per decade, or at 1, 2 and 5 where there are few.
fn log_axis(low: f64, high: f64, floor: Option<&str>, quantity: Quantity) -> Axis {
    let (low, high) = if low == high { (low / 2.0, high * 2.0) } else { (low / 1.1, high * 1.1) };
    let decades = (high / low).log10();
    let factors: &[f64] = if decades < 3.0 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let mut ticks = Vec::new();
    if let Some(label) = floor {
        ticks.push((low, label.to_owned()));
    }
    for power in low.log10().floor() as i32..=high.log10().ceil() as i32 {
        for factor in factors {
            let value = factor * 10f64.powi(power);
            let clear = floor.is_none() || value > low * 3.0;
            if value >= low && value <= high && clear {
                ticks.push((value, quantity.tick(value)));
            }
        }
    }
    Axis { low, high, log: true, ticks }
}

/// A tick's label without zeros that say nothing: `20.0M` is `20M`.
fn short(label: &str) -> String {
    let digits = label.find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '-')).unwrap_or(label.len());
    let (number, unit) = label.split_at(digits);
    match number.contains('.') {
        true => format!("{}{unit}", number.trim_end_matches('0').trim_end_matches('.')),
        false => label.to_owned(),
    }
}

/// Smallest and largest.
fn ends(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_has_round_steps_and_reaches_the_largest_value() {
        let axis = linear_axis(0.0, 47.0, Quantity::Ratio);
        assert_eq!((axis.low, axis.high), (0.0, 60.0));
        assert_eq!(axis.ticks.iter().map(|(value, _)| *value).collect::<Vec<_>>(), [0.0, 20.0, 40.0, 60.0]);
        assert_eq!((axis.place(0.0), axis.place(30.0), axis.place(60.0)), (0.0, 0.5, 1.0));
    }

    #[test]
    fn tiny_ticks_have_short_labels() {
        let switches = crate::metric::Metric::named("switches_per_op").expect("it is in the table");
        let axis = linear_axis(0.0, 5e-5, Quantity::Metric(switches));
        assert!(axis.ticks.iter().all(|(_, label)| label.len() <= 6), "{:?}", axis.ticks);
    }

    #[test]
    fn a_logarithmic_axis_has_a_floor_for_zero() {
        let axis = log_axis(0.1, 1000.0, Some("0"), Quantity::Ratio);
        assert_eq!(axis.ticks[0].1, "0");
        assert_eq!(axis.place(0.0), 0.0);
        assert!((axis.place(10.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn labels_lose_zeros_that_say_nothing() {
        assert_eq!(short("20.0M/s"), "20M/s");
        assert_eq!(short("200"), "200");
        assert_eq!(short("0.50"), "0.5");
        assert_eq!(short("<0.01ns"), "<0.01ns");
    }
}
