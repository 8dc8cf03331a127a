//! Linux: perf_event_open and /proc.
#![allow(
    unsafe_code,
    reason = "the kernel's interface: perf_event_open, its rings, and what the standard library lacks"
)]

mod allowance;
mod assemble;
mod attach;
mod backlog;
mod blocked;
mod bpf;
mod builds;
mod choose;
mod chosen;
mod command;
mod counters;
mod decode;
mod drain;
mod elf;
mod family;
mod frame;
mod go;
mod held;
pub mod ids;
mod inside;
mod interpreters;
mod java;
mod looks;
mod machine;
mod maps;
mod memory;
mod merge;
mod node;
mod perf;
mod plan;
mod pointers;
mod probe;
mod python;
mod quota;
mod reduce;
mod refusal;
mod rights;
mod ring;
mod ruby;
mod sampler;
mod scripts;
mod session;
pub mod signals;
mod snapshot;
mod status;
mod still;
mod target;
mod unix_diag;
mod vm_threads;
mod watch;
mod words;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use self::choose::{Here, Way, choose};
use self::drain::Store;
use self::frame::More;
use crate::{Error, Live, Options, Outcome, Target};

pub use self::family::{first_missing, of_cgroup, of_container, of_unit, with_children};
pub use self::java::ask_for_map;
pub use self::machine::{aside, give_memory_back, keep_little_memory};
pub use self::maps::{code_map, jit_dump};
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
    on_its_own(|| record_into(Store::Live(live.clone()), options, stop, &|_, _| Vec::new()))
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
    if let Target::Processes(pids) = &options.target {
        pids.iter().try_for_each(|pid| refusal::if_of_another(*pid))?;
    }
    look_for_names(options)?;
    let (way, note) = choose(options.capture, options.detail, &Here(options))?;
    let bpf = match way {
        Way::Sampler => None,
        Way::Perf => Some(None),
        Way::Bpf(bpf) => Some(Some(bpf)),
    };
    let outcome = match (&options.target, bpf) {
        (Target::Command(command), None) => sampler::record_command(options, command, store, stop, more),
        (Target::Processes(pids), None) => sampler::record_processes(options, pids, store, stop, more),
        (Target::Command(command), Some(bpf)) => command::record_command(options, command, bpf, store, stop, more),
        (Target::Processes(pids), Some(bpf)) => attach::record_processes(options, pids, bpf, store, stop, more),
    };
    outcome.map(|mut outcome| {
        outcome.notes.splice(0..0, note);
        outcome
    })
}

/// Whoever attaches by names that no thread has would wait for nothing.
fn look_for_names(options: &Options) -> Result<(), Error> {
    /// More of them say no more.
    const LISTED: usize = 12;
    let Target::Processes(pids) = &options.target else { return Ok(()) };
    if options.threads.is_all() {
        return Ok(());
    }
    let tids = pids.iter().flat_map(|pid| snapshot::threads(*pid));
    let names: BTreeSet<String> = tids.filter_map(snapshot::name_of).map(String::from).collect();
    if names.is_empty() || names.iter().any(|name| options.threads.has(name)) {
        return Ok(());
    }
    let wanted = options.threads.iter().map(|name| format!("'{name}'")).collect();
    let more = names.len().saturating_sub(LISTED);
    let mut names: Vec<String> = names.into_iter().take(LISTED).collect();
    names.extend((more > 0).then(|| format!("{more} more")));
    Err(Error::NoThread { wanted, names })
}

fn create(path: &Path) -> Result<File, Error> {
    File::create_new(path).map_err(|why| Error::File { path: path.into(), why })
}
