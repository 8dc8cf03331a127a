//! Claims ranges of indices for parallel loops: every index exactly once, by whichever thread is free.
//!
//! What: a shared position that threads advance. [`Chunks::fixed`] claims equal chunks with one fetch-add;
//! [`Chunks::guided`] claims a share of what is left, large at first and small at the end, so that threads finish
//! together (Polychronopoulos and Kuck, *Guided self-scheduling*, IEEE Transactions on Computers C-36(12), 1987,
//! section III).
//!
//! A position that is advanced by a compare-exchange loop can be lost again and again by one thread, and a loop with
//! empty bodies then varies several-fold from run to run; one fetch-add is steady (Kraus, 2014; claim K1).
//! Hence the fixed policy counts chunks with a fetch-add and the guided policy, whose step depends on the
//! position, pays a compare-exchange but makes few claims: about `threads * ln(len / (threads * min_chunk))`.
//!
//! | field | fixed | guided |
//! |---|---|---|
//! | `position` | chunks claimed so far; may pass `claims` by one per thread | indices claimed so far; never passes `len` |
//!
//! Invariants:
//! 1. A claim moves `position` forward by one atomic read-modify-write, so two claims never overlap.
//! 2. `start + offset` is formed only for `offset < len`, so nothing overflows, whatever the range.
//! 3. `fixed`: once `position >= claims` is seen, no thread adds again; at most one overshoot per thread is possible,
//!    and wrapping around would take 2^64 claims.
//!
//! Memory orderings: everything is `Relaxed`. A claim says who works on an index and carries no data; what the bodies
//! write reaches others through the join at the end of the loop. Exactly-once needs only the atomicity of the
//! read-modify-write: `chunks_claim_every_index_once` and the loom test `chunks_never_overlap`.
//!
//! Cost and when not to use it: see [`Chunks`].

use core::fmt;
use core::iter::FusedIterator;
use core::ops::Range;

use super::CachePadded;
use crate::sys::atomic::{AtomicU64, Ordering};

/// Shared claims on a range of indices.
///
/// ```
/// use holdup_locks::technique::Chunks;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// let chunks = Chunks::fixed(0..1_000, 64);
/// let sum = AtomicU64::new(0);
/// std::thread::scope(|scope| {
///     for _ in 0..4 {
///         scope.spawn(|| {
///             for chunk in &chunks {
///                 sum.fetch_add(chunk.sum(), Ordering::Relaxed);
///             }
///         });
///     }
/// });
/// assert_eq!(sum.into_inner(), 499_500);
/// ```
///
/// # Cost
/// One load and one fetch-add (fixed) or compare-exchange (guided) per chunk, on a line that all threads share: the
/// price of a travelling line, some 100 ns where another CPU had it. Choose chunks that work for a microsecond at
/// least.
///
/// # When not to use it
/// Bodies of equal, known length on idle CPUs: split the range once, up front, at no cost. Nested parallelism or work
/// that makes more work: a work-stealing pool.
///
/// # Source
/// Polychronopoulos & Kuck, "Guided self-scheduling", IEEE Transactions on Computers C-36(12), 1987, section III; Kraus
/// (2014).
pub struct Chunks {
    /// Alone on its line: the fields below are read by every claim and must not move with it.
    position: CachePadded<AtomicU64>,
    start: u64,
    len: u64,
    policy: Policy,
}

#[derive(Debug, Clone, Copy)]
enum Policy {
    Fixed { chunk: u64, claims: u64 },
    Guided { threads: u64, min_chunk: u64 },
}

impl Chunks {
    /// Claims of `chunk` indices each, the last one shorter. A chunk of 0 is taken as 1; a reversed range is empty.
    #[must_use]
    pub fn fixed(range: Range<u64>, chunk: u64) -> Self {
        let chunk = chunk.max(1);
        let claims = len_of(&range).div_ceil(chunk);
        Self::with_policy(range, Policy::Fixed { chunk, claims })
    }

    /// Claims of a `threads`-th of what is left, never below `min_chunk` (0 is taken as 1) but for the last.
    ///
    /// ```
    /// use holdup_locks::technique::Chunks;
    ///
    /// let chunks = Chunks::guided(0..100, 2, 10);
    /// let lengths: Vec<u64> = chunks.iter().map(|chunk| chunk.end - chunk.start).collect();
    /// assert_eq!(lengths, [50, 25, 13, 10, 2]);
    /// ```
    #[must_use]
    pub fn guided(range: Range<u64>, threads: usize, min_chunk: u64) -> Self {
        let policy = Policy::Guided { threads: (threads as u64).max(1), min_chunk: min_chunk.max(1) };
        Self::with_policy(range, policy)
    }

    fn with_policy(range: Range<u64>, policy: Policy) -> Self {
        let position = CachePadded::new(AtomicU64::new(0));
        Self { position, start: range.start, len: len_of(&range), policy }
    }

    /// Claims the next chunk, or `None` when every index is claimed.
    #[inline]
    pub fn next(&self) -> Option<Range<u64>> {
        match self.policy {
            Policy::Fixed { chunk, claims } => self.next_fixed(chunk, claims),
            Policy::Guided { threads, min_chunk } => self.next_guided(threads, min_chunk),
        }
    }

    #[inline]
    fn next_fixed(&self, chunk: u64, claims: u64) -> Option<Range<u64>> {
        // Without this look, a loop that keeps asking at the end would wear the counter up (invariant 3).
        if self.position.load(Ordering::Relaxed) >= claims {
            return None;
        }
        let claim = self.position.fetch_add(1, Ordering::Relaxed);
        if claim >= claims {
            return None;
        }
        let offset = claim * chunk;
        Some(self.range_at(offset, chunk.min(self.len - offset)))
    }

    fn next_guided(&self, threads: u64, min_chunk: u64) -> Option<Range<u64>> {
        let mut offset = self.position.load(Ordering::Relaxed);
        loop {
            let left = self.len - offset;
            if left == 0 {
                return None;
            }
            let chunk = left.div_ceil(threads).max(min_chunk).min(left);
            match self.position.compare_exchange_weak(offset, offset + chunk, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(self.range_at(offset, chunk)),
                Err(seen) => offset = seen,
            }
        }
    }

    fn range_at(&self, offset: u64, chunk: u64) -> Range<u64> {
        let start = self.start + offset;
        start..start + chunk
    }

    /// Claims chunks until none is left; every thread makes its own.
    #[must_use]
    pub fn iter(&self) -> Iter<'_> {
        Iter { chunks: self }
    }

    /// Claims chunks and yields their indices one by one.
    ///
    /// ```
    /// use holdup_locks::technique::Chunks;
    ///
    /// assert_eq!(Chunks::fixed(3..8, 2).indices().collect::<Vec<_>>(), [3, 4, 5, 6, 7]);
    /// ```
    pub fn indices(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().flatten()
    }
}

fn len_of(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}

impl fmt::Debug for Chunks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Chunks")
            .field("range", &(self.start..self.start + self.len))
            .field("policy", &self.policy)
            .finish_non_exhaustive()
    }
}

impl<'a> IntoIterator for &'a Chunks {
    type Item = Range<u64>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// The chunks that one thread claims. See [`Chunks::iter`].
#[derive(Debug)]
pub struct Iter<'a> {
    chunks: &'a Chunks,
}

impl Iterator for Iter<'_> {
    type Item = Range<u64>;

    #[inline]
    fn next(&mut self) -> Option<Range<u64>> {
        self.chunks.next()
    }
}

impl FusedIterator for Iter<'_> {}
