//! What came of a recording.

use std::fmt;
use std::fs::File;
use std::io::Take;
use std::path::PathBuf;
use std::sync::Arc;

use holdup_trace::{Ending, Header};

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
    /// What the user should know: rights that were missing, buffers that were smaller than wanted, sentences without a
    /// full stop.
    pub notes: Vec<String>,
    /// Files of programs that saw another file system, which may be gone with them.
    pub held: Vec<HeldFile>,
}

/// A file that was mapped, kept open.
#[derive(Clone, Debug)]
pub struct HeldFile {
    /// Its path, as the process saw it.
    pub path: String,
    /// Its build id, as far as it is known.
    pub build_id: Option<Box<[u8]>>,
    /// Itself, open.
    pub file: Arc<File>,
    /// A path by which this process reads it, as long as it is open.
    pub readable: PathBuf,
}

/// A map or a dump of functions that may be believed, to be read.
#[derive(Debug)]
pub struct CodeMap {
    /// The path that it was found at.
    pub path: PathBuf,
    /// Its text.
    pub file: Take<File>,
}

/// What a process answered that was asked for a map of the code that it made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AskedForMap {
    /// It wrote this file.
    Written(PathBuf),
    /// It runs Java, but writes none: why, as the end of a sentence without a full stop.
    Refused(String),
    /// It runs no Java, and cannot be asked; the files whose code it has mapped, none if it is gone.
    NoJava(Vec<String>),
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
    /// No thread of the processes has such a name.
    NoThread {
        /// As given.
        wanted: Vec<String>,
        /// What the threads are called.
        names: Vec<String>,
    },
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
            Error::NoThread { wanted, names } => {
                write!(f, "no thread is called {}: there are {}", wanted.join(" or "), names.join(", "))
            }
            Error::File { path, why } => write!(f, "cannot write '{}': {why}", path.display()),
            Error::Call { call, why } => write!(f, "{call}: {why}"),
        }
    }
}

impl std::error::Error for Error {}
