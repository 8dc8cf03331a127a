//! The commands that the guides name as proof run, and show what the text says they show.

use std::collections::BTreeMap;

use holdup::metric::Metric;
use holdup::results::RunRecord;
use holdup::store::Store;
use holdup_bench::spec::{Spec, Workload};

use super::docs::{commands, read};
use super::{Ended, Place};

/// Pages that name a command as proof.
const PAGES: [&str; 2] = ["docs/which-lock.md", "docs/findings.md"];

/// What the text says a command shows: which cell is faster than which. One word of a cell each; the other factors
/// are equal. Only what needs no optimised build and no minute of measuring stands here; figures are in the benchmark
/// pages.
const SAID: [(&str, &str, &str); 6] = [
    ("--between processes", "lock=pthread-shared", "lock=eventfd"),
    ("--workload ping-pong", "threads=1", "threads=2"),
    ("--workload ping-pong", "batch=16", "batch=1"),
    ("--yield never,holding,released", "yield=never", "yield=holding"),
    ("--counter xadd,cas-loop,sharded", "counter=sharded", "counter=cas-loop"),
    ("--table one,256,entry", "table=256", "table=one"),
];

/// The load of a test machine may swap two cells of 10 ms; it does not swap them every time.
const TRIES: usize = 5;

/// The laboratory's proofs, each once. "N" stands for the reader's number.
fn proofs() -> Vec<String> {
    let mut all: Vec<String> = PAGES.iter().flat_map(|page| commands(&read(page))).collect();
    all.retain(|command| command.starts_with("holdup bench --"));
    let mut all: Vec<String> = all.iter().map(|command| command.replace('N', "4")).collect();
    all.sort();
    all.dedup();
    all
}

fn measured(command: &str) -> RunRecord {
    let run = || {
        let place = Place::new();
        let words = command.strip_prefix("holdup ").unwrap();
        let ended = place.run(&format!("{words} --duration 10ms --repeat 2 --no-reject --seed 1")).with(0);
        (place, ended)
    };
    let told = |ended: &Ended, word| ended.out.contains(word) || ended.err.contains(word);
    // On a busy machine the work in a cell of 10 ms may take longer than asked for; not every time.
    let (mut place, mut ended) = run();
    for _ in 1..TRIES {
        if told(&ended, "work-missed") {
            (place, ended) = run();
        }
    }
    for word in ["work-missed", "failed", "baseline-failed"] {
        assert!(!told(&ended, word), "{command}: {word}\n{}{}", ended.out, ended.err);
    }
    let record = Store::open_existing(&place.store()).unwrap().load(1).unwrap();
    let packets = record.cells.iter().all(|cell| cell.spec.workload == Workload::PingPong);
    assert_eq!(ended.out.contains("packets/s"), packets, "{command}: {}", ended.out);
    record
}

/// The cells' speeds: packets of ping-pong, else operations.
fn speeds(record: &RunRecord) -> Vec<(Spec, f64)> {
    let speed = |spec: &Spec| match spec.workload {
        Workload::PingPong => Metric::named("packets_per_s").unwrap(),
        _ => Metric::named("ops_per_s").unwrap(),
    };
    let of = |cell: &holdup::results::CellRecord| {
        let speed = speed(&cell.spec);
        cell.counted().filter_map(|(_, sample)| speed.of(sample)).reduce(f64::max).unwrap()
    };
    record.cells.iter().map(|cell| (cell.spec.clone(), of(cell))).collect()
}

/// How many times as fast the cells with one word are as those that differ from them in that word alone.
fn gains(speeds: &[(Spec, f64)], faster: &str, slower: &str) -> Vec<f64> {
    let has = |spec: &Spec, word: &str| spec.to_words().iter().any(|one| one == word);
    let (name, value) = slower.split_once('=').unwrap();
    let pair = |(spec, speed): &(Spec, f64)| {
        let mut other = spec.clone();
        other.set(name, value).unwrap();
        let found = speeds.iter().find(|(spec, _)| *spec == other)?;
        Some(speed / found.1)
    };
    speeds.iter().filter(|(spec, _)| has(spec, faster)).filter_map(pair).collect()
}

#[test]
fn every_command_that_is_named_as_proof_runs_and_shows_what_is_said() {
    let proofs = proofs();
    assert!(proofs.len() >= 15, "{proofs:?}");
    let mut shown = [false; SAID.len()];
    for command in &proofs {
        let said: Vec<usize> = (0..SAID.len()).filter(|&said| command.contains(SAID[said].0)).collect();
        let mut seen = BTreeMap::<usize, Vec<f64>>::new();
        for _ in 0..TRIES {
            let speeds = speeds(&measured(command));
            assert!(speeds.len() > 1, "{command} compares nothing");
            for &said in &said {
                seen.entry(said).or_default().extend(gains(&speeds, SAID[said].1, SAID[said].2));
            }
            if seen.values().all(|gains| gains.iter().any(|gain| *gain > 1.0)) {
                break;
            }
        }
        for (said, gains) in seen {
            let (_, faster, slower) = SAID[said];
            assert!(gains.iter().any(|gain| *gain > 1.0), "{command}: {faster} is said to beat {slower}: {gains:?}");
            shown[said] = true;
        }
    }
    assert_eq!(shown, [true; SAID.len()], "what is said is shown by no command");
}
