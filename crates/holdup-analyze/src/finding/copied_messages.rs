//! copied-messages: CPU time goes to what threads or processes send each other: it is turned into bytes on one side and
//! back into objects on the other.
//!
//! Signs and thresholds: [`LEAST_SHARE`] of the CPU samples, a hundred or more, are below what does that for
//! messages: of Node's workers `node::worker::Message::Serialize` and `Deserialize`; of Python's `multiprocessing` and
//! executors of processes `ForkingPickler.dumps`, and what receives (`SimpleQueue.get`, `Queue.get`,
//! `_ConnectionBase.recv`).
//!
//! The place is the function of the program below which most of these samples are. The severity is their share as a
//! share of the working time.
//!
//! How it can be wrong: a program that is made to pass large things on does that.

use super::weigh;
use super::{Cure, Finding, Kind, Rule};
use crate::facts::Facts;
use crate::names::Frame;

pub(super) const RULE: Rule = Rule { kind: Kind::CopiedMessages, judge, evidence: &["copied_share", "samples"] };

pub(super) const LEAST_SHARE: f64 = 0.4;

/// What does nothing else, and is not called by another of them.
const OF_NODE: [&str; 2] = ["node::worker::Message::Serialize", "node::worker::Message::Deserialize"];
/// Of Python, with the files that they are in; before 3.11 without their classes.
const OF_PYTHON: [(&str, &str); 3] = [
    ("dumps", "/multiprocessing/reduction.py"),
    ("get", "/multiprocessing/queues.py"),
    ("recv", "/multiprocessing/connection.py"),
];

fn judge(facts: &Facts) -> Vec<Finding> {
    let hits = weigh::samples_below(facts, copies);
    let place = || weigh::hottest_below(facts, copies).cloned();
    let finding = Finding::new(Kind::CopiedMessages, Cure::SendLess, weigh::record_again());
    weigh::taken(facts, hits, ("copied_share", LEAST_SHARE), place, finding).into_iter().collect()
}

fn copies(frame: &Frame) -> bool {
    let Some(function) = frame.function.as_deref() else { return false };
    let file = frame.file.as_deref().unwrap_or(&frame.module);
    let own = function.rsplit('.').next().unwrap_or(function);
    weigh::is_any(frame, &OF_NODE) || OF_PYTHON.iter().any(|(name, ends)| own == *name && file.ends_with(ends))
}
