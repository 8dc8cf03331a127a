//! Compiles fixtures; every test shares what was compiled.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use super::skip;

/// The compiled fixture `fixtures/interposer/SOURCE`, with more words for the compiler; `None` (said to be skipped)
/// where there is no compiler.
#[track_caller]
pub fn program(source: &str, words: &[&str]) -> Option<PathBuf> {
    static COMPILER: Mutex<()> = Mutex::new(());
    let _one = COMPILER.lock().unwrap_or_else(PoisonError::into_inner);
    if !super::is_possible() {
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/interposer").join(source);
    let source = source.canonicalize().unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("interposer");
    std::fs::create_dir_all(&folder).unwrap();
    let mark: String = words.concat().chars().filter(char::is_ascii_alphanumeric).collect();
    let binary = folder.join(format!("{}{mark}", source.file_stem().unwrap().to_str().unwrap()));
    if is_newer(&binary, &source) {
        return Some(binary);
    }
    let compiler = if source.extension().unwrap() == "cc" { "g++" } else { "gcc" };
    let mut command = Command::new(compiler);
    command.args(["-O2", "-g", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"]).arg(&binary).arg(&source).args(words);
    match command.output() {
        Ok(done) if done.status.success() => Some(binary),
        Ok(done) => panic!("{command:?}: {}", String::from_utf8_lossy(&done.stderr)),
        Err(why) => {
            skip(&format!("{compiler}: {why}"));
            None
        }
    }
}

fn is_newer(binary: &Path, source: &Path) -> bool {
    let time = |path: &Path| std::fs::metadata(path).and_then(|about| about.modified()).ok();
    time(binary).is_some_and(|made| time(source).is_some_and(|written| written < made))
}
