//! The MCS queue lock, pure spinning, with its nodes on the waiters' stacks (the K42 variant). For study.
//!
//! | `tail` | meaning |
//! |---|---|
//! | null | free |
//! | `HELD` | held, nobody waits |
//! | a node | held, that node is the last in the queue |
//!
//! ```text
//!  lock.next ──► node A ──next──► node B ──next──► null
//!  lock.tail ─────────────────────────▲
//! ```
//!
//! `lock.next` is the holder's successor; it means something only to the holder and to the one arrival that found
//! `HELD`. A waiter that is granted the lock moves its own successor there, so its node need not outlive `acquire`.
//!
//! Invariants:
//! 1. `tail` is exchanged by each arrival once; the arrivals thus stand in one order.
//! 2. A node is written by its owner, by the one arrival that drew it as predecessor (`next`), and by the one holder
//!    that grants it (`granted`). After the grant nobody but the owner touches it.
//! 3. The owner leaves only when granted and when no arrival can still draw its node: it either knows its successor
//!    (which has written `next`, its last access) or has taken its node out of `tail`.
//!
//! # Memory orderings
//! Release in `grant` and in the compare-exchange that frees `tail`, Acquire in the wait and in the exchange of `tail`:
//! they carry the section's writes (loom: `mcs_spin`). Links are stored with Release and read with Acquire, so that a
//! node is seen initialised.
//!
//! Sources: Mellor-Crummey & Scott, ACM TOCS 1991, section 2.4; the variant with the standard interface: Auslander,
//! Edelsohn, Krieger, Rosenburg & Wisniewski for the K42 system, as in Scott, "Shared-Memory Synchronization" (2013),
//! figure 4.14.

use crate::sys::atomic::{AtomicBool, AtomicPtr, Ordering};
use crate::sys::spin_hint;
use core::ptr;

struct Node {
    next: AtomicPtr<Node>,
    granted: AtomicBool,
}

/// "Held, nobody waits": an address that no node can have, because a node is aligned to more than one byte.
const HELD: *mut Node = ptr::without_provenance_mut(1);

/// MCS queue lock, pure spinning. Collapses when threads outnumber CPUs. For study. 16 bytes.
///
/// ```
/// use holdup_locks::{McsSpin, Mutex};
///
/// static WORD: Mutex<McsSpin, u32> = Mutex::new(0);
/// *WORD.lock() = 7;
/// assert_eq!(*WORD.lock(), 7);
/// ```
///
/// # Cost
/// One compare-exchange each way when free; each waiter spins on its own line. Needs no operating system, so it is
/// there without `std`.
///
/// Measured: uncontended 0.96, tight 10.6, crowded 38.1 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Wherever threads may outnumber CPUs or be preempted: the one whose turn it is may be switched out while all others
/// burn their time slices. Use [`Mcs`](crate::Mcs). No timed variant.
///
/// # Source
/// Mellor-Crummey & Scott, ACM TOCS 1991, section 2.4; the variant without an argument: K42, as in Scott,
/// "Shared-Memory Synchronization" (2013), figure 4.14.
pub struct McsSpin {
    tail: AtomicPtr<Node>,
    next: AtomicPtr<Node>,
}

// SAFETY: the pointers lead to nodes whose shared fields are atomics and whose lifetime invariants 2 and 3 guard;
// nothing in the lock belongs to one thread.
unsafe impl Send for McsSpin {}
// SAFETY: as above.
unsafe impl Sync for McsSpin {}

impl McsSpin {
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
        let node = Node { next: AtomicPtr::new(ptr::null_mut()), granted: AtomicBool::new(false) };
        make_atomics!(node; next, granted);
        let this = ptr::from_ref(&node).cast_mut();
        let before = self.tail.swap(this, Ordering::AcqRel);
        if !before.is_null() {
            self.follow(before, this);
            while !node.granted.load(Ordering::Acquire) {
                spin_hint();
            }
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
        let successor = self.next.load(Ordering::Acquire);
        if successor.is_null() {
            if self.tail.compare_exchange(HELD, ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok() {
                return;
            }
            return grant(await_link(&self.next));
        }
        grant(successor);
    }

    #[inline]
    fn held(&self) -> bool {
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}

fn grant(successor: *mut Node) {
    // SAFETY: invariant 3: a waiter's node lives until it is granted, which happens here and only here.
    unsafe { &*successor }.granted.store(true, Ordering::Release);
}

/// Waits for an arrival that is in `tail` already to write its link: a few instructions of another thread.
#[cold]
fn await_link(link: &AtomicPtr<Node>) -> *mut Node {
    loop {
        let node = link.load(Ordering::Acquire);
        if !node.is_null() {
            return node;
        }
        spin_hint();
    }
}

impl Default for McsSpin {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] McsSpin, GuardNoSend, Self::new());
raw_mutex_fair!(both: McsSpin);
check_drop!([] McsSpin);
modelled!([] McsSpin; tail, next);
