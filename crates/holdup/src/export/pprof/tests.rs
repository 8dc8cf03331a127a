//! What is in a profile, read back with the same messages; readers of others' making are asked by `cargo xtask
//! fleet-test`.

use std::io::Read as _;

use flate2::read::GzDecoder;
use holdup_analyze::Report;
use prost::Message as _;

use super::proto::Profile;
use super::write;
use crate::export::specimen::{contradictory, report};

fn profile(report: &Report) -> Profile {
    let mut out = Vec::new();
    write(report, &mut out).unwrap();
    let mut bytes = Vec::new();
    GzDecoder::new(&out[..]).read_to_end(&mut bytes).unwrap();
    Profile::decode(&bytes[..]).unwrap()
}

impl Profile {
    fn text(&self, index: i64) -> &str {
        &self.string_table[usize::try_from(index).unwrap()]
    }

    fn sums(&self) -> Vec<i64> {
        (0..self.sample_type.len()).map(|at| self.sample.iter().map(|sample| sample.value[at]).sum()).collect()
    }
}

#[test]
fn waits_and_samples_are_told_with_their_units() {
    let profile = profile(&report(4));
    let types: Vec<_> =
        profile.sample_type.iter().map(|one| (profile.text(one.r#type), profile.text(one.unit))).collect();
    assert_eq!(types, super::SAMPLE_TYPES);
    assert_eq!(profile.text(profile.default_sample_type), "delay");
    assert_eq!(profile.text(0), "");
    // Per round: main waits 50 us for the lock and 10 us for a CPU after it. The worker is off for 40 us, but for one
    // round of which nothing is known, and 5 us preempted.
    let sums = profile.sums();
    assert_eq!(sums[..2], [4, 240_000]);
    assert_eq!(sums[2], 240_000 + 3 * 40_000 + 4 * 5_000);
    assert_eq!(sums[3..], [8, 8_000_000]);
}

#[test]
fn every_number_leads_somewhere_and_a_frame_has_its_line() {
    let profile = profile(&report(4));
    for (number, location) in (1..).zip(&profile.location) {
        assert_eq!(location.id, number);
        assert!((1..=profile.mapping.len() as u64).contains(&location.mapping_id));
        assert!(location.line.iter().all(|line| (1..=profile.function.len() as u64).contains(&line.function_id)));
    }
    let all = profile.sample.iter().flat_map(|sample| &sample.location_id);
    assert!(all.clone().count() > 0 && all.clone().all(|id| (1..=profile.location.len() as u64).contains(id)));
    let of_main = profile.function.iter().find(|function| profile.text(function.name) == "main").unwrap();
    assert_eq!(profile.text(of_main.filename), "x.c");
    let lines = profile.location.iter().flat_map(|location| &location.line);
    assert!(lines.filter(|line| line.function_id == of_main.id).all(|line| line.line == 99));
}

#[test]
fn labels_name_thread_state_and_lock_and_hostile_names_stay_text() {
    let profile = profile(&report(4));
    let labels = |key: &str| -> Vec<&str> {
        let all = profile.sample.iter().flat_map(|sample| &sample.label);
        all.filter(|label| profile.text(label.key) == key).map(|label| profile.text(label.str)).collect()
    };
    assert!(labels("lock").contains(&"g_lock"));
    assert!(labels("state").contains(&"waiting_for_lock"));
    assert!(labels("thread").contains(&"main"));
    assert!(profile.string_table.iter().all(|text| !text.chars().any(char::is_control)));
}

#[test]
fn a_report_that_contradicts_itself_is_written_too() {
    profile(&contradictory());
    assert!(write(&Report::default(), &mut Vec::new()).is_err(), "without a timeline");
}
