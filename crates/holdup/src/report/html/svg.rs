//! A drawing as inline SVG: interval bands, lines, markers, axes; colours come from the page's style sheet.

use std::fmt::Write as _;

use crate::report::page::escape;
use crate::report::series::{Axis, Drawing, Line, Point, Quantity};

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
const RIGHT: f64 = 16.0;
/// Width of a character of an axis label, about.
const CHARACTER: f64 = 6.8;

/// Colours of the style sheet.
pub const COLOURS: usize = 8;

/// Shapes of the markers, as paths around the origin; lines of one colour differ in theirs.
pub const MARKERS: [&str; 8] = [
    "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
    "M-3.6-3.6h7.2v7.2h-7.2z",
    "M0-5L4.6 3.6H-4.6z",
    "M0-5.2L5.2 0L0 5.2L-5.2 0z",
    "M0 5L4.6-3.6H-4.6z",
    "M-1.5-5h3v3.5h3.5v3h-3.5v3.500h-3v-3.500h-3.500v-3h3.500z",
    "M-4.500-2.500l2-2l2.500 2.500l2.500-2.500l2 2l-2.500 2.500l2.500 2.500l-2 2l-2.500-2.500l-2.500 2.500l-2-2l2.500-2.500z",
    "M0-5.400L5-1.600L3.100 4.400H-3.100L-5-1.600z",
];

/// Colour and marker of a line, by its number on the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Number of the colour.
    pub colour: usize,
    /// Number of the marker.
    pub marker: usize,
}

impl Look {
    /// Distinct for the first 64 lines.
    pub fn of(line: usize) -> Look {
        Look { colour: line % COLOURS, marker: (line + line / COLOURS) % MARKERS.len() }
    }
}

/// The markers, once per page.
pub fn markers() -> String {
    let mut out =
        "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>".to_owned();
    for (i, path) in MARKERS.iter().enumerate() {
        let _ = write!(out, "<path id=\"m{i}\" d=\"{path}\"/>");
    }
    out.push_str("</defs></svg>\n");
    out
}

/// A piece of line with its marker, for the legend.
pub fn swatch(look: Look, dashed: bool) -> String {
    format!(
        "<svg viewBox=\"0 0 34 14\" aria-hidden=\"true\"><path class=\"line{}\" d=\"M0 7H34\" stroke=\"var(--c{2})\"/>\
         <use href=\"#m{}\" x=\"17\" y=\"7\" fill=\"var(--c{2})\"/></svg>",
        if dashed { " dashed" } else { "" },
        look.marker,
        look.colour
    )
}

/// Maps values to the picture.
struct Frame<'a> {
    left: f64,
    drawing: &'a Drawing<'a>,
}

impl Frame<'_> {
    fn x(&self, value: f64) -> f64 {
        // The first and last points stand a little inside, clear of the axis.
        let (from, to) = (self.left + 14.0, WIDTH - RIGHT - 6.0);
        from + (to - from) * self.drawing.x.place(value)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * self.drawing.y.place(value)
    }
}

/// The picture; `looks` has one entry per line.
pub fn chart(drawing: &Drawing, looks: &[Look], label: &str) -> String {
    let widest = drawing.y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let frame = Frame { left: 12.0 + CHARACTER * widest as f64, drawing };
    let xs: Vec<String> =
        drawing.x.ticks.iter().map(|(value, _)| format!("{:.1}", frame.x(*value))).collect();
    let mut out = String::new();
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" tabindex=\"0\" aria-label=\"{}\" data-xs=\"{}\">",
        escape(label),
        xs.join(" ")
    );
    axes(&mut out, &frame);
    let _ = write!(out, "<path class=\"guide\" d=\"M0 {TOP}V{}\"/>", HEIGHT - BOTTOM);
    for (index, (line, look)) in drawing.lines.iter().zip(looks).enumerate() {
        one_line(&mut out, &frame, index, line, *look);
    }
    out.push_str("</svg>");
    out
}

fn axes(out: &mut String, frame: &Frame) {
    let (right, bottom) = (WIDTH - RIGHT + 4.0, HEIGHT - BOTTOM);
    for (value, text) in &frame.drawing.y.ticks {
        let y = frame.y(*value);
        let _ = write!(
            out,
            "<path class=\"grid\" d=\"M{:.1} {y:.1}H{right}\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            frame.left,
            frame.left - 6.0,
            y + 4.0,
            escape(text)
        );
    }
    if matches!(frame.drawing.quantity, Quantity::Ratio) {
        let _ = write!(out, "<path class=\"one\" d=\"M{:.1} {:.1}H{right}\"/>", frame.left, frame.y(1.0));
    }
    let _ = write!(out, "<path class=\"axis\" d=\"M{:.1} {bottom}H{right}\"/>", frame.left);
    x_labels(out, frame, &frame.drawing.x, bottom);
    let log = if frame.drawing.x.log { ", logarithmic" } else { "" };
    let _ = write!(
        out,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}{log}</text>",
        (frame.left + right) / 2.0,
        HEIGHT - 8.0,
        escape(&frame.drawing.x_label)
    );
}

/// Labels that would run into the one before are left out; their ticks stay.
fn x_labels(out: &mut String, frame: &Frame, axis: &Axis, bottom: f64) {
    let mut free_from = f64::MIN;
    for (value, text) in &axis.ticks {
        let (x, half) = (frame.x(*value), CHARACTER * text.chars().count() as f64 / 2.0);
        let _ = write!(out, "<path class=\"axis\" d=\"M{x:.1} {bottom}v4\"/>");
        let (anchor, start, end) = match () {
            () if x + half > WIDTH => ("end", x - 2.0 * half, x),
            () if x - half < 0.0 => ("start", x, x + 2.0 * half),
            () => ("middle", x - half, x + half),
        };
        if start >= free_from {
            let _ = write!(
                out,
                "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
                bottom + 17.0,
                escape(text)
            );
            free_from = end + 6.0;
        }
    }
}

fn one_line(out: &mut String, frame: &Frame, index: usize, line: &Line, look: Look) {
    let Look { colour, marker } = look;
    let _ = write!(out, "<g data-line=\"{index}\">");
    let at = |point: &Point, value: f64| format!("{:.1} {:.1}", frame.x(point.x), frame.y(value));
    let sure = line.points.iter().any(|point| point.estimate.n > 1);
    if let ([only], true) = (line.points.as_slice(), sure) {
        let (low, high) = (frame.y(only.estimate.low), frame.y(only.estimate.high));
        let x = frame.x(only.x);
        let _ = write!(
            out,
            "<path class=\"whisker\" stroke=\"var(--c{colour})\" d=\"M{x:.1} {low:.1}V{high:.1}\"/>"
        );
    } else if sure {
        let upper = line.points.iter().map(|point| at(point, point.estimate.high));
        let lower = line.points.iter().rev().map(|point| at(point, point.estimate.low));
        let path: Vec<String> = upper.chain(lower).collect();
        let _ = write!(out, "<path class=\"band\" fill=\"var(--c{colour})\" d=\"M{}z\"/>", path.join("L"));
    }
    let path: Vec<String> = line.points.iter().map(|point| at(point, point.estimate.median)).collect();
    let dashed = if line.dashed { " dashed" } else { "" };
    if path.len() > 1 {
        let _ = write!(
            out,
            "<path class=\"line{dashed}\" stroke=\"var(--c{colour})\" d=\"M{}\"/>",
            path.join("L")
        );
    }
    for point in &line.points {
        let x = frame.drawing.x.ticks.iter().position(|(value, _)| *value == point.x).unwrap_or(0);
        let _ = write!(
            out,
            "<use href=\"#m{marker}\" fill=\"var(--c{colour})\" x=\"{:.1}\" y=\"{:.1}\" data-x=\"{x}\"><title>{}, {} {}: {}</title></use>",
            frame.x(point.x),
            frame.y(point.estimate.median),
            escape(&line.name),
            escape(&frame.drawing.x_label),
            escape(&point.x_text),
            escape(&frame.drawing.quantity.interval(&point.estimate))
        );
    }
    out.push_str("</g>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_lines_all_look_different() {
        for a in 0..64 {
            for b in 0..a {
                assert_ne!(Look::of(a), Look::of(b), "{a} {b}");
            }
        }
    }
}
