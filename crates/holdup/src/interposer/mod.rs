//! Putting other locks under a program: the library that is shipped inside this binary, and the folder through which
//! the two talk ([`holdup_control`]).

pub mod figures;
mod library;
pub mod naming;
pub mod policy;
pub mod program;
pub mod rules;
mod settings;
mod sys;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use holdup_control::{COUNT_FILE, ENV, PROCESSES, Policy, SETTINGS_FILE};

pub use figures::{Figures, Process};
pub use settings::{Rule, Settings};

/// The folder of one interposed run, removed when it is dropped.
#[derive(Debug)]
pub struct Control {
    folder: PathBuf,
    library: PathBuf,
    settings: File,
    /// Folders that were made because the usual ones were not to be had.
    fresh: Vec<PathBuf>,
}

impl Control {
    /// Makes the library and a private folder with these settings.
    ///
    /// # Errors
    /// Neither can be written.
    pub fn create(settings: &Settings) -> io::Result<Control> {
        let mut fresh = Vec::new();
        let made = Control::make(settings, &mut fresh);
        if made.is_err() {
            remove_all(&fresh);
        }
        let (folder, library, settings) = made?;
        Ok(Control { folder, library, settings, fresh })
    }

    fn make(settings: &Settings, fresh: &mut Vec<PathBuf>) -> io::Result<(PathBuf, PathBuf, File)> {
        let library = library::file(fresh)?;
        let folder = run_folder(&library::folder(|_| true, fresh)?)?;
        let path = folder.join(SETTINGS_FILE);
        let count = folder.join(COUNT_FILE);
        let made = sys::write_new(&path, &settings::bytes(settings), sys::mode_of_files(0o600, 0o644))
            // Whoever is served counts himself, as whichever user; no more than that number can be got wrong.
            .and_then(|()| sys::write_new(&count, &[0; 4], sys::mode_of_files(0o600, 0o666)))
            .and_then(|()| OpenOptions::new().write(true).open(&path));
        match made {
            Ok(settings) => Ok((folder, library, settings)),
            Err(why) => {
                let _ = fs::remove_dir_all(&folder);
                Err(io::Error::new(why.kind(), format!("{}: {why}", path.display())))
            }
        }
    }

    /// What to add to the environment of the program: `LD_PRELOAD` with the library before what is there already, the
    /// folder, and leave for AddressSanitizer not to be the first library, without which it ends the program.
    pub fn environment(&self) -> Vec<(OsString, OsString)> {
        let preload = preload_list(&self.library, std::env::var_os("LD_PRELOAD").as_deref());
        let mut sanitizer = std::env::var_os("ASAN_OPTIONS").unwrap_or_default();
        if !sanitizer.is_empty() {
            sanitizer.push(":");
        }
        sanitizer.push("verify_asan_link_order=0");
        let folder = self.folder.clone().into();
        vec![("LD_PRELOAD".into(), preload), (ENV.into(), folder), ("ASAN_OPTIONS".into(), sanitizer)]
    }

    /// From now on all locks without a rule follow this policy, in all processes.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn set_policy(&self, policy: Policy) -> io::Result<()> {
        sys::write_at(&self.settings, &settings::policy_bytes(policy), settings::POLICY_AT)
    }

    /// What each process did so far, in the order of their numbers.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn processes(&self) -> io::Result<Vec<Process>> {
        let mut processes = self.read(figures::read_process)?;
        processes.sort_by_key(|process| process.pid);
        Ok(processes)
    }

    /// All that each process did so far, with its locks, in the order of their numbers.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn figures(&self) -> io::Result<Vec<Figures>> {
        let mut figures = self.read(figures::read)?;
        // A process that executes another program has one file for each.
        figures.sort_by_key(|figures| (figures.process.pid, figures.began_ns));
        Ok(figures)
    }

    /// Processes that were served and are not among [`Control::figures`], because there were too many.
    ///
    /// # Errors
    /// The folder is gone.
    pub fn uncounted(&self) -> io::Result<u32> {
        Ok(settings::processes(&self.folder.join(COUNT_FILE))?.saturating_sub(PROCESSES))
    }

    /// Where the files of this run are.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reads every file of figures. One that goes away, or is not ready, is not there.
    fn read<T>(&self, one: impl Fn(&Path) -> io::Result<Option<T>>) -> io::Result<Vec<T>> {
        let entries = fs::read_dir(&self.folder)?;
        let is_figures = |entry: &fs::DirEntry| {
            ![SETTINGS_FILE, COUNT_FILE].iter().any(|name| entry.file_name() == *name)
                // Users whom the program became may leave there what they like, links and pipes among it.
                && entry.file_type().is_ok_and(|kind| kind.is_file())
        };
        let paths = entries.flatten().filter(is_figures);
        Ok(paths.filter_map(|entry| one(&entry.path()).ok().flatten()).collect())
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // Processes that still run keep their mappings; new ones find no folder and do as glibc does.
        let _ = fs::remove_dir_all(&self.folder);
        remove_all(&self.fresh);
    }
}

fn remove_all(folders: &[PathBuf]) {
    for folder in folders {
        let _ = fs::remove_dir_all(folder);
    }
}

/// What names of the folders of runs begin with; the number of holdup's process follows.
const RUN: &str = "run-";

/// A fresh folder for one run. What runs left that were killed is removed.
fn run_folder(folder: &Path) -> io::Result<PathBuf> {
    for entry in fs::read_dir(folder)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix(RUN).and_then(|rest| rest.split('-').next()?.parse().ok());
        if pid.is_some_and(|pid| !sys::is_running(pid)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
    let path = folder.join(format!("{RUN}{}-{:016x}", std::process::id(), fastrand::u64(..)));
    sys::make_folder(&path, sys::mode_of_files(0o700, 0o1733))
        .map_err(|why| io::Error::new(why.kind(), format!("{}: {why}", path.display())))?;
    Ok(path)
}

/// The value of `LD_PRELOAD`: the library, then what was there but for libraries of another holdup around this one.
fn preload_list(library: &Path, before: Option<&OsStr>) -> OsString {
    let before = before.map(|list| sys::path_bytes(Path::new(list))).unwrap_or_default();
    let others = before.split(|byte| *byte == b':' || byte.is_ascii_whitespace());
    let mut list = sys::path_bytes(library);
    for other in others.filter(|path| !path.is_empty() && !library::is_ours(&sys::path_of(path))) {
        list.push(b':');
        list.extend(other);
    }
    sys::path_of(&list).into_os_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_preloaded_already_stays() {
        let list = |before: &str| preload_list(Path::new("/a/lib.so"), Some(OsStr::new(before)));
        assert_eq!(preload_list(Path::new("/a/lib.so"), None), "/a/lib.so");
        assert_eq!(list("libjemalloc.so.2"), "/a/lib.so:libjemalloc.so.2");
        assert_eq!(list(" /x.so:/y.so  libz.so:"), "/a/lib.so:/x.so:/y.so:libz.so");
        assert_eq!(list("/b/holdup-preload-00ff.so:/x.so"), "/a/lib.so:/x.so");
    }
}
