//! A byte in a pipe: whoever reads it holds the lock and writes it back.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock. That is
//! the kind of lock that the Win32 mutex is; the difference to a lock in user space is what it is here to show.
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

use super::kernel::{Kind, Object, broken, token_lock};
use crate::sys::object::{self as kernel};
use crate::sys::{DeadlineNs, SysError, Taken, now_ns};

token_lock! {
    /// Token in a pipe: every acquisition and release is a system call. 24 bytes.
    ///
    /// ```
    /// use holdup_locks::{Pipe, Mutex};
    ///
    /// let value = Mutex::<Pipe, u32>::new(1);
    /// *value.lock() += 1;
    /// assert_eq!(*value.lock(), 2);
    /// ```
    ///
    /// # Cost
    /// One system call to take and one to release, whether anybody waits or not, and two file descriptors from first
    /// use until it is dropped.
    ///
    /// Measured: not in the [table](crate#measured).
    ///
    /// # When not to use it
    /// Whenever a lock in user space will do: [`Adaptive`](crate::Adaptive) makes system calls only to sleep and to
    /// wake. It is here because the Win32 mutex is of this kind, and for a lock that a child shares with its parent, if
    /// it was used before the fork.
    ///
    /// # Errors
    /// If the object cannot be made (too many open files), the lock silently works as [`Futex`](crate::Futex);
    /// [`Pipe::create`] tells. Before Linux 5.8 `try_lock` and the timed tries never succeed.
    ///
    /// # Source
    /// The token in a pipe, as in GNU make's job server; pipe(7).
    Pipe, "pipe",
    call: "pipe2", make: kernel::pipe_new, free: kernel::pipe_free,
    take: kernel::pipe_take, try: kernel::pipe_try, give: kernel::pipe_give, readable: kernel::read_end
}
