//! What people read: tables, charts, exports, comparisons and the HTML page, made from a run's record.
//!
//! Every function here is pure: the same record gives the same text. Figures come from [`crate::stats`] alone, by way
//! of [`figures`], so that the terminal, the page and the exports cannot disagree.

pub mod bmf;
pub mod by_machine;
pub mod chart;
pub mod claims;
pub mod compare;
pub mod cores;
pub mod counters;
pub mod csv;
pub mod document;
pub mod figures;
pub mod gate;
pub mod headline;
pub mod html;
pub mod interposed;
pub mod json;
pub mod live;
pub mod number;
pub mod otava;
pub mod page;
pub mod recording;
pub mod run_tables;
pub mod selftest;
pub mod series;
pub mod table;
pub mod trial;
pub mod trial_json;
pub mod trial_tables;

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
pub(crate) mod specimen;
#[cfg(test)]
mod tests;

pub(crate) use document::Ink;

/// How text for a terminal is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Columns that a line may take.
    pub width: usize,
    /// Whether to colour with ANSI escapes.
    pub colour: bool,
}

impl Default for Style {
    /// 80 columns without colour.
    fn default() -> Style {
        Style { width: 80, colour: false }
    }
}

impl Style {
    /// The text in a colour, where colours are wanted.
    pub(crate) fn paint(&self, ink: Ink, text: &str) -> String {
        if !self.colour || text.is_empty() {
            return text.to_owned();
        }
        let code = match ink {
            Ink::Bold => "1",
            Ink::Good => "32",
            Ink::Bad => "31",
            Ink::Faint => "2",
            Ink::Line(index) => ["36", "33", "35", "32", "34", "31"][index % 6],
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}
