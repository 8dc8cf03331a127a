//! `holdup history`: the runs in the store, and any of them shown again.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::measure::StoreFile;
use super::{Error, Status, bench, output, show};
use crate::claim::ClaimResult;
use crate::experiment::evaluate::evaluate;
use crate::experiment::file;
use crate::plot::Plot;
use crate::report::{chart, number};
use crate::results::RunRecord;
use crate::store::{Merged, RunSummary, Store};

/// Shows the runs in the store, newest first, or one of them again with its tables, charts and claims.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct Options {
    #[command(subcommand)]
    action: Option<Action>,
    /// Show this run again: its number in the list, or last
    run: Option<String>,
    /// Also write a page with its charts and claims
    #[arg(long, value_name = "FILE", requires = "run")]
    html: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long, requires = "html")]
    force: bool,
    #[command(flatten)]
    store: StoreFile,
    /// Number of runs to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    limit: usize,
}

/// What else can be done with a store.
#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Put the runs of other stores into this one, each once however often they are merged
    ///
    /// Shards of one sweep ('holdup run --shard') are shown as one run from then on.
    Merge(Merge),
}

/// Which stores.
#[derive(Debug, clap::Args)]
struct Merge {
    /// The other stores; they stay as they are
    #[arg(required = true, value_name = "STORE")]
    others: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreFile,
}

const EXAMPLES: &str = "\
Examples:
  holdup history
  holdup history --limit 100 --store lab.db
  holdup history last              that run's tables, charts and claims again
  holdup history merge node-*.db --store all.db
  holdup compare 3 last            compare two of them
  holdup export last --csv         all samples of one";

/// Prints the list, or the run.
///
/// # Errors
/// There is no store or no such run, it cannot be read, or the page cannot be written.
pub fn run(options: &Options) -> Result<Status, Error> {
    if let Some(Action::Merge(which)) = &options.action {
        return merge(which);
    }
    let store = options.store.open_existing()?;
    let text = match &options.run {
        None => list(&store.runs()?, options.limit),
        Some(run) => again(options, &store, store.find(run)?)?,
    };
    output::print(&text)?;
    Ok(Status::Success)
}

/// Merges each store; one that cannot be read is told, and the others follow.
fn merge(which: &Merge) -> Result<Status, Error> {
    let mut store = Store::open(&which.store.path()?)?;
    let (mut sum, mut failed) = (Merged::default(), 0);
    for path in &which.others {
        match Store::open_existing(path).and_then(|other| store.merge(&other)) {
            Ok(merged) => {
                sum.added += merged.added;
                sum.completed += merged.completed;
                sum.known += merged.known;
            }
            Err(why) => {
                failed += 1;
                output::note(format_args!("holdup: {why}"));
            }
        }
    }
    let all = number::counted(sum.added, "run");
    output::print(&format!(
        "{all} added to {}, {} completed, {} there already\n",
        store.path().display(),
        sum.completed,
        sum.known
    ))?;
    match failed {
        0 => Ok(Status::Success),
        failed => Err(Error::Argument(format!(
            "{failed} of {} could not be merged, for the reasons above; the others were",
            number::counted(which.others.len(), "store")
        ))),
    }
}

/// A stored run as it was shown when it was measured.
fn again(options: &Options, store: &Store, id: i64) -> Result<String, Error> {
    let record = store.load_whole(id)?;
    let Some(definition) = store.definition(id)?.1 else {
        let plots = chart::default_plots(&record);
        page(options, &record, &plots, &[])?;
        let shown = show::screen(&record, bench::charts_on_screen(&record, &plots));
        return Ok(format!("{shown}\nMeasured by:\n  {}\n", record.command));
    };
    let experiment = file::parse(&format!("run {id}"), &definition)?;
    let claims = evaluate(&experiment, &record);
    page(options, &record, &experiment.plots, &claims)?;
    Ok(super::run::screen(&experiment, &record, &claims))
}

fn page(options: &Options, run: &RunRecord, plots: &[Plot], claims: &[ClaimResult]) -> Result<(), Error> {
    match &options.html {
        Some(path) => show::page(path, run, plots, claims, options.force),
        None => Ok(()),
    }
}

fn list(runs: &[RunSummary], limit: usize) -> String {
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
