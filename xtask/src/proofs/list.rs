//! The mutation list: what it says, and whether it still fits the sources.
//!
//! The checks here are part of `cargo test`: they read text only. Running the mutations is
//! `cargo xtask proofs mutations`.

use crate::run::root;
use std::path::{Path, PathBuf};

/// The list, in the crate that it mutates.
pub const LIST: &str = "proofs/mutations.toml";

/// One way to break a lock.
#[derive(Debug, Clone, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Mutation {
    /// The source file, from the crate's folder.
    pub file: String,
    /// A fragment that occurs once in the file.
    pub find: String,
    /// What stands there instead.
    pub replace: String,
    /// The test that must fail: `TARGET::PATH`, where the target is a file under tests/ or `lib`; `miri:` before it
    /// interprets it under many schedules.
    pub test: String,
    /// What the original line is for.
    pub why: String,
    /// The test may also fail by never ending.
    #[serde(default)]
    pub hangs: bool,
    /// Why no test can fail, although the original is wanted.
    pub survives: Option<String>,
}

#[derive(serde::Deserialize)]
struct List {
    mutation: Vec<Mutation>,
}

/// A test by the file that it is compiled from, its path there, and whether Miri runs it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    pub miri: bool,
    pub target: String,
    pub path: String,
}

/// The folder of the crate.
pub fn package() -> PathBuf {
    root().join("crates/holdup-locks")
}

/// Reads the list and checks each fragment against its file.
pub fn read() -> Result<Vec<Mutation>, String> {
    let text = read_file(&package().join(LIST))?;
    let list: List = toml::from_str(&text).map_err(|error| format!("{LIST}: {error}"))?;
    for mutation in &list.mutation {
        mutation.apply(&read_file(&package().join(&mutation.file))?)?;
        mutation.test()?;
    }
    Ok(list.mutation)
}

/// A file's text; the error names it.
pub fn read_file(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

impl Mutation {
    /// The file's text with the mutation in it.
    pub fn apply(&self, text: &str) -> Result<String, String> {
        let places = text.matches(&self.find).count();
        if places != 1 || self.find == self.replace {
            return Err(format!(
                "the mutation list is stale: this stands {places} times in {}, and must stand once:\n{}\n\
                 adapt {LIST} in crates/holdup-locks",
                self.file, self.find
            ));
        }
        Ok(text.replacen(&self.find, &self.replace, 1))
    }

    /// The test that must fail.
    pub fn test(&self) -> Result<Test, String> {
        let (miri, name) = match self.test.strip_prefix("miri:") {
            Some(name) => (true, name),
            None => (false, self.test.as_str()),
        };
        let (target, path) =
            name.split_once("::").ok_or_else(|| format!("'{}' in {LIST} is no test: write TARGET::PATH", self.test))?;
        Ok(Test { miri, target: target.to_owned(), path: path.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders whose orderings the list must cover.
    const COVERED: &[&str] = &["src/lock", "src/technique"];

    fn sources() -> Vec<(String, String)> {
        let mut sources = Vec::new();
        for folder in COVERED {
            for entry in std::fs::read_dir(package().join(folder)).expect("the folder of the locks") {
                let path = entry.expect("an entry").path();
                if path.extension().is_some_and(|extension| extension == "rs") {
                    let name = path.file_name().expect("a file has a name").to_string_lossy();
                    sources.push((format!("{folder}/{name}"), read_file(&path).expect("a source is text")));
                }
            }
        }
        sources
    }

    /// The bytes of a file that its mutations replace.
    fn touched(mutations: &[Mutation], file: &str, text: &str) -> Vec<std::ops::Range<usize>> {
        let own = mutations.iter().filter(|mutation| mutation.file == file);
        own.filter_map(|mutation| text.find(&mutation.find).map(|at| at..at + mutation.find.len())).collect()
    }

    fn test_exists(test: &Test) -> bool {
        let last = test.path.rsplit("::").next().expect("a path has a last part");
        let declared = format!("fn {last}(");
        match test.target.as_str() {
            "lib" => sources().iter().any(|(_, text)| text.contains(&declared)),
            target => {
                let file = package().join("tests").join(target).with_extension("rs");
                read_file(&file).is_ok_and(|text| text.contains(&declared))
            }
        }
    }

    /// Names in backticks after a word such as `loom`, in a header's section on orderings or a comment on one.
    fn models_named(text: &str) -> Vec<String> {
        let comments = text.lines().map(str::trim).filter(|line| line.starts_with("//"));
        let all = comments.map(|line| line.trim_start_matches(['/', '!'])).collect::<Vec<_>>().join(" ");
        let mut names = Vec::new();
        for place in all.split("(loom: ").skip(1) {
            let inside = place.split(')').next().unwrap_or_default();
            names.extend(inside.split('`').skip(1).step_by(2).map(str::to_owned));
        }
        names
    }

    #[test]
    fn every_fragment_stands_once_and_every_test_exists() {
        for mutation in read().expect("the list fits the sources") {
            let test = mutation.test().expect("read checks it");
            assert!(test_exists(&test), "{}: there is no test {}", mutation.file, mutation.test);
            assert!(!mutation.why.is_empty(), "{}: say why of {}", mutation.file, mutation.find);
        }
    }

    #[test]
    fn every_ordering_that_is_not_relaxed_is_mutated() {
        let mutations = read().expect("the list fits the sources");
        for (file, text) in sources() {
            let touched = touched(&mutations, &file, &text);
            for ordering in ["Acquire", "Release", "AcqRel", "SeqCst"] {
                for (at, _) in text.match_indices(&format!("Ordering::{ordering}")) {
                    assert!(
                        touched.iter().any(|range| range.contains(&at)),
                        "{file}:{}: no entry of {LIST} weakens this {ordering}",
                        text[..at].lines().count()
                    );
                }
            }
        }
    }

    #[test]
    fn every_ordering_comment_has_its_mutation() {
        let mutations = read().expect("the list fits the sources");
        for (file, text) in sources() {
            let touched = touched(&mutations, &file, &text);
            for (at, _) in text.match_indices("// ORDERING:") {
                let statement = at..text[at..].match_indices('\n').nth(5).map_or(text.len(), |(end, _)| at + end);
                assert!(
                    touched.iter().any(|range| range.start < statement.end && statement.start < range.end),
                    "{file}:{}: no entry of {LIST} breaks what this comment justifies",
                    text[..at].lines().count()
                );
            }
        }
    }

    #[test]
    fn every_model_that_a_header_names_kills_a_mutation_of_its_file() {
        let mutations = read().expect("the list fits the sources");
        for (file, text) in sources() {
            for name in models_named(&text) {
                let prefix = name.trim_end_matches('*');
                let kills = mutations.iter().any(|mutation| {
                    let test = mutation.test().expect("read checks it");
                    let hit = if name.ends_with('*') { test.path.starts_with(prefix) } else { test.path == name };
                    mutation.file == file && mutation.survives.is_none() && test.target.starts_with("loom") && hit
                });
                assert!(kills, "{file} names the model '{name}', but no entry of {LIST} is caught by it");
            }
        }
    }
}
