//! The page of a trial: the verdict, every remedy with its interval as a picture and in a table, what was served, what keeps the winner.

use std::fmt::Write as _;

use super::super::{number, trial as words};
use super::{CLOSE, escape, header, open};
use crate::trial::keep::keep;
use crate::trial::plan::{Standing, Verdict};
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
    let mut out = open("trial", "holdup try");
    out.push_str(&header(&format!("holdup try: {program}"), &words::headline(subject, trial)));
    out.push_str("<main>\n<section>\n");
    let ranked = ranked(trial);
    picture(&mut out, trial, &ranked);
    table(&mut out, subject, trial, &ranked);
    out.push_str("</section>\n<section><h2>How it was found</h2>\n");
    for paragraph in words::paragraphs(subject, rules, trial) {
        let _ = writeln!(out, "<p>{}</p>", escape(&paragraph));
    }
    if let Verdict::Helps(at) = trial.verdict {
        let keep = keep(&trial.tried[at].remedy, &subject.tried());
        let _ = writeln!(
            out,
            "<p>This keeps it:</p>\n<pre><code class=\"command\">{}</code></pre>\n<p>{}</p>",
            escape(&keep.line),
            escape(&keep.permanent)
        );
    }
    out.push_str("</section>\n<section><h2>Where</h2>\n<table class=\"environment\"><tbody>\n");
    for (name, value) in environment {
        let _ = writeln!(out, "<tr><th>{}</th><td>{}</td></tr>", escape(name), escape(value));
    }
    out.push_str("</tbody></table></section>\n</main>\n");
    out.push_str(CLOSE);
    out
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
    matches!(trial.verdict, Verdict::Helps(at) if std::ptr::eq(&trial.tried[at], tried))
}

/// A row per remedy: its ratio with its interval, on a logarithmic axis around one.
fn picture(out: &mut String, trial: &Trial, ranked: &[&Tried]) {
    let rows: Vec<(&Tried, Ratio)> = ranked
        .iter()
        .filter(|tried| tried.failure.is_none())
        .filter_map(|tried| Some((*tried, ratio(tried)?)))
        .collect();
    if rows.is_empty() {
        return;
    }
    // Room for both directions, at least a tenth each.
    let most =
        rows.iter().flat_map(|(_, ratio)| [ratio.high.ln().abs(), ratio.low.ln().abs()]).fold(0.1, f64::max)
            * 1.05;
    let longest = rows.iter().map(|(tried, _)| shortened(&tried.remedy.name).chars().count()).max();
    let names = 16.0 + CHARACTER * longest.unwrap_or(0) as f64;
    let x =
        |value: f64| names + (WIDTH - names - 20.0) * (value.ln().clamp(-most, most) + most) / (2.0 * most);
    let height = ROW * rows.len() as f64 + 34.0;
    let _ = writeln!(
        out,
        "<figure><figcaption><strong>Speed with each remedy</strong><span>times as good as it is, with 95% interval, logarithmic</span></figcaption>\
         <div class=\"plot\"><svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"Speed with each remedy; the figures are in the table below.\">"
    );
    let bottom = height - 28.0;
    for mark in marks(most, &x) {
        let class = if mark == 1.0 { "axis" } else { "grid" };
        let _ = writeln!(
            out,
            "<path class=\"{class}\" d=\"M{0:.1} 4V{bottom:.1}\"/><text x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=\"middle\">{mark}x</text>",
            x(mark),
            bottom + 16.0
        );
    }
    for (row, (tried, ratio)) in rows.iter().enumerate() {
        let y = ROW * row as f64 + 16.0;
        let colour = match (ratio.low > 1.0, ratio.high < 1.0) {
            (true, _) => "--good",
            (_, true) => "--bad",
            _ => "--soft",
        };
        let weight = if wins(trial, tried) { " font-weight=\"700\"" } else { "" };
        let _ = writeln!(
            out,
            "<text x=\"{0:.1}\" y=\"{1:.1}\" text-anchor=\"end\"{weight}>{2}</text>\
             <path d=\"M{3:.1} {y:.1}H{4:.1}\" stroke=\"var({colour})\" stroke-width=\"3\"/><circle cx=\"{5:.1}\" cy=\"{y:.1}\" r=\"5\" fill=\"var({colour})\"/>",
            names - 12.0,
            y + 4.0,
            escape(&shortened(&tried.remedy.name)),
            x(ratio.low),
            x(ratio.high),
            x(ratio.ratio)
        );
    }
    out.push_str("</svg></div></figure>\n");
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

fn table(out: &mut String, subject: &Subject, trial: &Trial, ranked: &[&Tried]) {
    out.push_str(
        "<h2>Every remedy</h2>\n<div class=\"scroll\" tabindex=\"0\"><table class=\"sortable\" aria-label=\"Every remedy\"><thead><tr><th>remedy</th><th class=\"n\">speed</th>\
         <th>interval</th><th class=\"n\">CPU time</th><th class=\"n\">switches</th><th class=\"n\">runs</th><th>what became of it</th></tr></thead><tbody>\n",
    );
    let base = match subject.metric {
        Some(_) => number::plain(trial.baseline.figure),
        None => number::time_ns(trial.baseline.figure * 1e9),
    };
    let mut row = |cells: [String; 7]| {
        let [name, speed, interval, cpu, switches, runs, note] = cells.map(|cell| escape(&cell));
        let _ = writeln!(
            out,
            "<tr><th>{name}</th><td class=\"n\">{speed}</td><td>{interval}</td><td class=\"n\">{cpu}</td><td class=\"n\">{switches}</td><td class=\"n\">{runs}</td><td>{note}</td></tr>"
        );
    };
    let share =
        |value: Option<f64>| value.map_or_else(String::new, |value| format!("{}x", number::ratio(value)));
    for tried in ranked {
        let known = ratio(tried).filter(|_| tried.failure.is_none());
        row([
            tried.remedy.name.clone(),
            share(known.map(|ratio| ratio.ratio)),
            known.map_or_else(String::new, |ratio| {
                format!("{} to {}", number::ratio(ratio.low), number::ratio(ratio.high))
            }),
            share(tried.cpu),
            share(tried.switches),
            tried.runs.to_string(),
            note(trial, tried),
        ]);
    }
    let baseline = &trial.baseline;
    row([
        "as it is".to_owned(),
        "1x".to_owned(),
        String::new(),
        "1x".to_owned(),
        "1x".to_owned(),
        baseline.runs.to_string(),
        format!(
            "what the others are compared with: {base}, {} of CPU time, {} switches",
            number::time_ns(baseline.cpu_s * 1e9),
            number::count(baseline.switches)
        ),
    ]);
    out.push_str("</tbody></table></div>\n");
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
