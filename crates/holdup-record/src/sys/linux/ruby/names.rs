//! What methods in C are called, by which a thread of Ruby waits: `sleep`, `pop`, `join`. A frame of one leads to the
//! method, which has a number for its name; the table of names is a variable that no symbol leads to, but that has a
//! form which nothing else has.

use super::super::memory::{Memory, pointer_at, u32_at, u64_at};
use super::objects::{ARRAY, HASH, INTERNAL_METHOD, TYPE, elements, internal_type, text};

/// What a frame of a method in C has in its flags.
const FRAME_KIND: u64 = 0x7fff_0001;
const C_METHOD: u64 = 0x5555_0001;
/// In a method: the number of its name. Of the number, the bits that tell what kind of a name it is; numbers below the
/// first stand for operators.
const NAME: u64 = 24;
const KIND_BITS: u32 = 4;
const FIRST_NAME: u64 = 256;
/// Names in one part of the table, each with two words.
const IN_PART: u64 = 512;
/// How many names there are before any program is read, and how many are believed.
const FEWEST: u32 = 1_000;
const MOST: u32 = 1 << 24;
/// Bytes of the file's variables that are searched at most.
const MOST_BYTES: u64 = 1 << 20;

/// Where the table of names is among these ranges of memory, the variables of the interpreter's file.
pub fn table(ranges: &[(u64, u64)], memory: &mut Memory) -> Option<u64> {
    let mut left = MOST_BYTES;
    for &(start, end) in ranges {
        let len = end.saturating_sub(start).min(left);
        left -= len;
        // The zeros behind them, which no file has, may be in the same range; they may also be unreadable.
        let Some(bytes) = memory.bytes(start, len as usize) else { continue };
        let found = (0..len as usize).step_by(8).find(|at| is_table(&bytes[*at..], memory));
        if let Some(at) = found {
            return Some(start + at as u64);
        }
    }
    None
}

/// Whether this is how many names there are, two tables of them, the second an array, and a hash.
fn is_table(bytes: &[u8], memory: &mut Memory) -> bool {
    let object = |at: usize| pointer_at(bytes, at).filter(|object| object % 8 == 0 && *object > 1 << 16);
    let head = (u32_at(bytes, 0), u32_at(bytes, 4), object(8), object(16), object(24));
    let (Some(count @ FEWEST..MOST), Some(0), Some(_), Some(names), Some(others)) = head else { return false };
    let mut is = |object: u64, kind: u64| memory.word(object).is_some_and(|flags| flags & TYPE == kind);
    let is_kind = is(names, ARRAY) && is(others, HASH);
    is_kind && elements(names, memory).is_some_and(|(_, len)| len > u64::from(count) / IN_PART && len < 1 << 16)
}

/// The method in C whose frame has its variables here; `None` if it is no such frame.
pub fn method(variables: u64, memory: &mut Memory) -> Option<u64> {
    let words = memory.bytes(variables.checked_sub(16)?, 24)?;
    if u64_at(&words, 16)? & FRAME_KIND == C_METHOD { pointer_at(&words, 0) } else { None }
}

/// The name of a method.
pub fn of_method(method: u64, table: u64, length_within: bool, memory: &mut Memory) -> Option<String> {
    if internal_type(method, memory)? != INTERNAL_METHOD {
        return None;
    }
    let number = memory.word(method + NAME)?;
    let serial = if number < FIRST_NAME { number } else { number >> KIND_BITS };
    let (parts, count) = elements(memory.pointer(table + 16)?, memory)?;
    let part = Some(serial / IN_PART).filter(|part| *part < count)?;
    let part = memory.pointer(parts.checked_add(part.checked_mul(8)?)?)?;
    let (names, len) = elements(part, memory)?;
    let place = Some(serial % IN_PART * 2).filter(|place| *place < len)?;
    let name = memory.pointer(names.checked_add(place * 8)?)?;
    text(name, length_within, memory).filter(|name| !name.is_empty())
}
