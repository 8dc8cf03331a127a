//! A chart for the terminal, and which charts a sweep gets when nobody asked for others.

use super::Style;
use crate::plot::Plot;
use crate::results::RunRecord;

/// Draws one plot with text; empty lines where there is nothing to draw are explained in words.
pub fn terminal(_run: &RunRecord, _plot: &Plot, _style: &Style) -> String {
    String::new()
}

/// Charts that fit the sweep: over the numeric factor with most values, one line per lock.
pub fn default_plots(_run: &RunRecord) -> Vec<Plot> {
    Vec::new()
}
