//! What was measured, as every report, comparison and claim reads it: a run has cells, a cell has samples.

use holdup_bench::machine::Contamination;
use holdup_bench::sample::{Failure, FailureKind, InOrder, Sample};
use holdup_bench::spec::Spec;
use holdup_run::ProcessUse;
use holdup_trace::json::{rows, shown};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use serde_json::Value;

/// One run of a sweep, from the store or just measured.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunRecord {
    /// Number of the run in the store.
    #[serde(rename = "run")]
    pub id: i64,
    /// Seconds since 1970, UTC, when it began.
    pub started_unix_s: i64,
    /// The command that repeats it.
    pub command: String,
    /// Seed of the order and of every random draw, as decimal text: a reader that keeps numbers as doubles would round
    /// it.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub seed: u64,
    /// The lock that others are compared with, if the sweep has one.
    pub baseline: Option<String>,
    /// Runs per cell that were asked for.
    pub repeats: u32,
    /// Whether every planned run is there.
    pub complete: bool,
    /// The machine, in the order of reports, with `holdup` and its version first.
    #[serde(serialize_with = "rows::<_, Fact, _>")]
    #[schemars(with = "Vec<Fact>")]
    pub environment: Vec<(String, String)>,
    /// What weakens the figures.
    #[serde(serialize_with = "rows::<_, Warning, _>")]
    #[schemars(with = "Vec<Warning>")]
    pub warnings: Vec<(String, String)>,
    /// The cells, in the order of the sweep.
    #[serde(skip)]
    pub cells: Vec<CellRecord>,
}

/// One cell: a combination of factor values.
#[derive(Clone, Debug)]
pub struct CellRecord {
    /// Name of the sweep inside its experiment; empty for `holdup bench`.
    pub sweep: String,
    /// Every factor's value.
    pub spec: Spec,
    /// Its runs, in the order in which they were measured.
    pub samples: Vec<SampleRecord>,
}

/// One run of one cell.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SampleRecord {
    /// Which repetition.
    pub repeat: u32,
    /// Samples of one block were measured next to each other: ratios pair inside a block.
    pub block: u32,
    /// Position in the whole run's order.
    pub order: u32,
    /// The sample, or why there is none.
    #[serde(flatten, serialize_with = "shown::<_, Outcome<'_>, _>")]
    #[schemars(flatten, with = "Outcome<'_>")]
    pub outcome: Result<Sample, Failure>,
    /// The whole worker process.
    pub process: ProcessUse,
    /// What else the machine did meanwhile.
    #[serde(flatten)]
    pub contamination: Contamination,
    /// Rejected because of that; another run took its place if one could be had.
    pub rejected: bool,
}

/// A fact about machine or program.
#[derive(Serialize, JsonSchema)]
struct Fact {
    /// Which.
    name: String,
    /// What it is.
    value: String,
}

impl From<&(String, String)> for Fact {
    fn from((name, value): &(String, String)) -> Fact {
        Fact { name: name.clone(), value: value.clone() }
    }
}

/// Something that weakens the figures.
#[derive(Serialize, JsonSchema)]
struct Warning {
    /// What it is; stays the same between versions.
    code: String,
    /// The same for people.
    message: String,
}

impl From<&(String, String)> for Warning {
    fn from((code, message): &(String, String)) -> Warning {
        Warning { code: code.clone(), message: message.clone() }
    }
}

/// What came of a run: one of the two.
#[derive(Serialize, JsonSchema)]
struct Outcome<'a> {
    /// Why there is no sample.
    failure: Option<&'a Failure>,
    /// The measured part of the run.
    sample: Option<&'a Sample>,
}

impl<'a> From<&'a Result<Sample, Failure>> for Outcome<'a> {
    fn from(outcome: &'a Result<Sample, Failure>) -> Outcome<'a> {
        Outcome { failure: outcome.as_ref().err(), sample: outcome.as_ref().ok() }
    }
}

/// The fields of a result, by the names that its JSON has, in order.
pub fn fields(result: &impl Serialize) -> Vec<(String, Value)> {
    let text = serde_json::to_string(result).unwrap_or_default();
    serde_json::from_str(&text).map_or_else(|_| Vec::new(), |InOrder(fields)| fields)
}

fn as_text<S: Serializer>(number: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(number)
}

impl RunRecord {
    /// How many CPUs the workers could use, where the machine told: a list of numbers and ranges such as `0,2-3`.
    pub fn cpus(&self) -> Option<u32> {
        let (_, list) = self.environment.iter().find(|(name, _)| name == "cpus_allowed")?;
        list.split(',')
            .map(|part| {
                let (first, last) = part.split_once('-').unwrap_or((part, part));
                let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                last.checked_sub(first)?.checked_add(1)
            })
            .sum()
    }

    /// Cells of one sweep.
    pub fn sweep<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a CellRecord> {
        self.cells.iter().filter(move |cell| cell.sweep == name)
    }

    /// Factors that take more than one value among these cells, in the order of the factor table.
    pub fn varied<'a>(cells: impl Iterator<Item = &'a CellRecord> + Clone) -> Vec<&'static str> {
        let Some(first) = cells.clone().next() else { return Vec::new() };
        holdup_bench::spec::FACTORS
            .iter()
            .filter(|factor| cells.clone().any(|cell| factor.get(&cell.spec) != factor.get(&first.spec)))
            .map(|factor| factor.name)
            .collect()
    }

    /// Runs that failed, with their cell.
    pub fn failures(&self) -> impl Iterator<Item = (&CellRecord, &Failure)> {
        self.cells.iter().flat_map(|cell| {
            cell.samples.iter().filter_map(move |sample| sample.outcome.as_ref().err().map(|why| (cell, why)))
        })
    }

    /// How many runs were rejected because something else used the machine.
    pub fn rejected(&self) -> usize {
        self.cells.iter().flat_map(|cell| &cell.samples).filter(|sample| sample.rejected).count()
    }
}

impl CellRecord {
    /// Samples that count: finished and not rejected. Where every finished sample was rejected, all of them, and
    /// [`CellRecord::only_rejected`] says so.
    pub fn counted(&self) -> impl Iterator<Item = (&SampleRecord, &Sample)> + Clone {
        let none_clean = self.only_rejected();
        self.samples
            .iter()
            .filter_map(|record| record.outcome.as_ref().ok().map(|sample| (record, sample)))
            .filter(move |(record, _)| none_clean || !record.rejected)
    }

    /// Whether the cell's figures come from this sample among others.
    pub fn counts(&self, record: &SampleRecord) -> bool {
        self.counted().any(|(counted, _)| std::ptr::eq(counted, record))
    }

    /// Whether not one finished sample is clean.
    pub fn only_rejected(&self) -> bool {
        let mut finished = self.samples.iter().filter(|record| record.outcome.is_ok()).peekable();
        finished.peek().is_some() && finished.all(|record| record.rejected)
    }

    /// The first failure, if any run failed.
    pub fn failure(&self) -> Option<&Failure> {
        self.samples.iter().find_map(|record| record.outcome.as_ref().err())
    }

    /// Whether this machine cannot serve the cell at all.
    pub fn unsupported(&self) -> bool {
        self.failure().is_some_and(|failure| failure.kind == FailureKind::Unsupported)
    }

    /// Whether every factor but those named has the same value in both cells.
    pub fn matches_but_for(&self, other: &CellRecord, but: &[&str]) -> bool {
        holdup_bench::spec::FACTORS
            .iter()
            .filter(|factor| !but.contains(&factor.name))
            .all(|factor| factor.get(&self.spec) == factor.get(&other.spec))
    }
}

#[cfg(test)]
mod tests {
    use crate::report::specimen::Specimen;

    #[test]
    fn cpus_are_counted_from_their_list() {
        for (list, count) in [("0,1", Some(2)), ("3", Some(1)), ("0-3,8", Some(5)), ("n/a (no)", None), ("3-1", None)] {
            let mut specimen = Specimen::new(None, 1);
            specimen.run().environment = vec![("cpus_allowed".to_owned(), list.to_owned())];
            assert_eq!(specimen.run().cpus(), count, "{list}");
        }
    }
}
