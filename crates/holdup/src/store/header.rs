//! Looks at a file's first bytes before SQLite does, so that a file that is not ours stays untouched.
//!
//! Offsets are those of "Database File Format", section 1.3, in SQLite's documentation.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::{APPLICATION_ID, StoreError, VERSION};

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// No file, or an empty one.
    Nothing,
    /// A store that this program reads.
    Store,
}

/// Whether the file may be opened as a store.
pub(super) fn check(path: &Path) -> Result<Found, StoreError> {
    match std::fs::metadata(path) {
        Ok(about) if about.is_file() => {}
        // A pipe would keep us waiting for its writer.
        Ok(_) => return Err(StoreError::Foreign { path: path.to_owned(), what: "no file" }),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(why) => return Err(StoreError::io(path, why)),
    }
    let mut file = File::open(path).map_err(|why| StoreError::io(path, why))?;
    let mut header = Vec::with_capacity(LENGTH);
    file.by_ref().take(LENGTH as u64).read_to_end(&mut header).map_err(|why| StoreError::io(path, why))?;
    if header.is_empty() {
        return Ok(Found::Nothing);
    }
    judge(path, &header, || file.metadata().map(|about| about.len()).map_err(|why| StoreError::io(path, why)))
}

const LENGTH: usize = 100;
const MAGIC: &[u8] = b"SQLite format 3\0";
const PAGE_SIZE: usize = 16;
const CHANGE_COUNTER: usize = 24;
const PAGES: usize = 28;
const USER_VERSION: usize = 60;
const APPLICATION: usize = 68;
const VALID_FOR: usize = 92;

fn judge(path: &Path, header: &[u8], length: impl Fn() -> Result<u64, StoreError>) -> Result<Found, StoreError> {
    let path = path.to_owned();
    if !header.starts_with(MAGIC) || header.len() < LENGTH {
        return Err(StoreError::Foreign { path, what: "no database" });
    }
    if word(header, APPLICATION) != APPLICATION_ID {
        return Err(StoreError::Foreign { path, what: "another program's database" });
    }
    let version = word(header, USER_VERSION);
    if version > VERSION {
        return Err(StoreError::Newer { path, version });
    }
    // The page count holds when the two counters agree; a file shorter than that lost its end, unless the end still is
    // in the journal of a program that was killed, or that runs just now. When that is done its journal is gone and the
    // file is whole, so its length is asked last.
    if word(header, CHANGE_COUNTER) == word(header, VALID_FOR) && !has_journal(&path) {
        let (length, wanted) = (length()?, u64::from(word(header, PAGES)) * page_size(header));
        if length < wanted {
            return Err(StoreError::Damaged { path, what: format!("{length} bytes of {wanted}") });
        }
    }
    Ok(Found::Store)
}

/// Whether there is a journal of either kind: a store that is just made has the older one.
fn has_journal(path: &Path) -> bool {
    ["-wal", "-journal"].into_iter().any(|kind| {
        let mut journal = path.as_os_str().to_owned();
        journal.push(kind);
        std::fs::metadata(journal).is_ok_and(|file| file.len() > 0)
    })
}

fn page_size(header: &[u8]) -> u64 {
    match u16::from_be_bytes([header[PAGE_SIZE], header[PAGE_SIZE + 1]]) {
        1 => 65_536,
        size => u64::from(size),
    }
}

fn word(header: &[u8], at: usize) -> u32 {
    let bytes = header[at..at + 4].try_into().expect("four bytes make a word");
    u32::from_be_bytes(bytes)
}
