//! A measured run for its user: on the screen, as JSON, as a page.

use std::fmt::Write as _;
use std::path::Path;

use super::{Error, output};
use crate::advice::Advice;
use crate::claim::ClaimResult;
use crate::plot::Plot;
use crate::report::{self, Style, text};
use crate::results::RunRecord;

/// How text for this terminal is laid out.
pub fn style() -> Style {
    Style { width: output::WIDTH, colour: output::colour() }
}

/// Table and charts of a run.
pub fn screen(run: &RunRecord, plots: &[Plot]) -> String {
    let style = style();
    let mut text = report::table::run(run, &style);
    for plot in plots {
        let _ = write!(text, "\n{}", report::chart::terminal(run, plot, &style));
    }
    text
}

/// The run as JSON, for programs.
pub fn json(run: &RunRecord) -> String {
    format!("{:#}\n", report::json::run(run))
}

/// Writes the page with charts.
///
/// # Errors
/// The file exists and is not to be replaced, or cannot be written.
pub fn page(
    path: &Path,
    run: &RunRecord,
    plots: &[Plot],
    claims: &[ClaimResult],
    force: bool,
) -> Result<(), Error> {
    output::write_file(path, &report::html::page(run, plots, claims), force)?;
    output::note(format_args!("holdup: {} shows it with charts", path.display()));
    Ok(())
}

/// What to try next.
pub fn advice(advice: &[Advice]) -> String {
    if advice.is_empty() {
        return String::new();
    }
    let mut out = String::from("\nWhat to try next\n");
    for Advice { why, command } in advice {
        let _ = writeln!(out, "  {}\n    {command}", text::wrap(why, output::WIDTH - 2, 2));
    }
    out
}
