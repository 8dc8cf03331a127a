//! The stack of a thread that does not run, read from outside.

use holdup_trace::Stack;

use super::decode::{Sample, Shape, register};
use super::reduce::{Space, reduce};
use super::words;
use crate::kernel::context;

/// A thread's place in the program, and what lies above its stack pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Still {
    pid: u32,
    sp: u64,
    ip: u64,
    bytes: Vec<u8>,
}

impl Still {
    /// Reads at most so many bytes of the stack; `None` without a place in the program.
    pub fn read(pid: u32, (sp, ip): (u64, u64), most: usize) -> Option<Still> {
        if ip == 0 {
            return None;
        }
        let mut bytes = vec![0; most];
        let len = words::read_bytes(pid, sp, &mut bytes) / 8 * 8;
        bytes.truncate(len);
        Some(Still { pid, sp, ip, bytes })
    }

    /// Whose it is.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Keeps in `stack` what an unwinder can use. Whether anything is left.
    pub fn reduce(&self, space: &mut Space, stack: &mut Stack) -> bool {
        let at = |index: usize| self.bytes.as_chunks().0.get(index).map(|bytes| u64::from_ne_bytes(*bytes));
        // The frame pointer is not shown. What a program that has them keeps there looks like this: the address of the
        // next such pair, and a return address. Functions without frame pointers are unwound without it.
        let is_frame = |index: &usize| {
            let place = self.sp + 8 * *index as u64;
            at(*index).is_some_and(|next| next > place && next - place < 1 << 20)
                && at(index + 1).is_some_and(|code| space.is_code(code.wrapping_sub(1)))
        };
        let fp = (0..self.bytes.len() / 8).find(is_frame).map_or(0, |index| self.sp + 8 * index as u64);
        // As the kernel would have put it.
        let (chain, registers) = ([2, context::USER, self.ip], [2, fp, self.sp, self.ip]);
        let len = self.bytes.len() as u64;
        let mut record: Vec<u8> =
            chain.iter().chain(&registers).chain(&[len]).flat_map(|word| word.to_ne_bytes()).collect();
        record.extend_from_slice(&self.bytes);
        record.extend(len.to_ne_bytes());
        const UNWIND: u64 = 1 << register::FP | 1 << register::SP | 1 << register::IP;
        let shape = Shape { chain: true, registers: UNWIND, stack: true, ..Shape::default() };
        Sample::read(&record, shape).is_some_and(|sample| reduce(&sample, space, stack))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of this layout: two words of the function, the caller's frame pointer, the return address.
    #[test]
    fn frames_are_found_by_their_pointers_and_return_addresses() {
        let stack = [7_u64, 8, 0, 0x40_0123, 9, 10, 0, 0x40_0456, 11];
        let mut stack = stack;
        let sp = stack.as_ptr() as u64;
        (stack[2], stack[6]) = (sp + 8 * 6, sp + 8 * 64);
        let still = Still::read(std::process::id(), (sp, 0x40_0077), size_of_val(&stack)).expect("own memory");
        let mut space = Space::default();
        space.map(0x40_0000, 0x1000);
        let mut found = Stack::default();
        assert!(still.reduce(&mut space, &mut found));
        assert_eq!(found.user[0], 0x40_0077);
        let code = found.words.iter().filter(|(_, word)| matches!(word, holdup_trace::Word::Code(_))).count();
        assert_eq!(code, 2, "both return addresses: {found:?}");
        assert_eq!(Still::read(std::process::id(), (sp, 0), 8), None);
    }
}
