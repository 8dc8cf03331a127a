//! Which system calls block by their nature, and what for: the numbers of each machine.

use holdup_trace::CallNumber;

/// What a call waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallKind {
    Sleep,
    Poll,
    Io,
    Child,
    Yield,
    Other,
}

/// The kinds of one machine's calls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Calls {
    table: &'static [(CallKind, &'static [u16])],
}

impl Calls {
    /// The table of an architecture, by its name in Rust; one without a known table has only calls of kind `Other`.
    pub(super) fn of(arch: &str) -> Calls {
        let table = match arch {
            "x86_64" => X86_64,
            "aarch64" | "riscv64" | "loongarch64" => GENERIC,
            _ => &[],
        };
        Calls { table }
    }

    pub(super) fn kind(self, nr: CallNumber) -> CallKind {
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
    }
}
