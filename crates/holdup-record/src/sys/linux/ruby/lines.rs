//! Which line an instruction of Ruby is on. A code object has one row for each stretch of instructions of one line; at
//! which instruction each row begins is told by a bit index: of the first 54 instructions, how many rows have begun up
//! to each, in seven bits; of the others, in blocks of 512, a bit where one begins.

use super::super::memory::{Memory, u32_at};

/// Instructions that the first part is about: six words of nine.
const FIRST: u32 = 54;
const WORDS: u64 = 6;
const IN_WORD: u32 = 9;
/// Bytes of a block, in it where its bits begin, and how many there are.
const BLOCK: u64 = 80;
const BITS: usize = 16;
const IN_BLOCK: u32 = 512;

/// The instructions that rows begin at, in order: at most `count`, of a code object of `size` instructions. `None` if
/// the index makes no sense.
pub fn begins(index: u64, count: u32, size: u32, memory: &mut Memory) -> Option<Vec<u32>> {
    let mut found = Vec::new();
    let is_done = |found: &Vec<u32>| found.len() as u64 >= u64::from(count);
    for word in 0..WORDS {
        if is_done(&found) {
            return Some(found);
        }
        let ranks = memory.word(index.checked_add(word * 8)?)?;
        for place in 0..IN_WORD {
            let rank = ranks >> (7 * place) & 0x7f;
            match rank.checked_sub(found.len() as u64)? {
                0 => {}
                1 => found.push(word as u32 * IN_WORD + place),
                _ => return None,
            }
        }
    }
    for block in 0..size.saturating_sub(FIRST).div_ceil(IN_BLOCK) {
        if is_done(&found) {
            break;
        }
        let bytes = memory.bytes(index.checked_add(WORDS * 8 + u64::from(block) * BLOCK)?, BLOCK as usize)?;
        // A row that begins with the last instruction of the first part may be in no block.
        if u64::from(u32_at(&bytes, 0)?) != found.len() as u64 {
            break;
        }
        let first = FIRST + block * IN_BLOCK;
        let has = |bit: u32| bytes[BITS + bit as usize / 8] >> (bit % 8) & 1 == 1;
        found.extend((0..IN_BLOCK).filter(|bit| has(*bit)).map(|bit| first + bit));
    }
    found.truncate(count as usize);
    Some(found)
}

/// The lines of a table with rows of so many bytes, each with the instruction that it begins at.
pub fn table(begins: &[u32], rows: &[u8], row: usize) -> Option<Vec<(u32, u32)>> {
    let line = |row: &[u8]| u32_at(row, 0).filter(|line| *line <= i32::MAX as u32);
    begins.iter().zip(rows.chunks_exact(row)).map(|(begin, row)| Some((*begin, line(row)?))).collect()
}

/// The line of an instruction; 0 if it is on none.
pub fn line(table: &[(u32, u32)], instruction: u32) -> u32 {
    let after = table.partition_point(|(begin, _)| *begin <= instruction);
    after.checked_sub(1).map_or(0, |at| table[at].1)
}

/// The instruction that a thread is at whose next one is at `next`, in code that begins at `begin` and has `size`
/// words.
pub fn instruction(next: u64, begin: u64, size: u32) -> Option<u32> {
    let words = next.checked_sub(begin)? / 8;
    (words <= u64::from(size)).then(|| (words as u32).saturating_sub(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The index of an interpreter for rows that begin at these instructions.
    fn index(begins: &[u32]) -> Vec<u64> {
        let rank = |at: u32| begins.iter().filter(|begin| **begin <= at).count() as u64;
        let mut words: Vec<u64> =
            (0..6).map(|word| (0..9).map(|place| rank(word * 9 + place) << (7 * place)).sum()).collect();
        let last = begins.iter().copied().max().unwrap_or(0);
        for block in 0..last.saturating_sub(FIRST).div_ceil(512) {
            let first = FIRST + block * 512;
            let small: u64 =
                (1..8).map(|part| (rank(first + part * 64 - 1) - rank(first - 1)) << (9 * (part - 1))).sum();
            words.extend([rank(first - 1), small]);
            let bit = |at: u32| u64::from(begins.contains(&at));
            words.extend((0..8).map(|part| (0..64).map(|at| bit(first + part * 64 + at) << at).sum::<u64>()));
        }
        words
    }

    fn read(words: &[u64], count: u32, size: u32) -> Option<Vec<u32>> {
        begins(words.as_ptr() as u64, count, size, &mut Memory::of(std::process::id()))
    }

    #[test]
    fn rows_begin_where_the_index_says() {
        let far: Vec<u32> = (0..40).map(|row| row * row).collect();
        for rows in [&[0][..], &[0, 2, 8], &[0, 9, 53], &[0, 1, 60], &[0, 53, 55, 565, 566, 567, 1200], &far] {
            let count = rows.len() as u32;
            assert_eq!(read(&index(rows), count, 2_000).as_deref(), Some(rows));
        }
        let table = table(&[0, 2, 8], &[7, 0, 0, 0, 1, 2, 3, 4, 9, 0, 0, 0, 1, 2, 3, 4, 8, 0, 0, 0, 0, 0, 0, 0], 8);
        let table = table.expect("lines");
        let lines: Vec<u32> = [0, 1, 2, 7, 8, 9_999].into_iter().map(|at| line(&table, at)).collect();
        assert_eq!(lines, [7, 7, 9, 9, 8, 8]);
        assert_eq!(line(&[], 3), 0);
    }

    #[test]
    fn the_instruction_is_the_one_before_the_next() {
        assert_eq!(instruction(0x1000, 0x1000, 4), Some(0));
        assert_eq!(instruction(0x1010, 0x1000, 4), Some(1));
        assert_eq!(instruction(0x1020, 0x1000, 4), Some(3));
        assert_eq!(instruction(0x1028, 0x1000, 4), None);
        assert_eq!(instruction(0xff8, 0x1000, 4), None);
    }

    #[test]
    fn nonsense_is_no_line_and_no_harm() {
        assert_eq!(read(&[u64::MAX; 32], 5, u32::MAX), None);
        assert_eq!(read(&[0; 32], u32::MAX, 600).as_deref(), Some(&[][..]), "no row ever begins");
        for index in [0, 8, u64::MAX - 7, 1 << 60] {
            assert_eq!(begins(index, 3, u32::MAX, &mut Memory::of(std::process::id())), None);
        }
        assert_eq!(table(&[0], &[0xff; 8], 8), None);
    }
}
