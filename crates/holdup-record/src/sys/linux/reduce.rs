//! From what the kernel copied of a thread's stack to a [`Stack`]: only the words that an unwinder can use.

use holdup_trace::{Registers, Stack, Word};
use rustc_hash::FxHashMap;

use super::decode::{Sample, Words, register};
use crate::kernel::context;

/// A word this far above the stack pointer still counts as an address in the stack: the usual limit of a stack.
const STACK_WINDOW: u64 = 8 << 20;
const PAGE_BITS: u32 = 12;
const CACHE: usize = 512;

/// Executable memory of one process.
#[derive(Clone, Debug)]
pub struct Space {
    /// In order of their addresses, apart from each other.
    ranges: Vec<Range>,
    /// How many were mapped so far.
    mapped: u64,
    /// Pages that were looked up: page number and, in the lowest bit, whether it is executable.
    cache: Box<[u64; CACHE]>,
}

/// A range of executable memory.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u64,
    end: u64,
    /// The how-manieth mapping made it.
    number: u64,
}

/// Ranges that are kept of a process. That memory is unmapped is not told, so those of libraries and of generated code
/// that come and go would become ever more.
const RANGES: usize = 2048;
/// Of these, the first stay: the program and the libraries that it began with.
const FIRST_RANGES: u64 = 256;

impl Default for Space {
    fn default() -> Self {
        Space { ranges: Vec::new(), mapped: 0, cache: Box::new([u64::MAX; CACHE]) }
    }
}

impl Space {
    /// Executable memory appeared.
    pub fn map(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        let first = self.ranges.partition_point(|range| range.end < start);
        let last = self.ranges.partition_point(|range| range.start <= end);
        let new = Range { start, end, number: self.mapped };
        self.mapped += 1;
        let joined = self.ranges[first..last].iter().fold(new, |joined, range| Range {
            start: joined.start.min(range.start),
            end: joined.end.max(range.end),
            number: joined.number.min(range.number),
        });
        self.ranges.splice(first..last, [joined]);
        if self.ranges.len() > RANGES {
            let later = self.ranges.iter().enumerate().filter(|(_, range)| range.number >= FIRST_RANGES);
            let oldest = later.min_by_key(|(_, range)| range.number).map(|(at, _)| at);
            if let Some(at) = oldest {
                self.ranges.remove(at);
            }
        }
        self.cache.fill(u64::MAX);
    }

    /// Whether code is at this address.
    pub fn is_code(&mut self, addr: u64) -> bool {
        let page = addr >> PAGE_BITS;
        let slot = &mut self.cache[(page ^ (page >> 9)) as usize % CACHE];
        if *slot >> 1 != page {
            let next = self.ranges.partition_point(|range| range.end <= addr);
            let code = self.ranges.get(next).is_some_and(|range| range.start <= addr);
            *slot = page << 1 | u64::from(code);
        }
        *slot & 1 == 1
    }

    /// All memory but that of a stack, where nothing is known and all other words were left out already.
    pub fn around(sp: u64) -> Space {
        let mut space = Space::default();
        space.map(1 << PAGE_BITS, sp.saturating_sub(1 << PAGE_BITS));
        let above = sp.saturating_add(STACK_WINDOW);
        space.map(above, (1_u64 << 48).saturating_sub(above));
        space
    }

    pub fn is_known(&self) -> bool {
        !self.ranges.is_empty()
    }
}

/// The memory of all processes of a recording.
#[derive(Debug, Default)]
pub struct Spaces(FxHashMap<u32, Space>);

impl Spaces {
    /// The memory of one.
    pub fn of(&mut self, pid: u32) -> &mut Space {
        self.0.entry(pid).or_default()
    }

    /// A process began as a copy of another.
    pub fn copy(&mut self, from: u32, to: u32) {
        let copy = self.of(from).clone();
        self.0.insert(to, copy);
    }

    /// How many processes are known.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// A process executed a program, or ended: nothing of its memory is left.
    pub fn clear(&mut self, pid: u32) {
        self.0.remove(&pid);
    }
}

/// Reduces a sample into `stack`, whose memory is used again. Whether anything is left.
pub fn reduce(sample: &Sample<'_>, space: &mut Space, stack: &mut Stack) -> bool {
    stack.kernel.clear();
    stack.user.clear();
    stack.words.clear();
    stack.depth = 0;
    stack.registers = None;
    chain(sample, space, stack);
    if let (Some(ip), Some(sp)) = (sample.register(register::IP), sample.register(register::SP)) {
        let fp = sample.register(register::FP).unwrap_or(0);
        stack.registers = Some(Registers {
            ip,
            // Any other value is data of the program that no unwinder can use.
            fp: relative(fp, sp).unwrap_or_default(),
            lr: register::LR.and_then(|bit| sample.register(bit)).unwrap_or(0),
        });
        if stack.user.is_empty() {
            stack.user.push(ip);
            walk(sample.stack, fp, sp, space, &mut stack.user);
        }
        words(sample, sp, space, stack);
    }
    stack.registers.is_some() || !stack.user.is_empty() || !stack.kernel.is_empty()
}

fn chain(sample: &Sample<'_>, space: &mut Space, stack: &mut Stack) {
    // Without a marker, user code is what the events here ask for.
    let mut user = true;
    for addr in sample.chain.iter() {
        if addr >= context::FIRST {
            user = addr == context::USER || (user && addr != context::KERNEL);
        } else if !user {
            stack.kernel.push(addr);
        } else if stack.user.is_empty() || !space.is_known() || space.is_code(addr.wrapping_sub(1)) {
            stack.user.push(addr);
        } else {
            // The frame pointer was no frame pointer here: what follows is the walk of something else.
            break;
        }
    }
}

/// Follows the frame pointers through a copy of the stack, as the kernel does through the stack itself. `base` is where
/// it begins.
fn walk(stack: Words<'_>, fp: u64, base: u64, space: &mut Space, chain: &mut Vec<u64>) {
    let mut fp = fp.wrapping_sub(base);
    while fp.is_multiple_of(8) && fp < 8 * stack.len() as u64 {
        let at = (fp / 8) as usize;
        let (Some(next), Some(addr)) = (stack.get(at), stack.get(at + 1)) else { return };
        if !space.is_code(addr.wrapping_sub(1)) {
            return;
        }
        chain.push(addr);
        let Some(next) = next.checked_sub(base).filter(|next| *next > fp) else { return };
        fp = next;
    }
}

fn words(sample: &Sample<'_>, sp: u64, space: &mut Space, stack: &mut Stack) {
    let mut code = 0;
    for (place, word) in (0u16..).zip(sample.stack.iter()) {
        // Code comes first: the youngest libraries lie right above the first thread's stack, within its window.
        if word >> PAGE_BITS != 0 && word >> 48 == 0 && space.is_code(word) {
            stack.words.push((place, Word::Code(word)));
            code = stack.words.len();
        } else if let Some(word) = relative(word, sp) {
            stack.words.push((place, word));
        }
    }
    stack.words.truncate(code);
    stack.depth = u16::try_from(sample.stack.len()).unwrap_or(u16::MAX);
}

fn relative(word: u64, sp: u64) -> Option<Word> {
    let above = word.wrapping_sub(sp);
    (above < STACK_WINDOW).then_some(Word::Stack(above as i32))
}

#[cfg(test)]
mod tests {
    use super::super::decode::{Shape, tests::Bytes};
    use super::*;

    const SP: u64 = 0x7ffd_0000_1000;
    const CODE: u64 = 0x5555_0000_0000;

    fn space() -> Space {
        let mut space = Space::default();
        space.map(CODE, 0x1000);
        space.map(CODE + 0x10_0000, 0x2000);
        space
    }

    /// Reduces a sample with this chain, frame pointer and stack.
    fn reduced(chain: &[u64], fp: u64, words: &[u64]) -> Stack {
        let registers = 1 << register::FP | 1 << register::SP | 1 << register::IP;
        let mut body = Bytes::default();
        if !chain.is_empty() {
            body = chain.iter().fold(body.u64(chain.len() as u64), |body, addr| body.u64(*addr));
        }
        let body = body.u64(2).u64(fp).u64(SP).u64(CODE + 0x10).u64(words.len() as u64 * 8);
        let body = words.iter().fold(body, |body, word| body.u64(*word)).u64(words.len() as u64 * 8);
        let shape = Shape { chain: !chain.is_empty(), registers, stack: !words.is_empty(), ..Shape::default() };
        let mut stack = Stack::default();
        assert!(reduce(&Sample::read(&body.0, shape).unwrap(), &mut space(), &mut stack));
        stack
    }

    #[test]
    fn only_words_that_point_into_code_or_the_stack_are_kept() {
        let secret = 0x1234_5678_9abc;
        let stack = reduced(&[], 0, &[secret, CODE + 0x20, SP + 0x40, 3, u64::MAX, CODE + 0x10_1fff, SP + 8, secret]);
        let kept = [(1, Word::Code(CODE + 0x20)), (2, Word::Stack(0x40)), (5, Word::Code(CODE + 0x10_1fff))];
        assert_eq!(stack.words, kept, "nothing behind the last return address");
        assert_eq!(stack.depth, 8);
        let registers = stack.registers.unwrap();
        assert_eq!((registers.ip, registers.fp), (CODE + 0x10, Word::Code(0)));
    }

    #[test]
    fn equal_paths_at_different_depths_are_equal_stacks() {
        let at = |base: u64| {
            let mut body = Bytes::default().u64(2).u64(base + 8).u64(base).u64(CODE);
            body = body.u64(24).u64(77 + base).u64(base + 16).u64(CODE + 5).u64(24);
            let registers = 1 << register::FP | 1 << register::SP | 1 << register::IP;
            let shape = Shape { registers, stack: true, ..Shape::default() };
            let mut stack = Stack::default();
            reduce(&Sample::read(&body.0, shape).unwrap(), &mut space(), &mut stack);
            stack
        };
        assert_eq!(at(SP), at(SP - 0x100_0000));
    }

    #[test]
    fn frame_pointers_are_followed_through_the_copy_as_far_as_it_goes() {
        let words = [0, 0, SP + 40, CODE + 0x100, 9, SP + 64, CODE + 0x200, 0];
        let stack = reduced(&[], SP + 16, &words);
        assert_eq!(stack.user, [CODE + 0x10, CODE + 0x100, CODE + 0x200]);
        assert_eq!(reduced(&[], SP + 12, &words).user, [CODE + 0x10], "no frame pointer");
        assert_eq!(reduced(&[], SP + 8, &words).user, [CODE + 0x10], "no return address there");
        let round = [SP, CODE + 0x100];
        assert_eq!(reduced(&[], SP, &round).user, [CODE + 0x10, CODE + 0x100], "a circle ends");
    }

    #[test]
    fn a_chain_is_divided_at_its_markers_and_ends_where_it_leaves_code() {
        let kernel = 0xffff_ffff_8100_0000;
        let chain = [context::KERNEL, kernel, kernel + 5, context::USER, CODE + 1, CODE + 0x10_0001, 0x1234, CODE + 2];
        let stack = reduced(&chain, 0, &[]);
        assert_eq!(stack.kernel, [kernel, kernel + 5]);
        assert_eq!(stack.user, [CODE + 1, CODE + 0x10_0001]);
    }

    #[test]
    fn ranges_that_touch_or_overlap_are_one() {
        let mut space = Space::default();
        for (start, len) in [(0x3000, 0x1000), (0x1000, 0x1000), (0x2000, 0x1000), (0x3800, 0x2000)] {
            space.map(start, len);
        }
        let ranges: Vec<_> = space.ranges.iter().map(|range| (range.start, range.end)).collect();
        assert_eq!(ranges, [(0x1000, 0x5800)]);
        assert!(space.is_code(0x1000) && space.is_code(0x4fff) && !space.is_code(0xfff) && !space.is_code(0x6000));
    }

    #[test]
    fn of_memory_that_comes_and_goes_the_first_and_the_last_are_kept() {
        let mut space = Space::default();
        let addr = |at: u64| 0x10_0000 * (1 + at * 7 % 100_003);
        (0..50_000).for_each(|at| space.map(addr(at), 0x1000));
        assert_eq!(space.ranges.len(), RANGES);
        assert!((0..FIRST_RANGES).chain(49_000..50_000).all(|at| space.is_code(addr(at))));
        assert!(!space.is_code(addr(20_000)));
    }

    #[test]
    fn a_process_that_forks_takes_its_memory_along_and_loses_it_when_it_executes() {
        let mut spaces = Spaces::default();
        spaces.of(1).map(CODE, 0x1000);
        spaces.copy(1, 2);
        spaces.clear(1);
        assert!(spaces.of(2).is_code(CODE) && !spaces.of(1).is_code(CODE));
    }
}
