//! What reading binaries may cost. They are other people's files: a few bytes of them can stand for gigabytes of line
//! information, for millions of units that all mean one table, or for long names that share their ends.
//!
//! What libraries do with such bytes cannot be stopped on its way, so it is counted before they see them, for all
//! binaries of a recording together: in bytes of memory, and in steps of work. What would cost more than is left is not
//! read: addresses then have the names of the symbol table, and no lines.

use std::cell::Cell;

/// Memory that may be spent before any file was read, and more for each byte of a file.
const BYTES: u64 = 512 << 20;
const BYTES_PER_BYTE: u64 = 4;
/// Steps of some nanoseconds each, likewise.
const STEPS: u64 = 64 << 20;
const STEPS_PER_BYTE: u64 = 1;

/// What may still be spent on the binaries of a recording.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes: Cell<u64>,
    steps: Cell<u64>,
}

/// There is not as much left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooMuch;

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { bytes: Cell::new(BYTES), steps: Cell::new(STEPS) }
    }
}

impl Allowance {
    /// A file was read, which took time and memory of its own: it allows more.
    pub(super) fn read(&self, file_bytes: usize) {
        let add = |to: &Cell<u64>, per_byte| to.set(to.get().saturating_add(per_byte * file_bytes as u64));
        add(&self.bytes, BYTES_PER_BYTE);
        add(&self.steps, STEPS_PER_BYTE);
    }

    /// Takes memory.
    pub(super) fn bytes(&self, wanted: u64) -> Result<(), TooMuch> {
        take(&self.bytes, wanted)
    }

    /// Takes time.
    pub(super) fn steps(&self, wanted: u64) -> Result<(), TooMuch> {
        take(&self.steps, wanted)
    }

    /// Takes the time that it takes to look through a text.
    pub(super) fn text(&self, len: usize) -> Result<(), TooMuch> {
        self.steps(4 + len as u64 / 8)
    }
}

/// What is too much for one leaves the rest to others.
fn take(from: &Cell<u64>, wanted: u64) -> Result<(), TooMuch> {
    from.set(from.get().checked_sub(wanted).ok_or(TooMuch)?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_with_its_modules_is_within_reach() {
        // CPython 3.13 as pyenv builds it: what its own units and those of a dozen modules are counted as.
        let allowance = Allowance::default();
        for (file_bytes, counted) in [(31 << 20, 190 << 20), (4 << 20, 40 << 20), (1 << 20, 10 << 20)] {
            allowance.read(file_bytes);
            assert_eq!(allowance.bytes(counted), Ok(()));
        }
        assert_eq!(allowance.bytes(1 << 30), Err(TooMuch));
    }
}
