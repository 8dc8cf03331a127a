//! The ticket lock as published: waiters never give the CPU away. For study.
//!
//! The words, invariants and orderings are those of [`Ticket`](crate::Ticket). With more threads than CPUs the thread
//! whose turn it is can be switched out while the others burn their time slices waiting for it: each turn then costs up
//! to a time slice. That collapse is what this variant is here to show.
//!
//! Source: Mellor-Crummey & Scott, "Algorithms for scalable synchronization", ACM TOCS 1991, section 2.2.

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::spin_hint;

/// The ticket lock as published: pure spinning. Collapses when threads outnumber CPUs. For study. 8 bytes.
///
/// ```
/// use holdup_locks::{Mutex, TicketSpin};
///
/// let value = Mutex::<TicketSpin, u8>::new(3);
/// assert_eq!(*value.lock(), 3);
/// ```
///
/// # Cost
/// As [`Ticket`](crate::Ticket) when free.
///
/// Measured: uncontended 0.47, tight 6.52, crowded 31.8 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Wherever threads may outnumber CPUs or be preempted; use [`Ticket`](crate::Ticket) or [`Adaptive`](crate::Adaptive).
/// No timed variant.
///
/// # Source
/// Mellor-Crummey & Scott, ACM TOCS 1991, section 2.2.
#[repr(C, align(8))]
pub struct TicketSpin {
    next: AtomicU32,
    serving: AtomicU32,
}

impl TicketSpin {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: AtomicU32::new(0), serving: AtomicU32::new(0) }
    }

    #[inline]
    fn acquire(&self) {
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        while self.serving.load(Ordering::Acquire) != mine {
            spin_hint();
        }
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        let serving = self.serving.load(Ordering::Acquire);
        self.next.compare_exchange(serving, serving.wrapping_add(1), Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn release(&self) {
        let serving = self.serving.load(Ordering::Relaxed);
        self.serving.store(serving.wrapping_add(1), Ordering::Release);
    }

    #[inline]
    fn held(&self) -> bool {
        self.serving.load(Ordering::Relaxed) != self.next.load(Ordering::Relaxed)
    }
}

impl Default for TicketSpin {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] TicketSpin, GuardNoSend, Self::new());
raw_mutex_fair!(both: TicketSpin);
check_drop!([] TicketSpin);
modelled!([] TicketSpin; next, serving);
