//! Which build of a file is loaded, and where it has put a symbol: by its notes and the tables that the dynamic linker
//! uses, in the process's memory, so that neither containers nor files that were replaced matter.

use super::memory::{Memory, u32_at, u64_at};

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_NOTE: u32 = 4;
const NT_GNU_BUILD_ID: u32 = 3;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;
/// Symbols that share a bucket of the hash table: a few.
const LONGEST_CHAIN: usize = 1_000;

/// The table that leads from names to symbols: GNU's, or the older one, which some builds of Java have alone.
#[derive(Clone, Copy, Debug)]
enum Hash {
    Gnu(u64),
    SystemV(u64),
}

/// A file that is loaded, as far as it takes to find its symbols.
#[derive(Debug)]
pub struct Elf {
    bias: u64,
    hash: Hash,
    symbols: u64,
    strings: u64,
}

/// The build id of the file whose first byte is mapped here.
pub fn build_id(base: u64, memory: &mut Memory) -> Option<Box<[u8]>> {
    let table = segments(base, memory)?;
    let bias = bias(base, &table)?;
    let of_notes = |one: &&[u8]| u32_at(one, 0) == Some(PT_NOTE);
    table.chunks_exact(SEGMENT_BYTES).filter(of_notes).find_map(|one| {
        let (address, size, align) = (u64_at(one, 16)?, u64_at(one, 40)?, u64_at(one, 48)?);
        let notes = memory.bytes(bias.wrapping_add(address), usize::try_from(size).ok()?.min(4096))?;
        build_id_in(&notes, if align == 8 { 8 } else { 4 })
    })
}

/// The build id among notes: each has the lengths of its name and its text, its type, and both, filled up.
fn build_id_in(mut notes: &[u8], align: usize) -> Option<Box<[u8]>> {
    /// Longer than that of any linker.
    const LONGEST: usize = 64;
    loop {
        let (name, text, kind) = (u32_at(notes, 0)? as usize, u32_at(notes, 4)? as usize, u32_at(notes, 8)?);
        let text_at = 12_usize.checked_add(name)?.checked_next_multiple_of(align)?;
        let end = text_at.checked_add(text)?;
        if kind == NT_GNU_BUILD_ID && notes.get(12..)?.starts_with(b"GNU\0") && (1..=LONGEST).contains(&text) {
            return notes.get(text_at..end).map(Box::from);
        }
        notes = notes.get(end.checked_next_multiple_of(align)?..)?;
    }
}

const SEGMENT_BYTES: usize = 56;

/// The table of segments of the file whose first byte is mapped here.
fn segments(base: u64, memory: &mut Memory) -> Option<Vec<u8>> {
    let head = memory.bytes(base, 64)?;
    // 64 bits, little-endian.
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let count = usize::from(u16::from_le_bytes([head[56], head[57]])).min(64);
    memory.bytes(base.checked_add(u64_at(&head, 32)?)?, count * SEGMENT_BYTES)
}

/// How far a file is from the addresses that it gives itself.
fn bias(base: u64, segments: &[u8]) -> Option<u64> {
    let first = segments.chunks_exact(SEGMENT_BYTES).find(|one| u32_at(one, 0) == Some(PT_LOAD))?;
    Some(base.wrapping_sub(u64_at(first, 16)? & !4095))
}

impl Elf {
    /// The file whose first byte is mapped here.
    pub fn at(base: u64, memory: &mut Memory) -> Option<Elf> {
        let table = segments(base, memory)?;
        let bias = bias(base, &table)?;
        let found = table.chunks_exact(SEGMENT_BYTES).find(|one| u32_at(one, 0) == Some(PT_DYNAMIC))?;
        let (dynamic, size) = (u64_at(found, 16)?, u64_at(found, 40)?);
        let entries = memory.bytes(bias.wrapping_add(dynamic), usize::try_from(size).ok()?.min(1 << 14))?;
        let entry = |tag| {
            let found = entries.chunks_exact(16).find(|one| u64_at(one, 0) == Some(tag))?;
            let value = u64_at(found, 8)?;
            // glibc has made addresses of them, musl leaves them as they are in the file.
            Some(if value < base { value.wrapping_add(bias) } else { value }).filter(|addr| *addr < 1 << 56)
        };
        let hash = entry(DT_GNU_HASH).map(Hash::Gnu).or_else(|| Some(Hash::SystemV(entry(DT_HASH)?)))?;
        Some(Elf { bias, hash, symbols: entry(DT_SYMTAB)?, strings: entry(DT_STRTAB)? })
    }

    /// The address of an exported symbol.
    pub fn symbol(&self, name: &str, memory: &mut Memory) -> Option<u64> {
        let index = match self.hash {
            Hash::Gnu(table) => self.by_gnu(table, name, memory)?,
            Hash::SystemV(table) => self.by_system_v(table, name, memory)?,
        };
        let symbol = memory.bytes(self.symbols + u64::from(index) * 24, 24)?;
        Some(self.bias.wrapping_add(u64_at(&symbol, 8)?))
    }

    fn by_gnu(&self, table: u64, name: &str, memory: &mut Memory) -> Option<u32> {
        let wanted = name.bytes().fold(5381_u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        let head = memory.bytes(table, 16)?;
        let (buckets, first, bloom) = (u32_at(&head, 0)?, u32_at(&head, 4)?, u32_at(&head, 8)?);
        let bucket_at = table + 16 + u64::from(bloom) * 8;
        let chain_at = bucket_at + u64::from(buckets) * 4;
        let mut index = memory.number(bucket_at + u64::from(wanted.checked_rem(buckets)?) * 4)?;
        for _ in 0..LONGEST_CHAIN {
            let hash = memory.number(chain_at + u64::from(index.checked_sub(first)?) * 4)?;
            if hash | 1 == wanted | 1 && self.name_is(index, name, memory)? {
                return Some(index);
            }
            if hash & 1 == 1 {
                break;
            }
            index = index.checked_add(1)?;
        }
        None
    }

    fn by_system_v(&self, table: u64, name: &str, memory: &mut Memory) -> Option<u32> {
        let wanted = name.bytes().fold(0_u32, |hash, byte| {
            let sum = (hash << 4).wrapping_add(u32::from(byte));
            (sum ^ (sum >> 28 << 4)) & 0x0fff_ffff
        });
        let buckets = memory.number(table)?;
        let chain_at = table + 8 + u64::from(buckets) * 4;
        let mut index = memory.number(table + 8 + u64::from(wanted.checked_rem(buckets)?) * 4)?;
        for _ in 0..LONGEST_CHAIN {
            if index == 0 || self.name_is(index, name, memory)? {
                break;
            }
            index = memory.number(chain_at + u64::from(index) * 4)?;
        }
        Some(index).filter(|index| *index != 0)
    }

    fn name_is(&self, index: u32, name: &str, memory: &mut Memory) -> Option<bool> {
        let symbol = memory.bytes(self.symbols + u64::from(index) * 24, 4)?;
        let text = memory.bytes(self.strings + u64::from(u32_at(&symbol, 0)?), name.len() + 1)?;
        Some(text.strip_suffix(&[0]) == Some(name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in memory with the symbols `one` (at 0x111) and `other` (at 0x222), in the one bucket of its older table.
    fn file() -> Vec<u64> {
        const BYTES: usize = 1024;
        let mut bytes = vec![0_u8; BYTES];
        let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
        put(0, b"\x7fELF\x02\x01");
        put(32, &64_u64.to_le_bytes());
        put(56, &2_u16.to_le_bytes());
        put(64, &PT_LOAD.to_le_bytes());
        put(120, &PT_DYNAMIC.to_le_bytes());
        put(120 + 16, &256_u64.to_le_bytes());
        put(120 + 40, &48_u64.to_le_bytes());
        for (index, (tag, at)) in [(DT_HASH, 400_u64), (DT_SYMTAB, 500), (DT_STRTAB, 700)].into_iter().enumerate() {
            put(256 + 16 * index, &tag.to_le_bytes());
            put(264 + 16 * index, &at.to_le_bytes());
        }
        // One bucket, three symbols: the bucket's first is 2, which leads to 1.
        for (index, number) in [1_u32, 3, 2, 0, 0, 1].into_iter().enumerate() {
            put(400 + 4 * index, &number.to_le_bytes());
        }
        for (index, name, value) in [(1_usize, 1_u32, 0x111_u64), (2, 5, 0x222)] {
            put(500 + 24 * index, &name.to_le_bytes());
            put(508 + 24 * index, &value.to_le_bytes());
        }
        put(700, b"\0one\0other\0");
        bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn the_build_id_is_found_among_other_notes() {
        let note = |name: &[u8], kind: u32, text: &[u8], align: usize| {
            let mut note = [&(name.len() as u32).to_le_bytes()[..], &(text.len() as u32).to_le_bytes()].concat();
            note.extend(kind.to_le_bytes());
            note.extend(name);
            note.resize(note.len().next_multiple_of(align), 0);
            note.extend(text);
            note.resize(note.len().next_multiple_of(align), 0);
            note
        };
        for align in [4, 8] {
            let others = [note(b"Go\0\0", 4, b"abcde", align), note(b"GNU\0", 1, &[0; 16], align)].concat();
            let notes = [others.clone(), note(b"GNU\0", NT_GNU_BUILD_ID, &[7; 20], align)].concat();
            assert_eq!(build_id_in(&notes, align).as_deref(), Some(&[7; 20][..]));
            assert_eq!(build_id_in(&others, align), None);
            (0..notes.len() - 1).for_each(|len| drop(build_id_in(&notes[..len], align)));
        }
        let hostile = [u32::MAX; 8].map(u32::to_le_bytes).concat();
        assert_eq!(build_id_in(&hostile, 4), None);
        assert_eq!(build_id_in(&[0; 64], 4), None);
    }

    #[test]
    fn symbols_are_found_by_the_older_table_alone() {
        let file = file();
        let base = file.as_ptr() as u64;
        let mut memory = Memory::of(std::process::id());
        let elf = Elf::at(base, &mut memory).expect("a file");
        let found = |name: &str, memory: &mut Memory| elf.symbol(name, memory).map(|at| at - base);
        assert_eq!(found("one", &mut memory), Some(0x111));
        assert_eq!(found("other", &mut memory), Some(0x222));
        assert_eq!(found("none", &mut memory), None);
    }
}
