//! How often a program's threads wait on futexes of any kind, seen by recording one run of it.

use std::ffi::OsString;
use std::time::Duration;

use holdup_record::{Backend, Detail, Options, Target};

use super::run::Real;
use crate::recording::{self, Window};

/// The number, or `None` where nothing can be recorded, or the run of a server would have to be.
pub fn recorded(real: &Real<'_>, limit: Duration) -> Option<u64> {
    if real.subject.server.is_some() || real.subject.input.is_some() {
        return None;
    }
    let folder = scratch()?;
    let file = folder.join("waits.holdup");
    let options = Options {
        target: Target::Command(silent(real.subject.program.words())),
        output: file.clone(),
        limit: Some(limit),
        sample_hz: 0,
        // Without stacks the recorder does not tell waits apart.
        stack_bytes: 1024,
        buffer_kib: None,
        detail: Detail::Allowed,
        capture: Backend::Auto,
        environment: Vec::new(),
        silent: false,
        threads: holdup_record::ThreadNames::default(),
    };
    let waits = holdup_record::record(&options, real.stop).ok().and_then(|_| waits_of(&file));
    // The folder is ours alone and holds nothing else; what cannot be removed is a file among other temporary ones.
    let _ = std::fs::remove_dir_all(&folder);
    waits
}

/// The same command, which neither reads nor writes anything of ours: a recorded program keeps its streams otherwise.
fn silent(words: Vec<OsString>) -> Vec<OsString> {
    const SHELL: [&str; 3] = ["/bin/sh", "-c", "exec \"$0\" \"$@\" </dev/null >/dev/null 2>&1"];
    SHELL.map(OsString::from).into_iter().chain(words).collect()
}

fn waits_of(file: &std::path::Path) -> Option<u64> {
    let recording = recording::open(file, Window::default(), false).ok()?;
    Some(recording.report.facts.locks.iter().map(|lock| lock.waits).sum())
}

/// A folder of its own among the system's temporary files.
fn scratch() -> Option<std::path::PathBuf> {
    let name = format!("holdup-try-{}-{:016x}", std::process::id(), fastrand::u64(..));
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).ok().map(|()| folder)
}
