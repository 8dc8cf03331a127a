//! Tables of many recordings, runs and trials as Parquet files in a folder, for engines that query folders: DuckDB,
//! Spark and others.
//!
//! ```text
//! DIR/v1/recording/day=2026-11-21/service=shop/host=web-17/holdup-ID.parquet
//! DIR/v1/account/day=2026-11-21/service=shop/host=web-17/holdup-ID.parquet
//! DIR/_unfinished/                                          what is being written; engines skip the name
//! ```
//!
//! Invariants:
//! 1. A file appears under its name as a whole: it is written elsewhere in DIR, flushed to the disk, then renamed. No
//!    file is ever changed.
//! 2. The file of the main table (`recording`, `run`, `trial`) comes last. What lacks it was not exported whole, and
//!    the next export of it writes all of its files again, the same as before.
//! 3. ID is made of the bytes of what is exported: what is exported twice, from wherever, is there once.

mod check;
mod folder;
mod sheet;
#[cfg(test)]
mod tests;

pub use check::{Checked, Group, check};
pub use folder::{Folder, Partition};
pub use sheet::Sheet;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Version of the tables: the folder's name, and a mark in each file. It rises when a column changes its meaning.
pub const VERSION: u32 = 1;

/// Marks in the files: which table, and which version of it.
const TABLE_KEY: &str = "holdup.table";
const VERSION_KEY: &str = "holdup.version";

/// What the files of one recording, run or trial are called: by a hash of its bytes.
pub fn id(bytes: &[u8]) -> String {
    format!("{:032x}", twox_hash::XxHash3_128::oneshot(bytes))
}

/// Why something could not be exported.
#[derive(Debug)]
pub struct Failure {
    /// The file or folder.
    pub path: PathBuf,
    /// The system's reason.
    pub why: io::Error,
}

impl Failure {
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Failure {
        let path = path.to_owned();
        |why| Failure { path, why }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.why)
    }
}

impl std::error::Error for Failure {}
