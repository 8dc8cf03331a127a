//! `cargo deny`: the licenses, duplicates and sources of every crate that ours depend on, against deny.toml.
//!
//! Advisories are not looked at: their database is another repository, which a build must not depend on.

use crate::run::{Step, cargo, target};

/// The version that deny.toml is written for.
const VERSION: &str = "0.20.2";

/// Builds cargo-deny under `target/` if it is not there (a minute, once), and runs it.
///
/// Where it cannot be had, for example without a network, the check is skipped and says so; with `CI` set that is a
/// failure.
pub fn check() -> Result<(), String> {
    let tools = target("tools");
    // In a debug build without its features (git, advisories): a third of the time. It does nothing if it is installed.
    let installed = cargo(&["install", "--quiet", "--locked", "--debug", "--no-default-features"])
        .args(&["--version", VERSION, "--root", &tools, "cargo-deny"])
        .run();
    if let Err(why) = installed {
        if std::env::var_os("CI").is_some() {
            return Err(why);
        }
        eprintln!("skipped: licenses and sources of dependencies are not checked, because {why}");
        return Ok(());
    }
    // By its path: the copy of this version, whatever is installed beside it.
    Step::new(&format!("{tools}/bin/cargo-deny"), &["deny", "check"])
        .args(&["--hide-inclusion-graph", "licenses", "bans", "sources"])
        .run()
}
