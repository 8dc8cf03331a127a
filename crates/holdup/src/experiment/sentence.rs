//! Sentences with measured figures in them: `{slowdown}` or `{ratio(a, b @ threads=2)}` between the words.

use super::expr::{Expr, ExprError, Scope, Unit, parse_number};
use crate::stats::Estimate;

/// Words and figures in turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sentence {
    pieces: Vec<Piece>,
}

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Words(String),
    Figure(Expr),
}

impl Sentence {
    /// Reads a sentence; an error's place counts from the sentence's start.
    pub fn parse(text: &str, scope: Scope<'_>) -> Result<Sentence, ExprError> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while let Some(open) = text[at..].find('{').map(|open| at + open) {
            let close = text[open..].find('}').map(|close| open + close).ok_or_else(|| ExprError {
                at: open,
                why: "this '{' has no '}'; braces hold a figure such as {ratio}".to_owned(),
            })?;
            pieces.push(Piece::Words(text[at..open].to_owned()));
            let figure = parse_number(&text[open + 1..close], scope)
                .map_err(|error| ExprError { at: error.at + open + 1, why: error.why })?;
            pieces.push(Piece::Figure(figure));
            at = close + 1;
        }
        pieces.push(Piece::Words(text[at..].to_owned()));
        Ok(Sentence { pieces })
    }

    /// The figures, in order.
    pub fn figures(&self) -> impl Iterator<Item = &Expr> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Figure(expr) => Some(expr),
            Piece::Words(_) => None,
        })
    }

    /// The text, each figure written by `write`.
    pub fn render(&self, mut write: impl FnMut(&Expr) -> String) -> String {
        let mut text = String::new();
        for piece in &self.pieces {
            match piece {
                Piece::Words(words) => text.push_str(words),
                Piece::Figure(expr) => text.push_str(&write(expr)),
            }
        }
        text
    }
}

/// The median alone: `5.2x`.
pub fn brief(estimate: Estimate, unit: Unit) -> String {
    let scale = Scale::of(estimate.median, unit);
    format!("{}{}", scale.number(estimate.median), scale.suffix)
}

/// The median with its interval: `5.2x [5.1, 5.4]`. An interval of no width is not shown.
pub fn with_interval(estimate: Estimate, unit: Unit) -> String {
    let scale = Scale::of(estimate.median, unit);
    let (low, high) = (scale.number(estimate.low), scale.number(estimate.high));
    if low == high {
        return brief(estimate, unit);
    }
    format!("{}{} [{low}, {high}]", scale.number(estimate.median), scale.suffix)
}

/// A unit in which a value has few digits before its point.
struct Scale {
    divisor: f64,
    suffix: String,
    /// Whole numbers are written without a point: they are counts or places.
    whole: bool,
}

impl Scale {
    fn of(value: f64, unit: Unit) -> Scale {
        let time = |from: &[(f64, &str)]| {
            let (divisor, name) =
                from.iter().find(|(scale, _)| value.abs() >= *scale).or(from.last()).copied().unwrap_or((1.0, ""));
            Scale { divisor, suffix: format!(" {name}"), whole: false }
        };
        match unit {
            Unit::Plain | Unit::Of("") => Scale { divisor: 1.0, suffix: String::new(), whole: true },
            Unit::Times => Scale { divisor: 1.0, suffix: "x".to_owned(), whole: false },
            Unit::Share => Scale { divisor: 0.01, suffix: "%".to_owned(), whole: false },
            Unit::Of("ns") => time(&[(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]),
            Unit::Of("ms") => time(&[(1e3, "s"), (1.0, "ms")]),
            Unit::Of("1/s") => match value.abs() >= 1e6 {
                true => Scale { divisor: 1e6, suffix: " million/s".to_owned(), whole: false },
                false => Scale { divisor: 1.0, suffix: "/s".to_owned(), whole: false },
            },
            Unit::Of(name) => Scale { divisor: 1.0, suffix: format!(" {name}"), whole: false },
        }
    }

    /// Three figures, or the whole part where that is longer.
    fn number(&self, value: f64) -> String {
        let value = value / self.divisor;
        if !value.is_finite() {
            return "unbounded".to_owned();
        }
        let decimals = match value.abs() {
            v if v >= 100.0 || (self.whole && v.fract() == 0.0) => 0,
            v if v >= 10.0 => 1,
            v if v >= 0.1 => 2,
            _ => 3,
        };
        let text = format!("{value:.decimals$}");
        if text.trim_start_matches('-').chars().all(|c| c == '0' || c == '.') { "0".to_owned() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn estimate(median: f64, low: f64, high: f64) -> Estimate {
        Estimate { median, low, high, n: 5 }
    }

    #[test]
    fn figures_are_written_in_a_unit_with_few_digits() {
        let one = |value: f64, unit| brief(estimate(value, value, value), unit);
        assert_eq!(one(5.16, Unit::Times), "5.16x");
        assert_eq!(one(23.14, Unit::Of("ns")), "23.1 ns");
        assert_eq!(one(1_234_567.0, Unit::Of("ns")), "1.23 ms");
        assert_eq!(one(0.755, Unit::Share), "75.5%");
        assert_eq!(one(20_000.0, Unit::Of("1/s")), "20000/s");
        assert_eq!(one(0.0, Unit::Of("ns")), "0 ns");
        assert_eq!(one(4.0, Unit::Plain), "4");
    }

    #[test]
    fn an_interval_has_the_median_s_scale() {
        assert_eq!(with_interval(estimate(1500.0, 900.0, 2100.0), Unit::Of("ns")), "1.50 us [0.90, 2.10]");
        assert_eq!(with_interval(estimate(2.0, 2.0, 2.0), Unit::Times), "2.00x");
    }
}
