//! Trials as flat tables, form `holdup-fleet-trials-1`, from their JSON ([`trial_json`](super::trial_json)):
//! docs/holdup-fleet-trials-1.schema.json is generated from these types, and so are the columns of the Parquet files. A
//! column keeps its meaning under the same form; columns may be added.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::recording::tables::Origin;
use crate::export::parquet::Sheet;
use crate::text;

/// The form that is read.
const FORM: &str = "holdup-trial-1";

/// The tables of one trial, or of many one after the other.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
#[schemars(title = "The tables of many trials")]
pub struct TrialTables {
    /// The trials themselves: one row each.
    pub trial: Vec<TrialRow>,
    /// Their remedies, and what came of each.
    pub remedy: Vec<RemedyRow>,
    /// Every paired run.
    pub trial_run: Vec<TrialRunRow>,
}

/// A trial.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TrialRow {
    /// The trial, by a hash of its file's bytes.
    pub trial_id: String,
    /// What the program is called, as it was given; else the file's name of the program.
    pub service_name: String,
    /// The host, as it was given: trials keep none.
    pub host_name: String,
    /// The version of the program, as it was given with `--build`; null if it was not.
    pub build: Option<String>,
    /// The version of holdup that exported.
    pub exporter: String,
    /// When it began, in seconds since 1970; null of a trial by a version that did not tell.
    pub began_unix_s: Option<u64>,
    /// What remedies were put under, as a shell reads it.
    pub program: String,
    /// The load of a server; null without one.
    pub load: Option<String>,
    /// What is compared: `elapsed`, `printed`, `acquisitions`, `pace_p95` or `pace_worst`.
    pub figure: String,
    /// What a printed number is called; null for other figures.
    pub metric: Option<String>,
    /// `helps`, `saves`, `nothing`, `noisy`, `all_failed` or `stopped`.
    pub verdict: String,
    /// The remedy that helps or saves.
    pub winner: Option<String>,
    /// The line that keeps it.
    pub keep: Option<String>,
    /// The program as it is: the median of what is compared.
    pub baseline_figure: f64,
    /// The program as it is: CPU time.
    pub baseline_cpu_s: f64,
    /// The program as it is: switches of both kinds.
    pub baseline_switches: f64,
    /// The program as it is: its runs.
    pub baseline_runs: u64,
    /// The program as it is against itself, run against run; 1 without noise.
    pub noise: Option<f64>,
    /// Lower end of its interval.
    pub noise_low: Option<f64>,
    /// Upper end of its interval.
    pub noise_high: Option<f64>,
    /// Seed of the order, as decimal text.
    pub seed: String,
    /// What was allowed.
    pub budget_s: f64,
    /// What it took.
    pub spent_s: f64,
    /// The version of holdup that tried.
    pub producer: Option<String>,
    /// The machine's name for its CPU.
    pub cpu: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// All facts of the machine: a JSON list of pairs of name and value.
    pub environment: String,
}

/// A remedy of a trial.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RemedyRow {
    /// The trial.
    pub trial_id: String,
    /// The remedy, by its number in the trial, from 0.
    pub number: u64,
    /// What it is called: the same in all trials.
    pub remedy: String,
    /// `live`, `dropped` or `failed`.
    pub standing: String,
    /// Why it failed.
    pub failure: Option<String>,
    /// Whether its ratio comes from runs that had no part in choosing it.
    pub confirmed: bool,
    /// How many times as good it makes the program, run against run.
    pub ratio: Option<f64>,
    /// Lower end of its interval.
    pub ratio_low: Option<f64>,
    /// Upper end of its interval.
    pub ratio_high: Option<f64>,
    /// The same within one process.
    pub ratio_in_process: Option<f64>,
    /// Lower end of its interval.
    pub ratio_in_process_low: Option<f64>,
    /// Upper end of its interval.
    pub ratio_in_process_high: Option<f64>,
    /// CPU time over that of the program as it is.
    pub cpu_ratio: Option<f64>,
    /// Switches, likewise.
    pub switches_ratio: Option<f64>,
    /// Runs behind it.
    pub runs: u64,
    /// The line that keeps it, whether it helps or not.
    pub keep: String,
}

/// A run of a trial.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TrialRunRow {
    /// The trial.
    pub trial_id: String,
    /// Runs of one block are compared with each other.
    pub block: u64,
    /// `baseline`, `control` (the program as it is once more) or `remedy`.
    pub arm: String,
    /// The remedy; null for the others.
    pub remedy: Option<String>,
    /// Whether it belongs to the confirmation.
    pub confirms: bool,
    /// What it took, start and end of a server included.
    pub wall_s: f64,
    /// Why it yielded nothing.
    pub failure: Option<String>,
    /// From start to end; null if it yielded nothing, as all that follows.
    pub elapsed_s: Option<f64>,
    /// CPU time in user mode.
    pub user_s: Option<f64>,
    /// CPU time in the kernel.
    pub kernel_s: Option<f64>,
    /// Switches because a thread waited.
    pub voluntary_switches: Option<u64>,
    /// Switches because another thread had the CPU.
    pub involuntary_switches: Option<u64>,
    /// The number that is compared, if it is not elapsed time.
    pub metric: Option<f64>,
}

/// What is read of a trial's JSON; what else is in it is left.
#[derive(Debug, Deserialize)]
pub struct Read {
    began_unix_s: Option<u64>,
    program: String,
    load: Option<String>,
    figure: String,
    metric: Option<ReadMetric>,
    verdict: String,
    winner: Option<String>,
    keep: Option<String>,
    baseline: ReadBaseline,
    noise: Option<ReadRatio>,
    seed: u64,
    budget_s: f64,
    spent_s: f64,
    remedies: Vec<ReadRemedy>,
    runs: Vec<ReadRun>,
    environment: Vec<(String, String)>,
}

#[derive(Debug, Deserialize)]
struct ReadMetric {
    label: String,
}

#[derive(Debug, Deserialize)]
struct ReadBaseline {
    figure: f64,
    cpu_s: f64,
    switches: f64,
    runs: u64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct ReadRatio {
    ratio: f64,
    low: f64,
    high: f64,
}

#[derive(Debug, Deserialize)]
struct ReadRemedy {
    name: String,
    standing: String,
    failure: Option<String>,
    confirmed: bool,
    ratio: Option<ReadRatio>,
    ratio_in_process: Option<ReadRatio>,
    cpu_ratio: Option<f64>,
    switches_ratio: Option<f64>,
    runs: u64,
    keep: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum ReadArm {
    Baseline,
    Control,
    Remedy(usize),
}

#[derive(Debug, Deserialize)]
struct ReadRun {
    block: u64,
    arm: ReadArm,
    confirms: bool,
    wall_s: f64,
    failure: Option<String>,
    sample: Option<ReadSample>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct ReadSample {
    elapsed_s: f64,
    user_s: f64,
    kernel_s: f64,
    voluntary_switches: u64,
    involuntary_switches: u64,
    metric: Option<f64>,
}

impl Read {
    /// A trial from its JSON.
    ///
    /// # Errors
    /// It is none: what it is, as a sentence.
    pub fn parse(bytes: &[u8]) -> Result<Read, String> {
        #[derive(Deserialize)]
        struct Form {
            schema: Option<String>,
        }
        let form = serde_json::from_slice::<Form>(bytes);
        let made = format!("'holdup try --json -- PROGRAM' writes one of form {FORM}");
        match form.ok().and_then(|form| form.schema).as_deref() {
            Some(FORM) => serde_json::from_slice(bytes).map_err(|why| format!("a damaged trial ({why}); {made}")),
            Some(other) => Err(format!("JSON of form '{}', which is no trial; {made}", text::clean(other))),
            None => Err(format!("no trial; {made}")),
        }
    }

    /// When it began, in seconds since 1970; 0 if it does not tell.
    pub fn began_unix_s(&self) -> u64 {
        self.began_unix_s.unwrap_or(0)
    }

    /// The file's name of the program.
    pub fn program(&self) -> String {
        // As a shell reads it: a name with a space stands in quotes.
        let word = match self.program.strip_prefix('\'') {
            Some(quoted) => quoted.split('\'').next(),
            None => self.program.split_whitespace().next(),
        };
        let name = word.unwrap_or_default().rsplit('/').next().unwrap_or_default();
        text::clean(name)
    }
}

impl TrialTables {
    /// The rows of one trial.
    pub fn new(read: &Read, origin: &Origin) -> TrialTables {
        TrialTables {
            trial: vec![trial(read, origin)],
            remedy: (0..).zip(&read.remedies).map(|(number, one)| remedy(number, one, origin)).collect(),
            trial_run: read.runs.iter().map(|run| trial_run(run, read, origin)).collect(),
        }
    }

    /// As columns, for files; the trials themselves first.
    pub fn sheets(&self) -> [Sheet; 3] {
        [Sheet::of("trial", &self.trial), Sheet::of("remedy", &self.remedy), Sheet::of("trial_run", &self.trial_run)]
    }
}

fn trial(read: &Read, origin: &Origin) -> TrialRow {
    let fact = |name: &str| {
        let found = read.environment.iter().find(|(known, _)| known == name);
        found.map(|(_, value)| text::clean(value))
    };
    TrialRow {
        trial_id: origin.id.clone(),
        service_name: text::clean(&origin.service),
        host_name: text::clean(&origin.host),
        build: origin.build.as_deref().map(text::clean),
        exporter: env!("CARGO_PKG_VERSION").to_owned(),
        began_unix_s: read.began_unix_s,
        program: text::clean(&read.program),
        load: read.load.as_deref().map(text::clean),
        figure: text::clean(&read.figure),
        metric: read.metric.as_ref().map(|metric| text::clean(&metric.label)),
        verdict: text::clean(&read.verdict),
        winner: read.winner.as_deref().map(text::clean),
        keep: read.keep.as_deref().map(text::clean),
        baseline_figure: read.baseline.figure,
        baseline_cpu_s: read.baseline.cpu_s,
        baseline_switches: read.baseline.switches,
        baseline_runs: read.baseline.runs,
        noise: read.noise.map(|noise| noise.ratio),
        noise_low: read.noise.map(|noise| noise.low),
        noise_high: read.noise.map(|noise| noise.high),
        seed: read.seed.to_string(),
        budget_s: read.budget_s,
        spent_s: read.spent_s,
        producer: fact("holdup"),
        cpu: fact("cpu"),
        kernel: fact("kernel"),
        environment: serde_json::to_string(&read.environment).unwrap_or_default(),
    }
}

fn remedy(number: u64, read: &ReadRemedy, origin: &Origin) -> RemedyRow {
    RemedyRow {
        trial_id: origin.id.clone(),
        number,
        remedy: text::clean(&read.name),
        standing: text::clean(&read.standing),
        failure: read.failure.as_deref().map(text::clean),
        confirmed: read.confirmed,
        ratio: read.ratio.map(|ratio| ratio.ratio),
        ratio_low: read.ratio.map(|ratio| ratio.low),
        ratio_high: read.ratio.map(|ratio| ratio.high),
        ratio_in_process: read.ratio_in_process.map(|ratio| ratio.ratio),
        ratio_in_process_low: read.ratio_in_process.map(|ratio| ratio.low),
        ratio_in_process_high: read.ratio_in_process.map(|ratio| ratio.high),
        cpu_ratio: read.cpu_ratio,
        switches_ratio: read.switches_ratio,
        runs: read.runs,
        keep: text::clean(&read.keep),
    }
}

fn trial_run(run: &ReadRun, read: &Read, origin: &Origin) -> TrialRunRow {
    let (arm, remedy) = match run.arm {
        ReadArm::Baseline => ("baseline", None),
        ReadArm::Control => ("control", None),
        ReadArm::Remedy(number) => ("remedy", read.remedies.get(number).map(|remedy| text::clean(&remedy.name))),
    };
    TrialRunRow {
        trial_id: origin.id.clone(),
        block: run.block,
        arm: arm.to_owned(),
        remedy,
        confirms: run.confirms,
        wall_s: run.wall_s,
        failure: run.failure.as_deref().map(text::clean),
        elapsed_s: run.sample.map(|sample| sample.elapsed_s),
        user_s: run.sample.map(|sample| sample.user_s),
        kernel_s: run.sample.map(|sample| sample.kernel_s),
        voluntary_switches: run.sample.map(|sample| sample.voluntary_switches),
        involuntary_switches: run.sample.map(|sample| sample.involuntary_switches),
        metric: run.sample.and_then(|sample| sample.metric),
    }
}
