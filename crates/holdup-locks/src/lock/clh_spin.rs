//! The CLH queue lock, pure spinning: each thread waits on its predecessor's node. For study; and the queue of `Clh`.
//!
//! | `tail` | meaning | | node `state` | meaning |
//! |---|---|---|---|---|
//! | null | free | | `HELD` 0 | its thread holds the lock or waits for it |
//! | a node | held; that node is last | | `ASLEEP` 1 | the same, and the successor sleeps on this word (`Clh` only) |
//! | | | | `RELEASED` 2 | the successor holds the lock |
//!
//! ```text
//!  node of holder ◄── watched by ── node A's thread ◄── watched by ── node B's thread      tail = B
//! ```
//!
//! Invariants:
//! 1. `tail` is exchanged by each arrival once, so the arrivals stand in one order.
//! 2. A node is watched by one thread: the arrival that drew it from `tail`. Its owner lets go of it in `release`,
//!    either by taking it out of `tail` (nobody drew it: it stays the owner's) or by `RELEASED` (from then on it is the
//!    watcher's).
//! 3. A node has one owner at any time, who may reuse or free it.
//!
//! # Memory orderings
//! Release in the exchange of `state` and in the compare-exchange that empties `tail`; Acquire in the watch and in the
//! exchange of `tail`: they carry the section's writes (loom: `clh*`).
//!
//! Sources: Craig, "Building FIFO and priority-queuing spin locks from atomic swap", U. of Washington TR 93-02-02
//! (1993), section 3; Magnusson, Landin & Hagersten, IPPS 1994. An empty `tail` in place of the dummy node: so that a
//! free lock owns no memory and its initial value is a constant.
//!
//! Nodes come from the thread's pool: allocated at the thread's first contended depth, then recycled, freed when it
//! ends. The guard carries the node, so a guard that is forgotten leaks it and nothing else.

use crate::sys::atomic::{AtomicPtr, AtomicU32, Ordering};
use crate::sys::{ANY, spin_hint, wait, wake_address};
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

const HELD: u32 = 0;
const ASLEEP: u32 = 1;
const RELEASED: u32 = 2;

/// A place in the queue, on its own cache line.
#[repr(align(64))]
struct Node {
    state: AtomicU32,
    /// The next free node, while this one is in a pool.
    next_free: *mut Node,
}

/// The queue node that an acquisition of a CLH lock holds, carried by its guard.
#[must_use = "the node releases the lock"]
pub struct ClhNode(NonNull<Node>, PhantomData<Node>);

// SAFETY: a shared reference to a guard's node gives access to nothing.
unsafe impl Sync for ClhNode {}

/// The queue that [`ClhSpin`] and [`Clh`](crate::Clh) share; `SPINS` looks before a waiter sleeps, `u32::MAX` for
/// never.
pub(super) struct Queue<const SPINS: u32> {
    tail: AtomicPtr<Node>,
}

impl<const SPINS: u32> Queue<SPINS> {
    pub(super) const fn new() -> Self {
        Self { tail: AtomicPtr::new(ptr::null_mut()) }
    }

    #[cfg(loom)]
    pub(super) fn make(&self) {
        make_atomics!(self; tail);
    }

    #[inline]
    pub(super) fn acquire(&self) -> ClhNode {
        let node = pool::take();
        // ORDERING: Acquire takes the section of a release that emptied `tail`; Release shows our initialised node.
        let before = self.tail.swap(node.as_ptr(), Ordering::AcqRel);
        if let Some(before) = NonNull::new(before) {
            // SAFETY: invariant 2: we drew `before`, so it is ours to watch until its owner lets go of it.
            watch::<SPINS>(unsafe { &before.as_ref().state });
            // Its owner has let go: it is ours now (invariant 3).
            pool::give(before);
        }
        ClhNode(node, PhantomData)
    }

    #[inline]
    pub(super) fn try_acquire(&self) -> Option<ClhNode> {
        if self.held() {
            return None;
        }
        let node = pool::take();
        match self.tail.compare_exchange(ptr::null_mut(), node.as_ptr(), Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Some(ClhNode(node, PhantomData)),
            Err(_) => {
                pool::give(node);
                None
            }
        }
    }

    #[inline]
    pub(super) fn release(&self, node: ClhNode) {
        let node = node.0;
        if self.tail.compare_exchange(node.as_ptr(), ptr::null_mut(), Ordering::Release, Ordering::Relaxed).is_ok() {
            // Nobody drew it: it stays ours (invariant 2).
            pool::give(node);
        } else {
            hand_over(node);
        }
    }

    #[inline]
    pub(super) fn held(&self) -> bool {
        !self.tail.load(Ordering::Relaxed).is_null()
    }
}

#[cold]
fn hand_over(node: NonNull<Node>) {
    // SAFETY: the node is ours until the exchange below gives it to its watcher.
    let state = ptr::from_ref(unsafe { &node.as_ref().state });
    // SAFETY: as above; this exchange is our last access to the node.
    if unsafe { &*state }.swap(RELEASED, Ordering::Release) == ASLEEP {
        // The node may be gone by now: its address alone wakes its watcher.
        wake_address(state, 1, ANY);
    }
}

/// Waits until the owner of `state` lets go of it.
#[cold]
fn watch<const SPINS: u32>(state: &AtomicU32) {
    let mut looks = 0;
    while state.load(Ordering::Acquire) != RELEASED {
        if looks == SPINS {
            return sleep(state);
        }
        if SPINS != u32::MAX {
            looks += 1;
        }
        spin_hint();
    }
}

fn sleep(state: &AtomicU32) {
    if state.compare_exchange(HELD, ASLEEP, Ordering::Relaxed, Ordering::Acquire).is_err() {
        return;
    }
    while state.load(Ordering::Acquire) == ASLEEP {
        wait(state, ASLEEP, ANY, None);
    }
}

/// Free nodes of the calling thread.
mod pool {
    use super::{AtomicU32, HELD, Node, NonNull, Ordering, ptr};
    use core::cell::Cell;

    struct Pool(Cell<*mut Node>);

    impl Drop for Pool {
        fn drop(&mut self) {
            while let Some(node) = self.pop() {
                free(node);
            }
        }
    }

    impl Pool {
        fn pop(&self) -> Option<NonNull<Node>> {
            let node = NonNull::new(self.0.get())?;
            // SAFETY: nodes in the pool are allocated and owned by it alone.
            self.0.set(unsafe { node.as_ref() }.next_free);
            Some(node)
        }

        fn push(&self, mut node: NonNull<Node>) {
            // SAFETY: the caller owns the node, so this is the only reference to it.
            unsafe { node.as_mut() }.next_free = self.0.get();
            self.0.set(node.as_ptr());
        }
    }

    std::thread_local!(static POOL: Pool = const { Pool(Cell::new(ptr::null_mut())) });

    /// A node in state `HELD` that the caller owns.
    #[inline]
    pub(super) fn take() -> NonNull<Node> {
        // A thread whose pool is gone already (it is ending) allocates.
        match POOL.try_with(Pool::pop).ok().flatten() {
            Some(node) => {
                // SAFETY: the node came out of the pool, so it is ours alone.
                unsafe { node.as_ref() }.state.store(HELD, Ordering::Relaxed);
                node
            }
            None => allocate(),
        }
    }

    /// Takes back a node that the caller owns.
    #[inline]
    pub(super) fn give(node: NonNull<Node>) {
        // loom's atomics belong to one execution, so a model keeps no nodes.
        if cfg!(loom) || POOL.try_with(|pool| pool.push(node)).is_err() {
            free(node);
        }
    }

    #[cold]
    fn allocate() -> NonNull<Node> {
        let node = Box::new(Node { state: AtomicU32::new(HELD), next_free: ptr::null_mut() });
        make_atomics!(node; state);
        NonNull::from(Box::leak(node))
    }

    #[cold]
    fn free(node: NonNull<Node>) {
        // SAFETY: every node comes from `allocate`, and the caller owns this one.
        drop(unsafe { Box::from_raw(node.as_ptr()) });
    }
}

/// CLH queue lock, pure spinning. Collapses when threads outnumber CPUs. For study. 8 bytes.
///
/// ```
/// use holdup_locks::{ClhSpin, Mutex};
///
/// let value = Mutex::<ClhSpin, u8>::new(1);
/// assert_eq!(*value.lock(), 1);
/// ```
///
/// # Cost
/// As [`Clh`](crate::Clh), without the sleep.
///
/// Measured: uncontended 1.05, tight 10.3, crowded 29.4 of pthread's time ([table](crate#measured)).
///
/// # When not to use it
/// Wherever threads may outnumber CPUs: use [`Clh`](crate::Clh), [`Mcs`](crate::Mcs) or [`Adaptive`](crate::Adaptive).
/// No timed variant, and no lock_api 0.4.
///
/// # Source
/// Craig, U. of Washington TR 93-02-02 (1993), section 3; Magnusson, Landin & Hagersten, IPPS 1994.
pub struct ClhSpin(Queue<{ u32::MAX }>);

impl ClhSpin {
    /// A free lock.
    #[must_use]
    pub const fn new() -> Self {
        Self(Queue::new())
    }
}

impl Default for ClhSpin {
    fn default() -> Self {
        Self::new()
    }
}

clh_raw_mutex!(ClhSpin);
raw_mutex_fair!(ClhSpin);
check_drop!([] ClhSpin);
modelled!([] ClhSpin; 0);
