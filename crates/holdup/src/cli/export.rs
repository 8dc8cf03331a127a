//! `holdup export`: a run for spreadsheets and programs.

use std::path::PathBuf;

use super::measure::StoreFile;
use super::{Error, Status, output, show};
use crate::report;

/// Writes a run as CSV (one row per sample, units in the header) or JSON (everything).
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "format", required = true, multiple = false, args = ["csv", "json"])]
pub struct Options {
    /// A number of 'holdup history', or last
    run: String,
    /// One row per sample
    #[arg(long)]
    csv: bool,
    /// Everything: factors, samples, environment, warnings
    #[arg(long)]
    json: bool,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreFile,
}

const EXAMPLES: &str = "\
Examples:
  holdup export last --csv -o samples.csv
  holdup export 3 --json | jq '.cells[0]'";

/// Writes the run.
///
/// # Errors
/// There is no such run, or the file cannot be written.
pub fn run(options: &Options) -> Result<Status, Error> {
    let store = options.store.open_existing()?;
    let record = store.load(store.find(&options.run)?)?;
    let text = if options.csv { report::csv::run(&record) } else { show::json(&record)? };
    match &options.output {
        Some(path) => output::write_file(path, &text, options.force)?,
        None => output::print(&text)?,
    }
    Ok(Status::Success)
}
