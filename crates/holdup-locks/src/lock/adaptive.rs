//! The lock for general use: barges while that is harmless, spins as long as spinning has paid, sleeps otherwise, and
//! hands over to whoever has waited for a millisecond.
//!
//! | bits of `state` | name | meaning |
//! |---|---|---|
//! | 0 | `LOCKED` | held |
//! | 1 | `PARKED` | somebody may sleep on the word |
//! | 2 | `AWAKE` | one waiter is awake and will take the lock or say that it sleeps: nobody need be woken |
//! | 3.. | `STARVING` × n | n waiters have waited too long; while n > 0 only they may take the lock |
//!
//! `spin` is the learned number of pauses after which waiters got the lock, or a fixed count: see `learned.rs`.
//! `asymmetry` says whether a release may be a plain store, which it may until somebody wants to sleep: see
//! `asymmetry.rs`. While it may, `state` is 0 or `LOCKED`, and all that is said of the other bits here waits for the
//! end of the turn that a would-be sleeper begins.
//!
//! ```text
//!  newcomer ──CAS 0→LOCKED──► holder            (free, nobody starves)
//!     │ held
//!     ├─ spin ──► holder                         (once somebody sleeps, one spinner at a time: it sets AWAKE)
//!     └─ else, or spun in vain: set PARKED, sleep ──1 ms──► STARVING: next in turn
//! ```
//!
//! # Invariants
//! 1. Only a compare-exchange that found `LOCKED` clear sets it; so there is at most one holder. Only the holder clears
//!    it.
//! 2. While `STARVING` > 0, only a thread that is counted in it sets `LOCKED`, and leaves the count in the same step.
//! 3. A thread sleeps on `state` only after a step that left `PARKED` set, on exactly that value, and that step found
//!    `LOCKED` set or `STARVING` > 0. No plain store is to come then: it waited for that before.
//! 4. `AWAKE` is set by a spinner for itself, once it sees that somebody sleeps, or by a releaser for the waiter it
//!    wakes (who learns it from `Woken`). Its owner clears it in the step in which it takes the lock, announces its
//!    sleep, or gives up; a releaser whose wake found nobody clears it itself.
//! 5. A releaser that clears `PARKED` wakes one. A thread that has consumed a wake sets `PARKED` again in its next
//!    step.
//! 6. A waiter that gives up while the lock is free *takes it instead* if it may. So giving up never leaves a free lock
//!    whose wake-up it has consumed or whose `STARVING` count kept others out.
//!
//! No wake-up is lost: let the lock be free while somebody sleeps, for good. The last release saw either
//! `PARKED` (3, 5) or a wake under way (5). (a) `STARVING` > 0: the releaser woke a starving sleeper, or each of them
//! is awake; a starving thread that is awake finds the lock free and takes it (2) or gives up by taking it (6). (b)
//! `AWAKE` set: its owner is awake, finds the lock free and takes it, or sleeps, which 3 forbids. (c) neither: the
//! releaser's compare-exchange set `AWAKE` and woke one, or failed because somebody took the lock, whose release is
//! then the last one. Each case contradicts "free for good". loom explores it: `adaptive*` in tests/loom.rs.
//!
//! # Memory orderings
//! Every take is Acquire; its partner is the Release in `release`, a store or a `fetch_sub`. All later changes of
//! `state` until the next release are read-modify-writes, so they continue its release sequence and may be Relaxed.
//!
//! # Fairness
//! A thread sleeps at most `PATIENCE_NS` before it counts as starving; then newcomers queue behind it and each release
//! wakes a starving sleeper in the kernel's order. Two threads that hold for 300 us and re-acquire at once get equal
//! shares.
//!
//! Sources: spin then park, competitively: Karlin, Li, Manasse & Owicki, "Empirical studies of competitive spinning for
//! a shared-memory multiprocessor", SOSP 1991; the wake-up throttle and the two modes: the idea of Go's sync.Mutex
//! (2016) and of eventual fairness in WebKit's WTF::Lock (Pizlo, 2016).

use super::asymmetry::{Asymmetry, Look};
use super::learned::{Learned, Pauses};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{DeadlineNs, Wait, now_ns, wait, wake};

const LOCKED: u32 = 1;
const PARKED: u32 = 2;
const AWAKE: u32 = 4;
const STARVING: u32 = 8;

/// Wake-up classes: who sleeps patiently, and who starves.
const PATIENT_SLEEPERS: u32 = 1;
const STARVING_SLEEPERS: u32 = 2;

/// After this long a waiter counts as starving.
#[cfg(not(loom))]
const PATIENCE_NS: u64 = 1_000_000;

/// The lock for general use: learns how long to spin, sleeps otherwise, and lets nobody starve. 16 bytes.
///
/// ```
/// use holdup_locks::{Adaptive, Mutex};
/// use std::time::Duration;
///
/// static QUEUE: Mutex<Adaptive, Vec<u32>> = Mutex::new(Vec::new());
///
/// QUEUE.lock().push(1);
/// match QUEUE.try_lock_for(Duration::from_millis(10)) {
///     Some(queue) => assert_eq!(*queue, [1]),
///     None => eprintln!("somebody keeps the queue for long"),
/// }
/// ```
///
/// # Cost
/// One compare-exchange and one plain store when free, as a spin lock's; an atomic subtraction in place of the store
/// while threads sleep, and for 1,000 releases after. A system call each way when a waiter sleeps.
///
/// Measured: uncontended 0.49, tight =1.10, short =0.96, even 0.75, crowded 0.97 of pthread's time ([table](crate#measured)).
///
/// Newcomers may take a free lock before sleepers do, which keeps it fast; a waiter that has slept for a millisecond is
/// served before all newcomers, so two threads that hold for 300 us and re-acquire at once get equal shares.
///
/// # When not to use it
/// * Strict order of arrival: [`Fair`](crate::Fair).
/// * Waiters of different real-time priorities: [`FutexPi`](crate::FutexPi).
/// * Between processes: the sleepers are found by an address of this process.
/// * A child that was forked while others waited finds their marks in its copy. A lock that nobody held or awaited is
///   usable there.
///
/// # Source
/// Spin then park, competitively: Karlin, Li, Manasse & Owicki, SOSP 1991. Eventual fairness: the idea of Go's
/// `sync.Mutex` (2016) and WebKit's `WTF::Lock` (Pizlo, 2016).
#[repr(C)] // C programs initialise it.
pub struct Adaptive {
    state: AtomicU32,
    spin: Learned,
    asymmetry: Asymmetry,
}

/// After this long a waiter counts as starving.
#[cfg(not(loom))]
pub(super) fn patience_ns() -> u64 {
    PATIENCE_NS
}

/// Models choose: 0 lets every sleeper starve, `u64::MAX` lets nobody, so that both kinds of sleep are explored.
#[cfg(loom)]
pub(super) fn patience_ns() -> u64 {
    crate::model::PATIENCE_NS.load(core::sync::atomic::Ordering::Relaxed)
}

/// What one waiter knows about itself.
struct Waiter {
    deadline: Option<DeadlineNs>,
    starves_at: u64,
    /// It owns `AWAKE`.
    awake: bool,
    /// It is counted in `STARVING`.
    starving: bool,
    /// It has slept, so others may sleep too: `PARKED` must be set when it takes the lock.
    slept: bool,
}

impl Adaptive {
    /// A free lock that learns how long to spin.
    ///
    /// `Mutex::<Adaptive, T>::new` calls it; in a `static` too.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: AtomicU32::new(0), spin: Learned::new(), asymmetry: Asymmetry::new() }
    }

    /// A free lock that spins for `pauses` pauses, always; 0 means that it sleeps at once.
    ///
    /// What `InitializeCriticalSectionAndSpinCount` offers. Learning is the better choice unless a measurement says
    /// otherwise.
    ///
    /// ```
    /// use holdup_locks::{Adaptive, Mutex};
    ///
    /// static LOG: Mutex<Adaptive, Vec<u8>> = Mutex::from_raw(Adaptive::with_spin(0), Vec::new());
    /// LOG.lock().extend(b"line");
    /// ```
    #[must_use]
    pub const fn with_spin(pauses: u32) -> Self {
        Self { state: AtomicU32::new(0), spin: Learned::fixed(pauses), asymmetry: Asymmetry::new() }
    }

    #[inline]
    pub(super) fn acquire(&self) {
        if !self.take_free() {
            self.acquire_contended(None);
        }
    }

    pub(super) fn acquire_until(&self, deadline: DeadlineNs) -> bool {
        self.acquire_contended(Some(deadline))
    }

    /// Takes the lock unless it is held, or free and owed to a starving waiter.
    #[inline]
    pub(super) fn try_acquire(&self) -> bool {
        self.take_free() || self.barge()
    }

    #[inline]
    fn take_free(&self) -> bool {
        self.replace(0, LOCKED).is_ok()
    }

    #[inline]
    pub(super) fn release(&self) {
        if self.asymmetry.undisturbed() { self.release_by_store() } else { self.release_symmetric() }
    }

    #[inline]
    fn release_by_store(&self) {
        self.state.store(0, Ordering::Release);
        Asymmetry::light_fence();
        // Only a holder may end a turn: this thread once more, or whoever has taken the lock meanwhile.
        if !self.asymmetry.undisturbed() && self.take_free() {
            self.release_symmetric();
        }
    }

    #[inline(never)]
    fn release_symmetric(&self) {
        let mut look = self.asymmetry.look();
        if matches!(look, Look::Quiet) && self.asymmetry.begin() {
            if self.state.load(Ordering::Relaxed) == LOCKED {
                return self.release_by_store();
            }
            look = self.asymmetry.end_turn();
        }
        let old = self.state.fetch_sub(LOCKED, Ordering::Release);
        if matches!(look, Look::Turned) {
            self.asymmetry.wake_all();
        }
        if old & PARKED != 0 {
            self.release_contended(old - LOCKED);
        }
    }

    #[inline]
    pub(super) fn held(&self) -> bool {
        self.state.load(Ordering::Relaxed) & LOCKED != 0
    }

    #[cold]
    fn acquire_contended(&self, deadline: Option<DeadlineNs>) -> bool {
        if self.barge() {
            return true;
        }
        let mut waiter = Waiter { deadline, starves_at: 0, awake: false, starving: false, slept: false };
        if self.spin(&mut waiter) {
            return true;
        }
        self.asymmetry.enter();
        let acquired = self.acquire_asleep(&mut waiter);
        self.asymmetry.leave();
        acquired
    }

    /// Sleeps until the lock is had, or the deadline has passed.
    fn acquire_asleep(&self, waiter: &mut Waiter) -> bool {
        // Who owns `AWAKE` has left a mark that was allowed.
        if !waiter.awake
            && let Some(acquired) = self.asymmetry.wait_for_turn(waiter.deadline, || self.take_free())
        {
            return acquired;
        }
        waiter.starves_at = now_ns().saturating_add(patience_ns());
        loop {
            let Some(announced) = self.take_or_announce(waiter) else {
                return true;
            };
            if let Some(acquired) = self.sleep(waiter, announced) {
                return acquired;
            }
        }
    }

    /// Takes a free lock that has waiters but none that starves.
    fn barge(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state & LOCKED == 0 && state < STARVING {
            match self.replace(state, state | LOCKED) {
                Ok(_) => return true,
                Err(seen) => state = seen,
            }
        }
        false
    }

    /// Spins for the learned time, unless somebody sleeps and somebody else spins already; true if that got the lock.
    /// A starving waiter always may: nobody but its like can get ahead of it, and a sleep would leave the lock idle.
    fn spin(&self, waiter: &mut Waiter) -> bool {
        let budget = self.spin.budget();
        let mut pauses = Pauses::new();
        while pauses.spent < budget {
            pauses.pause();
            let state = self.state.load(Ordering::Relaxed);
            if state >= STARVING && !waiter.starving {
                return false;
            }
            if state & LOCKED == 0 {
                if self.replace(state, waiter.taken(state)).is_ok() {
                    self.spin.learn(pauses.spent);
                    return true;
                }
            } else if !waiter.awake && !waiter.starving && state & PARKED != 0 {
                // Somebody sleeps: one of us spins in its stead, the others join it.
                if state & AWAKE != 0 || self.replace(state, state | AWAKE).is_err() {
                    return false;
                }
                waiter.awake = true;
            }
        }
        self.spin.unlearn();
        false
    }

    /// Takes the lock (`None`), or announces the caller's sleep and returns the value to sleep on.
    fn take_or_announce(&self, waiter: &mut Waiter) -> Option<u32> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let free = waiter.may_take(state);
            let new = if free { waiter.taken(state) } else { waiter.announced(state) };
            match self.replace(state, new) {
                Ok(_) if free => return None,
                Ok(_) => {
                    waiter.awake = false;
                    return Some(new);
                }
                Err(seen) => state = seen,
            }
        }
    }

    /// Sleeps on `announced`; `Some` if the wait is over, with or without the lock.
    fn sleep(&self, waiter: &mut Waiter, announced: u32) -> Option<bool> {
        let class = if waiter.starving { STARVING_SLEEPERS } else { PATIENT_SLEEPERS };
        let woken = wait(&self.state, announced, class, waiter.sleeps_until()) == Wait::Woken;
        waiter.slept = true;
        waiter.awake |= woken && class == PATIENT_SLEEPERS;
        let now = if waiter.reads_clock() { now_ns() } else { 0 };
        if waiter.deadline.is_some_and(|deadline| now >= deadline) {
            return Some(self.give_up(waiter));
        }
        if !waiter.starving && now >= waiter.starves_at {
            // Where threads outnumber CPUs most of the wait is for a CPU, and the lock is free by now: no need to keep
            // newcomers out.
            if self.take_if_free(waiter) {
                return Some(true);
            }
            self.state.fetch_add(STARVING, Ordering::Relaxed);
            waiter.starving = true;
        }
        ((waiter.awake || waiter.starving) && self.spin(waiter)).then_some(true)
    }

    /// One attempt on a lock that looks free.
    fn take_if_free(&self, waiter: &Waiter) -> bool {
        let state = self.state.load(Ordering::Relaxed);
        waiter.may_take(state) && self.replace(state, waiter.taken(state)).is_ok()
    }

    /// The deadline has passed: undoes the caller's marks, or takes the lock if it is free (invariant 6).
    #[cold]
    fn give_up(&self, waiter: &Waiter) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let free = waiter.may_take(state);
            let new = if free { waiter.taken(state) } else { waiter.gone(state) };
            match self.replace(state, new) {
                Ok(_) => return free,
                Err(seen) => state = seen,
            }
        }
    }

    /// Lets somebody have the lock that was just released, leaving `state`, which has `PARKED` set.
    #[cold]
    fn release_contended(&self, mut state: u32) {
        loop {
            if state >= STARVING {
                // None asleep means that they are awake and nobody else may take the lock.
                wake(&self.state, 1, STARVING_SLEEPERS);
                return;
            }
            if state & (LOCKED | AWAKE) != 0 || state & PARKED == 0 {
                // Somebody awake took it, or will.
                return;
            }
            match self.replace(state, (state & !PARKED) | AWAKE) {
                Ok(_) if wake(&self.state, 1, PATIENT_SLEEPERS) > 0 => return,
                Ok(_) => state = self.keep_or_drop_awake(),
                Err(seen) => state = seen,
            }
        }
    }

    /// The wake found nobody, so `AWAKE` is ours to clear; returns the state left, in which somebody may sleep
    /// meanwhile.
    fn keep_or_drop_awake(&self) -> u32 {
        self.state.fetch_and(!AWAKE, Ordering::Relaxed) & !AWAKE
    }

    #[inline]
    fn replace(&self, old: u32, new: u32) -> Result<u32, u32> {
        self.state.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
    }
}

impl Waiter {
    fn may_take(&self, state: u32) -> bool {
        state & LOCKED == 0 && (self.starving || state < STARVING)
    }

    /// `state` with the lock taken by this waiter and its marks gone.
    fn taken(&self, state: u32) -> u32 {
        self.unmarked(state) | LOCKED | if self.slept { PARKED } else { 0 }
    }

    /// `state` with this waiter about to sleep.
    fn announced(&self, state: u32) -> u32 {
        let state = if self.awake { state & !AWAKE } else { state };
        state | PARKED
    }

    /// `state` with this waiter gone; what it may have consumed is left for others as `PARKED`.
    fn gone(&self, state: u32) -> u32 {
        self.unmarked(state) | PARKED
    }

    fn unmarked(&self, state: u32) -> u32 {
        let state = if self.awake { state & !AWAKE } else { state };
        if self.starving { state - STARVING } else { state }
    }

    fn sleeps_until(&self) -> Option<DeadlineNs> {
        let patience = (!self.starving && self.starves_at != u64::MAX).then_some(self.starves_at);
        match (self.deadline, patience) {
            (Some(deadline), Some(patience)) => Some(deadline.min(patience)),
            (deadline, patience) => deadline.or(patience),
        }
    }

    fn reads_clock(&self) -> bool {
        !self.starving || self.deadline.is_some()
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] Adaptive, GuardNoSend, Self::new());
raw_mutex_timed!([] Adaptive);
check_drop!([] Adaptive);
modelled!([] Adaptive; state, spin, asymmetry);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::asymmetry::{ASYMMETRIC, QUIET, WAITER};
    use super::*;
    use crate::Mutex;
    use std::time::Duration;

    #[test]
    fn a_sleeper_makes_a_lock_symmetric_and_quiet_makes_it_asymmetric_again() {
        let lock = Mutex::<Adaptive, u32>::from_raw(Adaptive::with_spin(0), 0);
        // SAFETY: the raw lock is only looked at.
        let word = || unsafe { lock.raw() }.asymmetry.word();
        assert_eq!(word(), ASYMMETRIC);
        let mut held = lock.lock();
        std::thread::scope(|threads| {
            threads.spawn(|| *lock.lock() += 1);
            while word() < WAITER {
                std::thread::yield_now();
            }
            *held += 1;
            drop(held);
        });
        assert!(word() == 0 || QUIET == 1, "nobody waits, and releases keep marks");
        (0..QUIET).for_each(|_| *lock.lock() += 1);
        assert_eq!(word(), ASYMMETRIC);
        assert_eq!(*lock.lock(), 2 + QUIET);
    }

    /// Two threads that sleep in their sections make the lock change its mode again and again between others that do
    /// not, and that are preempted and moved as the kernel likes.
    #[test]
    fn modes_change_under_load() {
        const TIMES: u32 = if cfg!(miri) { 20 } else { 20_000 };
        let lock = Mutex::<Adaptive, u32>::from_raw(Adaptive::with_spin(0), 0);
        std::thread::scope(|threads| {
            for sleeps in [true, true, false, false, false, false] {
                let lock = &lock;
                threads.spawn(move || {
                    for time in 0..TIMES {
                        let mut value = lock.lock();
                        *value += 1;
                        if sleeps && time % (TIMES / 20) == 0 {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                    }
                });
            }
        });
        assert_eq!(*lock.lock(), 6 * TIMES);
    }
}
