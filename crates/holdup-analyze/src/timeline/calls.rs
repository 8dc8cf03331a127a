//! What threads that block wait for, by their system calls: the numbers of each machine.

use holdup_trace::{Blocked, CallNumber, Numbering, Purpose};

pub(super) use holdup_trace::CallKind;

use crate::facts::{Primitive, Reason};

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

    /// What a thread waits for that was found blocked: the call it is in, the kernel's function, and what its
    /// descriptor is. `None` if other events tell of it.
    pub(super) fn reason(self, found: &Blocked) -> Option<Reason> {
        let wchan = found.wchan.as_deref().unwrap_or_default();
        let on_device = DEVICE.iter().any(|function| wchan.starts_with(function));
        let file = found.file.as_deref();
        let by_peer = file.is_some_and(|file| PEERS.iter().any(|kind| file.starts_with(kind)));
        let Some(nr) = found.nr else {
            let locked = wchan.contains("rwsem") || wchan.contains("lock_mm") || wchan.contains("vma");
            return Some(if locked { Reason::Memory } else { Reason::PageFault });
        };
        if Some(nr) == self.0.futex() {
            return None;
        }
        Some(match (self.kind(nr), self.0.purpose(nr)) {
            (CallKind::Sleep, _) => Reason::Sleep,
            (CallKind::Poll, _) => Reason::Poll,
            (CallKind::Child, _) => Reason::Child,
            (CallKind::Io, _) => Reason::Io,
            (CallKind::Lock, _) => Reason::Futex(Primitive::FileLock),
            (CallKind::Yield, _) => Reason::Yielded,
            _ if on_device => Reason::Io,
            // A lock of the file, which another thread has that writes.
            (_, Some(Purpose::Transfer)) if FILE_LOCKS.iter().any(|part| wchan.contains(part)) => Reason::OtherCall,
            // A new thread gets the recorder's events: what recording costs is no doing of the program's.
            (_, Some(Purpose::Start)) => Reason::Displaced,
            (_, Some(Purpose::Memory)) => Reason::Memory,
            (_, Some(Purpose::Transfer)) if by_peer || wchan.contains("pipe") => Reason::Peer,
            (_, Some(Purpose::Transfer)) if file.is_some() || found.deep => Reason::Io,
            (_, Some(Purpose::Transfer | Purpose::Peer)) => Reason::Peer,
            _ if found.deep => Reason::Io,
            _ => Reason::OtherCall,
        })
    }
}

/// Functions of the kernel that wait for a device.
const DEVICE: &[&str] = &["io_schedule", "folio_wait", "wait_on_", "blk_mq", "jbd2_", "rq_qos"];
/// Functions of the kernel that wait for the lock of a file.
const FILE_LOCKS: &[&str] = &["fdget_pos", "rwsem_down_", "buffered_write_iter", "inode_lock"];
/// What is behind a descriptor whose other end is a thread or a process.
const PEERS: &[&str] = &["pipe:", "socket:", "anon_inode:", "/dev/pts", "/dev/tty"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_thread_waits_for_what_its_call_and_its_file_say() {
        let found = |nr, wchan: &str, file: Option<&str>, deep| {
            let found = Blocked {
                nr: Some(CallNumber(nr)),
                wchan: Some(wchan.into()),
                file: file.map(Into::into),
                deep,
                addr: 0,
                stack: None,
            };
            Calls::of("x86_64").reason(&found)
        };
        assert_eq!(found(0, "anon_pipe_read", Some("pipe:[7]"), false), Some(Reason::Peer));
        assert_eq!(found(0, "folio_wait_bit_common", Some("/var/log/app"), true), Some(Reason::Io));
        assert_eq!(found(1, "jbd2_log_wait_commit", Some("/var/log/app"), true), Some(Reason::Io));
        assert_eq!(found(1, "fdget_pos", Some("/var/log/app"), true), Some(Reason::OtherCall));
        assert_eq!(found(1, "ext4_buffered_write_iter", Some("/var/log/app"), true), Some(Reason::OtherCall));
        assert_eq!(found(9, "vm_mmap_pgoff", None, true), Some(Reason::Memory));
        assert_eq!(found(75, "jbd2_log_wait_commit", Some("/db/wal"), true), Some(Reason::Io));
        assert_eq!(found(45, "sk_wait_data", Some("socket:[9]"), false), Some(Reason::Peer));
        assert_eq!(found(202, "futex_wait_queue", None, false), None);
        assert_eq!(found(16, "some_ioctl", None, false), Some(Reason::OtherCall));
        let fault = |wchan: &str| {
            let found = Blocked { wchan: Some(wchan.into()), ..Blocked::default() };
            Calls::of("x86_64").reason(&found)
        };
        assert_eq!(fault("lock_mm_and_find_vma"), Some(Reason::Memory));
        assert_eq!(fault("folio_wait_bit_common"), Some(Reason::PageFault));
    }
}
