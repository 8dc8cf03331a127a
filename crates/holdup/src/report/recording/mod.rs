//! A recording for people: one screen of findings, views of threads, locks, pairs and code, and JSON of all of it.
//!
//! Like the rest of [`report`](super), every function is pure: the same recording gives the same text.

pub mod account;
pub mod code;
pub mod cpus;
pub mod diff;
pub mod doctor;
pub mod finding;
mod goroutines;
pub mod json;
pub mod locks;
pub mod pairs;
pub mod sentences;
pub mod summary;
pub mod switches;
pub mod tables;
pub mod threads;

#[cfg(test)]
mod schema_tests;
#[cfg(test)]
pub(crate) mod specimen;
#[cfg(test)]
mod tests;

use holdup_analyze::Facts;

use super::document::Document;

/// A count per second of the recording; 0 for one that has no length.
pub(crate) fn per_second(facts: &Facts, count: u64) -> f64 {
    match facts.span_ns() {
        0 => 0.0,
        span_ns => count as f64 * 1e9 / span_ns as f64,
    }
}

/// A rate as it stands in a table: whole, but for small ones a digit behind the point.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        small if small > 0.0 && small < 0.1 => "<0.1".to_owned(),
        small if small > 0.0 && small < 9.95 => format!("{small:.1}"),
        large => super::number::count(large.round()),
    }
}

/// A part of a whole, 0 to 1; 0 of nothing.
pub(crate) fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// A moment as seconds since the recording began.
pub(crate) fn since_start_s(facts: &Facts, time_ns: u64) -> f64 {
    time_ns.saturating_sub(facts.header.began_ns) as f64 / 1e9
}

/// How many rows there are beyond those that are shown, and how to see them.
pub(crate) fn more(view: &mut Document, all: usize, limit: usize, noun: &str) {
    if all > limit {
        view.paragraph(format!("{} more: --limit {all} shows them", super::number::counted(all - limit, noun)));
    }
}
