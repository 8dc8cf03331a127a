//! `holdup export`: a run for spreadsheets and programs; recordings as tables for engines that query many of them.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::measure::StoreFile;
use super::{Error, Status, output, show};
use crate::export::parquet::{self, Failure, Folder, Group, Partition, Sheet};
use crate::recording::{self, RecordingError, Window};
use crate::report;
use crate::report::number;
use crate::report::recording::summary;
use crate::report::recording::tables::{Origin, Tables};
use crate::report::run_tables::RunTables;
use crate::report::trial_tables::{Read, TrialTables};
use crate::store::{Store, StoreError};
use crate::text;

/// Writes a run as CSV (one row per sample, units in the header) or JSON (everything); recordings, runs and trials as
/// Parquet tables.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[group(id = "format", required = true, multiple = false, args = ["csv", "json", "bmf", "otava", "parquet"])]
pub struct Options {
    /// A number of 'holdup history', or last; with --otava several [default: all of the newest run's title]; with
    /// --parquet recordings or folders of them, stores of runs, and trials as 'holdup try --json' writes them
    #[arg(value_name = "RUN", required_unless_present_any = ["check", "otava"])]
    what: Vec<PathBuf>,
    /// One row per sample
    #[arg(long)]
    csv: bool,
    /// Everything: factors, samples, environment, warnings
    #[arg(long)]
    json: bool,
    /// The figures of each cell in the Bencher Metric Format
    #[arg(long)]
    bmf: bool,
    /// A row per run, a column per figure of a cell, for Apache Otava
    #[arg(long)]
    otava: bool,
    /// Add the tables of recordings, runs and trials to this folder; docs/fleet.md describes them
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "force", "store"])]
    parquet: Option<PathBuf>,
    #[command(flatten)]
    fleet: Fleet,
    /// Write to this file instead of stdout
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    store: StoreFile,
}

/// What recordings, runs and trials are called among others.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "With --parquet")]
struct Fleet {
    /// What the program is called [default: its file's name; of a run, its title]
    #[arg(long, value_name = "NAME", requires = "parquet", conflicts_with_all = ["csv", "json", "bmf", "otava"])]
    service: Option<String>,
    /// The host that it ran on [default: as the recording has it; runs and trials have none]
    #[arg(long, value_name = "NAME", requires = "parquet", conflicts_with_all = ["csv", "json", "bmf", "otava"])]
    host: Option<String>,
    /// The version of the program, to ask later what is new in it
    #[arg(long, value_name = "VERSION", requires = "parquet", conflicts_with_all = ["csv", "json", "bmf", "otava"])]
    build: Option<String>,
    /// Only look at what is in DIR: whole files, and what does not belong there
    #[arg(long, requires = "parquet", conflicts_with_all = ["what", "service", "host", "build", "csv", "json", "bmf", "otava"])]
    check: bool,
}

const EXAMPLES: &str = "\
Examples:
  holdup export last --csv -o samples.csv
  holdup export 3 --json | jq '.cells[0]'
  holdup export last --bmf -o results.json
  holdup export --otava -o history.csv
  holdup export --parquet fleet server.holdup
  holdup export --parquet fleet --service shop --build 1.4.2 recordings/
  holdup export --parquet fleet --host web-17 results.db trial.json
  holdup export --parquet fleet --check";

/// Writes the run, or the tables.
///
/// # Errors
/// There is no such run or recording, or a file cannot be written.
pub fn run(options: &Options) -> Result<Status, Error> {
    match &options.parquet {
        Some(folder) if options.fleet.check => check(folder),
        Some(folder) => all(folder, options),
        None if options.otava => history(options),
        None => stored_run(options),
    }
}

fn stored_run(options: &Options) -> Result<Status, Error> {
    let [run] = options.what.as_slice() else {
        return Err(Error::Argument(
            "--csv, --json and --bmf write one run; 'holdup export --parquet DIR RECORDING...' takes several recordings"
                .to_owned(),
        ));
    };
    let store = options.store.open_existing()?;
    let record = store.load_whole(store.find(&run.to_string_lossy())?)?;
    let text = match (options.csv, options.bmf) {
        (true, _) => report::csv::run(&record),
        (_, true) => report::bmf::run(&record),
        _ => show::json(&record)?,
    };
    write(options, &text)
}

fn write(options: &Options, text: &str) -> Result<Status, Error> {
    match &options.output {
        Some(path) => output::write_file(path, text, options.force)?,
        None => output::print(text)?,
    }
    Ok(Status::Success)
}

/// Many runs, for who looks for changes.
fn history(options: &Options) -> Result<Status, Error> {
    let store = options.store.open_existing()?;
    let runs: Vec<String> = options.what.iter().map(|run| run.to_string_lossy().into_owned()).collect();
    let (text, left_out) = report::otava::runs(&show::chosen(&store, &runs)?);
    if left_out > 0 {
        output::note(format_args!(
            "holdup: {} not measured by all of these runs; left out",
            number::counted(left_out, "cell") + if left_out == 1 { " was" } else { " were" }
        ));
    }
    write(options, &text)
}

impl From<Failure> for Error {
    fn from(Failure { path, why }: Failure) -> Error {
        Error::File { path, why }
    }
}

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Recording,
    Run,
    Trial,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Recording, Kind::Run, Kind::Trial];

    /// By the first bytes: stores are files of SQLite, trials JSON. What is neither is a recording, or says why it is
    /// none.
    fn of(path: &Path) -> Kind {
        let mut first = [0; 16];
        let read = File::open(path).and_then(|mut file| file.read(&mut first)).unwrap_or(0);
        match &first[..read] {
            b"SQLite format 3\0" => Kind::Run,
            json if json.trim_ascii_start().starts_with(b"{") => Kind::Trial,
            _ => Kind::Recording,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Recording => "recording",
            Kind::Run => "run",
            Kind::Trial => "trial",
        }
    }

    fn group(self) -> Group {
        let names = |sheets: &[Sheet]| sheets.iter().map(|sheet| sheet.name).collect();
        let tables = match self {
            Kind::Recording => names(&Tables::default().sheets()),
            Kind::Run => names(&RunTables::default().sheets()),
            Kind::Trial => names(&TrialTables::default().sheets()),
        };
        Group { of: self.name(), tables }
    }
}

/// What became of recordings, runs and trials.
#[derive(Default)]
struct Sum {
    /// How many were added.
    added: BTreeMap<Kind, usize>,
    known: usize,
    failed: usize,
}

/// Why something was not added.
enum Failed {
    /// It cannot be read; others can.
    Source(String),
    /// The folder cannot be written, which fails all of them.
    Folder(Failure),
}

impl From<Failure> for Failed {
    fn from(failure: Failure) -> Failed {
        Failed::Folder(failure)
    }
}

impl From<RecordingError> for Failed {
    fn from(why: RecordingError) -> Failed {
        Failed::Source(why.to_string())
    }
}

/// Adds each; one that cannot be read is told, and the others follow.
fn all(folder: &Path, options: &Options) -> Result<Status, Error> {
    let files = files(&options.what)?;
    let mut to = Folder::open(folder)?;
    let mut sum = Sum::default();
    for path in &files {
        let kind = Kind::of(path);
        let added = match kind {
            Kind::Recording => add_recording(&mut to, path, &options.fleet).map(Added::one),
            Kind::Run => add_runs(&mut to, path, &options.fleet),
            Kind::Trial => add_trial(&mut to, path, &options.fleet).map(Added::one),
        };
        match added {
            Ok(Added { new, known }) => {
                *sum.added.entry(kind).or_default() += new;
                sum.known += known;
            }
            Err(Failed::Source(why)) => {
                sum.added.entry(kind).or_default();
                sum.failed += 1;
                output::note(format_args!("holdup: {why}"));
            }
            Err(Failed::Folder(why)) => return Err(why.into()),
        }
    }
    output::print(&sum.sentence(folder))?;
    match sum.failed {
        0 => Ok(Status::Success),
        failed => Err(Error::Argument(format!(
            "{failed} of {} could not be exported, for the reasons above; the others were",
            number::counted(files.len(), if sum.added.len() == 1 { sum.kind() } else { "file" })
        ))),
    }
}

/// What came of a file.
#[derive(Default)]
struct Added {
    new: usize,
    known: usize,
}

impl Added {
    fn one(is_new: bool) -> Added {
        Added { new: usize::from(is_new), known: usize::from(!is_new) }
    }
}

impl Sum {
    fn kind(&self) -> &'static str {
        match self.added.keys().next() {
            // A store has many runs.
            Some(Kind::Run) => "store",
            Some(kind) => kind.name(),
            None => Kind::Recording.name(),
        }
    }

    fn sentence(&self, folder: &Path) -> String {
        let known = match self.known {
            0 => String::new(),
            known => format!("; {known} that were there already added nothing"),
        };
        let added: Vec<String> = self.added.iter().map(|(kind, count)| number::counted(*count, kind.name())).collect();
        let added = if added.is_empty() { number::counted(0, Kind::Recording.name()) } else { added.join(", ") };
        format!("{added} added to {}{known}\n", folder.display())
    }
}

/// Adds a recording, if it is not there already.
fn add_recording(to: &mut Folder, path: &Path, fleet: &Fleet) -> Result<bool, Failed> {
    let bytes = recording::bytes(path)?;
    let id = parquet::id(&bytes);
    let header = recording::header(path, &bytes)?;
    let day = day(header.began_unix_s);
    let host = fleet.host.clone().unwrap_or(header.machine.host);
    if to.has(Kind::Recording.name(), &day, &id)? {
        return Ok(false);
    }
    let read = recording::read(path, &bytes, Window::default(), false)?;
    tell_of_damage(&read);
    let service = fleet.service.clone().unwrap_or_else(|| summary::program(&read.report.facts));
    let origin = Origin { id, service, host, build: fleet.build.clone() };
    to.add(&partition(day, &origin), &origin.id, &Tables::new(&read, &origin).sheets())?;
    Ok(true)
}

/// Adds every finished run of a store that is not there already.
fn add_runs(to: &mut Folder, path: &Path, fleet: &Fleet) -> Result<Added, Failed> {
    let told = |why: StoreError| Failed::Source(why.to_string());
    let store = Store::open_existing(path).map_err(told)?;
    let marks: HashMap<i64, String> =
        store.marks().map_err(told)?.into_iter().map(|(mark, run)| (run, parquet::id(mark.as_bytes()))).collect();
    let mut added = Added::default();
    for run in store.runs().map_err(told)?.into_iter().rev() {
        // A file is never changed: what is measured still is exported when it is done.
        if !run.complete {
            let path = path.display();
            output::note(format_args!("holdup: {path}: run {} has not come to its end; exported when it has", run.id));
            continue;
        }
        let id = marks.get(&run.id).cloned().unwrap_or_default();
        let day = day(u64::try_from(run.started_unix_s).unwrap_or(0));
        if to.has(Kind::Run.name(), &day, &id)? {
            added.known += 1;
            continue;
        }
        let record = store.load(run.id).map_err(told)?;
        let service = fleet.service.clone().unwrap_or_else(|| text::clean(&run.title));
        let host = fleet.host.clone().unwrap_or_default();
        let origin = Origin { id, service, host, build: fleet.build.clone() };
        to.add(&partition(day, &origin), &origin.id, &RunTables::new(&record, &run.title, &origin).sheets())?;
        added.new += 1;
    }
    Ok(added)
}

/// Adds a trial, if it is not there already.
fn add_trial(to: &mut Folder, path: &Path, fleet: &Fleet) -> Result<bool, Failed> {
    let told = |why: String| Failed::Source(format!("{}: {why}", path.display()));
    let bytes = std::fs::read(path).map_err(|why| told(why.to_string()))?;
    let read = Read::parse(&bytes).map_err(told)?;
    let (id, day) = (parquet::id(&bytes), day(read.began_unix_s()));
    if to.has(Kind::Trial.name(), &day, &id)? {
        return Ok(false);
    }
    let service = fleet.service.clone().unwrap_or_else(|| read.program());
    let host = fleet.host.clone().unwrap_or_default();
    let origin = Origin { id, service, host, build: fleet.build.clone() };
    to.add(&partition(day, &origin), &origin.id, &TrialTables::new(&read, &origin).sheets())?;
    Ok(true)
}

/// Where the files of what began on a day belong.
pub(super) fn partition(day: String, origin: &Origin) -> Partition {
    Partition { day, service: origin.service.clone(), host: origin.host.clone() }
}

/// The day, UTC. A time that no calendar of four digits has is as good as none.
pub(super) fn day(unix_s: u64) -> String {
    const YEAR_10000: i64 = 253_402_300_800;
    let unix_s = i64::try_from(unix_s).unwrap_or(0);
    number::utc(if unix_s < YEAR_10000 { unix_s } else { 0 }).chars().take(10).collect()
}

/// What a recording lacks is no reason to lack the rest.
fn tell_of_damage(read: &recording::Recording) {
    let path = read.path.display();
    if !read.damage.is_empty() {
        let parts = number::counted(read.damage.len(), "part");
        output::note(format_args!("holdup: {path}: {parts} cannot be read; exported is what can"));
    } else if read.report.facts.ending.is_none() {
        output::note(format_args!("holdup: {path}: it was cut off, or is written still; exported is what is there"));
    }
}

/// The files that are meant: of a folder, its recordings.
fn files(what: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let mut files = Vec::new();
    for path in what {
        match path.is_dir() {
            true => files.extend(recording::all(path)?),
            false => files.push(path.clone()),
        }
    }
    Ok(files)
}

fn check(folder: &Path) -> Result<Status, Error> {
    if !folder.is_dir() {
        let why = format!("{}: no such folder; 'holdup export --parquet DIR RECORDING' makes one", folder.display());
        return Err(Error::Argument(why));
    }
    let checked = parquet::check(folder, &Kind::ALL.map(Kind::group))?;
    for (path, why) in &checked.wrong {
        output::note(format_args!("holdup: {}: {why}", path.display()));
    }
    let count = |kind: &Kind| checked.whole.get(kind.name()).copied().unwrap_or(0);
    let known = Kind::ALL.into_iter().filter(|kind| *kind == Kind::Recording || count(kind) > 0);
    let known: Vec<String> = known.map(|kind| number::counted(count(&kind), kind.name())).collect();
    let mut text = format!("{} in {}\n", known.join(", "), folder.display());
    for (table, rows) in &checked.rows {
        text.push_str(&format!("  {table:<12} {}\n", number::counted(usize::try_from(*rows).unwrap_or(0), "row")));
    }
    output::print(&text)?;
    match checked.wrong.len() {
        0 => Ok(Status::Success),
        wrong => Err(Error::Argument(format!("{} in {} wrong, as above", plural(wrong), folder.display()))),
    }
}

fn plural(wrong: usize) -> String {
    if wrong == 1 { "1 thing is".to_owned() } else { format!("{wrong} things are") }
}
