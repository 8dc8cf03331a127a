//! One finding in full: all its evidence, the call paths, the moments to look at.

use std::fmt::Write as _;

use holdup_analyze::{Facts, Finding, LockFacts, Moment, Site};

use super::super::{Ink, Style, number};
use super::{sentences, share, since_start_s};
use crate::recording::Recording;
use crate::recording::name;
use crate::text::{self, cut};

/// Call paths per list.
const MOST_SITES: usize = 3;

/// Frames per call path.
const MOST_FRAMES: usize = 12;

/// Moments that are listed.
const MOST_MOMENTS: usize = 8;

/// Everything about the finding with this number, from 0; `None` if there is none.
pub fn full(recording: &Recording, index: usize, style: &Style) -> Option<String> {
    let facts = &recording.report.facts;
    let finding = recording.report.findings.get(index)?;
    let words = sentences::of(recording, finding);
    let mut out = format!("{}\n", style.paint(Ink::Bad, &format!("{}. {}", index + 1, finding.kind.name())));
    let _ = writeln!(out, "{}\n", style.paint(Ink::Bold, &text::wrap(&words.what, style.width, 0)));
    for subject in &finding.subjects {
        field(&mut out, "about", &name::subject(facts, subject), style);
    }
    field(&mut out, "costs", &words.cost, style);
    if let Some(place) = &words.place {
        field(&mut out, "where", place, style);
    }
    field(&mut out, "try", words.cure, style);
    let _ = writeln!(out, "test   {}", words.proof.text(style.width, 7));
    evidence(&mut out, finding, style);
    if let Some(site) = &finding.place {
        sites(&mut out, "Call path", std::slice::from_ref(site), style);
    }
    if let Some(lock) = sentences::lock(facts, finding) {
        about_lock(&mut out, facts, lock, style);
    }
    moments(&mut out, recording, &finding.moments, style);
    let _ = writeln!(
        out,
        "\ndocs/findings.md#{} explains signs, thresholds and how it can be wrong.",
        finding.kind.name()
    );
    Some(out)
}

fn field(out: &mut String, label: &str, what: &str, style: &Style) {
    let wrapped = text::wrap(what, style.width.saturating_sub(7), 0).replace('\n', "\n       ");
    let _ = writeln!(out, "{} {wrapped}", text::left(label, 6));
}

fn heading(out: &mut String, what: &str, style: &Style) {
    let _ = writeln!(out, "\n{}", style.paint(Ink::Bold, &cut(what, style.width)));
}

fn evidence(out: &mut String, finding: &Finding, style: &Style) {
    if finding.evidence.is_empty() {
        return;
    }
    heading(out, "Evidence", style);
    let labels: Vec<String> = finding.evidence.iter().map(|one| sentences::label(one.name)).collect();
    let width = labels.iter().map(String::len).max().unwrap_or(0);
    for (one, label) in finding.evidence.iter().zip(&labels) {
        let _ = writeln!(out, "  {}  {}", text::left(label, width), sentences::figure(one.value, one.unit));
    }
}

fn about_lock(out: &mut String, facts: &Facts, lock: &LockFacts, style: &Style) {
    let title = name::lock(lock);
    heading(out, &format!("{title}: {}", name::primitive(lock.primitive)), style);
    let waits = &lock.wait_ns;
    let line = format!(
        "{} waits: median {}, p90 {}, p99 {}, longest {}; {} refused, {} timed out; {} wakes, {} for nothing; at most {} waited at once",
        number::count(lock.waits as f64),
        number::time_ns(waits.median_ns() as f64),
        number::time_ns(waits.quantile_ns(0.9) as f64),
        number::time_ns(waits.quantile_ns(0.99) as f64),
        number::time_ns(waits.max_ns() as f64),
        number::count(lock.refused_waits as f64),
        number::count(lock.timeouts as f64),
        number::count(lock.wakes as f64),
        number::count(lock.wasted_wakes as f64),
        lock.max_waiters,
    );
    let _ = writeln!(out, "  {}", text::wrap(&line, style.width - style.width.min(2), 2));
    if let Some((all, held, contended)) = lock.words.filter(|(all, _, _)| *all > 0) {
        let _ = writeln!(
            out,
            "  looked at {all} times: held {}, with waiters {}",
            number::percent(share(held, all)),
            number::percent(share(contended, all))
        );
    }
    let doing = sentences::holders(&lock.holder_doing);
    if !doing.is_empty() {
        let line = format!("its holder meanwhile: {}", doing.join(", "));
        let _ = writeln!(out, "  {}", text::wrap(&line, style.width - style.width.min(2), 2));
    }
    who(out, facts, lock, style);
    sites(out, "Waited for in", &lock.wait_sites, style);
    sites(out, "Released in", &lock.wake_sites, style);
    sites(out, "Held while off CPU in", &lock.holder_doing.off_sites, style);
}

fn who(out: &mut String, facts: &Facts, lock: &LockFacts, style: &Style) {
    let all = lock.wait_ns.sum_ns();
    let waiters: Vec<String> = lock
        .waiters
        .iter()
        .take(4)
        .map(|(tid, off)| format!("{} {}", name::thread(facts, *tid), number::percent(share(off.ns, all))))
        .collect();
    let holders: Vec<String> = lock
        .holders
        .iter()
        .take(4)
        .map(|holder| {
            format!("{} {}", name::thread(facts, holder.tid), number::percent(share(holder.ns, all)))
        })
        .collect();
    for (label, list) in [("waiting", waiters), ("ended the waits", holders)] {
        if !list.is_empty() {
            let line = format!("{label}: {}", list.join(", "));
            let _ = writeln!(out, "  {}", text::wrap(&line, style.width - style.width.min(2), 2));
        }
    }
}

/// Call paths, innermost first.
fn sites(out: &mut String, title: &str, sites: &[Site], style: &Style) {
    let known: Vec<&Site> = sites.iter().filter(|site| !site.trail.is_empty()).take(MOST_SITES).collect();
    for (index, site) in known.iter().enumerate() {
        let how_long =
            if site.ns > 0 { format!(", {}", number::time_ns(site.ns as f64)) } else { String::new() };
        let title = if index > 0 { format!("Also {}", title.to_lowercase()) } else { title.to_owned() };
        let _ = writeln!(out, "  {title} ({}x{how_long}):", number::count(site.count as f64));
        for frame in site.trail.iter().take(MOST_FRAMES) {
            let inlined = if frame.inlined { " (inlined)" } else { "" };
            let _ = writeln!(out, "{}", cut(&format!("    {}{inlined}", name::place(frame)), style.width));
        }
        if site.trail.len() > MOST_FRAMES {
            let _ = writeln!(out, "    .. {} further out", site.trail.len() - MOST_FRAMES);
        }
    }
}

fn moments(out: &mut String, recording: &Recording, moments: &[Moment], style: &Style) {
    if moments.is_empty() {
        return;
    }
    let facts = &recording.report.facts;
    heading(out, "Moments, worst first", style);
    for moment in moments.iter().take(MOST_MOMENTS) {
        let _ = writeln!(
            out,
            "  {:>10.6}s to {:>10.6}s  {:>8}  {}",
            since_start_s(facts, moment.from_ns),
            since_start_s(facts, moment.to_ns),
            number::time_ns(moment.to_ns.saturating_sub(moment.from_ns) as f64),
            name::thread(facts, moment.tid)
        );
    }
    let first = moments[0];
    // Rounded outward, so that the window holds the whole moment.
    let since_us = |time_ns: u64| time_ns.saturating_sub(facts.header.began_ns) / 1_000;
    let window = [format!("{}us", since_us(first.from_ns)), format!("{}us", since_us(first.to_ns) + 1)];
    let file = sentences::quoted(&recording.path.to_string_lossy());
    let words = ["holdup", "report", &file, "--switches", "--from", &window[0], "--to", &window[1]];
    let _ = writeln!(out, "  {}", sentences::command(&words.map(str::to_owned), style.width, 2));
}
