//! A trial as JSON: everything, raw samples too. docs/holdup-trial-1.schema.json, which is
//! generated from it, describes every key.

use schemars::JsonSchema;
use serde::Serialize;

use crate::trial::coverage::Coverage;
use crate::trial::figure::Figure;
use crate::trial::flip::Flips;
use crate::trial::keep::keep;
use crate::trial::modes::{Goal, Paces};
use crate::trial::plan::{Standing, Verdict};
use crate::trial::program::Program;
use crate::trial::ratio::Ratio;
use crate::trial::run::Subject;
use crate::trial::search::{Baseline, Rules, Run, Trial, Tried};

/// A trial.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A trial of holdup")]
pub(super) struct Document<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-trial-1"))]
    schema: &'static str,
    /// When it began, in seconds since 1970.
    began_unix_s: u64,
    /// What remedies were put under, as a shell reads it; of a server with `PORT` for its port.
    program: String,
    /// The load of a server; null without one.
    load: Option<String>,
    /// The number that it prints and that is compared; null for elapsed time, and for acquisitions.
    metric: Option<Printed<'a>>,
    /// What is compared: elapsed, printed, acquisitions (of its locks a second), or pace_p95 and pace_worst (the same
    /// in the slow part of a run).
    figure: &'static str,
    /// Seconds for which the program runs whatever is done, where that was noticed; then another figure was found.
    fixed_s: Option<f64>,
    /// Seed of the order.
    seed: u64,
    /// What was allowed.
    budget_s: f64,
    /// What it took.
    spent_s: f64,
    /// helps, saves (CPU time at the same speed), nothing, noisy, all_failed or stopped.
    verdict: &'static str,
    /// The remedy that helps or saves.
    winner: Option<&'a str>,
    /// The line that keeps it.
    keep: Option<String>,
    /// Medians of the program as it is.
    baseline: Baseline,
    /// The program as it is against itself, run against run.
    noise: Option<Ratio>,
    /// The same within one process.
    noise_in_process: Option<Ratio>,
    /// How steadily it runs, where the interposer serves its locks.
    paces: Option<&'a Paces>,
    /// Counts of one run with locks that do as glibc's.
    coverage: Option<&'a Coverage>,
    /// The remedies, and what came of each.
    remedies: Vec<Remedy<'a>>,
    /// Every paired run.
    runs: &'a [Run],
    /// Turns within one process.
    windows: Option<&'a Flips>,
    /// Version and machine: pairs of name and value.
    environment: Vec<(String, String)>,
}

/// A number that the program prints.
#[derive(Serialize, JsonSchema)]
struct Printed<'a> {
    /// What reports call it.
    label: &'a str,
    /// How it is found in the output.
    expression: &'a str,
    /// Whether more of it is better.
    higher_is_better: bool,
}

/// A remedy, and what came of it.
#[derive(Serialize, JsonSchema)]
struct Remedy<'a> {
    /// What it is called.
    name: &'a str,
    /// Where it stands.
    standing: Standing,
    /// Why it failed.
    failure: Option<String>,
    /// The end of what it wrote.
    last_words: Option<&'a str>,
    /// How many times as good it makes the program, run against run.
    ratio: Option<Ratio>,
    /// The same within one process.
    ratio_in_process: Option<Ratio>,
    /// Whether its ratio comes from runs that had no part in choosing it.
    confirmed: bool,
    /// CPU time over that of the program as it is.
    cpu_ratio: Option<f64>,
    /// The same with its interval, among all remedies.
    cpu_interval: Option<Ratio>,
    /// Switches, likewise.
    switches_ratio: Option<f64>,
    /// Runs behind it.
    runs: usize,
    /// The line that keeps it, whether it helps or not.
    keep: String,
}

/// The text.
pub fn text(
    subject: &Subject,
    rules: &Rules,
    trial: &Trial,
    began_unix_s: u64,
    environment: Vec<(String, String)>,
) -> Result<String, serde_json::Error> {
    let (verdict, winner) = match trial.verdict {
        Verdict::Helps(at) => ("helps", Some(&trial.tried[at].remedy)),
        Verdict::Saves(at) => ("saves", Some(&trial.tried[at].remedy)),
        Verdict::Nothing => ("nothing", None),
        Verdict::Noisy => ("noisy", None),
        Verdict::AllFailed => ("all_failed", None),
        Verdict::Stopped => ("stopped", None),
    };
    let document = Document {
        schema: "holdup-trial-1",
        began_unix_s,
        program: subject.tried().line(),
        load: subject.server.as_ref().map(|_| subject.program.line()),
        metric: trial.figure.metric().map(|metric| Printed {
            label: metric.label(),
            expression: metric.expression(),
            higher_is_better: metric.higher,
        }),
        figure: match &trial.figure {
            Figure::Elapsed => "elapsed",
            Figure::Printed(_) => "printed",
            Figure::Acquisitions => "acquisitions",
            Figure::Pace(Goal::Worst) => "pace_worst",
            Figure::Pace(_) => "pace_p95",
        },
        fixed_s: trial.fixed_s,
        seed: rules.seed,
        budget_s: rules.budget.as_secs_f64(),
        spent_s: trial.spent_s,
        verdict,
        winner: winner.map(|remedy| remedy.name.as_str()),
        keep: winner.map(|remedy| keep(remedy, &subject.tried()).line),
        baseline: trial.baseline,
        noise: trial.noise,
        noise_in_process: trial.flipped_noise,
        paces: trial.paces.as_ref(),
        coverage: trial.coverage.as_ref(),
        remedies: trial.tried.iter().map(|tried| remedy(tried, &subject.tried())).collect(),
        runs: &trial.runs,
        windows: trial.flips.as_ref(),
        environment,
    };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

fn remedy<'a>(tried: &'a Tried, program: &Program) -> Remedy<'a> {
    Remedy {
        name: &tried.remedy.name,
        standing: tried.standing,
        failure: tried.failure.as_ref().map(ToString::to_string),
        last_words: tried.failure.as_ref().map(|failure| failure.words()).filter(|words| !words.is_empty()),
        ratio: tried.ratio,
        ratio_in_process: tried.flipped,
        confirmed: tried.confirmed,
        cpu_ratio: tried.cpu,
        cpu_interval: tried.cpu_interval,
        switches_ratio: tried.switches,
        runs: tried.runs,
        keep: keep(&tried.remedy, program).line,
    }
}
