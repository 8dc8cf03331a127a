//! A recording as the program has it: read from its file, analysed, its binaries supplied.

pub mod binaries;
pub mod name;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use holdup_analyze::{Analysis, Options, Parsed, Problem, Report};
use holdup_record::HeldFile;
use holdup_trace::{Damage, Header, OpenError, Pid, Reader, Stacks, Tid, What};

use binaries::Binaries;

/// The extension of recordings, by which the newest one is found.
pub const EXTENSION: &str = "holdup";

/// A recording that was read and analysed.
#[derive(Debug)]
pub struct Recording {
    /// Its file.
    pub path: PathBuf,
    /// Size of the file.
    pub file_bytes: u64,
    /// What it says.
    pub report: Report,
    /// Parts of the file that could not be read.
    pub damage: Vec<Damage>,
}

/// What to look at, in nanoseconds since the recording began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// From this moment on.
    pub from_ns: Option<u64>,
    /// Up to this moment.
    pub to_ns: Option<u64>,
}

/// Why a recording cannot be shown.
#[derive(Debug)]
pub enum RecordingError {
    /// The system does not give the file.
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
    /// It is a folder, a device or a socket.
    NoFile(PathBuf),
    /// The file has no byte.
    Empty(PathBuf),
    /// Its bytes are not a recording that can be read.
    Open {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        why: OpenError,
    },
    /// There is none in the folder where it was looked for.
    None(PathBuf),
    /// The window lies behind the recording's end.
    Window {
        /// Where it was to begin, in nanoseconds since the beginning.
        from_ns: u64,
        /// How long the recording is.
        span_ns: u64,
    },
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::File { path, why } if why.kind() == io::ErrorKind::NotFound => write!(
                f,
                "{}: no such file; 'holdup record -- PROGRAM' makes a recording, and 'holdup report' alone shows the \
                 newest one here",
                path.display()
            ),
            RecordingError::File { path, why } if why.kind() == io::ErrorKind::PermissionDenied => write!(
                f,
                "{}: cannot be read ({why}); it needs read permission, which its owner gives with 'chmod +r'",
                path.display()
            ),
            RecordingError::File { path, why } => write!(f, "{}: {why}", path.display()),
            RecordingError::NoFile(path) => {
                write!(f, "{}: is no file; give a recording, a file made by 'holdup record'", path.display())
            }
            RecordingError::Empty(path) => {
                write!(f, "{}: the file is empty; 'holdup record -- PROGRAM' makes a recording", path.display())
            }
            RecordingError::Open { path, why } => open_failed(f, path, why),
            RecordingError::None(folder) => write!(
                f,
                "{}: no recording (*.{EXTENSION}) here; 'holdup record -- PROGRAM' or 'holdup record -p PID --for \
                 10s' makes one",
                folder.display()
            ),
            RecordingError::Window { from_ns, span_ns } => {
                write!(f, "--from {}: the recording ends after {}", seconds(*from_ns), seconds(*span_ns))
            }
        }
    }
}

fn open_failed(f: &mut fmt::Formatter<'_>, path: &Path, why: &OpenError) -> fmt::Result {
    write!(f, "{}: {why}", path.display())?;
    match why {
        OpenError::Foreign { looks_like: Some(what) } if what.contains("`holdup import`") => {
            write!(f, "; 'holdup import {}' makes one of it", path.display())
        }
        OpenError::Foreign { .. } => f.write_str("; 'holdup record' makes one"),
        OpenError::Newer { .. } => f.write_str("; a newer holdup wrote it and can show it"),
        OpenError::Short | OpenError::Damaged => f.write_str("; record again with 'holdup record'"),
    }
}

/// Nanoseconds as `1.234s`.
fn seconds(ns: u64) -> String {
    format!("{:.3}s", ns as f64 / 1e9)
}

impl std::error::Error for RecordingError {}

/// Reads a recording and finds out what it says.
///
/// # Errors
/// There is no such file, it is not a recording, or it ends before the window begins.
pub fn open(path: &Path, window: Window, timeline: bool) -> Result<Recording, RecordingError> {
    open_with(path, window, timeline, &[])
}

/// The same, with files that were kept open while it was recorded.
///
/// # Errors
/// As [`open`].
pub fn open_with(path: &Path, window: Window, timeline: bool, held: &[HeldFile]) -> Result<Recording, RecordingError> {
    read_with(path, &bytes(path)?, window, timeline, held)
}

/// What a recording says about itself, from the bytes of its file.
///
/// # Errors
/// It is not a recording.
pub fn header(path: &Path, bytes: &[u8]) -> Result<Header, RecordingError> {
    Ok(reader(path, bytes)?.header().clone())
}

fn reader<'a>(path: &Path, bytes: &'a [u8]) -> Result<Reader<'a>, RecordingError> {
    Reader::open(bytes).map_err(|why| RecordingError::Open { path: path.to_owned(), why })
}

/// Finds out what a recording says, from the bytes of its file.
///
/// # Errors
/// It is not a recording, or it ends before the window begins.
pub fn read(path: &Path, bytes: &[u8], window: Window, timeline: bool) -> Result<Recording, RecordingError> {
    read_with(path, bytes, window, timeline, &[])
}

/// The same, with files that were kept open while it was recorded.
///
/// # Errors
/// As [`read`].
pub fn read_with(
    path: &Path,
    bytes: &[u8],
    window: Window,
    timeline: bool,
    held: &[HeldFile],
) -> Result<Recording, RecordingError> {
    let reader = reader(path, bytes)?;
    let (recording, last_ns) = analysed(path, (bytes, &reader), window, timeline, held);
    let span_ns = last_ns.saturating_sub(reader.header().began_ns);
    match window.from_ns {
        Some(from_ns) if from_ns > span_ns => Err(RecordingError::Window { from_ns, span_ns }),
        _ => Ok(recording),
    }
}

/// What locks had in memory when they were read last, by process and address.
pub type Words = HashMap<(Pid, u64), Word>;

/// A lock's memory at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// When.
    pub time_ns: u64,
    /// Its word; 0 if nobody has it.
    pub word: u32,
    /// Where glibc keeps the number of the thread that has it.
    pub owner: Tid,
}

/// Finds out what a recording says that is in memory, with a timeline; the binaries are those that were read before.
pub fn live<'a>(
    path: &Path,
    bytes: &[u8],
    reader: &Reader<'_>,
    binaries: &'a Binaries,
    parsed: &mut Parsed<'a>,
) -> (Recording, Words) {
    let mut analysis = Analysis::new(reader.header(), Options { timeline: true, ..Options::default() });
    let (mut stacks, mut words) = (Stacks::new(), Words::new());
    let summary = reader.read(&mut stacks, &mut |event| {
        if let What::LockWord { addr, word, owner } = event.what {
            let word = Word { time_ns: event.time_ns, word, owner: Tid(owner) };
            words.insert((Pid(event.tid.0), addr), word);
        }
        analysis.feed(event);
    });
    let report = analysis.finish_again(summary.ending.as_ref(), &stacks, binaries, parsed);
    let file_bytes = bytes.len() as u64;
    (Recording { path: path.to_owned(), file_bytes, report, damage: summary.damage }, words)
}

/// The bytes of a file.
///
/// # Errors
/// It is no file, has no bytes, or cannot be read.
pub fn bytes(path: &Path) -> Result<Vec<u8>, RecordingError> {
    let fail = |why| RecordingError::File { path: path.to_owned(), why };
    let about = std::fs::metadata(path).map_err(fail)?;
    if !about.is_file() {
        return Err(RecordingError::NoFile(path.to_owned()));
    }
    match std::fs::read(path).map_err(fail)? {
        bytes if bytes.is_empty() => Err(RecordingError::Empty(path.to_owned())),
        bytes => Ok(bytes),
    }
}

/// The analysed recording, and its last moment whatever the window.
fn analysed(
    path: &Path,
    (bytes, reader): (&[u8], &Reader<'_>),
    window: Window,
    timeline: bool,
    held: &[HeldFile],
) -> (Recording, u64) {
    let header = reader.header();
    let moment = |since_ns: u64| header.began_ns.saturating_add(since_ns);
    let options = Options { timeline, from_ns: window.from_ns.map(moment), to_ns: window.to_ns.map(moment) };
    let mut analysis = Analysis::new(header, options);
    let mut stacks = Stacks::new();
    let mut last_ns = 0;
    let mut mapped = BTreeSet::new();
    let summary = reader.read(&mut stacks, &mut |event| {
        last_ns = last_ns.max(event.time_ns);
        if let What::Mapped(map) = &event.what {
            mapped.insert(map.pid);
        }
        analysis.feed(event);
    });
    let last_ns = summary.ending.as_ref().map_or(last_ns, |ending| last_ns.max(ending.ended_ns));
    let binaries = Binaries::of(header, summary.ending.as_ref()).seen_by(&mapped).holding(held);
    let mut report = analysis.finish(summary.ending.as_ref(), &stacks, &binaries);
    name_replaced(&mut report.problems, &binaries);
    tell_of_refused(&mut report.problems, &binaries);
    if summary.ending.is_none() && !report.problems.contains(&Problem::CutOff) {
        report.problems.push(Problem::CutOff);
    }
    let file_bytes = bytes.len() as u64;
    (Recording { path: path.to_owned(), file_bytes, report, damage: summary.damage }, last_ns)
}

/// The analysis only knows that a file was not supplied; that it is there but another one now, only the supplier knows.
fn name_replaced(problems: &mut [Problem], binaries: &Binaries) {
    for problem in problems {
        if let Problem::Unreadable { path, .. } = problem
            && binaries.is_replaced(path)
        {
            *problem = Problem::Replaced { path: std::mem::take(path) };
        }
        if let Problem::NoCodeMap { refused, .. } = problem {
            *refused = binaries.refused_map().map(str::to_owned);
        }
    }
}

/// A map that is not believed, of a program whose runtime is not known: there is no switch to tell of.
fn tell_of_refused(problems: &mut Vec<Problem>, binaries: &Binaries) {
    let is_told = problems.iter().any(|problem| matches!(problem, Problem::NoCodeMap { .. }));
    if let Some(why) = binaries.refused_map().filter(|_| !is_told) {
        problems.push(Problem::NoCodeMap { switch: "", hits: 0, refused: Some(why.to_owned()) });
    }
}

/// The newest recording in a folder.
///
/// # Errors
/// There is none, or the folder cannot be read.
pub fn newest(folder: &Path) -> Result<PathBuf, RecordingError> {
    let newest = by_age(folder)?.into_iter().max();
    newest.map(|(_, path)| path).ok_or_else(|| RecordingError::None(folder.to_owned()))
}

/// The recordings in a folder, by name.
///
/// # Errors
/// There is none, or the folder cannot be read.
pub fn all(folder: &Path) -> Result<Vec<PathBuf>, RecordingError> {
    let mut all: Vec<PathBuf> = by_age(folder)?.into_iter().map(|(_, path)| path).collect();
    all.sort();
    if all.is_empty() { Err(RecordingError::None(folder.to_owned())) } else { Ok(all) }
}

/// The recordings in a folder with the times when they were written last.
fn by_age(folder: &Path) -> Result<Vec<(SystemTime, PathBuf)>, RecordingError> {
    let fail = |why| RecordingError::File { path: folder.to_owned(), why };
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)?.flatten() {
        let path = entry.path();
        let recorded = path.extension().is_some_and(|extension| extension == EXTENSION);
        let Some(about) = entry.metadata().ok().filter(|about| recorded && about.is_file()) else { continue };
        found.push((about.modified().unwrap_or(SystemTime::UNIX_EPOCH), path));
    }
    Ok(found)
}
