//! The last stretch of a recording that may go on for days, in memory of a fixed size: a ring of segments.
//!
//! A segment is some chunks in a row, as they would stand in a file, that can be read without those before: its first
//! chunk tells who lives, how they are called, what is mapped, and what each thread was doing when it began. So a file
//! that begins with any segment is a whole recording.
//!
//! ```text
//!   │ standing │ events ... │ standing │ events ... │ standing │ events ... (under way)
//!   └─ dropped when there is no room └─ a file may begin here
//! ```

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use super::standing::Standing;
use super::writer::Writer;
use crate::{Counter, Ending, Event, Header, Stack, StackId, What};

/// How much is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// What happened longer ago may be forgotten.
    pub span_ns: u64,
    /// The oldest is forgotten where all of it takes more: chunks, and an estimate of the stacks that they name.
    pub bytes: usize,
}

/// The last stretch of a recording.
#[derive(Debug)]
pub struct Recent {
    header: Header,
    room: Room,
    segments: VecDeque<Segment>,
    /// Of the segment under way, behind those of `segments`.
    writer: Writer<Vec<u8>>,
    began: Began,
    standing: Standing,
    /// Of the last event.
    last_ns: u64,
    /// Bytes of all of `segments`.
    kept_bytes: usize,
    /// Bytes of the segment under way that tell how things stood.
    standing_bytes: usize,
    lost: u64,
    recorder_cpu_ns: u64,
}

/// A stretch that can be read alone.
#[derive(Debug)]
struct Segment {
    began: Began,
    chunks: Arc<Vec<u8>>,
    /// Of these, the bytes at the beginning that tell how things stood: of use in the first segment of a file only.
    standing_bytes: usize,
}

/// How things were when a segment began.
#[derive(Clone, Copy, Debug, Default)]
struct Began {
    time_ns: u64,
    lost: u64,
    recorder_cpu_ns: u64,
}

/// A part of the span that a segment lasts, and within which limits.
const SEGMENTS: u64 = 60;
const SEGMENT_NS: std::ops::RangeInclusive<u64> = 250_000_000..=5_000_000_000;
/// Of the room, the part that stacks may take before they are forgotten.
const STACK_SHARE: usize = 5;

impl Recent {
    /// Nothing has happened yet.
    ///
    /// # Errors
    /// The header is too large for a file.
    pub fn new(header: &Header, room: Room) -> io::Result<Recent> {
        let began = Began { time_ns: header.began_ns, recorder_cpu_ns: header.start_cpu_ns, lost: 0 };
        let mut writer = Writer::new(Vec::new(), header)?;
        writer.take()?;
        Ok(Recent {
            header: header.clone(),
            room,
            segments: VecDeque::new(),
            writer,
            began,
            standing: Standing::default(),
            last_ns: header.began_ns,
            kept_bytes: 0,
            standing_bytes: 0,
            lost: 0,
            recorder_cpu_ns: header.start_cpu_ns,
        })
    }

    /// The number by which events name a stack, until [`Recent::forget_stacks`] has been true.
    pub fn stack(&mut self, stack: &Stack) -> StackId {
        self.writer.stack(stack)
    }

    /// Adds an event; they come in order of time.
    ///
    /// # Errors
    /// None that memory has; those of a writer.
    pub fn event(&mut self, event: &Event) -> io::Result<()> {
        if event.time_ns >= self.began.time_ns + self.segment_ns() && self.is_worth_a_segment(event.time_ns) {
            self.begin_segment(event.time_ns)?;
        }
        self.last_ns = self.last_ns.max(event.time_ns);
        match event.what {
            What::Lost { count } => self.lost += count,
            What::Count { counter: Counter::RecorderCpuNs, value } => self.recorder_cpu_ns = value,
            _ => {}
        }
        self.standing.note(event);
        self.writer.event(event)
    }

    fn segment_ns(&self) -> u64 {
        (self.room.span_ns / SEGMENTS).clamp(*SEGMENT_NS.start(), *SEGMENT_NS.end())
    }

    /// A program with very many threads of which few do anything: how things stand would be most of what is kept.
    fn is_worth_a_segment(&self, now_ns: u64) -> bool {
        let own = self.writer.pending_bytes() + self.writer.output().len();
        own >= 2 * self.standing_bytes || now_ns >= self.began.time_ns + 8 * self.segment_ns()
    }

    fn begin_segment(&mut self, time_ns: u64) -> io::Result<()> {
        let chunks = Arc::new(self.writer.take()?);
        self.kept_bytes += chunks.len();
        self.segments.push_back(Segment { began: self.began, chunks, standing_bytes: self.standing_bytes });
        self.began = Began { time_ns, lost: self.lost, recorder_cpu_ns: self.recorder_cpu_ns };
        for event in self.standing.events(time_ns) {
            self.writer.event(&event)?;
        }
        self.writer.flush()?;
        self.standing_bytes = self.writer.output().len();
        self.drop_oldest();
        Ok(())
    }

    /// Forgets segments that are too old, or for which there is no room.
    fn drop_oldest(&mut self) {
        let oldest_ns = self.began.time_ns.saturating_sub(self.room.span_ns);
        let room = self.room.bytes - self.room.bytes / STACK_SHARE;
        while let Some(second_ns) = self.second_ns()
            && (second_ns <= oldest_ns || self.kept_bytes > room)
            && let Some(first) = self.segments.pop_front()
        {
            self.kept_bytes -= first.chunks.len();
        }
    }

    /// When the segment behind the oldest began; `None` if there is but the one under way.
    fn second_ns(&self) -> Option<u64> {
        self.segments.front()?;
        Some(self.segments.get(1).map_or(self.began.time_ns, |second| second.began.time_ns))
    }

    /// Forgets all stacks if they take more than their part of the room; whether it did. Numbers that were given before
    /// stand for no stack from then on: whoever remembers some asks for new ones.
    pub fn forget_stacks(&mut self) -> bool {
        let full = self.writer.stacks().bytes() > self.room.bytes / STACK_SHARE;
        if full {
            let forgotten = self.writer.replace_stacks();
            self.standing.renumber(&mut |id| forgotten.get(id).map(|stack| self.writer.stack(stack)));
        }
        full
    }

    /// The first moment that is kept.
    pub fn first_ns(&self) -> u64 {
        self.segments.front().map_or(self.began.time_ns, |oldest| oldest.began.time_ns)
    }

    /// The moment of the last event.
    pub fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Bytes that chunks take, and about those that stacks take.
    pub fn bytes(&self) -> usize {
        self.kept_bytes + self.writer.output().len() + self.writer.pending_bytes() + self.writer.stacks().bytes()
    }

    /// A whole file of what happened since this moment, or a segment's length more, as far as it is kept. Of `ending`,
    /// what can be known here is filled in: what was lost, and the time that the recorder took.
    ///
    /// # Errors
    /// None that memory has; those of a writer.
    pub fn recording(&mut self, since_ns: u64, ending: &Ending) -> io::Result<Excerpt> {
        self.writer.flush()?;
        let from = self.segments.iter().rposition(|segment| segment.began.time_ns <= since_ns);
        let from = if self.began.time_ns <= since_ns { self.segments.len() } else { from.unwrap_or(0) };
        let began = self.segments.get(from).map_or(self.began, |first| first.began);
        let before_ns = began.time_ns.saturating_sub(self.header.began_ns);
        let header = Header {
            began_ns: began.time_ns,
            began_unix_s: self.header.began_unix_s + before_ns / 1_000_000_000,
            // What the recorder used is told of this stretch alone.
            start_cpu_ns: 0,
            no_counters: None,
            ..self.header.clone()
        };
        let mut file = Writer::new(Vec::new(), &header)?;
        let mut pieces = vec![(Arc::new(file.take()?), 0)];
        for (at, segment) in self.segments.iter().skip(from).enumerate() {
            // Behind the first, how things stood was told already.
            pieces.push((segment.chunks.clone(), if at == 0 { 0 } else { segment.standing_bytes }));
        }
        let is_first = pieces.len() == 1;
        file.append(&self.writer.output()[if is_first { 0 } else { self.standing_bytes }..]);
        let end = file.finish(&Ending {
            ended_ns: ending.ended_ns.max(self.last_ns),
            lost: self.lost - began.lost,
            recorder_cpu_ns: self.recorder_cpu_ns.saturating_sub(began.recorder_cpu_ns),
            ..ending.clone()
        })?;
        pieces.push((Arc::new(end), 0));
        Ok(Excerpt { pieces })
    }
}

/// A whole file of a stretch that is kept, without a copy of it: pieces that stand one behind the other. They stay as
/// they are while the recording goes on.
#[derive(Clone, Debug)]
pub struct Excerpt {
    /// With the bytes at the beginning of each that are left out.
    pieces: Vec<(Arc<Vec<u8>>, usize)>,
}

impl Excerpt {
    /// The bytes of the file, piece by piece.
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().map(|(bytes, from)| &bytes[*from..])
    }

    /// How many bytes the file has.
    pub fn bytes(&self) -> usize {
        self.pieces().map(<[u8]>::len).sum()
    }

    /// The file in one piece.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut file = Vec::with_capacity(self.bytes());
        self.pieces().for_each(|piece| file.extend_from_slice(piece));
        file
    }
}
