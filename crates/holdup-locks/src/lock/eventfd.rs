//! An auto-reset event: an `eventfd` that is 1 when the lock is free; reading resets it.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock. That is
//! the kind of lock that the Win32 mutex is; the difference to a lock in user space is what it is here to show.
//!
//! | state | meaning |
//! |---|---|
//! | counter 1 | free |
//! | counter 0 | held; readers sleep in the kernel |
//!
//! Invariants: those of kernel.rs, and
//! 1. Only the holder writes, and it writes 1 to a counter that is 0; so one read succeeds per release.
//! 2. The kernel takes and gives under its own lock; a lost wake-up would be the kernel's.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides (the kernel's own locks); nothing of ours orders the section.
//! `mutual_exclusion` in tests/conformance.rs holds it.
//!
//! Source: eventfd(2); the auto-reset event of Win32, with which Hart (1998) compares mutexes.

use super::kernel::{Kind, Object, broken, token_lock};
use crate::sys::object::{self as kernel};
use crate::sys::{DeadlineNs, SysError, Taken, now_ns};

token_lock! {
    /// Auto-reset event of the kernel: every acquisition and release is a system call. 24 bytes.
    ///
    /// ```
    /// use holdup_locks::{EventFd, Mutex};
    ///
    /// let value = Mutex::<EventFd, u32>::new(1);
    /// *value.lock() += 1;
    /// assert_eq!(*value.lock(), 2);
    /// ```
    ///
    /// # Cost
    /// One system call to take and one to release, whether anybody waits or not, and a file descriptor from first use
    /// until it is dropped.
    ///
    /// Measured: uncontended 22.7, tight 14.3 of pthread's time ([table](crate#measured)).
    ///
    /// # When not to use it
    /// Whenever a lock in user space will do: [`Adaptive`](crate::Adaptive) makes system calls only to sleep and to
    /// wake. It is here because the Win32 mutex is of this kind, and for a lock that a child shares with its parent, if
    /// it was used before the fork.
    ///
    /// # Errors
    /// If the object cannot be made (too many open files), the lock silently works as [`Futex`](crate::Futex);
    /// [`EventFd::create`] tells. Before Linux 5.8 `try_lock` and the timed tries never succeed.
    ///
    /// # Source
    /// eventfd(2); the auto-reset event of Win32, with which Hart (1998) compares mutexes.
    EventFd, "eventfd",
    call: "eventfd", make: || kernel::event_new(false), free: kernel::close,
    take: kernel::event_take, try: kernel::event_try, give: kernel::event_give, readable: core::convert::identity
}
