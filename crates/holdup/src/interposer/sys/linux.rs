//! Linux: folders in memory, owners and modes, mount options, capabilities.

use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

/// Where files for a short while may be, the best first: the user's own folder in memory, everybody's, any. Root's
/// programs may go on as other users, so for root those come first that every user can reach.
pub fn roots() -> Vec<PathBuf> {
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = own.filter(|path| path.is_absolute());
    let mut roots: Vec<PathBuf> = own.into_iter().chain([PathBuf::from("/dev/shm"), std::env::temp_dir()]).collect();
    if user() == 0 {
        roots.sort_by_key(|root| !root.ancestors().all(is_open_to_all));
    }
    roots
}

fn is_open_to_all(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|about| about.mode() & 0o001 != 0)
}

/// The number of this user.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The mode of what interposed processes use: the first, or the second for root, whose programs may go on as other
/// users.
pub fn mode_of_files(own: u32, of_root: u32) -> u32 {
    if user() == 0 { of_root } else { own }
}

/// Makes a folder with this mode.
///
/// # Errors
/// Something has the name already (a link that another user left there too), or the system refuses.
pub fn make_folder(path: &Path, mode: u32) -> io::Result<()> {
    DirBuilder::new().mode(0o700).create(path)?;
    // The user's mask would take from the mode.
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
}

/// Whether this is a folder of this user, no link to one, that nobody else can change; it has this mode then.
pub fn is_private(path: &Path, mode: u32) -> bool {
    let Ok(about) = fs::symlink_metadata(path) else { return false };
    let safe = about.is_dir() && is_own(&about) && about.mode() & 0o077 & !mode == 0;
    safe && (about.mode() & 0o7777 == mode || fs::set_permissions(path, fs::Permissions::from_mode(mode)).is_ok())
}

/// The bytes of a file of this user that nobody else can change; `None` for links and for everything else.
pub fn own_file(path: &Path) -> Option<Vec<u8>> {
    let about = fs::symlink_metadata(path).ok()?;
    let safe = about.is_file() && is_own(&about) && about.mode() & 0o022 == 0;
    // One that an earlier holdup left as root, and that other users cannot read, is made anew.
    let safe = safe && about.mode() & 0o444 >= mode_of_files(0o400, 0o444);
    safe.then(|| fs::read(path).ok()).flatten()
}

/// Writes a new file with these rights, which is there with all of its bytes or not at all.
///
/// # Errors
/// The system refuses.
pub fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let draft = path.with_extension(format!("{}-{:x}", std::process::id(), fastrand::u64(..)));
    // Exclusive creation follows no link.
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| file.write_all(bytes))
        // The user's mask would take from the mode.
        .and_then(|()| fs::set_permissions(&draft, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::rename(&draft, path));
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

/// Replaces bytes in the middle of a file.
///
/// # Errors
/// The system refuses.
pub fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)
}

/// Reads so many bytes in the middle of a file.
///
/// # Errors
/// There are fewer, or the system refuses.
pub fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    file.read_exact_at(bytes, offset)
}

/// Whether programs and libraries in this folder may run: it is not mounted `noexec`.
pub fn allows_programs(path: &Path) -> bool {
    rustix::fs::statvfs(path).is_ok_and(|about| !about.f_flag.contains(StatVfsMountFlags::NOEXEC))
}

/// Whether a process is there, of whichever user.
pub fn is_running(pid: u32) -> bool {
    Path::new("/proc").join(pid.to_string()).exists()
}

/// What in a file makes the loader ignore `LD_PRELOAD`, if anything does.
pub fn privilege(path: &Path) -> Option<&'static str> {
    let about = fs::metadata(path).ok()?;
    let (user, group) = (user(), rustix::process::getegid().as_raw());
    if about.mode() & 0o4000 != 0 && about.uid() != user {
        return Some("setuid");
    }
    // Without the right to execute for the group, the bit means something else.
    if about.mode() & 0o2010 == 0o2010 && about.gid() != group {
        return Some("setgid");
    }
    let mut value = [0_u8; 64];
    let capable = rustix::fs::getxattr(path, "security.capability", &mut value[..]).is_ok_and(|len| len > 0);
    (capable && user != 0).then_some("file capabilities")
}

/// Whether this user may execute the file.
pub fn is_executable(path: &Path) -> bool {
    rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// The bytes of a path.
pub fn path_bytes(path: &Path) -> Vec<u8> {
    path.as_os_str().as_bytes().to_vec()
}

/// The path with these bytes.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(std::ffi::OsStr::from_bytes(bytes))
}

fn is_own(about: &Metadata) -> bool {
    about.uid() == user()
}
