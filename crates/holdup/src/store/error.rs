//! What can be wrong with a store, and what a user does about it.

use std::fmt;
use std::path::{Path, PathBuf};

use super::VERSION;

/// Why a store cannot serve.
#[derive(Debug)]
pub enum StoreError {
    /// The environment names no folder for data.
    NoDataFolder,
    /// There is no file yet.
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// The file is something else.
    Foreign {
        /// The file.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// A newer program wrote it.
    Newer {
        /// The file.
        path: PathBuf,
        /// Version of its schema.
        version: u32,
    },
    /// The file is a store, but parts of it cannot be read.
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// Another program had it locked for too long.
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The system refused.
    Io {
        /// The file.
        path: PathBuf,
        /// In the system's words.
        why: String,
    },
    /// No run has this number.
    NoSuchRun {
        /// The store.
        path: PathBuf,
        /// The run as the user named it.
        run: String,
    },
    /// Every run came to its end.
    NothingToResume {
        /// The store.
        path: PathBuf,
    },
    /// The same measurement is already there: two programs resume one run.
    MeasuredTwice {
        /// The run.
        run: i64,
    },
}

impl StoreError {
    pub(super) fn io(path: &Path, why: std::io::Error) -> StoreError {
        StoreError::Io { path: path.to_owned(), why: why.to_string() }
    }

    pub(super) fn sqlite(path: &Path, why: &rusqlite::Error) -> StoreError {
        use rusqlite::ErrorCode;
        let path = path.to_owned();
        match why.sqlite_error_code() {
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy { path },
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                StoreError::Damaged { path, what: why.to_string() }
            }
            Some(_) => StoreError::Io { path, why: why.to_string() },
            None => StoreError::Damaged { path, what: why.to_string() },
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreError::NoDataFolder => {
                write!(f, "neither XDG_DATA_HOME nor HOME names a folder for the store; name a file with --store FILE")
            }
            StoreError::Missing { path } => write!(
                f,
                "there is no store at {} yet; 'holdup bench' makes one, --store FILE names another",
                path.display()
            ),
            StoreError::Foreign { path, what } => write!(
                f,
                "{} is {what}, not a holdup store; it was left as it is. Name another file with --store FILE",
                path.display()
            ),
            StoreError::Newer { path, version } => write!(
                f,
                "{} was written by a newer holdup (schema {version}, this one reads up to {VERSION}); it was left as it \
                 is. Use that holdup, or name another file with --store FILE",
                path.display()
            ),
            StoreError::Damaged { path, what } => write!(
                f,
                "the store {} is damaged ({what}). Restore it from a backup, or name another file with --store FILE",
                path.display()
            ),
            StoreError::Busy { path } => write!(
                f,
                "another program keeps the store {} locked; wait for it, or name another file with --store FILE",
                path.display()
            ),
            StoreError::Io { path, why } => {
                write!(f, "cannot use the store {}: {why}. Name another file with --store FILE", path.display())
            }
            StoreError::NoSuchRun { path, run } => write!(
                f,
                "there is no run '{run}' in {}; give a number or 'last', 'holdup history' shows them",
                path.display()
            ),
            StoreError::NothingToResume { path } => write!(
                f,
                "every run in {} came to its end: nothing to resume; 'holdup history' shows them",
                path.display()
            ),
            StoreError::MeasuredTwice { run } => write!(
                f,
                "another holdup is measuring run {run} too; let it finish, then 'holdup bench --resume {run}' if need \
                 be"
            ),
        }
    }
}

impl std::error::Error for StoreError {}
