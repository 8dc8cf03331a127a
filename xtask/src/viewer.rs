//! The viewer's bundle: checked, built, and named, so that a test can tell whether it is fresh.
//!
//! Only who changes `crates/holdup/viewer/src` needs Node: the bundle is committed.

use std::path::PathBuf;

use crate::run::{Step, root};

#[path = "../../crates/holdup/viewer/hash.rs"]
mod hash;

fn folder() -> PathBuf {
    root().join("crates/holdup/viewer")
}

/// Formats and type-checks the sources, builds `dist/`, and writes down what it was built from.
///
/// So the test that finds a stale bundle also finds sources that are not formatted.
pub fn build(_: &[String]) -> Result<(), String> {
    let viewer = folder();
    let at = viewer.to_string_lossy();
    // npm writes this file last, with what it has installed.
    let changed = |name: &str| viewer.join(name).metadata().and_then(|file| file.modified()).ok();
    if changed("node_modules/.package-lock.json") < changed("package-lock.json") {
        // Exactly what the lock file says.
        Step::new("npm", &["ci", "--no-audit", "--no-fund", "--prefix", &at]).run()?;
    }
    for script in ["format", "check", "build"] {
        Step::new("npm", &["run", "--silent", script, "--prefix", &at]).run()?;
    }
    let file = viewer.join(hash::FILE);
    let lines = hash::lines(&viewer).map_err(|why| format!("{at}: {why}"))?;
    std::fs::write(&file, &lines).map_err(|why| format!("{}: {why}", file.display()))?;
    eprint!("{lines}");
    Ok(())
}

/// The tests that drive a browser; one that is missing is a failure here.
pub fn test(_: &[String]) -> Result<(), String> {
    crate::run::cargo(&["test", "--package", "holdup", "--test", "viewer"]).env("HOLDUP_NO_SKIP", "1").run()
}
