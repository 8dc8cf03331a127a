//! docs/findings.md has a section for every kind, in order, with every number that findings of that kind may show.

use holdup_analyze::{Kind, vocabulary};

const PAGE: &str = include_str!("../../../docs/findings.md");

/// What the sections of every kind have.
const PARTS: &[&str] = &["**Signs and thresholds.**", "**How it can be wrong.**", "**Cure.**", "**Proof.**", "```"];

/// Headings and texts of the sections.
fn sections() -> Vec<(&'static str, &'static str)> {
    let sections = PAGE.split("\n## ").skip(1);
    sections.map(|section| section.split_once('\n').expect("a heading has a line")).collect()
}

#[test]
fn a_section_for_every_kind_in_order() {
    let headings: Vec<&str> = sections().iter().map(|(heading, _)| *heading).collect();
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
    assert_eq!(headings, names);
}

#[test]
fn every_section_tells_all_that_a_reader_needs() {
    for (heading, text) in sections() {
        for part in PARTS {
            assert!(text.contains(part), "{heading}: no {part}");
        }
    }
}

#[test]
fn every_number_is_explained_and_none_that_is_not_shown() {
    for ((kind, names), (heading, text)) in vocabulary().zip(sections()) {
        assert_eq!(kind.name(), heading);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with("| `")).collect();
        let explained: Vec<&str> = table
            .iter()
            .filter_map(|line| line.split('|').nth(1))
            .flat_map(|cell| cell.split('`').skip(1).step_by(2))
            .collect();
        for name in names {
            assert!(explained.contains(name), "{heading}: {name} is not explained");
        }
        for name in explained {
            assert!(names.contains(&name), "{heading}: {name} is explained but never shown");
        }
    }
}
