//! The file of a recording: written in chunks, read from bytes. docs/trace-format.md describes it.
//!
//! ```text
//! Writer ──► encode ──► layout (chunk header, checksum, LZ4) ──► bytes ──► layout ──► decode ──► Reader's sink
//!              └── stack_code                                                  stack_code ──┘
//! ```

mod bytes;
mod checksum;
mod decode;
mod encode;
mod foreign;
mod layout;
mod reader;
mod recent;
mod stack_code;
mod standing;
#[cfg(test)]
mod tests;
mod writer;

use std::fmt;

pub use reader::Reader;
pub use recent::{Excerpt, Recent, Room};
pub use writer::Writer;

use crate::Ending;

/// What [`Reader::read`] met.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    /// The end, if it was written.
    pub ending: Option<Ending>,
    /// Events given.
    pub events: u64,
    /// Bytes of all chunks of events before compression.
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
    /// They do not begin as a recording does; what they look like instead, where it is known (perf.data, gzip, ELF
    /// ...).
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
            OpenError::Short => f.write_str("the recording ends within its header: nothing can be read from it"),
            OpenError::Damaged => f.write_str("the header of the recording is damaged"),
            OpenError::Newer { version, known } => {
                write!(f, "the recording has format {version}, this holdup reads up to {known}")
            }
        }
    }
}

impl std::error::Error for OpenError {}
