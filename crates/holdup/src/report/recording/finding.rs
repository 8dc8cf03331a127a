//! One finding in full: all its evidence, the call paths, the moments to look at.

use holdup_analyze::{Facts, Finding, LockFacts, Moment, Site};

use super::super::document::{Column, Document, Ink, Table, ink};
use super::super::number;
use super::summary::LABEL;
use super::{sentences, share, since_start_s};
use crate::recording::Recording;
use crate::recording::name;

/// Call paths per list.
const MOST_SITES: usize = 3;

/// Frames per call path.
const MOST_FRAMES: usize = 12;

/// Moments that are listed.
const MOST_MOMENTS: usize = 8;

/// Everything about the finding with this number, from 0; `None` if there is none.
pub fn full(recording: &Recording, index: usize) -> Option<Document> {
    let facts = &recording.report.facts;
    let finding = recording.report.findings.get(index)?;
    let words = sentences::of(recording, finding);
    let mut all = Document::default();
    all.paragraph(ink(Ink::Bad, format!("{}. {}", index + 1, finding.kind.name())));
    all.headline(&words.what);
    all.gap();
    let mut field = |label, what: &str| all.field(LABEL, label, |value| value.paragraph(what));
    for subject in &finding.subjects {
        field("about", &name::subject(facts, subject));
    }
    field("costs", &words.cost);
    if let Some(place) = &words.place {
        field("where", place);
    }
    field("try", words.cure);
    all.field(LABEL, words.proof.label(), |value| words.proof.show(value));
    evidence(&mut all, finding);
    if let Some(site) = &finding.place {
        all.indented(2, |inner| sites(inner, "Call path", std::slice::from_ref(site)));
    }
    if let Some(lock) = sentences::lock(facts, finding) {
        all.heading(format!("{}: {}", name::lock(lock), name::primitive(lock.primitive)));
        all.indented(2, |inner| about_lock(inner, facts, lock));
    }
    moments(&mut all, recording, &finding.moments);
    all.gap();
    all.paragraph(format!(
        "docs/findings.md#{} explains signs, thresholds and how it can be wrong.",
        finding.kind.name()
    ));
    Some(all)
}

fn evidence(all: &mut Document, finding: &Finding) {
    if finding.evidence.is_empty() {
        return;
    }
    all.heading("Evidence");
    let mut table = Table::new([Column::left(""), Column::left("")]);
    for one in &finding.evidence {
        table.row([sentences::label(one.name), sentences::figure(one.value, one.unit)]);
    }
    all.indented(2, |inner| inner.table(table));
}

fn about_lock(inner: &mut Document, facts: &Facts, lock: &LockFacts) {
    let waits = &lock.wait_ns;
    inner.paragraph(format!(
        "{} waits: median {}, p90 {}, p99 {}, longest {}; {} refused, {} timed out; {} wakes, {} for nothing; at most \
         {} waited at once",
        number::count(lock.waits as f64),
        number::time_ns(waits.median_ns() as f64),
        number::time_ns(waits.quantile_ns(0.9) as f64),
        number::time_ns(waits.quantile_ns(0.99) as f64),
        number::time_ns(waits.max_ns() as f64),
        number::count(lock.eagain_waits as f64),
        number::count(lock.timeouts as f64),
        number::count(lock.wakes as f64),
        number::count(lock.wasted_wakes as f64),
        lock.max_waiters,
    ));
    if let Some((all, held, contended)) = lock.words.filter(|(all, _, _)| *all > 0) {
        inner.paragraph(format!(
            "looked at {all} times: held {}, with waiters {}",
            number::percent(share(held, all)),
            number::percent(share(contended, all))
        ));
    }
    let of_waits = |ns| number::percent(share(ns, lock.wait_ns.sum_ns()));
    let waiters = lock.waiters.iter().take(4);
    let waiters = waiters.map(|(tid, off)| format!("{} {}", name::thread(facts, *tid), of_waits(off.ns)));
    let holders = lock.holders.iter().take(4);
    let holders = holders.map(|one| format!("{} {}", name::thread(facts, one.tid), of_waits(one.ns)));
    for (label, list) in [
        ("its holder meanwhile", sentences::holders(&lock.holder_doing)),
        ("waiting", waiters.collect()),
        ("ended the waits", holders.collect()),
    ] {
        if !list.is_empty() {
            inner.paragraph(format!("{label}: {}", list.join(", ")));
        }
    }
    sites(inner, "Waited for in", &lock.wait_sites);
    sites(inner, "Held in", &lock.hold_sites);
    sites(inner, "Released in", &lock.wake_sites);
    sites(inner, "Held while off CPU in", &lock.holder_doing.off_sites);
}

/// Call paths, innermost first.
fn sites(inner: &mut Document, title: &str, sites: &[Site]) {
    let known = sites.iter().filter(|site| !site.call_path.is_empty()).take(MOST_SITES);
    for (index, site) in known.enumerate() {
        let how_long = if site.ns > 0 { format!(", {}", number::time_ns(site.ns as f64)) } else { String::new() };
        let title = if index > 0 { format!("Also {}", title.to_lowercase()) } else { title.to_owned() };
        inner.paragraph(format!("{title} ({}x{how_long}):", number::count(site.count as f64)));
        inner.indented(2, |path| {
            for frame in site.call_path.iter().take(MOST_FRAMES) {
                let inlined = if frame.inlined { " (inlined)" } else { "" };
                path.line(format!("{}{inlined}", name::place(frame)));
            }
            if site.call_path.len() > MOST_FRAMES {
                path.line(format!(".. {} further out", site.call_path.len() - MOST_FRAMES));
            }
        });
    }
}

fn moments(all: &mut Document, recording: &Recording, moments: &[Moment]) {
    let Some(first) = moments.first() else { return };
    let facts = &recording.report.facts;
    all.heading("Moments, worst first");
    let mut table =
        Table::new([Column::right(""), Column::left(""), Column::right(""), Column::right(""), Column::left("")]);
    for moment in moments.iter().take(MOST_MOMENTS) {
        let at = |time_ns| format!("{:.6}s", since_start_s(facts, time_ns));
        let length = number::time_ns(moment.to_ns.saturating_sub(moment.from_ns) as f64);
        let who = name::thread(facts, moment.tid);
        table.row([at(moment.from_ns), "to".to_owned(), at(moment.to_ns), length, who]);
    }
    // Rounded outward, so that the window holds the whole moment.
    let since_us = |time_ns: u64| time_ns.saturating_sub(facts.header.began_ns) / 1_000;
    let window = [format!("{}us", since_us(first.from_ns)), format!("{}us", since_us(first.to_ns) + 1)];
    let file = sentences::quoted(&recording.path.to_string_lossy());
    all.indented(2, |inner| {
        inner.table(table);
        inner.command(["holdup", "report", &file, "--switches", "--from", &window[0], "--to", &window[1]]);
    });
}
