//! The CLH queue lock whose waiters spin a little, then sleep. First come, first served.
//!
//! States, picture, invariants, orderings and sources are those of [`ClhSpin`](crate::ClhSpin), plus:
//! 4. No wake is lost: a waiter announces its sleep by `HELD` → `ASLEEP` on the node that it watches and sleeps only while
//!    the word says so; the releaser exchanges the word and wakes if it found `ASLEEP`. The watcher owns the node from then
//!    on, so the wake goes by address alone.
//!
//! Cost: as `ClhSpin` when free. Contended, each hand-over waits for a given thread to run: with more threads than CPUs that
//! is one context switch per acquisition. Where order does not matter use `Mcs` or `Adaptive`. No timed variant.

use super::clh_spin::{ClhNode, Queue};

/// Looks before a waiter sleeps.
const SPINS: u32 = if cfg!(any(loom, miri)) { 1 } else { 100 };

/// CLH queue lock; spins, then sleeps; nodes from a pool per thread. First come, first served. 8 bytes.
pub struct Clh(Queue<SPINS>);

impl Clh {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self(Queue::new())
    }
}

impl Default for Clh {
    fn default() -> Self {
        Self::new()
    }
}

clh_raw_mutex!(Clh);
check_drop!([] Clh);
modelled!([] Clh; 0);
