//! The tables: a line per recording, totals, who was taken for what, and all of it as a page of the docs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use super::judge::{Row, count};
use super::matrix::Variant;

/// The head of the lines.
pub const HEAD: &str = "program                     build    as   truth                            said \
    first           right share bound gain  names";

/// A recording's line.
pub fn line(row: &Row) -> String {
    format!(
        "{:<27} {:<8} {:<4} {:<32} {:<20} {:<5} {:>5} {:>5} {:>5} {}",
        row.program,
        row.variant.name(),
        row.user,
        row.truth,
        row.said,
        verdict(row),
        percent(row.share),
        number(row.bound),
        number(row.gain),
        row.note,
    )
}

fn verdict(row: &Row) -> &'static str {
    match (row.is_right, row.is_named) {
        (true, _) => "yes",
        (false, Some(false))
            if row.truth.split(' ').next().is_some_and(|kinds| kinds.split('|').any(|kind| kind == row.said)) =>
        {
            "name"
        }
        (false, _) => "NO",
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or(String::new(), |share| format!("{:.0}%", share * 100.0))
}

fn number(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.2}"))
}

/// The questions of the totals, each with its answers.
type Question = (&'static str, fn(&Row) -> Option<bool>);
const QUESTIONS: &[Question] = &[
    ("first finding right", |row| Some(row.is_right)),
    ("named right", |row| row.is_named),
    ("share within range", |row| row.is_share_right),
    ("bound not below the cure's gain", Row::is_bound_right),
    ("cure of 10% or more gains", Row::is_cure_right),
    ("account adds up to 1%", Row::is_account_right),
    ("false accusations", |row| (row.best == "healthy").then(|| row.is_accusation())),
    ("false all-clears", |row| (row.best != "healthy").then(|| row.is_all_clear())),
    ("nothing found, but said to be no all-clear", |row| {
        (row.best != "healthy").then(|| row.is_silent() && row.is_doubted)
    }),
    ("recording failed", |row| Some(row.said == "failed")),
];

/// Totals for each build and user, and the confusion matrix, as Markdown.
pub fn totals(rows: &[Row], skipped: &[String]) -> String {
    let mut groups: Vec<(Variant, &str)> = Vec::new();
    for row in rows {
        if !groups.contains(&(row.variant, row.user.as_str())) {
            groups.push((row.variant, row.user.as_str()));
        }
    }
    let mut text = String::from("|");
    for (variant, user) in &groups {
        let _ = write!(text, " | {}, {}", variant.name(), user);
    }
    let _ = writeln!(text, " |\n|---{}|", "|---:".repeat(groups.len()));
    for (what, answer) in QUESTIONS {
        let _ = write!(text, "| {what}");
        for group in &groups {
            let rows: Vec<&Row> = rows.iter().filter(|row| (row.variant, row.user.as_str()) == *group).collect();
            let (yes, of) = count(&rows, answer);
            let _ = if of == 0 { write!(text, " | –") } else { write!(text, " | {yes} of {of}") };
        }
        text.push_str(" |\n");
    }
    let _ = writeln!(text, "\nTruth (rows) and what was said first (columns), all builds and users:\n");
    text.push_str(&confusion(rows));
    let _ =
        writeln!(text, "\nSkipped: {}.", if skipped.is_empty() { "nothing".to_owned() } else { skipped.join("; ") });
    text
}

/// Which kind was taken for which.
fn confusion(rows: &[Row]) -> String {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for row in rows {
        *counts.entry(&row.best).or_default().entry(&row.said).or_default() += 1;
    }
    let said: BTreeSet<&str> = rows.iter().map(|row| row.said.as_str()).collect();
    let mut text = String::from("|");
    said.iter().for_each(|kind| _ = write!(text, " | {kind}"));
    let _ = writeln!(text, " |\n|---{}|", "|---:".repeat(said.len()));
    for (truth, counts) in &counts {
        let _ = write!(text, "| {truth}");
        for kind in &said {
            let _ = match counts.get(kind) {
                Some(count) => write!(text, " | {count}"),
                None => write!(text, " | "),
            };
        }
        text.push_str(" |\n");
    }
    text
}

/// The page for docs/benchmarks/.
pub fn document(rows: &[Row], skipped: &[String]) -> String {
    let mut text = String::from(
        "# What is said first, and what is true\n\n\
         Programs of `fixtures/truth/`, whose fault is known by construction, recorded and reported by `cargo xtask truth`.\n\
         A first finding is right if its kind is one that the program's header accepts and, where the build has names, it names the\n\
         subject. A false all-clear is a fault of which nothing was said, not even that the recording could not have shown it. Bounds above\n\
         20 are not stated. Share is the finding's own severity; gain is how much faster the program ran with its cure, the ratio of medians of\n\
         three runs each.\n\n",
    );
    text.push_str(&totals(rows, skipped));
    text.push_str(
        "\n| program | build | as | truth | said first | right | share | bound | gain \
        |\n|---|---|---|---|---|---|---:|---:|---:|\n",
    );
    for row in rows {
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} | {} | {} | {} | {} |",
            row.program,
            row.variant.name(),
            row.user,
            row.truth.replace('|', " or "),
            row.said,
            verdict(row),
            percent(row.share),
            number(row.bound),
            number(row.gain),
        );
    }
    text
}
