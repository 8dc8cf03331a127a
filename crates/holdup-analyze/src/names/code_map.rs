//! Names of code that a program made as it ran, from the map that its runtime writes for profilers: one line for each
//! function, `START SIZE NAME`, the numbers in hexadecimal, with `0x` or without. Code moves and memory is used again:
//! of two lines for an address, the later one counts.
//!
//! Maps of programs that run for days are larger than what is to be kept in memory. So a map is read once, part by
//! part, for the addresses that the recording asks about, and only the names of those are kept.
//!
//! The map is another program's text: lines that make no sense are passed over, names are cut, and what could move a
//! terminal's cursor is replaced.

use std::ops::Range;

/// Longer names are cut.
pub(super) const LONGEST_NAME: usize = 1_000;
/// So many lines that say something of the addresses are kept before those that later ones outdo are forgotten.
const KEPT: usize = 1 << 16;

/// What a map says of some addresses.
#[derive(Debug, Default)]
pub(super) struct CodeMap {
    /// Ascending, each once.
    addresses: Vec<u64>,
    /// Lines that are about some of them, in their order.
    lines: Vec<Line>,
    /// Their names, one after the other.
    text: Vec<u8>,
    /// More lines than this, and those that are outdone are forgotten.
    room: usize,
    /// For each address, the line that counts, once all are read.
    counts: Vec<Option<u32>>,
}

#[derive(Clone, Debug)]
struct Line {
    addresses: Range<u32>,
    name: Range<usize>,
}

impl CodeMap {
    /// A map that answers about these addresses, once it is read.
    pub(super) fn about(mut addresses: Vec<u64>) -> CodeMap {
        addresses.sort_unstable();
        addresses.dedup();
        addresses.truncate(u32::MAX as usize);
        let room = KEPT.max(addresses.len());
        CodeMap { addresses, room, ..CodeMap::default() }
    }

    /// Reads a part of the map: whole lines.
    pub(super) fn read(&mut self, part: &[u8]) {
        for line in part.split(|byte| *byte == b'\n') {
            let Some((start, end, name)) = function(line) else { continue };
            let index = |address: u64| self.addresses.partition_point(|one| *one < address);
            let from = index(start);
            if self.addresses.get(from).is_none_or(|first| *first >= end) {
                continue;
            }
            let begins = self.text.len();
            let addresses = from as u32..index(end) as u32;
            self.text.extend_from_slice(&name[..name.len().min(LONGEST_NAME)]);
            self.lines.push(Line { addresses, name: begins..self.text.len() });
            if self.lines.len() > self.room {
                self.forget_outdone();
            }
        }
    }

    /// All parts are read.
    pub(super) fn end(mut self) -> CodeMap {
        self.counts = self.last_lines();
        self
    }

    /// The name of the function at an address that it was to answer about, as the runtime wrote it.
    pub(super) fn name(&self, address: u64) -> Option<String> {
        let at = self.addresses.binary_search(&address).ok()?;
        let line = &self.lines[self.counts.get(at).copied().flatten()? as usize];
        Some(printable(&self.text[line.name.clone()]))
    }

    /// For each address, the last line that is about it.
    fn last_lines(&self) -> Vec<Option<u32>> {
        let mut last = vec![None; self.addresses.len()];
        // From each address, a way to the next one that has no line yet; ways are shortened as they are gone.
        let mut next: Vec<u32> = (0..=self.addresses.len() as u32).collect();
        let open_from = |next: &mut Vec<u32>, mut at: u32| {
            while next[at as usize] != at {
                next[at as usize] = next[next[at as usize] as usize];
                at = next[at as usize];
            }
            at
        };
        for (number, line) in self.lines.iter().enumerate().rev() {
            let mut at = open_from(&mut next, line.addresses.start);
            while at < line.addresses.end {
                last[at as usize] = Some(number as u32);
                next[at as usize] = at + 1;
                at = open_from(&mut next, at + 1);
            }
        }
        last
    }

    fn forget_outdone(&mut self) {
        let mut counts = vec![false; self.lines.len()];
        self.last_lines().into_iter().flatten().for_each(|line| counts[line as usize] = true);
        let (lines, text) = (std::mem::take(&mut self.lines), std::mem::take(&mut self.text));
        for (line, _) in lines.into_iter().zip(counts).filter(|(_, counts)| *counts) {
            let begins = self.text.len();
            self.text.extend_from_slice(&text[line.name]);
            self.lines.push(Line { name: begins..self.text.len(), ..line });
        }
        self.room = KEPT.max(self.addresses.len()).max(2 * self.lines.len());
    }
}

/// Another program's text, without what could move a terminal's cursor.
pub(super) fn printable(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

/// Where the function of a line begins and ends, and its name.
fn function(line: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (start, rest) = number(line)?;
    let (size, rest) = number(rest)?;
    let name = rest.trim_ascii();
    let end = start.checked_add(size).filter(|end| *end > start)?;
    (!name.is_empty()).then_some((start, end, name))
}

/// A number in hexadecimal and what is behind the blank that ends it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    /// As many digits as an address has.
    const DIGITS: usize = 16;
    let text = text.trim_ascii_start();
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    let len = text.iter().take(DIGITS + 1).position(|byte| *byte == b' ').filter(|len| *len > 0)?;
    let mut value = 0;
    for byte in &text[..len] {
        value = value << 4 | u64::from(char::from(*byte).to_digit(16)?);
    }
    Some((value, &text[len..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(parts: &[&[u8]], addresses: &[u64]) -> Vec<Option<String>> {
        let mut map = CodeMap::about(addresses.to_vec());
        parts.iter().for_each(|part| map.read(part));
        let map = map.end();
        addresses.iter().map(|address| map.name(*address)).collect()
    }

    #[test]
    fn maps_are_read_as_runtimes_write_them() {
        let parts: [&[u8]; 2] = [
            b"7f0000001000 40 first\n0x00007f0000001040 0x00000020 void Shop.sell(int, int)\n",
            b"7f0000001000 10 newer\nnonsense\n7f0000002000 0 empty\n7f0000003000 zz bad\n\
              ffffffffffffffff 2 over\n 7f0000004000 8  spaced name \n7f0000005000 8 \x1b[31mred\x07\n7f0000006000 8 \xff",
        ];
        let name = |address| names(&parts, &[address]).remove(0);
        assert_eq!(name(0x7f00_0000_1000).as_deref(), Some("newer"), "memory is used again");
        assert_eq!(name(0x7f00_0000_1010).as_deref(), Some("first"), "behind the newer function");
        assert_eq!(name(0x7f00_0000_105f).as_deref(), Some("void Shop.sell(int, int)"));
        assert_eq!(name(0x7f00_0000_4001).as_deref(), Some("spaced name"));
        assert_eq!(name(0x7f00_0000_5000).as_deref(), Some("\u{fffd}[31mred\u{fffd}"));
        assert_eq!(name(0x7f00_0000_6000).as_deref(), Some("\u{fffd}"));
        for nothing in [0, 0x7f00_0000_1060, 0x7f00_0000_2000, 0x7f00_0000_3000, u64::MAX] {
            assert_eq!(name(nothing), None, "{nothing:#x}");
        }
        let long = [b"1000 8 ".as_slice(), &[b'x'; 9_000]].concat();
        assert_eq!(names(&[&long], &[0x1000])[0].as_ref().map(String::len), Some(LONGEST_NAME));
    }

    /// Against the plain way to say it, with many lines over few addresses, so that lines are forgotten.
    #[test]
    fn the_last_line_counts_however_many_there_were() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let lines: Vec<(u64, u64)> = (0..3 * KEPT).map(|_| (random(1000), 1 + random(100))).collect();
        let text: String =
            lines.iter().enumerate().map(|(number, (start, size))| format!("{start:x} {size:x} f{number}\n")).collect();
        let addresses: Vec<u64> = (0..300).map(|_| random(1200)).collect();
        let mut map = CodeMap::about(addresses.clone());
        for part in text.as_bytes().split_inclusive(|byte| *byte == b'\n') {
            map.read(part);
        }
        assert!(map.lines.len() <= KEPT + 1, "{} lines kept", map.lines.len());
        let map = map.end();
        for address in addresses {
            let last = lines.iter().rposition(|(start, size)| (*start..start + size).contains(&address));
            assert_eq!(map.name(address), last.map(|number| format!("f{number}")), "{address:#x}");
        }
    }
}
