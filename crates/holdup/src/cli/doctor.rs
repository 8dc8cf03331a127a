//! `holdup doctor`: what can be recorded here, and what would allow more.

use super::{Error, Status, output};
use crate::report::recording::doctor;

/// Says what this machine and user can record, what each missing right would add, and the command that grants the least
/// of it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// As JSON: docs/recording-json.md describes it
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  holdup doctor
  holdup doctor --json | jq '.abilities[] | select(.works | not)'

Nothing is changed. The first run on a kernel finds the numbers of its events by
trial, which can take some seconds in the background.";

/// Looks and tells.
///
/// # Errors
/// This system cannot record at all.
pub fn run(options: &Options) -> Result<Status, Error> {
    let Some(diagnosis) = holdup_record::examine() else {
        return Err(Error::Argument("recording needs Linux; 'holdup report' shows recordings made there".to_owned()));
    };
    match options.json {
        true => output::print(&output::json(&doctor::Rights::new(&diagnosis))?)?,
        false => output::show(&doctor::screen(&diagnosis))?,
    }
    Ok(Status::Success)
}
