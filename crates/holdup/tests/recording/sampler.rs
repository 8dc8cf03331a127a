//! Where the kernel gives no events, as in containers, threads are looked at from outside: locks, holders and findings
//! come out all the same, and everything says that it is sampled.

use std::path::PathBuf;

use serde_json::Value;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, skip};

/// The program with a lock that is held for long, and what runs a command without events.
fn programs() -> Option<[String; 2]> {
    let built = |name| build::program(name, Frames::None).map(|path: PathBuf| path.to_string_lossy().into_owned());
    let both = built("../recorder/no_events.c").and_then(|refuse| Ok([refuse, built("../recorder/long_wait.c")?]));
    both.map_err(|why| skip(&why)).ok()
}

#[track_caller]
fn thread(report: &Value, name: &str) -> Value {
    let threads = report["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["name"] == name).unwrap_or_else(|| panic!("no {name}"))["tid"].clone()
}

#[test]
fn without_events_the_lock_its_holder_and_the_place_come_from_looks() {
    let Some([refuse, program]) = programs() else { return };
    let _alone = alone();
    let place = Place::new();
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let record = [holdup, "record", "-o", "a.holdup", "--", &program, "3000"];
    let output = place.command(&refuse).args(record).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said = text(&output);
    for words in ["gives no events here", "Sampled: threads were looked at from outside", "g_ledger_lock"] {
        assert!(said.contains(words), "no '{words}' in {said}");
    }
    let report = place.report("a.holdup");
    assert!(report["header"]["look_period_ns"].as_u64().unwrap() > 0);
    let first = &report["findings"][0];
    assert_eq!((&first["kind"], &first["subjects"][0]["name"]), (&"sleeping-holder".into(), &"g_ledger_lock".into()));
    let lock = &report["locks"].as_array().unwrap().iter().find(|lock| lock["name"] == "g_ledger_lock").unwrap();
    assert_eq!(lock["holders"][0]["tid"], thread(&report, "keeper"));
    let longest = lock["wait_ns"]["max_ns"].as_u64().unwrap();
    assert!((200_000_000..2_000_000_000).contains(&longest), "{longest}");
    assert!(lock["wait_sites"][0].to_string().contains("ledger_post"), "{lock:#}");
    assert!(first.to_string().contains("ledger_close"), "{first:#}");
}

#[test]
fn top_and_the_doctor_know_that_they_sample() {
    let Some([refuse, program]) = programs() else { return };
    let _alone = alone();
    let place = Place::new();
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let output = place.command(&refuse).args([holdup, "doctor", "--json"]).output().unwrap();
    let doctor: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&doctor["capture"], &doctor["can_record"]), (&"sampler".into(), &true.into()), "{doctor:#}");
    let top = [holdup, "top", "--once", "--json", "--interval", "2s", "--", &program, "5000"];
    let output = place.command(&refuse).args(top).output().unwrap();
    let looked: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|why| panic!("{why}: {}", text(&output)));
    assert!(looked.to_string().contains("g_ledger_lock"), "{looked:#}");
}

#[test]
fn what_is_asked_for_by_name_and_refused_is_refused() {
    let Some([refuse, program]) = programs() else { return };
    let place = Place::new();
    for capture in ["perf", "bpf"] {
        let record =
            [env!("CARGO_BIN_EXE_holdup"), "record", "--capture", capture, "-o", "a.holdup", "--", &program, "9"];
        let output = place.command(&refuse).args(record).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(!place.path("a.holdup").exists());
    }
}

#[test]
fn threads_are_chosen_by_name_and_names_that_nobody_has_are_answered_with_those_there_are() {
    let Some([refuse, program]) = programs() else { return };
    let _alone = alone();
    let place = Place::new();
    let holdup = env!("CARGO_BIN_EXE_holdup");
    let names = |of: &Value| {
        let threads = of["threads"].as_array().unwrap_or_else(|| panic!("{of:#}"));
        let mut names: Vec<String> = threads.iter().map(|thread| thread["name"].as_str().unwrap().to_owned()).collect();
        names.sort_unstable();
        names
    };
    let top = [holdup, "top", "--once", "--json", "--interval", "2s", "--thread", "clerk-*", "--", &program, "5000"];
    let output = place.command(&refuse).args(top).output().unwrap();
    let looked = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(looked.contains("clerk-1") && !looked.contains("\"keeper"), "{looked}");
    let record = [holdup, "record", "--thread", "keeper", "-o", "a.holdup", "--", &program, "2000"];
    let output = place.command(&refuse).args(record).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(names(&place.report("a.holdup")), ["keeper"]);
    let mut running = place.command(&program).arg("60000").spawn().unwrap();
    let pid = running.id().to_string();
    let attach = [holdup, "record", "--thread", "clerk", "-o", "b.holdup", "--for", "1s", "-p", &pid];
    let mut said = String::new();
    // Its threads get their names soon.
    for _ in 0..100 {
        let output = place.command(&refuse).args(attach).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        said = text(&output);
        if said.contains("clerk-2") {
            break;
        }
    }
    running.kill().unwrap();
    running.wait().unwrap();
    for words in ["--thread: no thread is called 'clerk'", "clerk-1", "keeper"] {
        assert!(said.contains(words), "no '{words}' in {said}");
    }
}
