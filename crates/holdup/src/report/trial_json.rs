//! A trial as JSON: everything, raw samples too. `docs/trial-json.md` describes it.

use serde::Serialize;

use crate::trial::coverage::Coverage;
use crate::trial::flip::Flips;
use crate::trial::keep::keep;
use crate::trial::plan::{Standing, Verdict};
use crate::trial::ratio::Ratio;
use crate::trial::run::Subject;
use crate::trial::search::{Baseline, Rules, Run, Trial, Tried};

/// Keys may be added under one name; a key that changes its meaning gets a new one.
const SCHEMA: &str = "holdup-trial-1";

#[derive(Serialize)]
struct Document<'a> {
    schema: &'static str,
    program: String,
    load: Option<String>,
    metric: Option<Figure<'a>>,
    seed: u64,
    budget_s: f64,
    spent_s: f64,
    verdict: &'static str,
    winner: Option<&'a str>,
    keep: Option<String>,
    baseline: Baseline,
    noise: Option<Ratio>,
    noise_in_process: Option<Ratio>,
    coverage: Option<&'a Coverage>,
    remedies: Vec<Remedy<'a>>,
    runs: &'a [Run],
    windows: Option<&'a Flips>,
    environment: Vec<(String, String)>,
}

#[derive(Serialize)]
struct Figure<'a> {
    expression: &'a str,
    higher_is_better: bool,
}

#[derive(Serialize)]
struct Remedy<'a> {
    name: &'a str,
    standing: Standing,
    failure: Option<String>,
    last_words: Option<&'a str>,
    ratio: Option<Ratio>,
    ratio_in_process: Option<Ratio>,
    confirmed: bool,
    cpu_ratio: Option<f64>,
    switches_ratio: Option<f64>,
    runs: usize,
}

/// The text.
pub fn text(
    subject: &Subject,
    rules: &Rules,
    trial: &Trial,
    environment: Vec<(String, String)>,
) -> Result<String, serde_json::Error> {
    let (verdict, winner) = match trial.verdict {
        Verdict::Helps(at) => ("helps", Some(&trial.tried[at].remedy)),
        Verdict::Nothing => ("nothing", None),
        Verdict::Noisy => ("noisy", None),
        Verdict::AllFailed => ("all_failed", None),
        Verdict::Stopped => ("stopped", None),
    };
    let document = Document {
        schema: SCHEMA,
        program: subject.tried().line(),
        load: subject.server.as_ref().map(|_| subject.program.line()),
        metric: subject
            .metric
            .as_ref()
            .map(|metric| Figure { expression: metric.expression(), higher_is_better: metric.higher }),
        seed: rules.seed,
        budget_s: rules.budget.as_secs_f64(),
        spent_s: trial.spent_s,
        verdict,
        winner: winner.map(|remedy| remedy.name.as_str()),
        keep: winner.map(|remedy| keep(remedy, &subject.tried()).line),
        baseline: trial.baseline,
        noise: trial.noise,
        noise_in_process: trial.flipped_noise,
        coverage: trial.coverage.as_ref(),
        remedies: trial.tried.iter().map(remedy).collect(),
        runs: &trial.runs,
        windows: trial.flips.as_ref(),
        environment,
    };
    serde_json::to_string_pretty(&document).map(|text| text + "\n")
}

fn remedy(tried: &Tried) -> Remedy<'_> {
    Remedy {
        name: &tried.remedy.name,
        standing: tried.standing,
        failure: tried.failure.as_ref().map(ToString::to_string),
        last_words: tried.failure.as_ref().map(|failure| failure.words()).filter(|words| !words.is_empty()),
        ratio: tried.ratio,
        ratio_in_process: tried.flipped,
        confirmed: tried.confirmed,
        cpu_ratio: tried.cpu,
        switches_ratio: tried.switches,
        runs: tried.runs,
    }
}
