//! What threads wait for on futexes: the locks first, then what they wait for by design.

use holdup_analyze::{Facts, LockFacts, Site};
use holdup_trace::LockFigures;

use super::super::{Ink, Style, number};
use super::columns::{Side, Table};
use super::{more, per_second, rate, sentences, share};
use crate::recording::name;
use crate::text;

/// The tables, most time lost first.
pub fn table(facts: &Facts, limit: usize, style: &Style) -> String {
    let (locks, idle): (Vec<&LockFacts>, Vec<&LockFacts>) =
        facts.locks.iter().partition(|lock| lock.primitive.is_contention());
    let idle: Vec<&LockFacts> = idle.into_iter().filter(|lock| lock.waits > 0).collect();
    let mut out = String::new();
    if locks.is_empty() {
        let looked = match facts.header.grade.futexes {
            true => "No thread had to wait for a lock.",
            false => "Lock waits were not recorded.",
        };
        out.push_str(looked);
        out.push('\n');
    } else {
        out.push_str(&style.paint(Ink::Bold, "Locks"));
        out.push('\n');
        out.push_str(&part(facts, &locks, limit, style, true));
    }
    if !idle.is_empty() {
        out.push('\n');
        out.push_str(&style.paint(Ink::Bold, "Waits by design (work, events, joins)"));
        out.push('\n');
        out.push_str(&part(facts, &idle, limit, style, false));
    }
    if !locks.is_empty() || !idle.is_empty() {
        out.push_str(LEGEND);
    }
    out
}

const LEGEND: &str = "
time: share of all threads' time spent waiting; waits/s: waits that slept;
most: threads that waited at once; wasted: futex calls that woke
nobody, per second
";

fn part(facts: &Facts, locks: &[&LockFacts], limit: usize, style: &Style, contention: bool) -> String {
    let mut table = Table::new(&[
        ("time", Side::Right),
        ("waits/s", Side::Right),
        ("median", Side::Right),
        ("p99", Side::Right),
        ("longest", Side::Right),
        ("most", Side::Right),
        ("wasted", Side::Right),
        ("name", Side::Left),
    ]);
    for lock in locks.iter().take(limit) {
        table.row(row(facts, lock));
        let place = waits(lock).map(|line| format!(", waited for in {line}")).unwrap_or_default();
        table.line(format!("      {}{place}", name::primitive(lock.primitive)));
        if let Some(figures) = &lock.figures {
            table.line(format!("      {}", counted(figures)));
        }
        let holders = sentences::holders(&lock.holder_doing);
        if contention && !holders.is_empty() {
            table.line(format!("      its holder meanwhile: {}", holders.join(", ")));
        }
    }
    let mut out = table.text(style);
    out.push_str(&more(locks.len(), limit.min(locks.len()), "row"));
    out
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
        name::lock_short(&lock.name, lock.addr),
    ]
}

/// The two places where it is waited for longest, with their share.
fn waits(lock: &LockFacts) -> Option<String> {
    let all: u64 = lock.wait_sites.iter().map(|site| site.ns).sum();
    let place = |site: &Site| {
        let place = name::caller(site)?;
        Some(format!("{place} ({})", number::percent(share(site.ns, all))))
    };
    let places: Vec<String> = lock.wait_sites.iter().take(2).filter_map(place).collect();
    (!places.is_empty()).then(|| text::list(&places))
}
