//! A run of the laboratory as flat tables, form `holdup-fleet-runs-1`: what [`json`](super::json) has, a row each, so
//! that engines can ask the runs of many machines at once. docs/holdup-fleet-runs-1.schema.json is generated from these
//! types, and so are the columns of the Parquet files. A column keeps its meaning under the same form; columns may be
//! added.

use holdup_bench::sample::Sample;
use holdup_bench::spec::FACTORS;
use schemars::JsonSchema;
use serde::Serialize;

use super::figures;
use super::recording::tables::Origin;
use crate::export::parquet::Sheet;
use crate::metric::METRICS;
use crate::results::{CellRecord, RunRecord, SampleRecord};
use crate::stats::{self, Estimate};
use crate::text;

/// The tables of one run, or of many one after the other.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "The tables of many runs")]
pub struct RunTables {
    /// The runs themselves: one row each. A shard is a run of its own.
    pub run: Vec<RunRow>,
    /// Their cells, each a combination of factor values.
    pub cell: Vec<CellRow>,
    /// Every factor's value of each cell.
    pub factor: Vec<FactorRow>,
    /// What the samples of a cell say, metric by metric.
    pub estimate: Vec<EstimateRow>,
    /// Every measurement, also those that failed or were rejected.
    pub sample: Vec<SampleRow>,
}

/// A run.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RunRow {
    /// The run, by a hash of all that it has: the same in whichever store it is.
    pub run_id: String,
    /// What it belongs to, as it was given; else what the run is called.
    pub service_name: String,
    /// The host, as it was given: stores keep none.
    pub host_name: String,
    /// The version of what was measured, as it was given with `--build`; null if it was not.
    pub build: Option<String>,
    /// The version of holdup that exported.
    pub exporter: String,
    /// The title of its experiment, or the command.
    pub title: String,
    /// When it began, in seconds since 1970.
    pub began_unix_s: i64,
    /// The command that repeats it.
    pub command: String,
    /// Seed of the order, as decimal text.
    pub seed: String,
    /// The part of a sweep that it is: `3/8`; null if it is no part.
    pub shard: Option<String>,
    /// The lock that others are compared with.
    pub baseline: Option<String>,
    /// Runs per cell that were asked for.
    pub repeats: u32,
    /// Whether every planned measurement is there.
    pub complete: bool,
    /// The version of holdup that measured.
    pub producer: Option<String>,
    /// The machine's name for its CPU.
    pub cpu: Option<String>,
    /// CPUs that it could use.
    pub cpus: Option<u32>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Cells.
    pub cells: u64,
    /// Measurements rejected because something else used the machine.
    pub rejected: u64,
    /// Measurements without a sample.
    pub failed: u64,
    /// All facts of the machine: a JSON list of pairs of name and value.
    pub environment: String,
    /// What weakens the figures: a JSON list of pairs of code and sentence.
    pub warnings: String,
}

/// A cell of a run.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CellRow {
    /// The run.
    pub run_id: String,
    /// The cell, by its number in the run.
    pub cell: u64,
    /// The sweep within the experiment; empty for `holdup bench`.
    pub sweep: String,
    /// The lock.
    pub lock: String,
    /// What is done with it.
    pub workload: String,
    /// Threads.
    pub threads: u32,
    /// Whether the machine cannot measure it.
    pub unsupported: bool,
    /// Whether every finished measurement was rejected; figures then come from rejected ones.
    pub only_rejected: bool,
    /// Measurements that figures come from.
    pub counted: u64,
    /// Time per operation over the baseline's, paired by block; null for the baseline and without a pair.
    pub time_ratio_to_baseline: Option<f64>,
    /// Lower end of its interval.
    pub time_ratio_low: Option<f64>,
    /// Upper end of its interval.
    pub time_ratio_high: Option<f64>,
    /// Pairs that it comes from.
    pub time_ratio_pairs: Option<u64>,
}

/// A factor of a cell.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FactorRow {
    /// The run.
    pub run_id: String,
    /// The cell.
    pub cell: u64,
    /// The factor, as in `holdup list factors`.
    pub factor: String,
    /// Its value, as the command line takes it.
    pub value: String,
}

/// A figure of a cell.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct EstimateRow {
    /// The run.
    pub run_id: String,
    /// The cell.
    pub cell: u64,
    /// Which figure, with its unit last, as `estimates` of the run's JSON has it.
    pub metric: String,
    /// The median.
    pub median: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Measurements that it comes from.
    pub measurements: u64,
}

/// A measurement.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SampleRow {
    /// The run.
    pub run_id: String,
    /// The cell.
    pub cell: u64,
    /// Which repetition.
    pub repeat: u32,
    /// Measurements of one block were made next to each other.
    pub block: u32,
    /// Its place in the order of the whole run.
    pub place: u32,
    /// Whether figures come from it.
    pub counted: bool,
    /// Whether it was rejected because something else used the machine.
    pub rejected: bool,
    /// Why there is no sample: the kind.
    pub failure_kind: Option<String>,
    /// The same in words.
    pub failure: Option<String>,
    /// From the start until the last thread finished; null without a sample, as all that follows.
    pub elapsed_ns: Option<u64>,
    /// CPU time of the measuring threads in user mode.
    pub user_ns: Option<u64>,
    /// CPU time of the measuring threads in the kernel.
    pub kernel_ns: Option<u64>,
    /// Switches because a thread blocked or yielded; null also where the system does not count.
    pub voluntary_switches: Option<u64>,
    /// Switches because the scheduler took the CPU away.
    pub involuntary_switches: Option<u64>,
    /// Operations of all threads.
    pub ops: Option<u64>,
    /// Acquisitions of locks.
    pub acquisitions: Option<u64>,
}

impl RunTables {
    /// The rows of one run.
    pub fn new(run: &RunRecord, title: &str, origin: &Origin) -> RunTables {
        let rows = Rows { run, run_id: &origin.id };
        let cells = || (0..).zip(&run.cells);
        RunTables {
            run: vec![rows.run(title, origin)],
            cell: cells().map(|(number, cell)| rows.cell(number, cell)).collect(),
            factor: cells().flat_map(|(number, cell)| rows.factors(number, cell)).collect(),
            estimate: cells().flat_map(|(number, cell)| rows.estimates(number, cell)).collect(),
            sample: cells().flat_map(|(number, cell)| rows.samples(number, cell)).collect(),
        }
    }

    /// As columns, for files; the runs themselves first.
    pub fn sheets(&self) -> [Sheet; 5] {
        [
            Sheet::of("run", &self.run),
            Sheet::of("cell", &self.cell),
            Sheet::of("factor", &self.factor),
            Sheet::of("estimate", &self.estimate),
            Sheet::of("sample", &self.sample),
        ]
    }
}

/// What rows are made of.
struct Rows<'a> {
    run: &'a RunRecord,
    run_id: &'a str,
}

impl Rows<'_> {
    fn id(&self) -> String {
        self.run_id.to_owned()
    }

    fn run(&self, title: &str, origin: &Origin) -> RunRow {
        let run = self.run;
        let fact = |name: &str| {
            let found = run.environment.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| text::clean(value))
        };
        RunRow {
            run_id: self.id(),
            service_name: text::clean(&origin.service),
            host_name: text::clean(&origin.host),
            build: origin.build.as_deref().map(text::clean),
            exporter: env!("CARGO_PKG_VERSION").to_owned(),
            title: text::clean(title),
            began_unix_s: run.started_unix_s,
            command: text::clean(&run.command),
            seed: run.seed.to_string(),
            shard: fact("shard"),
            baseline: run.baseline.as_deref().map(text::clean),
            repeats: run.repeats,
            complete: run.complete,
            producer: fact("holdup"),
            cpu: fact("cpu"),
            cpus: run.cpus(),
            kernel: fact("kernel"),
            cells: run.cells.len() as u64,
            rejected: run.rejected() as u64,
            failed: run.failures().count() as u64,
            environment: json(&run.environment),
            warnings: json(&run.warnings),
        }
    }

    fn cell(&self, number: u64, cell: &CellRecord) -> CellRow {
        let ratio: Option<Estimate> = figures::time_ratio(self.run, cell);
        CellRow {
            run_id: self.id(),
            cell: number,
            sweep: text::clean(&cell.sweep),
            lock: text::clean(&cell.spec.lock),
            workload: value(cell, "workload").unwrap_or_default(),
            threads: cell.spec.threads,
            unsupported: cell.unsupported(),
            only_rejected: cell.only_rejected(),
            counted: cell.counted().count() as u64,
            time_ratio_to_baseline: ratio.as_ref().map(|ratio| ratio.median),
            time_ratio_low: ratio.as_ref().map(|ratio| ratio.low),
            time_ratio_high: ratio.as_ref().map(|ratio| ratio.high),
            time_ratio_pairs: ratio.as_ref().map(|ratio| ratio.n as u64),
        }
    }

    fn factors(&self, number: u64, cell: &CellRecord) -> Vec<FactorRow> {
        let rows = FACTORS.iter().map(|factor| FactorRow {
            run_id: self.id(),
            cell: number,
            factor: factor.name.to_owned(),
            value: text::clean(&factor.get(&cell.spec)),
        });
        rows.collect()
    }

    fn estimates(&self, number: u64, cell: &CellRecord) -> Vec<EstimateRow> {
        let known = METRICS.iter().filter_map(|metric| Some((metric.name, stats::of_cell(cell, metric)?)));
        let rows = known.map(|(name, estimate)| EstimateRow {
            run_id: self.id(),
            cell: number,
            metric: name.to_owned(),
            median: estimate.median,
            low: estimate.low,
            high: estimate.high,
            measurements: estimate.n as u64,
        });
        rows.collect()
    }

    fn samples(&self, number: u64, cell: &CellRecord) -> Vec<SampleRow> {
        cell.samples.iter().map(|record| self.sample(number, cell, record)).collect()
    }

    fn sample(&self, number: u64, cell: &CellRecord, record: &SampleRecord) -> SampleRow {
        let (sample, failure) = (record.outcome.as_ref().ok(), record.outcome.as_ref().err());
        let of = |value: fn(&Sample) -> u64| sample.map(value);
        SampleRow {
            run_id: self.id(),
            cell: number,
            repeat: record.repeat,
            block: record.block,
            place: record.order,
            counted: cell.counts(record),
            rejected: record.rejected,
            failure_kind: failure.map(|failure| failure.kind.to_string()),
            failure: failure.map(|failure| text::clean(&failure.detail)),
            elapsed_ns: of(|sample| sample.elapsed_ns),
            user_ns: of(|sample| sample.user_ns),
            kernel_ns: of(|sample| sample.kernel_ns),
            voluntary_switches: sample.and_then(|sample| sample.voluntary_switches),
            involuntary_switches: sample.and_then(|sample| sample.involuntary_switches),
            ops: of(|sample| sample.thread_ops.iter().copied().fold(0, u64::saturating_add)),
            acquisitions: of(|sample| sample.acquisitions),
        }
    }
}

fn value(cell: &CellRecord, name: &str) -> Option<String> {
    FACTORS.iter().find(|factor| factor.name == name).map(|factor| factor.get(&cell.spec))
}

fn json(pairs: &[(String, String)]) -> String {
    serde_json::to_string(pairs).unwrap_or_default()
}
