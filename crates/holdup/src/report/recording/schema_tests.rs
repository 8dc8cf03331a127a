//! The JSON of recordings and of their comparison against their schema files, both against docs/recording-json.md.

use std::collections::BTreeSet;

use serde_json::Value;

use super::super::schema_tests::{Checker, document, properties};
use super::{diff, doctor, json, specimen};

const REPORT: &str = "holdup-recording-1.schema.json";
const DOCTOR: &str = "holdup-doctor-1.schema.json";
const DIFF: &str = "holdup-recording-diff-1.schema.json";

/// Every property that a schema names.
fn named(schema: &Value) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    properties(schema, "", &mut named);
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        properties(definition, &format!("/$defs/{name}"), &mut named);
    }
    named
}

fn assert_covered(schema: &str, values: &[Value], unmet: &[&str]) {
    let schema: Value = serde_json::from_str(&document(schema)).unwrap();
    let mut checker = Checker { root: &schema, met: BTreeSet::new() };
    for value in values {
        let read: Value = serde_json::from_str(&value.to_string()).unwrap();
        checker.check(&read, &schema, "").unwrap_or_else(|why| panic!("{why}"));
    }
    let left: Vec<String> = named(&schema)
        .into_iter()
        .filter(|place| !checker.met.contains(place) && !unmet.iter().any(|start| place.starts_with(start)))
        .collect();
    assert!(left.is_empty(), "in the schema, but never written: {left:?}");
}

#[test]
fn every_key_of_a_report_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let all = [specimen::held_up(), specimen::healthy(), specimen::empty(), specimen::hostile()];
    let values: Vec<Value> = all.iter().map(json::recording).collect();
    // Only those counters are written that were recorded.
    assert_covered(REPORT, &values, &["/$defs/Counters/"]);
}

#[test]
fn every_key_of_a_comparison_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let values = [
        diff::json(&specimen::held_up(), &specimen::healthy()),
        diff::json(&specimen::healthy(), &specimen::held_up()),
        diff::json(&specimen::empty(), &specimen::hostile()),
    ];
    assert_covered(DIFF, &values, &[]);
}

#[test]
fn every_key_of_a_diagnosis_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let values = [doctor::json(&specimen::ordinary_user()), doctor::json(&specimen::locked_down())];
    assert_covered(DOCTOR, &values, &[]);
}

#[test]
fn the_document_names_every_key() {
    let text = document("recording-json.md");
    for schema in [REPORT, DIFF, DOCTOR] {
        for place in named(&serde_json::from_str(&document(schema)).unwrap()) {
            let key = place.rsplit('/').next().unwrap();
            assert!(text.contains(&format!("`{key}`")), "{key} is not in docs/recording-json.md");
        }
    }
}
