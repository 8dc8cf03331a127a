//! Three states and `WaitOnAddress`: what a program on Windows would write itself in the place of a futex mutex.
//!
//! | word | meaning |
//! |---|---|
//! | `UNLOCKED` 0 | free |
//! | `LOCKED` 1 | held, nobody sleeps |
//! | `CONTENDED` 2 | held, somebody may sleep |
//!
//! Invariants:
//! 1. Only an atomic operation that found `UNLOCKED` makes a holder.
//! 2. A waiter sleeps only on `CONTENDED`, and a thread that has waited takes the lock as `CONTENDED`: it cannot know
//!    whether others sleep.
//! 3. Whoever replaces `CONTENDED` by `UNLOCKED` wakes one, who by 2 keeps the word contended for the next.
//! 4. `WaitOnAddress` does not say why it returned, so every return is followed by a try; a waiter that gives up has
//!    tried once more after its last sleep, so a wake that it may have consumed is not lost.
//!
//! # Memory orderings
//! Acquire on every take, Release in `release`; the pair carries the section's writes (loom: `wait_on_address`, which
//! sleeps by the model's own means). `mutual_exclusion` in tests/conformance.rs holds it under Wine.
//!
//! Source: Win32, WaitOnAddress, since Windows 8; Drepper, "Futexes Are Tricky" (2011), section 6.

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{DeadlineNs, SysError, now_ns, win32};

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;
const CONTENDED: u32 = 2;

/// Three-state mutex on `WaitOnAddress`, barging: what a program on Windows writes in the place of a futex mutex. 4
/// bytes.
///
/// ```
/// use holdup_locks::{Mutex, WaitOnAddress};
///
/// let value = Mutex::<WaitOnAddress, u32>::new(1);
/// *value.lock() += 1;
/// assert_eq!(*value.lock(), 2);
/// ```
///
/// # Cost
/// A compare-exchange and an exchange when free. It sleeps on the word itself, where `Futex` on Windows keeps a table
/// of waiters in between.
///
/// Measured: not in the [table](crate#measured).
///
/// # When not to use it
/// Where turns matter: it starves as `Futex` does; use [`Adaptive`](crate::Adaptive) or [`Fair`](crate::Fair).
///
/// # Errors
/// On another system the lock sleeps by that system's own means; [`WaitOnAddress::create`] tells.
///
/// # Source
/// Win32, WaitOnAddress, since Windows 8; Drepper, "Futexes Are Tricky" (2011), section 6.
pub struct WaitOnAddress {
    word: AtomicU32,
}

impl WaitOnAddress {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(UNLOCKED) }
    }

    /// Says whether this system has the call.
    ///
    /// # Errors
    /// It has none; the lock then sleeps by the system's own means.
    pub fn create(&self) -> Result<(), SysError> {
        if win32::PRESENT { Ok(()) } else { Err(SysError::new("WaitOnAddress", 0)) }
    }

    #[inline]
    fn acquire(&self) {
        if !self.try_acquire() {
            self.acquire_contended(None);
        }
    }

    fn acquire_until(&self, deadline: DeadlineNs) -> bool {
        self.acquire_contended(Some(deadline))
    }

    #[cold]
    fn acquire_contended(&self, deadline: Option<DeadlineNs>) -> bool {
        while self.word.swap(CONTENDED, Ordering::Acquire) != UNLOCKED {
            if deadline.is_some_and(|deadline| now_ns() >= deadline) {
                return false;
            }
            win32::address_wait(&self.word, CONTENDED, deadline);
        }
        true
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.word.compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn release(&self) {
        if self.word.swap(UNLOCKED, Ordering::Release) == CONTENDED {
            win32::address_wake(&self.word);
        }
    }

    #[inline]
    fn held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != UNLOCKED
    }
}

impl Default for WaitOnAddress {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] WaitOnAddress, GuardNoSend, Self::new());
raw_mutex_timed!([] WaitOnAddress);
check_drop!([] WaitOnAddress, "wait-on-address");
modelled!([] WaitOnAddress; word);
