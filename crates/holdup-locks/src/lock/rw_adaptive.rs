//! The reader-writer lock for general use: a writer waits at most for the readers that are in, readers wait for one
//! writer at most, and whoever waits spins as long as that has paid, then sleeps.
//!
//! | bits of `state` | name | meaning |
//! |---|---|---|
//! | 0 | `WRITER` | a writer is in |
//! | 1 | `NEXT` | a writer waits before the door: no reader comes in |
//! | 2 | `RESERVED` | that writer has lost often enough: no other writer comes in either |
//! | 3 | `WRITER_ASLEEP` | that writer may sleep on the word |
//! | 4 | `READERS_ASLEEP` | readers may sleep on the word |
//! | 5 | `PHASE` | flips when a writer lets the queued readers in |
//! | 6 to 18 | `QUEUED` × n | n readers wait for the next flip |
//! | 19 to 31 | `IN` × n | n readers are in |
//!
//! `writers` is a lock for the place before the door: the other writers wait for it. An upgradable reader holds it too.
//!
//! ```text
//!  reader ──nobody before the door──► in
//!     └─ else queued ──a writer leaves: all that are queued──► in
//!  writer ──nobody in──► in
//!     └─ else `writers` ──► before the door (NEXT) ──the last reader leaves──► in
//! ```
//!
//! # Invariants
//! 1. Only a compare-exchange that found neither `WRITER` nor `IN` sets `WRITER`, and only that writer clears it. `IN`
//!    grows only by a step that found neither `WRITER` nor `NEXT`, or that clears `WRITER`. So a writer is in alone.
//! 2. `NEXT`, `RESERVED` and `WRITER_ASLEEP` are set by the holder of `writers` alone, and cleared in the step in which
//!    it comes in or gives up; a writer that leaves and wakes it clears `WRITER_ASLEEP` too.
//! 3. With `RESERVED` set only the holder of `writers` sets `WRITER`. So what an upgradable reader has seen is still so
//!    when its upgrade is in.
//! 4. `QUEUED` counts the readers that came in this phase, and were neither let in nor left the queue. A writer that
//!    leaves lets all of them in by one step that flips `PHASE`; if there are none, nobody looks at it, and it becomes
//!    0. The next flip needs a writer that was in, and so all of them gone (1): a queued reader that sees another phase
//!    than it came in is in, and one bit tells.
//! 5. `READERS_ASLEEP` is set by a step that found `WRITER` or `NEXT`; a step that clears either of them for good (a
//!    writer leaves or gives up) clears it too and wakes all. A reader sleeps on exactly the value that it left with
//!    the bit set.
//! 6. The writer before the door sleeps on exactly a value with `WRITER_ASLEEP` and (`WRITER` or `IN`); the step that
//!    leaves neither wakes it.
//!
//! No wake-up is lost: a queued reader can go on when its phase ends or when neither `WRITER` nor `NEXT` is set; the
//! step that brings this about is one of 4 or 5 and wakes it, or it finds the word changed and does not sleep. The
//! writer likewise by 6. loom explores it: `rw_adaptive*` in tests/loom_rw.rs.
//!
//! # Memory orderings
//! Coming in is Acquire: the compare-exchange in `replace`, or the load that sees the flip. Its partners are the
//! Release of a writer that leaves (`leave_as_writer`) and of readers that leave (the `fetch_sub` in `release_shared`).
//! All other changes are read-modify-writes, which continue those release sequences, and may be Relaxed (loom:
//! `rw_adaptive_readers_and_a_writer`, `rw_adaptive_writers_and_a_reader`).
//!
//! # Fairness
//! Phases of readers and writers alternate while both wait. A reader that goes to sleep leaves the queue, once: whoever
//! is let in is in the way of the next writer until it has had a CPU. Woken, it comes again, and if a writer was faster
//! it sleeps in the queue, so that it waits for two sections of writers at most. A newcomer among the writers may pass
//! the one before the door, which keeps the lock busy while that one wakes, until it has waited for a millisecond.
//!
//! Sources: phases that alternate: Brandenburg & Anderson, "Spin-based reader-writer synchronization for multiprocessor
//! real-time systems", Real-Time Systems 2010, section 3; a mutex among the writers, readers let in together: Go's
//! sync.RWMutex (2009).

use super::adaptive::{Adaptive, patience_ns};
use super::learned::{Learned, Pauses};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{DeadlineNs, Wait, now_ns, wait, wake, yield_now};

const WRITER: u32 = 1;
const NEXT: u32 = 1 << 1;
const RESERVED: u32 = 1 << 2;
const WRITER_ASLEEP: u32 = 1 << 3;
const READERS_ASLEEP: u32 = 1 << 4;
const PHASE: u32 = 1 << 5;
const QUEUED: u32 = 1 << 6;
const IN: u32 = 1 << 19;
const ALL_QUEUED: u32 = IN - QUEUED;

/// So many readers can be in, and so many queued; with a writer that becomes a reader all of them still fit.
const READERS_MAX: u32 = 8_190;

/// Wake-up classes.
const READERS: u32 = 1;
const NEXT_WRITER: u32 = 2;

/// The reader-writer lock for general use: a writer waits at most for the readers that are in, readers for one writer.
/// 24 bytes.
///
/// ```
/// use holdup_locks::{RwAdaptive, RwLock};
///
/// static ROUTES: RwLock<RwAdaptive, Vec<&str>> = RwLock::new(Vec::new());
///
/// ROUTES.write().push("/");
/// let (one, other) = (ROUTES.read(), ROUTES.read());
/// assert_eq!(*one, *other);
/// ```
///
/// # Cost
/// One compare-exchange and one atomic operation when free, for reading and for writing; a system call each way when a
/// waiter sleeps. All readers write the one word, so reading does not scale: [`RwSharded`](crate::RwSharded) does.
///
/// Measured: not in the [table](crate#measured).
///
/// # When not to use it
/// * Sections as short as a lock should have: [`Adaptive`] costs as much and excludes.
/// * A thread that holds it for reading and takes it again: a writer may have come in between, and both wait for ever.
///   So it is with every such lock that starves no writer.
/// * Writers that come again and again to a lock that many readers sleep for: a reader that has slept once is let in
///   while it sleeps, and the next writer waits until each of these has had a CPU.
/// * More than 8,190 readers at once: the next one waits until another has left.
/// * Between processes, and in a child that was forked while others waited: as [`Adaptive`].
///
/// # Source
/// Phases that alternate: Brandenburg & Anderson, Real-Time Systems 2010, section 3. A mutex among the writers: Go's
/// `sync.RWMutex` (2009).
#[repr(C)] // C programs initialise it.
pub struct RwAdaptive {
    state: AtomicU32,
    spin: Learned,
    writers: Adaptive,
}

/// What came of a reader's arrival.
enum Arrival {
    In,
    /// In the queue of this phase.
    Queued(u32),
    GaveUp,
}

impl RwAdaptive {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { state: AtomicU32::new(0), spin: Learned::new(), writers: Adaptive::new() }
    }

    /// A free lock whose waiters spin for `pauses` pauses, always; 0 means that they sleep at once.
    ///
    /// As [`Adaptive::with_spin`]: learning is the better choice unless a measurement says otherwise.
    #[must_use]
    pub const fn with_spin(pauses: u32) -> Self {
        Self { state: AtomicU32::new(0), spin: Learned::fixed(pauses), writers: Adaptive::with_spin(pauses) }
    }

    // ---------- readers

    #[inline]
    pub(super) fn acquire_shared(&self) {
        if !self.try_acquire_shared() {
            self.acquire_shared_contended(None);
        }
    }

    pub(super) fn acquire_shared_until(&self, deadline: DeadlineNs) -> bool {
        self.acquire_shared_contended(Some(deadline))
    }

    #[inline]
    pub(super) fn try_acquire_shared(&self) -> bool {
        // A guess in place of a load, which would fetch the line once more, to share it: it is free, or will be seen.
        let mut state = 0;
        while state & (WRITER | NEXT) == 0 && has_room(state) {
            match self.replace(state, state + IN) {
                Ok(_) => return true,
                Err(seen) => state = seen,
            }
        }
        false
    }

    #[inline]
    pub(super) fn release_shared(&self) {
        let old = self.state.fetch_sub(IN, Ordering::Release);
        // The last reader, and a writer that sleeps.
        if old < 2 * IN && old & WRITER_ASLEEP != 0 {
            self.wake_next_writer();
        }
    }

    #[cold]
    fn wake_next_writer(&self) {
        wake(&self.state, 1, NEXT_WRITER);
    }

    #[cold]
    fn acquire_shared_contended(&self, deadline: Option<DeadlineNs>) -> bool {
        let mut has_slept = false;
        loop {
            let phase = match self.arrive(deadline) {
                Arrival::In => return true,
                Arrival::Queued(phase) => phase,
                Arrival::GaveUp => return false,
            };
            if let Some(taken) = self.await_turn(phase, has_slept, deadline) {
                return taken;
            }
            has_slept = true;
        }
    }

    /// Comes in, or joins the queue of the present phase.
    fn arrive(&self, deadline: Option<DeadlineNs>) -> Arrival {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let open = state & (WRITER | NEXT) == 0;
            let room = if open { has_room(state) } else { state & ALL_QUEUED < READERS_MAX * QUEUED };
            if !room {
                // As many as the word can count.
                if deadline.is_some_and(|deadline| now_ns() >= deadline) {
                    return Arrival::GaveUp;
                }
                yield_now();
                state = self.state.load(Ordering::Relaxed);
                continue;
            }
            match self.replace(state, state + if open { IN } else { QUEUED }) {
                Ok(_) if open => return Arrival::In,
                Ok(_) => return Arrival::Queued(state & PHASE),
                Err(seen) => state = seen,
            }
        }
    }

    /// As a queued reader: spins, then sleeps, until it is in (true) or the deadline has passed. `None` once it has
    /// slept outside the queue, which it leaves unless it `stays`.
    fn await_turn(&self, phase: u32, stays: bool, deadline: Option<DeadlineNs>) -> Option<bool> {
        let budget = self.spin.budget();
        let mut pauses = Pauses::new();
        loop {
            // ORDERING: Acquire pairs with the Release of the writer that left and flipped the phase (loom:
            // `rw_adaptive_writers_and_a_reader`).
            let state = self.state.load(Ordering::Acquire);
            if state & PHASE != phase {
                if pauses.spent < budget {
                    self.spin.learn(pauses.spent);
                }
                return Some(true);
            }
            if state & (WRITER | NEXT) == 0 {
                // The writer before the door gave up, so this one comes in by itself.
                if has_room(state) && self.replace(state, state - QUEUED + IN).is_ok() {
                    return Some(true);
                }
                yield_now();
            } else if pauses.spent < budget {
                pauses.pause();
                if pauses.spent >= budget {
                    self.spin.unlearn();
                }
            } else {
                let announced = if stays { state } else { state - QUEUED } | READERS_ASLEEP;
                if announced != state && self.replace(state, announced).is_err() {
                    continue;
                }
                match wait(&self.state, announced, READERS, deadline) {
                    Wait::TimedOut => return Some(stays && self.leave_queue(phase)),
                    _ if !stays => return None,
                    _ => {}
                }
            }
        }
    }

    /// The deadline has passed: leaves the queue, or finds that it is in (true).
    #[cold]
    fn leave_queue(&self, phase: u32) -> bool {
        // ORDERING: Acquire as in `await_turn` (loom: `rw_adaptive_a_reader_gives_up`).
        let mut state = self.state.load(Ordering::Acquire);
        while state & PHASE == phase {
            match self.state.compare_exchange(state, state - QUEUED, Ordering::Relaxed, Ordering::Acquire) {
                Ok(_) => return false,
                Err(seen) => state = seen,
            }
        }
        true
    }

    // ---------- writers

    #[inline]
    pub(super) fn acquire_exclusive(&self) {
        // A guess in place of a load: a writer that leaves the lock free leaves 0.
        if self.replace(0, WRITER).is_err() {
            self.acquire_exclusive_contended(None);
        }
    }

    pub(super) fn acquire_exclusive_until(&self, deadline: DeadlineNs) -> bool {
        self.acquire_exclusive_contended(Some(deadline))
    }

    /// Comes in if nobody is, also past a writer that is on its way in, unless the turn is reserved.
    #[inline]
    pub(super) fn try_acquire_exclusive(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while nobody_in(state) && state & RESERVED == 0 {
            match self.replace(state, state | WRITER) {
                Ok(_) => return true,
                Err(seen) => state = seen,
            }
        }
        false
    }

    #[inline]
    pub(super) fn release_exclusive(&self) {
        self.leave_as_writer(0);
    }

    /// From writing to reading, in one step: no other writer comes in between.
    #[inline]
    fn downgrade_exclusive(&self) {
        self.leave_as_writer(IN);
    }

    /// Leaves, lets the queued readers in, and `staying` with them; wakes whoever sleeps and can go on.
    #[inline]
    fn leave_as_writer(&self, staying: u32) {
        // A guess, as in `acquire_exclusive`.
        let mut state = WRITER;
        loop {
            let left = left_by_writer(state, staying);
            match self.state.compare_exchange(state, left, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if state & (WRITER_ASLEEP | READERS_ASLEEP) == 0 => return,
                Ok(_) => return self.wake_sleepers(state, left),
                Err(seen) => state = seen,
            }
        }
    }

    #[cold]
    fn wake_sleepers(&self, before: u32, after: u32) {
        if before & READERS_ASLEEP != 0 {
            wake(&self.state, u32::MAX, READERS);
        }
        if before & !after & WRITER_ASLEEP != 0 {
            self.wake_next_writer();
        }
    }

    #[cold]
    fn acquire_exclusive_contended(&self, deadline: Option<DeadlineNs>) -> bool {
        if self.try_acquire_exclusive() {
            return true;
        }
        match deadline {
            None => self.writers.acquire(),
            Some(deadline) if !self.writers.acquire_until(deadline) => return false,
            Some(_) => {}
        }
        self.state.fetch_or(NEXT, Ordering::Relaxed);
        let taken = self.take_as_next(deadline);
        self.writers.release();
        taken
    }

    /// As the writer before the door: spins, then sleeps, until nobody is in; false if the deadline has passed.
    fn take_as_next(&self, deadline: Option<DeadlineNs>) -> bool {
        let mut reserves_at = None;
        loop {
            if self.spin_as_next() {
                return true;
            }
            let now = now_ns();
            let late = now >= *reserves_at.get_or_insert(now.saturating_add(patience_ns()));
            let Some(announced) = self.take_or_announce(if late { RESERVED } else { 0 }) else {
                return true;
            };
            if wait(&self.state, announced, NEXT_WRITER, deadline) == Wait::TimedOut {
                return self.leave_door();
            }
        }
    }

    fn spin_as_next(&self) -> bool {
        let budget = self.spin.budget();
        let mut pauses = Pauses::new();
        loop {
            let state = self.state.load(Ordering::Relaxed);
            if nobody_in(state) && self.replace(state, taken_by_next(state)).is_ok() {
                self.spin.learn(pauses.spent);
                return true;
            }
            if pauses.spent >= budget {
                self.spin.unlearn();
                return false;
            }
            pauses.pause();
        }
    }

    /// Takes the lock (`None`), or announces the sleep of the writer before the door and returns the value to sleep on.
    fn take_or_announce(&self, marks: u32) -> Option<u32> {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let free = nobody_in(state);
            let new = if free { taken_by_next(state) } else { state | WRITER_ASLEEP | marks };
            match self.replace(state, new) {
                Ok(_) => return (!free).then_some(new),
                Err(seen) => state = seen,
            }
        }
    }

    /// The deadline has passed: leaves the door to the readers behind it, or comes in after all (true).
    #[cold]
    fn leave_door(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let free = nobody_in(state);
            let new = if free { taken_by_next(state) } else { left_by_next(state) };
            match self.replace(state, new) {
                Ok(_) if free => return true,
                Ok(_) => {
                    if state & READERS_ASLEEP != 0 {
                        wake(&self.state, u32::MAX, READERS);
                    }
                    return false;
                }
                Err(seen) => state = seen,
            }
        }
    }

    // ---------- upgradable readers: readers that hold the place before the door

    #[inline]
    fn acquire_upgradable(&self) {
        self.writers.acquire();
        self.acquire_shared();
    }

    #[inline]
    fn try_acquire_upgradable(&self) -> bool {
        if !self.writers.try_acquire() {
            return false;
        }
        let taken = self.try_acquire_shared();
        if !taken {
            self.writers.release();
        }
        taken
    }

    #[inline]
    fn release_upgradable(&self) {
        // In this order: once the reader has left, the lock may be gone.
        self.writers.release();
        self.release_shared();
    }

    /// Waits for the other readers to leave.
    fn upgrade_shared(&self) {
        // No longer counted as a reader, but no other writer can come in (invariant 3).
        self.state.fetch_sub(IN - NEXT - RESERVED, Ordering::Relaxed);
        self.take_as_next(None);
        self.writers.release();
    }

    fn try_upgrade_shared(&self) -> bool {
        let mut state = self.state.load(Ordering::Relaxed);
        while state >> IN.trailing_zeros() == 1 {
            match self.replace(state, state - IN + WRITER) {
                Ok(_) => {
                    self.writers.release();
                    return true;
                }
                Err(seen) => state = seen,
            }
        }
        false
    }

    #[inline]
    pub(super) fn held(&self) -> bool {
        !nobody_in(self.state.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn held_exclusive(&self) -> bool {
        self.state.load(Ordering::Relaxed) & WRITER != 0
    }

    #[inline]
    fn replace(&self, old: u32, new: u32) -> Result<u32, u32> {
        self.state.compare_exchange(old, new, Ordering::Acquire, Ordering::Relaxed)
    }
}

fn nobody_in(state: u32) -> bool {
    state & WRITER == 0 && state < IN
}

/// Whether one more reader can be counted.
fn has_room(state: u32) -> bool {
    state < READERS_MAX * IN
}

/// `state` once the writer before the door is in.
fn taken_by_next(state: u32) -> u32 {
    state & !(NEXT | RESERVED | WRITER_ASLEEP) | WRITER
}

/// `state` once the writer before the door has given up. Sleeping readers look again.
fn left_by_next(state: u32) -> u32 {
    state & !(NEXT | RESERVED | WRITER_ASLEEP | READERS_ASLEEP)
}

/// `state` once the writer has left: the queued readers are in, and `staying` with them. If nobody is, the sleeping
/// writer's turn has come. Without queued readers nobody looks at the phase, and it begins anew.
fn left_by_writer(state: u32, staying: u32) -> u32 {
    let queued = (state & ALL_QUEUED) / QUEUED;
    let left = state & !(WRITER | READERS_ASLEEP | ALL_QUEUED);
    let phase = if queued > 0 { left & PHASE ^ PHASE } else { 0 };
    let left = (left & !PHASE | phase) + queued * IN + staying;
    if left < IN { left & !WRITER_ASLEEP } else { left }
}

impl Default for RwAdaptive {
    fn default() -> Self {
        Self::new()
    }
}

raw_rw_lock!([] RwAdaptive);
raw_rw_lock_upgrade!(RwAdaptive);
check_drop!(rw [] RwAdaptive);
modelled!([] RwAdaptive; state, spin, writers);

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Waits until one of these bits is set.
    fn await_bits(lock: &RwAdaptive, bits: u32) {
        while lock.state.load(Ordering::Relaxed) & bits == 0 {
            std::thread::yield_now();
        }
    }

    /// A reader in the queue waits for one writer: the one that leaves lets it in before the one before the door.
    #[test]
    fn a_queued_reader_comes_in_before_the_next_writer() {
        // It stays there as long as it spins.
        let lock = lock_api::RwLock::<RwAdaptive, u32>::from_raw(RwAdaptive::with_spin(i32::MAX as u32), 0);
        // SAFETY: the raw lock is only looked at.
        let raw = unsafe { lock.raw() };
        std::thread::scope(|scope| {
            let first = lock.write();
            let reader = scope.spawn(|| *lock.read());
            await_bits(raw, ALL_QUEUED);
            scope.spawn(|| *lock.write() += 1);
            await_bits(raw, NEXT);
            drop(first);
            assert_eq!(reader.join().expect("it does not panic"), 0, "the next writer was in before it");
        });
        assert_eq!(lock.into_inner(), 1);
    }

    /// A writer before the door that gives up lets in whom it kept out, although readers are in.
    #[test]
    fn a_writer_that_gives_up_lets_readers_in() {
        let lock = &RwAdaptive::new();
        lock.acquire_shared();
        std::thread::scope(|scope| {
            let soon = now_ns().saturating_add(3_000_000);
            let writer = scope.spawn(move || lock.acquire_exclusive_until(soon));
            let reader = scope.spawn(|| lock.acquire_shared());
            assert!(!writer.join().expect("it does not panic"), "a reader was in all the time");
            reader.join().expect("it came in");
        });
        assert_eq!(lock.state.load(Ordering::Relaxed) & !PHASE, 2 * IN);
        lock.release_shared();
        lock.release_shared();
    }

    /// Newcomers among the writers pass the one before the door until its turn is reserved.
    #[test]
    fn a_reserved_turn_is_nobody_elses() {
        let lock = RwAdaptive::new();
        lock.state.store(NEXT, Ordering::Relaxed);
        assert!(lock.try_acquire_exclusive(), "it passes");
        lock.release_exclusive();
        assert!(!lock.try_acquire_shared(), "a reader does not");
        lock.state.store(NEXT | RESERVED, Ordering::Relaxed);
        assert!(!lock.try_acquire_exclusive() && !lock.try_acquire_shared());
        assert_eq!(lock.take_or_announce(RESERVED), None, "whose turn it is takes it");
        assert_eq!(lock.state.load(Ordering::Relaxed), WRITER);
        lock.release_exclusive();
    }
}
