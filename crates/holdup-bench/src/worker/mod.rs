//! The worker process: one cell, measured once, its sample on stdout.

use std::io::Write as _;

use crate::sample::{Failure, FailureKind};
use crate::spec::Spec;
use crate::sys;

mod measure;

pub use crate::sys::PARENT;
pub use measure::measure;

/// The last line of a whole report: without it the worker died while it wrote.
pub const END: &str = "end";

/// What the hidden `__worker` subcommand does: reads the cell from its words, measures it, writes the report on stdout
/// and returns the exit status: 0 for a sample, 1 for a failure that the report explains.
pub fn worker_main(words: &[String]) -> i32 {
    sys::be_a_hog_if_asked();
    let parent = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok());
    if !sys::die_with_parent(parent) {
        return 1;
    }
    let (text, status) = match answer(words) {
        Ok(text) => (text, 0),
        Err(failure) => (failure_line(&failure), 1),
    };
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}{END}").and_then(|()| out.flush()) {
        Ok(()) => status,
        Err(_) => 1,
    }
}

fn answer(words: &[String]) -> Result<String, Failure> {
    let spec = Spec::from_words(words.iter().map(String::as_str))
        .map_err(|error| Failure { kind: FailureKind::Unsupported, detail: error.to_string() })?;
    Ok(measure(&spec)?.to_text())
}

fn failure_line(failure: &Failure) -> String {
    format!("failure {} {}\n", failure.kind, failure.detail.replace('\n', " "))
}

/// Reads a failure that a worker reported.
pub fn read_failure(text: &str) -> Option<Failure> {
    let (kind, detail) = text.lines().next()?.strip_prefix("failure ")?.split_once(' ')?;
    Some(Failure { kind: FailureKind::named(kind)?, detail: detail.to_owned() })
}
