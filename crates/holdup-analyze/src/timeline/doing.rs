//! What a thread does, and who ended its wait, as far as an event tells.

use super::calls::CallKind;
use super::ids::{BlockId, ThreadId, WaitSiteId};
use crate::facts::Reason;

/// Who ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Waker {
    Thread(ThreadId),
    /// Nobody that is recorded.
    Outside,
    /// Nobody: the wait's time was over, or a signal ended it.
    Timeout,
}

impl Waker {
    pub(super) fn thread(self) -> Option<ThreadId> {
        match self {
            Waker::Thread(thread) => Some(thread),
            Waker::Outside | Waker::Timeout => None,
        }
    }
}

/// What a thread does, as far as it can be told before the names are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Doing {
    /// It runs on this CPU.
    Running(u16),
    /// It waits on a futex.
    Futex(WaitSiteId),
    /// It blocked, and the stack of the switch may tell for what.
    Block(BlockId),
    /// Anything that needs no names.
    Plain(Plain),
    /// It was woken (or is new) and waits for a CPU.
    Ready,
}

/// Reasons that need no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Plain {
    Sleep,
    Poll,
    Io,
    Child,
    PageFault,
    Preempted,
    Displaced,
    Yielded,
    OtherCall,
    Starting,
    Unknown,
}

impl Plain {
    pub(super) const ALL: [Plain; 11] = [
        Plain::Sleep,
        Plain::Poll,
        Plain::Io,
        Plain::Child,
        Plain::PageFault,
        Plain::Preempted,
        Plain::Displaced,
        Plain::Yielded,
        Plain::OtherCall,
        Plain::Starting,
        Plain::Unknown,
    ];

    pub(super) fn reason(self) -> Reason {
        match self {
            Plain::Sleep => Reason::Sleep,
            Plain::Poll => Reason::Poll,
            Plain::Io => Reason::Io,
            Plain::Child => Reason::Child,
            Plain::PageFault => Reason::PageFault,
            Plain::Preempted => Reason::Preempted,
            Plain::Displaced => Reason::Displaced,
            Plain::Yielded => Reason::Yielded,
            Plain::OtherCall => Reason::OtherCall,
            Plain::Starting => Reason::Starting,
            Plain::Unknown => Reason::Unknown,
        }
    }

    pub(super) fn of(kind: CallKind) -> Plain {
        match kind {
            CallKind::Sleep => Plain::Sleep,
            CallKind::Poll => Plain::Poll,
            CallKind::Io => Plain::Io,
            CallKind::Child => Plain::Child,
            _ => Plain::OtherCall,
        }
    }
}
