//! Recordings of perf give the same findings about switching as ours of the same program.

use std::process::Command;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, has, is_root, skip};

/// Kinds that a recording of switches and wake-ups alone can show.
const SWITCHING: &[&str] = &["excessive-switching", "ping-pong", "oversubscription", "imbalance"];

#[test]
fn a_perf_sched_recording_gives_the_same_top_finding() {
    if !has("perf", "--version") {
        return skip("perf is not installed");
    }
    if !is_root() {
        return skip("perf sched record needs root");
    }
    let place = Place::new();
    if !place.holdup(&["import", "--help"]).output().unwrap().status.success() {
        return skip("this holdup has no import");
    }
    for file in ["ping_pong.c", "excessive_switching.c"] {
        let Ok(program) = build::program(file, Frames::None) else {
            return skip("there is no C compiler");
        };
        let _alone = alone();
        // Beside other programs, two runs may differ.
        for attempt in 1..=3 {
            let data = format!("{file}-{attempt}.perf.data");
            let mut perf: Command = place.command("perf");
            let output = perf.args(["sched", "record", "-o", &data, "--"]).arg(&program).output().unwrap();
            if !output.status.success() {
                return skip(&format!("perf sched record: {}", text(&output)));
            }
            let imported = format!("{file}-{attempt}.imported.holdup");
            let output = place.holdup(&["import", &data, "-o", &imported]).output().unwrap();
            assert!(output.status.success(), "{}", text(&output));
            assert!(text(&output).contains("the command that perf ran"), "{}", text(&output));
            only_the_command_is_shown(&place, &data, &imported);
            let ours = format!("{file}-{attempt}.holdup");
            assert!(place.record(&ours, &[&program]).status.success());
            let (theirs, ours) = (top(&place, &imported), top(&place, &ours));
            assert!(ours.is_some(), "our own recording of {file} shows no switching");
            if theirs == ours {
                break;
            }
            assert!(attempt < 3, "{file}: {theirs:?} imported, {ours:?} recorded");
        }
    }
}

/// perf saw the whole machine, itself among it.
fn only_the_command_is_shown(place: &Place, data: &str, imported: &str) {
    let everything = format!("{imported}.all");
    let output = place.holdup(&["import", data, "--all", "-o", &everything]).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    let processes = |file: &str| {
        let report = place.report(file);
        let pids = report["threads"].as_array().unwrap().iter().filter_map(|thread| thread["pid"].as_u64());
        pids.collect::<std::collections::BTreeSet<u64>>()
    };
    let (command, all) = (processes(imported), processes(&everything));
    assert_eq!(command.len(), 1, "{command:?}");
    assert!(all.len() > 1 && all.is_superset(&command), "{all:?}");
    let nobody = place.holdup(&["import", data, "-p", "4194305"]).output().unwrap();
    assert_eq!(nobody.status.code(), Some(2));
    assert!(text(&nobody).contains("no process 4194305"), "{}", text(&nobody));
}

/// The worst finding about switching.
fn top(place: &Place, file: &str) -> Option<String> {
    let report = place.report(file);
    let findings = report["findings"].as_array().unwrap();
    let kinds = findings.iter().filter_map(|finding| finding["kind"].as_str());
    kinds.into_iter().find(|kind| SWITCHING.contains(kind)).map(str::to_owned)
}
