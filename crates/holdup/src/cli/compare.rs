//! `holdup compare`: two runs side by side.

use super::measure::StoreFile;
use super::{Error, Status, output};
use crate::report;

/// Compares two runs: the cells that both have, the ratio of their times with its interval, and a verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The run to compare with: a number of 'holdup history', or last
    #[arg(value_name = "RUN_A")]
    old: String,
    /// The run to judge
    #[arg(value_name = "RUN_B")]
    new: String,
    #[command(flatten)]
    store: StoreFile,
}

const EXAMPLES: &str = "\
Examples:
  holdup compare 3 last            is the newest run faster than run 3?
  holdup compare 1 2 --store lab.db

A ratio above 1 means that RUN_B took longer. Runs made at different times differ
by more than their samples show: trust what holds when you measure both again.";

/// Prints the comparison.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn run(options: &Options) -> Result<Status, Error> {
    let store = options.store.open_existing()?;
    let old = store.load(store.find(&options.old)?)?;
    let new = store.load(store.find(&options.new)?)?;
    output::show(&report::compare::view(&report::compare::runs(&old, &new)))?;
    Ok(Status::Success)
}
