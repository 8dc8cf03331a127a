//! Code that a program made as it ran: what its runtime wrote of it for profilers, from the program to the report.

use std::path::PathBuf;

use serde_json::Value;

use super::build::{self, Frames};
use super::place::{Place, text};
use super::{alone, skip};

fn program() -> Option<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        skip("the code that the program makes is x86-64's");
        return None;
    }
    build::program("../recorder/generated.c", Frames::None).map_err(|why| skip(&why)).ok()
}

/// How many samples are of a function itself that the program made.
fn hits(report: &Value, function: &str) -> u64 {
    let symbols = report["symbols"].as_array().unwrap().iter();
    let made = symbols.filter(|symbol| symbol["frame"]["module"] == "[generated code]");
    made.filter(|symbol| symbol["frame"]["function"] == function).filter_map(|symbol| symbol["hits"].as_u64()).sum()
}

/// Two functions were in the same place, each for the same time.
#[test]
fn a_dump_names_the_code_that_was_there_at_the_time() {
    let Some(program) = program() else { return };
    let _alone = alone();
    let place = Place::new();
    let words = [program.to_str().unwrap(), "300", place.path("").to_str().unwrap()].map(str::to_owned);
    let recorded = place.record("g.holdup", &words);
    assert!(recorded.status.success(), "{}", text(&recorded));
    let report = place.report("g.holdup");
    let (first, second) = (hits(&report, "fill_cart"), hits(&report, "empty_cart"));
    assert!(first > 0 && second > 0 && first < 3 * second && second < 3 * first, "{first} {second} {report:#}");
    assert_eq!(report["problems"].as_array().unwrap().iter().find(|one| one["code"] == "no-code-map"), None);
}
