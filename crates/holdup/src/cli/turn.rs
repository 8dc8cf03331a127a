//! One recording for `holdup watch`, in a process of its own: call paths and names take much memory for a moment, and
//! the service stays small; what goes wrong here costs one recording.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime};

use holdup_record::{Backend, Children, Target, ThreadNames};
use holdup_trace::{Excerpt, Room};
use serde::{Deserialize, Serialize};

use super::{Error, capture, export, stop};
use crate::export::parquet::{self, Folder};
use crate::export::pprof;
use crate::live::condition::{Condition, Wanted};
use crate::live::{Feed, numbered, write_new};
use crate::recording::{self, EXTENSION, Window};
use crate::report::recording::tables::{Origin, Tables};
use crate::watch::seen::{Reason, Seen, Turn};
use crate::watch::settings::{Keep, Settings, Target as Watched};
use crate::watch::whom::Whom;

/// The argument that makes a process take a turn.
pub const TURN: &str = "__turn";
/// A job is no longer.
const MOST_JOB: u64 = 1 << 20;
/// Memory for events; where it is full, the oldest are forgotten.
const MEMORY: usize = 32 << 20;
/// What files of ours in the folder of kept ones begin with.
const OURS: &str = "watch-";
/// What was left half-written there is removed after so long.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    name: String,
    whom: Whom,
    children: Children,
    threads: Vec<String>,
    length: Duration,
    rate: u32,
    capture: Backend,
    service: String,
    host: Option<String>,
    build: Option<String>,
    parquet: Option<PathBuf>,
    keep: Option<Keep>,
}

impl Job {
    /// A recording of this target.
    pub fn new(settings: &Settings, target: &Watched) -> Job {
        Job {
            name: target.name.clone(),
            whom: target.whom.clone(),
            children: target.children,
            threads: target.threads.clone(),
            length: settings.length,
            rate: settings.rate,
            capture: settings.capture,
            service: target.service.clone().unwrap_or_else(|| target.name.clone()),
            host: settings.host.clone(),
            build: target.build.clone(),
            parquet: settings.parquet.clone(),
            keep: settings.keep.clone(),
        }
    }

    fn take(&self, stop: &'static AtomicBool) -> (Turn, Vec<u8>) {
        match self.record(stop) {
            Ok((seen, profile)) => (Ok(seen), profile),
            Err(why) => (Err(why), Vec::new()),
        }
    }

    fn record(&self, stop: &'static AtomicBool) -> Result<(Seen, Vec<u8>), (Reason, String)> {
        let pids = self.whom.find().map_err(|why| (Reason::NotRunning, why))?;
        let target = Target::Processes(holdup_record::with_children(&pids, self.children));
        let options = holdup_record::Options {
            limit: Some(self.length),
            sample_hz: self.rate,
            capture: self.capture,
            silent: true,
            threads: ThreadNames::new(self.threads.iter().cloned()),
            ..holdup_record::Options::new(target, "live")
        };
        let room = Room { span_ns: u64::MAX, bytes: MEMORY };
        let mut feed = Feed::begin(options, room, Duration::MAX, stop).map_err(refused)?;
        let outcome = feed.end().map_err(refused)?;
        let failed = |why: String| (Reason::Failed, why);
        let excerpt = feed.whole(&outcome.ending).ok_or_else(|| failed("nothing was recorded".to_owned()))?;
        let file = PathBuf::from(format!("{OURS}{}.{EXTENSION}", capture::stem(&self.name)));
        let bytes = excerpt.to_vec();
        let read = recording::read_with(&file, &bytes, Window::default(), true, &outcome.held);
        let read = read.map_err(|why| failed(why.to_string()))?;
        let host = self.host.clone().unwrap_or_else(|| outcome.header.machine.host.clone());
        let id = parquet::id(&bytes);
        let origin = Origin { id, service: self.service.clone(), host, build: self.build.clone() };
        let tables = Tables::new(&read, &origin);
        let mut seen = Seen::of(&tables);
        let mut profile = Vec::new();
        pprof::write(&read.report, &mut profile).map_err(|why| failed(why.to_string()))?;
        if let Some(folder) = &self.parquet {
            seen.not_exported = self.export(folder, &origin, &tables, seen.began_unix_s).err();
        }
        if let Some((keep, condition)) = self.keep.as_ref().and_then(|keep| Some((keep, held(keep, &tables)?))) {
            match kept(keep, &file, &excerpt) {
                Ok(path) => seen.kept = Some((condition, path.display().to_string())),
                Err(why) => seen.not_kept = Some(why),
            }
        }
        Ok((seen, profile))
    }

    fn export(&self, folder: &Path, origin: &Origin, tables: &Tables, began_unix_s: u64) -> Result<(), String> {
        let partition = export::partition(export::day(began_unix_s), origin);
        let mut folder = Folder::open(folder).map_err(|why| Error::from(why).to_string())?;
        folder.add(&partition, &origin.id, &tables.sheets()).map_err(|why| Error::from(why).to_string())
    }
}

/// Why nothing was recorded.
fn refused(why: holdup_record::Error) -> (Reason, String) {
    let reason = match &why {
        holdup_record::Error::NoProcess(_) | holdup_record::Error::NoThread { .. } => Reason::NotRunning,
        holdup_record::Error::Refused(_) | holdup_record::Error::Unsupported => Reason::Refused,
        _ => Reason::Failed,
    };
    (reason, why.to_string())
}

/// The first condition that a finding meets.
fn held(keep: &Keep, tables: &Tables) -> Option<String> {
    keep.when.iter().find(|text| is_met(text, tables)).cloned()
}

fn is_met(text: &str, tables: &Tables) -> bool {
    let Ok(Wanted::Finding { kind, share }) = Condition::parse(text).map(|condition| condition.wanted()) else {
        return false;
    };
    let is_kind = |of: &str| kind.is_none_or(|kind| kind.name() == of);
    tables.finding.iter().any(|row| row.severity_share >= share && is_kind(&row.kind))
}

/// Keeps a recording, whole, and lets the oldest of ours go where they become too many or too large: once it is
/// written, so that a full disk costs none of them.
fn kept(keep: &Keep, file: &Path, excerpt: &Excerpt) -> Result<PathBuf, String> {
    // It names the folder: the file has the time in its name, and a reason is said once.
    let told = |why: io::Error| format!("{}: {why}", keep.folder.display());
    let size = excerpt.bytes() as u64;
    if size > keep.bytes {
        return Err(format!("it is larger than the {} bytes that may be kept in all", keep.bytes));
    }
    fs::create_dir_all(&keep.folder).map_err(told)?;
    let path = unused(keep.folder.join(file));
    let unfinished = path.with_extension("tmp");
    let written = write_new(&unfinished, excerpt);
    let finished = written.and_then(|()| make_room(keep, size)).and_then(|()| fs::rename(&unfinished, &path));
    if finished.is_err() {
        // It is ours, and nobody's any more.
        let _ = fs::remove_file(&unfinished);
    }
    finished.map(|()| path).map_err(told)
}

/// The name, or with a number behind it the first that no file has: names have the time of day, and a clock that was
/// set back tells the same time twice.
fn unused(path: PathBuf) -> PathBuf {
    if path.exists() { numbered(&path, 2) } else { path }
}

fn make_room(keep: &Keep, size: u64) -> io::Result<()> {
    let mut ours = Vec::new();
    for entry in fs::read_dir(&keep.folder)?.flatten() {
        let (path, Ok(about)) = (entry.path(), entry.metadata()) else { continue };
        if !about.is_file() || !entry.file_name().to_string_lossy().starts_with(OURS) {
            continue;
        }
        let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("tmp") if written.elapsed().is_ok_and(|age| age > LEFT_BEHIND) => fs::remove_file(&path)?,
            Some(EXTENSION) => ours.push((written, path, about.len())),
            _ => {}
        }
    }
    ours.sort();
    let mut bytes: u64 = ours.iter().map(|(_, _, bytes)| bytes).sum();
    let mut count = ours.len();
    for (_, path, own) in ours {
        if count < keep.files && bytes.saturating_add(size) <= keep.bytes {
            break;
        }
        fs::remove_file(&path)?;
        (count, bytes) = (count - 1, bytes.saturating_sub(own));
    }
    Ok(())
}

/// Takes the turn that is told on the input, until that ends; what came of it goes to the output: a line of JSON, and
/// behind it the profile.
///
/// # Errors
/// Nobody told what to do, or nobody listens.
pub fn take() -> Result<(), Error> {
    let stop = stop::asked()?;
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    input.by_ref().take(MOST_JOB).read_line(&mut line).map_err(Error::Output)?;
    let job: Job = serde_json::from_str(&line).map_err(|why| Error::Argument(format!("{TURN}: {why}")))?;
    // The service asks for the end, or has come to its own.
    let watch = move || {
        let _ = io::copy(&mut input, &mut io::sink());
        stop.store(true, Ordering::Relaxed);
    };
    thread::Builder::new().name("input".into()).spawn(watch).map_err(Error::Output)?;
    let (turn, profile) = job.take(stop);
    let mut answer = serde_json::to_vec(&turn).map_err(|why| Error::Output(why.into()))?;
    answer.push(b'\n');
    answer.extend_from_slice(&profile);
    let mut out = io::stdout().lock();
    out.write_all(&answer).and_then(|()| out.flush()).map_err(Error::Output)
}

/// What a process answered that took a turn.
pub fn answer(bytes: &[u8]) -> Option<(Turn, Vec<u8>)> {
    let end = bytes.iter().position(|byte| *byte == b'\n')?;
    let (line, profile) = bytes.split_at(end);
    Some((serde_json::from_slice(line).ok()?, profile.get(1..)?.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::recording::tables::FindingRow;

    #[test]
    fn an_answer_is_read_as_it_was_written_and_half_an_answer_is_none() {
        let turn: Turn = Ok(Seen { locks: vec![("a\nb".to_owned(), 1, 2)], ..Seen::default() });
        let mut bytes = serde_json::to_vec(&turn).unwrap();
        bytes.extend(b"\n\x1f\x8b\n");
        assert_eq!(answer(&bytes), Some((turn, b"\x1f\x8b\n".to_vec())));
        assert_eq!(answer(&bytes[..10]), None);
        assert_eq!(answer(b"no\n"), None);
        let failed: Turn = Err((Reason::NotRunning, "gone".to_owned()));
        let mut bytes = serde_json::to_vec(&failed).unwrap();
        bytes.push(b'\n');
        assert_eq!(answer(&bytes), Some((failed, Vec::new())));
    }

    #[test]
    fn a_condition_on_findings_holds_by_kind_and_share() {
        let row = FindingRow { kind: "hot-lock".to_owned(), severity_share: 0.3, ..FindingRow::default() };
        let tables = Tables { finding: vec![row], ..Tables::default() };
        for (text, met) in [
            ("finding >= 20%", true),
            ("finding hot-lock >= 30%", true),
            ("finding hot-lock >= 31%", false),
            ("finding lock-convoy >= 1%", false),
            ("exit", false),
        ] {
            assert_eq!(is_met(text, &tables), met, "{text}");
        }
    }

    #[test]
    fn no_name_is_given_twice_where_the_clock_tells_a_time_twice() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("watch-shop-20261121-120000.holdup");
        assert_eq!(unused(path.clone()), path);
        fs::write(&path, "first").unwrap();
        let second = unused(path.clone());
        assert_eq!(second, folder.path().join("watch-shop-20261121-120000-2.holdup"));
        fs::write(second, "second").unwrap();
        assert_eq!(unused(path), folder.path().join("watch-shop-20261121-120000-3.holdup"));
    }

    #[test]
    fn the_oldest_of_ours_make_room_and_files_of_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, bytes: usize, age_s: u64| {
            let path = folder.path().join(name);
            fs::write(&path, vec![0; bytes]).unwrap();
            let then = SystemTime::now() - Duration::from_secs(age_s);
            fs::File::options().write(true).open(&path).unwrap().set_modified(then).unwrap();
        };
        file("watch-a.holdup", 10, 4);
        file("watch-b.holdup", 10, 3);
        file("watch-c.holdup", 10, 2);
        file("mine.holdup", 1000, 9);
        file("watch-notes.txt", 1000, 9);
        file("watch-old.tmp", 1000, 7200);
        file("watch-new.tmp", 1000, 1);
        let keep = Keep { folder: folder.path().to_owned(), when: Vec::new(), files: 3, bytes: 25 };
        make_room(&keep, 10).unwrap();
        let mut left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["mine.holdup", "watch-c.holdup", "watch-new.tmp", "watch-notes.txt"]);
    }
}
