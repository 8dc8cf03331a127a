//! What bytes are that are not a recording.

/// Beginnings of files that people have at hand when they look for a recording.
const BEGINNINGS: &[(&[u8], &str)] = &[
    (b"PERFILE2", "a perf.data file (`holdup import` reads those)"),
    (b"2ELIFREP", "a perf.data file of a machine with the other byte order"),
    (b"\x7fELF", "a program or library (ELF)"),
    (b"\x1f\x8b", "a gzip file"),
    (b"\x28\xb5\x2f\xfd", "a zstd file"),
    (b"\xfd7zXZ\0", "an xz file"),
    (b"BZh", "a bzip2 file"),
    (b"PK\x03\x04", "a zip file"),
    (b"SQLite format 3\0", "a SQLite database (holdup bench keeps its results in one)"),
    (b"MZ", "a Windows program"),
    (b"<!DOCTYPE", "a web page"),
    (b"<!doctype", "a web page"),
    (b"<html", "a web page"),
];

/// How much of a text is looked at.
const TEXT_BYTES: usize = 512;

/// What the bytes look like, as the noun of a sentence.
pub(super) fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    if bytes.is_empty() {
        return Some("an empty file");
    }
    if bytes.iter().take(TEXT_BYTES).all(|byte| *byte == 0) {
        return Some("a file of zeros");
    }
    let known = BEGINNINGS.iter().find(|(beginning, _)| bytes.starts_with(beginning));
    known.map(|(_, name)| *name).or_else(|| kind_of_text(&bytes[..bytes.len().min(TEXT_BYTES)]))
}

fn kind_of_text(bytes: &[u8]) -> Option<&'static str> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => text,
        // The cut can go through a character.
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    if text.chars().any(|c| c.is_control() && !c.is_whitespace() && c != '\u{1b}') {
        return None;
    }
    let is_json = text.trim_start_matches('\u{feff}').trim_start().starts_with(['{', '[']);
    Some(if is_json { "a JSON file" } else { "a text file" })
}
