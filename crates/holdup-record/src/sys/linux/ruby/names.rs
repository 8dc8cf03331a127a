//! What methods in C are called, by which a thread of Ruby waits: `sleep`, `pop`, `join`. A frame of one leads to the
//! method, which has a number for its name; the table of names is a variable that no symbol leads to, but that has a
//! form which nothing else has.

use std::sync::Arc;

use super::super::memory::{Memory, pointer_at, u32_at, u64_at};
use super::{ARRAY, Interpreter, TYPE};

/// The type of a hash, in its flags, and that of a method among what only the interpreter uses.
const HASH: u64 = 0x08;
const INTERNAL_METHOD: u64 = 6 << 12;
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
pub fn table(ranges: impl Iterator<Item = (u64, u64)>, memory: &mut Memory) -> Option<u64> {
    let mut left = MOST_BYTES;
    for (start, end) in ranges {
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

/// Where an array has its elements, and how many, if they are not within it.
fn elements(array: u64, memory: &mut Memory) -> Option<(u64, u64)> {
    let head = memory.bytes(array, 40)?;
    let is_outside = u64_at(&head, 0)? & (TYPE | super::IS_WITHIN) == ARRAY;
    is_outside.then_some((pointer_at(&head, 32)?, u64_at(&head, 16)?))
}

impl Interpreter {
    /// The name of the method in C whose frame has its variables here; `None` if it is no such frame.
    pub(super) fn c_method(&mut self, variables: u64) -> Option<Arc<str>> {
        let words = self.memory.bytes(variables.checked_sub(16)?, 24)?;
        if u64_at(&words, 16)? & FRAME_KIND != C_METHOD {
            return None;
        }
        let method = pointer_at(&words, 0)?;
        if let Some(known) = self.methods.get(&method) {
            return known.clone();
        }
        self.codes_left = self.codes_left.checked_sub(1)?;
        let name = self.name_of_method(method).map(Arc::from);
        self.methods.insert(method, name.clone());
        name
    }

    fn name_of_method(&mut self, method: u64) -> Option<String> {
        let table = self.names_at?;
        if self.internal_type(method)? != INTERNAL_METHOD {
            return None;
        }
        let number = self.memory.word(method + NAME)?;
        let serial = if number < FIRST_NAME { number } else { number >> KIND_BITS };
        let (parts, count) = elements(self.memory.pointer(table + 16)?, &mut self.memory)?;
        let part = Some(serial / IN_PART).filter(|part| *part < count)?;
        let part = self.memory.pointer(parts.checked_add(part * 8)?)?;
        let (names, len) = elements(part, &mut self.memory)?;
        let place = Some(serial % IN_PART * 2).filter(|place| *place < len)?;
        let name = self.memory.pointer(names + place * 8)?;
        self.text(name).filter(|name| !name.is_empty())
    }
}
