//! A fixed table of locks for any number of objects: a key picks its lock by hash.
//!
//! What: `N` locks, each alone on its cache lines. An address (or any 64-bit key) is hashed to one of them. The same
//! key always meets the same lock; two different keys share one with probability `1/N`. A million entries need no
//! million locks, and an entry can be deleted safely, because its lock does not live inside it (Emmons, 2001).
//!
//! ```text
//!   key ──mix──► 64 bits ──high part of the product with N──► slot ──► [lock | padding to 128 bytes]
//! ```
//!
//! Invariants:
//! 1. A key's slot depends on the key and `N` only.
//! 2. Whoever takes several slots in one call takes them in ascending order and each once, so calls of `lock_many`,
//!    `lock_slice` and `lock_all` never deadlock among themselves.
//! 3. A guard releases exactly the slot it took, once, also when the thread unwinds.
//!
//! Memory orderings: those of the lock `L`: its acquire on locking pairs with its release on unlocking. The table adds
//! none. The holder's number kept in debug builds is `Relaxed`: a thread only ever compares it with its own
//! number, which it wrote itself. Tests: `table_excludes_per_key`, the loom tests `table_excludes` and
//! `lock_many_in_opposite_orders`.
//!
//! Cost and when not to use it: see [`LockTable`].

use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;

use lock_api::RawMutex;

use super::{CachePadded, Slot, mix};

/// `N` cache-padded locks of type `L`, picked by key. It is `const`-constructible and allocates nothing.
///
/// ```
/// use holdup_locks::technique::{DefaultLock, LockTable, key_of};
///
/// static TABLE: LockTable<DefaultLock> = LockTable::new();
///
/// let account = Box::new(5);
/// let guard = TABLE.lock(key_of(&*account));
/// // Every thread that uses the account under this key waits here.
/// drop(guard);
/// ```
///
/// # Cost
/// That of the lock; the hash hides behind its first atomic instruction. 128 bytes per slot, 32 KiB for 256.
///
/// # When not to use it
/// Few long-lived objects are better off with a lock each. And **two keys may share a slot**: `table.lock(b)` while
/// holding the guard of `table.lock(a)` waits for itself once in `N` pairs of keys, and two threads that nest in
/// different orders can wait for each other. Users of striped locks have met this in production (google/guava issue
/// 2653). Take both at once with [`lock_many`](LockTable::lock_many).
///
/// # Panics
/// Debug builds notice that a thread would wait for itself, and panic with a message that says so.
///
/// # Source
/// Emmons (2001): an object may be deleted safely, because its lock does not live inside it.
pub struct LockTable<L, const N: usize = 256> {
    slots: [CachePadded<Slot<L>>; N],
}

impl<L: RawMutex, const N: usize> LockTable<L, N> {
    /// A table of free locks. `N` must be at least 1; the compiler checks.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a lock table needs at least one lock") };
        Self { slots: [const { CachePadded::new(Slot::INIT) }; N] }
    }

    /// Waits for the key's lock.
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread already holds the key's slot, by this key or another: it would wait for
    /// itself.
    #[inline]
    #[track_caller]
    pub fn lock(&self, key: u64) -> TableGuard<'_, L> {
        self.lock_slot(self.slot_of(key))
    }

    /// Takes the key's lock if it is free.
    #[inline]
    pub fn try_lock(&self, key: u64) -> Option<TableGuard<'_, L>> {
        let slot = &self.slots[self.slot_of(key)];
        slot.try_lock().map(|state| TableGuard::new(slot, state))
    }

    /// Waits for the locks of all keys, each lock once, in an order that cannot deadlock with other such calls.
    ///
    /// The guards lie on the stack, one place per key. For a number of keys known only at run time see
    /// [`LockTable::lock_slice`].
    ///
    /// ```
    /// use holdup_locks::technique::{DefaultLock, LockTable};
    ///
    /// let table: LockTable<DefaultLock> = LockTable::new();
    /// let (from, to) = (17, 4);
    /// let both = table.lock_many(&[from, to]);
    /// assert!(table.try_lock(from).is_none() && table.try_lock(to).is_none());
    /// # drop(both);
    /// ```
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread already holds one of the slots.
    #[track_caller]
    pub fn lock_many<const M: usize>(&self, keys: &[u64; M]) -> ManyGuard<'_, L, M> {
        let mut slots = keys.map(|key| self.slot_of(key));
        slots.sort_unstable();
        let mut guards = [const { None }; M];
        for (index, &slot) in slots.iter().enumerate() {
            if index == 0 || slots[index - 1] != slot {
                guards[index] = Some(self.lock_slot(slot));
            }
        }
        ManyGuard { guards }
    }

    /// As [`LockTable::lock_many`], for any number of keys. Allocates two vectors of at most that length.
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread already holds one of the slots.
    #[track_caller]
    pub fn lock_slice(&self, keys: &[u64]) -> SliceGuard<'_, L> {
        let mut slots: Vec<usize> = keys.iter().map(|&key| self.slot_of(key)).collect();
        slots.sort_unstable();
        slots.dedup();
        let mut guards = Vec::with_capacity(slots.len());
        for slot in slots {
            guards.push(self.lock_slot(slot));
        }
        SliceGuard { guards }
    }

    /// Waits for all locks: for work that concerns every object, such as saving them.
    ///
    /// # Panics
    ///
    /// In debug builds, when this thread already holds one of the slots.
    #[track_caller]
    pub fn lock_all(&self) -> ManyGuard<'_, L, N> {
        let mut guards = [const { None }; N];
        for (slot, guard) in guards.iter_mut().enumerate() {
            *guard = Some(self.lock_slot(slot));
        }
        ManyGuard { guards }
    }

    /// The slot that a key falls on, from 0 to `N - 1`: to see whether two keys share one.
    #[inline]
    #[must_use]
    pub fn slot_of(&self, key: u64) -> usize {
        scale(mix(key), N)
    }

    /// How many locks there are.
    #[must_use]
    pub const fn slots(&self) -> usize {
        N
    }

    #[inline]
    #[track_caller]
    fn lock_slot(&self, index: usize) -> TableGuard<'_, L> {
        let slot = &self.slots[index];
        TableGuard::new(slot, slot.lock(index))
    }
}

/// Scales 64 well-mixed bits to `0..slots` by the high half of a product (D. Lemire, *Fast random integer generation in
/// an interval*, ACM TOMACS 29(1), 2019, section 3); a shift when `slots` is a power of two.
#[inline]
pub(super) const fn scale(bits: u64, slots: usize) -> usize {
    ((bits as u128 * slots as u128) >> 64) as usize
}

impl<L: RawMutex, const N: usize> Default for LockTable<L, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<L, const N: usize> fmt::Debug for LockTable<L, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockTable").field("slots", &N).finish_non_exhaustive()
    }
}

/// Holds one lock of a [`LockTable`] and releases it when dropped.
///
/// It stays on its thread, so that a nested lock on one slot can be told from a wait for another thread.
#[must_use = "the lock is released as soon as the guard is dropped"]
pub struct TableGuard<'a, L: RawMutex> {
    slot: &'a Slot<L>,
    state: ManuallyDrop<L::Guard>,
    stays_on_its_thread: PhantomData<*mut ()>,
}

impl<'a, L: RawMutex> TableGuard<'a, L> {
    #[inline]
    fn new(slot: &'a Slot<L>, state: L::Guard) -> Self {
        Self { slot, state: ManuallyDrop::new(state), stays_on_its_thread: PhantomData }
    }
}

impl<L: RawMutex> Drop for TableGuard<'_, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: `state` is not used again, the guard is going away.
        let state = unsafe { ManuallyDrop::take(&mut self.state) };
        // SAFETY: `state` came from a successful acquisition of this very slot in `new`'s callers, and this is the only
        // release of it.
        unsafe { self.slot.unlock(state) };
    }
}

impl<L: RawMutex> fmt::Debug for TableGuard<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableGuard").finish_non_exhaustive()
    }
}

/// Holds the locks of several keys, on the stack. See [`LockTable::lock_many`].
#[must_use = "the locks are released as soon as the guard is dropped"]
#[derive(Debug)]
pub struct ManyGuard<'a, L: RawMutex, const M: usize> {
    /// `None` where a key shares its lock with the key before it.
    guards: [Option<TableGuard<'a, L>>; M],
}

impl<L: RawMutex, const M: usize> ManyGuard<'_, L, M> {
    /// How many different locks are held.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.guards.iter().flatten().count()
    }
}

/// Holds the locks of several keys. See [`LockTable::lock_slice`].
#[must_use = "the locks are released as soon as the guard is dropped"]
#[derive(Debug)]
pub struct SliceGuard<'a, L: RawMutex> {
    guards: Vec<TableGuard<'a, L>>,
}

impl<L: RawMutex> SliceGuard<'_, L> {
    /// How many different locks are held.
    #[must_use]
    pub fn locks(&self) -> usize {
        self.guards.len()
    }
}
