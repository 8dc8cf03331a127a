//! The JSON against the rules of the processed profile format, and what it says against the report.

use serde_json::Value;

use super::super::specimen::{HOSTILE, contradictory, report};
use super::*;
use crate::text;

fn written(rounds: u64) -> Value {
    json(&report(rounds))
}

fn json(report: &Report) -> Value {
    let mut bytes = Vec::new();
    write(report, &mut bytes).unwrap();
    assert!(!bytes.contains(&b'\n'), "control characters are escaped");
    serde_json::from_slice(&bytes).unwrap()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("not a list: {value}"))
}

fn length(table: &Value) -> usize {
    table["length"].as_u64().unwrap() as usize
}

/// Every column of a table has as many entries as the table says.
fn check_columns(table: &Value, required: &[&str]) {
    for name in required {
        assert!(table.get(*name).is_some(), "a table lacks {name}");
    }
    for (name, column) in table.as_object().unwrap() {
        if let Value::Array(column) = column {
            assert_eq!(column.len(), length(table), "column {name}");
        }
    }
}

/// Every entry is null or an index below the limit.
fn check_indices(column: &Value, limit: usize, may_be_null: bool) {
    for entry in list(column) {
        let index = entry.as_i64().map(|index| usize::try_from(index).unwrap_or(usize::MAX));
        assert!(index.map_or(may_be_null, |index| index < limit), "{entry} of {limit}");
    }
}

fn check_stacks(thread: &Value, categories: usize) {
    let strings = list(&thread["stringArray"]).len();
    let (stacks, frames, functions) = (&thread["stackTable"], &thread["frameTable"], &thread["funcTable"]);
    check_columns(stacks, &["prefix", "frame"]);
    check_indices(&stacks["frame"], length(frames), false);
    for (own, prefix) in list(&stacks["prefix"]).iter().enumerate() {
        assert!(prefix.is_null() || prefix.as_u64().unwrap() < own as u64, "a stack before its prefix");
    }
    check_columns(frames, &["address", "category", "subcategory", "func", "nativeSymbol", "line", "column"]);
    check_indices(&frames["func"], length(functions), false);
    check_indices(&frames["category"], categories, false);
    check_columns(functions, &["name", "isJS", "relevantForJS", "resource", "fileName", "lineNumber"]);
    check_indices(&functions["name"], strings, false);
    check_columns(&thread["resourceTable"], &["lib", "name", "type"]);
    for resource in list(&functions["resource"]) {
        assert!(resource.as_i64().unwrap() < length(&thread["resourceTable"]) as i64);
    }
}

fn check_samples(thread: &Value) {
    let samples = &thread["samples"];
    check_columns(samples, &["stack", "weight", "threadCPUDelta", "timeDeltas", "weightType"]);
    check_indices(&samples["stack"], length(&thread["stackTable"]), true);
    assert!(list(&samples["timeDeltas"]).iter().all(|delta| delta.as_f64().unwrap() >= 0.0));
}

fn check_markers(thread: &Value, schemas: &[Value], categories: usize) {
    let strings = list(&thread["stringArray"]).len();
    let markers = &thread["markers"];
    check_columns(markers, &["category", "data", "endTime", "name", "phase", "startTime"]);
    check_indices(&markers["name"], strings, false);
    check_indices(&markers["category"], categories, false);
    let times = |name: &str| list(&markers[name]).to_vec();
    for ((phase, start), end) in list(&markers["phase"]).iter().zip(times("startTime")).zip(times("endTime")) {
        match phase.as_u64().unwrap() {
            0 => assert!(start.is_number() && end.as_f64().is_none_or(|end| end == 0.0)),
            1 => assert!(end.as_f64().unwrap() >= start.as_f64().unwrap()),
            other => panic!("phase {other}"),
        }
    }
    for data in list(&markers["data"]) {
        let schema = schemas.iter().find(|schema| schema["name"] == data["type"]).expect("it has a schema");
        for field in list(&schema["fields"]) {
            assert_eq!(field["format"], "unique-string");
            let value = &data[field["key"].as_str().unwrap()];
            assert!((value.as_u64().unwrap() as usize) < strings);
        }
    }
}

#[test]
fn the_rules_of_the_format_hold() {
    let profile = written(8);
    assert_eq!(profile["meta"]["interval"], 1.0);
    check(&profile);
    check(&json(&contradictory()));
}

fn check(profile: &Value) {
    let meta = &profile["meta"];
    for key in ["preprocessedProfileVersion", "interval", "startTime", "product", "markerSchema", "categories"] {
        assert!(meta.get(key).is_some(), "meta lacks {key}");
    }
    let categories = list(&meta["categories"]).len();
    assert_eq!(list(&profile["threads"]).len(), 2);
    for thread in list(&profile["threads"]) {
        for key in ["name", "processName", "pid", "tid", "isMainThread", "registerTime", "unregisterTime"] {
            assert!(thread.get(key).is_some(), "a thread lacks {key}");
        }
        check_columns(&thread["nativeSymbols"], &["address", "libIndex", "name"]);
        check_stacks(thread, categories);
        check_samples(thread);
        check_markers(thread, list(&meta["markerSchema"]), categories);
    }
}

/// Names of a thread's markers with the text of their only field.
fn markers(thread: &Value) -> Vec<(String, String)> {
    let strings = list(&thread["stringArray"]);
    let string = |index: &Value| strings[index.as_u64().unwrap() as usize].as_str().unwrap().to_owned();
    let text = |data: &Value| {
        let mut fields = data.as_object().unwrap().iter().filter(|(key, _)| *key != "type");
        string(fields.next().expect("a field").1)
    };
    let table = &thread["markers"];
    list(&table["name"]).iter().zip(list(&table["data"])).map(|(name, data)| (string(name), text(data))).collect()
}

#[test]
fn waits_wakes_and_findings_are_markers() {
    let profile = written(4);
    let threads = list(&profile["threads"]);
    let main = threads.iter().find(|thread| thread["isMainThread"] == true).unwrap();
    let worker = threads.iter().find(|thread| thread["isMainThread"] == false).unwrap();
    let count = |thread, name: &str, text: &str| {
        markers(thread).iter().filter(|marker| marker.0 == name && marker.1.starts_with(text)).count()
    };
    assert_eq!(count(main, "waiting for locks", "waits for g_lock"), 4);
    assert_eq!(count(main, "running", "CPU 0"), 2);
    assert_eq!(count(main, "waiting for a CPU", "runnable"), 4);
    assert_eq!(count(main, "woken by", &text::clean(HOSTILE)), 4);
    // To a thread that does not run again too: a marker needs no other end.
    assert_eq!(count(main, "wakes", &text::clean(HOSTILE)), 5);
    assert_eq!(count(main, "hot-lock", "hot-lock: "), 1);
    assert_eq!(count(worker, "waiting for work", "waits on a\"b\\c"), 1);
    assert_eq!(count(worker, "sleeping", "sleeps"), 1);
    assert_eq!(count(worker, "not known", "unknown"), 1);
    assert_eq!(count(worker, "waiting for I/O", "waits for I/O"), 1);
    assert_eq!(worker["processName"], text::clean(HOSTILE));
}

#[test]
fn samples_have_their_call_paths_and_cpu_time() {
    let profile = written(3);
    let threads = list(&profile["threads"]);
    let main = threads.iter().find(|thread| thread["isMainThread"] == true).unwrap();
    assert_eq!(length(&main["samples"]), 3);
    // 10 us of the first run; then the other 30 and 10 of the next, twice; in whole microseconds.
    assert_eq!(main["samples"]["threadCPUDelta"], serde_json::json!([10, 40, 40]));
    let strings = list(&main["stringArray"]);
    let mut path = Vec::new();
    let mut next = main["samples"]["stack"][0].as_u64();
    while let Some(stack) = next {
        let frame = main["stackTable"]["frame"][stack as usize].as_u64().unwrap() as usize;
        let function = main["frameTable"]["func"][frame].as_u64().unwrap() as usize;
        let name = main["funcTable"]["name"][function].as_u64().unwrap() as usize;
        path.push(strings[name].as_str().unwrap());
        next = main["stackTable"]["prefix"][stack as usize].as_u64();
    }
    assert_eq!(path, ["work", "x+0x1000", "main"]);
}

#[test]
fn the_size_grows_with_the_timeline_alone() {
    let size = |rounds| {
        let mut bytes = Vec::new();
        write(&report(rounds), &mut bytes).unwrap();
        bytes.len()
    };
    let (small, large) = (size(500), size(1_000));
    assert!(large < small * 21 / 10, "{small} bytes, then {large}");
}

#[test]
fn without_a_timeline_there_is_nothing_to_write() {
    let report = Report { timeline: None, ..report(1) };
    assert!(write(&report, &mut Vec::new()).unwrap_err().to_string().contains("no timeline"));
}

#[test]
fn a_profile_without_room_has_the_longest_stretches_and_says_so() {
    let report = report(1_000);
    let size = |markers| {
        let mut bytes = Vec::new();
        let left_out = write_at_most(&report, markers, &mut bytes).unwrap();
        (bytes.len(), left_out)
    };
    let (whole, left_out) = size(100_000);
    assert_eq!(left_out, None);
    // Of the six stretches of a round, four last 40 us and longer: 32.8 us is the power of two below.
    let (part, left_out) = size(4_000);
    assert_eq!(left_out, Some(LeftOut { shown: 4_000, all: 6_000, least_ns: 32_768 }));
    assert!(part < whole * 3 / 4, "{part} of {whole} bytes");
    assert_eq!(size(10).1.map(|left_out| left_out.shown), Some(0), "rather none than too many");
}
