//! A drawing as inline SVG: interval bands, lines, markers, axes; colours come from the page's style sheet.

use maud::{Markup, html};

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
    "M-4.500-2.500l2-2l2.500 2.500l2.500-2.500l2 2l-2.500 2.500l2.500 2.500l-2 2l-2.500-2.500l-2.500 \
     2.500l-2-2l2.500-2.500z",
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

    fn variable(self) -> String {
        format!("var(--c{})", self.colour)
    }
}

/// The markers, once per page.
pub fn markers() -> Markup {
    html! {
        svg width="0" height="0" style="position:absolute" aria-hidden="true" {
            defs { @for (i, path) in MARKERS.iter().enumerate() { path id={ "m" (i) } d=(path) {} } }
        }
    }
}

/// A piece of line with its marker, for the legend.
pub fn swatch(look: Look, dashed: bool) -> Markup {
    html! {
        svg viewBox="0 0 34 14" aria-hidden="true" {
            path.line.dashed[dashed] d="M0 7H34" stroke=(look.variable()) {}
            use href={ "#m" (look.marker) } x="17" y="7" fill=(look.variable()) {}
        }
    }
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
pub fn chart(drawing: &Drawing, looks: &[Look], label: &str) -> Markup {
    let widest = drawing.y.ticks.iter().map(|(_, text)| text.chars().count()).max().unwrap_or(0);
    let frame = Frame { left: 12.0 + CHARACTER * widest as f64, drawing };
    let xs: Vec<String> = drawing.x.ticks.iter().map(|(value, _)| tenth(frame.x(*value))).collect();
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" tabindex="0" aria-label=(label) data-xs=(xs.join(" ")) {
            (axes(&frame))
            path class="guide" d={ "M0 " (TOP) "V" (HEIGHT - BOTTOM) } {}
            @for (index, (line, look)) in drawing.lines.iter().zip(looks).enumerate() {
                (one_line(&frame, index, line, *look))
            }
        }
    }
}

/// With one digit behind the point: pixels need no more.
fn tenth(value: f64) -> String {
    format!("{value:.1}")
}

fn axes(frame: &Frame) -> Markup {
    let (right, bottom) = (WIDTH - RIGHT + 4.0, HEIGHT - BOTTOM);
    let across = |y: f64| format!("M{:.1} {y:.1}H{right}", frame.left);
    html! {
        @for (value, text) in &frame.drawing.y.ticks {
            @let y = frame.y(*value);
            path class="grid" d=(across(y)) {}
            text x=(tenth(frame.left - 6.0)) y=(tenth(y + 4.0)) text-anchor="end" { (text) }
        }
        @if matches!(frame.drawing.quantity, Quantity::Ratio) { path class="one" d=(across(frame.y(1.0))) {} }
        path class="axis" d=(across(bottom)) {}
        (x_labels(frame, &frame.drawing.x, bottom))
        text x=(tenth((frame.left + right) / 2.0)) y=(tenth(HEIGHT - 8.0)) text-anchor="middle" {
            (frame.drawing.x_label) @if frame.drawing.x.log { ", logarithmic" }
        }
    }
}

/// Labels that would run into the one before are left out; their ticks stay.
fn x_labels(frame: &Frame, axis: &Axis, bottom: f64) -> Markup {
    let mut free_from = f64::MIN;
    let label = |(value, text): &(f64, String)| {
        let (x, half) = (frame.x(*value), CHARACTER * text.chars().count() as f64 / 2.0);
        let (anchor, start, end) = match () {
            () if x + half > WIDTH => ("end", x - 2.0 * half, x),
            () if x - half < 0.0 => ("start", x, x + 2.0 * half),
            () => ("middle", x - half, x + half),
        };
        let shown = start >= free_from;
        free_from = if shown { end + 6.0 } else { free_from };
        html! {
            path class="axis" d={ "M" (tenth(x)) " " (bottom) "v4" } {}
            @if shown { text x=(tenth(x)) y=(tenth(bottom + 17.0)) text-anchor=(anchor) { (text) } }
        }
    };
    let labels: Vec<Markup> = axis.ticks.iter().map(label).collect();
    html! { @for label in labels { (label) } }
}

fn one_line(frame: &Frame, index: usize, line: &Line, look: Look) -> Markup {
    let at = |point: &Point, value: f64| format!("{:.1} {:.1}", frame.x(point.x), frame.y(value));
    let sure = line.points.iter().any(|point| point.estimate.n > 1);
    let upper = line.points.iter().map(|point| at(point, point.estimate.high));
    let lower = line.points.iter().rev().map(|point| at(point, point.estimate.low));
    let band: Vec<String> = upper.chain(lower).collect();
    let path: Vec<String> = line.points.iter().map(|point| at(point, point.estimate.median)).collect();
    let tick = |point: &Point| frame.drawing.x.ticks.iter().position(|(value, _)| *value == point.x);
    html! {
        g data-line=(index) {
            @if sure && line.points.len() == 1 {
                path class="whisker" stroke=(look.variable()) d={ "M" (band.join("L")) } {}
            } @else if sure {
                path class="band" fill=(look.variable()) d={ "M" (band.join("L")) "z" } {}
            }
            @if path.len() > 1 {
                path.line.dashed[line.dashed] stroke=(look.variable()) d={ "M" (path.join("L")) } {}
            }
            @for point in &line.points {
                use href={ "#m" (look.marker) } fill=(look.variable()) x=(tenth(frame.x(point.x)))
                    y=(tenth(frame.y(point.estimate.median))) data-x=(tick(point).unwrap_or(0)) {
                    title {
                        (line.name) ", " (frame.drawing.x_label) " " (point.x_text) ": "
                        (frame.drawing.quantity.interval(&point.estimate))
                    }
                }
            }
        }
    }
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
