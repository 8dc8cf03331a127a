//! The findings of a recording as markup: readable without the script, which makes their moments lead to the timeline.

use holdup_analyze::{Finding, Moment};
use maud::{Markup, html};

use super::super::number;
use super::super::recording::{sentences, since_start_s, summary};
use crate::export::Directory;
use crate::recording::Recording;
use crate::recording::name;

/// Moments with a button of their own.
const MOST_MOMENTS: usize = 8;

/// All of them, worst first; or that there are none.
pub(super) fn section(recording: &Recording, directory: &Directory<'_>) -> Markup {
    let report = &recording.report;
    html! {
        section id="findings" aria-label="Findings" {
            @if report.findings.is_empty() { p class="healthy" { (summary::looked_at(&report.facts)) } }
            @for (index, finding) in report.findings.iter().enumerate() {
                (one(recording, directory, index, finding))
            }
        }
    }
}

fn one(recording: &Recording, directory: &Directory<'_>, index: usize, finding: &Finding) -> Markup {
    let words = sentences::of(recording, finding);
    let number = index + 1;
    // The first one's sentence is the headline of the page.
    let fields = summary::fields(&words, None);
    html! {
        article class="finding" id={ "finding-" (number) } {
            h2 {
                span class="kind" { (number) ". " (finding.kind.name()) } " "
                span class="subject" { (words.subject) } " "
                span class="cost" { (words.cost) }
            }
            @if index > 0 { p { (words.what) } }
            dl {
                (fields.definitions())
                @if !finding.moments.is_empty() { (moments(recording, directory, &finding.moments)) }
            }
        }
    }
}

fn moments(recording: &Recording, directory: &Directory<'_>, moments: &[Moment]) -> Markup {
    let facts = &recording.report.facts;
    let since = |ns: u64| ns.saturating_sub(facts.header.began_ns);
    let row = |moment: &Moment| directory.at(moment.tid, moment.from_ns).map_or(-1, |index| index as i64);
    html! {
        dt { "moments" }
        dd class="moments" {
            @for moment in moments.iter().take(MOST_MOMENTS) {
                button type="button" class="moment" data-thread=(row(moment)) data-from=(since(moment.from_ns))
                    data-to=(since(moment.to_ns)) {
                    (format!("{:.6}s", since_start_s(facts, moment.from_ns))) ", "
                    (number::time_ns(moment.to_ns.saturating_sub(moment.from_ns) as f64)) " "
                    (name::thread(facts, moment.tid))
                }
            }
        }
    }
}
