//! The folder that files are added to, each as a whole or not at all.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use super::{Failure, Sheet, VERSION};

/// What is being written. Engines skip folders with such a name.
const UNFINISHED: &str = "_unfinished";

/// What an exporter that was killed left there is removed when it is so old.
const LEFT_BEHIND: Duration = Duration::from_secs(24 * 60 * 60);

/// Bytes that the name of a folder has at most.
const LONGEST_NAME: usize = 200;

/// Where the files of a recording, a run or a trial belong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The day that it began on, UTC: `2026-11-21`.
    pub day: String,
    /// What the program is called, or what a run belongs to.
    pub service: String,
    /// The host that it ran on.
    pub host: String,
}

/// A folder of tables.
#[derive(Debug)]
pub struct Folder {
    root: PathBuf,
    /// What is there, by table and day, of those that were asked for.
    known: HashMap<(String, String), HashSet<String>>,
}

impl Folder {
    /// Opens the folder, and makes it if there is none.
    ///
    /// # Errors
    /// It cannot be made or written.
    pub fn open(root: &Path) -> Result<Folder, Failure> {
        let folder = Folder { root: root.to_owned(), known: HashMap::new() };
        let unfinished = folder.unfinished();
        fs::create_dir_all(&unfinished).map_err(Failure::at(&unfinished))?;
        remove_left_behind(&unfinished);
        Ok(folder)
    }

    /// Whether something is there by its main table, in whichever partition of its day.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn has(&mut self, main: &str, day: &str, id: &str) -> Result<bool, Failure> {
        let at = (main.to_owned(), day.to_owned());
        if !self.known.contains_key(&at) {
            let ids = self.ids(main, day)?;
            self.known.insert(at.clone(), ids);
        }
        Ok(self.known.get(&at).is_some_and(|ids| ids.contains(id)))
    }

    /// Adds the tables of a recording, a run or a trial, of which the first is the main one: all of them, or none that
    /// anybody takes for whole.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn add(&mut self, partition: &Partition, id: &str, sheets: &[Sheet]) -> Result<(), Failure> {
        let mut written = Vec::new();
        let added = self.write(partition, id, sheets, &mut written).and_then(|()| {
            // The main table comes last: it says that the others are there.
            written.reverse();
            // Folders first: where a disk is full, no file has its name yet.
            written.iter().try_for_each(Unfinished::make_folder)?;
            written.iter().try_for_each(Unfinished::finish)
        });
        if added.is_err() {
            // What is left in this folder harms nobody, and goes with the next export after a day.
            written.iter().for_each(|file| drop(fs::remove_file(&file.path)));
        }
        added?;
        if let Some(main) = sheets.first() {
            let at = (main.name.to_owned(), partition.day.clone());
            if let Some(known) = self.known.get_mut(&at) {
                known.insert(id.to_owned());
            }
        }
        Ok(())
    }

    fn write(
        &self,
        partition: &Partition,
        id: &str,
        sheets: &[Sheet],
        written: &mut Vec<Unfinished>,
    ) -> Result<(), Failure> {
        let mark = format!("{}-{:016x}", std::process::id(), fastrand::u64(..));
        // What fails names the folder, not a file of this once: who exports again and again says a reason once.
        let unfinished = self.unfinished();
        for sheet in sheets {
            let path = unfinished.join(format!("{}-{mark}.tmp", sheet.name));
            let bytes = sheet.to_parquet().map_err(Failure::at(&unfinished))?;
            let to = self.table(sheet.name).join(partition.folders()).join(file_name(id));
            let mut file = File::create_new(&path).map_err(Failure::at(&unfinished))?;
            let wrote = file.write_all(&bytes).map_err(Failure::at(&unfinished));
            written.push(Unfinished { path, file: Some(file), to });
            wrote?;
        }
        flushed(written).map_err(Failure::at(&unfinished))
    }

    fn unfinished(&self) -> PathBuf {
        self.root.join(UNFINISHED)
    }

    fn table(&self, name: &str) -> PathBuf {
        self.root.join(format!("v{VERSION}")).join(name)
    }

    /// What a table has of a day.
    fn ids(&self, table: &str, day: &str) -> Result<HashSet<String>, Failure> {
        let mut ids = HashSet::new();
        for service in entries(&self.table(table).join(format!("day={day}")))? {
            for host in entries(&service)? {
                ids.extend(entries(&host)?.iter().filter_map(|file| id_of(file)));
            }
        }
        Ok(ids)
    }
}

/// Has all files reach the disk, and closes them. They are waited for at the same time: a file system commits them
/// together then, and one after the other each of them on its own.
fn flushed(files: &mut [Unfinished]) -> io::Result<()> {
    std::thread::scope(|scope| {
        let open = files.iter_mut().filter_map(|one| one.file.take());
        let started: Vec<_> = open.map(|file| scope.spawn(move || file.sync_data())).collect();
        started.into_iter().try_for_each(|flush| {
            flush.join().unwrap_or_else(|_| Err(io::Error::other("the thread that flushed a file panicked")))
        })
    })
}

/// A file that is written, and where it belongs.
struct Unfinished {
    path: PathBuf,
    /// Open until it is flushed.
    file: Option<File>,
    to: PathBuf,
}

impl Unfinished {
    fn make_folder(&self) -> Result<(), Failure> {
        self.to.parent().map_or(Ok(()), |folder| fs::create_dir_all(folder).map_err(Failure::at(folder)))
    }

    fn finish(&self) -> Result<(), Failure> {
        fs::rename(&self.path, &self.to).map_err(Failure::at(&self.to))
    }
}

impl Partition {
    /// `day=2026-11-21/service=shop/host=web-17`
    fn folders(&self) -> PathBuf {
        let folder = |name: &str, value: &str| format!("{name}={}", escaped(value));
        [folder("day", &self.day), folder("service", &self.service), folder("host", &self.host)].iter().collect()
    }
}

/// A value as part of a folder's name: what is no letter, digit, `.`, `_` or `-` is a percent sign and two hexadecimal
/// digits, as engines read it back. Of a long one the beginning, and a hash of all of it.
fn escaped(value: &str) -> String {
    let mut name = String::new();
    for byte in value.bytes() {
        let room = LONGEST_NAME - 40;
        if name.len() > room {
            return format!("{name}-{}", super::id(value.as_bytes()));
        }
        match byte {
            plain if plain.is_ascii_alphanumeric() || b"._-".contains(&plain) => name.push(char::from(plain)),
            other => name.push_str(&format!("%{other:02X}")),
        }
    }
    if name.is_empty() { "unknown".to_owned() } else { name }
}

pub(super) fn file_name(id: &str) -> String {
    format!("holdup-{id}.parquet")
}

/// The recording whose file this is; `None` for other files.
pub(super) fn id_of(file: &Path) -> Option<String> {
    let id = file.file_name()?.to_str()?.strip_prefix("holdup-")?.strip_suffix(".parquet")?;
    (id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit())).then(|| id.to_owned())
}

/// What is in a folder, in order; nothing where there is none. A file has nothing in it.
pub(super) fn entries(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let read = fs::read_dir(folder).and_then(|all| all.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>());
    match read {
        Ok(mut all) => {
            all.sort();
            Ok(all)
        }
        Err(why) if matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(Vec::new()),
        Err(why) => Err(Failure { path: folder.to_owned(), why }),
    }
}

fn remove_left_behind(folder: &Path) {
    for path in entries(folder).unwrap_or_default() {
        let written = fs::metadata(&path).and_then(|about| about.modified());
        let age = written.ok().and_then(|then| SystemTime::now().duration_since(then).ok());
        if path.extension().is_some_and(|extension| extension == "tmp") && age.is_some_and(|age| age > LEFT_BEHIND) {
            // What cannot be removed harms nobody.
            let _ = fs::remove_file(&path);
        }
    }
}
