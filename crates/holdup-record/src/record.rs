//! What the kernel's records say that are no samples. Those of a ring and of a file are the same, but for the order of
//! their bytes.

use crate::bytes::{Bytes, Order};
use crate::kernel::{kind, misc};

/// One record of a ring or a file.
#[derive(Clone, Debug, PartialEq)]
pub enum Record<'a> {
    /// The thread got the CPU or left it.
    Switch {
        /// It left.
        out: bool,
        /// It was still able to run.
        preempted: bool,
    },
    /// A thread was made.
    Fork {
        /// The new thread.
        tid: u32,
        /// Its process.
        pid: u32,
        /// The thread that made it.
        parent: u32,
        /// The process of that.
        parent_pid: u32,
    },
    /// A thread ended.
    Exit {
        /// The thread.
        tid: u32,
        /// Its process.
        pid: u32,
    },
    /// A thread got a name.
    Comm {
        /// The thread.
        tid: u32,
        /// Its process.
        pid: u32,
        /// The name.
        name: &'a [u8],
        /// By executing a program.
        exec: bool,
    },
    /// Executable memory was mapped.
    Map {
        /// The process.
        pid: u32,
        /// The thread that mapped it.
        tid: u32,
        /// First address.
        start: u64,
        /// Bytes.
        len: u64,
        /// Place in the file, in bytes.
        offset: u64,
        /// The file.
        path: &'a [u8],
        /// Its build id.
        build_id: Option<&'a [u8]>,
    },
    /// Records that did not fit into the ring.
    Lost {
        /// How many.
        count: u64,
    },
    /// A sample of an event: what it has behind who and when.
    #[allow(dead_code, reason = "only rings are read so: an import reads samples by itself")]
    Sample(&'a [u8]),
}

impl<'a> Record<'a> {
    /// Reads a record that is no sample, without its header; `None` for those that do not matter and those that are too
    /// short for what they claim to be.
    pub fn read(kind: u32, misc: u16, body: &'a [u8], order: Order) -> Option<Record<'a>> {
        let mut body = Bytes::new(body, order);
        Some(match kind {
            kind::SWITCH | kind::SWITCH_CPU_WIDE => {
                Record::Switch { out: misc & misc::SWITCH_OUT != 0, preempted: misc & misc::SWITCH_OUT_PREEMPT != 0 }
            }
            kind::FORK => {
                let (pid, parent_pid, tid, parent) = (body.u32()?, body.u32()?, body.u32()?, body.u32()?);
                Record::Fork { tid, pid, parent, parent_pid }
            }
            kind::EXIT => {
                let (pid, _parent_pid, tid) = (body.u32()?, body.u32()?, body.u32()?);
                Record::Exit { tid, pid }
            }
            kind::COMM => {
                let (pid, tid) = (body.u32()?, body.u32()?);
                Record::Comm { tid, pid, name: body.text(), exec: misc & misc::COMM_EXEC != 0 }
            }
            kind::MMAP if misc & misc::MMAP_DATA == 0 => Self::map(&mut body, None)?,
            kind::MMAP2 => Self::map(&mut body, Some(misc & misc::MMAP_BUILD_ID != 0))?,
            kind::LOST => {
                let _event = body.u64()?;
                Record::Lost { count: body.u64()? }
            }
            kind::LOST_SAMPLES => Record::Lost { count: body.u64()? },
            _ => return None,
        })
    }

    /// A mapping; of the newer kind, whether it has a build id.
    fn map(body: &mut Bytes<'a>, newer: Option<bool>) -> Option<Record<'a>> {
        const EXECUTABLE: u32 = 4;
        let (pid, tid) = (body.u32()?, body.u32()?);
        let (start, len, offset) = (body.u64()?, body.u64()?, body.u64()?);
        let mut build_id = None;
        if let Some(has_id) = newer {
            // Either the length of a build id, padding and the id, or device and inode.
            let file = body.take(24)?;
            build_id = file.get(4..4 + usize::from(file[0]).min(20)).filter(|id| has_id && !id.is_empty());
            let (protection, _flags) = (body.u32()?, body.u32()?);
            if protection & EXECUTABLE == 0 {
                return None;
            }
        }
        Some(Record::Map { pid, tid, start, len, offset, path: body.text(), build_id })
    }
}
