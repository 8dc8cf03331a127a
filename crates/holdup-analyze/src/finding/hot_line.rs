//! The part of hot-atomic that is about plain instructions: threads fight over a cache line with loads and stores, be
//! it that they change one variable or neighbours that share nothing but the line (false sharing).
//!
//! Signs and thresholds, per variable, or per function where no variable is known:
//! - CPU samples at or right behind instructions whose operands are in one line, by registers at some of them; on
//!   different CPUs within three samples' time of each other, at least one of the threads writing
//!   (`timeline/lines.rs`);
//! - at least [`LEAST_HITS`] of them, in at least two threads with [`LEAST_THREAD_SHARE`] each;
//! - at least [`LEAST_SHARE`] of all CPU samples beyond what other instructions of these functions have.
//!
//! The severity is this share: what the same instructions cost without a fight is not in it. Measured on the programs
//! of fixtures/truth and others: 38% to 92% of the samples where two to four threads count side by side.
//!
//! How it can be wrong: a timer's sample may be an instruction off. Threads that take turns at a line within
//! milliseconds, under a lock of their own, say, fight less than it seems.

use super::alone::is_same;
use super::weigh::{self, count, part};
use super::{Cure, Finding, Kind, Subject};
use crate::facts::{Facts, LineFacts, Site};
use crate::names::Role;

const LEAST_HITS: u64 = 50;
const LEAST_SHARE: f64 = 0.1;
const LEAST_THREAD_SHARE: f64 = 0.1;

/// One finding per variable or function.
pub(super) fn judge(facts: &Facts) -> Vec<Finding> {
    let plain = facts.lines.iter().filter(|line| !line.is_atomic && is_hot(facts, line));
    plain.map(|line| finding(facts, line)).collect()
}

/// Whether atomic instructions at a place work on variables of each thread's own that lie in one line: which.
pub(super) fn of_neighbours<'a>(facts: &'a Facts, place: &Site) -> Option<&'a LineFacts> {
    let own = |line: &&LineFacts| line.is_atomic && !line.same_word && line.words >= 2 && line.writers >= 2;
    let mut there = facts.lines.iter().filter(own).filter(|line| is_hot(facts, line));
    there.find(|line| is_same(&line.site, place))
}

fn is_hot(facts: &Facts, line: &LineFacts) -> bool {
    line.hits >= LEAST_HITS && line.writers > 0 && threads(line) >= 2 && excess_share(facts, line) >= LEAST_SHARE
}

fn excess_share(facts: &Facts, line: &LineFacts) -> f64 {
    weigh::share(line.excess, weigh::samples(facts)).min(1.0)
}

/// Threads that have a part in it.
fn threads(line: &LineFacts) -> usize {
    line.threads.iter().filter(|(_, hits)| weigh::share(*hits, line.hits) >= LEAST_THREAD_SHARE).count()
}

fn finding(facts: &Facts, line: &LineFacts) -> Finding {
    let largest = line.threads.iter().map(|(_, hits)| *hits).max().unwrap_or(0);
    let words = if line.same_word { 1 } else { line.words };
    let mut finding = Finding::new(
        Kind::HotAtomic,
        if line.same_word { Cure::ShardCounter } else { Cure::OwnLines },
        weigh::record_again(),
    );
    finding.severity = excess_share(facts, line);
    finding.subjects = subject(line).into_iter().collect();
    finding.place = Some(line.site.clone()).filter(|site| !site.call_path.is_empty());
    finding.evidence = vec![
        part("samples_share", weigh::share(line.hits, weigh::samples(facts)).min(1.0)),
        count("threads", threads(line) as u64),
        part("largest_thread_share", weigh::share(largest, line.hits)),
        count("samples", line.hits),
        count("line_words", words),
        count("line_writers", line.writers),
    ];
    finding
}

fn subject(line: &LineFacts) -> Option<Subject> {
    let frames = || line.site.call_path.iter();
    let own = frames().find(|frame| frame.role == Role::Program).or(frames().next());
    let function = || own.map(|frame| Subject::Function(crate::spinning::key(frame)));
    line.variable.clone().map(Subject::Variable).or_else(function)
}
