//! A futex that the kernel owns: it knows the holder, lends it its waiters' priority, and hands over to the highest.
//!
//! Always in the kernel: also the free lock is taken and released by system call, so that its price can be compared
//! with the other kernel objects. (glibc's PTHREAD_PRIO_INHERIT takes the free lock in user space.)
//!
//! | word, written by the kernel | meaning |
//! |---|---|
//! | 0 | free |
//! | thread number | held by that thread |
//! | thread number, top bit set | the same, and others wait |
//!
//! Invariants:
//! 1. Only the kernel writes the word, in answer to these calls; it admits one owner at a time.
//! 2. Only the owner's thread releases; hence the guard cannot be sent to another thread.
//! 3. A kernel without these calls (ENOSYS is the same answer for every thread, always) makes the lock a `Futex`.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides; `mutual_exclusion` in tests/conformance.rs holds it.
//!
//! Sources: futex(2), "Priority-inheritance futexes"; Sha, Rajkumar & Lehoczky, "Priority inheritance protocols", IEEE
//! ToC 1990, section 3.

use super::futex::Futex;
use super::kernel::broken;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::object::{self as kernel};
use crate::sys::{DeadlineNs, SysError, Taken, now_ns, yield_now};

const NAME: &str = "futex-pi";
const FREE: u32 = 0;

/// Priority-inheriting futex, always through the kernel, which lends the holder its waiters' priority. 12 bytes.
///
/// ```
/// use holdup_locks::{FutexPi, Mutex};
///
/// let state = Mutex::<FutexPi, u32>::new(0);
/// *state.lock() += 1;
/// assert_eq!(*state.lock(), 1);
/// ```
///
/// # Cost
/// A system call each way, also when free, and a hand-over to a sleeping thread at every contended release.
///
/// Measured: uncontended 23.3 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Unless threads of different real-time priorities share the lock. glibc's `PTHREAD_PRIO_INHERIT` takes the free lock
/// in user space and is the cheaper choice where it is at hand. The guard stays on its thread. A timed try needs Linux
/// 5.14 to sleep; before, it polls.
///
/// # Panics
/// Locking it twice on one thread panics in every build, because the kernel notices. Where the kernel has no such
/// futexes the lock works as [`Futex`](crate::Futex), without inheritance: [`FutexPi::create`] tells.
///
/// # Source
/// futex(2), "Priority-inheritance futexes"; Sha, Rajkumar & Lehoczky, IEEE ToC 1990, section 3.
pub struct FutexPi {
    word: AtomicU32,
    stand_in: Futex,
}

impl FutexPi {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { word: AtomicU32::new(FREE), stand_in: Futex::new() }
    }

    /// Says whether the kernel has priority-inheriting futexes.
    ///
    /// # Errors
    /// The system call that is missing; the lock then works as `Futex`.
    pub fn create(&self) -> Result<(), SysError> {
        let probe = AtomicU32::new(FREE);
        if kernel::pi_try(&probe)? == Taken::Yes {
            kernel::pi_give(&probe)?;
        }
        Ok(())
    }

    fn acquire(&self) {
        match kernel::pi_take(&self.word, None) {
            Ok(_) => {}
            Err(error) if kernel::is_missing(&error) => self.stand_in.acquire(),
            Err(error) => broken(NAME, error),
        }
    }

    fn acquire_until(&self, deadline: DeadlineNs) -> bool {
        match kernel::pi_take(&self.word, Some(deadline)) {
            Ok(taken) => taken == Taken::Yes,
            Err(error) if kernel::is_missing(&error) => self.poll_until(deadline),
            Err(error) => broken(NAME, error),
        }
    }

    /// The timed call is younger than the others: where only it is missing, asks again and again.
    #[cold]
    fn poll_until(&self, deadline: DeadlineNs) -> bool {
        loop {
            match kernel::pi_try(&self.word) {
                Ok(Taken::Yes) => return true,
                Ok(Taken::No) if now_ns() >= deadline => return false,
                Ok(Taken::No) => yield_now(),
                Err(_) => return self.stand_in.acquire_until(deadline),
            }
        }
    }

    fn try_acquire(&self) -> bool {
        match kernel::pi_try(&self.word) {
            Ok(taken) => taken == Taken::Yes,
            Err(_) => self.stand_in.try_acquire(),
        }
    }

    fn release(&self) {
        match kernel::pi_give(&self.word) {
            Ok(()) => {}
            Err(error) if kernel::is_missing(&error) => self.stand_in.release(),
            Err(error) => {
                panic!("holdup-locks: futex-pi lock released by a thread that does not hold it: {error}")
            }
        }
    }

    fn held(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE || self.stand_in.held()
    }
}

impl Default for FutexPi {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] FutexPi, GuardNoSend, Self::new());
raw_mutex_timed!([] FutexPi);
check_drop!([] FutexPi);
modelled!([] FutexPi; word, stand_in);
