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
