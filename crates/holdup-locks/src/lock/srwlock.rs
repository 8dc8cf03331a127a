//! `SRWLOCK`, the slim reader-writer lock of Windows, taken for writing only.
//!
//! | word, written by the system | `held` | meaning |
//! |---|---|---|
//! | 0 | no | free |
//! | else | yes, a moment later | held; or released and about to wake one |
//!
//! Invariants:
//! 1. The system admits one writer at a time; `held` is written by the holder alone. The lock cannot be asked whether
//!    it is held, so `held` says it.
//! 2. Only the thread that took it releases it, as the system demands; hence the guard cannot be sent to another
//!    thread.
//! 3. Where there is no SRWLOCK the lock is a `Futex`, always and for every thread.
//!
//! # Memory orderings
//! Taking acquires and releasing releases, by the system's contract. `held` is a hint: Relaxed. `mutual_exclusion` in
//! tests/conformance.rs holds it, under Wine.
//!
//! Source: Win32, AcquireSRWLockExclusive, since Windows Vista.

use super::futex::Futex;
use crate::sys::atomic::{AtomicBool, Ordering};
use crate::sys::{SysError, win32};

/// `SRWLOCK`, the slim reader-writer lock of Windows, taken for writing only. 24 bytes.
///
/// ```
/// use holdup_locks::{Mutex, SrwLock};
///
/// let value = Mutex::<SrwLock, u32>::new(1);
/// *value.lock() += 1;
/// assert_eq!(*value.lock(), 2);
/// ```
///
/// # Cost
/// An atomic operation each way when free, and a store. It allocates nothing.
///
/// Measured: not in the [table](crate#measured).
///
/// # When not to use it
/// Where turns matter: newcomers may pass waiters, so it starves as `Futex` does. No timed try.
///
/// # Errors
/// Where this cannot be had (another system, no handle left), the lock silently works as [`Futex`](crate::Futex);
/// [`SrwLock::create`] tells.
///
/// # Source
/// Win32, AcquireSRWLockExclusive, since Windows Vista.
pub struct SrwLock {
    slim: win32::Slim,
    held: AtomicBool,
    stand_in: Futex,
}

impl SrwLock {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { slim: win32::Slim::new(), held: AtomicBool::new(false), stand_in: Futex::new() }
    }

    /// Says whether this system has such locks.
    ///
    /// # Errors
    /// It has none; the lock then works as `Futex`.
    pub fn create(&self) -> Result<(), SysError> {
        if win32::PRESENT { Ok(()) } else { Err(SysError::new("AcquireSRWLockExclusive", 0)) }
    }

    #[inline]
    fn acquire(&self) {
        if !win32::PRESENT {
            return self.stand_in.acquire();
        }
        self.slim.take();
        self.held.store(true, Ordering::Relaxed);
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        if !win32::PRESENT {
            return self.stand_in.try_acquire();
        }
        let taken = self.slim.try_take();
        if taken {
            self.held.store(true, Ordering::Relaxed);
        }
        taken
    }

    #[inline]
    fn release(&self) {
        if !win32::PRESENT {
            return self.stand_in.release();
        }
        self.held.store(false, Ordering::Relaxed);
        self.slim.give();
    }

    fn held(&self) -> bool {
        self.held.load(Ordering::Relaxed) || self.stand_in.held()
    }
}

impl Default for SrwLock {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] SrwLock, GuardNoSend, Self::new());
check_drop!([] SrwLock, "srwlock");
