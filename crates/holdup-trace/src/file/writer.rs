//! Writing a recording, chunk by chunk.

use std::fmt;
use std::io::{self, Write};

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use super::checksum::xxh32;
use super::encode::{Encoder, Extent};
use super::layout::{CHUNK_BYTES, ChunkHeader, FLAG_LZ4, MAX_CHUNK_BYTES, chunk_kind, prologue};
use crate::{Ending, Event, Header, Stack, StackId, Stacks};

/// Writes a recording. What was flushed survives the death of the writer.
pub struct Writer<W: Write> {
    out: W,
    stacks: Stacks,
    chunk: Encoder,
    packer: Packer,
    written_bytes: u64,
}

impl<W: Write> fmt::Debug for Writer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("written_bytes", &self.written_bytes).finish_non_exhaustive()
    }
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// `out` does not take the header.
    pub fn new(out: W, header: &Header) -> io::Result<Self> {
        let mut writer = Writer {
            out,
            stacks: Stacks::new(),
            chunk: Encoder::default(),
            packer: Packer::default(),
            written_bytes: 0,
        };
        writer.put(&prologue())?;
        let json = serde_json::to_vec(header)?;
        writer.put_chunk(chunk_kind::HEADER, &json, (header.began_ns, header.began_ns))?;
        writer.out.flush()?;
        Ok(writer)
    }

    /// The number by which events of this recording name a stack.
    pub fn stack(&mut self, stack: &Stack) -> StackId {
        self.stacks.intern(stack)
    }

    /// Adds an event. Events come in order of time as well as the producer can: one that is earlier than the one before
    /// is kept, at the cost of a few bytes.
    ///
    /// # Errors
    /// A chunk was full and `out` does not take it: its events are lost, and writing can go on.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        self.chunk.put(event, &self.stacks);
        if self.chunk.bytes().len() >= CHUNK_BYTES { self.end_chunk() } else { Ok(()) }
    }

    /// Ends the chunk under way, so that a reader sees all events up to here.
    ///
    /// # Errors
    /// `out` does not take it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.end_chunk()?;
        self.out.flush()
    }

    /// Bytes written to `out` so far.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes
    }

    /// Writes the end.
    ///
    /// # Errors
    /// `out` does not take it.
    pub fn finish(mut self, ending: &Ending) -> io::Result<W> {
        self.end_chunk()?;
        let json = serde_json::to_vec(ending)?;
        self.put_chunk(chunk_kind::ENDING, &json, (ending.ended_ns, ending.ended_ns))?;
        self.out.flush()?;
        Ok(self.out)
    }

    /// Bytes of the chunk under way.
    pub(super) fn pending_bytes(&self) -> usize {
        self.chunk.bytes().len()
    }

    /// The stacks that events may name.
    pub(super) fn stacks(&self) -> &Stacks {
        &self.stacks
    }

    fn end_chunk(&mut self) -> io::Result<()> {
        if self.chunk.is_empty() {
            return Ok(());
        }
        let (header, stored) = self.packer.pack(chunk_kind::EVENTS, self.chunk.bytes(), self.chunk.extent());
        let outcome = self.out.write_all(&header.to_bytes()).and_then(|()| self.out.write_all(stored));
        self.written_bytes += (header.to_bytes().len() + stored.len()) as u64;
        self.chunk.clear();
        outcome
    }

    fn put_chunk(&mut self, kind: u8, raw: &[u8], (first_ns, last_ns): (u64, u64)) -> io::Result<()> {
        if raw.len() > MAX_CHUNK_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a header of more than 16 MiB"));
        }
        let (header, stored) = self.packer.pack(kind, raw, Extent { events: 0, first_ns, last_ns });
        self.out.write_all(&header.to_bytes())?;
        self.out.write_all(stored)?;
        self.written_bytes += (header.to_bytes().len() + stored.len()) as u64;
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.written_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Writing into memory.
impl Writer<Vec<u8>> {
    /// What was written so far and not taken.
    pub(super) fn output(&self) -> &[u8] {
        &self.out
    }

    /// Takes what was written so far, the chunk under way included.
    pub(super) fn take(&mut self) -> io::Result<Vec<u8>> {
        self.flush()?;
        // It has grown by doubling, and may be kept for long.
        let mut chunks = std::mem::take(&mut self.out);
        chunks.shrink_to_fit();
        Ok(chunks)
    }

    /// Appends chunks of the same kernel and target, as another writer wrote them.
    pub(super) fn append(&mut self, chunks: &[u8]) {
        self.out.extend_from_slice(chunks);
        self.written_bytes += chunks.len() as u64;
    }

    /// Forgets all stacks, and gives them away. Their numbers stand for none from now on. The chunk under way names
    /// none that it has not told.
    pub(super) fn replace_stacks(&mut self) -> Stacks {
        self.stacks.forget()
    }
}

/// Compresses chunks, in memory that it keeps.
struct Packer {
    table: CompressTable,
    buffer: Vec<u8>,
}

impl Default for Packer {
    fn default() -> Self {
        // From the start for chunks of any size, so that the table never moves while events wait.
        Packer { table: CompressTable::large(), buffer: Vec::new() }
    }
}

impl Packer {
    /// The chunk as it is stored, compressed if that makes it shorter.
    fn pack<'a>(&'a mut self, kind: u8, raw: &'a [u8], extent: Extent) -> (ChunkHeader, &'a [u8]) {
        let enough = get_maximum_output_size(raw.len());
        if self.buffer.len() < enough {
            self.buffer.resize(enough, 0);
        }
        let packed = compress_into_with_table(raw, &mut self.buffer, &mut self.table);
        let (flags, stored) = match packed {
            Ok(len) if len < raw.len() => (FLAG_LZ4, &self.buffer[..len]),
            _ => (0, raw),
        };
        let header = ChunkHeader {
            kind,
            flags,
            stored_len: stored.len() as u32,
            raw_len: raw.len() as u32,
            events: extent.events,
            first_ns: extent.first_ns,
            last_ns: extent.last_ns,
            checksum: xxh32(stored),
        };
        (header, stored)
    }
}
