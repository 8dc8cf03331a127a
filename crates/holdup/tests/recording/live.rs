//! Recordings that are kept in memory: a flight recorder's files, and looks at a program that runs; several processes
//! at once.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, skip};

/// A program that runs meanwhile.
struct Running(Child);

impl Running {
    fn start(program: &Path) -> Running {
        let child = Command::new(program).arg("120000").stdout(Stdio::null()).spawn().unwrap();
        Running(child)
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn program() -> Option<PathBuf> {
    build::program("../recorder/long_wait.c", Frames::None).map_err(|why| skip(&why)).ok()
}

/// Whether this user may not record here, which holdup says.
fn refused(output: &Output) -> bool {
    let said = text(output);
    let refused = output.status.code() == Some(2) && (said.contains("paranoid") || said.contains("seccomp"));
    if refused {
        skip(said.trim());
    }
    refused
}

#[test]
fn a_flight_recorder_writes_what_led_to_a_long_wait_and_nothing_for_idle_threads() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let running = Running::start(&program);
    // The idle thread waits longer than this from the beginning on; the lock's waits are 300 ms.
    let words = ["-p", &running.pid(), "--last", "20s", "--when", "lock-wait > 100ms", "--max-files", "1"];
    let output = place.recorder(&words).args(["--for", "60s", "-o", "flight.holdup"]).output().unwrap();
    if refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("flight-1.holdup"), "{}", text(&output));
    let report = place.report("flight-1.holdup");
    let trigger = &report["ending"]["trigger"];
    assert_eq!(trigger["condition"], "lock-wait > 100ms");
    assert!(trigger["seen"].as_str().unwrap().contains("g_ledger_lock"), "{trigger:#}");
    let lock = lock(&report, "g_ledger_lock");
    assert!(lock["wait_ns"]["max_ns"].as_u64().unwrap() > 100_000_000, "{lock:#}");
    let names = report["threads"].as_array().unwrap().iter().map(|thread| thread["name"].as_str().unwrap());
    let names: Vec<&str> = names.collect();
    assert!(["clerk-1", "clerk-2", "keeper", "idle"].iter().all(|name| names.contains(name)), "{names:?}");
    let shown = place.holdup(&["report", "flight-1.holdup"]).output().unwrap();
    assert!(text(&shown).contains("Kept because of lock-wait > 100ms"), "{}", text(&shown));
}

/// A process's own memory, in KiB.
fn own_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("RssAnon:")?.trim().strip_suffix(" kB")?.parse().ok())
}

#[test]
fn a_flight_recorder_stays_small_after_it_has_looked_at_what_it_keeps() {
    /// What names and call paths take for a moment is several times as much.
    const MOST_KIB: u64 = 40 << 10;
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let running = Running::start(&program);
    let words = ["-p", &running.pid(), "--last", "5s", "--when", "lock-wait > 100ms", "--max-files", "3"];
    let mut recorder = place.recorder(&words);
    recorder.args(["--for", "60s", "-o", "small.holdup"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut recorder = recorder.spawn().unwrap();
    let mut after = None;
    while recorder.try_wait().unwrap().is_none() && after.is_none() {
        std::thread::sleep(std::time::Duration::from_millis(20));
        after = own_memory(recorder.id()).filter(|_| place.path("small-1.holdup").exists());
    }
    if after.is_some() {
        recorder.kill().unwrap();
    }
    let output = recorder.wait_with_output().unwrap();
    if refused(&output) {
        return;
    }
    let after = after.unwrap_or_else(|| panic!("{}", text(&output)));
    assert!(after < MOST_KIB, "{after} KiB after the first file");
}

#[track_caller]
fn lock<'a>(report: &'a Value, name: &str) -> &'a Value {
    let locks = report["locks"].as_array().unwrap();
    locks.iter().find(|lock| lock["name"] == name).unwrap_or_else(|| panic!("no {name}: {locks:#?}"))
}

#[test]
fn a_flight_recorder_that_nothing_happens_to_writes_nothing_and_at_the_end_the_end() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let record = |words: &[&str]| place.recorder(words).arg("--").arg(&program).arg("1500").output().unwrap();
    let output = record(&["--when", "lock-wait > 500s", "-o", "never.holdup"]);
    if refused(&output) {
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("no file was written"), "{}", text(&output));
    let output = record(&["--when", "exit", "-o", "end.holdup"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(place.report("end-1.holdup")["ending"]["trigger"]["condition"], "exit");
}

#[test]
fn a_look_has_account_locks_and_threads() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let running = Running::start(&program);
    let top = |words: &[&str]| place.holdup(&["top", "-p", &running.pid(), "--once"]).args(words).output().unwrap();
    let output = top(&["--json", "--interval", "3s"]);
    if refused(&output) {
        return;
    }
    assert!(output.status.success(), "{}", text(&output));
    let look: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(look["schema"], "holdup-top-1");
    let recording = &look["recording"];
    assert!(lock(recording, "g_ledger_lock")["waits"].as_u64().unwrap() > 0);
    assert_eq!(recording["threads"].as_array().unwrap().len(), 5);
    let shares: f64 = recording["account"].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-6, "{shares}");
    let output = top(&["--interval", "3s"]);
    let screen = text(&output);
    assert!(output.status.success() && screen.contains("g_ledger_lock") && screen.contains("clerk-1"), "{screen}");
    assert!(screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
}

#[test]
fn several_processes_are_one_recording() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let [one, other] = [Running::start(&program), Running::start(&program)];
    let words = ["-p", &one.pid(), "-p", &other.pid(), "--for", "2s", "--no-report", "-o", "two.holdup"];
    let output = place.recorder(&words).output().unwrap();
    if refused(&output) {
        return;
    }
    assert!(output.status.success(), "{}", text(&output));
    let report = place.report("two.holdup");
    for running in [&one, &other] {
        let pid: u64 = running.pid().parse().unwrap();
        let threads = report["threads"].as_array().unwrap().iter().filter(|thread| thread["pid"] == pid);
        assert_eq!(threads.count(), 5, "{pid} in {:#}", report["processes"]);
    }
    let locks = report["locks"].as_array().unwrap();
    let ledgers = locks.iter().filter(|lock| lock["symbol"]["name"] == "g_ledger_lock");
    assert_eq!(ledgers.count(), 2, "each process has its own: {locks:#?}");
}

#[test]
fn the_workers_that_a_master_has_forked_are_recorded_with_it() {
    use std::os::unix::process::CommandExt as _;
    let _alone = alone();
    let place = Place::new();
    // A shell that runs two of itself: processes of the same program.
    let script = "(while :; do sleep 0.01; done) & (while :; do sleep 0.01; done) & wait";
    let mut shell = Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
    let pid = shell.id().to_string();
    let record =
        |words: &[&str]| place.recorder(&["-p", &pid, "--for", "1s", "--no-report"]).args(words).output().unwrap();
    let output = record(&["-o", "all.holdup"]);
    let alone = record(&["--no-children", "-o", "alone.holdup"]);
    // All of its group, by its number.
    let _ = Command::new("kill").args(["-KILL", "--", &format!("-{pid}")]).status();
    let _ = shell.wait();
    if refused(&output) {
        return;
    }
    assert!(output.status.success(), "{}", text(&output));
    let pids = |file| place.report(file)["header"]["target"]["pids"].as_array().unwrap().len();
    assert_eq!((pids("all.holdup"), pids("alone.holdup")), (3, 1));
    assert!(text(&alone).contains("2 child processes"), "{}", text(&alone));
}
