//! Which system calls block by their nature, and what for: the numbers of each machine.

use holdup_trace::{CallNumber, Numbering};

pub(super) use holdup_trace::CallKind;

/// The kinds of one machine's calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls(Numbering);

impl Calls {
    /// Those of an architecture, by its name in Rust; one whose numbers are not known has only calls of kind `Other`.
    pub(super) fn of(arch: &str) -> Calls {
        Calls(Numbering::of(arch))
    }

    pub(super) fn kind(self, nr: CallNumber) -> CallKind {
        self.0.blocking(nr).map_or(CallKind::Other, |call| call.kind)
    }
}
