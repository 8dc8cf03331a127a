//! As what a program is recorded, and by whom.

use std::path::Path;
use std::process::Command;

use crate::recording::is_root;

/// One way to build a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// With debug information.
    Plain,
    /// Without names of its own.
    Stripped,
    /// With names that tell nothing: the macro NAME of truth.h.
    Neutral,
    /// Linked statically with musl.
    Musl,
}

impl Variant {
    pub fn name(self) -> &'static str {
        match self {
            Variant::Plain => "plain",
            Variant::Stripped => "stripped",
            Variant::Neutral => "neutral",
            Variant::Musl => "musl",
        }
    }

    pub fn parse(word: &str) -> Result<Variant, String> {
        let all = [Variant::Plain, Variant::Stripped, Variant::Neutral, Variant::Musl];
        all.into_iter().find(|variant| variant.name() == word.trim()).ok_or_else(|| format!("'{word}' is no variant"))
    }
}

/// By what is recorded; see `holdup record --capture`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Capture {
    Auto,
    Bpf,
    Perf,
    Sampler,
    /// Whatever is left where a filter of system calls refuses perf_event_open and bpf.
    Refused,
}

impl Capture {
    /// As `holdup record --capture` calls it.
    pub fn option(self) -> &'static str {
        if self == Capture::Refused { "auto" } else { self.name() }
    }

    pub fn name(self) -> &'static str {
        match self {
            Capture::Auto => "auto",
            Capture::Bpf => "bpf",
            Capture::Perf => "perf",
            Capture::Sampler => "sampler",
            Capture::Refused => "refused",
        }
    }

    pub fn parse(word: &str) -> Result<Capture, String> {
        let all = [Capture::Auto, Capture::Bpf, Capture::Perf, Capture::Sampler, Capture::Refused];
        all.into_iter().find(|capture| capture.name() == word.trim()).ok_or_else(|| format!("'{word}' is no capture"))
    }
}

/// Who records, and by what if that was asked for: `root`, `user-sampler`.
pub fn name_of(user: User, capture: Capture) -> String {
    match capture {
        Capture::Auto => user.name().to_owned(),
        capture => format!("{}-{}", user.name(), capture.name()),
    }
}

/// Who records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum User {
    Root,
    Ordinary,
}

impl User {
    pub fn name(self) -> &'static str {
        match self {
            User::Root => "root",
            User::Ordinary => "user",
        }
    }

    /// A command as this user. Whoever is no root can only be an ordinary user.
    pub fn command(self, program: &Path) -> Command {
        if self == User::Root || !is_root() {
            return Command::new(program);
        }
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all"]).arg(program);
        command
    }
}
