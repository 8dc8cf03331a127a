//! Breaks a copy of the lock crate in one place at a time and demands that the named test fails.
//!
//! The copy lies in the target folder with its own builds, so nothing here touches the sources. A mutant that does not
//! build, a test that does not exist and a hang that was not announced are failures of the list, not successes of the
//! test.

use super::list::{self, Mutation, Test};
use crate::run;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// So long one test of a mutant may take. The longest model takes a tenth of it when nothing is broken.
const LIMIT_S: u32 = 120;
/// So long a build, or all named tests of the unbroken crate together, may take.
const LIMIT_BUILD_S: u32 = 1_800;
/// Schedules under which Miri looks for a mutation.
const MIRI_SEEDS: u32 = 4;

/// What became of a mutant's test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Failed,
    Passed,
    Hung,
}

/// Runs the list, or what `only` picks from it; says how many were caught.
pub fn run(only: &str) -> Result<String, String> {
    let mutations: Vec<Mutation> = list::read()?.into_iter().filter(|mutation| mutation.is_about(only)).collect();
    if mutations.is_empty() {
        return Err(format!("no mutation is about '{only}': look into {}", list::LIST));
    }
    let tree = Tree::copy()?;
    tree.passes_unbroken(&mutations)?;
    let mut wrong = Vec::new();
    for (number, mutation) in mutations.iter().enumerate() {
        let began = Instant::now();
        let verdict = tree.try_mutation(mutation);
        let seconds = began.elapsed().as_secs();
        let words = verdict.as_ref().map_or_else(String::as_str, |&words| words);
        let line = mutation.find.lines().next().unwrap_or_default().trim();
        println!(
            "{:>3}/{} {words}  {seconds} s  {}  {}  {line}",
            number + 1,
            mutations.len(),
            mutation.file,
            mutation.test
        );
        if verdict.is_err() {
            wrong.push(format!("{} ({words}): {line}\n    {}", mutation.file, mutation.why));
        }
    }
    let survivors = mutations.iter().filter(|mutation| mutation.survives.is_some()).count();
    if wrong.is_empty() {
        return Ok(format!("{} caught, {survivors} known to survive", mutations.len() - survivors));
    }
    Err(format!("{} of {} mutations:\n  {}", wrong.len(), mutations.len(), wrong.join("\n  ")))
}

impl Mutation {
    fn is_about(&self, word: &str) -> bool {
        [&self.file, &self.test, &self.find].iter().any(|text| text.contains(word))
    }

    fn judge(&self, outcome: Outcome) -> Result<&'static str, String> {
        match (outcome, &self.survives) {
            (Outcome::Failed, None) => Ok("caught  "),
            (Outcome::Hung, None) if self.hangs => Ok("caught  "),
            (Outcome::Passed, Some(_)) => Ok("survives"),
            (Outcome::Passed, None) => Err(format!("SURVIVES {}", self.test)),
            (Outcome::Hung, _) => Err(format!("HANGS for {LIMIT_S} s, and the list does not say hangs = true")),
            (Outcome::Failed, Some(_)) => Err("CAUGHT, but the list says that it survives".to_owned()),
        }
    }
}

/// The copy of the crate.
struct Tree {
    root: PathBuf,
    package: PathBuf,
}

impl Tree {
    /// Copies what differs, so that an unchanged file is not compiled again.
    fn copy() -> Result<Tree, String> {
        let root = PathBuf::from(run::target("proofs")).join("tree");
        let package = root.join("crates/holdup-locks");
        for file in ["Cargo.lock", "rust-toolchain.toml"] {
            write_changed(&root.join(file), &list::read_file(&run::root().join(file))?)?;
        }
        let manifest = list::read_file(&run::root().join("Cargo.toml"))?;
        write_changed(&root.join("Cargo.toml"), &alone(&manifest)?)?;
        copy_folder(&list::package(), &package)?;
        Ok(Tree { root, package })
    }

    /// Every test that the list names passes while nothing is broken.
    fn passes_unbroken(&self, mutations: &[Mutation]) -> Result<(), String> {
        let tests = mutations.iter().map(Mutation::test).collect::<Result<BTreeSet<Test>, String>>()?;
        let groups: BTreeSet<(bool, &str)> = tests.iter().map(|test| (test.miri, test.target.as_str())).collect();
        for (miri, target) in groups {
            let own = tests.iter().filter(|test| (test.miri, test.target.as_str()) == (miri, target));
            let paths: Vec<&str> = own.map(|test| test.path.as_str()).collect();
            println!("unbroken: {target}{} {}", if miri { " under Miri" } else { "" }, paths.join(" "));
            self.build(miri, target)?;
            match self.test(miri, target, &paths, LIMIT_BUILD_S)? {
                Outcome::Passed => {}
                outcome => {
                    return Err(format!("nothing is broken, but of {target}'s tests one {outcome:?}: {paths:?}"));
                }
            }
        }
        Ok(())
    }

    /// Applies the mutation, builds, runs its test, and mends the file whatever came of it.
    fn try_mutation(&self, mutation: &Mutation) -> Result<&'static str, String> {
        let path = self.package.join(&mutation.file);
        let (test, whole) = (mutation.test()?, list::read_file(&path)?);
        write(&path, &mutation.apply(&whole)?)?;
        let outcome = self
            .build(test.miri, &test.target)
            .and_then(|()| self.test(test.miri, &test.target, &[&test.path], LIMIT_S));
        write(&path, &whole)?;
        mutation.judge(outcome?)
    }

    fn build(&self, miri: bool, target: &str) -> Result<(), String> {
        let output = self.cargo(miri, target, LIMIT_BUILD_S).arg("--no-run").output();
        let output = output.map_err(|error| format!("cannot start timeout and cargo: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        Err(format!("DOES NOT BUILD: {}", String::from_utf8_lossy(&output.stderr)))
    }

    fn test(&self, miri: bool, target: &str, paths: &[&str], limit_s: u32) -> Result<Outcome, String> {
        let mut command = self.cargo(miri, target, limit_s);
        command.args(["--", "--exact"]).args(paths);
        let output = command.output().map_err(|error| format!("cannot start timeout and cargo: {error}"))?;
        let said = String::from_utf8_lossy(&output.stdout);
        // Miri prints one summary per seed.
        let ran = said.contains(&format!("running {} test", paths.len()));
        match output.status.code() {
            _ if !ran => Err(format!("THE TESTS {paths:?} DO NOT RUN: {}", String::from_utf8_lossy(&output.stderr))),
            Some(0) => Ok(Outcome::Passed),
            Some(124 | 137) => Ok(Outcome::Hung),
            _ => Ok(Outcome::Failed),
        }
    }

    /// `timeout SECONDS cargo test` of one target, as its kind of test needs it.
    fn cargo(&self, miri: bool, target: &str, limit_s: u32) -> Command {
        let loom = target.starts_with("loom");
        let mut command = Command::new("timeout");
        command.current_dir(&self.root).stdin(Stdio::null());
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO").env_remove("RUSTFLAGS");
        command.args(["-k", "5", &limit_s.to_string(), "cargo"]);
        if miri {
            command.args(["+nightly", "miri"]);
            let flags = format!("-Zmiri-disable-isolation -Zmiri-many-seeds=0..{MIRI_SEEDS}");
            command.env("MIRIFLAGS", flags);
        }
        command.args(["test", "--package", "holdup-locks"]);
        match target {
            "lib" => command.arg("--lib"),
            target => command.args(["--test", target]),
        };
        if loom {
            command.arg("--release").envs(super::MODELS).envs([super::DEEP]);
            command.env("CARGO_INCREMENTAL", "1");
        }
        let kind = if miri {
            "proofs/miri"
        } else if loom {
            "proofs/loom"
        } else {
            "proofs/debug"
        };
        command.env("CARGO_TARGET_DIR", run::target(kind)).env("RUST_BACKTRACE", "0");
        command
    }
}

/// The workspace's manifest with the lock crate as its only member.
fn alone(manifest: &str) -> Result<String, String> {
    let mut kept = String::new();
    for line in manifest.lines() {
        let line = match line.split('=').next().map(str::trim) {
            Some("members") => "members = [\"crates/holdup-locks\"]",
            Some("default-members") => continue,
            _ => line,
        };
        kept.push_str(line);
        kept.push('\n');
    }
    if kept.contains("members = [\"crates/holdup-locks\"]") {
        return Ok(kept);
    }
    Err("Cargo.toml of the workspace has no line 'members = ...' to replace".to_owned())
}

fn copy_folder(from: &Path, to: &Path) -> Result<(), String> {
    let entries = std::fs::read_dir(from).map_err(|error| format!("cannot list {}: {error}", from.display()))?;
    for entry in entries {
        let entry = entry.map_err(|error| format!("cannot list {}: {error}", from.display()))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            write_changed(&copy, &list::read_file(&path)?)?;
        }
    }
    Ok(())
}

fn write_changed(path: &Path, text: &str) -> Result<(), String> {
    if std::fs::read_to_string(path).is_ok_and(|old| old == text) { Ok(()) } else { write(path, text) }
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)
        .and_then(|()| std::fs::write(path, text))
        .map_err(|error| format!("cannot write {}: {error}", path.display()))
}
