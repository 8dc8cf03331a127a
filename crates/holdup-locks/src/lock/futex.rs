//! Three states and a futex: the protocol that glibc's normal mutex speaks on its word.
//!
//! | word | meaning |
//! |---|---|
//! | `UNLOCKED` 0 | free |
//! | `LOCKED` 1 | held, nobody sleeps |
//! | `CONTENDED` 2 | held, somebody may sleep; or free in an instant and about to wake one |
//!
//! Invariants:
//! 1. Only an atomic operation that found `UNLOCKED` makes a holder.
//! 2. A waiter sleeps only on `CONTENDED`, and a thread that has waited takes the lock as `CONTENDED`: it cannot know
//!    whether others sleep.
//! 3. Whoever replaces `CONTENDED` by `UNLOCKED` wakes one. By 2 that one, when it takes the lock, keeps the word
//!    contended for the next sleeper; so while the lock is free and somebody sleeps, a wake is under way.
//! 4. A waiter that gives up tries once more, and takes the lock as 2 says. So a wake that it consumed is not lost.
//!
//! # Memory orderings
//! Acquire on every take, Release in `release`; the pair carries the section's writes (loom: `futex`).
//!
//! The functions of the module work on any word with these states: the interposer waits with them for glibc's.
//!
//! Source: Drepper, "Futexes Are Tricky" (2011), section 6, "Mutex, Take 2".
//!
//! Barging: a newcomer may take the lock before a woken waiter does. That is fast and starves: a thread that
//! re-acquires at once keeps the lock (Jain index 0.5 of two threads that hold for 300 us). Where turns matter use
//! `Adaptive` or `Fair`.

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{ANY, DeadlineNs, Wait, spin_hint, wait, wake};

/// Free.
pub const UNLOCKED: u32 = 0;
/// Held, nobody sleeps.
pub const LOCKED: u32 = 1;
/// Held, somebody may sleep.
pub const CONTENDED: u32 = 2;

/// Takes a free word, and leaves it `LOCKED` or `CONTENDED`.
#[inline]
pub fn take(word: &AtomicU32, taken: u32) -> bool {
    word.compare_exchange(UNLOCKED, taken, Ordering::Acquire, Ordering::Relaxed).is_ok()
}

/// Looks so many times, with a pause before each, and takes the word once it is free.
#[inline]
pub fn spin(word: &AtomicU32, looks: u32, taken: u32) -> bool {
    (0..looks).any(|_| {
        spin_hint();
        word.load(Ordering::Relaxed) == UNLOCKED && take(word, taken)
    })
}

/// Takes a word that was found held: spins in the waiter's way, then marks the word and sleeps, again and again.
///
/// `spin` gets what the word becomes when it takes it. `sleep` sleeps while the word is `CONTENDED`.
///
/// # Errors
/// What `sleep` gave up with; nothing was taken then.
#[inline]
pub fn spin_then_sleep<W, E>(
    word: &AtomicU32,
    waiter: &mut W,
    spin: impl Fn(&W, u32) -> bool,
    sleep: impl Fn(&mut W) -> Result<(), E>,
) -> Result<(), E> {
    let mut taken = LOCKED;
    while !spin(waiter, taken) {
        // One who comes to sleepers need not mark the word; one who has slept takes over to remember the others
        // (invariant 2).
        let marked = taken == LOCKED && word.load(Ordering::Relaxed) == CONTENDED;
        if !marked && mark(word) {
            break;
        }
        if let Err(gave_up) = sleep(waiter) {
            return if mark(word) { Ok(()) } else { Err(gave_up) };
        }
        taken = CONTENDED;
    }
    Ok(())
}

/// Makes the word `CONTENDED`; true if that took it.
#[inline]
fn mark(word: &AtomicU32) -> bool {
    word.swap(CONTENDED, Ordering::Acquire) == UNLOCKED
}

/// Three states and a futex, barging: the protocol of glibc's normal mutex, and no more. 8 bytes.
///
/// ```
/// use holdup_locks::{Futex, Mutex};
///
/// static TOTAL: Mutex<Futex, u64> = Mutex::new(0);
/// *TOTAL.lock() += 5;
/// assert_eq!(*TOTAL.lock(), 5);
///
/// // One that looks 100 times before it sleeps.
/// let patient = Mutex::from_raw(Futex::with_spin(100), 0);
/// assert!(patient.try_lock().is_some());
/// ```
///
/// # Cost
/// One compare-exchange and one exchange when free; one system call each way when contended.
///
/// Measured: uncontended 0.90, tight 0.78, short =0.99, even =1.02, crowded 0.95 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Where turns matter. A newcomer may take the lock before a woken waiter does, so a thread that re-acquires at once
/// keeps it: use [`Adaptive`](crate::Adaptive). Its use is comparison, and being simple.
///
/// # Source
/// Drepper, "Futexes Are Tricky" (2011), section 6, "Mutex, Take 2".
pub struct Futex {
    word: AtomicU32,
    spin: u32,
}

impl Futex {
    /// A free lock that sleeps as soon as it finds the lock held.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_spin(0)
    }

    /// A free lock that looks `spin` times, with a pause before each, and then sleeps; after each sleep it looks again.
    #[must_use]
    pub const fn with_spin(spin: u32) -> Self {
        Self { word: AtomicU32::new(UNLOCKED), spin }
    }

    #[inline]
    pub(super) fn acquire(&self) {
        if !self.try_acquire() {
            self.acquire_contended(None);
        }
    }

    pub(super) fn acquire_until(&self, deadline: DeadlineNs) -> bool {
        self.acquire_contended(Some(deadline))
    }

    #[cold]
    fn acquire_contended(&self, deadline: Option<DeadlineNs>) -> bool {
        let look = |lock: &&Self, taken| spin(&lock.word, lock.spin, taken);
        let sleep = |lock: &mut &Self| match wait(&lock.word, CONTENDED, ANY, deadline) {
            Wait::TimedOut => Err(()),
            Wait::Woken | Wait::Changed | Wait::Interrupted => Ok(()),
        };
        spin_then_sleep(&self.word, &mut &*self, look, sleep).is_ok()
    }

    #[inline]
    pub(super) fn try_acquire(&self) -> bool {
        take(&self.word, LOCKED)
    }

    #[inline]
    pub(super) fn release(&self) {
        let old = self.word.swap(UNLOCKED, Ordering::Release);
        if old == CONTENDED {
            self.wake_one();
        }
    }

    #[cold]
    fn wake_one(&self) {
        wake(&self.word, 1, ANY);
    }

    #[inline]
    pub(super) fn held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != UNLOCKED
    }
}

impl Default for Futex {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] Futex, GuardNoSend, Self::new());
raw_mutex_timed!([] Futex);
check_drop!([] Futex);
modelled!([] Futex; word);
