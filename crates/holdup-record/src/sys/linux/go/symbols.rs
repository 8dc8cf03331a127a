//! The symbols of Go's runtime, from the symbol table of the program's file: none is exported, so that the loader's
//! tables, which lie in memory, have none of them.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::super::memory::{u32_at, u64_at};

/// Addresses as the file has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Symbols {
    /// Begin and end of Go's own code.
    pub text: (u64, u64),
    /// The list of all goroutines: address of the first entry, length, capacity.
    pub goroutines: u64,
    /// The table of all that wait for semaphores, with its size in bytes.
    pub semaphores: (u64, u64),
    /// The texts of reasons to wait, with their size in bytes.
    pub reasons: (u64, u64),
    /// The runtime's version, a text.
    pub version: u64,
    /// The first address that the file is loaded at, of those that it asks for.
    pub first: u64,
}

const SHT_SYMTAB: u32 = 2;
const PT_LOAD: u32 = 1;
pub(super) const SECTION: usize = 64;
const SEGMENT: usize = 56;
const SYMBOL: usize = 24;
/// Sections that a file has at most, of those that are looked at, and bytes of tables that are read at most.
const MOST_SECTIONS: u16 = 1_000;
const LARGEST_TABLE: u64 = 256 << 20;
const AT_ONCE: usize = 1 << 20;

impl Symbols {
    /// Those of a file; `None` if it is not of Go, or has no symbol table.
    pub fn read(file: &File) -> Option<Symbols> {
        let head = head(file)?;
        let sections = sections(file, &head)?;
        let is_of_go =
            names(file, &head, &sections)?.split(|byte| *byte == 0).any(|name| name.ends_with(b".gopclntab"));
        let table =
            sections.chunks_exact(SECTION).find(|one| u32_at(one, 4) == Some(SHT_SYMTAB)).filter(|_| is_of_go)?;
        let strings = sections.chunks_exact(SECTION).nth(u32_at(table, 40)? as usize)?;
        let strings = section_text(file, strings)?;
        let mut found = Symbols { first: first_segment(file, &head)?, ..Symbols::default() };
        let (mut at, size) = (u64_at(table, 24)?, u64_at(table, 32)?.min(LARGEST_TABLE));
        let end = at.checked_add(size)?;
        while at < end {
            let len = ((end - at) as usize).min(AT_ONCE / SYMBOL * SYMBOL);
            for symbol in exactly(file, at, len)?.chunks_exact(SYMBOL) {
                found.take(symbol, &strings);
            }
            at += len as u64;
        }
        let is_whole = found.goroutines != 0 && found.text.0 < found.text.1 && found.reasons.0 != 0;
        is_whole.then_some(found)
    }

    fn take(&mut self, symbol: &[u8], strings: &[u8]) -> Option<()> {
        const START: &[u8] = b"runtime.";
        let name = strings.get(u32_at(symbol, 0)? as usize..)?.strip_prefix(START)?;
        let (value, size) = (u64_at(symbol, 8)?, u64_at(symbol, 16)?);
        let is = |wanted: &[u8]| name.strip_prefix(wanted).is_some_and(|rest| rest.first() == Some(&0));
        if is(b"allgs") {
            self.goroutines = value;
        } else if is(b"semtable") {
            self.semaphores = (value, size);
        } else if is(b"waitReasonStrings") {
            self.reasons = (value, size);
        } else if is(b"buildVersion") {
            self.version = value;
        } else if is(b"text") {
            self.text.0 = value;
        } else if is(b"etext") {
            self.text.1 = value;
        }
        Some(())
    }
}

/// What a file begins with, if it is a program of 64 bits, little-endian.
pub(super) fn head(file: &File) -> Option<Vec<u8>> {
    exactly(file, 0, 64).filter(|head| head.starts_with(b"\x7fELF\x02\x01"))
}

/// The names of sections, one after the other.
pub(super) fn names(file: &File, head: &[u8], sections: &[u8]) -> Option<Vec<u8>> {
    section_text(file, sections.chunks_exact(SECTION).nth(usize::from(u16_at(head, 62)?))?)
}

pub(super) fn sections(file: &File, head: &[u8]) -> Option<Vec<u8>> {
    let count = u16_at(head, 60)?.min(MOST_SECTIONS);
    exactly(file, u64_at(head, 40)?, usize::from(count) * SECTION)
}

/// The page of the first segment that is loaded.
pub(super) fn first_segment(file: &File, head: &[u8]) -> Option<u64> {
    let segments = exactly(file, u64_at(head, 32)?, usize::from(u16_at(head, 56)?) * SEGMENT)?;
    let first = segments.chunks_exact(SEGMENT).find(|one| u32_at(one, 0) == Some(PT_LOAD))?;
    Some(u64_at(first, 16)? & !4095)
}

pub(super) fn section_text(file: &File, section: &[u8]) -> Option<Vec<u8>> {
    let (at, size) = (u64_at(section, 24)?, u64_at(section, 32)?);
    exactly(file, at, usize::try_from(size.min(LARGEST_TABLE)).ok()?)
}

/// So many bytes, if the file has them: what it says of itself may be wrong.
fn exactly(file: &File, at: u64, len: usize) -> Option<Vec<u8>> {
    let end = at.checked_add(len as u64)?;
    if file.metadata().ok()?.len() < end {
        return None;
    }
    let mut bytes = vec![0; len];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    #[test]
    fn files_of_other_languages_and_broken_ones_have_none() {
        let own = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!(Symbols::read(&File::open("/proc/self/exe").unwrap()), None, "a file of Rust");
        assert_eq!(Symbols::read(&file(&own[..64])), None, "what its head tells of is not there");
        let mut far = own[..64].to_vec();
        far[40..48].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(Symbols::read(&file(&far)), None, "sections behind the end of all files");
        assert_eq!(Symbols::read(&file(b"#!/bin/sh\n")), None);
    }
}
