//! The public interface of `holdup-locks` as text, one item a line: `crates/holdup-locks/api.txt`, which CI holds
//! against the code.
//!
//! The text comes from rustdoc's JSON. That output is unstable, so a nightly rustdoc could change it any day; here the
//! pinned toolchain of `rust-toolchain.toml` writes it (`RUSTC_BOOTSTRAP=1` allows it to), and the exact version of the
//! crate `public-api` in `xtask/Cargo.toml` reads that format. Both change only when somebody raises the toolchain: see
//! CONTRIBUTING.md.

use crate::run::{self, cargo};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// Where the accepted interface stands.
const ACCEPTED: &str = "crates/holdup-locks/api.txt";

/// `cargo xtask api`: writes the text, `cargo xtask api --check`: compares it.
pub fn run(args: &[String]) -> Result<(), String> {
    match args {
        [] => accept(),
        [check] if check == "--check" => check_accepted(),
        _ => Err(format!(
            "'{}' is not understood; 'cargo xtask api' writes {ACCEPTED}, 'cargo xtask api --check' compares",
            args.join(" ")
        )),
    }
}

fn accept() -> Result<(), String> {
    let now = interface()?;
    let before = std::fs::read_to_string(accepted_file()).unwrap_or_default();
    std::fs::write(accepted_file(), &now).map_err(|why| format!("cannot write {ACCEPTED}: {why}"))?;
    eprintln!("{}", summary(&Difference::between(&before, &now)));
    Ok(())
}

/// Fails, and says what changed, if the code's interface is not the accepted one.
pub fn check_accepted() -> Result<(), String> {
    let before = std::fs::read_to_string(accepted_file())
        .map_err(|why| format!("cannot read {ACCEPTED}: {why}; 'cargo xtask api' writes it"))?;
    let difference = Difference::between(&before, &interface()?);
    if difference.is_empty() { Ok(()) } else { Err(complaint(&difference)) }
}

fn accepted_file() -> PathBuf {
    run::root().join(ACCEPTED)
}

/// The interface with all features, on the system that runs this.
fn interface() -> Result<String, String> {
    // A folder of its own: the flags would rebuild everything in the usual one.
    let target = run::root().join("target/api");
    cargo(&["rustdoc", "--quiet", "--package", "holdup-locks", "--lib", "--all-features"])
        .args(&["--", "-Z", "unstable-options", "--output-format", "json"])
        .env("RUSTC_BOOTSTRAP", "1")
        .env("CARGO_TARGET_DIR", &target.to_string_lossy())
        .run()?;
    let api = public_api::Builder::from_rustdoc_json(target.join("doc/holdup_locks.json"))
        .omit_blanket_impls(true)
        .build()
        .map_err(|why| {
            format!(
                "cannot read rustdoc's JSON: {why}; after a change of the toolchain, xtask/Cargo.toml \
            needs the version of public-api that reads its format"
            )
        })?;
    let lines: Vec<String> = api.items().map(ToString::to_string).filter(|item| matters(item)).collect();
    Ok(lines.join("\n") + "\n")
}

/// Of the traits that the compiler implements by itself, users rely on `Send` and `Sync`; the others would only make
/// noise.
fn matters(item: &str) -> bool {
    let by_itself = ["core::marker::Freeze", "core::marker::Unpin", "core::marker::UnsafeUnpin", "UnwindSafe"];
    !(item.starts_with("impl") && by_itself.iter().any(|name| item.contains(&format!("{name} for"))))
}

/// What changed between two texts.
struct Difference {
    added: Vec<String>,
    removed: Vec<String>,
}

impl Difference {
    fn between(before: &str, now: &str) -> Self {
        let before: BTreeSet<&str> = before.lines().collect();
        let now: BTreeSet<&str> = now.lines().collect();
        let only = |these: &BTreeSet<&str>, others: &BTreeSet<&str>| {
            these.difference(others).map(|line| (*line).to_owned()).collect()
        };
        Self { added: only(&now, &before), removed: only(&before, &now) }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }

    /// What a release with these changes must raise, and why.
    fn step(&self) -> &'static str {
        if self.removed.is_empty() {
            "minor: things were added, nothing that users have was taken or changed"
        } else {
            "major: something that users may use is gone or looks different"
        }
    }
}

fn summary(difference: &Difference) -> String {
    if difference.is_empty() {
        return format!("{ACCEPTED}: nothing changed");
    }
    let lines = listed('-', &difference.removed) + &listed('+', &difference.added);
    format!("{ACCEPTED}\n{lines}{}", difference.step())
}

fn complaint(difference: &Difference) -> String {
    format!(
        "the public interface of holdup-locks is not the accepted one\n{}{}{}\nIf that is meant: run 'cargo xtask \
         api', commit {ACCEPTED}, and say it in CHANGELOG.md.",
        listed('-', &difference.removed),
        listed('+', &difference.added),
        difference.step(),
    )
}

/// More lines than these help nobody; the file's diff has them.
const LINES_SHOWN: usize = 40;

fn listed(mark: char, lines: &[String]) -> String {
    let shown = lines.iter().take(LINES_SHOWN).map(|line| format!("  {mark} {line}\n"));
    let more = lines.len().saturating_sub(LINES_SHOWN);
    let rest = (more > 0).then(|| format!("  {mark} and {more} more\n"));
    shown.chain(rest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_addition_is_a_minor_change() {
        let difference = Difference::between("pub fn a()\n", "pub fn a()\npub fn b()\n");
        let text = complaint(&difference);
        assert!(text.contains("  + pub fn b()\nminor"), "{text}");
        assert!(text.contains("cargo xtask api"), "{text}");
    }

    #[test]
    fn what_is_gone_or_changed_is_a_major_change() {
        let difference = Difference::between("pub fn a()\npub fn b()\n", "pub fn a() -> u8\npub fn b()\n");
        let text = complaint(&difference);
        assert!(text.contains("  - pub fn a()\n  + pub fn a() -> u8\nmajor"), "{text}");
        assert!(Difference::between("pub fn a()\n", "").step().starts_with("major"));
    }

    #[test]
    fn the_same_is_no_change_and_send_matters() {
        assert!(Difference::between("pub fn a()\n", "pub fn a()\n").is_empty());
        assert!(matters("impl core::marker::Send for holdup_locks::Adaptive"));
        assert!(!matters("impl core::marker::Unpin for holdup_locks::Adaptive"));
        assert!(!matters("impl core::panic::unwind_safe::UnwindSafe for holdup_locks::Adaptive"));
    }
}
