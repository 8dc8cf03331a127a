//! `holdup compare`: two runs side by side; many runs by the machines that they were measured on.

use super::measure::StoreFile;
use super::{Error, Status, output, show};
use crate::report::{by_machine, compare};

/// Compares two runs: the cells that both have, the ratio of their times with its interval, and a verdict.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The run to compare with and the run to judge: numbers of 'holdup history', or last. With --by any number of runs
    /// [default: all of the newest run's title]
    #[arg(value_name = "RUN", required_unless_present = "by")]
    runs: Vec<String>,
    /// Compare locks with the baseline within each machine, then what came out across machines
    #[arg(long, value_enum)]
    by: Option<By>,
    #[command(flatten)]
    store: StoreFile,
}

/// What runs are gathered by.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    /// Model and number of CPUs
    Machine,
}

const EXAMPLES: &str = "\
Examples:
  holdup compare 3 last            is the newest run faster than run 3?
  holdup compare 1 2 --store lab.db
  holdup compare --by machine --store all.db
      which lock is faster on which machine, and on all of them?

A ratio above 1 means that the second run took longer, with --by that the lock took
longer than the baseline. Runs made at different times differ by more than their
samples show: trust what holds when you measure both again.";

/// Prints the comparison.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn run(options: &Options) -> Result<Status, Error> {
    let store = options.store.open_existing()?;
    let view = match (options.by, options.runs.as_slice()) {
        (Some(By::Machine), runs) => by_machine::view(&by_machine::compare(&show::chosen(&store, runs)?)),
        (None, [old, new]) => {
            let (old, new) = (store.load_whole(store.find(old)?)?, store.load_whole(store.find(new)?)?);
            compare::view(&compare::runs(&old, &new))
        }
        (None, runs) => {
            return Err(Error::Argument(format!(
                "two runs are compared, not {}; 'holdup compare --by machine' takes any number",
                runs.len()
            )));
        }
    };
    output::show(&view)?;
    Ok(Status::Success)
}
