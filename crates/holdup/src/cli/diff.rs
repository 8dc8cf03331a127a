//! `holdup diff`: two recordings side by side.

use std::path::PathBuf;

use super::{Error, Status, gate, output};
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
    /// Exit with 1 if a finding is new or grew by at least this much of the working time
    #[arg(long, value_name = "PERCENT")]
    fail_on: Option<String>,
}

const EXAMPLES: &str = "\
Examples:
  holdup diff before.holdup after.holdup   did the change help?
  holdup diff monday.holdup friday.holdup --json
  holdup diff main.holdup branch.holdup --fail-on 10%   for CI

Findings are matched by kind and by the lock's variable or call site, which stay
the same from run to run. One recording of each shows what changed, but not how
much it varies: trust a small change only when it shows again.";

/// Prints the comparison.
///
/// # Errors
/// One of them cannot be read.
pub fn run(options: &Options) -> Result<Status, Error> {
    let fail_on = options.fail_on.as_deref().map(gate::percentage).transpose()?;
    let before = recording::open(&options.before, Window::default(), false)?;
    let after = recording::open(&options.after, Window::default(), false)?;
    let comparison = diff::Comparison::new(&before, &after);
    match options.json {
        true => output::print(&output::json(&comparison)?)?,
        false => output::show(&diff::view(&before, &after))?,
    }
    let Some(failure) = fail_on.and_then(|at_least| comparison.failure(at_least)) else { return Ok(Status::Success) };
    output::note(format_args!("holdup: {failure}"));
    Ok(Status::Slower)
}
