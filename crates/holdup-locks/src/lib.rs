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
//! [`Adaptive`] is the one for general use. The others are for particular needs and for comparison; each type's page says
//! what it costs and when not to use it, and [`LOCKS`] lists them all.
//!
//! All locks are made by a constant (`RawMutex::INIT`), fit in 40 bytes, and may be used by threads that anybody created. Only
//! [`Clh`] and [`ClhSpin`] allocate (a node per thread and depth), and [`CriticalSection`] once. Debug builds panic, naming the lock, its address and its holder,
//! when the holder takes a lock again that is not recursive, when a lock is released twice or by another thread, and when it is
//! dropped while held. Release builds do not check, and sizes are the same in both.
//!
//! # Features
//! * `std` (default): everything. Without it: [`Tas`], [`Ttas`], [`Ticket`], [`TicketSpin`] and [`McsSpin`], untimed, and
//!   "giving the CPU away" is a pause.
//! * `lock_api_04`: the stateless locks (all but the CLH pair) implement lock_api 0.4's traits as well.
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
pub use self::registry::{Family, LOCKS, LockInfo};
#[cfg(feature = "std")]
pub use self::sys::SysError;
/// The traits and types that every lock here works with.
pub use lock_api;
pub use lock_api::{Mutex, MutexGuard};

/// Shared access to data by one thread at a time, which may lock again: `lock_api`'s, for any lock here.
#[cfg(feature = "std")]
pub type ReentrantMutex<L, T> = lock_api::ReentrantMutex<L, ThreadId, T>;

/// Knobs that models turn.
#[cfg(loom)]
#[doc(hidden)]
pub mod model {
    /// After this long a sleeper of `Adaptive` starves: 0 for at once, `u64::MAX` for never.
    pub static PATIENCE_NS: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(u64::MAX);

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
