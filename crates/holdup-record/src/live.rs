//! A recording into memory, of which others take the last stretch whenever they want.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use holdup_trace::{Ending, Event, Excerpt, Header, Recent, Room, Stack, StackId};

use crate::tally::{Tally, Totals};

/// A recording that is kept in memory: one thread records into it ([`crate::record_live`]), others look.
#[derive(Debug)]
pub struct Live {
    room: Room,
    /// A wait on a futex is told of if it lasts longer.
    long_ns: u64,
    kept: Mutex<Option<Kept>>,
}

#[derive(Debug)]
struct Kept {
    recent: Recent,
    tally: Tally,
}

/// What is kept at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first moment.
    pub first_ns: u64,
    /// The moment of the last event.
    pub last_ns: u64,
    /// Bytes of memory.
    pub bytes: usize,
}

impl Live {
    /// Nothing is recorded yet. Waits on a futex that last longer than `long_ns` will be told of one by one.
    pub fn new(room: Room, long_ns: u64) -> Live {
        Live { room, long_ns, kept: Mutex::new(None) }
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is kept; `None` before anything is.
    pub fn extent(&self) -> Option<Extent> {
        let kept = self.kept();
        let recent = &kept.as_ref()?.recent;
        Some(Extent { first_ns: recent.first_ns(), last_ns: recent.last_ns(), bytes: recent.bytes() })
    }

    /// A whole file of what happened since this moment, or a little longer, as far as it is kept; `None` before the
    /// recording has begun.
    ///
    /// # Errors
    /// It does not fit into the form of a file.
    pub fn recording(&self, since_ns: u64, ending: &Ending) -> Option<io::Result<Excerpt>> {
        let mut kept = self.kept();
        kept.as_mut().map(|kept| kept.recent.recording(since_ns, ending))
    }

    /// What has happened since the last call; `None` before the recording has begun.
    pub fn totals(&self) -> Option<Totals> {
        let mut kept = self.kept();
        let Kept { recent, tally } = kept.as_mut()?;
        Some(tally.take(recent.last_ns()))
    }

    /// Begins to keep: whoever records gives the header first, then stacks and events in order of time.
    ///
    /// # Errors
    /// The header is too large for a file.
    pub fn begin(&self, header: &Header) -> io::Result<()> {
        let recent = Recent::new(header, self.room)?;
        *self.kept() = Some(Kept { recent, tally: Tally::new(self.long_ns, header.began_ns) });
        Ok(())
    }

    /// The number by which events name a stack, until [`Live::forget_stacks`] has been true.
    pub fn stack(&self, stack: &Stack) -> StackId {
        self.kept().as_mut().map_or(StackId(u32::MAX), |kept| kept.recent.stack(stack))
    }

    /// Adds an event.
    ///
    /// # Errors
    /// Those of a writer; memory has none.
    pub fn event(&self, event: &Event) -> io::Result<()> {
        let mut kept = self.kept();
        let Some(Kept { recent, tally }) = kept.as_mut() else { return Ok(()) };
        tally.note(event);
        recent.event(event)
    }

    /// Whether stacks were forgotten: whoever remembers their numbers asks for new ones.
    pub fn forget_stacks(&self) -> bool {
        self.kept().as_mut().is_some_and(|kept| kept.recent.forget_stacks())
    }
}
