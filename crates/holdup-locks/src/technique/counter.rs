//! A counter that many threads add to without meeting: one padded cell per thread, summed when read.
//!
//! What: `N` cells, each alone on its cache lines; a thread adds to the cell its number selects, a reader sums all.
//!
//! Invariants:
//! 1. Every `add` and `sub` lands in exactly one cell, so at rest the sum of the cells is the count.
//! 2. [`ShardedCounter::take`] swaps each cell to zero: what it returns plus what is left is the count; nothing is lost
//!    or counted twice, however many threads take and add.
//!
//! Memory orderings: everything is `Relaxed`. The counter carries a number and no other data; a caller that needs to
//! see a final count joins the threads first. Test: `counter_loses_nothing` and the loom test `counter_take_is_exact`.
//!
//! Cost and when not to use it: see [`ShardedCounter`].

use core::fmt;

use super::CachePadded;
use crate::sys::atomic::{AtomicU64, Ordering};
use crate::sys::thread_id;

/// A counter with a cell for every thread, up to `N`; beyond that, threads share cells.
///
/// ```
/// use holdup_locks::technique::ShardedCounter;
///
/// static REQUESTS: ShardedCounter = ShardedCounter::new();
///
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| (0..100).for_each(|_| REQUESTS.add(1)));
///     }
/// });
/// assert_eq!(REQUESTS.sum(), 400);
/// ```
///
/// # Cost
/// `add` is one fetch-add on a line that stays with its CPU (wait-free on CPUs with an atomic add) and one access to
/// thread-local storage; one shared counter's line travels as soon as two threads use it. `sum` reads `N` lines. `N`
/// times 128 bytes: 8 KiB by default.
///
/// # When not to use it
/// * The sum is read as often as it is written.
/// * The value must be exact while others add (a reference count, a limit): use one `AtomicU64`.
/// * Counters by the thousand: each takes its `N` lines.
///
/// # Source
/// Striped cells as in the JDK's `LongAdder` (Lea); the symptom: Kraus (2014), a shared counter sinks a parallel loop.
pub struct ShardedCounter<const N: usize = 64> {
    cells: [CachePadded<AtomicU64>; N],
}

impl<const N: usize> ShardedCounter<N> {
    /// A counter at zero. `N` must be at least 1; the compiler checks.
    #[must_use]
    pub const fn new() -> Self {
        const { assert!(N > 0, "a counter needs at least one cell") };
        Self { cells: [const { CachePadded::new(AtomicU64::new(0)) }; N] }
    }

    /// Adds `amount`, wrapping on overflow.
    #[inline]
    pub fn add(&self, amount: i64) {
        self.cell().fetch_add(amount.cast_unsigned(), Ordering::Relaxed);
    }

    /// Subtracts `amount`, wrapping on overflow. A cell may go below zero, as when one thread adds and another
    /// subtracts.
    #[inline]
    pub fn sub(&self, amount: i64) {
        self.cell().fetch_sub(amount.cast_unsigned(), Ordering::Relaxed);
    }

    /// Adds up all cells.
    ///
    /// Not a snapshot: cells are read one after the other, so a sum taken while others add may be a value that the
    /// counter never had. When nobody adds, it is exact.
    #[must_use]
    pub fn sum(&self) -> i64 {
        wrapping_sum(self.cells.iter().map(|cell| cell.load(Ordering::Relaxed)))
    }

    /// Sets the counter to zero and returns what it took. Additions that happen meanwhile are in this result or in the
    /// counter afterwards, never in both.
    pub fn take(&self) -> i64 {
        wrapping_sum(self.cells.iter().map(|cell| cell.swap(0, Ordering::Relaxed)))
    }

    /// Sets the counter to zero and forgets what it held.
    pub fn reset(&self) {
        self.take();
    }

    #[inline]
    fn cell(&self) -> &AtomicU64 {
        &self.cells[thread_id() as usize % N]
    }
}

fn wrapping_sum(cells: impl Iterator<Item = u64>) -> i64 {
    cells.fold(0, u64::wrapping_add).cast_signed()
}

impl<const N: usize> Default for ShardedCounter<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<const N: usize> fmt::Debug for ShardedCounter<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShardedCounter").field("cells", &N).field("sum", &self.sum()).finish()
    }
}
