//! Linux: futexes with bitsets and absolute deadlines, the monotonic clock, and the objects of the kernel locks.

pub(crate) mod object;

use super::Wait;
use super::atomic::AtomicU32;

const NS_PER_S: u64 = 1_000_000_000;

pub(super) fn wait(word: &AtomicU32, expected: u32, bitset: u32, deadline: Option<u64>) -> Wait {
    let timeout = deadline.map(timespec);
    let timeout = timeout.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: FUTEX_WAIT_BITSET reads an aligned u32 that the reference keeps alive for the whole call, and a timespec
    // that is null or lives until the end of this function; the fifth argument is unused.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_futex,
            core::ptr::from_ref(word).cast::<u32>(),
            libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
            expected,
            timeout,
            core::ptr::null::<u32>(),
            bitset,
        )
    };
    if rc == 0 {
        return Wait::Woken;
    }
    match errno() {
        libc::EAGAIN => Wait::Changed,
        libc::ETIMEDOUT => Wait::TimedOut,
        libc::EINTR => Wait::Interrupted,
        // A sandbox may forbid futexes: the locks stay right, as spin locks that give the CPU away.
        _ => {
            std::thread::yield_now();
            Wait::Interrupted
        }
    }
}

pub(super) fn wake(word: *const AtomicU32, count: u32, bitset: u32) -> u32 {
    // SAFETY: a private FUTEX_WAKE_BITSET takes the address as a key and does not read through it, so it may be stale.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.cast::<u32>(),
            libc::FUTEX_WAKE_BITSET | libc::FUTEX_PRIVATE_FLAG,
            count.min(i32::MAX as u32),
            core::ptr::null::<libc::timespec>(),
            core::ptr::null::<u32>(),
            bitset,
        )
    };
    u32::try_from(rc).unwrap_or(0)
}

pub(super) fn now_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime writes one timespec, which lives here; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * NS_PER_S + now.tv_nsec as u64
}

fn timespec(ns: u64) -> libc::timespec {
    // 2^64 ns is 584 years of seconds: 64 bits take them, and 32 bits their most.
    libc::timespec { tv_sec: (ns / NS_PER_S).try_into().unwrap_or(i32::MAX.into()), tv_nsec: (ns % NS_PER_S) as _ }
}

fn errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}
