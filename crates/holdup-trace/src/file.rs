//! The file of a recording: written in chunks, read from bytes.

use std::fmt;
use std::io::{self, Write};

use crate::{Ending, Event, Header, Stack, StackId, Stacks};

/// Writes a recording. What was flushed survives the death of the writer.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    stacks: Stacks,
}

impl<W: Write> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// `out` does not take the header.
    pub fn new(out: W, _header: &Header) -> io::Result<Self> {
        Ok(Writer { out, stacks: Stacks::new() })
    }

    /// The number by which events of this recording name a stack.
    pub fn stack(&mut self, stack: &Stack) -> StackId {
        self.stacks.intern(stack)
    }

    /// Adds an event; events come in order of time.
    ///
    /// # Errors
    /// A chunk was full and `out` does not take it.
    pub fn event(&mut self, _event: &Event) -> io::Result<()> {
        Ok(())
    }

    /// Ends the chunk under way, so that a reader sees all events up to here.
    ///
    /// # Errors
    /// `out` does not take it.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Bytes written to `out` so far.
    pub fn written_bytes(&self) -> u64 {
        0
    }

    /// Writes the end.
    ///
    /// # Errors
    /// `out` does not take it.
    pub fn finish(self, _ending: &Ending) -> io::Result<W> {
        Ok(self.out)
    }
}

/// Reads a recording from its bytes.
#[derive(Debug)]
pub struct Reader<'a> {
    _bytes: &'a [u8],
    header: Header,
}

impl<'a> Reader<'a> {
    /// Looks at the beginning.
    ///
    /// # Errors
    /// These bytes are not a recording, or one that this version cannot read.
    pub fn open(bytes: &'a [u8]) -> Result<Self, OpenError> {
        Ok(Reader { _bytes: bytes, header: Header::default() })
    }

    /// What the recording says about itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Gives every event to `sink`, in order of the file; their stacks are put into `stacks`, under numbers of that table, before the
    /// events that name them. What cannot be read is passed over and reported.
    pub fn read(&self, _stacks: &mut Stacks, _sink: &mut dyn FnMut(&Event)) -> Summary {
        Summary::default()
    }
}

/// What [`Reader::read`] met.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The end, if it was written.
    pub ending: Option<Ending>,
    /// Events given.
    pub events: u64,
    /// Bytes of all chunks before compression.
    pub uncompressed_bytes: u64,
    /// What could not be read, in order.
    pub damage: Vec<Damage>,
}

/// A part of a file that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where in the file, in bytes from its beginning.
    pub at: u64,
    /// Why, as the end of a sentence that begins with "the recording ...".
    pub why: String,
}

/// Why bytes are not a recording that this version can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// They do not begin as a recording does; what they look like instead, where it is known (perf.data, gzip, ELF ...).
    Foreign {
        /// What they look like.
        looks_like: Option<&'static str>,
    },
    /// There is not even a whole header.
    Short,
    /// The header is damaged.
    Damaged,
    /// A newer holdup wrote it, in a version that changed the meaning of what is there.
    Newer {
        /// The version of the file.
        version: u32,
        /// The version that can be read.
        known: u32,
    },
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Foreign { looks_like: Some(what) } => {
                write!(f, "this is {what}, not a holdup recording")
            }
            OpenError::Foreign { looks_like: None } => f.write_str("this is not a holdup recording"),
            OpenError::Short => {
                f.write_str("the recording ends within its header: nothing can be read from it")
            }
            OpenError::Damaged => f.write_str("the header of the recording is damaged"),
            OpenError::Newer { version, known } => {
                write!(f, "the recording has format {version}, this holdup reads up to {known}")
            }
        }
    }
}

impl std::error::Error for OpenError {}
