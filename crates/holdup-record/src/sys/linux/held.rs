//! Files of programs that see another file system than we do, as in a container that goes away with them: kept open
//! from when they are mapped, so that their code still has names when the program has ended.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use holdup_trace::{Event, Mapping, What};
use rustc_hash::FxHashMap;

use super::maps;
use crate::HeldFile;

/// So many are kept at most: each is a descriptor.
const MOST: usize = 256;
/// Larger files are not read for names.
const LARGEST_BYTES: u64 = 2 << 30;

/// Those of one recording.
#[derive(Debug, Default)]
pub struct Files {
    /// By process, its root if that is not ours.
    roots: FxHashMap<u32, Option<File>>,
    kept: Vec<HeldFile>,
}

impl Files {
    /// Keeps what this event says is mapped, if it may not be there for long.
    pub fn see(&mut self, event: &Event) {
        match &event.what {
            // It may have changed its root since, as a container does before it begins.
            What::Named { exec: true, .. } => drop(self.roots.remove(&event.tid.0)),
            What::Mapped(map) if map.path.starts_with('/') && !map.path.starts_with("//") => self.keep(map),
            _ => {}
        }
    }

    /// All that were kept.
    pub fn into_files(self) -> Vec<HeldFile> {
        self.kept
    }

    fn keep(&mut self, map: &Mapping) {
        let is_it = |kept: &HeldFile| kept.path == *map.path && kept.build_id == map.build_id;
        if self.kept.len() >= MOST || self.kept.iter().any(is_it) {
            return;
        }
        let Some(root) = self.roots.entry(map.pid.0).or_insert_with(|| other_root(map.pid.0)) else { return };
        // What is not there any more has no names.
        let Ok(file) = maps::beneath(root, &map.path) else { return };
        if file.metadata().is_ok_and(|about| about.is_file() && about.len() <= LARGEST_BYTES) {
            let readable = Path::new("/proc/self/fd").join(file.as_raw_fd().to_string());
            let (path, build_id) = (map.path.to_string(), map.build_id.clone());
            self.kept.push(HeldFile { path, build_id, file: file.into(), readable });
        }
    }
}

/// The root of a process that has another one than we, or other file systems below it.
fn other_root(pid: u32) -> Option<File> {
    let path = format!("/proc/{pid}/root");
    let identity = |path: &str| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    let mounts = |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let is_ours = identity(&path)? == identity("/")? && mounts(&pid.to_string()) == mounts("self");
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    if is_ours { None } else { File::options().read(true).custom_flags(flags).open(path).ok() }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use holdup_trace::{NO_CPU, Pid, Tid};

    use super::*;

    fn mapped(pid: u32, path: &str) -> Event {
        let mapping = Mapping {
            pid: Pid(pid),
            start: 4096,
            len: 4096,
            offset: 0,
            path: path.into(),
            build_id: Some([7; 20].into()),
        };
        Event { time_ns: 1, tid: Tid(pid), cpu: NO_CPU, what: What::Mapped(Box::new(mapping)) }
    }

    #[test]
    fn files_of_our_own_root_are_not_kept() {
        let mut files = Files::default();
        let own = std::env::current_exe().unwrap();
        for path in [own.to_str().unwrap(), "//anon", "[vdso]", "/nowhere/at/all"] {
            files.see(&mapped(std::process::id(), path));
        }
        files.see(&mapped(u32::MAX >> 1, "/bin/sh"));
        assert!(files.into_files().is_empty());
    }

    #[test]
    fn files_below_another_root_are_kept_when_they_are_gone() {
        let folder = tempfile::tempdir().unwrap();
        let busybox = ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|path| Path::new(path).is_file());
        let Some(busybox) = busybox else { return println!("skipped: there is no program without libraries") };
        fs::copy(busybox, folder.path().join("app")).unwrap();
        let mut command = Command::new("chroot");
        command.arg(folder.path()).args(["/app", "sleep", "60"]).stderr(Stdio::null());
        let Ok(mut child) = command.spawn() else { return println!("skipped: there is no chroot") };
        let is_there = (0..200).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            let root = fs::read_link(format!("/proc/{}/root", child.id()));
            root.is_ok_and(|root| root == folder.path().canonicalize().unwrap())
        });
        if !is_there {
            child.kill().unwrap();
            child.wait().unwrap();
            return println!("skipped: only root may change the root");
        }
        let mut files = Files::default();
        files.see(&mapped(child.id(), "/app"));
        files.see(&mapped(child.id(), "/app"));
        child.kill().unwrap();
        child.wait().unwrap();
        drop(folder);
        let kept = files.into_files();
        assert_eq!(kept.iter().map(|file| &*file.path).collect::<Vec<_>>(), ["/app"]);
        assert_eq!(fs::read(&kept[0].readable).unwrap(), fs::read(busybox).unwrap());
    }
}
