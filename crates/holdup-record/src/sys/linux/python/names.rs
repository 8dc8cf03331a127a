//! What a Python program calls its threads: the attribute `_name` of the object that runs one.

use super::super::memory::u64_at;
use super::Interpreter;

/// Where an object has its type; where a type has its size, its flags, the place of the dictionary in its objects;
/// where a dictionary has its keys and its values.
const TYPE: u64 = 8;
const TYPE_SIZE: u64 = 32;
const TYPE_FLAGS: u64 = 168;
const TYPE_DICTIONARY: u64 = 288;
const KEYS: u64 = 32;
const VALUES: u64 = 40;
/// Where the places of objects' own attributes, and the attributes themselves, are found before an object.
const BEFORE: u64 = 24;
/// Flag of types whose objects have room for their attributes behind them.
const INLINE_VALUES: u64 = 1 << 2;
/// A thread object has some ten attributes.
const MOST_ATTRIBUTES: u64 = 64;

impl Interpreter {
    /// The name of the thread whose outermost frame is here, if that is a method of the class `threading.Thread`.
    pub(super) fn thread_name(&mut self, bottom: u64) -> Option<String> {
        let object = self.memory.pointer(bottom + self.layout.variables)?;
        let kind = self.memory.pointer(object + TYPE)?;
        let name = match self.version {
            0x0308..=0x030a => {
                let at = self.memory.pointer(kind + TYPE_DICTIONARY).filter(|at| *at < 1 << 16)?;
                let dictionary = self.memory.pointer(object + at)?;
                self.in_dictionary(dictionary, 0)?
            }
            0x030b => match self.memory.pointer(object - BEFORE - 8) {
                Some(values) => self.in_values(kind, 872, values)?,
                None => {
                    let dictionary = self.memory.pointer(object - BEFORE)?;
                    self.in_dictionary(dictionary, 0)?
                }
            },
            0x030c => match self.memory.pointer(object - BEFORE)? {
                // An odd number stands for values, and is one less than their address.
                values if values & 1 == 1 => self.in_values(kind, 880, values + 1)?,
                dictionary => self.in_dictionary(dictionary, 0)?,
            },
            _ => match self.memory.pointer(object - BEFORE) {
                Some(dictionary) => self.in_dictionary(dictionary, 8)?,
                None => {
                    let is_inline = self.memory.word(kind + TYPE_FLAGS)? & INLINE_VALUES != 0;
                    let size = self.memory.pointer(kind + TYPE_SIZE).filter(|size| is_inline && *size < 1 << 16)?;
                    self.in_values(kind, 880, object + size + 8)?
                }
            },
        };
        self.text(name).filter(|name| !name.is_empty())
    }

    /// The value in a dictionary; of one that shares its keys, the values begin so many bytes behind their structure.
    fn in_dictionary(&mut self, dictionary: u64, behind: u64) -> Option<u64> {
        let keys = self.memory.pointer(dictionary + KEYS)?;
        let values = self.memory.word(dictionary + VALUES)?;
        let (place, own) = self.key(keys)?;
        if values == 0 { Some(own) } else { self.memory.pointer(values + behind + place * 8) }
    }

    /// The value of an object whose class keeps the keys.
    fn in_values(&mut self, kind: u64, cached_keys: u64, values: u64) -> Option<u64> {
        let keys = self.memory.pointer(kind + cached_keys)?;
        let (place, _) = self.key(keys)?;
        self.memory.pointer(values + place * 8)
    }

    /// The place of the attribute among the keys, and the value beside it if there is one.
    fn key(&mut self, keys: u64) -> Option<(u64, u64)> {
        let head = self.memory.bytes(keys, 40)?;
        let (entries, used, (key_at, width)) = if self.version < 0x030b {
            let slots = u64_at(&head, 8).filter(|slots| *slots < 1 << 32)?;
            let bytes = match slots {
                0..=0xff => 1,
                0x100..=0xffff => 2,
                _ => 4,
            };
            (keys + 40 + slots.checked_mul(bytes)?, u64_at(&head, 32)?, (8, 24))
        } else {
            // Keys that are no strings have their hashes beside them.
            let entry = if head[10] == 0 { (8, 24) } else { (0, 16) };
            (keys + 32 + 1_u64.checked_shl(u32::from(head[9]))?, u64_at(&head, 24)?, entry)
        };
        (0..used.min(MOST_ATTRIBUTES)).find_map(|place| {
            let at = entries.checked_add(place * width + key_at)?;
            let key = self.memory.pointer(at)?;
            if self.text(key)? == "_name" { Some((place, self.memory.word(at + 8)?)) } else { None }
        })
    }
}
