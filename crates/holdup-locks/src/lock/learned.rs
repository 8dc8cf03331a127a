//! How long a waiter spins before it sleeps: what has sufficed so far, or a fixed count.
//!
//! | word | meaning |
//! |---|---|
//! | bit 31 set | the lower bits are the count, always |
//! | else | the average number of pauses after which waiters got the lock; it moves by 1/8 |
//!
//! Invariant: whatever stands in the word, a waiter spins at most `SPIN_MAX` pauses, or the fixed count. So updates
//! that threads lose to each other only slow the learning.
//!
//! # Memory orderings
//! All Relaxed: the number carries no data.
//!
//! Sources: Karlin, Li, Manasse & Owicki, "Empirical studies of competitive spinning for a shared-memory
//! multiprocessor", SOSP 1991; learning the count: glibc's PTHREAD_MUTEX_ADAPTIVE_NP.

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::spin_hint;

const FIXED: u32 = 1 << 31;
const SPIN_MIN: u32 = if cfg!(any(loom, miri)) { 1 } else { 32 };
const SPIN_MAX: u32 = if cfg!(any(loom, miri)) { 2 } else { 600 };
const SPIN_AT_FIRST: u32 = if cfg!(any(loom, miri)) { 1 } else { 100 };
/// The first and the longest run of pauses between two looks at the word. A look takes the line from the holder, who
/// will soon need it; so the first comes late enough for the holder to pass through many short sections in between.
const PAUSES_FIRST: u32 = if cfg!(any(loom, miri)) { 1 } else { 8 };
const PAUSES_MAX: u32 = if cfg!(any(loom, miri)) { 1 } else { 32 };

/// How many pauses a waiter spins.
#[repr(transparent)] // C programs initialise the locks that have one.
pub(super) struct Learned(AtomicU32);

impl Learned {
    /// Learns, beginning with a guess.
    pub(super) const fn new() -> Self {
        Self(AtomicU32::new(SPIN_AT_FIRST))
    }

    /// Spins for so many pauses, always.
    pub(super) const fn fixed(pauses: u32) -> Self {
        Self(AtomicU32::new(FIXED | pauses))
    }

    /// Twice what has sufficed so far, within limits; or the fixed count.
    pub(super) fn budget(&self) -> u32 {
        let spin = self.0.load(Ordering::Relaxed);
        if spin & FIXED != 0 { spin & !FIXED } else { (2 * spin + SPIN_MIN).min(SPIN_MAX) }
    }

    /// So many pauses were enough.
    pub(super) fn learn(&self, spent: u32) {
        let spin = self.0.load(Ordering::Relaxed);
        if spin & FIXED == 0 {
            self.0.store(spin - spin / 8 + spent.div_ceil(8), Ordering::Relaxed);
        }
    }

    /// All pauses were in vain.
    pub(super) fn unlearn(&self) {
        let spin = self.0.load(Ordering::Relaxed);
        if spin & FIXED == 0 {
            self.0.store(spin - spin.div_ceil(8), Ordering::Relaxed);
        }
    }

    #[cfg(loom)]
    pub(super) fn make(&self) {
        self.0.make();
    }
}

/// Runs of pauses, each longer than the one before, up to a limit.
pub(super) struct Pauses {
    /// How many there were in all.
    pub(super) spent: u32,
    run: u32,
}

impl Pauses {
    pub(super) const fn new() -> Self {
        Self { spent: 0, run: PAUSES_FIRST }
    }

    /// The next run.
    pub(super) fn pause(&mut self) {
        (0..self.run).for_each(|_| spin_hint());
        self.spent += self.run;
        self.run = (self.run * 2).min(PAUSES_MAX);
    }
}
