//! Reading a recording from bytes that nobody vouches for: no bytes make it panic, none make it take more than a fixed
//! multiple of their own length in time or memory.

use super::bytes::Corrupt;
use super::decode::Decoder;
use super::foreign::looks_like;
use super::layout::{CHUNK_HEADER_BYTES, ChunkHeader, MAGIC, MARKER, PROLOGUE_BYTES, check_prologue, chunk_kind};
use super::{Damage, OpenError, Summary};
use crate::{Ending, Event, Header, NO_CPU, Stacks, Tid, What};

/// How many damaged places are told one by one.
const MAX_DAMAGE: usize = 100;
/// Addresses and words that stacks may have, for each byte of the file and for any file. Real recordings stay far
/// below.
const STACK_BUDGET_PER_BYTE: u64 = 32;
const STACK_BUDGET: u64 = 4 << 20;
/// Bytes after decompression, and events, likewise: LZ4 would allow 255 of each. Recordings of a busy program have two
/// bytes and half an event for each byte of the file.
const RAW_PER_BYTE: u64 = 8;
const RAW_BYTES: u64 = 32 << 20;
const EVENTS_PER_BYTE: u64 = 1;
const EVENTS: u64 = 2 << 20;

/// Reads a recording from its bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    header: Header,
    /// Where the chunk after the header begins.
    first_chunk: usize,
}

impl<'a> Reader<'a> {
    /// Looks at the beginning.
    ///
    /// # Errors
    /// These bytes are not a recording, or one that this version cannot read.
    pub fn open(bytes: &'a [u8]) -> Result<Self, OpenError> {
        if !bytes.starts_with(&MAGIC) {
            let cut = !bytes.is_empty() && MAGIC.starts_with(bytes);
            return Err(if cut { OpenError::Short } else { foreign(bytes) });
        }
        check_prologue(bytes)?;
        let rest = &bytes[PROLOGUE_BYTES..];
        if rest.len() < CHUNK_HEADER_BYTES {
            return Err(OpenError::Short);
        }
        let chunk = ChunkHeader::parse(rest).filter(|chunk| chunk.kind == chunk_kind::HEADER);
        let chunk = chunk.ok_or(OpenError::Damaged)?;
        let end = CHUNK_HEADER_BYTES + chunk.stored_len as usize;
        let stored = rest.get(CHUNK_HEADER_BYTES..end).ok_or(OpenError::Short)?;
        let mut buffer = Vec::new();
        let json = chunk.unpack(stored, &mut buffer).map_err(|_| OpenError::Damaged)?;
        let header = serde_json::from_slice(json).map_err(|_| OpenError::Damaged)?;
        Ok(Reader { bytes, header, first_chunk: PROLOGUE_BYTES + end })
    }

    /// What the recording says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// What its chunks hold, decompressed, one behind the other: for whoever asks what is in a file, not what it means.
    /// Chunks that are damaged are left out.
    pub fn unpacked(&self) -> Vec<u8> {
        let mut held = Vec::new();
        let (mut rest, mut buffer) = (&self.bytes[PROLOGUE_BYTES..], Vec::new());
        while let Some(chunk) = ChunkHeader::parse(rest)
            && let Some(stored) = rest.get(CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + chunk.stored_len as usize)
        {
            held.extend_from_slice(chunk.unpack(stored, &mut buffer).unwrap_or_default());
            rest = &rest[CHUNK_HEADER_BYTES + stored.len()..];
        }
        held
    }

    /// Gives every event to `sink`, in order of the file; their stacks are put into `stacks`, under numbers of that
    /// table, before the events that name them. What cannot be read is passed over and reported, and `sink` gets a
    /// [`What::Lost`] of [`NO_CPU`] in its place: at the latest moment of what is missing, or as near as is known, with
    /// a count of at least 1.
    pub fn read(&self, stacks: &mut Stacks, sink: &mut dyn FnMut(&Event)) -> Summary {
        let budget = STACK_BUDGET + STACK_BUDGET_PER_BYTE * self.bytes.len() as u64;
        let pass = Pass {
            bytes: self.bytes,
            at: self.first_chunk,
            summary: Summary::default(),
            more_damage: 0,
            decoder: Decoder::new(budget),
            buffer: Vec::new(),
            last_ns: self.header.began_ns,
            gap: false,
        };
        pass.run(stacks, sink)
    }
}

fn foreign(bytes: &[u8]) -> OpenError {
    OpenError::Foreign { looks_like: looks_like(bytes) }
}

/// One pass through a file.
struct Pass<'a> {
    bytes: &'a [u8],
    at: usize,
    summary: Summary,
    /// Damaged places beyond those that are told.
    more_damage: u64,
    decoder: Decoder,
    /// A chunk after decompression.
    buffer: Vec<u8>,
    /// The latest moment of what was read.
    last_ns: u64,
    /// Something is missing whose moment is not known yet.
    gap: bool,
}

impl Pass<'_> {
    fn run(mut self, stacks: &mut Stacks, sink: &mut dyn FnMut(&Event)) -> Summary {
        while self.at < self.bytes.len() {
            match ChunkHeader::parse(&self.bytes[self.at..]) {
                None => self.look_for_chunk(),
                Some(chunk) if chunk.kind == chunk_kind::HEADER => {
                    self.damage("has another recording behind it, which is not read");
                    break;
                }
                Some(chunk) => self.chunk(&chunk, stacks, sink),
            }
        }
        if self.gap {
            self.lost(self.last_ns, 1, sink);
        }
        if self.more_damage > 0 {
            let why = format!("is damaged in {} more places", self.more_damage);
            self.summary.damage.push(Damage { at: self.bytes.len() as u64, why });
        }
        self.summary
    }

    /// There is no chunk where one should be: goes on at the next that has a whole header.
    fn look_for_chunk(&mut self) {
        let rest = &self.bytes[self.at..];
        let cut = rest.len() < CHUNK_HEADER_BYTES && MARKER.iter().zip(rest).all(|(a, b)| a == b);
        self.damage(if cut { CUT } else { "has a damaged chunk header" });
        self.gap = true;
        self.at += 1;
        self.find_chunk();
    }

    fn chunk(&mut self, chunk: &ChunkHeader, stacks: &mut Stacks, sink: &mut dyn FnMut(&Event)) {
        let begin = self.at + CHUNK_HEADER_BYTES;
        let end = begin + chunk.stored_len as usize;
        let Some(stored) = self.bytes.get(begin..end) else {
            self.damage(CUT);
            self.lose(chunk, 0, sink);
            // Something may have been cut out of the middle.
            self.at = begin;
            self.find_chunk();
            return;
        };
        match chunk.kind {
            chunk_kind::EVENTS => self.events(chunk, stored, stacks, sink),
            chunk_kind::ENDING => self.ending(chunk, stored),
            unknown => self.damage(&format!("has a chunk of kind {unknown}, which this holdup does not know")),
        }
        self.at = end;
    }

    /// Moves to the next chunk header that is whole, without a report: there was one for what is passed over.
    fn find_chunk(&mut self) {
        while self.at < self.bytes.len() {
            let rest = &self.bytes[self.at..];
            if rest.starts_with(&MARKER) && ChunkHeader::parse(rest).is_some() {
                return;
            }
            self.at += rest[1..].iter().position(|byte| *byte == MARKER[0]).map_or(rest.len(), |n| n + 1);
        }
    }

    fn events(&mut self, chunk: &ChunkHeader, stored: &[u8], stacks: &mut Stacks, sink: &mut dyn FnMut(&Event)) {
        if std::mem::take(&mut self.gap) {
            self.lost(chunk.first_ns, 1, sink);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let (given, outcome) = match self.bounded(chunk).and_then(|()| chunk.unpack(stored, &mut buffer)) {
            Err(corrupt) => (0, Err(corrupt)),
            Ok(raw) => {
                self.summary.uncompressed_bytes += raw.len() as u64;
                self.decoder.chunk(raw, stacks, sink)
            }
        };
        self.buffer = buffer;
        self.summary.events += given;
        self.last_ns = self.last_ns.max(chunk.last_ns);
        let told = given + std::mem::take(&mut self.decoder.unknown);
        self.judge(chunk, given, told, outcome, sink);
    }

    /// Whether the file may hold this chunk beside those before it.
    fn bounded(&self, chunk: &ChunkHeader) -> Result<(), Corrupt> {
        let len = self.bytes.len() as u64;
        let raw_bytes = self.summary.uncompressed_bytes + u64::from(chunk.raw_len);
        let is_bounded =
            raw_bytes <= RAW_BYTES + RAW_PER_BYTE * len && self.summary.events <= EVENTS + EVENTS_PER_BYTE * len;
        is_bounded.then_some(()).ok_or(Corrupt("holds far more than a recording of its size"))
    }

    /// Reports what a chunk of events did not give.
    fn judge(
        &mut self,
        chunk: &ChunkHeader,
        given: u64,
        told: u64,
        outcome: Result<(), Corrupt>,
        sink: &mut dyn FnMut(&Event),
    ) {
        match outcome {
            Err(Corrupt(why)) => {
                self.damage(why);
                self.lose(chunk, told, sink);
            }
            Ok(()) if told != u64::from(chunk.events) => {
                self.damage("has a chunk with another number of events than it says");
                if told < u64::from(chunk.events) {
                    self.lose(chunk, told, sink);
                }
            }
            Ok(()) if told > given => {
                let unknown = told - given;
                self.damage(&format!("has events of kinds that this holdup does not know ({unknown} of them)"));
            }
            Ok(()) => {}
        }
    }

    fn ending(&mut self, chunk: &ChunkHeader, stored: &[u8]) {
        let mut buffer = Vec::new();
        let ending = chunk
            .unpack(stored, &mut buffer)
            .and_then(|json| serde_json::from_slice::<Ending>(json).map_err(|_| NO_ENDING));
        match ending {
            Ok(ending) => self.summary.ending = Some(ending),
            Err(Corrupt(why)) => self.damage(why),
        }
    }

    /// What a chunk did not give is lost, at its latest moment.
    fn lose(&mut self, chunk: &ChunkHeader, given: u64, sink: &mut dyn FnMut(&Event)) {
        if chunk.kind == chunk_kind::EVENTS {
            self.last_ns = self.last_ns.max(chunk.last_ns);
            self.lost(chunk.last_ns, u64::from(chunk.events).saturating_sub(given).max(1), sink);
        }
    }

    fn lost(&mut self, time_ns: u64, count: u64, sink: &mut dyn FnMut(&Event)) {
        self.summary.events += 1;
        sink(&Event { time_ns, tid: Tid(0), cpu: NO_CPU, what: What::Lost { count } });
    }

    fn damage(&mut self, why: &str) {
        if self.summary.damage.len() < MAX_DAMAGE {
            self.summary.damage.push(Damage { at: self.at as u64, why: why.to_owned() });
        } else {
            self.more_damage += 1;
        }
    }
}

const CUT: &str = "ends within a chunk";
const NO_ENDING: Corrupt = Corrupt("has a damaged end");
