//! What came of an import.

use std::fmt;
use std::io;

use holdup_trace::{Ending, Header};

/// What was imported.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The header of the new recording.
    pub header: Header,
    /// Its ending.
    pub ending: Ending,
    /// Events written.
    pub events: u64,
    /// Size of the new recording.
    pub bytes: u64,
    /// What the user should know: what the file lacks, sentences without a full stop.
    pub notes: Vec<String>,
}

/// Why nothing was imported.
#[derive(Debug)]
pub enum ImportError {
    /// It is no perf.data file.
    Foreign {
        /// What it is instead, as far as it can be told.
        looks_like: Option<&'static str>,
    },
    /// It was written into a pipe, in a form without sections.
    Pipe,
    /// Its records are compressed.
    Compressed,
    /// What is needed to understand its records is damaged or cut off.
    Damaged,
    /// It is whole, but has nothing that holdup can show.
    Nothing {
        /// What it has instead.
        has: String,
    },
    /// A process that was asked for is not in it.
    NoProcess(u32),
    /// The new recording cannot be written.
    Write(io::Error),
}

impl fmt::Display for ImportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ImportError::Foreign { looks_like: Some(what) } => {
                write!(f, "this is no perf.data file but {what}")
            }
            ImportError::Foreign { looks_like: None } => f.write_str(
                "this is no perf.data file: it should begin with PERFILE2; `perf sched record -o perf.data COMMAND` \
                 makes one",
            ),
            ImportError::Pipe => f.write_str(
                "this perf.data was written into a pipe; `perf inject -i FILE -o perf.data` turns it into one that \
                 can be read",
            ),
            ImportError::Compressed => f.write_str(
                "the records of this perf.data are compressed; `perf inject -i FILE -o perf.data` unpacks them, \
                 and `perf record` without -z does not compress them",
            ),
            ImportError::Damaged => f.write_str(
                "the beginning of this perf.data is damaged or cut off: its events cannot be told apart; \
                 a whole file is needed, as `perf sched record -o perf.data COMMAND` makes it",
            ),
            ImportError::Nothing { has } => write!(
                f,
                "this perf.data has {has}, but no switches, wake-ups, lock waits or CPU samples; \
                 `perf sched record -o perf.data COMMAND` records them"
            ),
            ImportError::NoProcess(pid) => write!(
                f,
                "there is no process {pid} in it; `perf script -F comm,pid -i FILE | sort -u` lists those that are"
            ),
            ImportError::Write(why) => write!(f, "cannot write the recording: {why}"),
        }
    }
}

impl std::error::Error for ImportError {}
