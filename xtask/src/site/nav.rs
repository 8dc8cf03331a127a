//! The navigation: which pages stand in which part, in which order.

use std::collections::BTreeMap;

use super::markdown::Section;
use super::path::page_at;

/// The parts. What ends in `/` stands for all pages of a folder.
const PARTS: &[(&str, &[&str])] = &[
    ("Start", &["README.md", "docs/tour.md", "reports/README.md"]),
    ("How to", &["docs/guide.md", "docs/which-lock.md", "docs/ci.md", "docs/containers.md", "docs/runtimes.md"]),
    ("Understand", &["docs/findings.md", "docs/proofs.md"]),
    ("Case studies", &["docs/cases/"]),
    (
        "Reference",
        &[
            "docs/experiments.md",
            "docs/export.md",
            "docs/fleet.md",
            "docs/store.md",
            "docs/recording-json.md",
            "docs/profile-json.md",
            "docs/trial-json.md",
            "docs/trace-format.md",
        ],
    ),
    ("Measured", &["docs/benchmarks/"]),
    ("The libraries", &["crates/"]),
    ("Project", &["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]),
    ("Decisions", &["docs/decisions/"]),
];

/// A part and its pages.
pub struct Part {
    pub name: &'static str,
    pub pages: Vec<Entry>,
}

/// A page: where it lies in the site, its title, its sections.
pub struct Entry {
    pub at: String,
    pub title: String,
    pub sections: Vec<Section>,
}

impl Part {
    /// Whether its pages are shown only where one of them is read: there are many.
    pub fn is_long(&self) -> bool {
        self.pages.len() > 12
    }
}

/// The parts with the pages of this site; an error if a page of docs/ is in none of them.
pub fn sections(titles: &BTreeMap<String, (String, Vec<Section>)>) -> Result<Vec<Part>, String> {
    let entry = |at: &String| {
        let (title, sections) =
            titles.get(at).ok_or_else(|| format!("{at} is in the navigation and not in the site"))?;
        Ok(Entry { at: at.clone(), title: title.clone(), sections: sections.clone() })
    };
    let parts = PARTS.iter().map(|(name, places)| {
        let places = places.iter().flat_map(|place| pages_of(place, titles));
        Ok(Part { name, pages: places.map(|at| entry(&at)).collect::<Result<_, String>>()? })
    });
    let parts: Vec<Part> = parts.collect::<Result<_, String>>()?;
    let known = |at: &str| parts.iter().flat_map(|part| &part.pages).any(|entry| entry.at == at);
    match titles.keys().find(|at| at.starts_with("docs/") && !at.ends_with("/index.html") && !known(at)) {
        Some(at) => Err(format!("{at} is in no part of the navigation: name it in xtask/src/site/nav.rs")),
        None => Ok(parts),
    }
}

/// The pages that a row of the table names. A folder's own list is not one of them.
fn pages_of(place: &str, titles: &BTreeMap<String, (String, Vec<Section>)>) -> Vec<String> {
    if !place.ends_with('/') {
        return vec![page_at(place)];
    }
    let index = format!("{place}index.html");
    let source = |at: &str| at.trim_end_matches(".html").rsplit('/').next().is_some_and(|name| name.contains('.'));
    titles.keys().filter(|at| at.starts_with(place) && **at != index && !source(at)).cloned().collect()
}
