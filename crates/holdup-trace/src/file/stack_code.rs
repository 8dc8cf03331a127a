//! Stacks as bytes. Addresses recur within a chunk, in chains as well as in words, so each is written once and then
//! named by its number; equal parts of stacks become equal bytes, which the compressor finds.

use rustc_hash::FxHashMap;

use super::bytes::{Corrupt, Cursor, put_varint, put_zigzag};
use super::layout::{MAX_CHAIN, MAX_WORDS};
use crate::{Registers, Stack, Word};

const HAS_REGISTERS: u8 = 1;
const FP_IN_STACK: u8 = 2;

/// Addresses of a chunk by number, for a writer. Kernel and user addresses are far apart: each side has a table of its
/// own.
#[derive(Debug, Default)]
struct AddressBook {
    numbers: FxHashMap<u64, u64>,
    last: u64,
}

impl AddressBook {
    fn clear(&mut self) {
        self.numbers.clear();
        self.last = 0;
    }

    fn put(&mut self, out: &mut Vec<u8>, address: u64) {
        let next = self.numbers.len() as u64;
        let number = *self.numbers.entry(address).or_insert(next);
        put_varint(out, number);
        if number == next {
            put_zigzag(out, address.wrapping_sub(self.last) as i64);
            self.last = address;
        }
    }
}

/// Writes the stacks of a chunk.
#[derive(Debug, Default)]
pub(super) struct StackEncoder {
    kernel: AddressBook,
    user: AddressBook,
}

impl StackEncoder {
    /// Begins a chunk.
    pub(super) fn clear(&mut self) {
        self.kernel.clear();
        self.user.clear();
    }

    pub(super) fn put(&mut self, out: &mut Vec<u8>, stack: &Stack) {
        let fp_in_stack = matches!(stack.registers, Some(Registers { fp: Word::Stack(_), .. }));
        let flags = if stack.registers.is_some() { HAS_REGISTERS } else { 0 };
        out.push(flags | if fp_in_stack { FP_IN_STACK } else { 0 });
        put_chain(out, &mut self.kernel, &stack.kernel);
        put_chain(out, &mut self.user, &stack.user);
        if let Some(registers) = &stack.registers {
            self.user.put(out, registers.ip);
            self.put_word(out, registers.fp);
            self.user.put(out, registers.lr);
        }
        put_varint(out, u64::from(stack.depth));
        let words = &stack.words[..stack.words.len().min(MAX_WORDS)];
        put_varint(out, words.len() as u64);
        let mut last = 0_u16;
        for &(offset, word) in words {
            let in_stack = matches!(word, Word::Stack(_));
            put_varint(out, u64::from(offset.wrapping_sub(last)) << 1 | u64::from(in_stack));
            self.put_word(out, word);
            last = offset;
        }
    }

    fn put_word(&mut self, out: &mut Vec<u8>, word: Word) {
        match word {
            Word::Code(address) => self.user.put(out, address),
            Word::Stack(offset) => put_zigzag(out, i64::from(offset)),
        }
    }
}

fn put_chain(out: &mut Vec<u8>, book: &mut AddressBook, chain: &[u64]) {
    let chain = &chain[..chain.len().min(MAX_CHAIN)];
    put_varint(out, chain.len() as u64);
    for &address in chain {
        book.put(out, address);
    }
}

/// Reads the stacks of a chunk.
#[derive(Debug, Default)]
pub(super) struct StackDecoder {
    kernel: Vec<u64>,
    user: Vec<u64>,
}

impl StackDecoder {
    /// Begins a chunk.
    pub(super) fn clear(&mut self) {
        self.kernel.clear();
        self.user.clear();
    }

    /// Reads the next stack into `stack`, whose memory is used again.
    pub(super) fn take(&mut self, from: &mut Cursor<'_>, stack: &mut Stack) -> Result<(), Corrupt> {
        let flags = from.u8()?;
        if flags & !(HAS_REGISTERS | FP_IN_STACK) != 0 {
            return Err(Corrupt("has a stack of an unknown form"));
        }
        take_chain(from, &mut self.kernel, &mut stack.kernel)?;
        take_chain(from, &mut self.user, &mut stack.user)?;
        stack.registers = if flags & HAS_REGISTERS != 0 {
            Some(Registers {
                ip: take_address(from, &mut self.user)?,
                fp: self.take_word(from, flags & FP_IN_STACK != 0)?,
                lr: take_address(from, &mut self.user)?,
            })
        } else {
            None
        };
        stack.depth = from.u16()?;
        self.take_words(from, &mut stack.words)
    }

    fn take_words(&mut self, from: &mut Cursor<'_>, words: &mut Vec<(u16, Word)>) -> Result<(), Corrupt> {
        words.clear();
        let count = from.len()?;
        if count > MAX_WORDS {
            return Err(Corrupt("has a stack of too many words"));
        }
        let mut offset = 0_u16;
        for _ in 0..count {
            let head = from.u32()?;
            let step = u16::try_from(head >> 1).map_err(|_| Corrupt("has a stack that is too deep"))?;
            offset = offset.wrapping_add(step);
            words.push((offset, self.take_word(from, head & 1 != 0)?));
        }
        Ok(())
    }

    fn take_word(&mut self, from: &mut Cursor<'_>, in_stack: bool) -> Result<Word, Corrupt> {
        if in_stack { Ok(Word::Stack(from.i32()?)) } else { Ok(Word::Code(take_address(from, &mut self.user)?)) }
    }
}

fn take_chain(from: &mut Cursor<'_>, book: &mut Vec<u64>, chain: &mut Vec<u64>) -> Result<(), Corrupt> {
    chain.clear();
    let count = from.len()?;
    if count > MAX_CHAIN {
        return Err(Corrupt("has a stack of too many calls"));
    }
    for _ in 0..count {
        chain.push(take_address(from, book)?);
    }
    Ok(())
}

fn take_address(from: &mut Cursor<'_>, book: &mut Vec<u64>) -> Result<u64, Corrupt> {
    let number = from.varint()?;
    if number == book.len() as u64 {
        let last = book.last().copied().unwrap_or(0);
        book.push(last.wrapping_add(from.zigzag()? as u64));
    }
    let known = usize::try_from(number).ok().and_then(|number| book.get(number));
    known.copied().ok_or(Corrupt("names an address that it has not told"))
}
