//! Threads that wake each other.

use holdup_analyze::{Facts, PairFacts};

use super::super::{Style, number};
use super::columns::{Side, Table};
use super::{more, per_second, rate};
use crate::recording::name;

/// The table, most round trips first.
pub fn table(facts: &Facts, limit: usize, style: &Style) -> String {
    if facts.pairs.is_empty() {
        return "No two threads were seen to wake each other.\n".to_owned();
    }
    let mut table = Table::new(&[
        ("one", Side::Left),
        ("other", Side::Left),
        ("round trips/s", Side::Right),
        ("one wakes/s", Side::Right),
        ("other wakes/s", Side::Right),
        ("run", Side::Right),
    ]);
    for pair in facts.pairs.iter().take(limit) {
        table.row(row(facts, pair));
        if let Some(site) = pair.sites.first().and_then(name::caller) {
            table.line(format!("    hand over in {site}"));
        }
    }
    let mut out = table.text(style);
    out.push_str(&more(facts.pairs.len(), limit.min(facts.pairs.len()), "pair"));
    out.push_str("\nrun: median time between being woken and waking the other\n");
    out
}

fn row(facts: &Facts, pair: &PairFacts) -> Vec<String> {
    let rate = |count: u64| rate(per_second(facts, count));
    vec![
        name::thread(facts, pair.a),
        name::thread(facts, pair.b),
        rate(pair.round_trips),
        rate(pair.wakings.a_to_b),
        rate(pair.wakings.b_to_a),
        number::time_ns(pair.run_ns.median_ns() as f64),
    ]
}
