//! The kernel: to sleep and to wake, the time, the thread's number. No call here is a cancellation point or sets
//! `errno` for good.

use std::arch::asm;
use std::ptr;
use std::sync::atomic::AtomicU32;

use libc::{c_char, c_int, c_long, clockid_t, timespec};

/// One system call, without the C library, which would set `errno`.
///
/// # Safety
/// The arguments are as that system call requires.
#[inline]
pub unsafe fn call(number: c_long, args: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller's promise; the kernel changes these registers only.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") args[0],
            in("rsi") args[1],
            in("rdx") args[2],
            in("r10") args[3],
            in("r8") args[4],
            in("r9") args[5],
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    result
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// By a waker or a signal.
    BySomebody,
    /// It did not sleep: the word had another value.
    Changed,
    /// The time was up.
    TimedOut,
    /// The time is not one.
    Invalid,
}

/// Until when to sleep.
#[derive(Clone, Copy)]
pub enum Until {
    /// Until somebody wakes.
    Woken,
    /// For so many nanoseconds.
    Ns(u64),
    /// Until a moment on one of the two clocks that futexes know.
    Moment(clockid_t, timespec),
}

/// Sleeps while the word has this value.
pub fn sleep(word: &AtomicU32, value: u32, until: Until) -> Woken {
    let bitset = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    let (operation, time) = match until {
        Until::Woken => (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, None),
        Until::Ns(ns) => (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, Some(duration(ns))),
        Until::Moment(libc::CLOCK_REALTIME, moment) => (bitset | libc::FUTEX_CLOCK_REALTIME, Some(moment)),
        Until::Moment(_, moment) => (bitset, Some(moment)),
    };
    let time = time.as_ref().map_or(0, |time| ptr::from_ref(time) as usize);
    let every = u32::MAX as usize;
    let args = [ptr::from_ref(word) as usize, operation as usize, value as usize, time, 0, every];
    // SAFETY: the word is one, and the time, if any, lives until the call returns.
    let result = unsafe { call(libc::SYS_futex, args) };
    match -(result as c_int) {
        libc::EAGAIN => Woken::Changed,
        libc::ETIMEDOUT => Woken::TimedOut,
        libc::EINVAL => Woken::Invalid,
        _ => Woken::BySomebody,
    }
}

/// Wakes one that sleeps on the word, whose memory may be gone: then nobody sleeps there.
pub fn wake_one(word: *const AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the kernel only looks for sleepers with that address.
    unsafe { call(libc::SYS_futex, [word as usize, operation as usize, 1, 0, 0, 0]) };
}

/// Whether there is memory to be read at the address of a word.
pub fn can_read(word: *const AtomicU32) -> bool {
    let operation = libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG;
    let none = duration(0);
    let args = [word as usize, operation as usize, 0, ptr::from_ref(&none) as usize, 0, 0];
    // SAFETY: the kernel looks at the word, which may be nowhere, and does not sleep for a time of 0.
    let result = unsafe { call(libc::SYS_futex, args) } as c_int;
    result == -libc::EAGAIN || result == -libc::ETIMEDOUT
}

/// The time on a clock.
#[inline]
pub fn now(clock: clockid_t) -> timespec {
    let mut time = duration(0);
    // SAFETY: the structure is there to be written.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time
}

/// Nanoseconds on CLOCK_MONOTONIC.
#[inline]
pub fn now_ns() -> u64 {
    let time = now(libc::CLOCK_MONOTONIC);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

fn duration(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// Opens a file; a negative number if that fails.
///
/// # Safety
/// The path ends with 0.
pub unsafe fn open(path: *const c_char, flags: c_int, mode: u32) -> c_int {
    let args = [libc::AT_FDCWD as usize, path as usize, flags as usize, mode as usize, 0, 0];
    // SAFETY: the caller's promise.
    unsafe { call(libc::SYS_openat, args) as c_int }
}

/// Reads from a file; how many bytes, or a negative number.
pub fn read(file: c_int, into: &mut [u8]) -> isize {
    // SAFETY: the buffer is as large as it says.
    unsafe { call(libc::SYS_read, [file as usize, into.as_mut_ptr() as usize, into.len(), 0, 0, 0]) }
}

/// Closes a file.
///
/// # Safety
/// It is the caller's.
pub unsafe fn close(file: c_int) {
    // SAFETY: the caller's promise.
    unsafe { call(libc::SYS_close, [file as usize, 0, 0, 0, 0, 0]) };
}

/// The calling thread's number.
pub fn gettid() -> u32 {
    // SAFETY: always sound.
    unsafe { call(libc::SYS_gettid, [0; 6]) as u32 }
}

/// Gives the process's futexes a table of so many slots, or the one that all processes share for 0. Where the kernel
/// has no such tables, nothing happens; whoever asks finds that out before.
pub fn set_futex_hash(slots: u32) {
    const PR_FUTEX_HASH: usize = 78;
    const SET_SLOTS: usize = 1;
    // SAFETY: plain numbers.
    unsafe { call(libc::SYS_prctl, [PR_FUTEX_HASH, SET_SLOTS, slots as usize, 0, 0, 0]) };
}

/// The process's number.
pub fn getpid() -> u32 {
    // SAFETY: always sound.
    unsafe { call(libc::SYS_getpid, [0; 6]) as u32 }
}

/// Whether a thread of this process has that number.
pub fn thread_lives(tid: u32) -> bool {
    // SAFETY: signal 0 is only asked for, never sent.
    unsafe { call(libc::SYS_tgkill, [getpid() as usize, tid as usize, 0, 0, 0, 0]) == 0 }
}
