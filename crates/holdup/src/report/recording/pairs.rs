//! Threads that wake each other.

use holdup_analyze::{Facts, PairFacts};

use super::super::document::{Column, Document, Table};
use super::super::number;
use super::{more, per_second, rate};
use crate::recording::name;

/// The table, most round trips first.
pub fn table(facts: &Facts, limit: usize) -> Document {
    if facts.pairs.is_empty() {
        return Document::from("No two threads were seen to wake each other.");
    }
    let mut table = Table::new([
        Column::left("one"),
        Column::left("other"),
        Column::right("round\ntrips/s"),
        Column::right("one\nwakes/s"),
        Column::right("other\nwakes/s"),
        Column::right("run"),
    ]);
    for pair in facts.pairs.iter().take(limit) {
        let row = table.row(row(facts, pair));
        if let Some(site) = pair.sites.first().and_then(name::caller) {
            row.below(format!("hand over in {site}"));
        }
    }
    let mut view = Document::default();
    view.table(table);
    more(&mut view, facts.pairs.len(), limit, "pair");
    view.gap();
    view.paragraph(
        "Rates are of the whole recording; a finding's are of the time from the pair's first to its last round trip. run: median \
         CPU time between being woken and waking the other",
    );
    view
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
