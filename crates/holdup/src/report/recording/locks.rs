//! What threads wait for on futexes: the locks first, then what they wait for by design.

use holdup_analyze::{Facts, LockFacts};
use holdup_trace::LockFigures;

use super::super::document::{Column, Document, Table};
use super::super::number;
use super::{more, per_second, rate, sentences, share};
use crate::recording::name;
use crate::text;

/// The tables, most time lost first.
pub fn table(facts: &Facts, limit: usize) -> Document {
    let (locks, idle): (Vec<&LockFacts>, Vec<&LockFacts>) =
        facts.locks.iter().partition(|lock| lock.primitive.is_contention());
    let idle: Vec<&LockFacts> = idle.into_iter().filter(|lock| lock.waits > 0).collect();
    let mut view = Document::default();
    if !locks.is_empty() {
        view.heading("Locks");
        part(&mut view, facts, &locks, limit, true);
    } else if facts.header.capabilities.futexes {
        view.paragraph("No thread had to wait for a lock.");
    } else {
        view.paragraph("Lock waits were not recorded.");
    }
    if !idle.is_empty() {
        view.heading("Waits by design (work, events, joins)");
        part(&mut view, facts, &idle, limit, false);
    }
    if !locks.is_empty() || !idle.is_empty() {
        view.gap();
        view.paragraph(
            "time: share of all threads' time spent waiting; waits/s: waits that slept; most: threads that waited at once; \
             wasted: futex calls that woke nobody, per second",
        );
    }
    view
}

fn part(view: &mut Document, facts: &Facts, locks: &[&LockFacts], limit: usize, contention: bool) {
    let mut table = Table::new([
        Column::right("time"),
        Column::right("waits/s"),
        Column::right("median"),
        Column::right("p99"),
        Column::right("longest"),
        Column::right("most"),
        Column::right("wasted"),
        Column::left("name"),
    ]);
    for lock in locks.iter().take(limit) {
        let row = table.row(row(facts, lock));
        let place = waits(lock).map(|line| format!(", waited for in {line}")).unwrap_or_default();
        row.below(format!("{}{place}", name::primitive(lock.primitive)));
        if let Some(figures) = &lock.figures {
            row.below(counted(figures));
        }
        let holders = sentences::holders(&lock.holder_doing);
        if contention && !holders.is_empty() {
            row.below(format!("its holder meanwhile: {}", holders.join(", ")));
        }
    }
    view.table(table);
    more(view, locks.len(), limit, "row");
}

/// What the interposer counted, where it was asked to.
fn counted(figures: &LockFigures) -> String {
    let time = |ns: u64| number::time_ns(ns as f64);
    format!(
        "taken {} times, {} contended; median hold {}, p99 {}",
        number::count(figures.acquisitions as f64),
        number::percent(share(figures.contended, figures.acquisitions)),
        time(figures.hold.p50_ns),
        time(figures.hold.p99_ns),
    )
}

fn row(facts: &Facts, lock: &LockFacts) -> Vec<String> {
    vec![
        number::percent(share(lock.wait_ns.sum_ns(), facts.totals.thread_ns)),
        rate(per_second(facts, lock.waits)),
        number::time_ns(lock.wait_ns.median_ns() as f64),
        number::time_ns(lock.wait_ns.quantile_ns(0.99) as f64),
        number::time_ns(lock.wait_ns.max_ns() as f64),
        lock.max_waiters.to_string(),
        rate(per_second(facts, lock.wasted_wakes)),
        // The line below says where.
        name::lock_in_row(lock),
    ]
}

/// The two places where it is waited for longest, with their share.
fn waits(lock: &LockFacts) -> Option<String> {
    let all: u64 = lock.wait_sites.iter().map(|site| site.ns).sum();
    let places = name::by_place(&lock.wait_sites).into_iter().take(2);
    let places: Vec<String> =
        places.map(|(place, ns)| format!("{place} ({})", number::percent(share(ns, all)))).collect();
    (!places.is_empty()).then(|| text::list(&places))
}
