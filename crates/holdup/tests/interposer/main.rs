//! Programs under other locks, as users run them: `holdup with`, its profile, single locks by name, and programs that
//! cannot be served.
//!
//! `HOLDUP_NO_SKIP=1` turns every skipped test into a failure.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message, in its helpers too")]

mod bench;
mod build;
mod folders;
mod names;
mod profile;
mod refusals;
mod run;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Says why a test did not run.
#[track_caller]
fn skip(why: &str) {
    assert!(std::env::var_os("HOLDUP_NO_SKIP").is_none(), "skipped although HOLDUP_NO_SKIP is set: {why}");
    println!("skipped: {why}");
}

/// Whether this holdup can do it at all.
fn is_possible() -> bool {
    let possible = cfg!(target_env = "gnu");
    if !possible {
        skip("only builds for glibc have programs to put locks under");
    }
    possible
}

/// `holdup with` in a folder of its own.
struct With {
    folder: TempDir,
}

impl With {
    fn new() -> With {
        With { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// `holdup with OPTIONS -- PROGRAM ARGUMENTS`, not started yet.
    fn command<S: AsRef<OsStr>>(&self, options: &[&str], program: &[S]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
        command.arg("with").args(options).arg("--").args(program).current_dir(self.folder.path());
        command
    }

    fn run<S: AsRef<OsStr>>(&self, options: &[&str], program: &[S]) -> Ended {
        Ended::of(self.command(options, program).output().unwrap())
    }

    /// Runs it and reads its JSON.
    fn json<S: AsRef<OsStr>>(&self, options: &[&str], program: &[S]) -> (Ended, Value) {
        let options = [options, &["--json", "out.json", "--force"]].concat();
        let ended = self.run(&options, program).with(0);
        let text = std::fs::read_to_string(self.path("out.json")).unwrap();
        (ended, serde_json::from_str(&text).unwrap())
    }
}

/// What came out of it.
#[derive(Debug)]
struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ended {
    fn of(output: Output) -> Ended {
        Ended {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn with(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        assert!(!self.err.contains("panicked"), "{}", self.err);
        self
    }

    #[track_caller]
    fn says(self, words: &[&str]) -> Ended {
        // Sentences are wrapped.
        let text = self.err.split_whitespace().collect::<Vec<_>>().join(" ");
        for word in words {
            assert!(text.contains(word), "no '{word}' in stderr:\n{}", self.err);
        }
        self
    }
}

/// The locks of the only process that was served.
#[track_caller]
fn locks(json: &Value) -> &Vec<Value> {
    let processes = json["processes"].as_array().unwrap();
    let [process] = &processes[..] else { panic!("{} processes", processes.len()) };
    process["locks"].as_array().unwrap()
}

/// The lock of this name.
#[track_caller]
fn lock<'a>(json: &'a Value, name: &str) -> &'a Value {
    let named =
        |lock: &&Value| lock["name"].as_str().is_some_and(|text| text == name || text.starts_with(&format!("{name} ")));
    let found: Vec<&Value> = locks(json).iter().filter(named).collect();
    let [lock] = found[..] else {
        let names: Vec<&Value> = locks(json).iter().map(|lock| &lock["name"]).collect();
        panic!("{} locks are called {name}; there are {names:?}", found.len());
    };
    lock
}

/// A path as text.
fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
