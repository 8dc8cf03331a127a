//! The kernel's records: from the bytes of a ring to what they say.
//!
//! Every event of a recording has the same frame, so that a record can be told without knowing which event wrote it:
//! samples begin with identifier, thread and time, all other records end with thread, time and identifier
//! (`sample_id_all`). What a sample has behind that depends on its event; its [`Shape`] says so. Nothing here touches
//! the system.

use holdup_trace::Numbering;

use crate::bytes::Order;
use crate::kernel::kind;

/// How this machine numbers system calls. Only x86-64 is recorded so far.
pub const NUMBERING: Numbering = if cfg!(target_arch = "x86_64") { Numbering::X86_64 } else { Numbering::Unknown };
pub use crate::record::Record;

const HEADER: usize = 8;
/// Thread, time and identifier at the end of records that are no samples.
const TRAILER: usize = 24;

/// Which registers a sample carries, as the kernel's mask. They come in the order of their bits.
pub type RegisterMask = u64;

/// The registers of this machine by their bits, as `asm/perf_regs.h` numbers them.
#[cfg(target_arch = "x86_64")]
pub mod register {
    /// What a system call returned.
    pub const RESULT: u32 = 0;
    /// Third argument of a system call.
    pub const ARGUMENT_3: u32 = 3;
    /// Second argument of a system call; still there when it returns.
    pub const ARGUMENT_2: u32 = 4;
    /// First argument of a system call; still there when it returns.
    pub const ARGUMENT_1: u32 = 5;
    /// Frame pointer.
    pub const FP: u32 = 6;
    /// Stack pointer.
    pub const SP: u32 = 7;
    /// Instruction pointer.
    pub const IP: u32 = 8;
    /// The machine has no return address register.
    pub const LR: Option<u32> = None;
}

/// The registers of this machine by their bits, as `asm/perf_regs.h` numbers them.
#[cfg(not(target_arch = "x86_64"))]
pub mod register {
    /// What a system call returned.
    pub const RESULT: u32 = 0;
    /// Third argument of a system call.
    pub const ARGUMENT_3: u32 = 2;
    /// Second argument of a system call; still there when it returns.
    pub const ARGUMENT_2: u32 = 1;
    /// First argument of a system call; overwritten by the result when it returns.
    pub const ARGUMENT_1: u32 = 0;
    /// Frame pointer.
    pub const FP: u32 = 29;
    /// Stack pointer.
    pub const SP: u32 = 31;
    /// Instruction pointer.
    pub const IP: u32 = 32;
    /// Return address register.
    pub const LR: Option<u32> = Some(30);
}

/// What a sample of one event carries behind its identifier, thread and time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// The address of the access.
    pub addr: bool,
    /// The chain of return addresses.
    pub chain: bool,
    /// The tracepoint's own record.
    pub raw: bool,
    /// User registers; 0 for none.
    pub registers: RegisterMask,
    /// The top of the user stack.
    pub stack: bool,
}

/// A record's place in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// When, on the recording's clock.
    pub time_ns: u64,
    /// The event that wrote it.
    pub id: u64,
    /// The process it is about.
    pub pid: u32,
    /// The thread it is about.
    pub tid: u32,
}

/// The length of the record that `bytes` begin with; `None` if that is not all there.
pub fn length(bytes: &[u8]) -> Option<usize> {
    let size = usize::from(u16_at(bytes, 6)?);
    (size >= HEADER && size <= bytes.len()).then_some(size)
}

/// When, who and by which event, of any whole record.
pub fn frame(record: &[u8]) -> Option<Frame> {
    let sample = u32_at(record, 0)? == kind::SAMPLE;
    let (id, thread) =
        if sample { (HEADER, HEADER + 8) } else { (record.len().checked_sub(8)?, record.len().checked_sub(TRAILER)?) };
    Some(Frame {
        id: u64_at(record, id)?,
        pid: u32_at(record, thread)?,
        tid: u32_at(record, thread + 4)?,
        time_ns: u64_at(record, thread + 8)?,
    })
}

/// When a whole record was written; 0 if it is too short to say.
pub fn time_ns(record: &[u8]) -> u64 {
    frame(record).map_or(0, |frame| frame.time_ns)
}

/// What a whole record says; `None` for those that do not matter and those that are too short for what they claim to
/// be.
pub fn record(bytes: &[u8]) -> Option<Record<'_>> {
    let (kind, misc) = (u32_at(bytes, 0)?, u16_at(bytes, 4)?);
    let body = bytes.get(HEADER..)?;
    match kind {
        kind::SAMPLE => body.get(24..).map(Record::Sample),
        _ => Record::read(kind, misc, body.get(..body.len().checked_sub(TRAILER)?)?, Order::OWN),
    }
}

/// A sample taken apart.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample<'a> {
    /// The address of the access.
    pub addr: u64,
    /// The chain, with the kernel's markers in it.
    pub chain: Words<'a>,
    /// The tracepoint's own record.
    pub raw: &'a [u8],
    mask: RegisterMask,
    values: Words<'a>,
    /// The top of the user stack, from the stack pointer on.
    pub stack: Words<'a>,
}

impl<'a> Sample<'a> {
    /// Takes the bytes behind a sample's frame apart; `None` if they are too short for the shape.
    pub fn read(mut bytes: &'a [u8], shape: Shape) -> Option<Self> {
        let mut sample = Sample::default();
        if shape.addr {
            sample.addr = take_u64(&mut bytes)?;
        }
        if shape.chain {
            let count = usize::try_from(take_u64(&mut bytes)?).ok()?;
            sample.chain = Words(take(&mut bytes, count.checked_mul(8)?)?);
        }
        if shape.raw {
            let size = u32_at(bytes, 0)? as usize;
            sample.raw = take(&mut bytes, size.checked_add(4)?)?.get(4..)?;
        }
        if shape.registers != 0 {
            // The kernel says 0 for a thread without a user part; 1 for a 32-bit program, whose words are not ours to
            // read.
            let abi = take_u64(&mut bytes)?;
            if abi != 0 {
                let count = shape.registers.count_ones() as usize;
                sample.values = Words(take(&mut bytes, count * 8)?);
                sample.mask = if abi == 2 { shape.registers } else { 0 };
            }
        }
        if shape.stack {
            let size = usize::try_from(take_u64(&mut bytes)?).ok()?;
            if size > 0 {
                let stack = take(&mut bytes, size)?;
                let valid = usize::try_from(take_u64(&mut bytes)?).ok()?;
                sample.stack = Words(stack.get(..valid.min(size) & !7)?);
            }
        }
        Some(sample)
    }

    /// A user register by its bit, if the sample has it.
    pub fn register(&self, bit: u32) -> Option<u64> {
        let below = self.mask & ((1 << bit) - 1);
        if self.mask & (1 << bit) == 0 { None } else { self.values.get(below.count_ones() as usize) }
    }
}

/// Words of 64 bits in bytes that need not be aligned.
#[derive(Clone, Copy, Debug, Default)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// How many there are.
    pub fn len(self) -> usize {
        self.0.len() / 8
    }

    /// One of them.
    pub fn get(self, index: usize) -> Option<u64> {
        u64_at(self.0, index * 8)
    }

    /// All of them.
    pub fn iter(self) -> impl Iterator<Item = u64> + 'a {
        self.0.as_chunks().0.iter().map(|bytes| u64::from_ne_bytes(*bytes))
    }
}

/// A field of a tracepoint's record.
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A field of a tracepoint's record.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    u64_at(take(bytes, 8)?, 0)
}

fn take<'a>(bytes: &mut &'a [u8], count: usize) -> Option<&'a [u8]> {
    let (taken, rest) = bytes.split_at_checked(count)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::kernel::misc;

    /// Bytes of records as the kernel writes them.
    #[derive(Default)]
    pub struct Bytes(pub Vec<u8>);

    impl Bytes {
        pub fn u64(mut self, value: u64) -> Self {
            self.0.extend(value.to_ne_bytes());
            self
        }

        pub fn u32(mut self, value: u32) -> Self {
            self.0.extend(value.to_ne_bytes());
            self
        }

        fn text(mut self, text: &str) -> Self {
            self.0.extend(text.as_bytes());
            self.0.resize((self.0.len() / 8 + 1) * 8, 0);
            self
        }

        /// Puts a header before it.
        fn headed(self, kind: u32, misc: u16) -> Vec<u8> {
            let mut record = Bytes::default().u32(kind).0;
            record.extend(misc.to_ne_bytes());
            record.extend((self.0.len() as u16 + 8).to_ne_bytes());
            record.extend(self.0);
            record
        }

        /// A record that is no sample.
        pub fn record(self, kind: u32, misc: u16, tid: u32, time_ns: u64) -> Vec<u8> {
            self.u32(100).u32(tid).u64(time_ns).u64(7).headed(kind, misc)
        }
    }

    /// A sample of event `id` by a thread of process 100.
    pub fn sample(id: u64, tid: u32, time_ns: u64, body: Bytes) -> Vec<u8> {
        let mut bytes = Bytes::default().u64(id).u32(100).u32(tid).u64(time_ns);
        bytes.0.extend(body.0);
        bytes.headed(kind::SAMPLE, 0)
    }

    /// A switch record: out or in, preempted or not.
    pub fn switch(tid: u32, time_ns: u64, out: bool, preempted: bool) -> Vec<u8> {
        let misc = if out { misc::SWITCH_OUT } else { 0 } | if preempted { misc::SWITCH_OUT_PREEMPT } else { 0 };
        Bytes::default().record(kind::SWITCH, misc, tid, time_ns)
    }

    /// A record of a new thread.
    pub fn fork(pid: u32, tid: u32, parent: u32, time_ns: u64) -> Vec<u8> {
        let body = Bytes::default().u32(pid).u32(100).u32(tid).u32(parent).u64(time_ns);
        body.record(kind::FORK, 0, parent, time_ns)
    }

    /// A record of a thread that ends.
    pub fn comm(tid: u32, name: &str, exec: bool) -> Vec<u8> {
        let misc = if exec { misc::COMM_EXEC } else { 0 };
        Bytes::default().u32(tid).u32(tid).text(name).record(kind::COMM, misc, tid, 1)
    }

    pub fn exit(tid: u32, time_ns: u64) -> Vec<u8> {
        let body = Bytes::default().u32(100).u32(100).u32(tid).u32(1).u64(time_ns);
        body.record(kind::EXIT, 0, tid, time_ns)
    }

    /// A record of lost records.
    pub fn lost(count: u64, time_ns: u64) -> Vec<u8> {
        Bytes::default().u64(7).u64(count).record(kind::LOST, 0, 1, time_ns)
    }

    /// A record of executable memory.
    pub fn map(start: u64, len: u64, time_ns: u64) -> Vec<u8> {
        let body = Bytes::default().u32(100).u32(100).u64(start).u64(len).u64(0x2000);
        let body = body.u32(20).u64(0x1111_1111_1111_1111).u64(0x2222_2222_2222_2222).u32(0x3333_3333);
        body.u64(5).text("/lib/x.so").record(kind::MMAP2, misc::MMAP_BUILD_ID, 100, time_ns)
    }

    #[test]
    fn every_record_is_framed_alike() {
        for bytes in [switch(5, 77, true, false), sample(7, 5, 77, Bytes::default())] {
            assert_eq!(length(&bytes), Some(bytes.len()));
            assert_eq!(frame(&bytes), Some(Frame { time_ns: 77, id: 7, pid: 100, tid: 5 }));
        }
    }

    #[test]
    fn records_say_what_they_say() {
        assert_eq!(
            record(&comm(100, "server", true)),
            Some(Record::Comm { tid: 100, pid: 100, name: b"server", exec: true })
        );
        assert_eq!(record(&switch(5, 1, true, true)), Some(Record::Switch { out: true, preempted: true }));
        assert_eq!(record(&switch(5, 1, false, false)), Some(Record::Switch { out: false, preempted: false }));
        assert_eq!(record(&fork(100, 9, 5, 1)), Some(Record::Fork { tid: 9, pid: 100, parent: 5, parent_pid: 100 }));
        assert_eq!(record(&lost(12, 1)), Some(Record::Lost { count: 12 }));
        let mapped = map(0x1000, 0x3000, 1);
        let Some(Record::Map { start: 0x1000, len: 0x3000, offset: 0x2000, path, build_id, .. }) = record(&mapped)
        else {
            panic!("a mapping")
        };
        assert_eq!(path, b"/lib/x.so");
        assert_eq!(build_id.map(<[u8]>::len), Some(20));
    }

    #[test]
    fn a_sample_is_taken_apart_by_its_shape() {
        let shape = Shape {
            addr: true,
            chain: true,
            raw: true,
            registers: 1 << register::FP | 1 << register::SP | 1 << register::IP,
            stack: true,
        };
        let body = Bytes::default().u64(0xadd);
        let body = body.u64(2).u64(0x11).u64(0x12).u32(12).u32(1).u32(2).u32(3);
        let body = body.u64(2).u64(0xf).u64(0x5).u64(0x1).u64(16).u64(0x21).u64(0x22).u64(8);
        let sample = Sample::read(&body.0, shape).unwrap();
        assert_eq!(sample.addr, 0xadd);
        assert_eq!(sample.chain.iter().collect::<Vec<_>>(), [0x11, 0x12]);
        assert_eq!(u32_at(sample.raw, 8), Some(3));
        assert_eq!(sample.register(register::FP), Some(0xf));
        assert_eq!(sample.register(register::IP), Some(0x1));
        assert_eq!(sample.register(register::ARGUMENT_3), None);
        assert_eq!(sample.stack.iter().collect::<Vec<_>>(), [0x21], "only what the kernel could copy");
        for len in 0..64 {
            assert!(Sample::read(&vec![0xff; len], shape).is_none(), "{len} bytes of nonsense");
        }
    }

    #[test]
    fn cut_records_are_no_records() {
        for whole in [map(1, 2, 3), fork(1, 2, 3, 4), lost(1, 2), switch(1, 2, true, true)] {
            for len in 0..whole.len() {
                assert_eq!(length(&whole[..len]), None);
                // Whatever it gives, it does not panic.
                let _ = (frame(&whole[..len]), record(&whole[..len]));
            }
        }
    }
}
