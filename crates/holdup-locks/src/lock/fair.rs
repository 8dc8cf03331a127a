//! Hand-over always: a queue lock whose waiters spin a little, then sleep, and are served strictly in order.
//!
//! | `tail` | meaning | | node `state` | meaning |
//! |---|---|---|---|---|
//! | null | free | | `WAITING` 0 | its thread spins |
//! | `HELD` | held, nobody waits | | `ASLEEP` 1 | its thread sleeps on this word, or is about to |
//! | a node | held, that node is last | | `GRANTED` 2 | its thread holds the lock |
//!
//! ```text
//!  lock.next ──► node A ──next──► node B ──next──► null        A is served next, whoever else comes
//!  lock.tail ─────────────────────────▲
//! ```
//!
//! Invariants: those of [`McsSpin`](crate::McsSpin) 1 to 3, and
//! 4. The lock is never free while somebody waits: `release` gives it to the first of the queue. So nobody barges and
//!    every waiter is served after at most those who came before it.
//! 5. No wake is lost: a waiter announces its sleep by `WAITING` → `ASLEEP` and sleeps only while the word says
//!    `ASLEEP`; the granter exchanges the word and wakes if it found `ASLEEP`.
//!
//! # Memory orderings
//! Release in the granter's exchange of `state` and in the compare-exchange that frees `tail`; Acquire where the waiter
//! reads `GRANTED` and where `tail` is taken (loom: `fair`).
//!
//! Source: the queue is that of `McsSpin`; spin then park as in Scott & Scherer, "Scalable queue-based spin locks with
//! timeout", PPoPP 2001, section 1 (why a queue of spinners needs it).

use crate::sys::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sys::{ANY, spin_hint, wait, wake_address, yield_now};
use core::ptr;

const WAITING: u32 = 0;
const ASLEEP: u32 = 1;
const GRANTED: u32 = 2;

/// Pauses before a waiter sleeps.
const SPINS: u32 = if cfg!(any(loom, miri)) { 1 } else { 100 };

struct Node {
    next: AtomicPtr<Node>,
    state: AtomicU32,
}

/// "Held, nobody waits": an address that no node can have, because a node is aligned to more than one byte.
const HELD: *mut Node = ptr::without_provenance_mut(1);

/// First come, first served: spins, then sleeps, and is handed over directly. 16 bytes.
///
/// ```
/// use holdup_locks::{Fair, Mutex, MutexGuard};
///
/// let turns = Mutex::<Fair, u32>::new(0);
/// let mut turn = turns.lock();
/// *turn += 1;
/// // Between two steps, lets in whoever has waited; nobody does here.
/// MutexGuard::bump(&mut turn);
/// assert_eq!(*turn, 1);
/// ```
///
/// # Cost
/// One compare-exchange each way when free. Contended, each hand-over waits for one given thread to run: with more
/// threads than CPUs that is a context switch per acquisition.
///
/// Measured: uncontended 0.95, tight 8.78, short 2.35, even 5.97, crowded 24.7 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Where throughput matters more than order: [`Adaptive`](crate::Adaptive) lets nobody starve either, at a fraction of
/// the price. No timed variant: a sleeper in the middle of the queue cannot step out.
///
/// # Source
/// The queue is that of [`McsSpin`](crate::McsSpin); spin then park as in Scott & Scherer, "Scalable queue-based spin
/// locks with timeout", PPoPP 2001, section 1.
pub struct Fair {
    tail: AtomicPtr<Node>,
    next: AtomicPtr<Node>,
}

// SAFETY: the pointers lead to nodes whose shared fields are atomics and whose lifetime the invariants guard; nothing
// in the lock belongs to one thread.
unsafe impl Send for Fair {}
// SAFETY: as above.
unsafe impl Sync for Fair {}

impl Fair {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { tail: AtomicPtr::new(ptr::null_mut()), next: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    fn acquire(&self) {
        if !self.try_acquire() {
            self.acquire_contended();
        }
    }

    #[cold]
    fn acquire_contended(&self) {
        let node = Node { next: AtomicPtr::new(ptr::null_mut()), state: AtomicU32::new(WAITING) };
        make_atomics!(node; next, state);
        let this = ptr::from_ref(&node).cast_mut();
        let before = self.tail.swap(this, Ordering::AcqRel);
        if !before.is_null() {
            self.follow(before, this);
            await_grant(&node.state);
        }
        self.leave_queue(&node, this);
    }

    /// Makes `this` known to whoever stands before it.
    fn follow(&self, before: *mut Node, this: *mut Node) {
        if before == HELD {
            self.next.store(this, Ordering::Release);
        } else {
            // SAFETY: invariant 3: the owner of `before` cannot leave until it has seen the link that we write here.
            unsafe { &*before }.next.store(this, Ordering::Release);
        }
    }

    /// The lock is ours; moves our successor, if any, from our node into the lock.
    fn leave_queue(&self, node: &Node, this: *mut Node) {
        let mut successor = node.next.load(Ordering::Acquire);
        if successor.is_null() {
            self.next.store(ptr::null_mut(), Ordering::Relaxed);
            // ORDERING: Release hands the null above to the arrival that draws HELD and then writes `next`.
            if self.tail.compare_exchange(this, HELD, Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
            successor = await_link(&node.next);
        }
        self.next.store(successor, Ordering::Relaxed);
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        self.tail.compare_exchange(ptr::null_mut(), HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    #[inline]
    fn release(&self) {
        if self.next.load(Ordering::Relaxed).is_null()
            && self.tail.compare_exchange(HELD, ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok()
        {
            return;
        }
        self.hand_over();
    }

    #[cold]
    fn hand_over(&self) {
        let successor = await_link(&self.next);
        // SAFETY: invariant 3: a waiter's node lives until it is granted, which the exchange below does.
        let state = ptr::from_ref(unsafe { &(*successor).state });
        // SAFETY: as above; this exchange is the last access to the node.
        let before = unsafe { &*state }.swap(GRANTED, Ordering::Release);
        if before == ASLEEP {
            // The node may be gone by now: its address alone wakes its thread.
            wake_address(state, 1, ANY);
        }
    }

    #[inline]
    fn held(&self) -> bool {
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}

/// Spins, then sleeps, until the lock is granted.
fn await_grant(state: &AtomicU32) {
    for _ in 0..SPINS {
        if state.load(Ordering::Acquire) == GRANTED {
            return;
        }
        spin_hint();
    }
    if state.compare_exchange(WAITING, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_err() {
        return;
    }
    while state.load(Ordering::Acquire) == ASLEEP {
        wait(state, ASLEEP, ANY, None);
    }
}

/// Waits for an arrival that is in `tail` already to write its link: a few instructions of another thread.
fn await_link(link: &AtomicPtr<Node>) -> *mut Node {
    let mut looks = 0_u32;
    loop {
        let node = link.load(Ordering::Acquire);
        if !node.is_null() {
            return node;
        }
        looks += 1;
        if looks < SPINS { spin_hint() } else { yield_now() }
    }
}

impl Default for Fair {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] Fair, GuardNoSend, Self::new());
raw_mutex_fair!(both: Fair);
check_drop!([] Fair);
modelled!([] Fair; tail, next);
