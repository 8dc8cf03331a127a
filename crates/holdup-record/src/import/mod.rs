//! Imports perf.data, as `perf sched record`, `perf record -e sched:*` and `perf record -g` make it.
//!
//! [`File`] takes the container apart, [`record`] one sample, [`Record`](crate::record::Record) what is none,
//! [`format`] learns from the file where the fields of its tracepoints lie, [`translate`] says the same in holdup's
//! events. All of them are written for any bytes: whatever lies outside the file, is too short or makes no sense is
//! left out and noted, and nothing is allocated by a length that the file only claims. (That is why these files are not
//! read with the crates for them, which take a size from the file and allocate it.)

mod file;
mod format;
mod outcome;
mod record;
mod scope;
mod translate;

use std::io::Write;

use self::file::File;
pub use self::outcome::{ImportError, Imported};
pub use self::scope::Scope;

/// Turns a perf.data file into a recording of the threads in `scope`.
///
/// # Errors
/// The bytes are no perf.data file that can be read, it has nothing to show or not the processes that were asked for,
/// or `out` does not take the recording. What was written to `out` before an error is no recording.
pub fn import(perf_data: &[u8], scope: &Scope, out: impl Write) -> Result<Imported, ImportError> {
    let file = File::open(perf_data)?;
    translate::translate(&file, scope, out)
}

#[cfg(test)]
mod tests;
