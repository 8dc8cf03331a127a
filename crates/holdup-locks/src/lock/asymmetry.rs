//! Whether a release may be a plain store: it may while nobody sleeps, and a lock is told beforehand.
//!
//! A release that is a plain store costs half of one that is a read-modify-write, but wipes what waiters write on the
//! lock's word meanwhile. So a lock has two modes. *Asymmetric*: its word says held or free and nothing else; the
//! releaser stores "free" and then looks here whether somebody wants to sleep. *Symmetric*: waiters leave marks on the
//! lock's word, and every release keeps them.
//!
//! | bits of `word` | name | meaning |
//! |---|---|---|
//! | 0 | `ASYMMETRIC` | releases are plain stores |
//! | 1.. | `WAITER` × n | n threads want to sleep, or do |
//!
//! ```text
//!              a waiter enters                a holder ends the turn
//!  asymmetric ─────────────────► turning ─────────────────────────► symmetric
//!      ▲ ▲         all leave        │                                   │
//!      │ └──────────────────────────┘                                   │
//!      └────────────── a holder, after QUIET releases without a waiter ─┘
//! ```
//!
//! # Invariants
//! 1. Marks stand on the lock's word only while it is symmetric: a waiter enters before it sleeps, and leaves its first
//!    mark after it has seen `ASYMMETRIC` clear. While it is in, nobody sets the bit (3).
//! 2. Only a holder that has looked and seen somebody enter clears `ASYMMETRIC`, before it releases. So no release by a
//!    plain store is still to come: only holders release, the holder is this one, and all later ones see what it did.
//! 3. Only a holder sets `ASYMMETRIC`, by a compare-exchange from 0 (nobody is in), and takes it back if it then finds
//!    a mark on the lock's word. Who left a mark there did so before it left here, so the mark is found.
//! 4. A releaser that sees only after its store that somebody has entered takes the lock once more and ends the turn;
//!    or somebody has the lock, and this one's look after its store comes later.
//! 5. Whoever waits for the end of a turn does so for a bounded time and looks again whether the lock is free.
//!
//! No wake-up is lost for good: the releaser's store and its look may pass the waiter's entry and its look at the lock
//! (each sees the old value), or the releaser may be preempted between the two; then the waiter finds the lock free
//! after `FIRST_NAP_NS` (5). That needs no more than that stores become visible in finite time. Without 5 the waiter
//! would have to make every running thread pass a barrier. `membarrier` does that, for 15 us beside one running thread,
//! once the process has registered, which stops the calling thread for 32 ms in a process of several threads (measured
//! on Linux 6.18 in a virtual machine); and it does not help who waits for a preempted releaser.
//!
//! loom explores it without naps, with fences between store and look and between entry and look, so that only what the
//! fences exclude is left to 5: `adaptive*` in tests/loom.rs.
//!
//! # Memory orderings
//! A waiter's looks are Acquire, and their partner is the Release by which the turn is ended: so its marks come after
//! every release by a plain store. Leaving is Release, and its partner the Acquire of the compare-exchange of invariant
//! 3. A holder's looks are Relaxed: what matters of them it has from the lock's word.
//!
//! Sources: a light and a heavy side: Dice, Huang & Yang, "Asymmetric Dekker synchronization", 2001, and P1202
//! ("Asymmetric fences", Goldblatt, 2018); here the heavy side waits instead of stopping others. No thread owns the
//! lock between its sections, as it does with biased locks.

use crate::sys::atomic::{AtomicU32, Ordering, fence};
use crate::sys::{ANY, DeadlineNs, now_ns, wait, wake};

pub(super) const ASYMMETRIC: u32 = 1;
pub(super) const WAITER: u32 = 2;

/// After so many releases without a waiter they become plain stores again. A turn costs about one sleep, so even a lock
/// that somebody sleeps at once in a thousand sections gains.
pub(super) const QUIET: u32 = if cfg!(any(loom, miri)) { 1 } else { 1_000 };
/// The first sleep of who waits for the end of a turn; each is twice as long as the one before.
const FIRST_NAP_NS: u64 = 50_000;

/// Whether the releases of a lock are plain stores.
#[repr(C)] // C programs initialise the locks that have one.
pub(super) struct Asymmetry {
    word: AtomicU32,
    /// How many releases there were without a waiter; written by the holder only.
    quiet: AtomicU32,
}

/// What a holder that is about to release found.
pub(super) enum Look {
    /// The release keeps the marks of others.
    Symmetric,
    /// As `Symmetric`; and those that waited for it must be woken after the release.
    Turned,
    /// As `Symmetric`; or try whether it may be a plain store again.
    Quiet,
}

impl Asymmetry {
    pub(super) const fn new() -> Self {
        Self { word: AtomicU32::new(ASYMMETRIC), quiet: AtomicU32::new(0) }
    }

    /// Whether the holder may release by a plain store, and whether all is well after it has.
    #[inline]
    pub(super) fn undisturbed(&self) -> bool {
        self.word.load(Ordering::Relaxed) == ASYMMETRIC
    }

    /// The holder may not release by a plain store: ends a turn, counts the quiet releases.
    #[inline]
    pub(super) fn look(&self) -> Look {
        let word = self.word.load(Ordering::Relaxed);
        if word != 0 {
            self.quiet.store(0, Ordering::Relaxed);
            return if word & ASYMMETRIC == 0 { Look::Symmetric } else { self.end_turn() };
        }
        let quiet = self.quiet.load(Ordering::Relaxed) + 1;
        self.quiet.store(quiet % QUIET, Ordering::Relaxed);
        if quiet < QUIET || !may_be_asymmetric() { Look::Symmetric } else { Look::Quiet }
    }

    /// The holder ends a turn, if there is one.
    #[cold]
    pub(super) fn end_turn(&self) -> Look {
        self.word.fetch_and(!ASYMMETRIC, Ordering::Release);
        Look::Turned
    }

    /// The holder makes releases plain stores from now on, its own too, unless somebody waits. It must look for marks
    /// on the lock's word afterwards, and call [`end_turn`](Self::end_turn) if there are any.
    pub(super) fn begin(&self) -> bool {
        self.word.compare_exchange(0, ASYMMETRIC, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Stands between a holder's plain store and its look: only the compiler must keep the two in order.
    #[inline]
    pub(super) fn light_fence() {
        #[cfg(not(loom))]
        core::sync::atomic::compiler_fence(Ordering::SeqCst);
        // The model knows no time: there the fences order what naps make good on a machine.
        #[cfg(loom)]
        crate::sys::atomic::fence(Ordering::SeqCst);
    }

    /// After the release of a holder that ended a turn: now they may leave marks.
    #[cold]
    pub(super) fn wake_all(&self) {
        wake(&self.word, u32::MAX, ANY);
    }

    /// The caller wants to sleep.
    pub(super) fn enter(&self) {
        self.word.fetch_add(WAITER, Ordering::Relaxed);
    }

    /// The caller has what it waited for, or gave up; its marks are gone.
    pub(super) fn leave(&self) {
        self.word.fetch_sub(WAITER, Ordering::Release);
    }

    /// Waits for the end of the turn; `Some` if `take` got the lock meanwhile, or the deadline passed.
    pub(super) fn wait_for_turn(&self, deadline: Option<DeadlineNs>, take: impl Fn() -> bool) -> Option<bool> {
        let mut nap = FIRST_NAP_NS;
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word & ASYMMETRIC == 0 {
                return None;
            }
            fence(Ordering::SeqCst);
            if take() {
                return Some(true);
            }
            let now = now_ns();
            if deadline.is_some_and(|deadline| now >= deadline) {
                return Some(false);
            }
            wait(&self.word, word, ANY, nap_until(now, nap, deadline));
            nap = nap.saturating_mul(2);
        }
    }

    #[cfg(all(test, not(loom)))]
    pub(super) fn word(&self) -> u32 {
        self.word.load(Ordering::Relaxed)
    }

    #[cfg(loom)]
    pub(super) fn make(&self) {
        make_atomics!(self; word, quiet);
        if !may_be_asymmetric() {
            self.word.store(0, Ordering::Relaxed);
        }
    }
}

/// Always, but for models that look into what is left then.
fn may_be_asymmetric() -> bool {
    #[cfg(loom)]
    return crate::model::ASYMMETRIC.load(Ordering::Relaxed);
    #[cfg(not(loom))]
    true
}

#[cfg(not(loom))]
fn nap_until(now: u64, nap: u64, deadline: Option<DeadlineNs>) -> Option<DeadlineNs> {
    let until = now.saturating_add(nap);
    Some(deadline.map_or(until, |deadline| until.min(deadline)))
}

/// No naps: see `light_fence`.
#[cfg(loom)]
fn nap_until(_: u64, _: u64, deadline: Option<DeadlineNs>) -> Option<DeadlineNs> {
    deadline
}
