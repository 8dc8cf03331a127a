//! The CLH queue lock whose waiters spin a little, then sleep. First come, first served.
//!
//! States, picture, invariants, orderings and sources are those of [`ClhSpin`](crate::ClhSpin), plus:
//! 4. No wake is lost: a waiter announces its sleep by `HELD` → `ASLEEP` on the node that it watches and sleeps only
//!    while the word says so; the releaser exchanges the word and wakes if it found `ASLEEP`. The watcher owns the node
//!    from then on, so the wake goes by address alone.

use super::clh_spin::{ClhNode, Queue};

/// Looks before a waiter sleeps.
const SPINS: u32 = if cfg!(any(loom, miri)) { 1 } else { 100 };

/// CLH queue lock, first come, first served: each waiter watches its predecessor's node, spins, then sleeps. 8 bytes.
///
/// ```
/// use holdup_locks::{Clh, Mutex};
///
/// static LAST: Mutex<Clh, &str> = Mutex::new("nobody");
/// *LAST.lock() = "me";
/// assert_eq!(*LAST.lock(), "me");
/// ```
///
/// # Cost
/// One exchange to take, one compare-exchange to release, two accesses to thread-local storage. A thread allocates one
/// node of 64 bytes per depth of locks that it holds, and recycles it.
///
/// Measured: uncontended 1.05, tight 5.14, short 2.25, even 6.18, crowded 21.9 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Where order does not matter: use [`Adaptive`](crate::Adaptive). With more threads than CPUs each turn costs a
/// context switch. Not where allocation is forbidden. No timed variant, and no lock_api 0.4: the guard carries the
/// node.
///
/// # Source
/// Craig, U. of Washington TR 93-02-02 (1993), section 3; Magnusson, Landin & Hagersten, IPPS 1994.
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
raw_mutex_fair!(Clh);
check_drop!([] Clh);
modelled!([] Clh; 0);
