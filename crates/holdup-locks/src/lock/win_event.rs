//! An auto-reset event of Windows: set when the lock is free; waiting for it resets it.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock.
//!
//! | event | meaning |
//! |---|---|
//! | set | free |
//! | reset | held; waiters sleep in the kernel |
//!
//! Invariants: those of kernel.rs, and
//! 1. Only the holder sets the event, which is reset then; so one wait succeeds per release.
//! 2. The kernel takes and gives under its own lock; a lost wake-up would be the kernel's.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides; nothing of ours orders the section. `mutual_exclusion` in
//! tests/conformance.rs holds it, under Wine.
//!
//! Source: Win32, CreateEvent, SetEvent; compared with the mutex by Hart (1998), who found it marginally faster: there
//! is no owner to keep.

use super::handle::handle_lock;
use super::kernel::{Kind, Object, broken};
use crate::sys::atomic::{AtomicBool, Ordering};
use crate::sys::{DeadlineNs, SysError, Waited, win32};

handle_lock! {
    /// Auto-reset event of Windows: every acquisition and release is a system call. 24 bytes and a handle.
    ///
    /// ```
    /// use holdup_locks::{Mutex, WinEvent};
    ///
    /// let value = Mutex::<WinEvent, u32>::new(1);
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
    /// Between threads of one process every lock in user space is the better choice; this one is here to show the
    /// difference.
    ///
    /// # Errors
    /// Where this cannot be had (another system, no handle left), the lock silently works as [`Futex`](crate::Futex);
    /// [`WinEvent::create`] tells.
    ///
    /// # Source
    /// Win32, CreateEvent, SetEvent; Hart (1998) found it marginally faster than the mutex: there is no owner to keep.
    WinEvent, "win-event",
    call: "CreateEventW", make: win32::event_new, give: win32::event_give
}
