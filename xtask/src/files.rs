//! Files and folders of what is made, with errors that name them.

use std::fs;
use std::path::{Path, PathBuf};

/// The files of a folder, by name.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|why| cannot("read", folder, &why))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

pub fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

pub fn size(path: &Path) -> Result<u64, String> {
    fs::metadata(path).map(|about| about.len()).map_err(|why| cannot("read", path, &why))
}

/// A folder that is there and empty.
pub fn fresh(folder: &Path) -> Result<PathBuf, String> {
    remove(folder)?;
    fs::create_dir_all(folder).map_err(|why| cannot("make", folder, &why))?;
    Ok(folder.to_owned())
}

pub fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(why) if why.kind() != std::io::ErrorKind::NotFound => Err(cannot("remove", folder, &why)),
        _ => Ok(()),
    }
}

/// Writes a file, with the folder that it lies in.
pub fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let made = path.parent().map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, bytes)).map_err(|why| cannot("write", path, &why))
}

pub fn cannot(what: &str, path: &Path, why: &std::io::Error) -> String {
    format!("cannot {what} {}: {why}", path.display())
}
