//! A sample with its registers, as the engine keeps it.

use holdup_trace::Pointers;

use super::ids::ThreadId;
use crate::names::SpaceId;

/// Where registers of a thread pointed to at a sample.
#[derive(Clone, Debug)]
pub(super) struct Touch {
    pub time_ns: u64,
    pub thread: ThreadId,
    pub cpu: u16,
    pub space: SpaceId,
    pub found: Box<Pointers>,
}
