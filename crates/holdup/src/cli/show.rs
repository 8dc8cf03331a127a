//! A measured run for its user: on the screen, as JSON, as a page.

use std::fmt::Write as _;
use std::path::Path;

use super::{Error, output};
use crate::advice::Advice;
use crate::claim::ClaimResult;
use crate::plot::Plot;
use crate::report;
use crate::report::document::Document;
use crate::results::RunRecord;
use crate::store::Store;

/// Table and charts of a run, and the machine it was measured on.
pub fn screen(run: &RunRecord, plots: &[Plot]) -> String {
    let style = output::style();
    let mut text = report::table::run(run).terminal(&style);
    for plot in plots {
        let _ = write!(text, "\n{}", report::chart::terminal(run, plot, &style));
    }
    text + &machine(run).terminal(&style)
}

/// No figure without its environment: what matters most of it, in a sentence. The page and the exports have all of it.
pub fn machine(run: &RunRecord) -> Document {
    let fact = |name: &str| {
        let value = run.environment.iter().find(|(n, _)| n == name).map(|(_, value)| value.clone());
        value.filter(|value| !value.starts_with("n/a"))
    };
    let cpus = run.cpus().map(|n| report::number::counted(n as usize, "CPU"));
    let guest = fact("virtualised").filter(|yes| yes == "yes").map(|_| "in a virtual machine".to_owned());
    let load = fact("load_before").map(|load| format!("load before {load}"));
    let clock = fact("clock_source").map(|clock| format!("clock {clock}"));
    let facts: Vec<String> =
        [fact("cpu"), cpus, guest, fact("kernel"), fact("libc"), clock, load].into_iter().flatten().collect();
    let mut machine = Document::default();
    if !facts.is_empty() {
        machine.gap();
        machine.hanging(2, format!("Measured on {}.", facts.join(", ")));
    }
    machine
}

/// The runs that are meant, shards as they are; if none is named, all of the newest one's title, oldest first.
///
/// # Errors
/// There is no such run, or the store cannot be read.
pub fn chosen(store: &Store, runs: &[String]) -> Result<Vec<RunRecord>, Error> {
    let ids: Vec<i64> = match runs {
        [] => {
            let all = store.runs()?;
            let title = all.first().map(|run| run.title.clone());
            all.iter().filter(|run| Some(&run.title) == title.as_ref()).map(|run| run.id).rev().collect()
        }
        runs => runs.iter().map(|run| store.find(run)).collect::<Result<_, _>>()?,
    };
    Ok(ids.into_iter().map(|id| store.load(id)).collect::<Result<_, _>>()?)
}

/// The run as JSON, for programs.
///
/// # Errors
/// A key is not text.
pub fn json(run: &RunRecord) -> Result<String, Error> {
    output::json(&report::json::Run::new(run))
}

/// Writes the page with charts.
///
/// # Errors
/// The file exists and is not to be replaced, or cannot be written.
pub fn page(path: &Path, run: &RunRecord, plots: &[Plot], claims: &[ClaimResult], force: bool) -> Result<(), Error> {
    output::write_file(path, &report::html::page(run, plots, claims), force)?;
    output::note(format_args!("holdup: {} shows it with charts", path.display()));
    Ok(())
}

/// What to try next.
pub fn advice(advice: &[Advice]) -> Document {
    let mut next = Document::default();
    if !advice.is_empty() {
        next.gap();
        next.paragraph("What to try next");
    }
    for Advice { why, command } in advice {
        next.indented(2, |inner| {
            inner.paragraph(why);
            inner.indented(2, |inner| inner.command([command]));
        });
    }
    next
}
