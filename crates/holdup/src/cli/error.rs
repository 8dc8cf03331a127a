//! Everything that can go wrong for a user, each with one clear message.

use std::fmt;
use std::io;
use std::path::PathBuf;

use holdup_bench::spec::FactorError;

use super::status::Status;
use crate::interposer::program;
use crate::recording::RecordingError;
use crate::runner::RunError;
use crate::store::StoreError;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub enum Error {
    /// The command line, as clap explains it.
    Usage(String),
    /// The user asked for help or the version, which clap has printed.
    Help,
    /// A factor does not take a value.
    Factor(FactorError),
    /// An argument is not what it must be.
    Argument(String),
    /// The store cannot serve.
    Store(StoreError),
    /// Measuring could not go on.
    Run(RunError),
    /// The results cannot be written to stdout.
    Output(io::Error),
    /// A file cannot be read or written.
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// The file is there already.
    FileExists(PathBuf),
    /// A recording would be overwritten.
    RecordingExists(PathBuf),
    /// An export would be overwritten.
    ExportExists(PathBuf),
    /// A recording cannot be shown.
    Recording(RecordingError),
    /// `holdup time` or `holdup record` cannot start the command.
    Command {
        /// The command as given.
        name: String,
        /// The system's reason.
        why: io::Error,
    },
    /// A run for which no table or file can be made.
    Unmeasured(String),
    /// It was stopped before there was anything to say.
    Stopped(&'static str),
}

impl Error {
    /// The exit status: 2 for what the user can correct; for a command that is started those of a shell.
    pub fn code(&self) -> u8 {
        match self {
            Error::Help => 0,
            Error::Command { why, .. } if why.kind() == io::ErrorKind::NotFound => 127,
            Error::Command { .. } => 126,
            Error::Unmeasured(_) => 1,
            Error::Stopped(_) => Status::Interrupted.code(),
            _ => 2,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(text) => f.write_str(text.trim_end()),
            Error::Help => Ok(()),
            Error::Factor(why @ FactorError::Unknown { .. }) => {
                write!(f, "{why}; 'holdup list factors' shows them")
            }
            Error::Factor(why @ FactorError::Value { .. }) => {
                write!(f, "{why}; 'holdup list factors' shows every factor and its values")
            }
            Error::Argument(text) | Error::Unmeasured(text) => f.write_str(text),
            Error::Stopped(text) => f.write_str(text),
            Error::Store(why) => why.fmt(f),
            Error::Run(why) => why.fmt(f),
            Error::Output(why) => write!(f, "cannot write the results: {why}"),
            Error::File { path, why } => write!(f, "{}: {why}", path.display()),
            Error::FileExists(path) => {
                write!(f, "{} exists; give --force to replace it, or another name", path.display())
            }
            Error::RecordingExists(path) => {
                write!(f, "{} exists, and holdup overwrites no recording; give another name with -o", path.display())
            }
            Error::ExportExists(path) => {
                write!(f, "{} exists, and holdup does not replace it; give another name", path.display())
            }
            Error::Recording(why) => why.fmt(f),
            Error::Command { name, why } if why.kind() == io::ErrorKind::NotFound => {
                f.write_str(&program::not_there(name))
            }
            Error::Command { name, why } if why.kind() == io::ErrorKind::PermissionDenied => {
                write!(f, "{name}: cannot be executed ({why}); give a program, or make it one with 'chmod +x'")
            }
            Error::Command { name, why } => {
                let why = holdup_run::no_more_processes(why).unwrap_or_else(|| why.to_string());
                write!(f, "{name}: cannot be started: {why}")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<StoreError> for Error {
    fn from(why: StoreError) -> Error {
        Error::Store(why)
    }
}

impl From<RecordingError> for Error {
    fn from(why: RecordingError) -> Error {
        Error::Recording(why)
    }
}

impl From<RunError> for Error {
    fn from(why: RunError) -> Error {
        Error::Run(why)
    }
}

impl From<FactorError> for Error {
    fn from(why: FactorError) -> Error {
        Error::Factor(why)
    }
}
