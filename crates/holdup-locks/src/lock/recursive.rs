//! Any lock made recursive: the thread that holds it may take it again, and releases as often as it took.
//!
//! | `owner` | `depth` | meaning |
//! |---|---|---|
//! | 0 | 0 | free |
//! | thread number | n ≥ 1 | held by that thread, taken n times |
//!
//! Invariants:
//! 1. `owner` is written only by the thread that holds the inner lock: its own number after taking, 0 before releasing.
//!    So a thread reads its own number there if and only if it holds the lock, however stale the value is otherwise.
//! 2. `depth` and `guard` are accessed only by the holder.
//! 3. The inner lock is taken once, at depth 0 → 1, and released once, at 1 → 0.
//!
//! # Memory orderings
//! `owner` is Relaxed: by 1 only a thread's own writes decide. The inner lock orders everything else.
//!
//! This type does not implement `RawMutex`: `lock_api::Mutex` would hand out two `&mut` to the same value. For data use
//! [`ReentrantMutex`](crate::ReentrantMutex), whose guards share.
//!
//! Source: the C library's PTHREAD_MUTEX_RECURSIVE and the Win32 critical section; Hart's `Depth` (1998).

use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::thread_id;
use core::cell::{Cell, UnsafeCell};
use core::time::Duration;
use lock_api::{RawMutex, RawMutexTimed};
use std::time::Instant;

const NOBODY: u32 = 0;

/// Any lock made recursive: the thread that holds it may take it again. Adds 8 bytes and the inner guard.
///
/// ```
/// use holdup_locks::{Adaptive, Recursive};
///
/// static TREE: Recursive<Adaptive> = Recursive::INIT;
///
/// fn visit(depth: u32) -> u32 {
///     let _held = TREE.enter();
///     if depth == 0 { TREE.depth() } else { visit(depth - 1) }
/// }
/// assert_eq!(visit(3), 4);
/// assert!(!TREE.is_locked());
/// ```
///
/// It holds no data and does not implement `RawMutex`: a `Mutex` on it would hand out two `&mut` to the same value. For
/// data use [`ReentrantMutex`](crate::ReentrantMutex), whose guards share.
///
/// # Cost
/// The inner lock and one access to thread-local storage; each further level is an increment.
///
/// # When not to use it
/// Wherever the code can be arranged so that the lock is taken once: a function that runs under the lock of its caller
/// cannot know what state the caller left half done.
///
/// # Panics
/// A release by a thread that does not hold the lock panics in debug builds. The 2^32nd level panics.
///
/// # Source
/// The C library's PTHREAD_MUTEX_RECURSIVE and the Win32 critical section; Hart's `Depth` (1998).
pub struct Recursive<L: RawMutex> {
    inner: L,
    owner: AtomicU32,
    depth: Cell<u32>,
    guard: UnsafeCell<Option<L::Guard>>,
}

// SAFETY: `depth` and `guard` are accessed only by the thread that holds `inner` (invariant 2), which orders these
// accesses. A guard that must stay on its thread does: the thread that took it is the one that gives it back.
unsafe impl<L: RawMutex + Sync> Sync for Recursive<L> {}
// SAFETY: moving the lock moves no acquisition: a guard inside is used again only by its own thread, or dropped with
// the lock, which `RawMutex` requires to be safe.
unsafe impl<L: RawMutex + Send> Send for Recursive<L> {}

impl<L: RawMutex> Recursive<L> {
    /// A free lock around a free lock.
    #[allow(clippy::declare_interior_mutable_const, reason = "it mirrors RawMutex::INIT")]
    pub const INIT: Self = Self::new(L::INIT);

    /// A free lock around `inner`, which must be free and used through this lock only.
    #[must_use]
    pub const fn new(inner: L) -> Self {
        Self { inner, owner: AtomicU32::new(NOBODY), depth: Cell::new(0), guard: UnsafeCell::new(None) }
    }

    /// Takes the lock, or takes it once more.
    #[inline]
    pub fn lock(&self) {
        let me = thread_id();
        if !self.deepen(me) {
            self.own(me, self.inner.lock());
        }
    }

    /// Takes the lock if it is free or the caller's.
    #[inline]
    #[must_use]
    pub fn try_lock(&self) -> bool {
        let me = thread_id();
        self.deepen(me) || self.own_if(me, self.inner.try_lock())
    }

    /// Releases one level.
    ///
    /// # Safety
    /// The calling thread holds the lock: it took it more often than it has released it. Debug builds check.
    #[inline]
    pub unsafe fn unlock(&self) {
        if cfg!(debug_assertions) && !self.held_by_me() {
            super::misuse::not_the_holder(&self.inner);
        }
        let depth = self.depth.get() - 1;
        self.depth.set(depth);
        if depth == 0 {
            self.disown();
        }
    }

    /// Takes the lock, for as long as the guard lives.
    #[inline]
    pub fn enter(&self) -> RecursiveGuard<'_, L> {
        self.lock();
        RecursiveGuard { lock: self, stays_on_thread: core::marker::PhantomData }
    }

    /// True if somebody holds the lock, at this moment.
    #[inline]
    pub fn is_locked(&self) -> bool {
        self.inner.is_locked()
    }

    /// True if the calling thread holds the lock.
    #[inline]
    pub fn held_by_me(&self) -> bool {
        self.owner.load(Ordering::Relaxed) == thread_id()
    }

    /// How often the calling thread holds the lock.
    #[inline]
    pub fn depth(&self) -> u32 {
        if self.held_by_me() { self.depth.get() } else { 0 }
    }

    /// One level more, if `me` holds the lock.
    #[inline]
    fn deepen(&self, me: u32) -> bool {
        let mine = self.owner.load(Ordering::Relaxed) == me;
        if mine {
            self.depth.set(self.depth.get().checked_add(1).expect("4 billion levels do not fit on a stack"));
        }
        mine
    }

    #[inline]
    fn own_if(&self, me: u32, guard: Option<L::Guard>) -> bool {
        guard.map(|guard| self.own(me, guard)).is_some()
    }

    #[inline]
    fn own(&self, me: u32, guard: L::Guard) {
        // SAFETY: we hold the inner lock, so nobody else accesses the cell (invariant 2).
        unsafe { *self.guard.get() = Some(guard) };
        self.depth.set(1);
        self.owner.store(me, Ordering::Relaxed);
    }

    #[inline]
    fn disown(&self) {
        self.owner.store(NOBODY, Ordering::Relaxed);
        // SAFETY: we still hold the inner lock, so nobody else accesses the cell (invariant 2).
        let guard = unsafe { (*self.guard.get()).take() };
        let guard = guard.expect("the first level stored it");
        // SAFETY: the guard is the state of our acquisition of the inner lock, which is held (invariant 3).
        unsafe { self.inner.unlock(guard) };
    }
}

impl<L: RawMutexTimed<Duration = Duration, Instant = Instant>> Recursive<L> {
    /// Takes the lock if it becomes free, or is the caller's, within `timeout`.
    #[must_use]
    pub fn try_lock_for(&self, timeout: Duration) -> bool {
        let me = thread_id();
        self.deepen(me) || self.own_if(me, self.inner.try_lock_for(timeout))
    }

    /// Takes the lock if it becomes free, or is the caller's, until `deadline`.
    #[must_use]
    pub fn try_lock_until(&self, deadline: Instant) -> bool {
        let me = thread_id();
        self.deepen(me) || self.own_if(me, self.inner.try_lock_until(deadline))
    }
}

#[cfg(loom)]
impl<L: RawMutex + crate::model::Make> crate::model::Make for Recursive<L> {
    fn make(&self) {
        self.inner.make();
        self.owner.make();
    }
}

impl<L: RawMutex> Default for Recursive<L> {
    fn default() -> Self {
        Self::INIT
    }
}

/// One level of a [`Recursive`] lock; dropping it releases the level.
#[must_use = "dropping the guard releases the lock"]
pub struct RecursiveGuard<'a, L: RawMutex> {
    lock: &'a Recursive<L>,
    stays_on_thread: core::marker::PhantomData<*mut ()>,
}

impl<L: RawMutex> Drop for RecursiveGuard<'_, L> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the guard was made by a `lock` on this thread, which it cannot leave, and releases once.
        unsafe { self.lock.unlock() };
    }
}

/// The thread number, as `lock_api::ReentrantMutex` asks for it: of lock_api 0.5, and of 0.4 with the feature
/// `lock_api_04`.
///
/// Cost: one access to thread-local storage. A forked child's thread keeps its number.
pub struct ThreadId;

// SAFETY: thread_id is never zero and no two live threads share a number (short of 2^32 threads of one process).
unsafe impl lock_api::GetThreadId for ThreadId {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api asks for a constant")]
    const INIT: Self = Self;

    fn nonzero_thread_id(&self) -> core::num::NonZeroUsize {
        core::num::NonZeroUsize::new(thread_id() as usize).expect("thread numbers start at 1")
    }
}

// SAFETY: as for lock_api 0.5 above.
#[cfg(feature = "lock_api_04")]
unsafe impl lock_api_04::GetThreadId for ThreadId {
    #[allow(clippy::declare_interior_mutable_const, reason = "lock_api asks for a constant")]
    const INIT: Self = Self;

    fn nonzero_thread_id(&self) -> core::num::NonZeroUsize {
        lock_api::GetThreadId::nonzero_thread_id(self)
    }
}
