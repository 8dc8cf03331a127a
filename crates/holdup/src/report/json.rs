//! A run as JSON, schema `holdup-run-1`: what was measured, as it is defined, and beside it what follows from it.

use std::collections::BTreeMap;

use holdup_bench::spec::FACTORS;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures;
use crate::metric::METRICS;
use crate::results::{CellRecord, RunRecord, SampleRecord};
use crate::stats::{self, Estimate};

/// Everything about a run: cells, samples, estimates, environment.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "A run of holdup")]
pub struct Run<'a> {
    /// Name and version of this form.
    #[schemars(extend("const" = "holdup-run-1"))]
    schema: &'static str,
    #[serde(flatten)]
    record: &'a RunRecord,
    /// Runs rejected because something else used the machine.
    rejected: usize,
    /// Runs without a sample.
    failed: usize,
    /// The cells, in the order of the sweep.
    cells: Vec<Cell<'a>>,
}

impl<'a> Run<'a> {
    /// The run in this form.
    pub fn new(record: &'a RunRecord) -> Run<'a> {
        Run {
            schema: "holdup-run-1",
            record,
            rejected: record.rejected(),
            failed: record.failures().count(),
            cells: record.cells.iter().map(|cell| Cell::new(record, cell)).collect(),
        }
    }
}

/// A cell: one combination of factor values.
#[derive(Serialize, JsonSchema)]
struct Cell<'a> {
    /// Name of the sweep inside its experiment; empty for `holdup bench`.
    sweep: &'a str,
    /// Every factor of `holdup list factors` with its value as the command line takes it.
    factors: BTreeMap<&'static str, String>,
    /// Whether this machine cannot measure the cell.
    unsupported: bool,
    /// Whether every finished run was rejected; the figures then come from rejected runs.
    only_rejected: bool,
    /// Each metric that the cell has, with the unit last in its name.
    estimates: BTreeMap<&'static str, Estimate>,
    /// Time per operation over the baseline's, paired by block; null for the baseline and without a pair.
    time_ratio_to_baseline: Option<Estimate>,
    /// The runs, in the order in which they were measured.
    samples: Vec<Sample<'a>>,
}

impl<'a> Cell<'a> {
    fn new(run: &RunRecord, cell: &'a CellRecord) -> Cell<'a> {
        let estimates = METRICS.iter().filter_map(|metric| Some((metric.name, stats::of_cell(cell, metric)?)));
        Cell {
            sweep: &cell.sweep,
            factors: FACTORS.iter().map(|factor| (factor.name, factor.get(&cell.spec))).collect(),
            unsupported: cell.unsupported(),
            only_rejected: cell.only_rejected(),
            estimates: estimates.collect(),
            time_ratio_to_baseline: figures::time_ratio(run, cell),
            samples: cell.samples.iter().map(|record| Sample { record, counted: cell.counts(record) }).collect(),
        }
    }
}

/// One run of a cell.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "SampleRecord")]
struct Sample<'a> {
    #[serde(flatten)]
    record: &'a SampleRecord,
    /// Whether the estimates use it.
    counted: bool,
}
