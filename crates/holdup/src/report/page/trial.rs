//! The page of a trial: the verdict, every remedy with its interval as a picture and in a table, what was served, what
//! keeps the winner.

use maud::{Markup, html};

use super::super::document::{Column, Table};
use super::super::{number, trial as words};
use super::{environment as environment_table, whole};
use crate::trial::keep::keep;
use crate::trial::plan::Standing;
use crate::trial::ratio::Ratio;
use crate::trial::run::Subject;
use crate::trial::search::{Rules, Trial, Tried};

const WIDTH: f64 = 640.0;
const ROW: f64 = 26.0;
/// Width of a character of a name, about.
const CHARACTER: f64 = 6.8;
/// Least distance of two marks of the axis.
const ROOM: f64 = 42.0;

/// The page.
pub fn trial(subject: &Subject, rules: &Rules, trial: &Trial, environment: &[(String, String)]) -> String {
    let program = subject.tried().line();
    let ranked = ranked(trial);
    let kept = trial.winner().map(|at| keep(&trial.tried[at].remedy, &subject.tried()));
    let content = html! {
        section {
            (picture(trial, &ranked))
            h2 { "Every remedy" }
            (table(trial, &ranked))
        }
        section {
            h2 { "How it was found" }
            @for paragraph in words::paragraphs(rules, trial) { p { (paragraph) } }
            @if let Some(keep) = kept {
                p { "This keeps it:" }
                pre { code class="command" { (keep.line) } }
                p { (keep.permanent) }
            }
        }
        section {
            h2 { "Where" }
            (environment_table(environment.iter().map(|(name, value)| (name.as_str(), value.as_str()))))
        }
    };
    let headline = words::headline(subject, trial);
    whole("trial", "holdup try", &format!("holdup try: {program}"), &headline, &content)
}

fn ratio(tried: &Tried) -> Option<Ratio> {
    tried
        .ratio
        .or(tried.flipped)
        .filter(|ratio| [ratio.ratio, ratio.low, ratio.high].iter().all(|x| x.is_finite() && *x > 0.0))
}

/// The best first; those that failed or were not decided last.
fn ranked(trial: &Trial) -> Vec<&Tried> {
    let mut ranked: Vec<&Tried> = trial.tried.iter().collect();
    let value = |tried: &Tried| match tried.failure {
        None => ratio(tried).map_or(0.0, |ratio| ratio.ratio),
        Some(_) => -1.0,
    };
    ranked.sort_by(|a, b| value(b).total_cmp(&value(a)));
    ranked
}

fn wins(trial: &Trial, tried: &Tried) -> bool {
    trial.winner().is_some_and(|at| std::ptr::eq(&trial.tried[at], tried))
}

/// A row per remedy: its ratio with its interval, on a logarithmic axis around one.
fn picture(trial: &Trial, ranked: &[&Tried]) -> Markup {
    let rows: Vec<(&Tried, Ratio)> = ranked
        .iter()
        .filter(|tried| tried.failure.is_none())
        .filter_map(|tried| Some((*tried, ratio(tried)?)))
        .collect();
    // Room for both directions, at least a tenth each.
    let most =
        rows.iter().flat_map(|(_, ratio)| [ratio.high.ln().abs(), ratio.low.ln().abs()]).fold(0.1, f64::max) * 1.05;
    let longest = rows.iter().map(|(tried, _)| shortened(&tried.remedy.name).chars().count()).max();
    let names = 16.0 + CHARACTER * longest.unwrap_or(0) as f64;
    let x = |value: f64| names + (WIDTH - names - 20.0) * (value.ln().clamp(-most, most) + most) / (2.0 * most);
    let height = ROW * rows.len() as f64 + 34.0;
    let bottom = height - 28.0;
    let tenth = |value: f64| format!("{value:.1}");
    let colour = |ratio: &Ratio| match (ratio.low > 1.0, ratio.high < 1.0) {
        (true, _) => "var(--good)",
        (_, true) => "var(--bad)",
        _ => "var(--soft)",
    };
    let label = "Speed with each remedy; the figures are in the table below.";
    html! {
        @if !rows.is_empty() {
            figure {
                figcaption {
                    strong { "Speed with each remedy" }
                    span { "times as good as it is, with 95% interval, logarithmic" }
                }
                div class="plot" {
                    svg viewBox={ "0 0 " (WIDTH) " " (height) } role="img" aria-label=(label) {
                        @for mark in marks(most, &x) {
                            path class=(if mark == 1.0 { "axis" } else { "grid" }) d={ "M" (tenth(x(mark))) " 4V" (tenth(bottom)) } {}
                            text x=(tenth(x(mark))) y=(tenth(bottom + 16.0)) text-anchor="middle" { (mark) "x" }
                        }
                        @for (row, (tried, ratio)) in rows.iter().enumerate() {
                            @let y = ROW * row as f64 + 16.0;
                            text x=(tenth(names - 12.0)) y=(tenth(y + 4.0)) text-anchor="end"
                                font-weight=[wins(trial, tried).then_some("700")] { (shortened(&tried.remedy.name)) }
                            path d={ "M" (tenth(x(ratio.low))) " " (tenth(y)) "H" (tenth(x(ratio.high))) }
                                stroke=(colour(ratio)) stroke-width="3" {}
                            circle cx=(tenth(x(ratio.ratio))) cy=(tenth(y)) r="5" fill=(colour(ratio)) {}
                        }
                    }
                }
            }
        }
    }
}

/// Marks of the axis, the roundest first to be chosen: each has room for its words.
fn marks(most: f64, x: &dyn Fn(f64) -> f64) -> Vec<f64> {
    let mut chosen: Vec<f64> = Vec::new();
    for mark in [1.0, 2.0, 0.5, 4.0, 0.25, 16.0, 8.0, 1.5, 0.75, 3.0, 1.25, 1.1, 0.9, 1.05, 0.95_f64] {
        let room = |other: &f64| (x(mark) - x(*other)).abs() >= ROOM;
        if mark.ln().abs() <= most && chosen.iter().all(room) {
            chosen.push(mark);
        }
    }
    chosen
}

/// As much of a name as the picture has room for.
fn shortened(name: &str) -> String {
    match name.chars().count() > 26 {
        true => name.chars().take(25).chain(['\u{2026}']).collect(),
        false => name.to_owned(),
    }
}

fn table(trial: &Trial, ranked: &[&Tried]) -> Table {
    let mut table = Table::new([
        Column::left("remedy"),
        Column::right("speed"),
        Column::left("interval"),
        Column::right("CPU time"),
        Column::right("switches"),
        Column::right("runs"),
        Column::left("what became of it"),
    ])
    .named("Every remedy");
    let base = words::as_it_is(trial);
    let share = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{}x", number::ratio(value)));
    for tried in ranked {
        let known = ratio(tried).filter(|_| tried.failure.is_none());
        let interval = |ratio: Ratio| format!("{} to {}", number::ratio(ratio.low), number::ratio(ratio.high));
        table.row([
            tried.remedy.name.clone(),
            share(known.map(|ratio| ratio.ratio)),
            known.map_or_else(String::new, interval),
            share(tried.cpu),
            share(tried.switches),
            tried.runs.to_string(),
            note(trial, tried),
        ]);
    }
    let baseline = &trial.baseline;
    let what = format!(
        "what the others are compared with: {base}, {} of CPU time, {} switches",
        number::time_ns(baseline.cpu_s * 1e9),
        number::count(baseline.switches)
    );
    table.row(["as it is", "1x", "", "1x", "1x", &baseline.runs.to_string(), &what]);
    table
}

fn note(trial: &Trial, tried: &Tried) -> String {
    match (&tried.failure, tried.standing) {
        (Some(failure), _) => failure.to_string(),
        _ if wins(trial, tried) => "helps".to_owned(),
        _ if tried.confirmed => "confirmed by runs of its own".to_owned(),
        _ if tried.ratio.is_none() && tried.flipped.is_some() => "compared within one process".to_owned(),
        (None, Standing::Dropped) => "dropped: worse than others".to_owned(),
        _ if ratio(tried).is_none() => "not decided".to_owned(),
        _ => String::new(),
    }
}
