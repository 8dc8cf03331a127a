//! The outer form of a file: beginning, chunk headers, and the numbers of everything. docs/trace-format.md describes it
//! in words.

use super::OpenError;
use super::bytes::Corrupt;
use super::checksum::xxh32;

/// First bytes of every recording. The top bit and the line end show when a transfer has taken it for text.
pub(super) const MAGIC: [u8; 8] = *b"\x89HOLDUP\n";
/// What this program writes, and the newest that it reads.
pub(super) const VERSION: u32 = 1;
/// Magic, version, checksum of both.
pub(super) const PROLOGUE_BYTES: usize = 16;

/// First bytes of every chunk: after damage, a reader looks for them.
pub(super) const MARKER: [u8; 4] = *b"\xf7hC\x1a";
/// Bytes of a chunk's header.
pub(super) const CHUNK_HEADER_BYTES: usize = 44;
/// A writer ends a chunk that has reached this.
pub(super) const CHUNK_BYTES: usize = 1 << 20;
/// No chunk is longer than this, before and after compression. A single event can be large; chunks exceed
/// [`CHUNK_BYTES`] by at most one.
pub(super) const MAX_CHUNK_BYTES: usize = 16 << 20;
/// Strings are cut to this.
pub(super) const MAX_STRING_BYTES: usize = 64 << 10;
/// A chain of return addresses is cut to this, from outside.
pub(super) const MAX_CHAIN: usize = 4096;
/// Frames of interpreted code are cut to this.
pub(super) const MAX_INTERPRETED: usize = 512;
/// Groups of tasks of one look are cut to this.
pub(super) const MAX_TASK_GROUPS: usize = 1 << 16;
/// Words of a stack are cut to this.
pub(super) const MAX_WORDS: usize = 1 << 16;

/// Kinds of chunks.
pub(super) mod chunk_kind {
    pub(in super::super) const HEADER: u8 = 1;
    pub(in super::super) const EVENTS: u8 = 2;
    pub(in super::super) const ENDING: u8 = 3;
}

const MAX_LZ4_GROWTH: usize = 255;
const BAD_BLOCK: Corrupt = Corrupt("has a chunk that cannot be decompressed");

/// The chunk's bytes are an LZ4 block.
pub(super) const FLAG_LZ4: u8 = 1;

/// An event's first byte.
pub(super) mod tag {
    /// Which bits are the kind.
    pub(in super::super) const KIND: u8 = 0x1f;
    /// The thread's CPU follows: it is another than in the thread's last event.
    pub(in super::super) const CPU: u8 = 0x20;
    /// It is about the same thread as the event before.
    pub(in super::super) const SAME_THREAD: u8 = 0x40;
    /// A stack follows.
    pub(in super::super) const STACK: u8 = 0x80;
}

/// Kinds of events. Below [`kind::FIRST_LONG`] their form is fixed for good; from there on each carries its length, so
/// that a reader passes over what it does not know.
pub(super) mod kind {
    pub(in super::super) const SWITCH_IN: u8 = 1;
    pub(in super::super) const OFF_RUNNABLE: u8 = 2;
    pub(in super::super) const OFF_BLOCKED: u8 = 3;
    pub(in super::super) const OFF_SLEEPING: u8 = 4;
    pub(in super::super) const OFF_UNINTERRUPTIBLE: u8 = 5;
    pub(in super::super) const OFF_GONE: u8 = 6;
    pub(in super::super) const WAKING: u8 = 7;
    pub(in super::super) const FUTEX_WAIT: u8 = 8;
    pub(in super::super) const FUTEX_RETURN: u8 = 9;
    pub(in super::super) const CALL: u8 = 10;
    pub(in super::super) const SAMPLE: u8 = 11;
    pub(in super::super) const MAJOR_FAULT: u8 = 12;
    /// No event: time goes back.
    pub(in super::super) const BACK: u8 = 13;
    pub(in super::super) const FIRST_LONG: u8 = 16;
    pub(in super::super) const STARTED: u8 = 16;
    pub(in super::super) const EXITED: u8 = 17;
    pub(in super::super) const NAMED: u8 = 18;
    pub(in super::super) const MAPPED: u8 = 19;
    pub(in super::super) const LOST: u8 = 20;
    pub(in super::super) const LOCK_WORD: u8 = 21;
    pub(in super::super) const COUNT: u8 = 22;
    pub(in super::super) const USAGE: u8 = 23;
    pub(in super::super) const LOCK_FIGURES: u8 = 24;
    pub(in super::super) const BLOCKED: u8 = 25;
    pub(in super::super) const INTERPRETED: u8 = 26;
    pub(in super::super) const MINOR_FAULT: u8 = 27;
    pub(in super::super) const TASKS: u8 = 28;
    pub(in super::super) const POINTERS: u8 = 29;
}

/// Bits of the first byte of [`kind::BLOCKED`].
pub(super) mod blocked {
    /// The sleep is uninterruptible.
    pub(in super::super) const DEEP: u8 = 1;
    /// Number and first argument of a call follow.
    pub(in super::super) const CALL: u8 = 2;
    /// The kernel's function follows.
    pub(in super::super) const WCHAN: u8 = 4;
    /// The file follows.
    pub(in super::super) const FILE: u8 = 8;
    /// The stack follows.
    pub(in super::super) const STACK: u8 = 16;
}

/// Bits of the first byte of each group of [`kind::TASKS`], beside its state and whether a stack follows.
pub(super) mod task {
    /// How many places the channel has follows.
    pub(in super::super) const PLACES: u8 = 16;
    /// The number of one of the tasks follows.
    pub(in super::super) const EXAMPLE: u8 = 32;
}

pub(super) fn prologue() -> [u8; PROLOGUE_BYTES] {
    let mut bytes = [0; PROLOGUE_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let sum = xxh32(&bytes[..12]);
    bytes[12..].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Whether the file begins as one that this version reads; the bytes are known to begin with [`MAGIC`].
pub(super) fn check_prologue(bytes: &[u8]) -> Result<(), OpenError> {
    let bytes = bytes.first_chunk::<PROLOGUE_BYTES>().ok_or(OpenError::Short)?;
    let mut fields = Fields(bytes);
    fields.skip(8);
    let (version, sum) = (fields.u32(), fields.u32());
    if sum != xxh32(&bytes[..12]) || version == 0 {
        return Err(OpenError::Damaged);
    }
    if version > VERSION { Err(OpenError::Newer { version, known: VERSION }) } else { Ok(()) }
}

/// What stands before the bytes of a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ChunkHeader {
    pub(super) kind: u8,
    pub(super) flags: u8,
    /// Bytes that follow.
    pub(super) stored_len: u32,
    /// Bytes that they become.
    pub(super) raw_len: u32,
    /// How many events these are.
    pub(super) events: u32,
    /// The earliest of them.
    pub(super) first_ns: u64,
    /// The latest of them.
    pub(super) last_ns: u64,
    /// Of the bytes that follow.
    pub(super) checksum: u32,
}

impl ChunkHeader {
    pub(super) fn to_bytes(self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut bytes = Vec::with_capacity(CHUNK_HEADER_BYTES);
        bytes.extend_from_slice(&MARKER);
        bytes.extend_from_slice(&[self.kind, self.flags, 0, 0]);
        for field in [self.stored_len, self.raw_len, self.events] {
            bytes.extend_from_slice(&field.to_le_bytes());
        }
        bytes.extend_from_slice(&self.first_ns.to_le_bytes());
        bytes.extend_from_slice(&self.last_ns.to_le_bytes());
        bytes.extend_from_slice(&self.checksum.to_le_bytes());
        bytes.extend_from_slice(&xxh32(&bytes).to_le_bytes());
        bytes.try_into().expect("the fields are 44 bytes")
    }

    /// Reads the header at the beginning of `bytes`; `None` if there is none that is whole.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes = bytes.first_chunk::<CHUNK_HEADER_BYTES>()?;
        let (body, sum) = bytes.split_last_chunk::<4>()?;
        if !body.starts_with(&MARKER) || u32::from_le_bytes(*sum) != xxh32(body) {
            return None;
        }
        let mut fields = Fields(body);
        fields.skip(8);
        let header = ChunkHeader {
            kind: body[4],
            flags: body[5],
            stored_len: fields.u32(),
            raw_len: fields.u32(),
            events: fields.u32(),
            first_ns: fields.u64(),
            last_ns: fields.u64(),
            checksum: fields.u32(),
        };
        let largest = header.stored_len.max(header.raw_len) as usize;
        (largest <= MAX_CHUNK_BYTES).then_some(header)
    }

    /// The chunk's bytes as they were before compression; `buffer` holds them if they were compressed.
    pub(super) fn unpack<'a>(&self, stored: &'a [u8], buffer: &'a mut Vec<u8>) -> Result<&'a [u8], Corrupt> {
        if xxh32(stored) != self.checksum {
            return Err(Corrupt("has other bytes in a chunk than were written"));
        }
        let raw_len = self.raw_len as usize;
        match self.flags {
            0 if stored.len() == raw_len => Ok(stored),
            // No LZ4 block grows by more: so the memory that a chunk asks for is bounded by its own bytes.
            FLAG_LZ4 if raw_len > stored.len().saturating_mul(MAX_LZ4_GROWTH) => Err(BAD_BLOCK),
            FLAG_LZ4 => {
                if buffer.len() < raw_len {
                    buffer.resize(raw_len, 0);
                }
                let raw = &mut buffer[..raw_len];
                match lz4_flex::block::decompress_into(stored, raw) {
                    Ok(len) if len == raw_len => Ok(raw),
                    _ => Err(BAD_BLOCK),
                }
            }
            0 => Err(Corrupt("has a chunk of another length than it says")),
            _ => Err(Corrupt("has a chunk that is packed in a way that this holdup does not know")),
        }
    }
}

/// Fields of a fixed size, one after the other; the caller knows that there are enough bytes.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn skip(&mut self, bytes: usize) {
        self.0 = &self.0[bytes..];
    }

    fn u32(&mut self) -> u32 {
        let (field, rest) = self.0.split_first_chunk().expect("the header has this field");
        self.0 = rest;
        u32::from_le_bytes(*field)
    }

    fn u64(&mut self) -> u64 {
        let (field, rest) = self.0.split_first_chunk().expect("the header has this field");
        self.0 = rest;
        u64::from_le_bytes(*field)
    }
}
