//! How often a program's threads wait on futexes of any kind, seen by recording one run of it.

use std::time::Duration;

use holdup_record::{Options, Target};

use super::run::Real;
use crate::recording::{self, Window};
use crate::scratch::Folder;

/// The number, or `None` where nothing can be recorded, or the run of a server would have to be.
pub fn recorded(real: &Real<'_>, limit: Duration) -> Option<u64> {
    if real.subject.server.is_some() || real.subject.input.is_some() {
        return None;
    }
    let folder = Folder::new("try").ok()?;
    let file = folder.path().join("waits.holdup");
    let target = Target::Command(real.subject.program.words());
    let options = Options { limit: Some(limit), sample_hz: 0, silent: true, ..Options::new(target, &file) };
    holdup_record::record(&options, real.stop).ok()?;
    waits_of(&file)
}

fn waits_of(file: &std::path::Path) -> Option<u64> {
    let recording = recording::open(file, Window::default(), false).ok()?;
    Some(recording.report.facts.locks.iter().map(|lock| lock.waits).sum())
}
