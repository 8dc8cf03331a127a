//! A chart for the terminal, and which charts a sweep gets when nobody asked for others.

use std::fmt::Write as _;

use super::figures;
use super::series::{self, Axis, Drawing};
use super::{Ink, Style};
use crate::plot::Plot;
use crate::results::{CellRecord, RunRecord};
use crate::text;

/// Rows of the drawing area.
const ROWS: usize = 12;
/// Columns of the drawing area, at most.
const COLUMNS: usize = 60;
/// Combinations of further factors that get charts of their own; with more, they become lines.
const MOST_CHARTS: usize = 6;

/// Draws one plot with text; where there is nothing to draw it says why.
pub fn terminal(run: &RunRecord, plot: &Plot, style: &Style) -> String {
    let drawing = match series::draw(run, plot) {
        Ok(drawing) => drawing,
        Err(why) => {
            let words = format!("{}: no chart. {why}", text::clean(&plot.title));
            return format!("{}\n", text::wrap(&words, style.width, 2));
        }
    };
    let mut out = String::new();
    if !drawing.title.is_empty() {
        let _ = writeln!(out, "{}", style.paint(Ink::Bold, &text::wrap(&drawing.title, style.width, 0)));
    }
    let log = if drawing.y.log { ", logarithmic" } else { "" };
    let _ = writeln!(out, "{}", text::wrap(&format!("{}{log}", drawing.y_label), style.width, 2));
    area(&mut out, &drawing, style);
    legend(&mut out, &drawing, style);
    out
}

/// The letter of a line.
fn letter(line: usize) -> char {
    const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char::from(LETTERS[line % LETTERS.len()])
}

/// Several lines' points in one place.
const SEVERAL: char = '*';

/// One character of the drawing area: dots of braille, or a point's letter, with the line they belong to.
#[derive(Clone, Copy, Default)]
struct Place {
    dots: u8,
    letter: Option<char>,
    line: usize,
}

struct Canvas {
    columns: usize,
    places: Vec<Place>,
}

impl Canvas {
    fn new(columns: usize) -> Canvas {
        Canvas { columns, places: vec![Place::default(); columns * ROWS] }
    }

    /// Sets a dot; two per column, four per row, from the bottom left.
    fn dot(&mut self, x: usize, y: usize, line: usize) {
        const BITS: [[u8; 4]; 2] = [[0x40, 0x04, 0x02, 0x01], [0x80, 0x20, 0x10, 0x08]];
        let (column, row) = (x / 2, ROWS - 1 - y / 4);
        let place = &mut self.places[row * self.columns + column];
        place.dots |= BITS[x % 2][y % 4];
        place.line = line;
    }

    /// Dots from point to point; every other one is left out where the line is dashed.
    fn stroke(&mut self, from: (f64, f64), to: (f64, f64), line: usize, dashed: bool) {
        let (width, height) = ((self.columns * 2 - 1) as f64, (ROWS * 4 - 1) as f64);
        let steps = ((to.0 - from.0).abs() * width).max((to.1 - from.1).abs() * height).ceil().max(1.0) as usize;
        for step in (0..=steps).filter(|step| !dashed || step % 4 < 2) {
            let along = step as f64 / steps as f64;
            let x = (from.0 + (to.0 - from.0) * along) * width;
            let y = (from.1 + (to.1 - from.1) * along) * height;
            self.dot(x.round() as usize, y.round() as usize, line);
        }
    }

    fn mark(&mut self, at: (f64, f64), line: usize) {
        let column = (at.0 * (self.columns * 2 - 1) as f64).round() as usize / 2;
        let row = ROWS - 1 - (at.1 * (ROWS * 4 - 1) as f64).round() as usize / 4;
        let place = &mut self.places[row * self.columns + column];
        let own = letter(line);
        place.letter = Some(if place.letter.is_some_and(|other| other != own) { SEVERAL } else { own });
        place.line = line;
    }

    fn row(&self, row: usize, style: &Style) -> String {
        let mut text = String::new();
        for place in &self.places[row * self.columns..(row + 1) * self.columns] {
            let character = match place.letter {
                Some(letter) => letter,
                None if place.dots == 0 => ' ',
                None => char::from_u32(0x2800 + u32::from(place.dots)).unwrap_or('.'),
            };
            match character {
                ' ' => text.push(' '),
                SEVERAL => text.push(SEVERAL),
                other => text.push_str(&style.paint(Ink::Line(place.line), &other.to_string())),
            }
        }
        text.trim_end().to_owned()
    }
}

fn area(out: &mut String, drawing: &Drawing, style: &Style) {
    let gutter = drawing.y.ticks.iter().map(|(_, label)| text::columns(label)).max().unwrap_or(0);
    let columns = COLUMNS.min(style.width.saturating_sub(gutter + 4)).max(10);
    let mut canvas = Canvas::new(columns);
    let at = |point: &series::Point| (drawing.x.place(point.x), drawing.y.place(point.estimate.median));
    for (index, line) in drawing.lines.iter().enumerate() {
        for pair in line.points.windows(2) {
            canvas.stroke(at(&pair[0]), at(&pair[1]), index, line.dashed);
        }
    }
    for (index, line) in drawing.lines.iter().enumerate() {
        line.points.iter().for_each(|point| canvas.mark(at(point), index));
    }
    let labels = row_labels(&drawing.y);
    for (row, label) in labels.iter().enumerate() {
        let (label, axis) = match label {
            Some(label) => (label.as_str(), '┤'),
            None => ("", '│'),
        };
        let _ = writeln!(out, "{} {axis}{}", text::right(label, gutter), canvas.row(row, style));
    }
    x_ticks(out, &drawing.x, gutter, columns);
    let _ = writeln!(out, "{}{}", " ".repeat(gutter + 2), x_name(drawing));
}

fn x_name(drawing: &Drawing) -> String {
    if drawing.x.log { format!("{}, logarithmic", drawing.x_label) } else { drawing.x_label.clone() }
}

/// The label of each row, from the top; a later tick of the same row gives way.
fn row_labels(axis: &Axis) -> Vec<Option<String>> {
    let mut labels: Vec<Option<String>> = vec![None; ROWS];
    for (value, label) in &axis.ticks {
        let row = ROWS - 1 - (axis.place(*value) * (ROWS * 4 - 1) as f64).round() as usize / 4;
        labels[row].get_or_insert_with(|| label.clone());
    }
    labels
}

/// The axis line and as many labels as fit beside each other.
fn x_ticks(out: &mut String, axis: &Axis, gutter: usize, columns: usize) {
    let mut line: Vec<char> = vec!['─'; columns];
    let mut labels: Vec<char> = Vec::new();
    for (value, label) in &axis.ticks {
        let column = (axis.place(*value) * (columns * 2 - 1) as f64).round() as usize / 2;
        line[column] = '┬';
        let width = label.chars().count();
        let start = column.saturating_sub(width / 2);
        if labels.is_empty() || start > labels.len() {
            labels.resize(start, ' ');
            labels.extend(label.chars());
        }
    }
    let pad = " ".repeat(gutter + 1);
    let _ = writeln!(out, "{pad}└{}", line.into_iter().collect::<String>());
    let _ = writeln!(out, "{pad} {}", labels.into_iter().collect::<String>());
}

/// Letters and names, as many on a line as fit.
fn legend(out: &mut String, drawing: &Drawing, style: &Style) {
    let mut line = String::new();
    for (index, entry) in drawing.lines.iter().enumerate() {
        let dashed = if entry.dashed { " (dashed)" } else { "" };
        let letter = style.paint(Ink::Line(index), &letter(index).to_string());
        let words = format!("{letter} {}{dashed}", entry.name);
        if !line.is_empty() && text::columns(&line) + 3 + text::columns(&words) > style.width {
            let _ = writeln!(out, "{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push_str("   ");
        }
        line.push_str(&words);
    }
    let _ = writeln!(out, "{line}");
    if drawing.lines.len() > 1 {
        let _ = writeln!(out, "{SEVERAL} several lines in one place");
    }
}

/// Charts that fit the run: per sweep over the numeric factor with most values, one line per lock.
pub fn default_plots(run: &RunRecord) -> Vec<Plot> {
    figures::sweeps(run).into_iter().flat_map(|name| plots_of_sweep(run, name)).collect()
}

fn plots_of_sweep(run: &RunRecord, sweep: &str) -> Vec<Plot> {
    let cells: Vec<&CellRecord> = run.sweep(sweep).collect();
    let varied = figures::varied(&cells);
    let Some(x) = best_axis(&cells, &varied) else { return Vec::new() };
    let others: Vec<&str> = varied.iter().copied().filter(|factor| ![x, "lock"].contains(factor)).collect();
    let groups = figures::groups(&cells, &others);
    let locks = figures::groups(&cells, &["lock"]).len();
    let speed = figures::speed(&cells);
    if groups.len() > MOST_CHARTS {
        let plot = plot(run, sweep, x, speed, false, &[], &[]);
        return vec![Plot { series: series_of(&varied, x), ..plot }];
    }
    let mut figures = vec![(speed, false)];
    if run.baseline.is_some() && locks > 1 {
        figures.push(("time_per_op_ns", true));
    }
    if groups.len() <= 2 {
        figures.extend([("kernel_per_op_ns", false), ("switches_per_op", false)]);
        if x == "threads" {
            figures.push(("jain", false));
        }
    }
    if cells.iter().any(|cell| cell.spec.latency) {
        figures.push(("latency_p99_ns", false));
    }
    figures
        .iter()
        .flat_map(|(metric, ratio)| {
            groups.iter().map(|group| plot(run, sweep, x, metric, *ratio, &others, &group.values))
        })
        .collect()
}

fn series_of(varied: &[&str], x: &str) -> Vec<String> {
    varied.iter().filter(|factor| **factor != x).map(|factor| (*factor).to_owned()).collect()
}

/// The varied factor that is a number in every cell and takes most values; the one named first wins a tie, threads
/// above all.
fn best_axis(cells: &[&CellRecord], varied: &[&'static str]) -> Option<&'static str> {
    let values = |factor: &str| figures::groups(cells, &[factor]).len();
    let numeric = |factor: &str| cells.iter().all(|cell| figures::place(&figures::value(&cell.spec, factor)).is_some());
    let mut axes: Vec<&'static str> = varied.iter().copied().filter(|f| *f != "lock" && numeric(f)).collect();
    axes.sort_by_key(|factor| (std::cmp::Reverse(values(factor)), *factor != "threads"));
    axes.first().copied()
}

fn plot(
    run: &RunRecord,
    sweep: &str,
    x: &str,
    metric: &'static str,
    ratio: bool,
    others: &[&str],
    values: &[String],
) -> Plot {
    let only: Vec<(String, String)> =
        others.iter().map(|factor| (*factor).to_owned()).zip(values.iter().cloned()).collect();
    let place: Vec<String> = only.iter().map(|(factor, value)| figures::describe(factor, value)).collect();
    let mut title = match ratio {
        false => series::label_of(figures::named(metric)),
        true => format!("time relative to {}", run.baseline.as_deref().unwrap_or_default()),
    };
    if let Some(first) = title.get(..1).map(str::to_uppercase) {
        title.replace_range(..1, &first);
    }
    let place = if place.is_empty() { String::new() } else { format!(" ({})", place.join(", ")) };
    Plot {
        title: format!("{title} by {x}{place}"),
        sweep: sweep.to_owned(),
        x: x.to_owned(),
        y: metric.to_owned(),
        series: vec!["lock".to_owned()],
        only,
        ratio_to_baseline: ratio,
        ..Plot::default()
    }
}
