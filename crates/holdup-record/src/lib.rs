//! Records what the threads of a running program do, and imports recordings of other tools, into holdup's own format.
//!
//! The system is behind `sys/`; on a system that cannot record, [`record`] says so.

mod bytes;
pub mod doctor;
pub mod import;
mod kernel;
mod live;
mod options;
mod outcome;
mod record;
mod sys;
mod tally;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use holdup_trace::Event;

pub use live::{Extent, Live};
pub use options::{Backend, Children, Detail, Options, Target};
pub use outcome::{AskedForMap, CodeMap, Error, HeldFile, Outcome};
pub use tally::{LongWait, Totals};
pub use threads::ThreadNames;

/// Records until the target ends, the limit is over, or `stop` becomes true.
///
/// # Errors
/// Nothing could be recorded. What was written before an error in the middle is kept and closed with the error as its
/// reason.
pub fn record(options: &Options, stop: &AtomicBool) -> Result<Outcome, Error> {
    record_with(options, stop, &|_, _| Vec::new())
}

/// Lets SIGTERM and SIGHUP set `stop` as well, each unless it is ignored. A command that a recording has started gets
/// them too.
pub fn stop_at_signals(stop: &'static AtomicBool) {
    sys::signals::listen(stop);
}

/// The number of the signal that did so.
pub fn stopped_by() -> Option<u8> {
    sys::signals::heard().and_then(|(signal, _)| u8::try_from(signal).ok())
}

/// Records like [`record`]. When all is recorded, before the file is closed and while the processes that are given may
/// still run, `more` is asked for events that the caller knows of, to be dated with the time that it is given.
///
/// # Errors
/// As [`record`].
pub fn record_with(
    options: &Options,
    stop: &AtomicBool,
    more: &(dyn Fn(u64, &[u32]) -> Vec<Event> + Sync),
) -> Result<Outcome, Error> {
    sys::record(options, stop, more)
}

/// Records into memory until the target ends, the limit is over, or `stop` becomes true; no file is written, and the
/// options' name of one is of no use.
///
/// # Errors
/// As [`record`].
pub fn record_live(options: &Options, stop: &AtomicBool, live: &Arc<Live>) -> Result<Outcome, Error> {
    sys::record_live(options, stop, live)
}

/// Does what is no part of a recording that is under way, a look at it for example: its CPU time does not count for the
/// recorder's.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    sys::aside(work)
}

/// Has this process, which begins, keep little memory that it does not use.
pub fn keep_little_memory() {
    sys::keep_little_memory();
}

/// Gives memory that was freed back to the system, after something that needed much for a moment.
pub fn give_memory_back() {
    sys::give_memory_back();
}

/// Lets SIGUSR2 be counted from now on instead of ending the process.
pub fn heed_requests() {
    sys::signals::heed_requests();
}

/// How often SIGUSR2 came since the last call.
pub fn requests() -> u32 {
    sys::signals::requests()
}

/// Lets SIGHUP be counted from now on instead of ending the work: a service reads its settings again then.
pub fn heed_reloads() {
    sys::signals::heed_reloads();
}

/// How often SIGHUP came since the last call.
pub fn reloads() -> u32 {
    sys::signals::reloads()
}

/// Has a process that runs Java write its map of compiled code where [`code_map`] finds it, as `jcmd PID
/// Compiler.perfmap` does. It may take seconds. Whether a process that is gone ran Java is not known.
pub fn ask_for_map(pid: u32) -> AskedForMap {
    sys::ask_for_map(pid)
}

/// The map of functions that the runtime of a process wrote (`/tmp/perf-PID.map`, as the process sees it), of a process
/// that was recorded since that second of 1970.
///
/// # Errors
/// There is a file that is not to be believed (a link, another user's, too large): why.
pub fn code_map(pid: u32, began_unix_s: u64) -> Result<Option<CodeMap>, String> {
    sys::code_map(pid, began_unix_s)
}

/// The dump of functions that the runtime of a process wrote and mapped from this path (`jit-PID.dump`), of a process
/// that was recorded since that second of 1970.
///
/// # Errors
/// As [`code_map`].
pub fn jit_dump(pid: u32, mapped: &str, began_unix_s: u64) -> Result<Option<CodeMap>, String> {
    sys::jit_dump(pid, mapped, began_unix_s)
}

/// The first of these numbers that no process has, where that can be known.
pub fn first_missing(pids: &[u32]) -> Option<u32> {
    sys::first_missing(pids)
}

/// These processes, and behind them the running ones that they and their children have started, as far as wanted.
pub fn with_children(pids: &[u32], wanted: Children) -> Vec<u32> {
    sys::with_children(pids, wanted)
}

/// The processes of a control group and of the groups in it, ascending: of its folder, or of its path as
/// /proc/PID/cgroup shows it.
///
/// # Errors
/// There is no such group, or it cannot be read: why, as a sentence without a full stop.
pub fn of_cgroup(path: &Path) -> Result<Vec<u32>, String> {
    sys::of_cgroup(path)
}

/// The control group of a container that runs, by its id or the beginning of it.
///
/// # Errors
/// There is none, or more than one: why, as a sentence without a full stop.
pub fn of_container(id: &str) -> Result<PathBuf, String> {
    sys::of_container(id)
}

/// The control group of a systemd unit that runs, by its name.
///
/// # Errors
/// There is none: why, as a sentence without a full stop.
pub fn of_unit(name: &str) -> Result<PathBuf, String> {
    sys::of_unit(name)
}

/// Looks at this machine, user and process, and tries each ability; `None` where holdup cannot record at all.
///
/// On the first time on a kernel, this leaves a process behind for some seconds that closes what was tried.
pub fn examine() -> Option<doctor::Diagnosis> {
    let probe = sys::probe()?;
    Some(doctor::Diagnosis { abilities: doctor::judge(&probe), notes: doctor::notes(&probe), probe })
}
