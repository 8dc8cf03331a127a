//! The waist of holdup: what a recording can say ([`Event`]), about whom, and the file that keeps it.
//!
//! Producers (`holdup-record`, importers, a simulator) state facts in this vocabulary; only `holdup-analyze` interprets
//! them. The crate opens no file and knows no operating system: it writes to an [`std::io::Write`] and reads from
//! bytes.
#![forbid(unsafe_code)]

mod call;
mod event;
mod file;
mod header;
pub mod json;
mod stack;

pub use call::{BLOCKING_CALLS, BlockingCall, CallKind, Numbering, Purpose};
pub use event::{
    Blocked, CODE_OF_JAVA, CallNumber, Counter, Event, FutexOp, Interpreted, InterpretedFrame, LockFigures, Mapping,
    NO_CPU, OffCpu, Pid, Pointers, Spread, TaskGroup, TaskState, Tasks, ThreadUsage, Tid, What,
};
pub use file::{Damage, Excerpt, OpenError, Reader, Recent, Room, Summary, Writer};
pub use header::{Capabilities, Ending, Header, Machine, Target, Trigger};
pub use stack::{Registers, Stack, StackId, Stacks, Word};
