//! What the laboratory's own loop costs: `--lock none` beside the same loop written by hand in C, interleaved.
//!
//! `cargo bench -p holdup-bench --bench loop_cost`. The goal is within 1 ns per iteration.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use holdup_bench::spec::Spec;

const ITERATIONS: u64 = 50_000_000;
const ROUNDS: usize = 21;

fn main() -> ExitCode {
    match compare() {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("loop_cost: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compare() -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let program = compile(folder.path())?;
    println!("{:<34} {:>8} {:>8} {:>10}", "ns per iteration, median of 21", "C", "holdup", "difference");
    for workload in ["counter", "empty"] {
        let mut pairs = Vec::new();
        for _ in 0..ROUNDS {
            pairs.push((c_ns(&program)?, ours_ns(workload)?));
        }
        let (theirs, ours) = (median(pairs.iter().map(|p| p.0)), median(pairs.iter().map(|p| p.1)));
        let difference = median(pairs.iter().map(|p| p.1 - p.0));
        println!("{workload:<34} {theirs:>8.3} {ours:>8.3} {difference:>+10.3}");
    }
    Ok(())
}

fn compile(folder: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/loop/none.c");
    let program = folder.join("none");
    let status = Command::new("cc").arg("-O2").arg("-o").arg(&program).arg(&source).status();
    match status {
        Ok(status) if status.success() => Ok(program),
        Ok(status) => Err(format!("cc {}: {status}", source.display())),
        Err(error) => Err(format!("a C compiler is needed under the name cc: {error}")),
    }
}

fn c_ns(program: &Path) -> Result<f64, String> {
    let output = Command::new(program).arg(ITERATIONS.to_string()).output().map_err(|e| e.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| format!("the C loop said '{text}' and ended with {}", output.status))
}

fn ours_ns(workload: &str) -> Result<f64, String> {
    let words = ["lock=none", "threads=1", &format!("workload={workload}"), &format!("iterations={ITERATIONS}")];
    let spec = Spec::from_words(words).map_err(|error| error.to_string())?;
    let sample = holdup_bench::measure(&spec).map_err(|failure| failure.detail)?;
    Ok(sample.elapsed_ns as f64 / sample.ops() as f64)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
