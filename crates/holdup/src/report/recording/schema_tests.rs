//! The JSON of recordings, of their comparison and of rights against their schemas.

use super::super::schema_tests::assert_defines;
use super::tables::{Origin, Tables};
use super::{diff, doctor, json, specimen};

#[test]
fn every_key_of_a_report_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let all = [specimen::held_up(), specimen::healthy(), specimen::empty(), specimen::hostile()];
    assert_defines("holdup-recording-1", &all.each_ref().map(json::Report::new));
}

#[test]
fn every_column_of_the_tables_is_in_the_schema_and_every_column_of_the_schema_is_written() {
    let all = [specimen::held_up(), specimen::healthy(), specimen::empty(), specimen::hostile()];
    assert_defines("holdup-fleet-1", &all.each_ref().map(|one| Tables::new(one, &Origin::default())));
}

/// A field whose type no column has would be left out.
#[test]
fn every_key_of_a_table_is_a_column() {
    let tables = serde_json::to_value(Tables::new(&specimen::held_up(), &Origin::default())).unwrap();
    for sheet in Tables::new(&specimen::held_up(), &Origin::default()).sheets() {
        let mut header = sheet.header();
        header.sort_unstable();
        let keys: Vec<&String> = tables[sheet.name][0].as_object().unwrap().keys().collect();
        assert_eq!(header, keys, "{}", sheet.name);
    }
}

#[test]
fn every_key_of_a_comparison_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let [held_up, healthy] = [specimen::held_up(), specimen::healthy()];
    let [empty, hostile] = [specimen::empty(), specimen::hostile()];
    let pairs = [(&held_up, &healthy), (&healthy, &held_up), (&empty, &hostile)];
    let all = pairs.map(|(before, after)| diff::Comparison::new(before, after));
    assert_defines("holdup-recording-diff-1", &all);
}

#[test]
fn every_key_of_a_diagnosis_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let all = [specimen::ordinary_user(), specimen::locked_down()];
    assert_defines("holdup-doctor-1", &all.each_ref().map(doctor::Rights::new));
}
