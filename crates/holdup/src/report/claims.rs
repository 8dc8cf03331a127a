//! Published claims against what was measured, for the terminal.

use std::fmt::Write as _;

use super::document::{Document, Ink, Text, ink};
use super::number;
use crate::claim::{ClaimResult, Verdict};
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
    let colour = match claim.verdict {
        Verdict::Holds => Ink::Good,
        Verdict::Differs => Ink::Bad,
        Verdict::NotMeasurable => Ink::Faint,
    };
    for (label, words) in [
        ("published", Text::from(&claim.published)),
        ("measured", measured(claim).into()),
        ("verdict", ink(colour, verdict(claim))),
        ("why", Text::from(&claim.why)),
    ] {
        if !words.is_empty() {
            inner.field(10, label, |value| value.paragraph(words));
        }
    }
}

/// How many claims hold, differ, cannot be measured here, and which of them are close.
pub fn summary(claims: &[ClaimResult]) -> String {
    let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let close: Vec<String> = claims.iter().filter(|claim| claim.close).map(|claim| text::clean(&claim.id)).collect();
    let verb = |n: usize, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
    let mut words = format!(
        "Of {}, {}, {} and {} not measurable here.",
        number::counted(claims.len(), "published claim"),
        verb(count(Verdict::Holds), "holds", "hold"),
        verb(count(Verdict::Differs), "differs", "differ"),
        verb(count(Verdict::NotMeasurable), "is", "are"),
    );
    if !close.is_empty() {
        let _ = write!(words, " Close, so that another run may decide otherwise: {}.", close.join(", "));
    }
    words
}

/// The verdict with what weakens it: `differs (close)`.
pub fn verdict(claim: &ClaimResult) -> String {
    if claim.close { format!("{} (close)", claim.verdict) } else { claim.verdict.to_string() }
}

/// The figure that decided: as the claim words it, with the interval where the words have none.
pub fn measured(claim: &ClaimResult) -> String {
    let words = text::clean(&claim.measured);
    match &claim.figure {
        Some(figure) if words.is_empty() => number::ratio_interval(figure),
        Some(figure) if figure.n > 1 && !words.contains('[') => {
            format!("{words} (interval {}-{})", number::ratio(figure.low), number::ratio(figure.high))
        }
        _ => words,
    }
}
