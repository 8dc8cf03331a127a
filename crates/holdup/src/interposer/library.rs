//! The library inside this binary, and its copy in a file that the loader can read.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};

use super::sys;

include!(concat!(env!("OUT_DIR"), "/preload.rs"));

/// What names of the file begin with.
const PREFIX: &str = "holdup-preload-";

/// Why there is no library.
pub const MISSING: &str = "this holdup cannot put other locks under a program: that needs Linux with the GNU C library (glibc) on x86-64, \
     and a holdup built for it ('cargo install --path crates/holdup', target x86_64-unknown-linux-gnu; the static one, where that \
     target is installed too)";

/// A folder for files that live on between runs, which only this user can change, in the first place that serves. One
/// that had to be made for this run alone is among `fresh`.
///
/// # Errors
/// There is none.
pub fn folder(serves: impl Fn(&Path) -> bool, fresh: &mut Vec<PathBuf>) -> io::Result<PathBuf> {
    let roots = sys::roots();
    let names: Vec<String> = roots.iter().map(|root| root.display().to_string()).collect();
    let mut refusal = io::Error::new(io::ErrorKind::Unsupported, format!("not {}", names.join(", nor ")));
    for root in roots.into_iter().filter(|root| serves(root)) {
        match folder_in(&root, fresh) {
            Ok(folder) => return Ok(folder),
            Err(why) => refusal = io::Error::new(why.kind(), format!("{}: {why}", root.display())),
        }
    }
    Err(refusal)
}

/// A file with the library, made or found; for `fresh`, see [`folder`].
///
/// # Errors
/// This build has none, or no folder can hold it.
pub fn file(fresh: &mut Vec<PathBuf>) -> io::Result<PathBuf> {
    let bytes = LIBRARY.ok_or_else(|| io::Error::new(io::ErrorKind::Unsupported, MISSING))?;
    let serves = |root: &Path| sys::allows_programs(root) && can_be_listed(root);
    let folder = folder(serves, fresh).map_err(|why| {
        let text = "no folder for the library, in which files may be executed and whose path has neither space nor colon \
             (set XDG_RUNTIME_DIR or TMPDIR to one; a container gets one by --tmpfs /tmp:exec)";
        io::Error::new(why.kind(), format!("{text}: {why}"))
    })?;
    place(&folder, bytes)
}

/// Puts the bytes into a file of the folder, unless they are there.
fn place(folder: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let path = folder.join(format!("{PREFIX}{:016x}.so", hash(bytes)));
    if sys::own_file(&path).is_none_or(|there| there != bytes) {
        sys::write_new(&path, bytes, sys::mode_of_files(0o500, 0o555))?;
    }
    Ok(path)
}

/// Whether a file of `LD_PRELOAD` is one that holdup put there.
pub fn is_ours(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// `LD_PRELOAD` is a list with spaces and colons in between, and nothing quotes them.
fn can_be_listed(path: &Path) -> bool {
    !sys::path_bytes(path).iter().any(|byte| byte.is_ascii_whitespace() || *byte == b':')
}

/// The usual folder if it is or can be made one that this user alone changes; otherwise one with a name that nobody
/// could foresee.
fn folder_in(root: &Path, fresh: &mut Vec<PathBuf>) -> io::Result<PathBuf> {
    let usual = root.join(format!("holdup-{}", sys::user()));
    let mode = sys::mode_of_files(0o700, 0o711);
    match sys::make_folder(&usual, mode) {
        Ok(()) => return Ok(usual),
        Err(_) if sys::is_private(&usual, mode) => return Ok(usual),
        Err(_) => {}
    }
    if let Some(there) = fresh.iter().find(|there| there.parent() == Some(root)) {
        return Ok(there.clone());
    }
    let made = root.join(format!("holdup-{:016x}", fastrand::u64(..)));
    sys::make_folder(&made, mode)?;
    fresh.push(made.clone());
    Ok(made)
}

/// The same for the same bytes: it names a version, the bytes themselves are compared.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
