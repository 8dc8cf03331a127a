//! A run as JSON, schema `holdup-run-1`: docs/export.md describes every key, docs/holdup-run-1.schema.json checks them.

use holdup_bench::sample::FailureKind;
use holdup_bench::sample::Sample;
use holdup_bench::spec::FACTORS;
use holdup_run::ProcessUse;
use serde_json::{Map, Value, json};

use super::figures;
use crate::metric::METRICS;
use crate::results::{CellRecord, RunRecord, SampleRecord};
use crate::stats::{self, Estimate};

/// Everything about the run: cells, samples, estimates, environment.
pub fn run(run: &RunRecord) -> Value {
    let cells = run.cells.iter().map(|cell| {
        let mut value = estimates_of(run, cell);
        value.insert("samples".to_owned(), cell.samples.iter().map(|record| sample(cell, record)).collect());
        Value::Object(value)
    });
    let named = |pairs: &[(String, String)], first: &str, second: &str| -> Value {
        pairs.iter().map(|(name, text)| json!({ first: name, second: text })).collect()
    };
    json!({
        "schema": "holdup-run-1",
        "run": run.id,
        "started_unix_s": run.started_unix_s,
        "command": run.command,
        // As text: a reader that keeps numbers as doubles would round it.
        "seed": run.seed.to_string(),
        "baseline": run.baseline,
        "repeats": run.repeats,
        "complete": run.complete,
        "rejected": run.rejected(),
        "failed": run.failures().count(),
        "environment": named(&run.environment, "name", "value"),
        "warnings": named(&run.warnings, "code", "message"),
        "cells": cells.collect::<Value>(),
    })
}

/// Per cell the median, interval and count of every metric, and the paired ratio to the baseline.
pub fn estimates(run: &RunRecord) -> Value {
    let cells = run.cells.iter().map(|cell| Value::Object(estimates_of(run, cell)));
    json!({
        "schema": "holdup-estimates-1",
        "run": run.id,
        "baseline": run.baseline,
        "cells": cells.collect::<Value>(),
    })
}

/// The word for a kind of failure.
pub fn kind(kind: FailureKind) -> &'static str {
    match kind {
        FailureKind::LostUpdate => "lost-update",
        FailureKind::Hang => "hang",
        FailureKind::Crash => "crash",
        FailureKind::Unsupported => "unsupported",
    }
}

/// Whether the cell's figures come from this sample among others.
pub fn counts(cell: &CellRecord, record: &SampleRecord) -> bool {
    cell.counted().any(|(counted, _)| std::ptr::eq(counted, record))
}

fn estimates_of(run: &RunRecord, cell: &CellRecord) -> Map<String, Value> {
    let factors: Map<String, Value> =
        FACTORS.iter().map(|factor| (factor.name.to_owned(), factor.get(&cell.spec).into())).collect();
    let metrics: Map<String, Value> = METRICS
        .iter()
        .filter_map(|metric| Some((metric.name.to_owned(), estimate(&stats::of_cell(cell, metric)?))))
        .collect();
    let ratio = figures::time_ratio(run, cell).map(|ratio| estimate(&ratio));
    let fields = [
        ("sweep", json!(cell.sweep)),
        ("factors", factors.into()),
        ("unsupported", json!(cell.unsupported())),
        ("only_rejected", json!(cell.only_rejected())),
        ("estimates", metrics.into()),
        ("time_ratio_to_baseline", ratio.unwrap_or(Value::Null)),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn estimate(estimate: &Estimate) -> Value {
    let Estimate { median, low, high, n } = estimate;
    json!({ "median": median, "low": low, "high": high, "n": n })
}

fn sample(cell: &CellRecord, record: &SampleRecord) -> Value {
    let (figures, failure) = match &record.outcome {
        Ok(sample) => (raw(sample), Value::Null),
        Err(failure) => (Value::Null, json!({ "kind": kind(failure.kind), "detail": failure.detail })),
    };
    json!({
        "repeat": record.repeat,
        "block": record.block,
        "order": record.order,
        "rejected": record.rejected,
        "counted": counts(cell, record),
        "failure": failure,
        "sample": figures,
        "process": process(&record.process),
        "background_share": record.contamination.background_share,
        "steal_share": record.contamination.steal_share,
    })
}

fn raw(sample: &Sample) -> Value {
    let latency = sample.latency.as_ref().map(|latency| {
        json!({
            "count": latency.count,
            "sampled_every": latency.sampled_every,
            "p50_ns": latency.p50_ns,
            "p90_ns": latency.p90_ns,
            "p99_ns": latency.p99_ns,
            "p999_ns": latency.p999_ns,
            "max_ns": latency.max_ns,
            "clock_ns": latency.clock_ns,
            "cost_share": latency.cost_share,
        })
    });
    let counters = sample.counters.as_ref().map(|counters| {
        json!({
            "cycles": counters.cycles,
            "instructions": counters.instructions,
            "cache_misses": counters.cache_misses,
        })
    });
    let extra: Map<String, Value> =
        sample.extra.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    json!({
        "elapsed_ns": sample.elapsed_ns,
        "user_ns": sample.user_ns,
        "kernel_ns": sample.kernel_ns,
        "voluntary_switches": sample.voluntary_switches,
        "involuntary_switches": sample.involuntary_switches,
        "minor_faults": sample.minor_faults,
        "major_faults": sample.major_faults,
        "thread_ops": sample.thread_ops,
        "thread_finish_ns": sample.thread_finish_ns,
        "acquisitions": sample.acquisitions,
        "unit_ns": sample.unit_ns,
        "hold_ns_mean": sample.hold_ns_mean,
        "gap_ns_mean": sample.gap_ns_mean,
        "latency": latency,
        "counters": counters,
        "extra": extra,
    })
}

fn process(used: &ProcessUse) -> Value {
    json!({
        "elapsed_ns": used.elapsed_ns,
        "user_ns": used.user_ns,
        "kernel_ns": used.kernel_ns,
        "voluntary_switches": used.voluntary_switches,
        "involuntary_switches": used.involuntary_switches,
        "minor_faults": used.minor_faults,
        "major_faults": used.major_faults,
        "max_rss_bytes": used.max_rss_bytes,
    })
}
