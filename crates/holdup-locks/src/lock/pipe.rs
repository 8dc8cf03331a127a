//! A byte in a pipe: whoever reads it holds the lock and writes it back.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock. That is the
//! kind of lock that the Win32 mutex is; the difference to a lock in user space is what it is here to show.
//!
//! | state | meaning |
//! |---|---|
//! | one byte in the pipe | free |
//! | pipe empty | held; readers sleep in the kernel |
//!
//! Invariants: those of kernel.rs, and
//! 1. There is one byte, written at the start and by the holder; so one read succeeds per release.
//! 2. The kernel takes and gives under its own lock; a lost wake-up would be the kernel's.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides (the kernel's own locks); nothing of ours orders the section.
//! `mutual_exclusion` in tests/conformance.rs holds it.
//!
//! Source: the token in a pipe, as in GNU make's job server; pipe(7).
//!
//! Cost: 25 to 60 times a lock in user space when free (0.5 us against 12 ns where it was written). Holds file descriptors from first use until it is dropped. A
//! forked child shares the object with its parent: the lock then excludes across both. If the object cannot be made (too many open
//! files), the lock silently works as `Futex`; ask [`Pipe::create`] to know. Try and timed try need Linux 5.8 and never succeed before.

use super::kernel::{Kind, Object, broken, token_lock};
use crate::sys::object::{self as kernel};
use crate::sys::{DeadlineNs, SysError, Taken, now_ns};

token_lock! {
    /// Token in a pipe: every acquisition and release is a system call. 24 bytes, two descriptors.
    Pipe, "pipe",
    call: "pipe2", make: kernel::pipe_new, free: kernel::pipe_free,
    take: kernel::pipe_take, try: kernel::pipe_try, give: kernel::pipe_give, readable: kernel::read_end
}
