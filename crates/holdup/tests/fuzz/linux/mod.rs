//! Which inputs are tried, and what came of them.

mod chunk;
mod damage;
mod names;
mod readers;
mod recordings;
mod texts;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use readers::{FOUND, FOUND_SEED, READERS, Reader};

/// Inputs for each reader where nobody says how many.
const FEW: u64 = 60;
const SEED: u64 = 1;

/// What is to be tried.
struct Asked {
    /// For each reader.
    inputs: u64,
    until: Option<Instant>,
    reader: Option<String>,
    seed: u64,
    first: u64,
}

/// What came of a reader's inputs.
#[derive(Default)]
struct Sum {
    inputs: u64,
    faults: Vec<String>,
    slowest: Duration,
}

/// As the usual test runner is started, or as a child.
pub fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some(chunk::CHILD) => return chunk::child(&args[1..]),
        Some("--list") => {
            println!("fuzz: test");
            return ExitCode::SUCCESS;
        }
        // The name of another test.
        Some(name) if !name.starts_with('-') && !"fuzz".contains(name) => return ExitCode::SUCCESS,
        _ => {}
    }
    let asked = Asked::parse(&args);
    println!("seed {}", asked.seed);
    let mut failed = false;
    for (reader, sum) in all(&asked) {
        println!("{:>12}  {:>9} inputs, the slowest {:?}", reader.name, sum.inputs, sum.slowest);
        sum.faults.iter().for_each(|fault| println!("{:>12}  {fault}", ""));
        failed |= !sum.faults.is_empty() || sum.inputs == 0;
    }
    ExitCode::from(u8::from(failed))
}

impl Asked {
    fn parse(args: &[String]) -> Asked {
        let text = |name: &str| args.iter().position(|arg| arg == name).and_then(|at| args.get(at + 1));
        let number = |name: &str| {
            text(name)
                .map(|value| value.parse::<u64>().unwrap_or_else(|_| panic!("{name} {value}: give a whole number")))
        };
        let until = number("--seconds").map(|seconds| Instant::now() + Duration::from_secs(seconds));
        let endless = if until.is_some() { u64::MAX } else { FEW };
        let readers = if text("--reader").is_some() { 1 } else { READERS.len() as u64 };
        Asked {
            inputs: number("--inputs").map_or(endless, |inputs| inputs.div_ceil(readers)),
            until,
            reader: text("--reader").cloned(),
            seed: number("--seed").unwrap_or(SEED),
            first: number("--first").unwrap_or(0),
        }
    }
}

/// All readers in turn, a chunk of inputs each.
fn all(asked: &Asked) -> Vec<(&'static Reader, Sum)> {
    let wanted = |reader: &&Reader| asked.reader.as_ref().is_none_or(|name| name == reader.name);
    let mut sums: Vec<(&Reader, Sum)> = READERS.iter().filter(wanted).map(|reader| (reader, Sum::default())).collect();
    assert!(
        !sums.is_empty(),
        "no such reader; there are {:?}",
        READERS.iter().map(|reader| reader.name).collect::<Vec<_>>()
    );
    for (reader, sum) in &mut sums {
        for number in FOUND.iter().filter(|(name, ..)| *name == reader.name).map(|(_, number, _)| *number) {
            chunk::run(reader, FOUND_SEED, number..number + 1, &mut sum.faults, &mut sum.slowest);
        }
    }
    let is_over = || asked.until.is_some_and(|until| Instant::now() >= until);
    while !is_over() && sums.iter().any(|(_, sum)| sum.inputs < asked.inputs) {
        for (reader, sum) in &mut sums {
            if is_over() {
                break;
            }
            let count = reader.chunk.min(asked.inputs - sum.inputs);
            let end = asked.first + sum.inputs + count;
            while asked.first + sum.inputs < end {
                let first = asked.first + sum.inputs;
                sum.inputs += chunk::run(reader, asked.seed, first..end, &mut sum.faults, &mut sum.slowest);
            }
        }
    }
    sums
}

/// Where inputs are kept that show a fault.
fn folder() -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    std::fs::create_dir_all(&folder).unwrap();
    folder
}
