//! Any lock behind a gate: few threads contend for it, the others sleep, and a rotation lets each in after a bounded
//! number of turns.
//!
//! What: admission per acquisition. A thread takes one of `ACTIVE` places, then the lock; it gives both back on
//! unlocking. While places change hands among running threads nobody is woken, which is what makes a gate fast; so that
//! those asleep are not forgotten, every `TURN`-th place given back is handed to the first of them. It is a counting
//! throttle (Hart, 1998) with an eventual hand-over (as `WTF::Lock` has by time, here by count). There is no list of
//! threads: those who wait form a line at a [`Gate`] of one, and only the front of the line watches the places.
//!
//! | bits of `places` | meaning |
//! |---|---|
//! | 0–11 | places taken, at most `ACTIVE` |
//! | 12–27 | places given back since the last hand-over while somebody waited |
//! | `WAITS` | somebody stands in the line, or is on the way to it |
//! | `RUNG` | the front has been woken and has not looked yet |
//! | `HANDED` | one of the taken places is the front's |
//!
//! ```text
//!   lock() ──► places ──full──► line (first come, first served) ──► front ──► places
//!                │                                                              │
//!                └──────────────────────► inner lock ◄──────────────────────────┘
//! ```
//!
//! Invariants:
//! 1. At most `ACTIVE` places are taken, by one compare-exchange each; who holds the inner lock holds a place.
//! 2. `WAITS` implies that a place is taken or `RUNG` is set. So the last to leave either finds nobody waiting or
//!    wakes the front, and a lock that is free is never slept on.
//! 3. `RUNG` is cleared only by the front, in the same exchange that takes a place or sees all places taken.
//! 4. The front reads `bell` *before* it looks at `places`; who rings changes `places` *before* `bell`. No wake-up is
//!    lost, as in [`Gate`].
//! 5. While `WAITS` is set and `HANDED` is not, every place given back counts, and the `TURN`-th is handed over. So a
//!    thread with `k` others before it in the line gets its place after at most `(k + 1) * TURN` places were given
//!    back, not counting those given back while a hand-over waits for its new owner to run; with `ACTIVE` = 1 there are
//!    none, and the bound holds for the lock itself. With more, the inner lock decides among `ACTIVE` threads, and the
//!    whole is as fair as that lock is for so few. One gap: a front admitted at the very moment the next thread joins
//!    may clear `WAITS`; the joiner sets it again as soon as it runs, and its turns count from there.
//!
//! Memory orderings: an exchange that takes a place is `Acquire`, one that gives it back `Release`: with `ACTIVE` = 1
//! they would carry the data even without the inner lock. The bell's add is `Release` and its load `Acquire`, so that a
//! front that hears a ring also sees why (invariant 4); loom runs read-modify-writes in order and cannot show this one
//! missing. Tests: `gated_bounds_waiting`, `gated_gives_everyone_a_share`, and of the transitions `gated::tests`; loom:
//! `gated_excludes_and_wakes` (fails without `RUNG`), `gated_hands_over`, `gated_keeps_its_line_moving`.
//!
//! Cost and when not to use it: see [`Gated`].

use core::fmt;

use lock_api::RawMutex;

use super::Gate;
use crate::lock::misuse;
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{ANY, spin_hint, wait, wake};

const TAKEN: u32 = (1 << 12) - 1;
const TURN_ONE: u32 = 1 << 12;
const TURNS: u32 = 0xFFFF << 12;
const WAITS: u32 = 1 << 28;
const RUNG: u32 = 1 << 29;
const HANDED: u32 = 1 << 30;

/// Looks at the places before joining the line. Short: sleeping is what the gate is for.
const SPINS: u32 = if cfg!(loom) { 0 } else { 40 };

/// The lock `L` with at most `ACTIVE` threads contending, and a hand-over every `TURN` acquisitions.
///
/// ```
/// use holdup_locks::technique::{DefaultLock, Gated};
///
/// static TOTAL: lock_api::Mutex<Gated<DefaultLock>, u64> = lock_api::Mutex::new(0);
///
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| (0..100).for_each(|_| *TOTAL.lock() += 1));
///     }
/// });
/// assert_eq!(*TOTAL.lock(), 800);
/// ```
///
/// # Cost
/// Two compare-exchanges on top of the inner lock, which about doubles the price of a fast one. 32 bytes and the inner
/// lock. No system call unless somebody sleeps; with one place and sleepers, one wake-up each time the front has slept,
/// and one switch every `TURN` acquisitions.
///
/// # When not to use it
/// * In front of a lock that keeps its spinners few by itself ([`Adaptive`](crate::Adaptive)): a gate only costs there.
/// * With few threads, or sections of a microsecond and more: any lock alone does better.
/// * Where `try_lock` must succeed whenever the inner lock is free: it takes no turn, and fails when no place is free.
///
/// It is for locks that collapse when threads outnumber CPUs, such as those with a queue of spinners
/// ([`TicketSpin`](crate::TicketSpin)).
///
/// # Source
/// Hart (1998), with an eventual hand-over by count, as `WTF::Lock` has by time (Pizlo, 2016).
pub struct Gated<L, const ACTIVE: u32 = 1, const TURN: u32 = 1024> {
    line: Gate,
    places: AtomicU32,
    bell: AtomicU32,
    inner: L,
}

/// What an acquisition of a [`Gated`] lock carries: the inner lock's own state. The place is anonymous.
pub struct GatedState<S> {
    inner: S,
}

impl<L, const ACTIVE: u32, const TURN: u32> Gated<L, ACTIVE, TURN> {
    /// An inner lock without any state keeps nobody out: then this is the gate alone, which several threads pass at
    /// once, and there is no holder to check.
    const EXCLUDES: bool = size_of::<L>() != 0;

    /// How many threads sleep in the line or are about to; a moment's value.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.line.present()
    }

    #[inline]
    fn try_take_place(&self) -> bool {
        let mut places = self.places.load(Ordering::Relaxed);
        while places & TAKEN < ACTIVE {
            match self.places.compare_exchange_weak(places, places + 1, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(seen) => places = seen,
            }
        }
        false
    }

    #[inline]
    fn take_place(&self) {
        if !self.try_take_place() {
            self.take_place_contended();
        }
    }

    #[cold]
    fn take_place_contended(&self) {
        for _ in 0..SPINS {
            if self.places.load(Ordering::Relaxed) & WAITS != 0 {
                break;
            }
            spin_hint();
            if self.try_take_place() {
                return;
            }
        }
        if self.take_place_or_announce() {
            return;
        }
        self.line.enter_raw();
        self.wait_at_the_front();
        self.line.leave_raw();
    }

    /// Takes a free place, or sets `WAITS` so that turns count while this thread is still on its way to the line.
    fn take_place_or_announce(&self) -> bool {
        let mut places = self.places.load(Ordering::Relaxed);
        loop {
            let free = places & TAKEN < ACTIVE;
            let next = if free { places + 1 } else { places | WAITS };
            match self.places.compare_exchange_weak(places, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return free,
                Err(seen) => places = seen,
            }
        }
    }

    /// Takes a place as the front of the line: an exchange with the places, or sleep.
    fn wait_at_the_front(&self) {
        loop {
            // The bell first, then the places: invariant 4.
            let bell = self.bell.load(Ordering::Acquire);
            if self.take_place_at_the_front() {
                return;
            }
            wait(&self.bell, bell, ANY, None);
        }
    }

    /// Takes a handed or free place; if there is none, sees to it that the front is known and will be rung.
    fn take_place_at_the_front(&self) -> bool {
        let mut places = self.places.load(Ordering::Relaxed);
        loop {
            // If others stand behind this front, their turns begin to count at once, before the next front runs;
            // whoever joins later announces itself.
            let (next, admitted) = Self::seen_by_front(places, self.line.present() > 1);
            match self.places.compare_exchange_weak(places, next, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return admitted,
                Err(seen) => places = seen,
            }
        }
    }

    /// The places after the front has looked at them, and whether it is admitted.
    const fn seen_by_front(places: u32, others_wait: bool) -> (u32, bool) {
        let handed = places & HANDED != 0;
        let taken = places & TAKEN;
        if !handed && taken >= ACTIVE {
            return ((places | WAITS) & !RUNG, false);
        }
        let taken = if handed { taken } else { taken + 1 };
        (if others_wait { taken | WAITS } else { taken }, true)
    }

    #[inline]
    fn give_place_back(&self) {
        let mut places = self.places.load(Ordering::Relaxed);
        loop {
            let (next, ring) = Self::given_back(places);
            match self.places.compare_exchange_weak(places, next, Ordering::Release, Ordering::Relaxed) {
                Ok(_) if ring => return self.ring(),
                Ok(_) => return,
                Err(seen) => places = seen,
            }
        }
    }

    /// The places after one is given back, and whether the front must be woken.
    #[inline]
    const fn given_back(places: u32) -> (u32, bool) {
        if places & WAITS == 0 || places & HANDED != 0 {
            return (places - 1, false);
        }
        let counted = places + TURN_ONE;
        if (counted & TURNS) / TURN_ONE >= TURN {
            // The place stays taken: it is the front's.
            return ((counted & !(TURNS | RUNG)) | HANDED, true);
        }
        let left = counted - 1;
        if left & TAKEN == 0 && left & RUNG == 0 { (left | RUNG, true) } else { (left, false) }
    }

    #[cold]
    fn ring(&self) {
        self.bell.fetch_add(1, Ordering::Release);
        wake(&self.bell, 1, ANY);
    }
}

// SAFETY: mutual exclusion, acquire and release are the inner lock's, which is taken on every `lock` and released on
// every `unlock`; the places only delay. Forgetting the state leaves lock and place taken, which is safe. If the inner
// lock unwinds while locking, the place is given back by `PlaceBack` and nothing is held. Nothing points into the
// lock while nobody uses it, so it may be moved or dropped by its owner.
unsafe impl<L: RawMutex, const ACTIVE: u32, const TURN: u32> RawMutex for Gated<L, ACTIVE, TURN> {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api's way to initialise")]
    const INIT: Self = {
        assert!(ACTIVE > 0 && ACTIVE <= TAKEN, "ACTIVE must be from 1 to 4095");
        assert!(TURN > 0 && TURN <= 0xFFFF, "TURN must be from 1 to 65535");
        Self { line: Gate::new(1), places: AtomicU32::new(0), bell: AtomicU32::new(0), inner: L::INIT }
    };

    type Guard = GatedState<L::Guard>;

    #[inline]
    fn lock(&self) -> Self::Guard {
        if Self::EXCLUDES {
            misuse::before_lock(self);
        }
        self.take_place();
        let place = PlaceBack(self);
        let inner = self.inner.lock();
        core::mem::forget(place);
        if Self::EXCLUDES {
            misuse::acquired(self);
        }
        GatedState { inner }
    }

    #[inline]
    fn try_lock(&self) -> Option<Self::Guard> {
        if !self.try_take_place() {
            return None;
        }
        let place = PlaceBack(self);
        let inner = self.inner.try_lock()?;
        core::mem::forget(place);
        if Self::EXCLUDES {
            misuse::acquired(self);
        }
        Some(GatedState { inner })
    }

    #[inline]
    unsafe fn unlock(&self, guard: Self::Guard) {
        if Self::EXCLUDES {
            misuse::before_unlock(self);
        }
        let _place = PlaceBack(self);
        // SAFETY: the caller gives the state of a live acquisition of this lock, and with it that of the inner one.
        unsafe { self.inner.unlock(guard.inner) };
    }

    #[inline]
    fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }
}

/// Gives a place back when dropped, after the inner lock on unlocking, and when the inner lock fails or unwinds.
struct PlaceBack<'a, L, const ACTIVE: u32, const TURN: u32>(&'a Gated<L, ACTIVE, TURN>);

impl<L, const ACTIVE: u32, const TURN: u32> Drop for PlaceBack<'_, L, ACTIVE, TURN> {
    #[inline]
    fn drop(&mut self) {
        self.0.give_place_back();
    }
}

impl<L, const ACTIVE: u32, const TURN: u32> fmt::Debug for Gated<L, ACTIVE, TURN> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gated")
            .field("active", &ACTIVE)
            .field("turn", &TURN)
            .field("taken", &(self.places.load(Ordering::Relaxed) & TAKEN))
            .field("rings", &self.bell.load(Ordering::Relaxed))
            .field("line", &self.line)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    type Scene = Gated<crate::Ttas, 2, 3>;

    #[test]
    fn nobody_waits_and_nobody_is_rung() {
        assert_eq!(Scene::given_back(2), (1, false));
        assert_eq!(Scene::given_back(1), (0, false));
    }

    #[test]
    fn every_third_place_given_back_is_handed_over() {
        let (full, admitted) = Scene::seen_by_front(2, false);
        assert!(!admitted);
        let (once, rung) = Scene::given_back(full);
        assert!(!rung, "one place is still taken, whoever has it will ring");
        let (twice, rung) = Scene::given_back(once + 1);
        assert!(!rung);
        let (handed, rung) = Scene::given_back(twice + 1);
        assert!(rung);
        assert_eq!(handed, 2 | WAITS | HANDED, "the place stays taken");
        assert_eq!(Scene::given_back(handed), (1 | WAITS | HANDED, false), "a hand-over is awaited before the next");
        assert_eq!(Scene::seen_by_front(handed, false), (2, true));
    }

    #[test]
    fn turns_count_for_the_next_before_it_is_at_the_front() {
        let handed = 2 | WAITS | HANDED;
        let (places, admitted) = Scene::seen_by_front(handed, true);
        assert!(admitted);
        let mut places = places;
        for _ in 0..2 {
            places = Scene::given_back(places).0 + 1;
        }
        assert_eq!(Scene::given_back(places).0 & HANDED, HANDED);
    }

    #[test]
    fn the_last_to_leave_rings_once() {
        let (rung, rings) = Scene::given_back(1 | WAITS);
        assert!(rings && rung & RUNG != 0 && rung & TAKEN == 0);
        // Others come and go while the front wakes up: no more rings.
        assert!(!Scene::given_back(rung + 1).1);
        assert_eq!(Scene::seen_by_front(rung, false), (1, true));
        let (full, admitted) = Scene::seen_by_front(rung + 2, false);
        assert!(!admitted && full & RUNG == 0, "it sleeps again and must be rung again");
    }
}
