//! Test-and-test-and-set: waiters spin on a plain read and try only when it shows a free lock.
//!
//! | word | meaning |
//! |---|---|
//! | `UNLOCKED` 0 | free |
//! | `LOCKED` 1 | held |
//!
//! Invariants:
//! 1. Only a read-modify-write that found `UNLOCKED` makes a holder; so there is at most one.
//! 2. Only the holder stores `UNLOCKED`.
//! 3. Waiters leave no trace in the word, so giving up at a deadline needs no undo.
//!
//! # Memory orderings
//! `acquire` and `try_acquire` take with Acquire; its partner is the Release store in `release`, which carries the
//! section's writes (test: `mutual_exclusion` in tests/conformance.rs, and loom's `ttas`). The spin reads are Relaxed:
//! they decide only whether to try.
//!
//! Sources: Rudolph & Segall, "Dynamic decentralized cache schemes", ISCA 1984, section 4; Anderson, "The performance
//! of spin lock alternatives", IEEE TPDS 1990, section 3; Intel, "Implementing Scalable Atomic Locks", 2009.

use super::backoff::{SpinOn, SpinPolicy, Waiter};
use crate::sys::atomic::{AtomicU32, Ordering};
use core::marker::PhantomData;

const UNLOCKED: u32 = 0;
const LOCKED: u32 = 1;

/// The atomic instruction that takes a spin lock: [`Exchange`] or [`CompareExchange`].
pub trait Rmw: sealed::Take {}

/// `xchg`: stores `LOCKED` whatever the word held. The word is dirtied even by a failed try.
#[derive(Debug)]
pub struct Exchange;

/// `lock cmpxchg`: stores only into a free word.
#[derive(Debug)]
pub struct CompareExchange;

impl Rmw for Exchange {}
impl Rmw for CompareExchange {}

mod sealed {
    use super::{AtomicU32, CompareExchange, Exchange, LOCKED, Ordering, UNLOCKED};

    pub trait Take: Send + Sync + 'static {
        /// True if this call made the caller the holder.
        fn take(word: &AtomicU32) -> bool;
    }

    impl Take for Exchange {
        #[inline(always)]
        fn take(word: &AtomicU32) -> bool {
            word.swap(LOCKED, Ordering::Acquire) == UNLOCKED
        }
    }

    impl Take for CompareExchange {
        #[inline(always)]
        fn take(word: &AtomicU32) -> bool {
            word.compare_exchange(UNLOCKED, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        }
    }
}

/// Waits as `policy` says until the word is taken; or until `is_over` says so, which is asked before each pause: then
/// false.
///
/// The word may be of another kind, as glibc's is, for which the interposer waits with [`CompareExchange`]: all that is
/// asked of it is that 0 is free.
#[inline]
pub fn spin_backing_off<R: Rmw>(word: &AtomicU32, policy: SpinPolicy, mut is_over: impl FnMut() -> bool) -> bool {
    let mut waiter = Waiter::new(policy);
    while !is_over() {
        waiter.pause();
        let looks_free = policy.spin_on == SpinOn::Rmw || word.load(Ordering::Relaxed) == UNLOCKED;
        if looks_free && R::take(word) {
            return true;
        }
    }
    false
}

/// Test-and-test-and-set: spins on a read, backs off at random, then gives the CPU away: the spin lock to use if one
/// must be. 12 bytes.
///
/// ```
/// use holdup_locks::{Backoff, CompareExchange, Mutex, SpinPolicy, Ttas};
///
/// static HITS: Mutex<Ttas, u64> = Mutex::new(0);
/// *HITS.lock() += 1;
///
/// // Another instruction and another way to wait, for experiments.
/// let policy = SpinPolicy::DEFAULT.with_backoff(Backoff::Count);
/// let other = Mutex::from_raw(Ttas::<CompareExchange>::with_policy(policy), 0);
/// assert_eq!(*HITS.lock() + *other.lock(), 1);
/// ```
///
/// # Cost
/// One atomic operation to take, one plain store to release: about half of what a lock costs that must find out on
/// release whether anybody sleeps.
///
/// Measured: uncontended 0.49, tight 1.90, short 0.96, even 0.75, crowded 0.96 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// * Sections that sleep, do I/O or last longer than a few microseconds: waiters burn CPU time and never sleep.
/// * Where anybody must get through: the thread nearest to the line wins, again and again. In the starvation probe it
///   is among the least fair.
/// * Threads of different real-time priorities on one CPU: the waiter may keep the holder from running, for ever.
///
/// # Source
/// Rudolph & Segall, ISCA 1984, section 4; Anderson, IEEE TPDS 1990, section 3; Intel, "Implementing Scalable Atomic
/// Locks", 2009.
#[repr(C)] // C programs initialise it.
pub struct Ttas<R: Rmw = Exchange> {
    word: AtomicU32,
    policy: SpinPolicy,
    rmw: PhantomData<R>,
}

impl<R: Rmw> Ttas<R> {
    /// A free lock that waits as `policy` says.
    #[must_use]
    pub const fn with_policy(policy: SpinPolicy) -> Self {
        Self { word: AtomicU32::new(UNLOCKED), policy, rmw: PhantomData }
    }

    #[inline]
    pub(super) fn acquire(&self) {
        if !R::take(&self.word) {
            self.acquire_contended();
        }
    }

    #[cold]
    fn acquire_contended(&self) {
        spin_backing_off::<R>(&self.word, self.policy, || false);
    }

    #[cfg(feature = "std")]
    #[cold]
    pub(super) fn acquire_until(&self, deadline: crate::sys::DeadlineNs) -> bool {
        spin_backing_off::<R>(&self.word, self.policy, || crate::sys::now_ns() >= deadline)
    }

    #[inline]
    pub(super) fn try_acquire(&self) -> bool {
        // A failed exchange would dirty the holder's line for nothing; the read is free when it fails.
        self.word.load(Ordering::Relaxed) == UNLOCKED && R::take(&self.word)
    }

    #[inline]
    pub(super) fn release(&self) {
        self.word.store(UNLOCKED, Ordering::Release);
    }

    #[inline]
    pub(super) fn held(&self) -> bool {
        self.word.load(Ordering::Relaxed) == LOCKED
    }
}

impl<R: Rmw> Default for Ttas<R> {
    fn default() -> Self {
        Self::with_policy(SpinPolicy::DEFAULT)
    }
}

raw_mutex!([R: Rmw] Ttas<R>, GuardNoSend, Self::with_policy(SpinPolicy::DEFAULT));
raw_mutex_timed!([R: Rmw] Ttas<R>);
check_drop!([R: Rmw] Ttas<R>);
modelled!([R: Rmw] Ttas<R>; word);
