//! The ticket lock: draw a number, wait until it is served. First come, first served.
//!
//! | word | meaning |
//! |---|---|
//! | `next` | the number the next arrival draws |
//! | `serving` | the number whose thread holds the lock; `next == serving` means free |
//!
//! ```text
//!  serving 7 ── held by 7     8, 9, 10 wait     next 11
//! ```
//!
//! Both words lie in one aligned 8-byte unit, hence in one cache line: an arrival that draws its number has fetched
//! what it will wait for.
//!
//! Invariants:
//! 1. Every number is drawn once (`fetch_add`, or a compare-exchange in `try_acquire`), so one thread waits for each.
//! 2. Only the holder moves `serving`, by one; so holders follow each other in the order of their numbers.
//! 3. `serving` never passes `next`. `try_acquire` relies on it: `next` still equal to the `serving` it read before
//!    means that the lock was free at that moment. (Both wrap; the argument fails only if 2^32 acquisitions pass in
//!    between.)
//!
//! # Memory orderings
//! The Release store to `serving` in `release` is read with Acquire in `acquire` and `try_acquire` and carries the
//! section's writes (loom: `ticket`). Drawing is Relaxed: a number orders nothing but the queue.
//!
//! Waiting is proportional to the distance (Mellor-Crummey & Scott, ACM TOCS 1991, section 2.2: "ticket lock with
//! proportional backoff"). A waiter that is far from its turn, or has looked often, gives the CPU away: the thread
//! whose turn it is may need it. A lock that hands over in strict order still pays a context switch per turn once
//! threads outnumber CPUs; `Mcs` and `Adaptive` do not.

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{spin_hint, yield_now};

/// Pauses per thread that stands before us.
const PAUSES_PER_TURN: u32 = if cfg!(any(loom, miri)) { 1 } else { 8 };
/// From this distance on, spinning is a waste: more threads wait than most machines have idle CPUs.
const FAR: u32 = 4;
/// Looks before even the nearest waiter gives the CPU away.
const PATIENCE: u32 = if cfg!(any(loom, miri)) { 1 } else { 32 };

/// The ticket lock: first come, first served; spins in proportion to the distance, then gives the CPU away. 8 bytes.
///
/// ```
/// use holdup_locks::{Mutex, Ticket};
///
/// static NEXT: Mutex<Ticket, u32> = Mutex::new(1);
/// let number = std::mem::replace(&mut *NEXT.lock(), 2);
/// assert_eq!((number, *NEXT.lock()), (1, 2));
/// ```
///
/// # Cost
/// One atomic add to take, one plain store to release.
///
/// Measured: uncontended 0.47, tight 3.66, short 0.97, even 0.68, crowded 7.29 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// With more threads than CPUs: strict order then costs a context switch per turn; [`Mcs`](crate::Mcs) and
/// [`Adaptive`](crate::Adaptive) do without. Around sections that sleep. No timed variant: a drawn number cannot be
/// given back.
///
/// # Source
/// Mellor-Crummey & Scott, ACM TOCS 1991, section 2.2.
#[repr(C, align(8))]
pub struct Ticket {
    next: AtomicU32,
    serving: AtomicU32,
}

impl Ticket {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { next: AtomicU32::new(0), serving: AtomicU32::new(0) }
    }

    #[inline]
    fn acquire(&self) {
        let mine = self.next.fetch_add(1, Ordering::Relaxed);
        let serving = self.serving.load(Ordering::Acquire);
        if serving != mine {
            self.await_turn(mine, serving);
        }
    }

    #[cold]
    fn await_turn(&self, mine: u32, mut serving: u32) {
        let mut looks = 0;
        while serving != mine {
            let distance = mine.wrapping_sub(serving);
            if distance >= FAR || looks >= PATIENCE {
                yield_now();
            } else {
                (0..distance * PAUSES_PER_TURN).for_each(|_| spin_hint());
            }
            looks += 1;
            serving = self.serving.load(Ordering::Acquire);
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

impl Default for Ticket {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] Ticket, GuardNoSend, Self::new());
raw_mutex_fair!(both: Ticket);
check_drop!([] Ticket);
modelled!([] Ticket; next, serving);
