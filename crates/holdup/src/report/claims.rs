//! Published claims against what was measured, for the terminal.

use std::fmt::Write as _;

use super::{Ink, Style, number};
use crate::claim::{ClaimResult, Verdict};
use crate::text;

/// Widest label of a claim's lines.
const LABEL: usize = 9;

/// One paragraph per claim, counts at the end.
pub fn table(claims: &[ClaimResult], style: &Style) -> String {
    let mut out = String::new();
    let mut experiment: Option<&str> = None;
    for claim in claims {
        if experiment != Some(&claim.experiment) {
            if experiment.is_some() {
                out.push('\n');
            }
            let _ = writeln!(out, "{}", style.paint(Ink::Bold, &text::clean(&claim.experiment)));
            experiment = Some(&claim.experiment);
        }
        one(&mut out, claim, style);
    }
    if !claims.is_empty() {
        out.push('\n');
    }
    let _ = writeln!(out, "{}", text::wrap(&summary(claims), style.width, 2));
    out
}

/// How many claims hold, differ, cannot be measured here, and which of them are close.
pub fn summary(claims: &[ClaimResult]) -> String {
    let count = |verdict| claims.iter().filter(|claim| claim.verdict == verdict).count();
    let close: Vec<String> =
        claims.iter().filter(|claim| claim.close).map(|claim| text::clean(&claim.id)).collect();
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

fn one(out: &mut String, claim: &ClaimResult, style: &Style) {
    let ink = match claim.verdict {
        Verdict::Holds => Ink::Good,
        Verdict::Differs => Ink::Bad,
        Verdict::NotMeasurable => Ink::Faint,
    };
    let said = text::wrap(&text::clean(&claim.claim), style.width.saturating_sub(5).max(20), 0);
    let mut id = text::clean(&claim.id);
    // An id that is longer than those of the sources has a line of its own.
    if text::columns(&id) > 4 {
        let _ = writeln!(out, "{id}");
        id.clear();
    }
    for part in said.lines() {
        let _ = writeln!(out, "{} {part}", text::left(&id, 4));
        id.clear();
    }
    let mut line = |label: &str, words: &str, ink: Option<Ink>| {
        if words.is_empty() {
            return;
        }
        let indent = 5 + LABEL + 2;
        let words = text::wrap(words, style.width.saturating_sub(indent).max(20), 0);
        for (i, part) in words.lines().enumerate() {
            let label = if i == 0 { label } else { "" };
            let part = ink.map_or_else(|| part.to_owned(), |ink| style.paint(ink, part));
            let _ = writeln!(out, "     {}  {part}", text::left(label, LABEL));
        }
    };
    line("published", &text::clean(&claim.published), None);
    line("measured", &measured(claim), None);
    line("verdict", &verdict(claim), Some(ink));
    line("why", &text::clean(&claim.why), None);
}
