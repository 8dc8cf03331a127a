//! Running a command and saying what ran when it fails.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One command, started in the repository's root with this terminal's input and output.
pub struct Step {
    command: Command,
    text: String,
}

/// The cargo that runs this xtask, unless the first argument names another toolchain.
pub fn cargo(args: &[&str]) -> Step {
    Step::new("cargo", args)
}

/// The repository's root.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new(".")).to_owned()
}

/// Where cargo builds.
pub fn target_folder() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
    root().join(target)
}

/// A folder of builds apart from the others, under the target folder.
pub fn target(name: &str) -> String {
    target_folder().join(name).display().to_string()
}

/// The name of this machine, which becomes part of a page's file name: the first argument of `cargo xtask COMMAND`.
pub fn machine<'a>(args: &'a [String], command: &str) -> Result<&'a str, String> {
    let example = format!("for example: cargo xtask {command} epyc-2cpu");
    let name = args.first().ok_or_else(|| format!("name this machine, {example}"))?;
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    if starts_well && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
        return Ok(name);
    }
    Err(format!("'{name}' is not a file name of letters, digits and dashes; {example}"))
}

impl Step {
    /// Prepares `program args...`.
    pub fn new(program: &str, args: &[&str]) -> Step {
        let mut command = Command::new(program);
        command.args(args).current_dir(root());
        // A toolchain named on the command line must win over the one that runs this xtask.
        command.env_remove("RUSTUP_TOOLCHAIN").env_remove("CARGO");
        Step { command, text: format!("{program} {}", args.join(" ")) }
    }

    /// Adds arguments.
    pub fn args(mut self, args: &[&str]) -> Step {
        self.command.args(args);
        self.text = format!("{} {}", self.text, args.join(" "));
        self
    }

    /// Runs it in this folder instead of the repository's root.
    pub fn folder(mut self, folder: &Path) -> Step {
        self.command.current_dir(folder);
        self
    }

    /// Sets an environment variable.
    pub fn env(mut self, name: &str, value: &str) -> Step {
        self.command.env(name, value);
        self.text = format!("{name}='{value}' {}", self.text);
        self
    }

    /// Runs it; the error repeats the command.
    pub fn run(mut self) -> Result<(), String> {
        eprintln!("$ {}", self.text);
        let status = self.command.status().map_err(|error| format!("cannot start '{}': {error}", self.text))?;
        if status.success() { Ok(()) } else { Err(format!("'{}' ended with {status}", self.text)) }
    }

    /// Runs it to its end, whatever that is: the command, whether it succeeded, and what it printed on both streams.
    pub fn said(mut self) -> Result<(String, bool, String), String> {
        let output = self.command.output().map_err(|error| format!("cannot start '{}': {error}", self.text))?;
        let text = [output.stdout, output.stderr].concat();
        Ok((self.text, output.status.success(), String::from_utf8_lossy(&text).into_owned()))
    }

    /// Runs it and gives back what it printed.
    pub fn output(mut self) -> Result<String, String> {
        eprintln!("$ {}", self.text);
        let output = self
            .command
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot start '{}': {error}", self.text))?;
        if !output.status.success() {
            return Err(format!("'{}' ended with {}", self.text, output.status));
        }
        String::from_utf8(output.stdout).map_err(|_| format!("'{}' printed something that is not UTF-8", self.text))
    }
}

#[cfg(test)]
mod tests {
    use super::machine;

    fn named(words: &[&str]) -> Result<String, String> {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        machine(&words, "bench-page").map(str::to_owned)
    }

    /// `--help` once ran twelve minutes of measurement and wrote a page of that name.
    #[test]
    fn a_machine_is_named_and_an_option_is_no_name() {
        assert_eq!(named(&["epyc-2cpu", "peers"]).as_deref(), Ok("epyc-2cpu"));
        for wrong in ["--help", "-x", "", "a/b"] {
            let why = named(&[wrong]).unwrap_err();
            assert!(why.contains(&format!("'{wrong}'")) && why.contains("cargo xtask bench-page epyc-2cpu"), "{why}");
        }
        assert!(named(&[]).unwrap_err().starts_with("name this machine"));
    }
}
