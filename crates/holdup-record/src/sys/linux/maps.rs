//! What runtimes write for profilers of the code that they make: maps, `/tmp/perf-PID.map` as the process sees `/tmp`
//! and its own number, and dumps, `jit-PID.dump` wherever the process has mapped one from.
//!
//! Anybody may make a file of that name. It is believed if it is a regular file, no link, and belongs to us, to root,
//! or to the user whose process it is; of a process that is gone, it must have been written since the recording began.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use crate::CodeMap;

/// Larger maps are not read: a virtual machine with 50,000 methods writes 8 MB.
const LARGEST_BYTES: u64 = 512 << 20;

/// What the kernel appends to the path of a file that is gone.
const DELETED: &str = " (deleted)";

/// The map of a process that was recorded from then on.
///
/// # Errors
/// There is one that is not to be believed: why.
pub fn code_map(pid: u32, began_unix_s: u64) -> Result<Option<CodeMap>, String> {
    let owner = owner_of(pid);
    let mut refused = None;
    for (path, folder) in candidates(pid, owner.is_some()) {
        let opened = folder.as_ref().map_or_else(|| path.clone(), |folder| within(folder, &path));
        match open(&opened, owner, began_unix_s) {
            Ok(Some(file)) => return Ok(Some(CodeMap { path, file: file.take(LARGEST_BYTES) })),
            Ok(None) => {}
            Err(why) => refused = Some(format!("{} {why}", path.display())),
        }
    }
    refused.map_or(Ok(None), Err)
}

/// The dump that a process has mapped from this path, as the kernel tells it: no part of it is a link.
///
/// # Errors
/// There is one that is not to be believed: why.
pub fn jit_dump(pid: u32, mapped: &str, began_unix_s: u64) -> Result<Option<CodeMap>, String> {
    let owner = owner_of(pid);
    let root = if owner.is_some() { format!("/proc/{pid}/root") } else { "/".to_owned() };
    let path = mapped.strip_suffix(DELETED).unwrap_or(mapped);
    let seen = Path::new(&root).join(path.trim_start_matches('/'));
    let flags = libc::O_PATH | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let opened = File::options().read(true).custom_flags(flags).open(root).and_then(|root| beneath(&root, path));
    let file = believed(opened, owner, began_unix_s).map_err(|why| format!("{} {why}", seen.display()))?;
    Ok(file.map(|file| CodeMap { path: seen, file: file.take(LARGEST_BYTES) }))
}

/// The user whose process it is, while it lives.
fn owner_of(pid: u32) -> Option<u32> {
    fs::metadata(format!("/proc/{pid}")).ok().map(|about| about.uid())
}

/// The file of that path below a root, where no part of the path is a link: one could lead out of that root.
pub fn beneath(root: &File, path: &str) -> io::Result<File> {
    let path = CString::new(path)?;
    // SAFETY: it is made of integers, for which zeros are values.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = (libc::O_RDONLY | libc::O_NONBLOCK | libc::O_CLOEXEC) as u64;
    how.resolve = libc::RESOLVE_IN_ROOT | libc::RESOLVE_NO_SYMLINKS;
    // SAFETY: the path ends with a zero, and the kernel reads as many bytes of the structure as it has.
    let opened =
        unsafe { libc::syscall(libc::SYS_openat2, root.as_raw_fd(), path.as_ptr(), &raw const how, size_of_val(&how)) };
    let Ok(fd) = i32::try_from(opened) else { return Err(io::Error::other("no descriptor")) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Where the map may be; of a folder in another file system also the folder itself, which is held.
fn candidates(pid: u32, alive: bool) -> Vec<(PathBuf, Option<File>)> {
    let mut paths = Vec::new();
    if alive {
        let own = inner_number(pid).unwrap_or(pid);
        let path = PathBuf::from(format!("/proc/{pid}/root/tmp"));
        if let Ok(folder) = held(&path) {
            paths.push((path.join(format!("perf-{own}.map")), Some(folder)));
        }
    }
    paths.push((PathBuf::from(format!("/tmp/perf-{pid}.map")), None));
    paths
}

/// A folder that is no link: in another file system, one would lead into ours. What is put in its place later is not
/// opened.
fn held(folder: &Path) -> io::Result<File> {
    let flags = libc::O_PATH | libc::O_NOFOLLOW | libc::O_DIRECTORY | libc::O_CLOEXEC;
    File::options().read(true).custom_flags(flags).open(folder)
}

/// The file of that name in this very folder.
fn within(folder: &File, path: &Path) -> PathBuf {
    Path::new("/proc/self/fd").join(folder.as_raw_fd().to_string()).join(path.file_name().unwrap_or_default())
}

/// The number that a process knows itself by.
pub fn inner_number(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("NSpid:"))?.split_ascii_whitespace().last()?.parse().ok()
}

fn open(path: &Path, owner: Option<u32>, began_unix_s: u64) -> Result<Option<File>, String> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC;
    believed(File::options().read(true).custom_flags(flags).open(path), owner, began_unix_s)
}

/// The file, if it is there and to be believed.
fn believed(opened: io::Result<File>, owner: Option<u32>, began_unix_s: u64) -> Result<Option<File>, String> {
    let file = match opened {
        Ok(file) => file,
        Err(why) if why.raw_os_error() == Some(libc::ELOOP) => return Err("is a link".into()),
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(format!("cannot be read: {why}")),
    };
    let about = file.metadata().map_err(|why| format!("cannot be read: {why}"))?;
    // SAFETY: it always succeeds.
    let ours = unsafe { libc::geteuid() };
    if !about.is_file() {
        return Err("is no regular file".into());
    }
    if about.uid() != 0 && about.uid() != ours && Some(about.uid()) != owner {
        let why = match owner {
            Some(_) => "whose process it is not",
            None => "and whose process it was is not known any more: record so that it still runs at the end (--for)",
        };
        return Err(format!("belongs to user {}, {why}", about.uid()));
    }
    if owner.is_none() && u64::try_from(about.mtime()).unwrap_or(0) < began_unix_s {
        // Of an earlier process with this number.
        return Ok(None);
    }
    if about.len() > LARGEST_BYTES {
        return Err(format!("has {} MB, more than the {} that are read", about.len() >> 20, LARGEST_BYTES >> 20));
    }
    Ok(Some(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_becomes_a_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (tmp, away) = (folder.path().join("tmp"), folder.path().join("away"));
        for (at, text) in [(&tmp, "own"), (&away, "another's")] {
            fs::create_dir(at).unwrap();
            fs::write(at.join("perf-1.map"), text).unwrap();
        }
        let kept = held(&tmp).unwrap();
        fs::rename(&tmp, folder.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&away, &tmp).unwrap();
        let file = open(&within(&kept, &tmp.join("perf-1.map")), None, 0).unwrap();
        assert_eq!(io::read_to_string(file.unwrap()).unwrap(), "own");
        assert!(held(&tmp).is_err(), "a link");
    }

    #[test]
    fn a_dump_is_found_where_the_process_mapped_it_and_through_no_link() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        let path = home.join("jit-1.dump");
        fs::write(&path, "JiTD").unwrap();
        let own = std::process::id();
        let text = |pid, path: &Path, began| {
            let dump = jit_dump(pid, path.to_str().unwrap(), began)?;
            Ok::<_, String>(dump.map(|dump| io::read_to_string(dump.file).unwrap()))
        };
        assert_eq!(text(own, &path, u64::MAX >> 1), Ok(Some("JiTD".to_owned())));
        let gone = u32::MAX >> 1;
        assert_eq!(text(gone, &path, 0), Ok(Some("JiTD".to_owned())), "the process has ended");
        assert_eq!(text(gone, &path, u64::MAX >> 1), Ok(None), "of an earlier process with this number");
        assert_eq!(text(own, &home.join("jit-2.dump"), 0), Ok(None));
        let (link, linked) = (home.join("jit-3.dump"), home.join("folder"));
        std::os::unix::fs::symlink(&path, &link).unwrap();
        std::os::unix::fs::symlink(&home, &linked).unwrap();
        for path in [link, linked.join("jit-1.dump")] {
            let said = text(own, &path, 0).unwrap_err();
            assert!(said.ends_with(" is a link") && said.contains(path.to_str().unwrap()), "{said}");
        }
        fs::create_dir(home.join("jit-4.dump")).unwrap();
        assert!(text(own, &home.join("jit-4.dump"), 0).unwrap_err().ends_with("is no regular file"));
        assert_eq!(text(own, Path::new("/../jit-5.dump"), 0), Ok(None));
    }

    #[test]
    fn only_a_file_of_the_right_owner_is_believed() {
        let folder = tempfile::tempdir().unwrap();
        let map = folder.path().join("perf-1.map");
        let read = |path: &Path, owner, began| {
            let file = open(path, owner, began)?;
            Ok::<_, String>(file.map(|file| io::read_to_string(file).unwrap()))
        };
        assert_eq!(read(&map, None, 0), Ok(None));
        fs::write(&map, "1000 10 f\n").unwrap();
        assert_eq!(read(&map, None, 0), Ok(Some("1000 10 f\n".to_owned())));
        assert_eq!(read(&map, None, u64::MAX >> 1), Ok(None), "of an earlier process with this number");
        assert!(read(&map, Some(0), u64::MAX >> 1).unwrap().is_some(), "the process lives, so the map is its own");
        let link = folder.path().join("perf-2.map");
        std::os::unix::fs::symlink(&map, &link).unwrap();
        assert_eq!(read(&link, None, 0), Err("is a link".into()));
        assert_eq!(read(folder.path(), None, 0), Err("is no regular file".into()));
        let owner = fs::metadata(&map).unwrap().uid();
        if owner == 0 {
            std::os::unix::fs::chown(&map, Some(4321), None).unwrap();
            assert!(read(&map, None, 0).unwrap_err().contains("user 4321, and whose process it was is not known"));
            assert!(read(&map, Some(4322), 0).unwrap_err().contains("user 4321, whose process it is not"));
            assert!(read(&map, Some(4321), 0).unwrap().is_some());
        }
        let large = File::create(folder.path().join("perf-3.map")).unwrap();
        large.set_len(LARGEST_BYTES + 1).unwrap();
        assert!(read(&folder.path().join("perf-3.map"), None, 0).unwrap_err().contains("MB"));
    }
}
