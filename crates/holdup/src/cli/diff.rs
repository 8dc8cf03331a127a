//! `holdup diff`: two recordings side by side.

use std::path::PathBuf;

use super::{Error, Status, output};
use crate::recording::{self, Window};
use crate::report::recording::diff;

/// Compares two recordings: which findings are gone, new, better or worse, and the figures behind them.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The recording to compare with
    before: PathBuf,
    /// The recording to judge
    after: PathBuf,
    /// As JSON: docs/recording-json.md describes it
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holdup diff before.holdup after.holdup   did the change help?
  holdup diff monday.holdup friday.holdup --json

Findings are matched by kind and by the lock's variable or call site, which stay
the same from run to run. One recording of each shows what changed, but not how
much it varies: trust a small change only when it shows again.";

/// Prints the comparison.
///
/// # Errors
/// One of them cannot be read.
pub fn run(options: &Options) -> Result<Status, Error> {
    let before = recording::open(&options.before, Window::default(), false)?;
    let after = recording::open(&options.after, Window::default(), false)?;
    match options.json {
        true => output::print(&output::json(&diff::Comparison::new(&before, &after))?)?,
        false => output::show(&diff::view(&before, &after))?,
    }
    Ok(Status::Success)
}
