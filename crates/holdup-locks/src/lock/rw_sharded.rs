//! A reader-writer lock whose readers do not meet: each counts in a slot of its own thread, a writer closes all slots.
//!
//! | bits of a slot | name | meaning |
//! |---|---|---|
//! | 0 to 29 | count | readers that are in by this slot, or have come and will leave at once |
//! | 30 | `AWAITED` | the writer sleeps on this slot: the last reader that leaves wakes it |
//! | 31 | `CLOSED` | a writer is in, or waits for the readers that are |
//!
//! `central` is an `RwAdaptive`. Writers hold it for writing; readers that find their slot closed wait there.
//!
//! ```text
//!  reader ──its slot is open──► in
//!     └─ closed: leaves the slot, `central` for reading ──► counts in its slot ──► leaves `central`, in
//!  writer ──`central` for writing ──► closes every slot ──each is empty──► in
//! ```
//!
//! # Invariants
//! 1. Only the thread that holds `central` for writing sets `CLOSED`, and it opens all slots before it releases
//!    `central`. So a thread that holds `central` for reading finds its slot open.
//! 2. A reader is in from the step that counted it in an open slot. A writer is in when it has closed all slots and
//!    found each of them empty afterwards: a reader that came before is counted, one that comes later sees `CLOSED`,
//!    because both change the same word.
//! 3. A reader that sees `CLOSED` leaves the slot before it does anything else.
//! 4. The writer sleeps on exactly a value with `AWAITED` and a count; whoever takes the last one away wakes it.
//!
//! # Memory orderings
//! A reader that comes in is Acquire and pairs with the Release that opened its slot; one that leaves is Release and
//! pairs with the writer's Acquire look that finds the slot empty (loom: `rw_sharded_readers_and_a_writer`,
//! `rw_sharded_writers_and_a_reader`, `rw_sharded_tries`). What passes through `central` is ordered by it. There is no
//! Dekker pattern, so nothing is sequentially consistent.
//!
//! # Fairness
//! That of `RwAdaptive`: readers that come after a writer wait in `central`, where phases alternate.
//!
//! Sources: a lock word per CPU, writers take all: the big-reader lock of Linux 2.4 (1999); Hsieh & Weihl, "Scalable
//! reader-writer locks for parallel systems", IPPS 1992.

use super::learned::{Learned, Pauses};
use super::rw_adaptive::RwAdaptive;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{ANY, DeadlineNs, Wait, thread_id, wait, wake};
use crate::technique::CachePadded;

const CLOSED: u32 = 1 << 31;
const AWAITED: u32 = 1 << 30;
const COUNT: u32 = AWAITED - 1;
/// A slot from this value on is closed, or counts more readers than there can be threads.
const UNUSUAL: u32 = 1 << 29;

/// A reader-writer lock that makes reading scale: readers on different slots share no cache line. 128 bytes per slot
/// and 128 more: 2 KiB and 128 bytes with the 16 slots it has by default.
///
/// ```
/// use holdup_locks::{RwLock, RwSharded};
///
/// static LIMITS: RwLock<RwSharded, [u32; 2]> = RwLock::new([10, 20]);
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| assert!(LIMITS.read()[0] < LIMITS.read()[1]));
///     }
/// });
/// *LIMITS.write() = [11, 21];
/// ```
///
/// # Cost
/// Reading: two atomic operations on a line that stays with its CPU, and an access to thread-local storage. Writing:
/// two atomic operations on each slot, and on as many lines as CPUs have read since. Threads beyond `N` share slots;
/// take as many as the machine has CPUs.
///
/// Measured: not in the [table](crate#measured).
///
/// # When not to use it
/// * More than one write among some hundred reads: [`RwAdaptive`](crate::RwAdaptive), or a mutex.
/// * Locks by the thousand: each takes its lines.
/// * A thread that holds it for reading and takes it again: a writer may have come in between, and both wait for ever.
/// * Between processes, and in a child that was forked while others waited: as [`Adaptive`](crate::Adaptive).
///
/// # Source
/// The big-reader lock of Linux 2.4 (1999); Hsieh & Weihl, IPPS 1992.
#[repr(C)] // C programs initialise it.
pub struct RwSharded<const N: usize = 16> {
    central: RwAdaptive,
    spin: Learned,
    slots: [CachePadded<AtomicU32>; N],
}

impl<const N: usize> RwSharded<N> {
    /// A free lock. `N` must be at least 1; the compiler checks.
    #[must_use]
    pub const fn new() -> Self {
        Self::made_of(RwAdaptive::new(), Learned::new())
    }

    /// A free lock whose waiters spin for `pauses` pauses, always; 0 means that they sleep at once.
    ///
    /// As [`Adaptive::with_spin`](crate::Adaptive::with_spin): learning is the better choice unless a measurement says
    /// otherwise.
    #[must_use]
    pub const fn with_spin(pauses: u32) -> Self {
        Self::made_of(RwAdaptive::with_spin(pauses), Learned::fixed(pauses))
    }

    const fn made_of(central: RwAdaptive, spin: Learned) -> Self {
        const { assert!(N > 0, "a lock needs at least one slot") };
        Self { central, spin, slots: [const { CachePadded::new(AtomicU32::new(0)) }; N] }
    }

    // ---------- readers

    #[inline]
    fn acquire_shared(&self) {
        let slot = self.own_slot();
        if !come(slot) {
            self.central.acquire_shared();
            self.come_through(slot);
        }
    }

    #[cold]
    fn acquire_shared_until(&self, deadline: DeadlineNs) -> bool {
        let slot = self.own_slot();
        if come(slot) {
            return true;
        }
        let passed = self.central.acquire_shared_until(deadline);
        if passed {
            self.come_through(slot);
        }
        passed
    }

    #[inline]
    fn try_acquire_shared(&self) -> bool {
        come(self.own_slot())
    }

    #[inline]
    fn release_shared(&self) {
        leave(self.own_slot());
    }

    /// With `central` held for reading: the slot is open (invariant 1).
    #[cold]
    fn come_through(&self, slot: &AtomicU32) {
        slot.fetch_add(1, Ordering::Relaxed);
        self.central.release_shared();
    }

    #[inline]
    fn own_slot(&self) -> &AtomicU32 {
        &self.slots[thread_id() as usize % N]
    }

    // ---------- writers

    #[inline]
    fn acquire_exclusive(&self) {
        self.central.acquire_exclusive();
        self.close(None);
    }

    fn acquire_exclusive_until(&self, deadline: DeadlineNs) -> bool {
        self.central.acquire_exclusive_until(deadline) && self.close(Some(deadline))
    }

    fn try_acquire_exclusive(&self) -> bool {
        if !self.central.try_acquire_exclusive() {
            return false;
        }
        let close = |slot: &AtomicU32| slot.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        let closed = self.slots.iter().take_while(|slot| close(slot)).count();
        if closed < N {
            self.open(closed);
        }
        closed == N
    }

    #[inline]
    fn release_exclusive(&self) {
        self.open(N);
    }

    /// From writing to reading: counted before any slot opens.
    fn downgrade_exclusive(&self) {
        self.own_slot().fetch_add(1, Ordering::Relaxed);
        self.open(N);
    }

    /// With `central` held for writing: closes every slot and waits until each is empty. If the deadline passes first,
    /// opens them, releases `central` and returns false.
    fn close(&self, deadline: Option<DeadlineNs>) -> bool {
        for slot in &self.slots {
            slot.fetch_or(CLOSED, Ordering::Relaxed);
        }
        let empty = self.slots.iter().all(|slot| self.await_empty(slot, deadline));
        if !empty {
            self.open(N);
        }
        empty
    }

    #[inline]
    fn await_empty(&self, slot: &AtomicU32, deadline: Option<DeadlineNs>) -> bool {
        // ORDERING: Acquire pairs with the Release of the readers that left (loom: `rw_sharded_readers_and_a_writer`).
        slot.load(Ordering::Acquire) & COUNT == 0 || self.await_readers(slot, deadline)
    }

    /// Spins, then sleeps, until the slot is empty.
    #[cold]
    fn await_readers(&self, slot: &AtomicU32, deadline: Option<DeadlineNs>) -> bool {
        let budget = self.spin.budget();
        let mut pauses = Pauses::new();
        loop {
            // ORDERING: as in `await_empty`.
            let state = slot.load(Ordering::Acquire);
            if state & COUNT == 0 {
                if pauses.spent < budget {
                    self.spin.learn(pauses.spent);
                }
                return true;
            }
            if pauses.spent < budget {
                pauses.pause();
                if pauses.spent >= budget {
                    self.spin.unlearn();
                }
                continue;
            }
            let awaited = state | AWAITED;
            if slot.compare_exchange(state, awaited, Ordering::Relaxed, Ordering::Relaxed).is_ok()
                && wait(slot, awaited, ANY, deadline) == Wait::TimedOut
            {
                return false;
            }
        }
    }

    /// Opens the first slots, which this writer has closed, and releases `central`.
    #[inline]
    fn open(&self, closed: usize) {
        for slot in &self.slots[..closed] {
            slot.fetch_and(COUNT, Ordering::Release);
        }
        self.central.release_exclusive();
    }

    fn held(&self) -> bool {
        self.central.held_exclusive() || self.has_readers()
    }

    fn held_exclusive(&self) -> bool {
        self.central.held_exclusive() && !self.has_readers()
    }

    fn has_readers(&self) -> bool {
        self.slots.iter().any(|slot| slot.load(Ordering::Relaxed) & COUNT != 0)
    }
}

/// Counts a reader in its slot; false if the slot is closed, and then nothing is left there.
#[inline]
fn come(slot: &AtomicU32) -> bool {
    let old = slot.fetch_add(1, Ordering::Acquire);
    if old >= UNUSUAL {
        turn_away(slot, old);
        return false;
    }
    true
}

#[cold]
fn turn_away(slot: &AtomicU32, old: u32) {
    leave(slot);
    assert!(
        old & COUNT < UNUSUAL,
        "holdup-locks: 2^29 readers in one slot of a rw-sharded lock: guards were forgotten"
    );
}

/// Takes a reader out of its slot, and wakes a writer that waits for the last.
#[inline]
fn leave(slot: &AtomicU32) {
    let old = slot.fetch_sub(1, Ordering::Release);
    if old & (AWAITED | COUNT) == AWAITED + 1 {
        wake_writer(slot);
    }
}

#[cold]
fn wake_writer(slot: &AtomicU32) {
    wake(slot, 1, ANY);
}

impl<const N: usize> Default for RwSharded<N> {
    fn default() -> Self {
        Self::new()
    }
}

raw_rw_lock!([const N: usize] RwSharded<N>);
check_drop!(rw [const N: usize] RwSharded<N>);

#[cfg(loom)]
impl<const N: usize> crate::model::Make for RwSharded<N> {
    fn make(&self) {
        make_atomics!(self; central, spin);
        self.slots.iter().for_each(|slot| slot.make());
    }
}
