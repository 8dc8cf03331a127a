//! Golden texts of the views, and properties that hold for every recording.

use std::collections::BTreeSet;

use holdup_analyze::Facts;

use super::super::Style;
use super::super::tests::{assert_fits, golden};
use super::{
    account, code, diff, doctor, finding, json, locks, pairs, sentences, specimen, summary, switches, threads,
};
use crate::recording::Recording;
use crate::text;

/// Rows that the views show by default.
const ROWS: usize = 10;

fn all_switches(recording: &Recording, style: &Style) -> String {
    let mut out = String::new();
    let written = switches::write(&recording.report, usize::MAX, style, |line| {
        out.push_str(line);
        Ok::<(), ()>(())
    });
    assert_eq!(written, Ok(()));
    out
}

/// Every view, with its golden file.
fn views(recording: &Recording, style: &Style) -> Vec<(&'static str, String)> {
    let facts = &recording.report.facts;
    vec![
        ("summary", summary::screen(recording).terminal(style)),
        ("blame", account::blame(facts, ROWS).terminal(style)),
        ("path", account::path(facts, ROWS).terminal(style)),
        ("threads", threads::table(facts, ROWS).terminal(style)),
        ("locks", locks::table(facts, ROWS).terminal(style)),
        ("pairs", pairs::table(facts, ROWS).terminal(style)),
        ("symbols", code::symbols(facts, ROWS).terminal(style)),
        ("modules", code::modules(facts, ROWS).terminal(style)),
        ("switches", all_switches(recording, style)),
        ("finding", finding::full(recording, 0).unwrap_or_default().terminal(style)),
        ("diff", diff::view(recording, &specimen::healthy()).terminal(style)),
    ]
}

#[test]
fn the_views_are_the_golden_ones() {
    for (name, text) in views(&specimen::held_up(), &Style::default()) {
        assert_fits(&text, 80);
        golden(&format!("recording-{name}.txt"), &text);
    }
    let healthy = summary::screen(&specimen::healthy()).terminal(&Style::default());
    assert_fits(&healthy, 80);
    golden("recording-healthy.txt", &healthy);
}

#[test]
fn the_first_screen_is_one_screen() {
    for recording in [specimen::held_up(), specimen::healthy(), specimen::empty()] {
        let lines = summary::screen(&recording).terminal(&Style::default()).lines().count();
        assert!(lines <= 60, "{lines} lines");
    }
    let mut plain = specimen::held_up();
    plain.report.problems.clear();
    plain.damage.clear();
    let lines = summary::screen(&plain).terminal(&Style::default()).lines().count();
    assert!(lines <= 45, "{lines} lines without problems");
}

#[test]
fn odd_recordings_break_no_view() {
    for recording in [specimen::empty(), specimen::hostile()] {
        for width in [0, 9, 40, 80, 300] {
            for (name, text) in views(&recording, &Style { width, colour: false }) {
                assert!(!text.contains(['\u{1b}', '\u{202e}', '\u{0}', '\r']), "{name}: {text}");
                assert!(!text.contains("NaN") && !text.contains("inf "), "{name}: {text}");
            }
        }
        assert!(serde_json::to_string(&json::Report::new(&recording)).is_ok());
    }
}

#[test]
fn an_empty_recording_says_so() {
    let recording = specimen::empty();
    let screen = summary::screen(&recording).terminal(&Style::default());
    assert!(screen.starts_with("Nothing was recorded"), "{screen}");
    assert!(screen.contains("cut off"), "{screen}");
    for (name, text) in views(&recording, &Style::default()) {
        assert!(name == "finding" || !text.is_empty(), "{name}");
    }
}

#[test]
fn a_healthy_program_gets_no_finding_and_hears_what_was_looked_at() {
    let screen = summary::screen(&specimen::healthy()).terminal(&Style::default());
    assert!(screen.starts_with("Nothing holds server up: no findings."), "{screen}");
    assert!(screen.contains("3 threads on 2 CPUs"), "{screen}");
    assert!(!screen.contains("doctor"), "nothing was missing: {screen}");
}

#[test]
fn every_kind_and_every_cure_has_its_own_words() {
    let recording = specimen::held_up();
    let mut whats = BTreeSet::new();
    let mut cures = BTreeSet::new();
    for finding in specimen::every_kind() {
        let words = sentences::of(&recording, &finding);
        assert!(words.what.ends_with('.') && words.cure.ends_with('.'), "{words:?}");
        assert!(words.cost.contains("25%"), "{words:?}");
        whats.insert(words.what);
        cures.insert(words.cure);
    }
    assert_eq!((whats.len(), cures.len()), (24, 23));
}

#[test]
fn colour_changes_nothing_but_colour() {
    let recording = specimen::held_up();
    let plain = views(&recording, &Style::default());
    for ((name, coloured), (_, plain)) in views(&recording, &Style { width: 80, colour: true }).iter().zip(plain) {
        let stripped: Vec<usize> = coloured.lines().map(text::columns).collect();
        let expected: Vec<usize> = plain.lines().map(text::columns).collect();
        assert_eq!(stripped, expected, "{name}");
    }
}

#[test]
fn a_recording_differs_from_itself_in_nothing() {
    let recording = specimen::held_up();
    let text = diff::view(&recording, &recording).terminal(&Style::default());
    assert!(text.starts_with("Findings: 5 same."), "{text}");
    let value = serde_json::to_value(diff::Comparison::new(&recording, &recording)).unwrap();
    assert!(value["findings"].as_array().unwrap().iter().all(|row| row["change"] == "same"), "{value}");
}

/// The same program again: other addresses, other numbers of threads, and the hot lock half as hot.
#[test]
fn findings_are_matched_across_address_layouts() {
    let before = specimen::held_up();
    let mut after = specimen::held_up();
    let move_away = |facts: &mut Facts| {
        for lock in &mut facts.locks {
            lock.addr = lock.addr.map(|addr| addr + 0x1000);
        }
        facts.threads.iter_mut().for_each(|thread| thread.tid.0 += 1_000);
    };
    move_away(&mut after.report.facts);
    after.report.findings[0].severity = 0.2;
    after.report.findings[1].severity = 0.5;
    after.report.findings.truncate(4);
    let text = diff::view(&before, &after).terminal(&Style::default());
    assert!(text.starts_with("Findings: 1 gone, 1 better, 2 same and 1 worse."), "{text}");
    assert!(!text.contains("Note:"), "{text}");
    assert!(text.contains("lock at session_find"), "{text}");
}

#[test]
fn a_diff_of_unlike_recordings_says_so() {
    let mut other = specimen::healthy();
    let facts = &mut other.report.facts;
    facts.header.machine.cpus = 8;
    facts.header.machine.kernel = "6.19.0".to_owned();
    facts.processes[0].name = "client".to_owned();
    facts.end_ns = facts.start_ns + 1_000_000_000;
    let text = diff::view(&specimen::held_up(), &other).terminal(&Style::default());
    for word in ["programs differ", "2 CPUs before, 8 CPUs after", "6.19.0", "rights", "lengths differ"] {
        assert!(text.contains(word), "no '{word}' in {text}");
    }
}

#[test]
fn a_diagnosis_says_what_works_and_what_would_allow_more() {
    let text = doctor::screen(&specimen::ordinary_user()).terminal(&Style::default());
    assert_fits(&text, 80);
    golden("recording-doctor.txt", &text);
    let none = doctor::screen(&specimen::locked_down()).terminal(&Style::default());
    assert!(none.starts_with("holdup cannot record here yet"), "{none}");
    assert!(none.contains("Docker") && none.contains("least that grants"), "{none}");
}
