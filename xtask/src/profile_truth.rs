//! Does the profile of `holdup with` say what happened? Runs of the bench know how long they waited for their lock.

use std::process::Command;

use serde_json::Value;

use crate::recording::{Bench, output};

/// Waits in the profile against the bench's own account.
const OFF: f64 = 0.05;

/// Cells of the bench. The holds are so long that the bench times every acquisition, and waits are most of what it
/// takes to acquire.
const CELLS: &[&str] = &[
    "threads=2 hold=100us gap=20us",
    "threads=4 hold=50us gap=50us",
    "threads=4 hold=20us",
    "threads=8 hold=200us",
    "threads=16 hold=100us gap=100us",
];

/// How locks are waited for meanwhile.
const POLICIES: &[&str] = &["glibc", "spin-park", "throttle:2"];

/// Checks every cell under every policy and prints the table; an error if a profile is off.
pub fn run(_args: &[String]) -> Result<(), String> {
    let bench = Bench::new("profile-truth")?;
    println!(
        "{:<32}{:<12}{:>12}{:>12}{:>9}{:>14}  verdict",
        "cell of the bench", "policy", "bench ms", "profile ms", "off", "acquisitions"
    );
    let mut wrong = 0;
    for cell in CELLS {
        for policy in POLICIES {
            wrong += usize::from(!check(&bench, cell, policy)?);
        }
    }
    let all = CELLS.len() * POLICIES.len();
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} of {all} profiles are off")) }
}

fn check(bench: &Bench, cell: &str, policy: &str) -> Result<bool, String> {
    let file = bench.fresh("profile.json");
    let mut command = Command::new(&bench.holdup);
    command.args(["with", "--profile=full", "--lock", policy, "--json"]).arg(&file).arg("--").arg(&bench.holdup);
    command.args(["__worker", "lock=pthread", "workload=free-list", "duration=3s", "latency=on"]).args(cell.split(' '));
    let said = output(&mut command)?;
    let said: Value = serde_json::from_slice(&said.stdout).map_err(|why| format!("the worker's report: {why}"))?;
    let said = |path: &str| said.pointer(path).and_then(Value::as_f64).ok_or_else(|| format!("no {path} in {said}"));
    let text = std::fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))?;
    let profile: Value = serde_json::from_str(&text).map_err(|why| format!("{}: {why}", file.display()))?;
    let locks: Vec<&Value> = profile["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(|process| process["locks"].as_array().into_iter().flatten())
        .collect();
    let sum = |path: &str| locks.iter().filter_map(|lock| lock.pointer(path)?.as_f64()).sum::<f64>();
    let (waited_ns, bench_ns) = (sum("/wait/total_ns"), said("/latency_sum_ns")?);
    let acquired = sum("/acquisitions") / said("/sample/acquisitions")?;
    let off = waited_ns / bench_ns - 1.0;
    // The worker tries its lock before the threads begin together.
    let right = off.abs() <= OFF && (1.0..1.0 + OFF).contains(&acquired);
    println!(
        "{cell:<32}{policy:<12}{:>12.1}{:>12.1}{:>8.2}%{:>13.2}%  {}",
        bench_ns / 1e6,
        waited_ns / 1e6,
        off * 100.0,
        acquired * 100.0,
        if right { "right" } else { "OFF" }
    );
    Ok(right)
}
