//! The pages of the repository in the order of the site, copied for mdBook.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::results;
use crate::files::put;
use crate::run::{Step, root};

/// The parts of the site, and their pages in order. A folder stands for those of its pages that no other part names.
const PARTS: &[(&str, &[&str])] = &[
    ("", &["README.md"]),
    ("Use", &["docs/tour.md", "docs/guide.md", "docs/which-lock.md", "docs/findings.md", "docs/runtimes.md"]),
    ("Examples", &["results/index.md", "docs/cases/"]),
    ("In CI, in containers", &["docs/ci.md", "docs/containers.md"]),
    ("Locks for programs", &["crates/holdup-locks/README.md", "docs/proofs.md"]),
    ("Measured", &["docs/benchmarks/"]),
    ("Formats", &["docs/"]),
    ("Inside", &["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions/", "CHANGELOG.md"]),
];

/// Files that pages show or name.
const FILES: &[&str] = &["docs/images/", "examples/", "crates/holdup-locks/examples/"];

/// Copies all of it, with the table of contents. The pages of results are there already.
pub fn copy(to: &Path) -> Result<(), String> {
    let mut contents = "# Contents\n".to_owned();
    let mut taken: BTreeSet<String> = named().map(str::to_owned).collect();
    put(&to.join("results/index.md"), results::page().as_bytes())?;
    for (title, pages) in PARTS {
        contents.push_str(&if title.is_empty() { "\n".to_owned() } else { format!("\n# {title}\n\n") });
        for page in *pages {
            for page in of(page, &mut taken)? {
                let text = text(&page, to)?;
                let list = if title.is_empty() { "" } else { "- " };
                contents.push_str(&format!("{list}[{}]({page})\n", heading(&text)));
                put(&to.join(&page), linked(&text).as_bytes())?;
            }
        }
    }
    put(&to.join("SUMMARY.md"), contents.as_bytes())?;
    for folder in FILES {
        files(folder, |_| true)?.iter().try_for_each(|file| copy_file(file, to))?;
    }
    files("docs/", |name| name.ends_with(".json"))?.iter().try_for_each(|file| copy_file(file, to))
}

/// Pages that a part names by themselves.
fn named() -> impl Iterator<Item = &'static str> {
    PARTS.iter().flat_map(|(_, pages)| pages.iter().copied()).filter(|page| !page.ends_with('/'))
}

/// A page, or those of a folder that are not taken yet: a list of them first, where the pages link to the folder.
fn of(page: &str, taken: &mut BTreeSet<String>) -> Result<Vec<String>, String> {
    if !page.ends_with('/') {
        return Ok(vec![page.to_owned()]);
    }
    let pages: Vec<String> = files(page, |name| name.ends_with(".md"))?;
    Ok(pages.into_iter().filter(|page| taken.insert(page.clone())).collect())
}

/// The files of a folder of the repository, not of those in it, by name.
fn files(folder: &str, wanted: impl Fn(&str) -> bool) -> Result<Vec<String>, String> {
    let list = Step::new("git", &["ls-files", folder]).output()?;
    let own = |file: &&str| !file.trim_start_matches(folder).contains('/') && wanted(file);
    Ok(list.lines().filter(own).map(str::to_owned).collect())
}

/// A page of the repository, or one that was made for the site.
fn text(page: &str, to: &Path) -> Result<String, String> {
    let repository = root().join(page);
    let place = if repository.exists() { repository } else { to.join(page) };
    fs::read_to_string(&place).map_err(|why| format!("{}: {why}", place.display()))
}

fn copy_file(file: &String, to: &Path) -> Result<(), String> {
    let place = to.join(file);
    let made = place.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::copy(root().join(file), &place)).map(drop).map_err(|why| format!("{file}: {why}"))
}

/// What a page calls itself.
fn heading(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("holdup")
}

/// A page whose links to folders lead to what the site has for them.
fn linked(text: &str) -> String {
    let mut parts = text.split("](");
    let mut linked = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (target, rest) = part.split_once(')').unwrap_or((part, ""));
        let target = if target.ends_with('/') && !target.contains("://") { instead(target) } else { target.to_owned() };
        linked.push_str(&format!("]({target}){rest}"));
    }
    linked
}

/// The first page or file of a folder that pages link to as a whole.
fn instead(folder: &str) -> String {
    let name = Path::new(folder).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let first = FIRST.iter().find(|(of, _)| *of == name).map_or("", |(_, first)| first);
    PathBuf::from(folder).join(first).display().to_string()
}

/// Folders that pages link to, and where one begins there.
const FIRST: &[(&str, &str)] = &[
    ("benchmarks", "peers-epyc-2cpu.md"),
    ("cases", "1998.md"),
    ("decisions", "0001-cells-are-words.md"),
    ("examples", "bank.rs"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_folders_lead_to_a_page_of_them() {
        assert_eq!(linked("[a](docs/benchmarks/), [b](x.md)"), "[a](docs/benchmarks/peers-epyc-2cpu.md), [b](x.md)");
        assert_eq!(linked("[c](https://example.org/)"), "[c](https://example.org/)");
        for (folder, first) in FIRST {
            let places = ["docs", "crates/holdup-locks"].map(|place| root().join(place).join(folder).join(first));
            assert!(places.iter().any(|place| place.exists()), "{folder}/{first}");
        }
    }

    #[test]
    fn a_page_is_named_by_its_heading() {
        assert_eq!(heading("x\n# The tour\n## No"), "The tour");
    }

    #[test]
    fn pages_of_the_parts_are_there() {
        for page in named().filter(|page| !page.starts_with("results/")) {
            assert!(root().join(page).exists(), "{page}");
        }
    }
}
