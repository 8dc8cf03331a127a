//! Objects of Ruby that are read: strings, arrays, and the kinds of what only the interpreter uses.

use super::super::memory::{Memory, pointer_at, u64_at};

/// The type of an object, in its flags; strings, arrays, hashes, and what only the interpreter uses, which has a type
/// of its own: code, and methods.
pub const TYPE: u64 = 0x1f;
pub const STRING: u64 = 0x05;
pub const ARRAY: u64 = 0x07;
pub const HASH: u64 = 0x08;
pub const INTERNAL: u64 = 0x1a;
const INTERNAL_TYPE: u64 = 0xf << 12;
pub const INTERNAL_METHOD: u64 = 6 << 12;
pub const INTERNAL_CODE: u64 = 7 << 12;
/// In flags: that a string has its characters elsewhere, that an array has its elements within.
pub const IS_OUTSIDE: u64 = 1 << 13;
pub const IS_WITHIN: u64 = 1 << 13;
/// Bytes of names and paths that are read at most.
const LONGEST_TEXT: u64 = 1_000;

/// The type of what only the interpreter uses; `None` if it is something else.
pub fn internal_type(object: u64, memory: &mut Memory) -> Option<u64> {
    let flags = memory.word(object)?;
    (flags & TYPE == INTERNAL).then_some(flags & INTERNAL_TYPE)
}

/// A string, cut if it is long; `None` if it is none. The length of one that has its characters within is either there
/// too, or in its flags.
pub fn text(object: u64, length_within: bool, memory: &mut Memory) -> Option<String> {
    let head = memory.bytes(object, 32)?;
    let flags = u64_at(&head, 0)?;
    if flags & TYPE != STRING {
        return None;
    }
    let (at, len) = match (flags & IS_OUTSIDE != 0, length_within) {
        (true, _) => (pointer_at(&head, 24)?, u64_at(&head, 16)?),
        (false, true) => (object + 24, u64_at(&head, 16)?),
        (false, false) => (object + 16, flags >> 14 & 0x1f),
    };
    let bytes = memory.bytes(at, len.min(LONGEST_TEXT) as usize)?;
    Some(String::from_utf8_lossy(&bytes).replace(char::is_control, "\u{fffd}"))
}

/// The path of a file: a string, or an array of the path as it was given and the real one, if it has one.
pub fn path(object: u64, length_within: bool, memory: &mut Memory) -> Option<String> {
    let head = memory.bytes(object, 40)?;
    let flags = u64_at(&head, 0)?;
    let text = |at: u64, memory: &mut Memory| text(at, length_within, memory).filter(|text| !text.is_empty());
    if flags & TYPE != ARRAY {
        return text(object, memory);
    }
    let elements = if flags & IS_WITHIN != 0 { object + 16 } else { pointer_at(&head, 32)? };
    let real = memory.pointer(elements.checked_add(8)?).and_then(|real| text(real, memory));
    real.or_else(|| memory.pointer(elements).and_then(|given| text(given, memory)))
}

/// Where an array has its elements, and how many, if they are not within it.
pub fn elements(array: u64, memory: &mut Memory) -> Option<(u64, u64)> {
    let head = memory.bytes(array, 40)?;
    let is_outside = u64_at(&head, 0)? & (TYPE | IS_WITHIN) == ARRAY;
    is_outside.then_some((pointer_at(&head, 32)?, u64_at(&head, 16)?))
}
