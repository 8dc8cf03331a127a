//! Call paths of the user part: unwound from the words that were kept, then joined with the chain of frame pointers.
//!
//! Neither source is whole. The unwound path is exact from the innermost frame on, but ends where the kept words end.
//! The chain goes to the thread's first function, but loses the caller of every function without a frame pointer: the
//! caller of `pthread_mutex_lock`, say. The rule that joins them:
//!
//! 1. The unwound path is cut at the first address that is not in executable memory.
//! 2. The chain is cut at the first address that is not in executable memory, or (if the binary can be read) does not
//!    follow a call: a program that uses the frame pointer for other things leads the kernel astray.
//! 3. The deepest unwound frame that the chain knows too is where they meet; an address that recursion repeats is
//!    counted. If they share nothing but the instruction pointer, they meet there.
//! 4. All of the unwound path comes first, then what the chain has below the meeting point. That is right also when the
//!    unwound path goes on below it: it has all frames as far as it goes, so whatever the chain has more lies deeper.

use framehop::aarch64::{CacheAarch64, UnwindRegsAarch64, UnwinderAarch64};
use framehop::x86_64::{CacheX86_64, UnwindRegsX86_64, UnwinderX86_64};
use framehop::{ExplicitModuleSectionInfo, FrameAddress, Module, Unwinder};
use holdup_trace::{Registers, Stack, Word};
use object::read::{CompressionFormat, Object, ObjectSection};

use super::spaces::Region;
use super::symbols::{Binary, Machine};

/// Most frames of a path.
pub(super) const MAX_FRAMES: usize = 128;

/// Most words of a stack that are taken for return addresses.
const MOST_SCANNED: usize = 8;

/// Stacks are kept relative to the stack pointer; an unwinder wants addresses, so it gets these: no code is ever here.
const STACK_BASE: u64 = 0x7fff_0000_0000;

/// How many bits of an aarch64 address can be code; those above may be a signature.
const AARCH64_ADDRESS: u64 = (1 << 48) - 1;

/// An unwinder for one address space, with what it has learnt about addresses there.
pub(super) enum SpaceUnwinder<'a> {
    X86(UnwinderX86_64<&'a [u8]>, Box<CacheX86_64>),
    Arm(UnwinderAarch64<&'a [u8]>, Box<CacheAarch64>),
    /// Of a machine that nothing here knows: chains must do.
    Other,
}

impl<'a> SpaceUnwinder<'a> {
    /// An unwinder that knows nothing yet.
    pub(super) fn new(machine: Machine) -> Self {
        match machine {
            Machine::X86_64 => SpaceUnwinder::X86(UnwinderX86_64::new(), Box::default()),
            Machine::Aarch64 => SpaceUnwinder::Arm(UnwinderAarch64::new(), Box::default()),
            Machine::Other => SpaceUnwinder::Other,
        }
    }

    /// Makes a mapped binary known.
    pub(super) fn add(&mut self, region: Region, binary: &Binary<'a>) {
        let Some(bias) = binary.bias(region) else { return };
        let base = binary.base();
        let base_in_memory = bias.wrapping_add(base);
        if base_in_memory > region.start {
            return;
        }
        let range = region.start..region.end;
        let module = Module::new(String::new(), range, base_in_memory, sections(binary, base));
        match self {
            SpaceUnwinder::X86(unwinder, _) => unwinder.add_module(module),
            SpaceUnwinder::Arm(unwinder, _) => unwinder.add_module(module),
            SpaceUnwinder::Other => {}
        }
    }

    /// The addresses of a stack's frames, innermost first: instruction pointer, then return addresses.
    pub(super) fn unwind(&mut self, stack: &Stack, registers: Registers) -> Vec<u64> {
        self.unwind_from(stack, registers, STACK_BASE)
    }

    /// Goes on where a path ends in a function that no unwinding table knows (musl is built without them): among the
    /// words further out, the first that returns behind a call of that function, and from there as the tables lead. Of
    /// the innermost function any word that can be a return address will do, if none is behind a call of it: a call
    /// through a pointer does not say what it calls, but a word that a former call left behind may be taken for it.
    /// `enters` says whether what returns to the first address may have called the function around the second.
    pub(super) fn scan(
        &mut self,
        stack: &Stack,
        registers: Registers,
        path: &mut Vec<u64>,
        returns: impl Fn(u64) -> bool,
        enters: impl Fn(u64, u64) -> bool,
    ) {
        for _ in 0..MOST_SCANNED {
            let Some(last) = path.last().copied() else { return };
            let is_innermost = path.len() == 1;
            let from = if is_innermost { Some(0) } else { place(stack, last).map(|at| at + 1) };
            let Some(further) = from.and_then(|from| stack.words.get(from..)) else { return };
            let candidates = || further.iter().filter_map(|(index, word)| Some((*index, code(*word)?)));
            let inside = if is_innermost { last } else { last - 1 };
            let called = candidates().find(|(_, address)| returns(*address) && enters(*address, inside));
            let guessed = || candidates().find(|(_, address)| is_innermost && returns(*address));
            let Some((index, address)) = called.or_else(guessed) else { return };
            path.push(address);
            let caller = Registers { ip: address - 1, ..registers };
            let rest = self.unwind_from(stack, caller, STACK_BASE + 8 * (u64::from(index) + 1));
            path.extend(rest.iter().skip(1).take_while(|address| returns(**address)));
        }
    }

    /// Sets a path right that a wrong frame pointer has led past a caller: what returns to a frame has not called its
    /// function, but a word between the two has. Where the frame pointer is not known, but guessed, the first function
    /// that keeps one leads to the wrong caller if its own caller keeps none. What else is known is as for `scan`.
    pub(super) fn mend(
        &mut self,
        stack: &Stack,
        registers: Registers,
        path: &mut Vec<u64>,
        returns: impl Fn(u64) -> bool,
        enters: impl Fn(u64, u64) -> bool,
    ) {
        let missed = path.windows(2).enumerate().skip(1).find_map(|(at, pair)| {
            let [inner, outer] = [pair[0], pair[1]];
            let between = place(stack, inner)? + 1..place(stack, outer)?;
            let mut words = stack.words.get(between)?.iter().filter_map(|(index, word)| Some((*index, code(*word)?)));
            let called = words.find(|(_, address)| returns(*address) && enters(*address, inner - 1))?;
            (!enters(outer, inner - 1)).then_some((at, called))
        });
        let Some((at, (index, address))) = missed else { return };
        path.truncate(at + 1);
        path.push(address);
        let caller = Registers { ip: address - 1, ..registers };
        let rest = self.unwind_from(stack, caller, STACK_BASE + 8 * (u64::from(index) + 1));
        path.extend(rest.iter().skip(1).take_while(|address| returns(**address)));
    }

    fn unwind_from(&mut self, stack: &Stack, registers: Registers, sp: u64) -> Vec<u64> {
        let mut memory = |address: u64| read(stack, address).ok_or(());
        match self {
            SpaceUnwinder::X86(unwinder, cache) => {
                let start = UnwindRegsX86_64::new(registers.ip, sp, value(registers.fp));
                collect(unwinder, registers.ip, start, cache, &mut memory)
            }
            SpaceUnwinder::Arm(unwinder, cache) => {
                let start = UnwindRegsAarch64::new(registers.lr, sp, value(registers.fp));
                let mut path = collect(unwinder, registers.ip, start, cache, &mut memory);
                path.iter_mut().for_each(|address| *address &= AARCH64_ADDRESS);
                path
            }
            SpaceUnwinder::Other => Vec::new(),
        }
    }
}

fn collect<U: Unwinder>(
    unwinder: &U,
    ip: u64,
    registers: U::UnwindRegs,
    cache: &mut U::Cache,
    memory: &mut impl FnMut(u64) -> Result<u64, ()>,
) -> Vec<u64> {
    let mut path = Vec::with_capacity(16);
    let mut frames = unwinder.iter_frames(ip, registers, cache, memory);
    // An error is the end of what was kept, or of what the unwind tables know: the path up to there is good.
    while let Ok(Some(frame)) = frames.next() {
        path.push(match frame {
            FrameAddress::InstructionPointer(address) => address,
            FrameAddress::ReturnAddress(address) => address.get(),
        });
        if path.len() == MAX_FRAMES {
            break;
        }
    }
    path
}

/// The kept stack as memory. A word that was dropped was data, which reads as 0; below what was looked at nothing is
/// known.
fn read(stack: &Stack, address: u64) -> Option<u64> {
    let offset = address.checked_sub(STACK_BASE).filter(|offset| offset % 8 == 0)?;
    let index = u16::try_from(offset / 8).ok().filter(|index| *index < stack.depth)?;
    Some(match stack.words.binary_search_by_key(&index, |(at, _)| *at) {
        Ok(found) => value(stack.words[found].1),
        Err(_) => 0,
    })
}

/// Where among the kept words a return address is.
fn place(stack: &Stack, address: u64) -> Option<usize> {
    stack.words.iter().position(|(_, word)| code(*word) == Some(address))
}

fn code(word: Word) -> Option<u64> {
    match word {
        Word::Code(address) if address > 0 => Some(address),
        _ => None,
    }
}

/// A word as the unwinder shall see it.
fn value(word: Word) -> u64 {
    match word {
        Word::Code(value) => value,
        Word::Stack(offset) => STACK_BASE.wrapping_add_signed(offset.into()),
    }
}

/// Where a binary keeps what an unwinder needs.
fn sections<'a>(binary: &Binary<'a>, base: u64) -> ExplicitModuleSectionInfo<&'a [u8]> {
    let section = |name: &str| {
        let section = binary.file.section_by_name(name)?;
        // Go compresses its .debug_frame; it keeps frame pointers too, so nothing is lost by doing without.
        section.compressed_file_range().ok().filter(|range| range.format == CompressionFormat::None)?;
        let range = section.address()..section.address().checked_add(section.size())?;
        Some((range, section.data().ok()?))
    };
    let range = |name: &str| section(name).map(|(range, _)| range);
    let data = |name: &str| section(name).map(|(_, data)| data).filter(|data| !data.is_empty());
    ExplicitModuleSectionInfo {
        base_svma: base,
        text_svma: range(".text"),
        got_svma: range(".got"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: data(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: data(".eh_frame_hdr"),
        debug_frame: data(".debug_frame"),
        ..ExplicitModuleSectionInfo::default()
    }
}

/// Joins an unwound path and a chain by the rule at the top of this file. `executable` says whether an address can be
/// code, `returns` whether one can be a return address.
pub(super) fn splice(
    unwound: &[u64],
    chain: &[u64],
    executable: impl Fn(u64) -> bool,
    returns: impl Fn(u64) -> bool,
) -> Vec<u64> {
    let mut path: Vec<u64> = plausible(unwound, &executable).to_vec();
    let chain = plausible(chain, &executable);
    if path.is_empty() {
        path.extend(chain.first());
    }
    let rest = chain.get(meeting(&path, chain) + 1..).unwrap_or_default();
    path.extend(rest.iter().copied().take_while(|address| returns(*address)));
    path.truncate(MAX_FRAMES);
    path
}

/// The path up to the first caller that cannot be one; the innermost frame stays, wherever it is.
fn plausible<'p>(path: &'p [u64], executable: &impl Fn(u64) -> bool) -> &'p [u64] {
    let end = path.iter().skip(1).position(|address| !executable(address.wrapping_sub(1)));
    end.map_or(path, |end| &path[..=end])
}

/// The index in the chain of the deepest unwound frame that it knows.
fn meeting(path: &[u64], chain: &[u64]) -> usize {
    let known = path.iter().enumerate().skip(1).rev();
    let met = known.filter_map(|(at, address)| {
        let repeats = path[1..=at].iter().filter(|other| *other == address).count();
        let mut places = chain.iter().enumerate().skip(1).filter(|(_, other)| *other == address).map(|(at, _)| at);
        let last = places.clone().next_back();
        places.nth(repeats - 1).or(last)
    });
    met.take(1).next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(unwound: &[u64], chain: &[u64]) -> Vec<u64> {
        splice(unwound, chain, |address| address < 1000, |_| true)
    }

    #[test]
    fn a_caller_that_a_guessed_frame_pointer_passed_over_comes_back() {
        let words = vec![(0, Word::Code(20)), (3, Word::Code(70)), (5, Word::Code(30)), (9, Word::Code(40))];
        let stack = Stack { words, depth: 16, ..Stack::default() };
        // What returns to 30 has called the function around 19; what returns to 70 was left behind by another call.
        let mend = |path: &[u64], enters: &dyn Fn(u64, u64) -> bool| {
            let mut path = path.to_vec();
            let registers = Registers { ip: 10, ..Registers::default() };
            SpaceUnwinder::Other.mend(&stack, registers, &mut path, |_| true, enters);
            path
        };
        let called = |address, inside| (address, inside) == (30, 19);
        assert_eq!(mend(&[10, 20, 40], &called), [10, 20, 30]);
        assert_eq!(mend(&[10, 20, 30, 40], &called), [10, 20, 30, 40], "it is there");
        assert_eq!(mend(&[10, 20, 40], &|_, inside| inside == 19), [10, 20, 40], "the path is as good");
        assert_eq!(mend(&[10, 20, 40], &|_, _| false), [10, 20, 40], "nothing is known of calls");
    }

    #[test]
    fn the_lost_caller_comes_back() {
        // ___lll_lock_wait (1) < pthread_mutex_lock (2) < registry (3) < worker (4) < start_thread (5): the chain lost
        // 2 and 3.
        assert_eq!(joined(&[1, 2, 3, 4], &[1, 4, 5]), [1, 2, 3, 4, 5]);
        assert_eq!(joined(&[1, 2, 3], &[1, 4, 5]), [1, 2, 3, 4, 5], "they share only the innermost frame");
        assert_eq!(
            joined(&[1, 2, 3, 4, 45], &[1, 4, 5]),
            [1, 2, 3, 4, 45, 5],
            "a caller that the chain lost further out"
        );
        assert_eq!(joined(&[1, 2, 3, 4, 5], &[1, 4, 5]), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn one_source_is_enough() {
        assert_eq!(joined(&[], &[1, 2, 3]), [1, 2, 3]);
        assert_eq!(joined(&[1, 2, 3], &[]), [1, 2, 3]);
        assert_eq!(joined(&[1], &[1, 2]), [1, 2]);
        assert_eq!(joined(&[], &[]), [0; 0]);
    }

    #[test]
    fn recursion_is_counted() {
        assert_eq!(joined(&[1, 2, 7, 7], &[1, 7, 7, 7, 8]), [1, 2, 7, 7, 7, 8]);
        assert_eq!(joined(&[1, 2, 7, 7, 7], &[1, 7, 7, 8]), [1, 2, 7, 7, 7, 8]);
    }

    #[test]
    fn garbage_ends_a_path() {
        assert_eq!(joined(&[1, 2, 5000, 3], &[1, 9, 6000, 4]), [1, 2, 9]);
        assert_eq!(joined(&[5000, 2], &[5000, 3]), [5000, 2, 3], "the innermost frame stays");
        let no_calls = splice(&[1, 2], &[1, 9, 10], |_| true, |address| address != 9);
        assert_eq!(no_calls, [1, 2]);
        assert_eq!(joined(&[2; 500], &[2; 500]).len(), MAX_FRAMES);
    }

    #[test]
    fn dropped_words_read_as_zero_and_the_unknown_as_nothing() {
        let stack = Stack { words: vec![(1, Word::Code(42)), (3, Word::Stack(-8))], depth: 4, ..Stack::default() };
        let at = |offset: u64| read(&stack, STACK_BASE + offset);
        assert_eq!([at(0), at(8), at(16), at(24)], [Some(0), Some(42), Some(0), Some(STACK_BASE - 8)]);
        assert_eq!((at(32), at(4), read(&stack, STACK_BASE - 8)), (None, None, None));
    }
}
