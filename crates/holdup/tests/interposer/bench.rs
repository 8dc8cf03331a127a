//! The profile against the bench's own account of the same run.

use super::{With, is_possible, locks};

/// Figures of the two differ in what each measures around a wait: beyond this, one of them is wrong.
const OFF: f64 = 0.15;

/// Beside other programs, a thread may lose its CPU between the two clocks: a profile that is wrong is so in each run.
const RUNS: usize = 5;

#[test]
fn waits_are_those_that_the_bench_measured() {
    if !is_possible() {
        return;
    }
    let mut runs = Vec::new();
    while runs.len() < RUNS {
        let (waited, bench) = waits();
        if (waited / bench - 1.0).abs() <= OFF {
            return;
        }
        runs.push((waited, bench));
    }
    panic!("profile, bench: {runs:?}");
}

/// How long threads waited, by the profile and by the bench itself.
fn waits() -> (f64, f64) {
    let cell =
        ["lock=pthread", "duration=700ms", "latency=on", "workload=free-list", "threads=4", "hold=100us", "gap=50us"];
    let words: Vec<&str> = [env!("CARGO_BIN_EXE_holdup"), "__worker"].into_iter().chain(cell).collect();
    let (ended, json) = With::new().json(&["--profile=full"], &words);
    let report: holdup_bench::worker::Report = serde_json::from_str(&ended.out).unwrap();
    let counted = report.sample.unwrap().acquisitions as f64;
    let sum = |path: &str| locks(&json).iter().map(|lock| lock.pointer(path).unwrap().as_f64().unwrap()).sum::<f64>();
    let (waited, acquired) = (sum("/wait/total_ns"), sum("/acquisitions"));
    // Until the threads begin together, the worker tries its lock.
    assert!(acquired >= counted && acquired <= counted * 1.2 + 2000.0, "{acquired}");
    (waited, report.latency_sum_ns.unwrap() as f64)
}
