//! Sweeps that go wrong: broken locks, kill -9, Ctrl-C.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use holdup::results::RunRecord;
use holdup::store::Store;
use holdup_bench::sample::FailureKind;

use super::{Ended, Place};

/// 80 runs: enough to be stopped in the middle of.
const LONG: &str = "bench --lock pthread,std --threads 1,2 --duration 20ms --repeat 20 --no-reject";

fn load(path: &Path) -> RunRecord {
    Store::open_existing(path).unwrap().load(1).unwrap()
}

fn orders(record: &RunRecord) -> Vec<u32> {
    let mut orders: Vec<u32> = record.cells.iter().flat_map(|cell| &cell.samples).map(|sample| sample.order).collect();
    orders.sort_unstable();
    orders
}

/// Starts the long sweep and returns when a few of its samples are in the store.
fn begun(place: &Place) -> Child {
    let mut child = place.command(LONG).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        let measured = Store::open_existing(&place.store()).and_then(|store| store.runs());
        if measured.is_ok_and(|runs| runs.first().is_some_and(|run| run.measured >= 3)) {
            return child;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("not three samples within a minute");
}

#[test]
fn broken_locks_cost_their_cells_and_nothing_else() {
    let place = Place::new();
    let ended = place
        .run(
            "bench --lock pthread,broken-lost-update,broken-deadlock,broken-crash --threads 2 --duration 50ms \
             --repeat 6 --limit 4s --no-reject",
        )
        .with(1)
        .shows(&["broken-lost-update", "broken-deadlock", "broken-crash", "Failed", "hung", "crashed"]);
    assert!(!ended.err.contains("panicked"), "{}", ended.err);
    let record = load(&place.store());
    assert!(record.complete);
    // A lost update needs two threads at once, which a busy machine does not grant every run; the first one found ends
    // it.
    let kind = |lock: &str| {
        let cell = record.cells.iter().find(|cell| cell.spec.lock == lock).unwrap();
        let (last, earlier) = cell.samples.split_last().unwrap();
        assert!(earlier.iter().all(|sample| sample.outcome.is_ok()), "{lock} was measured on after its failure");
        last.outcome.as_ref().err().map(|failure| failure.kind)
    };
    assert_eq!(kind("broken-lost-update"), Some(FailureKind::LostUpdate));
    assert_eq!(kind("broken-deadlock"), Some(FailureKind::Hang));
    assert_eq!(kind("broken-crash"), Some(FailureKind::Crash));
    assert_eq!(kind("pthread"), None);
    let good = record.cells.iter().find(|cell| cell.spec.lock == "pthread").unwrap();
    assert_eq!(good.counted().count(), 6);
    place.run("history").with(0).shows(&["3 failed"]);
}

#[test]
fn a_killed_sweep_is_resumed_where_it_was() {
    let place = Place::new();
    let mut child = begun(&place);
    child.kill().unwrap();
    child.wait().unwrap();
    let before = orders(&load(&place.store()));
    assert!(before.len() < 80, "it was over before it was killed");
    place.run("bench --resume").with(0);
    let record = load(&place.store());
    assert!(record.complete);
    assert_eq!(orders(&record), (0..80).collect::<Vec<_>>());
    place.run("bench --resume 1").with(2).says(&["nothing is missing"]);
    place.run("bench --resume").with(2).says(&["nothing to resume"]);
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_says_how_to_go_on() {
    let place = Place::new();
    let child = begun(&place);
    let interrupt = format!("kill -INT {}", child.id());
    assert!(Command::new("sh").args(["-c", &interrupt]).status().unwrap().success());
    let ended = Ended::of(child.wait_with_output().unwrap()).with(130).says(&["holdup bench --resume 1"]);
    assert!(ended.out.contains("pthread"), "what was measured is shown: {}", ended.out);
    let record = load(&place.store());
    assert!(!record.complete && orders(&record).len() >= 3);
    place.run("bench --resume 1").with(0);
    assert_eq!(orders(&load(&place.store())), (0..80).collect::<Vec<_>>());
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let place = Place::new();
    let mut child = place.command("list factors").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    Ended::of(child.wait_with_output().unwrap()).with(0);
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_an_error_and_no_panic() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        println!("skipped: there is no /dev/full");
        return;
    }
    let place = Place::new();
    let to_full = || Stdio::from(std::fs::OpenOptions::new().write(true).open(full).unwrap());
    let output = place.command("list locks").stdout(to_full()).output().unwrap();
    Ended::of(output).with(2).says(&["cannot write the results"]);
    let status = place.command("bench --lock nonsense").stderr(to_full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}
