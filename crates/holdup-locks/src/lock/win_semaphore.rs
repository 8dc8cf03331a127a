//! A binary semaphore of Windows: 1 when the lock is free; waiting for it takes the one.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock.
//!
//! | count | meaning |
//! |---|---|
//! | 1 | free |
//! | 0 | held; waiters sleep in the kernel |
//!
//! Invariants: those of kernel.rs, and
//! 1. Only the holder adds one, to a count that is 0; so one wait succeeds per release. The kernel refuses a second
//!    one.
//! 2. The kernel takes and gives under its own lock; a lost wake-up would be the kernel's.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides; nothing of ours orders the section. `mutual_exclusion` in
//! tests/conformance.rs holds it, under Wine.
//!
//! Source: Win32, CreateSemaphore, ReleaseSemaphore; compared with the mutex by Hart (1998).

use super::handle::handle_lock;
use super::kernel::{Kind, Object, broken};
use crate::sys::atomic::{AtomicBool, Ordering};
use crate::sys::{DeadlineNs, SysError, Waited, win32};

handle_lock! {
    /// Binary semaphore of Windows: every acquisition and release is a system call. 24 bytes and a handle.
    ///
    /// ```
    /// use holdup_locks::{Mutex, WinSemaphore};
    ///
    /// let value = Mutex::<WinSemaphore, u32>::new(1);
    /// *value.lock() += 1;
    /// assert_eq!(*value.lock(), 2);
    /// ```
    ///
    /// # Cost
    /// A system call each way, whether anybody waits or not, and a handle from first use until it is dropped.
    ///
    /// Measured: not in the [table](crate#measured).
    ///
    /// # When not to use it
    /// For mutual exclusion in programs: what a semaphore can do more (counts above one, other processes) a lock does
    /// not need. Here for comparison.
    ///
    /// # Errors
    /// Where this cannot be had (another system, no handle left), the lock silently works as [`Futex`](crate::Futex);
    /// [`WinSemaphore::create`] tells.
    ///
    /// # Source
    /// Win32, CreateSemaphore, ReleaseSemaphore; compared with the mutex by Hart (1998).
    WinSemaphore, "win-semaphore",
    call: "CreateSemaphoreW", make: win32::semaphore_new, give: win32::semaphore_give
}
