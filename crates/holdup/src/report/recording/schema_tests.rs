//! The JSON of recordings, of their comparison and of rights against their schemas.

use holdup_analyze::AccountState;

use super::super::schema_tests::{assert_defines, every_key_is_a_column};
use super::tables::{Origin, Tables};
use super::{diff, doctor, json, specimen};
use crate::recording::Recording;

#[test]
fn every_key_of_a_report_is_in_the_schema_and_every_key_of_the_schema_is_written() {
    let all = [specimen::held_up(), specimen::healthy(), specimen::empty(), specimen::hostile()];
    assert_defines("holdup-recording-1", &all.each_ref().map(json::Report::new));
}

/// The tables of a recording whose threads have an account, which made-up ones have not.
fn tables(mut recording: Recording) -> Tables {
    for thread in &mut recording.report.facts.threads {
        thread.account.ns = [7; AccountState::COUNT];
    }
    Tables::new(&recording, &Origin::default())
}

#[test]
fn every_column_of_the_tables_is_in_the_schema_and_every_column_of_the_schema_is_written() {
    let all = [specimen::held_up(), specimen::healthy(), specimen::empty(), specimen::hostile()];
    assert_defines("holdup-fleet-1", &all.map(tables));
}

#[test]
fn every_key_of_a_table_is_a_column() {
    let tables = tables(specimen::held_up());
    every_key_is_a_column(&tables, &tables.sheets());
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
