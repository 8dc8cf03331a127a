//! Published claims against what was measured, for the terminal and as a Markdown table.

use std::fmt::Write as _;

use super::document::{Document, Ink, Text, ink};
use super::number;
use crate::claim::{ClaimResult, Reading, Verdict};
use crate::text;

/// One paragraph per claim, counts at the end.
pub fn table(claims: &[ClaimResult]) -> Document {
    let mut all = Document::default();
    let mut experiment = None;
    for claim in claims {
        if experiment.replace(&claim.experiment) != Some(&claim.experiment) {
            all.heading(&claim.experiment);
        }
        all.field(4, &claim.id, |value| value.paragraph(&claim.claim));
        all.indented(5, |inner| one(inner, claim));
    }
    if !claims.is_empty() {
        all.gap();
    }
    all.hanging(2, summary(claims));
    all
}

fn one(inner: &mut Document, claim: &ClaimResult) {
    let setting = &claim.setting;
    for (label, words) in [
        ("published", &claim.published),
        ("on", &setting.on),
        ("same here", &setting.same),
        ("not same", &setting.not_same),
    ] {
        field(inner, label, Text::from(words));
    }
    reading(inner, if claim.now.is_some() { "then" } else { "measured" }, &claim.then);
    if let Some(now) = &claim.now {
        reading(inner, "now", now);
    }
}

fn reading(inner: &mut Document, label: &'static str, reading: &Reading) {
    let colour = match reading.verdict {
        Verdict::Holds => Ink::Good,
        Verdict::Differs => Ink::Bad,
        Verdict::NotMeasurable => Ink::Faint,
    };
    field(inner, label, measured(reading).into());
    field(inner, "verdict", ink(colour, verdict(reading)));
    field(inner, "why", Text::from(&reading.why));
}

fn field(inner: &mut Document, label: &'static str, words: Text) {
    if !words.is_empty() {
        inner.field(10, label, |value| value.paragraph(words));
    }
}

/// How many claims hold, differ, cannot be measured here, and which of them are close; then, and with today's locks.
pub fn summary(claims: &[ClaimResult]) -> String {
    let then: Vec<Verdict> = claims.iter().map(|claim| claim.then.verdict).collect();
    let now: Vec<Verdict> = claims.iter().filter_map(|claim| Some(claim.now.as_ref()?.verdict)).collect();
    let mut words = format!("Of {}, {}.", number::counted(claims.len(), "published claim"), counts(&then));
    if !now.is_empty() {
        let _ = write!(words, " With today's locks in the place of their own, of {}, {}.", now.len(), counts(&now));
    }
    let close = close(claims);
    if !close.is_empty() {
        let _ = write!(words, " Close, so that another run may decide otherwise: {}.", close.join(", "));
    }
    words
}

fn counts(verdicts: &[Verdict]) -> String {
    let count = |wanted| verdicts.iter().filter(|verdict| **verdict == wanted).count();
    let verb = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    format!(
        "{}, {} and {} not measurable here",
        verb(count(Verdict::Holds), "holds", "hold"),
        verb(count(Verdict::Differs), "differs", "differ"),
        verb(count(Verdict::NotMeasurable), "is", "are"),
    )
}

/// The close ones: `H4`, and `H4 now` where the reading with today's lock is.
fn close(claims: &[ClaimResult]) -> Vec<String> {
    let mut close = Vec::new();
    for claim in claims {
        let id = text::clean(&claim.id);
        close.extend(claim.then.close.then(|| id.clone()));
        close.extend(claim.now.as_ref().is_some_and(|now| now.close).then(|| format!("{id} now")));
    }
    close
}

/// The verdict with what weakens it: `differs (close)`.
pub fn verdict(reading: &Reading) -> String {
    if reading.close { format!("{} (close)", reading.verdict) } else { reading.verdict.to_string() }
}

/// The figure that decided: as the claim words it, with the interval where the words have none.
pub fn measured(reading: &Reading) -> String {
    let words = text::clean(&reading.measured);
    match &reading.figure {
        Some(figure) if words.is_empty() => number::ratio_interval(figure),
        Some(figure) if figure.n > 1 && !words.contains('[') => {
            format!("{words} (interval {}-{})", number::ratio(figure.low), number::ratio(figure.high))
        }
        _ => words,
    }
}

/// One row per claim, in Markdown: what was published, both verdicts, and in which points the test is fair.
pub fn markdown(claims: &[ClaimResult]) -> String {
    let cell = |words: &str| text::clean(words).replace('|', "\\|");
    let mut table =
        "| claim | published | then | now | the same here | not the same |\n|---|---|---|---|---|---|\n".to_owned();
    for claim in claims {
        let setting = &claim.setting;
        let said = |reading: &Reading| format!("**{}**: {}", verdict(reading), cell(&measured(reading)));
        let _ = writeln!(
            table,
            "| {}: {} | {} ({}) | {} | {} | {} | {} |",
            cell(&claim.id),
            cell(&claim.claim),
            cell(&claim.published),
            cell(&setting.on),
            said(&claim.then),
            claim.now.as_ref().map_or_else(|| "no lock that has changed".to_owned(), said),
            cell(&setting.same),
            cell(&setting.not_same),
        );
    }
    format!("{table}\n{}\n", summary(claims))
}
