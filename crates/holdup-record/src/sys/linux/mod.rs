//! Linux: perf_event_open and /proc.
#![allow(
    unsafe_code,
    reason = "the kernel's interface: perf_event_open, its rings, and what the standard library lacks"
)]

mod assemble;
mod attach;
mod blocked;
mod bpf;
mod command;
mod counters;
mod decode;
mod drain;
mod family;
mod frame;
pub mod ids;
mod inside;
mod looks;
mod machine;
mod maps;
mod merge;
mod perf;
mod plan;
mod probe;
mod reduce;
mod refusal;
mod rights;
mod ring;
mod session;
pub mod signals;
mod snapshot;
mod status;
mod target;
mod watch;
mod words;

use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use self::drain::Store;
use self::frame::More;
use crate::{Error, Live, Options, Outcome, Target};

pub use self::family::{of_cgroup, with_children};
pub use self::maps::code_map;
pub use self::rights::probe;

/// Records as the options say.
pub fn record(options: &Options, stop: &AtomicBool, more: &More<'_>) -> Result<Outcome, Error> {
    on_its_own(|| {
        let file = create(&options.output)?;
        let outcome = record_into(Store::Begun(file), options, stop, more);
        if outcome.is_err() {
            // It is ours, it is new, and it says nothing.
            let _ = fs::remove_file(&options.output);
        }
        outcome
    })
}

/// Records into memory.
pub fn record_live(options: &Options, stop: &AtomicBool, live: &Arc<Live>) -> Result<Outcome, Error> {
    on_its_own(|| record_into(Store::Live(live.clone()), options, stop, &|_| Vec::new()))
}

fn on_its_own(record: impl FnOnce() -> Result<Outcome, Error> + Send) -> Result<Outcome, Error> {
    if !cfg!(target_arch = "x86_64") {
        return Err(Error::Refused(
            "recording needs an x86-64 machine so far; reports of recordings made there work here".into(),
        ));
    }
    // A thread of its own, because it asks the scheduler for shorter slices than its caller may want.
    thread::scope(|scope| {
        let recorder = scope.spawn(record);
        recorder.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn record_into(store: Store, options: &Options, stop: &AtomicBool, more: &More<'_>) -> Result<Outcome, Error> {
    match &options.target {
        Target::Command(command) => command::record_command(options, command, store, stop, more),
        Target::Processes(pids) => attach::record_processes(options, pids, store, stop, more),
    }
}

fn create(path: &Path) -> Result<File, Error> {
    File::create_new(path).map_err(|why| Error::File { path: path.into(), why })
}
