//! Kills the recorder at random times, again and again: every file that it leaves must open and be reported.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::chance::Chance;
use crate::recording::Bench;

/// Kills so many recorders; a count and a seed may be given.
pub fn run(args: &[String]) -> Result<(), String> {
    let (times, mut chance) = Chance::of_command("record-faults", args, 50)?;
    let bench = Bench::new("record-faults")?;
    let program = bench.compile("programs/faults.c")?;
    let (mut empty, mut events) = (0, Vec::new());
    for turn in 0..times {
        let after = Duration::from_millis(chance.below(2_500));
        let file = bench.fresh("killed.holdup");
        let mut recorder = Command::new(&bench.holdup)
            .args(["record", "--no-report", "-o"])
            .arg(&file)
            .arg("--")
            .arg(&program)
            .arg("long")
            .stderr(Stdio::null())
            .spawn()
            .map_err(|why| why.to_string())?;
        std::thread::sleep(after);
        let target = child_of(recorder.id());
        recorder.kill().map_err(|why| why.to_string())?;
        recorder.wait().map_err(|why| why.to_string())?;
        if let Some(pid) = target {
            let _ = Command::new("kill").args(["-9", &pid]).stderr(Stdio::null()).status();
        }
        // Killed before it could write its first bytes: nothing to open.
        if std::fs::metadata(&file).map_or(0, |meta| meta.len()) == 0 {
            empty += 1;
            continue;
        }
        let report = bench.report(&file).map_err(|why| format!("turn {turn}, after {after:?}: {why}"))?;
        let cut_off = report["problems"].as_array().into_iter().flatten().any(|one| one["code"] == "cut-off");
        if !cut_off {
            return Err(format!("turn {turn}, after {after:?}: the report does not say that it was cut off"));
        }
        events.push(report["totals"]["events"].as_f64().unwrap_or(0.0) / after.as_secs_f64().max(0.001));
    }
    println!(
        "{times} recorders killed: {} files open and are reported, {empty} were killed before the first byte; \
         median {:.0} events per second of recording",
        events.len(),
        crate::recording::median(&events)
    );
    Ok(())
}

/// The target that a recorder started; it outlives its recorder.
fn child_of(parent: u32) -> Option<String> {
    let children = std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().next().map(str::to_owned)
}
