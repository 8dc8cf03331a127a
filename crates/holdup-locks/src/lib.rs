//! Locks, gates, lock tables and counters for programs that threads hold up.
//!
//! Every lock implements `lock_api`'s `RawMutex`, so `Mutex<T>` and its guards come from there:
//!
//! ```
//! use holdup_locks::{Adaptive, Mutex};
//!
//! static HITS: Mutex<Adaptive, u64> = Mutex::new(0);
//! *HITS.lock() += 1;
//! assert_eq!(*HITS.lock(), 1);
//! ```
//!
//! # Which one?
//!
//! | you have | take |
//! |---|---|
//! | shared data and no particular need | [`Adaptive`] |
//! | turns that must be taken in order of arrival | [`Fair`] |
//! | sections of some 100 ns, threads that never outnumber the CPUs, or no operating system | [`Ttas`] |
//! | many waiters on many CPUs | [`Mcs`] |
//! | a thread that takes the lock it already holds | [`Recursive`], or [`ReentrantMutex`] around data |
//! | data that many threads read at length, and few write | [`RwAdaptive`] |
//! | data that is read all the time on many CPUs, and hardly ever written | [`RwSharded`] |
//! | one lock for a great many objects | [`LockTable`](technique::LockTable) |
//! | one lock around a hash map | [`TableMap`](technique::TableMap) |
//! | more active threads than the machine bears | [`Gate`](technique::Gate), [`Gated`](technique::Gated) |
//! | a counter that every thread adds to | [`ShardedCounter`](technique::ShardedCounter) |
//! | a parallel loop that fights for its next index | [`Chunks`](technique::Chunks) |
//!
//! Often the better cure is no lock at all: a shorter section, fewer threads, work in larger pieces. docs/which-lock.md
//! in the repository starts from the symptom and says how to prove the cure. The other locks are for comparison and
//! study; [`LOCKS`] and [`RW_LOCKS`] list all.
//!
//! # What they share
//!
//! All locks are made by a constant (`Mutex::new` in a `static`), fit in 40 bytes but for [`RwSharded`], and may be
//! used by threads that anybody created. Only [`Clh`] and [`ClhSpin`] (a node per thread and depth) and Windows'
//! [`CriticalSection`] allocate. None is poisoned: a panic inside a section releases the lock as its guard drops, and
//! the data is what the section left. None is meant to be mapped into several processes; the kernel's objects
//! ([`EventFd`] and its like), once used, exclude across a `fork`.
//!
//! A guard stays on the thread that took it. Debug builds panic, naming the lock, its address and its holder, when the
//! holder takes a lock again that is not recursive, when a lock is released twice or by another thread, and when it is
//! dropped while held. Release builds do not check (a lock that is taken twice waits for ever), and sizes are the same
//! in both.
//!
//! # Which traits
//!
//! | | [`RawMutex`](lock_api::RawMutex) | [`RawMutexTimed`](lock_api::RawMutexTimed) | [`RawMutexFair`](lock_api::RawMutexFair) | lock_api 0.4 |
//! |---|---|---|---|---|
//! | [`Adaptive`], [`Futex`], [`Tas`], [`Ttas`] | yes | yes | | yes |
//! | [`Fair`], [`Ticket`], [`TicketSpin`], [`McsSpin`] | yes | | yes | yes |
//! | [`Mcs`] | yes | | | yes |
//! | [`Clh`], [`ClhSpin`] | yes | | yes | |
//! | Linux: [`EventFd`], [`EventFdSem`], [`Pipe`], [`SysvSem`], [`FutexPi`] | yes | yes | | yes |
//! | Windows: [`WinMutex`], [`WinEvent`], [`WinSemaphore`], [`WaitOnAddress`] | yes | yes | | yes |
//! | Windows: [`CriticalSection`], [`SrwLock`] | yes | | | yes |
//! | [`Gated<L>`](technique::Gated) | yes | | | |
//!
//! * Locks of another system than the one that runs are there, and work as [`Futex`]; their `create` says so.
//! * `RawMutexTimed` needs `std`. A lock without it cannot take a waiter out of its queue.
//! * `RawMutexFair` (`MutexGuard::bump`, `unlock_fair`) is there where a release hands the lock to the first waiter,
//!   always. [`Adaptive`] is not among them: it bounds waiting by time and hands over only once a waiter has slept for
//!   a millisecond, so a `bump` could not promise what the trait says.
//! * [`ThreadId`] is `GetThreadId` for both versions, so that [`ReentrantMutex`] exists for every lock.
//! * The reader-writer locks [`RwAdaptive`] and [`RwSharded`] implement `RawRwLock`, `RawRwLockDowngrade` and
//!   `RawRwLockTimed` of lock_api 0.5, [`RwAdaptive`] also `RawRwLockUpgrade`. They need `std`. For sections as short as
//!   a lock should have, counting readers on one word costs as much as excluding them.
//!
//! # Measured
//!
//! The pages of the locks cite docs/benchmarks/peers-xeon-2cpu.md: the time of an operation as a ratio to glibc's mutex
//! measured next to it, below 1 is faster, `=` where the interval shows no difference. The machine was a virtual one
//! with two CPUs: read them as shapes, and run `holdup bench` on yours.
//!
//! | load | threads | inside | outside |
//! |---|---|---|---|
//! | uncontended | 1 | nothing | nothing |
//! | tight | 2 | nothing | nothing |
//! | short | 2 | 100 ns | 500 ns |
//! | even | 2 | 1 us | 1 us |
//! | crowded | 8 | 100 ns | 500 ns |
//!
//! # Features
//! * `std` (default): everything. Without it: [`Tas`], [`Ttas`], [`Ticket`], [`TicketSpin`] and [`McsSpin`], untimed,
//!   and "giving the CPU away" is a pause. They need compare-and-swap on 32 bits and on pointers.
//! * `lock_api_04`: the stateless locks (all but the CLH pair) implement lock_api 0.4's traits as well, for crates that
//!   have not moved to 0.5.
#![cfg_attr(
    not(feature = "std"),
    allow(rustdoc::broken_intra_doc_links, reason = "without std the docs still name the locks that need it")
)]
#![cfg_attr(not(feature = "std"), no_std)]
#![allow(
    unsafe_code,
    reason = "a lock is made of atomics, futexes and interior mutability; every block argues its contract"
)]

#[macro_use]
mod sys;

mod lock;
#[cfg(feature = "std")]
mod registry;
#[cfg(feature = "std")]
pub mod technique;

pub use self::lock::*;
#[cfg(feature = "std")]
pub use self::registry::{Family, LOCKS, LockInfo, RW_LOCKS, RwLockInfo};
#[cfg(feature = "std")]
pub use self::sys::SysError;
/// The traits and types that every lock here works with.
pub use lock_api;
pub use lock_api::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};

/// Shared access to data by one thread at a time, which may lock again: `lock_api`'s, for any lock here.
///
/// Its guards lend `&T`, so the data needs a `Cell` to change.
///
/// ```
/// use holdup_locks::{Adaptive, ReentrantMutex};
/// use std::cell::Cell;
///
/// let count = ReentrantMutex::<Adaptive, Cell<u32>>::new(Cell::new(0));
/// let outer = count.lock();
/// let inner = count.lock();
/// inner.set(outer.get() + 1);
/// assert_eq!(outer.get(), 1);
/// ```
#[cfg(feature = "std")]
pub type ReentrantMutex<L, T> = lock_api::ReentrantMutex<L, ThreadId, T>;

/// The README's example is compiled and run.
#[cfg(all(doctest, feature = "std"))]
#[doc = include_str!("../README.md")]
mod readme {}

/// The ways to wait of [`Futex`] and [`Ttas`] for a word that is not theirs. The interposer of holdup waits with them
/// for the word in a mutex of glibc's, so a policy of `holdup try` and the lock here that bears its name are one
/// algorithm. Not for others.
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod word {
    pub use crate::lock::futex::{CONTENDED, LOCKED, UNLOCKED, spin, spin_then_sleep, take};
    pub use crate::lock::ttas::spin_backing_off;
}

/// Knobs that models turn.
#[cfg(loom)]
#[doc(hidden)]
pub mod model {
    /// After this long a sleeper of `Adaptive` starves: 0 for at once, `u64::MAX` for never.
    pub static PATIENCE_NS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(u64::MAX);

    /// Whether releases of `Adaptive` are plain stores, at first and after one without a waiter; else they never are.
    pub static ASYMMETRIC: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(false);

    /// Whether the system has the kernel locks' objects. Without them these locks work as `Futex`.
    pub static OBJECTS: core::sync::atomic::AtomicBool = core::sync::atomic::AtomicBool::new(true);

    /// How many kernel objects the running model has open.
    pub fn open_objects() -> usize {
        crate::sys::object::open()
    }

    /// Makes loom's atomics of a lock; a model calls it before it shares the lock.
    pub trait Make {
        /// Makes them.
        fn make(&self);
    }
}
