//! The findings of a recording as markup: readable without the script, which makes their moments lead to the timeline.

use std::fmt::Write as _;

use holdup_analyze::{Finding, Moment};

use super::super::number;
use super::super::recording::{sentences, since_start_s, summary};
use super::escape;
use crate::export::Directory;
use crate::recording::Recording;
use crate::recording::name;
use sentences::Proof;

/// Moments with a button of their own.
const MOST_MOMENTS: usize = 8;

/// All of them, worst first; or that there are none.
pub(super) fn section(recording: &Recording, directory: &Directory<'_>) -> String {
    let findings = &recording.report.findings;
    let mut out = "<section id=\"findings\" aria-label=\"Findings\">\n".to_owned();
    if findings.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"healthy\">{}</p>",
            escape(&summary::looked_at(&recording.report.facts))
        );
    }
    for (index, finding) in findings.iter().enumerate() {
        one(&mut out, recording, directory, index, finding);
    }
    out.push_str("</section>\n");
    out
}

fn one(out: &mut String, recording: &Recording, directory: &Directory<'_>, index: usize, finding: &Finding) {
    let words = sentences::of(recording, finding);
    let _ = writeln!(
        out,
        "<article class=\"finding\" id=\"finding-{}\"><h2><span class=\"kind\">{}. {}</span> <span class=\"subject\">{}</span> <span class=\"cost\">{}</span></h2>",
        index + 1,
        index + 1,
        escape(finding.kind.name()),
        escape(&words.subject),
        escape(&words.cost)
    );
    // The first one's sentence is the headline of the page.
    if index > 0 {
        let _ = writeln!(out, "<p>{}</p>", escape(&words.what));
    }
    out.push_str("<dl>");
    let mut field = |label: &str, text: &str| {
        let _ = writeln!(out, "<dt>{label}</dt><dd>{}</dd>", escape(text));
    };
    if let Some(place) = &words.place {
        field("where", place);
    }
    if let Some(holder) = &words.holder {
        field("holder", holder);
    }
    if !words.evidence.is_empty() {
        field("seen", &words.evidence.join(", "));
    }
    field("try", words.cure);
    let lead = match words.proof {
        Proof::Command(_) => "",
        Proof::Compare(_) => "change it, record again as AFTER.holdup, and compare: ",
    };
    let command = sentences::command(words.proof.words(), usize::MAX, 0);
    let _ = writeln!(out, "<dt>test</dt><dd>{lead}<code class=\"command\">{}</code></dd>", escape(&command));
    moments(out, recording, directory, &finding.moments);
    out.push_str("</dl></article>\n");
}

fn moments(out: &mut String, recording: &Recording, directory: &Directory<'_>, moments: &[Moment]) {
    if moments.is_empty() {
        return;
    }
    let facts = &recording.report.facts;
    out.push_str("<dt>moments</dt><dd class=\"moments\">");
    for moment in moments.iter().take(MOST_MOMENTS) {
        let since = |ns: u64| ns.saturating_sub(facts.header.began_ns);
        let row = directory.at(moment.tid, moment.from_ns).map_or(-1, |index| index as i64);
        let _ = write!(
            out,
            "<button type=\"button\" class=\"moment\" data-thread=\"{row}\" data-from=\"{}\" data-to=\"{}\">{:.6}s, {} {}</button> ",
            since(moment.from_ns),
            since(moment.to_ns),
            since_start_s(facts, moment.from_ns),
            number::time_ns(moment.to_ns.saturating_sub(moment.from_ns) as f64),
            escape(&name::thread(facts, moment.tid))
        );
    }
    out.push_str("</dd>\n");
}
