//! Where registers of running threads point to, at instructions that many samples are of: that tells which threads
//! fight over one cache line, where no hardware counter can.
//!
//! No data of the program gets into a recording this way: of all that is in registers, only addresses of memory that
//! the process may write to, as /proc/PID/maps has it, are kept. A number that merely looks like one is not.

use holdup_trace::Pointers;
use rustc_hash::FxHashMap;

use super::decode::{Frame, RegisterMask, Sample, register};

/// The general registers but the stack pointer, by the numbers that instructions have for them, with their bits in a
/// sample.
#[cfg(target_arch = "x86_64")]
const GENERAL: [(u8, u32); 15] = [
    (0, 0),
    (1, 2),
    (2, 3),
    (3, 1),
    (5, register::FP),
    (6, 4),
    (7, 5),
    (8, 16),
    (9, 17),
    (10, 18),
    (11, 19),
    (12, 20),
    (13, 21),
    (14, 22),
    (15, 23),
];

/// What the sampled instruction works on is not read from other machines' code.
#[cfg(not(target_arch = "x86_64"))]
const GENERAL: [(u8, u32); 0] = [];

/// The bits of these registers.
pub const GENERAL_MASK: RegisterMask = {
    let (mut mask, mut at) = (0, 0);
    while at < GENERAL.len() {
        mask |= 1 << GENERAL[at].1;
        at += 1;
    }
    mask
};

/// No program has memory of its own below, nor from there on.
const LEAST: u64 = 0x1_0000;
const END: u64 = 1 << 47;
/// From so many samples of an instruction on, it is looked at.
const HOT: u32 = 16;
/// So many samples of one instruction in one thread are told of one after the other, then those of one stretch of time
/// in some, the same for all threads: what threads do at the same time is what matters.
const DENSE: u32 = 32;
const STRETCH_NS: u64 = 64_000_000;
const STRETCH_ONE_IN: u64 = 16;
/// No more samples of one instruction in one thread are told of ...
const MOST: u32 = 64;
/// ... within this time: whoever looks at the end of a long recording is to see some, too.
const RENEWED_NS: u64 = 30_000_000_000;
/// Instructions that are counted. Code that is made as the program runs would become ever more.
const COUNTED: usize = 1 << 16;
/// A frame pointer is no farther above the stack pointer.
const STACK_WINDOW: u64 = 8 << 20;
/// The memory of a process is looked at again after this if a register may point to what is new; after twice as long
/// each time, up to the second.
const SOONEST_NS: u64 = 100_000_000;
const LATEST_NS: u64 = 6_400_000_000;

/// What samples are told of, and the memory of the processes they are of.
#[derive(Debug, Default)]
pub struct Pointing {
    /// Samples by process and instruction.
    instructions: FxHashMap<(u32, u64), u32>,
    /// Samples of those that are hot by thread and instruction, and how many of them were told of.
    threads: FxHashMap<(u32, u64), (u32, u32)>,
    /// When counting began.
    since_ns: u64,
    memories: FxHashMap<u32, Memory>,
}

/// Memory that a process may write to and not execute.
#[derive(Debug, Default)]
struct Memory {
    /// From and to, ascending.
    ranges: Vec<(u64, u64)>,
    /// When it is worth a look again, and how long after the last one that is.
    next_ns: u64,
    wait_ns: u64,
}

impl Pointing {
    /// Where registers point to at a sample in user mode, if that is to be told. `maps` reads what /proc has of the
    /// memory of a process.
    pub fn sampled(
        &mut self,
        frame: Frame,
        sample: &Sample<'_>,
        maps: impl Fn(u32) -> Option<String>,
    ) -> Option<Pointers> {
        let ip = sample.register(register::IP).filter(|_| !GENERAL.is_empty())?;
        if !self.is_due(frame, ip) {
            return None;
        }
        let sp = sample.register(register::SP)?;
        let value = |(number, bit): (u8, u32)| {
            let value = sample.register(bit).filter(|value| (LEAST..END).contains(value))?;
            let is_frame = bit == register::FP && value.wrapping_sub(sp) < STACK_WINDOW;
            (!is_frame).then_some((number, value))
        };
        let candidates: Vec<(u8, u64)> = GENERAL.into_iter().filter_map(value).collect();
        let memory = self.memories.entry(frame.pid).or_default();
        if candidates.iter().any(|(_, value)| !memory.holds(*value)) {
            memory.look(frame.time_ns, || maps(frame.pid));
        }
        // Without any, too: instructions may name addresses themselves.
        Some(Pointers { ip, registers: candidates.into_iter().filter(|(_, value)| memory.holds(*value)).collect() })
    }

    /// A process executed a program, or ended: its memory is another's.
    pub fn forget(&mut self, pid: u32) {
        self.memories.remove(&pid);
    }

    /// Counts a sample; whether it is one that is told of.
    fn is_due(&mut self, frame: Frame, ip: u64) -> bool {
        let full = self.instructions.len().max(self.threads.len()) >= COUNTED;
        if full || frame.time_ns.saturating_sub(self.since_ns) > RENEWED_NS {
            self.instructions.clear();
            self.threads.clear();
            self.since_ns = frame.time_ns;
        }
        let samples = self.instructions.entry((frame.pid, ip)).or_default();
        *samples = samples.saturating_add(1);
        if *samples < HOT {
            return false;
        }
        let (samples, told) = self.threads.entry((frame.tid, ip)).or_default();
        let number = *samples;
        *samples = samples.saturating_add(1);
        let in_stretch = (frame.time_ns / STRETCH_NS).is_multiple_of(STRETCH_ONE_IN);
        let is_due = *told < MOST && (number < DENSE || in_stretch);
        *told += u32::from(is_due);
        is_due
    }
}

impl Memory {
    fn holds(&self, addr: u64) -> bool {
        let next = self.ranges.partition_point(|(_, end)| *end <= addr);
        self.ranges.get(next).is_some_and(|(start, _)| *start <= addr)
    }

    fn look(&mut self, now_ns: u64, maps: impl FnOnce() -> Option<String>) {
        if now_ns < self.next_ns {
            return;
        }
        self.wait_ns = (self.wait_ns * 2).clamp(SOONEST_NS, LATEST_NS);
        self.next_ns = now_ns.saturating_add(self.wait_ns);
        // Of a process that has ended, what was last known stays.
        if let Some(text) = maps() {
            self.ranges = text.lines().filter_map(writable).collect();
        }
    }
}

/// From and to of a line of /proc/PID/maps, if that memory can be written to and not executed.
fn writable(line: &str) -> Option<(u64, u64)> {
    let (range, rest) = line.split_once(' ')?;
    let rights = rest.as_bytes().first_chunk::<4>()?;
    let (start, end) = range.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (rights[1] == b'w' && rights[2] != b'x').then_some((start, end))
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::super::decode::{Shape, tests::Bytes};
    use super::*;

    const HEAP: u64 = 0x5555_0010_0000;
    const SP: u64 = 0x7ffd_0000_1000;
    const MAPS: &str = "555500000000-555500001000 r-xp 00000000 08:01 7 /bin/program\n\
        555500100000-555500200000 rw-p 00000000 00:00 0 [heap]\n\
        555500200000-555500300000 r--p 00000000 08:01 7 /usr/share/constants\n\
        7f0000000000-7f0000001000 rwxp 00000000 00:00 0\n\
        7ffd00000000-7ffd00021000 rw-p 00000000 00:00 0 [stack]\n";

    fn maps(_: u32) -> Option<String> {
        Some(MAPS.to_owned())
    }

    /// A sample at an instruction with these values in registers, by their bits.
    fn told(pointing: &mut Pointing, tid: u32, ip: u64, time_ns: u64, values: &[(u32, u64)]) -> Option<Pointers> {
        let registers = GENERAL_MASK | 1 << register::SP | 1 << register::IP;
        let value = |bit| match bit {
            register::IP => ip,
            register::SP => SP,
            bit => values.iter().find(|(known, _)| *known == bit).map_or(0, |(_, value)| *value),
        };
        let bits = (0..64).filter(|bit| registers >> bit & 1 != 0);
        let body = bits.fold(Bytes::default().u64(2), |body, bit| body.u64(value(bit)));
        let sample = Sample::read(&body.0, Shape { registers, ..Shape::default() }).expect("it is whole");
        pointing.sampled(Frame { time_ns, id: 1, pid: 7, tid }, &sample, maps)
    }

    #[test]
    fn of_registers_only_addresses_of_memory_that_can_be_written_to_are_told() {
        let mut pointing = Pointing::default();
        let secrets = [(0, 4_155_551_234), (2, 0x5ec4_e7f0_0d42), (16, 0x7f00_0000_0008), (17, 0x5555_0000_0010)];
        let constants = [(18, 0x5555_0020_0000), (19, u64::MAX), (20, 0xffff), (register::FP, SP + 0x40)];
        let values = [&[(5, HEAP + 0x48), (23, SP + 0x80)], &secrets[..], &constants[..]].concat();
        let last = (0..HOT).map(|_| told(&mut pointing, 8, 0x5555_0000_0004, 1, &values)).last().flatten();
        let expected = Pointers { ip: 0x5555_0000_0004, registers: vec![(7, HEAP + 0x48), (15, SP + 0x80)] };
        assert_eq!(last, Some(expected));
    }

    #[test]
    fn few_samples_are_told_of_and_only_of_instructions_that_many_are_of() {
        let mut pointing = Pointing::default();
        let mut of = |tid, ip, samples: u32, time_ns| {
            (0..samples).filter(|_| told(&mut pointing, tid, ip, time_ns, &[(0, HEAP)]).is_some()).count() as u32
        };
        assert_eq!(of(8, 0x10, HOT - 1, 1), 0, "it is not hot");
        assert_eq!(of(9, 0x10, 1, 1), 1, "by now it is, whoever runs it");
        assert_eq!(of(8, 0x10, DENSE, 1), DENSE);
        assert_eq!(of(8, 0x10, 100, STRETCH_NS), 0, "then not always");
        assert_eq!(of(8, 0x10, 5, STRETCH_NS * STRETCH_ONE_IN), 5);
        assert_eq!(of(8, 0x10, 100_000, STRETCH_NS * STRETCH_ONE_IN + 1), MOST - DENSE - 5);
        assert_eq!(of(8, 0x10, HOT, 2 + RENEWED_NS), 1, "and anew after a while");
        let instructions: u32 = (0..200_000).map(|ip| of(8, ip, 1, 3 + RENEWED_NS)).sum();
        assert!(instructions <= 1);
        assert!(pointing.instructions.len() <= COUNTED);
    }

    #[test]
    fn memory_is_looked_at_again_if_something_new_may_be_pointed_to_and_not_too_often() {
        let looks = std::cell::Cell::new(0);
        let mut memory = Memory::default();
        let mut look = |now_ns| {
            memory.look(now_ns, || {
                looks.set(looks.get() + 1);
                None
            });
            looks.get()
        };
        assert_eq!([0, 1, SOONEST_NS].map(&mut look), [1, 1, 2]);
        assert_eq!([2 * SOONEST_NS, 3 * SOONEST_NS].map(&mut look), [2, 3], "half as often");
    }
}
