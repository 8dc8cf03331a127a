//! Imports perf.data, as `perf sched record`, `perf record -e sched:*` and `perf record -g` make it.
//!
//! [`File`] takes the container apart, [`record`] one record, [`format`] learns from the file where the fields of its tracepoints
//! lie, [`translate`] says the same in holdup's events. All of them are written for any bytes: whatever lies outside the file, is
//! too short or makes no sense is left out and noted, and nothing is allocated by a length that the file only claims. (That is
//! why these files are not read with the crates for them, which take a size from the file and allocate it.)

mod bytes;
mod file;
mod format;
mod record;
mod scope;
mod translate;

use std::fmt;
use std::io::{self, Write};

use holdup_trace::{Ending, Header};

use self::file::File;
pub use self::scope::Scope;

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
                "this is no perf.data file: it should begin with PERFILE2; `perf sched record -o perf.data COMMAND` makes one",
            ),
            ImportError::Pipe => f.write_str(
                "this perf.data was written into a pipe; `perf inject -i FILE -o perf.data` turns it into one that can be read",
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

/// Turns a perf.data file into a recording of the threads in `scope`.
///
/// # Errors
/// The bytes are no perf.data file that can be read, it has nothing to show or not the processes that were asked for, or `out` does not take the recording. What was
/// written to `out` before an error is no recording.
pub fn import(perf_data: &[u8], scope: &Scope, out: impl Write) -> Result<Imported, ImportError> {
    let file = File::open(perf_data)?;
    translate::translate(&file, scope, out)
}

#[cfg(test)]
mod tests;
