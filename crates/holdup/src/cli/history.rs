//! `holdup history`: the runs in the store.

use std::fmt::Write as _;

use super::measure::StoreFile;
use super::{Error, Status, output};
use crate::report::number;
use crate::store::RunSummary;

/// Shows the runs in the store, newest first.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    #[command(flatten)]
    store: StoreFile,
    /// Show so many
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
}

const EXAMPLES: &str = "\
Examples:
  holdup history
  holdup history --limit 100 --store lab.db
  holdup compare 3 last            compare two of them
  holdup export last --csv         all samples of one";

/// Prints the list.
///
/// # Errors
/// There is no store, or it cannot be read.
pub fn run(options: &Options) -> Result<Status, Error> {
    let runs = options.store.open_existing()?.runs()?;
    output::print(&text(&runs, options.limit))?;
    Ok(Status::Success)
}

fn text(runs: &[RunSummary], limit: usize) -> String {
    if runs.is_empty() {
        return "The store has no runs yet; 'holdup bench' makes one.\n".to_owned();
    }
    let mut text =
        format!("{:>5}  {:23}  {:>5}  {:>11}  {:10}  {}\n", "run", "began", "cells", "runs", "state", "what");
    for run in runs.iter().take(limit) {
        let _ = writeln!(
            text,
            "{:>5}  {:23}  {:>5}  {:>11}  {:10}  {}",
            run.id,
            number::utc(run.started_unix_s),
            run.cells,
            format!("{}/{}", run.measured, run.planned),
            state(run),
            run.title
        );
        let _ = writeln!(text, "       {}", run.command);
    }
    if runs.len() > limit {
        let _ = writeln!(text, "{} older runs: --limit {} shows them", runs.len() - limit, runs.len());
    }
    text
}

fn state(run: &RunSummary) -> String {
    match (run.complete, run.failed_cells) {
        (false, _) => "stopped".to_owned(),
        (true, 0) => "complete".to_owned(),
        (true, n) => format!("{n} failed"),
    }
}
