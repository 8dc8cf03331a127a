//! Records what the threads of a running program do, and imports recordings of other tools, into holdup's own format.
//!
//! The system is behind `sys/`; on a system that cannot record, [`record`] says so.

pub mod doctor;
pub mod import;
mod kernel;
mod sys;

use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use holdup_trace::{Ending, Event, Header};

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom.
    pub target: Target,
    /// The file to write; it must not exist.
    pub output: PathBuf,
    /// End after this time (the target goes on if it was attached to, and is waited for if it was started).
    pub limit: Option<Duration>,
    /// CPU samples per second and CPU; 0 for none.
    pub sample_hz: u32,
    /// Bytes of user stack to look at per stack: a multiple of 8, at most 4096; 0 for frame-pointer chains alone.
    pub stack_bytes: u32,
    /// Size of the buffer of each CPU in KiB, a power of two; `None` for what the rights allow.
    pub buffer_kib: Option<u32>,
    /// How much to ask for.
    pub detail: Detail,
    /// What a command gets into its environment besides the recorder's own.
    pub environment: Vec<(OsString, OsString)>,
}

/// Whom to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Start this command: program and arguments.
    Command(Vec<OsString>),
    /// Attach to this process and all its threads.
    Process(u32),
}

/// How much to ask the kernel for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// What an ordinary user gets at perf_event_paranoid=2, even if more is allowed.
    User,
    /// All that the rights allow at the default's cost.
    #[default]
    Allowed,
}

/// What was recorded.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The file's header.
    pub header: Header,
    /// Its ending.
    pub ending: Ending,
    /// Events written.
    pub events: u64,
    /// Size of the file.
    pub bytes: u64,
    /// What the user should know: rights that were missing, buffers that were smaller than wanted, sentences without a full stop.
    pub notes: Vec<String>,
}

/// Why nothing, or not all, was recorded.
#[derive(Debug)]
pub enum Error {
    /// The system cannot record.
    Unsupported,
    /// A sentence: what is so, what is needed, and the command that grants the least of it.
    Refused(String),
    /// The command cannot be started.
    Command {
        /// As given.
        name: String,
        /// The system's reason.
        why: std::io::Error,
    },
    /// There is no such process.
    NoProcess(u32),
    /// The output file.
    File {
        /// Its path.
        path: PathBuf,
        /// The system's reason.
        why: std::io::Error,
    },
    /// A call of the kernel failed that should not.
    Call {
        /// Its name and what it was for.
        call: &'static str,
        /// The system's reason.
        why: std::io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported => f.write_str("recording needs Linux; reports of recordings work here"),
            Error::Refused(text) => f.write_str(text),
            Error::Command { name, why } => write!(f, "cannot start '{name}': {why}"),
            Error::NoProcess(pid) => write!(f, "there is no process {pid}"),
            Error::File { path, why } => write!(f, "cannot write '{}': {why}", path.display()),
            Error::Call { call, why } => write!(f, "{call}: {why}"),
        }
    }
}

impl std::error::Error for Error {}

/// Records until the target ends, the limit is over, or `stop` becomes true.
///
/// # Errors
/// Nothing could be recorded. What was written before an error in the middle is kept and closed with the error as its reason.
pub fn record(options: &Options, stop: &AtomicBool) -> Result<Outcome, Error> {
    record_with(options, stop, &|_| Vec::new())
}

/// Lets SIGTERM and SIGHUP set `stop` as well, each unless it is ignored. A command that a recording has started gets them too.
pub fn stop_at_signals(stop: &'static AtomicBool) {
    sys::signals::listen(stop);
}

/// The number of the signal that did so.
pub fn stopped_by() -> Option<u8> {
    sys::signals::heard().and_then(|(signal, _)| u8::try_from(signal).ok())
}

/// Records like [`record`]. Before the file is closed, `more` is asked for events that the caller knows of, to be dated with the
/// time that it is given.
///
/// # Errors
/// As [`record`].
pub fn record_with(
    options: &Options,
    stop: &AtomicBool,
    more: &(dyn Fn(u64) -> Vec<Event> + Sync),
) -> Result<Outcome, Error> {
    sys::record(options, stop, more)
}
