//! System calls that block by their nature: one table for those who record them, import them, and say what they wait
//! for.

use crate::CallNumber;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallKind {
    /// A time.
    Sleep,
    /// Something to do: an input, a signal, a connection.
    Poll,
    /// A disk.
    Io,
    /// A process of its own.
    Child,
    /// A lock of a file.
    Lock,
    /// A semaphore of System V.
    Semaphore,
    /// Nothing: it gives the CPU away.
    Yield,
    /// Something else.
    Other,
}

/// What calls are for that do not block by their nature, but were found to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Starts or ends a thread.
    Start,
    /// Changes the address space.
    Memory,
    /// Reads or writes what its descriptor stands for.
    Transfer,
    /// Has to do with another thread or process: sockets, queues, semaphores, locks of files.
    Peer,
}

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct BlockingCall {
    /// The tracepoint at its beginning.
    pub tracepoint: &'static str,
    /// What it waits for.
    pub kind: CallKind,
    /// Whether it is among those that C, C++, Rust and Go programs use most.
    pub is_usual: bool,
    /// Its number on x86-64 (arch/x86/entry/syscalls/syscall_64.tbl).
    x86_64: u16,
    /// In the table that newer architectures share (include/uapi/asm-generic/unistd.h), if it is there.
    generic: Option<u16>,
}

/// How calls are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// As on x86-64.
    X86_64,
    /// As on newer architectures.
    Generic,
    /// In a way that is not known here: no call is told.
    Unknown,
}

impl Numbering {
    /// The numbering of an architecture, by its name in Rust and in `uname -m`.
    pub fn of(arch: &str) -> Numbering {
        match arch {
            "x86_64" => Numbering::X86_64,
            "aarch64" | "riscv64" | "loongarch64" => Numbering::Generic,
            _ => Numbering::Unknown,
        }
    }

    /// The number of `futex`.
    pub fn futex(self) -> Option<CallNumber> {
        match self {
            Numbering::X86_64 => Some(CallNumber(202)),
            Numbering::Generic => Some(CallNumber(98)),
            Numbering::Unknown => None,
        }
    }

    /// The blocking call of this number.
    pub fn blocking(self, nr: CallNumber) -> Option<&'static BlockingCall> {
        BLOCKING_CALLS.iter().find(|call| call.number(self) == Some(nr))
    }

    /// What a call with these arguments, its first two, is recorded as: a poll or select of no descriptors only lets
    /// time pass, and so is the sleep that it stands for, `clock_nanosleep`.
    pub fn recorded(self, nr: CallNumber, first: u64, second: u64) -> CallNumber {
        let of_nothing = match self.blocking(nr).map(|call| call.tracepoint) {
            Some("sys_enter_poll" | "sys_enter_ppoll") => second == 0,
            Some("sys_enter_select" | "sys_enter_pselect6") => first == 0,
            _ => false,
        };
        let sleep = || BLOCKING_CALLS.iter().find(|call| call.tracepoint == "sys_enter_clock_nanosleep")?.number(self);
        if of_nothing { sleep().unwrap_or(nr) } else { nr }
    }

    /// What a call is for that does not block by its nature.
    pub fn purpose(self, nr: CallNumber) -> Option<Purpose> {
        let table = match self {
            Numbering::X86_64 => X86_64,
            Numbering::Generic => GENERIC,
            Numbering::Unknown => &[],
        };
        table.iter().find(|(_, numbers)| numbers.contains(&nr.0)).map(|(purpose, _)| *purpose)
    }
}

impl BlockingCall {
    /// Its number.
    pub fn number(&self, numbering: Numbering) -> Option<CallNumber> {
        match numbering {
            Numbering::X86_64 => Some(CallNumber(self.x86_64)),
            Numbering::Generic => self.generic.map(CallNumber),
            Numbering::Unknown => None,
        }
    }
}

const fn usual(tracepoint: &'static str, x86_64: u16, generic: Option<u16>, kind: CallKind) -> BlockingCall {
    BlockingCall { tracepoint, kind, is_usual: true, x86_64, generic }
}

const fn call(tracepoint: &'static str, x86_64: u16, generic: Option<u16>, kind: CallKind) -> BlockingCall {
    BlockingCall { tracepoint, kind, is_usual: false, x86_64, generic }
}

/// All of them, the commonest first.
pub const BLOCKING_CALLS: &[BlockingCall] = {
    use CallKind::*;
    &[
        usual("sys_enter_epoll_wait", 232, None, Poll),
        usual("sys_enter_epoll_pwait", 281, Some(22), Poll),
        usual("sys_enter_poll", 7, None, Poll),
        usual("sys_enter_sched_yield", 24, Some(124), Yield),
        usual("sys_enter_clock_nanosleep", 230, Some(115), Sleep),
        usual("sys_enter_nanosleep", 35, Some(101), Sleep),
        call("sys_enter_ppoll", 271, Some(73), Poll),
        call("sys_enter_select", 23, None, Poll),
        usual("sys_enter_pselect6", 270, Some(72), Poll),
        call("sys_enter_epoll_pwait2", 441, Some(441), Poll),
        usual("sys_enter_fsync", 74, Some(82), Io),
        usual("sys_enter_fdatasync", 75, Some(83), Io),
        call("sys_enter_sync_file_range", 277, Some(84), Io),
        call("sys_enter_msync", 26, Some(227), Io),
        usual("sys_enter_accept4", 288, Some(242), Poll),
        call("sys_enter_accept", 43, Some(202), Poll),
        usual("sys_enter_wait4", 61, Some(260), Child),
        call("sys_enter_waitid", 247, Some(95), Child),
        call("sys_enter_io_getevents", 208, Some(4), Poll),
        call("sys_enter_io_uring_enter", 426, Some(426), Poll),
        call("sys_enter_rt_sigtimedwait", 128, Some(137), Poll),
        call("sys_enter_rt_sigsuspend", 130, Some(133), Poll),
        call("sys_enter_pause", 34, None, Poll),
        call("sys_enter_semop", 65, Some(193), Semaphore),
        usual("sys_enter_semtimedop", 220, Some(192), Semaphore),
        call("sys_enter_msgrcv", 70, Some(188), Other),
        call("sys_enter_mq_timedreceive", 243, Some(183), Other),
        usual("sys_enter_flock", 73, Some(32), Lock),
        // Of its commands, only those that wait for a lock of a file block.
        usual("sys_enter_fcntl", 72, Some(25), Lock),
        call("sys_enter_futex_waitv", 449, Some(449), Other),
        call("sys_enter_futex_wait", 455, Some(455), Other),
        call("sys_enter_io_pgetevents", 333, Some(292), Poll),
        call("sys_enter_sync", 162, Some(81), Io),
        call("sys_enter_syncfs", 306, Some(267), Io),
    ]
};

const X86_64: &[(Purpose, &[u16])] = &[
    // clone, exit, exit_group, clone3
    (Purpose::Start, &[56, 60, 231, 435]),
    // mmap, mprotect, munmap, brk, mremap, madvise
    (Purpose::Memory, &[9, 10, 11, 12, 25, 28]),
    // read, write, pread64, pwrite64, readv, writev, preadv, pwritev, preadv2, pwritev2, splice, sendfile,
    // copy_file_range
    (Purpose::Transfer, &[0, 1, 17, 18, 19, 20, 295, 296, 327, 328, 275, 40, 326]),
    // connect, sendto, recvfrom, sendmsg, recvmsg, recvmmsg, semop, semtimedop, msgsnd, msgrcv, fcntl, flock,
    // mq_timedsend, mq_timedreceive
    (Purpose::Peer, &[42, 44, 45, 46, 47, 299, 65, 220, 69, 70, 72, 73, 242, 243]),
];

/// The numbering that newer architectures share.
const GENERIC: &[(Purpose, &[u16])] = &[
    // clone, exit, exit_group, clone3
    (Purpose::Start, &[220, 93, 94, 435]),
    // brk, munmap, mremap, mmap, mprotect, madvise
    (Purpose::Memory, &[214, 215, 216, 222, 226, 233]),
    // read, write, readv, writev, pread64, pwrite64, preadv, pwritev, sendfile, splice, copy_file_range
    (Purpose::Transfer, &[63, 64, 65, 66, 67, 68, 69, 70, 71, 76, 285]),
    // connect, sendto, recvfrom, sendmsg, recvmsg, semtimedop, semop, msgrcv, msgsnd, fcntl, flock, mq_timedsend,
    // mq_timedreceive
    (Purpose::Peer, &[203, 206, 207, 211, 212, 192, 193, 188, 189, 25, 32, 182, 183]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_machine_has_its_numbers() {
        let kinds =
            |arch| [24, 124, 35, 101].map(|nr| Numbering::of(arch).blocking(CallNumber(nr)).map(|call| call.kind));
        use CallKind::*;
        assert_eq!(kinds("x86_64"), [Some(Yield), None, Some(Sleep), None]);
        assert_eq!(kinds("aarch64"), [None, Some(Yield), None, Some(Sleep)]);
        assert_eq!(kinds("m68k"), [None; 4]);
    }

    #[test]
    fn polls_of_nothing_are_sleeps() {
        let recorded = |nr, first, second| {
            let numbers = [Numbering::X86_64, Numbering::Generic].into_iter().zip(nr);
            numbers.map(|(numbering, nr)| numbering.recorded(CallNumber(nr), first, second).0).collect::<Vec<_>>()
        };
        assert_eq!(recorded([271, 73], 0x1000, 0), [230, 115]);
        assert_eq!(recorded([271, 73], 0x1000, 1), [271, 73], "a descriptor");
        assert_eq!(recorded([270, 72], 0, 0x1000), [230, 115]);
        assert_eq!(recorded([270, 72], 4, 0), [270, 72], "descriptors below 4");
        assert_eq!(recorded([232, 22], 0, 0), [232, 22], "epoll's first argument is a descriptor");
        for numbering in [Numbering::X86_64, Numbering::Generic] {
            let kind = |tracepoint: &str| BLOCKING_CALLS.iter().find(|call| call.tracepoint == tracepoint).unwrap();
            let of = |tracepoint| kind(tracepoint).number(numbering);
            let nothing = |nr: Option<CallNumber>| nr.map(|nr| numbering.recorded(nr, 0, 0));
            for call in ["sys_enter_poll", "sys_enter_ppoll", "sys_enter_select", "sys_enter_pselect6"] {
                assert_eq!(nothing(of(call)), of(call).and(of("sys_enter_clock_nanosleep")), "{call}");
            }
        }
    }

    #[test]
    fn no_number_means_two_calls() {
        for numbering in [Numbering::X86_64, Numbering::Generic] {
            let mut numbers: Vec<_> = BLOCKING_CALLS.iter().filter_map(|call| call.number(numbering)).collect();
            let count = numbers.len();
            numbers.sort_unstable();
            numbers.dedup();
            assert_eq!(numbers.len(), count);
        }
    }
}
