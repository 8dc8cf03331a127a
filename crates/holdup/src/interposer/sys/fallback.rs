//! Systems whose programs cannot be interposed: nothing of it is ever needed, for there is no library to begin with.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

fn unsupported<T>() -> io::Result<T> {
    Err(io::ErrorKind::Unsupported.into())
}

/// None.
pub fn roots() -> Vec<PathBuf> {
    Vec::new()
}

/// Users have no numbers.
pub fn user() -> u32 {
    0
}

/// No other user is meant.
pub fn mode_of_files(own: u32, _: u32) -> u32 {
    own
}

/// Cannot be made.
///
/// # Errors
/// Always.
pub fn make_folder(_: &Path, _: u32) -> io::Result<()> {
    unsupported()
}

/// Not known.
pub fn is_private(_: &Path, _: u32) -> bool {
    false
}

/// None.
pub fn own_file(_: &Path) -> Option<Vec<u8>> {
    None
}

/// Cannot be written.
///
/// # Errors
/// Always.
pub fn write_new(_: &Path, _: &[u8], _: u32) -> io::Result<()> {
    unsupported()
}

/// Cannot be written.
///
/// # Errors
/// Always.
pub fn write_at(_: &File, _: &[u8], _: u64) -> io::Result<()> {
    unsupported()
}

/// Cannot be read.
///
/// # Errors
/// Always.
pub fn read_at(_: &File, _: &mut [u8], _: u64) -> io::Result<()> {
    unsupported()
}

/// Not known.
pub fn allows_programs(_: &Path) -> bool {
    false
}

/// Not known: nothing of a process that may run is removed.
pub fn is_running(_: u32) -> bool {
    true
}

/// None that is known.
pub fn privilege(_: &Path) -> Option<&'static str> {
    None
}

/// Only the system can tell.
pub fn is_executable(_: &Path) -> bool {
    true
}

/// The path as text.
pub fn path_bytes(path: &Path) -> Vec<u8> {
    path.to_string_lossy().into_owned().into_bytes()
}

/// The path with these bytes.
pub fn path_of(bytes: &[u8]) -> PathBuf {
    PathBuf::from(String::from_utf8_lossy(bytes).into_owned())
}
