//! A sweep in parts: whatever is killed and started again, the merged stores have the whole plan, nothing twice.

use std::process::Stdio;
use std::time::{Duration, Instant};

use holdup::store::Store;
use serde_json::Value;

use super::Place;

/// Five groups of two locks, each measured twice.
const SWEEP: &str = r#"
[experiment]
name = "parts"
title = "A sweep in parts"

[[sweep]]
name = "alone"
lock = ["none", "pthread"]
baseline = "none"
threads = 1
hold = ["0", "100ns", "200ns", "300ns", "400ns"]
duration = "10ms"
repeats = 2
"#;

const SHARDS: usize = 3;

fn place() -> Place {
    let place = Place::new();
    std::fs::write(place.path("parts.toml"), SWEEP).unwrap();
    place
}

fn shard(number: usize) -> String {
    format!("run parts.toml --no-reject --shard {number}/{SHARDS} --store {number}.db")
}

/// Every measurement of a run as it is exported, without what differs from time to time: cell, repetition, block.
fn measured(place: &Place, store: &str) -> Vec<String> {
    let run: Value =
        serde_json::from_str(&place.run(&format!("export last --json --store {store}")).with(0).out).unwrap();
    assert_eq!(run["complete"], Value::Bool(true), "{store}");
    let mut all = Vec::new();
    for cell in run["cells"].as_array().unwrap() {
        for sample in cell["samples"].as_array().unwrap() {
            all.push(format!("{} {} {} {}", cell["sweep"], cell["factors"], sample["repeat"], sample["block"]));
        }
    }
    all
}

/// The same with the seed that shards make of the file.
fn unsharded(place: &Place) -> Vec<String> {
    let run: Value = serde_json::from_str(&place.run("export last --json --store 1.db").with(0).out).unwrap();
    let seed = run["seed"].as_str().unwrap();
    place.run(&format!("run parts.toml --no-reject --seed {seed} --store whole.db")).with(0);
    measured(place, "whole.db")
}

#[test]
fn shards_merged_are_the_whole_plan_and_merging_again_adds_nothing() {
    let place = place();
    for number in 1..=SHARDS {
        place.run(&shard(number)).with(0).says(&[&format!("shard {number}/{SHARDS}: ")]);
    }
    place.run("history merge 1.db 2.db 3.db --store all.db").with(0).shows(&["3 runs added to all.db"]);
    let merged = measured(&place, "all.db");
    assert_eq!(merged, unsharded(&place), "the same measurements of the same cells in the same order");
    let again = place.run("history merge 3.db 1.db 2.db 1.db --store all.db").with(0);
    again.shows(&["0 runs added", "4 there already"]);
    assert_eq!(measured(&place, "all.db"), merged);
    let store = Store::open_existing(&place.path("all.db")).unwrap();
    assert_eq!(store.runs().unwrap().len(), SHARDS);
    place.run("history last --store all.db").with(0).shows(&["pthread"]);
    place.run("compare --by machine --store all.db").with(0).shows(&["pthread", "1 machine", "3 runs"]);
}

#[test]
fn a_shard_that_is_killed_goes_on_by_the_same_command_and_is_not_measured_twice() {
    let place = place();
    for number in 1..=SHARDS {
        let mut child = place.command(&shard(number)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let begun = || {
            let store = Store::open_existing(&place.path(&format!("{number}.db")));
            store.and_then(|store| store.runs()).is_ok_and(|runs| runs.iter().any(|run| run.measured > 0))
        };
        while !begun() {
            assert!(Instant::now() < deadline, "shard {number} was not begun");
            std::thread::sleep(Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // What was measured so far is merged, too, and the rest later.
        place.run(&format!("history merge {number}.db --store all.db")).with(0).shows(&["1 run added"]);
        let ended = place.run(&shard(number)).with(0);
        if !ended.err.contains("is measured already") {
            place
                .run(&format!("history merge {number}.db --store all.db"))
                .with(0)
                .shows(&["0 runs added", "1 completed"]);
        }
        place.run(&shard(number)).with(0).says(&["is measured already, as run 1"]);
    }
    assert_eq!(measured(&place, "all.db"), unsharded(&place));
}

#[test]
fn what_cannot_be_merged_is_named_and_the_rest_is() {
    let place = place();
    place.run(&shard(1)).with(0);
    std::fs::write(place.path("foreign.db"), "no store").unwrap();
    let ended = place.run("history merge foreign.db 1.db missing.db --store all.db").with(2);
    ended.shows(&["1 run added"]).says(&["foreign.db", "missing.db", "2 of 3 stores"]);
    place.run("history merge --store all.db").with(2).says(&["required"]);
    for wrong in ["0/3", "4/3", "x"] {
        place.run(&format!("run parts.toml --shard {wrong}")).with(2).says(&["1/8 to 8/8"]);
    }
    place.run("run parts.toml --shard 9/9 --store 9.db").with(0).says(&["nothing to measure"]);
    place.run("compare 1 --store all.db").with(2).says(&["two runs are compared"]);
}
