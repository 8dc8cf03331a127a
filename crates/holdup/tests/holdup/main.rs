//! The program as its users meet it: real processes, real files, exit statuses and messages.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message, in its helpers too")]

mod blocks;
mod circles;
mod docs;
mod experiments;
mod fleet;
mod input;
mod proof;
mod recording;
mod shards;
#[cfg(target_os = "linux")]
mod signals;
mod store;
mod sweep;
mod tidy;
mod tools;
mod trial;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// A place of its own for one test: data folder, home and working folder in one.
struct Place(TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Where the store is when nobody names one.
    fn store(&self) -> PathBuf {
        self.path("holdup/holdup.db")
    }

    fn command(&self, words: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdup"));
        self.at_home(command.args(words.split_whitespace()));
        command
    }

    /// The command belongs to this place: what it reads and writes by default is here.
    fn at_home<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .current_dir(self.0.path())
            .env("XDG_DATA_HOME", self.0.path())
            .env("HOME", self.0.path())
            // Where tracefs cannot be read, the recorder remembers the kernel's numbers: of all folders, once.
            .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
            .env_remove("NO_COLOR")
    }

    fn run(&self, words: &str) -> Ended {
        Ended::of(self.command(words).output().unwrap())
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

    /// The exit status must be this.
    #[track_caller]
    fn with(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }

    /// stderr must contain each of these.
    #[track_caller]
    fn says(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(self.err.contains(word), "no '{word}' in stderr:\n{}", self.err);
        }
        self
    }

    /// stdout must contain each of these.
    #[track_caller]
    fn shows(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(self.out.contains(word), "no '{word}' in stdout:\n{}", self.out);
        }
        self
    }
}

/// Everything in a folder, by name.
fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
