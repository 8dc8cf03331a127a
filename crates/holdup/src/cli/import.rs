//! `holdup import`: what `perf` recorded, as a recording of our own.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use holdup_record::import::{ImportError, Scope, import};

use super::{Error, Status, output};
use crate::recording::{self, EXTENSION, RecordingError, Window};
use crate::report::number;
use crate::report::recording::summary;
use crate::shell;

/// Turns a perf.data file (of 'perf sched record', or of 'perf record' with scheduler or futex events) into a
/// recording, and shows it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// The file that perf wrote
    #[arg(value_name = "PERF_DATA")]
    file: PathBuf,
    /// Write the recording to this new file [default: PERF_DATA.holdup in this folder]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Import this process of the file and those it started, not the command that perf ran; may be repeated
    #[arg(short, long = "pid", value_name = "PID", conflicts_with = "all")]
    pids: Vec<u32>,
    /// Import every program that perf saw, not only the command that it ran and its children
    #[arg(long)]
    all: bool,
    /// Only import; show nothing. 'holdup report' shows it later
    #[arg(long)]
    no_report: bool,
}

const EXAMPLES: &str = "\
Examples:
  perf sched record -o perf.data -- ./server
  holdup import perf.data
  holdup import perf.data -o server.holdup
  holdup import perf.data -p 4711   one process that perf saw, and its children

'holdup record' sees more at less cost: lock waits with their callers, without
root. The report names what the file lacks.";

impl Options {
    fn scope(&self) -> Scope {
        match (self.all, self.pids.is_empty()) {
            (true, _) => Scope::All,
            (false, true) => Scope::Command,
            (false, false) => Scope::Processes(self.pids.clone()),
        }
    }
}

/// Imports and reports.
///
/// # Errors
/// The file is no perf.data that can be read, or the recording cannot be written.
pub fn run(options: &Options) -> Result<Status, Error> {
    let bytes = recording::bytes(&options.file).map_err(of_input)?;
    let path = options.output.clone().unwrap_or_else(|| beside(&options.file));
    let file = File::create_new(&path).map_err(|why| not_written(&path, why))?;
    let imported = match import(&bytes, &options.scope(), BufWriter::new(file)) {
        Ok(imported) => imported,
        Err(why) => {
            // What was written before the error is no recording.
            let _ = std::fs::remove_file(&path);
            return Err(match why {
                ImportError::Write(why) => not_written(&path, why),
                why => Error::Argument(format!("{}: {why}", options.file.display())),
            });
        }
    };
    imported.notes.iter().for_each(|note| output::note(format_args!("holdup: {note}")));
    output::note(format_args!(
        "holdup: imported {} events into {} ({} bytes)",
        number::count(imported.events as f64),
        path.display(),
        number::count(imported.bytes as f64)
    ));
    if !options.no_report {
        let recording = recording::open(&path, Window::default(), false)?;
        output::show(&summary::screen(&recording))?;
    }
    Ok(Status::Success)
}

/// `perf.data.holdup` in the working folder: where `holdup report` looks.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().map(ToOwned::to_owned).unwrap_or_default();
    name.push(format!(".{EXTENSION}"));
    PathBuf::from(name)
}

fn not_written(path: &Path, why: io::Error) -> Error {
    match why.kind() {
        io::ErrorKind::AlreadyExists => Error::RecordingExists(path.to_owned()),
        _ => Error::File { path: path.to_owned(), why },
    }
}

/// The same troubles as with a recording, with what is expected here.
fn of_input(why: RecordingError) -> Error {
    let wanted = "give a file that 'perf sched record' or 'perf record' wrote";
    let shown = |path: &Path| shell::quoted(&path.to_string_lossy());
    match why {
        RecordingError::File { path, why } if why.kind() == io::ErrorKind::NotFound => {
            Error::Argument(format!("{}: no such file; {wanted}", shown(&path)))
        }
        RecordingError::NoFile(path) => Error::Argument(format!("{}: is no file; {wanted}", shown(&path))),
        RecordingError::Empty(path) => Error::Argument(format!("{}: the file is empty; {wanted}", shown(&path))),
        other => Error::Recording(other),
    }
}
