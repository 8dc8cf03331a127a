//! `holdup list`: what there is to choose from.

use std::fmt::Write as _;

use clap::ValueEnum as _;
use holdup_bench::locks;
use holdup_bench::spec::{FACTORS, Workload};

use super::{Error, Status, output};
use crate::experiment;
use crate::metric::METRICS;

/// Lists what you can choose from.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// What to list
    #[arg(value_enum)]
    what: Option<What>,
}

const EXAMPLES: &str = "\
Examples:
  holdup list locks
  holdup list factors
  holdup list claims";

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// Everything that --lock takes
    Locks,
    /// What threads can do with a lock
    Workloads,
    /// Every condition that can be varied, with its values
    Factors,
    /// Figures that tables, plots and claims can show
    Metrics,
    /// The experiments that holdup carries
    Experiments,
    /// What their sources claim
    Claims,
}

/// Prints one list.
///
/// # Errors
/// Nothing is named, or stdout cannot be written.
pub fn run(options: &Options) -> Result<Status, Error> {
    let Some(what) = options.what else {
        let names = What::value_variants().iter().filter_map(What::to_possible_value);
        let names: Vec<String> = names.map(|value| value.get_name().to_owned()).collect();
        return Err(Error::Argument(format!("list what? One of {}: holdup list locks", names.join(", "))));
    };
    output::print(&match what {
        What::Locks => locks(),
        What::Workloads => workloads(),
        What::Factors => factors(),
        What::Metrics => metrics(),
        What::Experiments => experiment::list::experiments()?,
        What::Claims => experiment::list::claims()?,
    })?;
    Ok(Status::Success)
}

/// By family, families in the order of the registry.
fn locks() -> String {
    let all = locks::all();
    let width = all.iter().map(|lock| lock.name.len()).max().unwrap_or(0);
    let mut families: Vec<&str> = Vec::new();
    for lock in all {
        if !families.contains(&lock.family) {
            families.push(lock.family);
        }
    }
    let mut text = String::new();
    for family in families {
        let _ = writeln!(text, "{family}");
        for lock in all.iter().filter(|lock| lock.family == family) {
            let recursive = if lock.recursive && lock.name != "none" { " (recursive)" } else { "" };
            let source = if lock.source.is_empty() { String::new() } else { format!(" [{}]", lock.source) };
            let _ = writeln!(text, "  {:width$}  {}{recursive}{source}", lock.name, lock.summary);
        }
    }
    text + "\nMeasure some: holdup bench --lock pthread,adaptive --threads 1,2,4\n"
}

fn workloads() -> String {
    let mut text = String::new();
    for (name, workload) in Workload::ALL {
        let _ = writeln!(text, "{name:12}  {}", explain(*workload));
    }
    text + "\nMeasure one: holdup bench --workload free-list\n"
}

fn explain(workload: Workload) -> &'static str {
    match workload {
        Workload::Empty => "lock, work, unlock: nothing is protected but the work itself",
        Workload::Counter => "lock, add one to a counter, unlock (the default)",
        Workload::FreeList => "lock, pop or push a node of one linked list, unlock: an allocator",
        Workload::ThreadId => "lock, write the own thread id to a global, unlock: the finest grain",
        Workload::Db => "read and update entries of an in-memory database: --entries, --mix, --table",
        Workload::ParallelFor => "claim indices of a loop from one shared counter: --chunk, --counter",
        Workload::Map => "read and update 100,000 keys of the concurrent map that --lock names: --mix",
        Workload::Rw => "read or write one piece of data, readers together: --read-share, --writers, --hold, --latency",
        Workload::PingPong => "pairs of threads hand every packet to each other: --batch",
    }
}

fn factors() -> String {
    let mut text = String::new();
    for factor in FACTORS {
        let _ = writeln!(
            text,
            "--{}: {}\n    values: {}; default: {}",
            factor.name,
            factor.help,
            factor.values,
            factor.default_value()
        );
    }
    text + "\nEach takes one value or a list; numbers also ranges: 1..8, 0..60+4 (every fourth), 1..64*2 (doubling).\n\
            Try: holdup bench --lock adaptive --threads 1..64*2\n"
}

fn metrics() -> String {
    let width = METRICS.iter().map(|metric| metric.name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for metric in METRICS {
        let unit = if metric.unit.is_empty() { String::new() } else { format!(" [{}]", metric.unit) };
        let _ = writeln!(text, "{:width$}  {}{unit}", metric.name, metric.help);
    }
    text
}
