//! `holdup reproduce`: the published experiments measured here, claim by claim.

use std::path::PathBuf;

use super::measure::{self, Measuring};
use super::run::{Amount, Results, announce, json, measure};
use super::{Error, Status, output, show};
use crate::claim::{ClaimResult, Verdict};
use crate::experiment::evaluate::evaluate;
use crate::experiment::{Experiment, embedded, file, is_published};
use crate::plot::Plot;
use crate::report;
use crate::results::RunRecord;
use crate::runner::Outcome;

/// Measures published experiments on this machine and shows each claim: what was published and on what, what was
/// measured under those conditions (then) and with today's locks (now), and whether it holds or differs, and why.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub struct Options {
    /// Which experiment
    #[arg(value_enum, default_value_t = Which::All)]
    which: Which,
    #[command(flatten)]
    amount: Amount,
    #[command(flatten)]
    measuring: Measuring,
    #[command(flatten)]
    results: Results,
    /// Also write the verdicts as a Markdown table: what was published, then, now, and what of the set-up is the same
    #[arg(long, value_name = "FILE", help_heading = "Results")]
    verdicts: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  holdup reproduce all --quick
      every published claim, in a few minutes
  holdup reproduce intel --html intel.html
      one source in full, with a page of charts
  holdup list claims
      what will be checked

A claim that differs is a finding about this machine and today's kernels, not a failure: the exit status is 0.";

/// The sources, by their first author or maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// The TimeMutex program, 1998
    Hart,
    /// The lock table, 2001
    Emmons,
    /// Excessive thread switching, 2007
    Switching,
    /// The cost of a lock, 2009
    Intel,
    /// The shared counter, 2014
    Kraus,
    /// All of them
    All,
}

impl Which {
    fn name(self) -> &'static str {
        match self {
            Which::Hart => "hart",
            Which::Emmons => "emmons",
            Which::Switching => "switching",
            Which::Intel => "intel",
            Which::Kraus => "kraus",
            Which::All => "all",
        }
    }
}

/// One experiment, measured.
struct Reproduced {
    experiment: Experiment,
    outcome: Outcome,
    claims: Vec<ClaimResult>,
}

/// Measures, keeps, shows.
///
/// # Errors
/// A store, file or process that cannot be had.
pub fn run(options: &Options) -> Result<Status, Error> {
    options.results.check()?;
    if let Some(path) = options.verdicts.as_deref().filter(|path| !options.results.force && path.exists()) {
        return Err(Error::FileExists(path.to_owned()));
    }
    if options.measuring.resume.is_some() {
        return Err(Error::Argument(
            "an experiment that was stopped continues with 'holdup run --resume'; 'reproduce' begins anew".to_owned(),
        ));
    }
    let mut chosen = Vec::new();
    for (path, text) in embedded() {
        let experiment = file::parse(path, text)?;
        if experiment.name == options.which.name() || options.which == Which::All && is_published(&experiment.name) {
            chosen.push((experiment, text));
        }
    }
    let experiments: Vec<Experiment> = chosen.iter().map(|(experiment, _)| experiment.clone()).collect();
    announce(&experiments, &options.amount);
    let all = options.measure(chosen)?;
    options.show(&all)?;
    Ok(status(&all))
}

impl Options {
    /// One run per experiment; when the user stops one, the others are not begun.
    fn measure(&self, chosen: Vec<(Experiment, &'static str)>) -> Result<Vec<Reproduced>, Error> {
        let mut store = self.measuring.open_store()?;
        let mut all = Vec::new();
        for (experiment, text) in chosen {
            output::note(format_args!("holdup: {}: {}", experiment.name, experiment.title));
            let command = format!("holdup reproduce {}", experiment.name);
            let outcome = measure(&experiment, text, &command, &self.amount, &self.measuring, &mut store)?;
            let claims = evaluate(&experiment, &outcome.record);
            let stopped = outcome.interrupted;
            all.push(Reproduced { experiment, outcome, claims });
            if stopped {
                break;
            }
        }
        Ok(all)
    }

    fn show(&self, all: &[Reproduced]) -> Result<(), Error> {
        let claims: Vec<ClaimResult> = all.iter().flat_map(|one| one.claims.clone()).collect();
        if let Some(path) = &self.results.html {
            let (record, plots) = merged(all);
            show::page(path, &record, &plots, &claims, self.results.force)?;
        }
        if let Some(path) = &self.verdicts {
            output::write_file(path, &report::claims::markdown(&claims), self.results.force)?;
        }
        if self.results.json {
            let runs: Vec<_> = all.iter().map(|one| (&one.outcome.record, &one.claims)).collect();
            return output::print(&json(&runs));
        }
        let mut text = report::claims::table(&claims).terminal(&output::style());
        text.extend(all.first().map(|one| show::machine(&one.outcome.record).terminal(&output::style())));
        text.push_str(&self.next(all, &claims));
        output::print(&text)
    }

    /// What to do next.
    fn next(&self, all: &[Reproduced], claims: &[ClaimResult]) -> String {
        let mut text = "\nWhat to do next:\n".to_owned();
        let mut line = |why: &str, command: &str| text.push_str(&format!("  {why}\n    {command}\n"));
        let close = claims.iter().find(|claim| claim.readings().any(|reading| reading.close));
        if let Some(close) = close.filter(|_| self.amount.quick) {
            line(
                &format!("Decide what is close, such as {}, with more and longer runs:", close.id),
                &format!("holdup reproduce {}", close.experiment),
            );
        }
        if let (Some(one), true) = (all.first(), self.measuring.keeps()) {
            let command = format!("holdup export {} --csv{}", one.outcome.record.id, self.measuring.store_option());
            line("See every sample behind a claim:", &command);
        }
        if self.results.html.is_none() {
            line("See the curves:", &format!("holdup reproduce {} --quick --html page.html", self.which.name()));
        }
        if claims.iter().any(|claim| claim.then.verdict == Verdict::Differs) {
            line("See what a claim that differs depends on:", "holdup list factors");
        }
        text
    }
}

fn status(all: &[Reproduced]) -> Status {
    let statuses = || all.iter().map(|one| measure::status(&one.outcome));
    statuses()
        .find(|status| *status == Status::Interrupted)
        .or(statuses().find(|s| *s != Status::Success))
        .unwrap_or(Status::Success)
}

/// All runs as one record for one page: sweeps carry their experiment's name, blocks keep apart.
fn merged(all: &[Reproduced]) -> (RunRecord, Vec<Plot>) {
    let mut plots = Vec::new();
    let mut whole: Option<RunRecord> = None;
    let mut next_block = 0;
    for Reproduced { experiment, outcome, .. } in all {
        let name = |sweep: &str| format!("{}: {sweep}", experiment.name);
        let mut record = outcome.record.clone();
        let mut last_block = next_block;
        for cell in &mut record.cells {
            cell.sweep = name(&cell.sweep);
            for sample in &mut cell.samples {
                sample.block += next_block;
                last_block = last_block.max(sample.block + 1);
            }
        }
        next_block = last_block;
        plots.extend(experiment.plots.iter().map(|plot| Plot { sweep: name(&plot.sweep), ..plot.clone() }));
        match &mut whole {
            None => whole = Some(record),
            Some(whole) => {
                whole.cells.extend(record.cells);
                whole.warnings.extend(record.warnings);
                whole.complete &= record.complete;
            }
        }
    }
    let whole = whole.expect("at least one experiment was chosen");
    (whole, plots)
}
