//! An auto-reset event: an `eventfd` that is 1 when the lock is free; reading resets it.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock. That is the
//! kind of lock that the Win32 mutex is; the difference to a lock in user space is what it is here to show.
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
//!
//! Cost: 25 to 60 times a lock in user space when free (0.5 us against 12 ns where it was written). Holds file descriptors from first use until it is dropped. A
//! forked child shares the object with its parent: the lock then excludes across both. If the object cannot be made (too many open
//! files), the lock silently works as `Futex`; ask [`EventFd::create`] to know. Try and timed try need Linux 5.8 and never succeed before.

use super::kernel::{Kind, Object, broken, token_lock};
use crate::sys::object::{self as kernel};
use crate::sys::{DeadlineNs, SysError, Taken, now_ns};

token_lock! {
    /// Auto-reset event of the kernel: every acquisition and release is a system call. 24 bytes.
    EventFd, "eventfd",
    call: "eventfd", make: || kernel::event_new(false), free: kernel::close,
    take: kernel::event_take, try: kernel::event_try, give: kernel::event_give, readable: core::convert::identity
}
