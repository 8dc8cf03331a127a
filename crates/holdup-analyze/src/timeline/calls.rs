//! Which system calls block by their nature, and what for: the numbers of each machine.

<<<<<<< HEAD
use holdup_trace::{CallNumber, Numbering};

pub(super) use holdup_trace::CallKind;
=======
use holdup_trace::{Blocked, CallNumber};

use crate::facts::Reason;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Sleep,
    Poll,
    Io,
    Child,
    Yield,
    /// Changes the address space.
    Memory,
    /// Reads or writes what its descriptor stands for.
    Transfer,
    /// Waits for another thread or process: sockets, queues, semaphores, locks of files.
    Peer,
    /// Waits on a futex, which is told of by other events.
    Futex,
    Other,
}
>>>>>>> 4186dd0 (report: the account on the first screen, --blame and --path, doubts in place of an all-clear; blocked threads are told by what they were found in)

/// The kinds of one machine's calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls(Numbering);

impl Calls {
    /// Those of an architecture, by its name in Rust; one whose numbers are not known has only calls of kind `Other`.
    pub(super) fn of(arch: &str) -> Calls {
        Calls(Numbering::of(arch))
    }

    /// What a thread waits for that was found blocked: the call it is in, the kernel's function, and what its descriptor is.
    /// `None` if other events tell of it.
    pub(super) fn reason(self, found: &Blocked) -> Option<Reason> {
        let wchan = found.wchan.as_deref().unwrap_or_default();
        let device = ["io_schedule", "folio_wait", "wait_on_", "blk_mq", "jbd2_", "rq_qos"];
        let on_device = device.iter().any(|function| wchan.starts_with(function));
        let file = found.file.as_deref();
        let by_peer = file.is_some_and(|file| {
            ["pipe:", "socket:", "anon_inode:", "/dev/pts", "/dev/tty"]
                .iter()
                .any(|kind| file.starts_with(kind))
        });
        let blocked = if found.deep { Reason::Io } else { Reason::OtherCall };
        let Some(nr) = found.nr else {
            let locked = wchan.contains("rwsem") || wchan.contains("mmap_lock") || wchan.contains("vma");
            return Some(if locked { Reason::Memory } else { Reason::PageFault });
        };
        Some(match self.kind(nr) {
            CallKind::Futex => return None,
            CallKind::Sleep => Reason::Sleep,
            CallKind::Poll => Reason::Poll,
            CallKind::Child => Reason::Child,
            CallKind::Io => Reason::Io,
            CallKind::Yield => Reason::Yielded,
            CallKind::Memory if on_device => Reason::Io,
            CallKind::Memory => Reason::Memory,
            CallKind::Peer => Reason::Peer,
            CallKind::Transfer if by_peer || wchan.contains("pipe") || wchan.contains("fifo") => Reason::Peer,
            CallKind::Transfer if file.is_some() || on_device || found.deep => Reason::Io,
            CallKind::Transfer => Reason::Peer,
            CallKind::Other if on_device => Reason::Io,
            CallKind::Other => blocked,
        })
    }

    pub(super) fn kind(self, nr: CallNumber) -> CallKind {
<<<<<<< HEAD
        self.0.blocking(nr).map_or(CallKind::Other, |call| call.kind)
=======
        let row = self.table.iter().find(|(_, numbers)| numbers.contains(&nr.0));
        row.map_or(CallKind::Other, |(kind, _)| *kind)
    }
}

const X86_64: &[(CallKind, &[u16])] = &[
    // sched_yield
    (CallKind::Yield, &[24]),
    // nanosleep, clock_nanosleep
    (CallKind::Sleep, &[35, 230]),
    // poll, select, pselect6, ppoll, epoll_wait, epoll_pwait, epoll_pwait2, accept, accept4, pause, rt_sigsuspend,
    // rt_sigtimedwait, io_getevents, io_pgetevents, io_uring_enter
    (CallKind::Poll, &[7, 23, 270, 271, 232, 281, 441, 43, 288, 34, 130, 128, 208, 333, 426]),
    // fsync, fdatasync, sync, syncfs, sync_file_range, msync
    (CallKind::Io, &[74, 75, 162, 306, 277, 26]),
    // wait4, waitid
    (CallKind::Child, &[61, 247]),
    // mmap, mprotect, munmap, brk, mremap, madvise
    (CallKind::Memory, &[9, 10, 11, 12, 25, 28]),
    // read, write, pread64, pwrite64, readv, writev, preadv, pwritev, preadv2, pwritev2, splice, sendfile, copy_file_range
    (CallKind::Transfer, &[0, 1, 17, 18, 19, 20, 295, 296, 327, 328, 275, 40, 326]),
    // connect, sendto, recvfrom, sendmsg, recvmsg, recvmmsg, semop, semtimedop, msgsnd, msgrcv, fcntl, flock, mq_timedsend,
    // mq_timedreceive
    (CallKind::Peer, &[42, 44, 45, 46, 47, 299, 65, 220, 69, 70, 72, 73, 242, 243]),
    // futex, futex_waitv, futex_wait
    (CallKind::Futex, &[202, 449, 455]),
];

/// The numbering that newer architectures share.
const GENERIC: &[(CallKind, &[u16])] = &[
    (CallKind::Yield, &[124]),
    // nanosleep, clock_nanosleep
    (CallKind::Sleep, &[101, 115]),
    // pselect6, ppoll, epoll_pwait, epoll_pwait2, accept, accept4, rt_sigsuspend, rt_sigtimedwait, io_getevents,
    // io_pgetevents, io_uring_enter
    (CallKind::Poll, &[72, 73, 22, 441, 202, 242, 133, 137, 4, 292, 426]),
    // fsync, fdatasync, sync, syncfs, sync_file_range, msync
    (CallKind::Io, &[82, 83, 81, 267, 84, 227]),
    // wait4, waitid
    (CallKind::Child, &[260, 95]),
    // brk, munmap, mremap, mmap, mprotect, madvise
    (CallKind::Memory, &[214, 215, 216, 222, 226, 233]),
    // read, write, readv, writev, pread64, pwrite64, preadv, pwritev, sendfile, splice, copy_file_range
    (CallKind::Transfer, &[63, 64, 65, 66, 67, 68, 69, 70, 71, 76, 285]),
    // connect, sendto, recvfrom, sendmsg, recvmsg, semtimedop, semop, msgrcv, msgsnd, fcntl, flock, mq_timedsend, mq_timedreceive
    (CallKind::Peer, &[203, 206, 207, 211, 212, 192, 193, 188, 189, 25, 32, 182, 183]),
    // futex, futex_waitv, futex_wait
    (CallKind::Futex, &[98, 449, 455]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_its_numbers() {
        let kinds = |arch| [24, 124, 35, 101].map(|nr| Calls::of(arch).kind(CallNumber(nr)));
        use CallKind::*;
        assert_eq!(kinds("x86_64"), [Yield, Other, Sleep, Other]);
        assert_eq!(kinds("aarch64"), [Other, Yield, Other, Sleep]);
        assert_eq!(kinds("m68k"), [Other; 4]);
    }

    #[test]
    fn no_number_has_two_kinds() {
        for table in [X86_64, GENERIC] {
            let mut numbers: Vec<u16> =
                table.iter().flat_map(|(_, numbers)| numbers.iter().copied()).collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), count);
        }
>>>>>>> 4186dd0 (report: the account on the first screen, --blame and --path, doubts in place of an all-clear; blocked threads are told by what they were found in)
    }
}
