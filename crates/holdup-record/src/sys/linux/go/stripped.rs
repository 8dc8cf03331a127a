//! What a stripped program of Go still tells of its runtime: its sections say where variables are, and the runtime's
//! own are known by what they hold as the program runs. The list of goroutines begins with the first one, the texts of
//! reasons to wait are in order, and who waits for a semaphore hangs from the row of the table that is of its address.

use std::fs::File;

use super::super::memory::{Memory, pointer_at, u32_at, u64_at};
use super::super::words;
use super::layout::{Layout, MOST_GOROUTINES, MOST_REASONS, ROWS};
use super::symbols::{self, Symbols};

/// The sections of a stripped program's file, as (begin, end) of addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sections {
    text: (u64, u64),
    data: (u64, u64),
    zeroed: (u64, u64),
    /// The first address that the file is loaded at.
    first: u64,
    /// The version of the language that it was built with, such as `go1.22.5`.
    pub version: String,
}

/// More of a section is not searched.
const MOST_SEARCHED: u64 = 32 << 20;
/// Bytes of a row of the table of semaphores.
const ROW: u64 = 64;

impl Sections {
    /// Those of a file; `None` if it is not of Go.
    pub fn read(file: &File) -> Option<Sections> {
        let head = symbols::head(file)?;
        let table = symbols::sections(file, &head)?;
        let names = symbols::names(file, &head, &table)?;
        let mut found = Sections { first: symbols::first_segment(file, &head)?, ..Sections::default() };
        let mut is_of_go = false;
        for section in table.chunks_exact(symbols::SECTION) {
            let name = names.get(u32_at(section, 0)? as usize..)?.split(|byte| *byte == 0).next()?;
            let (from, size) = (u64_at(section, 16)?, u64_at(section, 32)?);
            let range = (from, from.checked_add(size)?);
            match name {
                b".text" => found.text = range,
                b".data" => found.data = range,
                b".bss" => found.zeroed = range,
                b".go.buildinfo" => found.version = version(&symbols::section_text(file, section)?)?,
                _ => is_of_go |= name.ends_with(b".gopclntab"),
            }
        }
        (is_of_go && !found.version.is_empty()).then_some(found)
    }

    /// As they are in a process that has loaded the file here.
    pub fn moved(self, base: u64) -> Sections {
        let bias = base.wrapping_sub(self.first);
        let moved = |(from, to): (u64, u64)| {
            let addr = |addr: u64| addr.wrapping_add(bias) & (u64::MAX >> 8);
            (addr(from), addr(to))
        };
        Sections { text: moved(self.text), data: moved(self.data), zeroed: moved(self.zeroed), first: base, ..self }
    }

    /// What the symbol table would tell, but for the table of semaphores, found in the process's memory. `None` if
    /// there are no goroutines yet.
    pub fn symbols(&self, pid: u32, memory: &mut Memory) -> Option<Symbols> {
        let zeroed = range(pid, self.zeroed)?;
        let goroutines = goroutines(&zeroed, memory)?;
        let reasons = reasons(&range(pid, self.data)?, memory)?;
        Some(Symbols {
            text: self.text,
            goroutines: self.zeroed.0 + goroutines,
            reasons: (self.data.0 + reasons, 16 * MOST_REASONS),
            first: self.first,
            ..Symbols::default()
        })
    }

    /// The table of all that wait for semaphores, with its size, by one of these goroutines that does.
    pub(super) fn semaphores(&self, pid: u32, layout: Layout, goroutines: &[u64]) -> Option<(u64, u64)> {
        self.semaphores_in(&range(pid, self.zeroed)?, pid, layout, goroutines)
    }

    /// The same, by what was read of the section just now.
    fn semaphores_in(&self, zeroed: &[u8], pid: u32, layout: Layout, goroutines: &[u64]) -> Option<(u64, u64)> {
        let mut memory = Memory::of(pid);
        let size = ROW * ROWS;
        let starts = (0..zeroed.len().checked_sub(24)?).step_by(8).filter_map(|at| {
            let waiters = u32_at(zeroed, at + 16)?;
            let entry = pointer_at(zeroed, at + 8).filter(|_| (1..1 << 20).contains(&waiters))?;
            let goroutine = memory.pointer(entry)?;
            let addr = memory.pointer(entry + layout.address as u64)?;
            let start = (at as u64).checked_sub((addr >> 3) % ROWS * ROW)?;
            let fits = start + size <= zeroed.len() as u64 && goroutines.contains(&goroutine);
            // An entry that was taken out and used again meanwhile may have come to another row.
            let still = || Memory::of(pid).pointer(self.zeroed.0 + at as u64 + 8) == Some(entry);
            (fits && still()).then_some(self.zeroed.0 + start)
        });
        starts.map(|start| (start, size)).next()
    }
}

/// What the linker writes of the version: behind a mark of 16 bytes and as many of nothing, a length and a text.
fn version(section: &[u8]) -> Option<String> {
    let is_written = section.starts_with(b"\xff Go buildinf:") && section.get(15)? & 2 != 0;
    let len = usize::from(*section.get(32).filter(|len| **len < 0x80 && is_written)?);
    let text = section.get(33..33 + len)?;
    Some(String::from_utf8_lossy(text).replace(char::is_control, "\u{fffd}"))
}

/// The memory of a section.
fn range(pid: u32, (from, to): (u64, u64)) -> Option<Vec<u8>> {
    let len = to.checked_sub(from)?.min(MOST_SEARCHED);
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    let read = words::read_bytes(pid, from, &mut bytes);
    bytes.truncate(read);
    Some(bytes)
}

/// How far into a section the list of goroutines is: address, length and capacity of a list whose first has the number
/// 1. A collection has a copy, which has no more room than it needs.
fn goroutines(section: &[u8], memory: &mut Memory) -> Option<u64> {
    let mut best = None;
    for at in (0..section.len().saturating_sub(23)).step_by(8) {
        let (len, room) = (u64_at(section, at + 8)?, u64_at(section, at + 16)?);
        if len == 0 || len > room || room > MOST_GOROUTINES {
            continue;
        }
        let Some(list) = pointer_at(section, at).filter(|list| list.is_multiple_of(8)) else { continue };
        let is_list = memory.pointer(list).is_some_and(|first| is_first(first, memory))
            && (len < 2 || memory.pointer(list + 8).is_some_and(|second| stack(second, memory).is_some()));
        if is_list && best.is_none_or(|(most, _)| room > most) {
            best = Some((room, at as u64));
        }
    }
    best.map(|(_, at)| at)
}

/// Whether this is the first goroutine, which never ends.
fn is_first(goroutine: u64, memory: &mut Memory) -> bool {
    let number_at = |at: u64, memory: &mut Memory| memory.word(goroutine + at) == Some(1);
    stack(goroutine, memory).is_some_and(|len| len > 0) && number_at(152, memory) != number_at(160, memory)
}

/// How large a stack is, whose bounds a goroutine begins with; 0 of one that has ended. `None` if this is none.
fn stack(goroutine: u64, memory: &mut Memory) -> Option<u64> {
    const LEAST: u64 = 2_048;
    let (low, high) = (memory.word(goroutine)?, memory.word(goroutine + 8)?);
    let len = high.checked_sub(low)?;
    (high == 0 || low.is_multiple_of(8) && low > 0 && len >= LEAST).then_some(len)
}

/// How far into a section the texts of reasons are: the first says nothing, and the others are known.
fn reasons(section: &[u8], memory: &mut Memory) -> Option<u64> {
    const FIRST: [&[u8]; 3] = [b"", b"GC assist marking", b"IO wait"];
    let is_text = |at: usize, text: &[u8], memory: &mut Memory| {
        let bytes = pointer_at(section, at).filter(|_| u64_at(section, at + 8) == Some(text.len() as u64));
        text.is_empty() || bytes.and_then(|bytes| memory.bytes(bytes, text.len())).is_some_and(|found| found == text)
    };
    let has_lengths = |at: usize| {
        (0..FIRST.len()).all(|index| u64_at(section, at + 16 * index + 8) == Some(FIRST[index].len() as u64))
    };
    let mut places = (0..section.len().saturating_sub(16 * FIRST.len())).step_by(8).filter(|at| has_lengths(*at));
    let is_it = |at: &usize| (0..FIRST.len()).all(|index| is_text(at + 16 * index, FIRST[index], memory));
    places.find(is_it).map(|at| at as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_what_the_linker_wrote() {
        let mut section = b"\xff Go buildinf:\x08\x02".to_vec();
        section.resize(32, 0);
        section.extend(b"\x08go1.22.5\x05path");
        assert_eq!(version(&section).as_deref(), Some("go1.22.5"));
        assert_eq!(version(&section[..38]), None, "cut off");
        section[15] = 0;
        assert_eq!(version(&section), None, "an older file has addresses there");
        assert_eq!(version(b""), None);
    }

    fn own() -> (u32, Memory) {
        let pid = std::process::id();
        (pid, Memory::of(pid))
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn the_list_of_goroutines_is_known_by_its_first_and_has_most_room() {
        let goroutine = |number: u64, low: u64, high: u64| {
            let mut words = vec![0_u64; 26];
            (words[0], words[1], words[19]) = (low, high, number);
            words
        };
        let all = [goroutine(1, 0x1000, 0x3000), goroutine(2, 0, 0)];
        let list = [all[0].as_ptr() as u64, all[1].as_ptr() as u64];
        let others = [all[1].as_ptr() as u64, all[0].as_ptr() as u64];
        let at = list.as_ptr() as u64;
        let (_, mut memory) = own();
        // Something else with a one in that place.
        let (ended, more) = (goroutine(1, 0, 0), [0_u64; 2]);
        let spans = [ended.as_ptr() as u64, more.as_ptr() as u64];
        let section = bytes(&[7, others.as_ptr() as u64, 2, 2, at, 2, 2, 1, at, 2, 8, spans.as_ptr() as u64, 2, 99, 0]);
        assert_eq!(goroutines(&section, &mut memory), Some(8 * 8), "the copy has no room for more");
        assert_eq!(goroutines(&section[..8 * 8], &mut memory), Some(4 * 8));
        assert_eq!(goroutines(&bytes(&[8, 1, 1, u64::MAX, 1, 1, at, 3, 2]), &mut memory), None);
    }

    #[test]
    fn reasons_are_known_by_their_texts() {
        let texts = ["GC assist marking", "IO wait"];
        let mut words = vec![3, 3, 0, 0];
        words.extend(texts.iter().flat_map(|text| [text.as_ptr() as u64, text.len() as u64]));
        words.extend([0, 0]);
        let (_, mut memory) = own();
        assert_eq!(reasons(&bytes(&words), &mut memory), Some(16));
        words[6] = texts[0].as_ptr() as u64;
        assert_eq!(reasons(&bytes(&words), &mut memory), None, "as long, but another text");
    }

    #[test]
    fn the_table_of_semaphores_is_where_a_waiter_hangs() {
        let goroutine = 0x7777_u64;
        let addr = 8 * 5;
        let entry = [goroutine, 0, 0, addr, 0, 0, 0, 0, 0, 0, 0];
        let mut zeroed = vec![0_u64; 4 + (ROW * ROWS / 8) as usize];
        let row = 4 + 5 * (ROW / 8) as usize;
        (zeroed[row + 1], zeroed[row + 2]) = (entry.as_ptr() as u64, 1);
        let from = zeroed.as_ptr() as u64;
        let sections = Sections { zeroed: (from, from + 8 * zeroed.len() as u64), ..Sections::default() };
        let find = |of: &[u64]| sections.semaphores(std::process::id(), Layout::of(22, false), of);
        assert_eq!(find(&[1, goroutine]), Some((from + 32, ROW * ROWS)));
        assert_eq!(find(&[1]), None, "nobody that is known waits there");
        let mut earlier = zeroed.clone();
        earlier.swap(row + 1, row + 9);
        earlier.swap(row + 2, row + 10);
        let layout = Layout::of(22, false);
        let found = sections.semaphores_in(&bytes(&earlier), std::process::id(), layout, &[goroutine]);
        assert_eq!(found, None, "it was in another row when the section was read");
    }
}
