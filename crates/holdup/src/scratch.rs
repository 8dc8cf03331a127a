//! A folder of our own among the system's temporary files.

use std::io;
use std::path::{Path, PathBuf};

/// It goes with all that is in it when this is dropped.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one, whose name says what for.
    ///
    /// # Errors
    /// The system has no place for it.
    pub fn new(what_for: &str) -> io::Result<Folder> {
        let name = format!("holdup-{what_for}-{}-{:016x}", std::process::id(), fastrand::u64(..));
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder)?;
        Ok(Folder(folder))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is one folder among other temporary ones.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
