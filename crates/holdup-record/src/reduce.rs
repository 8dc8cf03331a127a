//! From what the kernel copied of a thread's stack to a [`Stack`]: only the words that an unwinder can use.

use holdup_trace::{Registers, Stack, Word};
use rustc_hash::FxHashMap;

use crate::decode::{Sample, Words, register};

/// Where the chain changes from kernel to user mode and other markers: the kernel writes them as addresses near 2^64.
const MARKERS: u64 = -4095i64 as u64;
const MARKER_KERNEL: u64 = -128i64 as u64;
const MARKER_USER: u64 = -512i64 as u64;

/// A word this far above the stack pointer still counts as an address in the stack: the usual limit of a stack.
const STACK_WINDOW: u64 = 8 << 20;
const PAGE_BITS: u32 = 12;
const CACHE: usize = 512;

/// Executable memory of one process.
#[derive(Clone, Debug)]
pub struct Space {
    /// Start and end, in order, apart from each other.
    ranges: Vec<(u64, u64)>,
    /// Pages that were looked up: page number and, in the lowest bit, whether it is executable.
    cache: Box<[u64; CACHE]>,
}

impl Default for Space {
    fn default() -> Self {
        Space { ranges: Vec::new(), cache: Box::new([u64::MAX; CACHE]) }
    }
}

impl Space {
    /// Executable memory appeared.
    pub fn map(&mut self, start: u64, len: u64) {
        let end = start.saturating_add(len);
        let first = self.ranges.partition_point(|range| range.1 < start);
        let last = self.ranges.partition_point(|range| range.0 <= end);
        let joined = self.ranges[first..last]
            .iter()
            .fold((start, end), |joined, range| (joined.0.min(range.0), joined.1.max(range.1)));
        self.ranges.splice(first..last, [joined]);
        self.cache.fill(u64::MAX);
    }

    /// Whether code is at this address.
    pub fn is_code(&mut self, addr: u64) -> bool {
        let page = addr >> PAGE_BITS;
        let slot = &mut self.cache[(page ^ (page >> 9)) as usize % CACHE];
        if *slot >> 1 != page {
            let next = self.ranges.partition_point(|range| range.1 <= addr);
            let code = self.ranges.get(next).is_some_and(|range| range.0 <= addr);
            *slot = page << 1 | u64::from(code);
        }
        *slot & 1 == 1
    }

    fn is_known(&self) -> bool {
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
        if addr >= MARKERS {
            user = addr == MARKER_USER || (user && addr != MARKER_KERNEL);
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

/// Follows the frame pointers through a copy of the stack, as the kernel does through the stack itself. `base` is where it begins.
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
        if let Some(word) = relative(word, sp) {
            stack.words.push((place, word));
        } else if word >> PAGE_BITS != 0 && word >> 48 == 0 && space.is_code(word) {
            stack.words.push((place, Word::Code(word)));
            code = stack.words.len();
        }
    }
    stack.words.truncate(code);
    stack.depth = u16::try_from(sample.stack.len()).unwrap_or(u16::MAX);
}

fn relative(word: u64, sp: u64) -> Option<Word> {
    let above = word.wrapping_sub(sp);
    (above < STACK_WINDOW).then_some(Word::Stack(above as i32))
}
