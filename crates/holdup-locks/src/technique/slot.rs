//! One lock of a striped structure, which in debug builds knows who holds it.
//!
//! What: a raw lock, and in debug builds the number of the thread that holds it, so that a thread about to wait for
//! itself panics instead.
//!
//! Invariants:
//! 1. `holder` is 0 while the lock is free, and is written only by the thread that holds the lock.
//! 2. So `holder` equals a thread's own number only if that thread holds the lock.
//!
//! Memory orderings: `holder` is `Relaxed`; a thread compares it with its own number only, and its own writes it always
//! sees. A stale foreign number can only differ.
//!
//! Cost: none in release builds.
//!
//! When not to use: under a guard that may be sent to another thread; then invariant 2 does not hold.

use lock_api::RawMutex;

#[cfg(debug_assertions)]
use core::sync::atomic::{AtomicU32, Ordering};

/// A lock with its holder.
pub(super) struct Slot<L> {
    raw: L,
    /// The holder's thread number. It takes no part in the protocol, so it is no atomic of the model checker's.
    #[cfg(debug_assertions)]
    holder: AtomicU32,
}

impl<L: RawMutex> Slot<L> {
    #[allow(clippy::declare_interior_mutable_const, reason = "an initial value, as lock_api's own INIT")]
    pub(super) const INIT: Self = Self {
        raw: L::INIT,
        #[cfg(debug_assertions)]
        holder: AtomicU32::new(0),
    };

    /// Waits for the lock; `index` is for the message if this thread holds it already.
    #[inline]
    #[track_caller]
    pub(super) fn lock(&self, index: usize) -> L::Guard {
        self.refuse_nested(index);
        let state = self.raw.lock();
        self.note_holder();
        state
    }

    #[inline]
    pub(super) fn try_lock(&self) -> Option<L::Guard> {
        let state = self.raw.try_lock()?;
        self.note_holder();
        Some(state)
    }

    /// Releases the lock.
    ///
    /// # Safety
    ///
    /// `state` comes from an acquisition of this slot by this thread that was not released yet.
    #[inline]
    pub(super) unsafe fn unlock(&self, state: L::Guard) {
        #[cfg(debug_assertions)]
        self.holder.store(0, Ordering::Relaxed);
        // SAFETY: the caller hands over the state of a live acquisition of `raw`.
        unsafe { self.raw.unlock(state) };
    }

    #[cfg(debug_assertions)]
    #[track_caller]
    fn refuse_nested(&self, index: usize) {
        assert!(
            self.holder.load(Ordering::Relaxed) != own_number(),
            "this thread already holds slot {index} of the lock table and would wait for itself: \
             two keys may share a slot, so take several keys at once with lock_many, and do not use a map \
             inside its own closures"
        );
    }

    #[cfg(debug_assertions)]
    fn note_holder(&self) {
        self.holder.store(own_number(), Ordering::Relaxed);
    }

    #[cfg(not(debug_assertions))]
    #[inline]
    fn refuse_nested(&self, _index: usize) {}

    #[cfg(not(debug_assertions))]
    #[inline]
    fn note_holder(&self) {}
}

#[cfg(debug_assertions)]
fn own_number() -> u32 {
    crate::sys::thread_id()
}
