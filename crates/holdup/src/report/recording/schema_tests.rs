//! The JSON of recordings, of their comparison and of rights against their schemas, these against docs/recording-json.md.

use serde::Serialize;
use serde_json::Value;

use super::super::schema_tests::{assert_covered, assert_fresh, document, named, schema};
use super::{diff, doctor, json, specimen};

const REPORT: &str = "holdup-recording-1.schema.json";
const DOCTOR: &str = "holdup-doctor-1.schema.json";
const DIFF: &str = "holdup-recording-diff-1.schema.json";

fn committed(schema: &str) -> Value {
    serde_json::from_str(&document(schema)).unwrap()
}

fn value(document: impl Serialize) -> Value {
    serde_json::to_value(document).unwrap()
}

#[test]
fn every_key_of_a_report_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let all = [specimen::held_up(), specimen::healthy(), specimen::empty(), specimen::hostile()];
    let values: Vec<Value> = all.iter().map(json::Document::new).map(value).collect();
    assert_covered(&schema::<json::Document<'_>>(), &values, &[]);
    assert_fresh::<json::Document<'_>>(REPORT);
}

#[test]
fn every_key_of_a_comparison_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let values = [
        diff::json(&specimen::held_up(), &specimen::healthy()),
        diff::json(&specimen::healthy(), &specimen::held_up()),
        diff::json(&specimen::empty(), &specimen::hostile()),
    ];
    assert_covered(&committed(DIFF), &values, &[]);
}

#[test]
fn every_key_of_a_diagnosis_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let values = [doctor::json(&specimen::ordinary_user()), doctor::json(&specimen::locked_down())];
    assert_covered(&committed(DOCTOR), &values, &[]);
}

#[test]
fn the_document_names_every_key() {
    let text = document("recording-json.md");
    for schema in [REPORT, DIFF, DOCTOR] {
        for place in named(&committed(schema)) {
            let key = place.rsplit('/').next().unwrap();
            assert!(text.contains(&format!("`{key}`")), "{key} is not in docs/recording-json.md");
        }
    }
}
