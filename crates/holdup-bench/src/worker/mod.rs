//! The worker process: one cell, measured once, its sample on stdout.

use std::io::Write as _;

use serde::{Deserialize, Serialize};

use crate::sample::{Failure, FailureKind, Sample};
use crate::spec::Spec;
use crate::sys;

mod measure;

pub use crate::sys::PARENT;

/// The variable that names the time after which the worker aborts, for whoever starts it and cannot end it.
pub const LIMIT_MS: &str = "HOLDUP_WORKER_LIMIT_MS";

pub use measure::measure;

/// What a worker says on stdout, as JSON: one of the two, and what only tests of the recorder read beside a sample.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Report {
    /// What was measured.
    pub sample: Option<Sample>,
    /// Why there is no sample.
    pub failure: Option<Failure>,
    /// [`Sample::thread_life_switches`].
    pub thread_life_switches: Vec<u64>,
    /// [`Latency::sum_ns`](crate::sample::Latency::sum_ns).
    pub latency_sum_ns: Option<u64>,
}

impl From<Result<Sample, Failure>> for Report {
    fn from(outcome: Result<Sample, Failure>) -> Report {
        match outcome {
            Err(failure) => Report { failure: Some(failure), ..Report::default() },
            Ok(sample) => Report {
                thread_life_switches: sample.thread_life_switches.clone(),
                latency_sum_ns: sample.latency.as_ref().map(|latency| latency.sum_ns),
                sample: Some(sample),
                failure: None,
            },
        }
    }
}

/// What the hidden `__worker` subcommand does: reads the cell from its words, measures it, writes the report on stdout
/// and returns the exit status: 0 for a sample, 1 for a failure that the report explains.
pub fn worker_main(words: &[String]) -> i32 {
    sys::be_a_hog_if_asked();
    let parent = std::env::var(PARENT).ok().and_then(|pid| pid.parse().ok());
    if !sys::die_with_parent(parent) {
        return 1;
    }
    end_in_time();
    let report = Report::from(answer(words));
    let mut out = std::io::stdout().lock();
    let said = serde_json::to_writer(&mut out, &report).is_ok() && writeln!(out).and_then(|()| out.flush()).is_ok();
    i32::from(!said || report.sample.is_none())
}

/// Ends this process when its time is up, whatever its threads wait for.
fn end_in_time() {
    let Some(limit_ms) = std::env::var(LIMIT_MS).ok().and_then(|ms| ms.parse().ok()) else { return };
    let sleep_and_end = move || {
        std::thread::sleep(std::time::Duration::from_millis(limit_ms));
        std::process::abort();
    };
    // Without it a hang lasts until the user ends it.
    let _ = std::thread::Builder::new().name("limit".to_owned()).spawn(sleep_and_end);
}

fn answer(words: &[String]) -> Result<Sample, Failure> {
    let spec = Spec::from_words(words.iter().map(String::as_str))
        .map_err(|error| Failure { kind: FailureKind::Unsupported, detail: error.to_string() })?;
    measure(&spec)
}
