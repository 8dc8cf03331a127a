//! The seam between the locks and the machine: atomics, pauses, thread identity, the clock, parking, kernel objects.
//!
//! Every lock and technique of this crate takes these from here and from nowhere else, so that one source compiles
//! against four machines:
//!
//! | backend | when | parking |
//! |---|---|---|
//! | `linux` | Linux | `FUTEX_WAIT_BITSET` / `FUTEX_WAKE_BITSET`, private, absolute `CLOCK_MONOTONIC` |
//! | `windows` | Windows | a table of waiters keyed by address; each sleeps in `WaitOnAddress` |
//! | `fallback` | other systems with `std` | an address-keyed table of waiters on `std`'s own parking |
//! | `loom` | `--cfg loom` | the same table on loom's threads, explored by the model checker; kernel objects too |
//!
//! Without the feature `std` only the atomics and [`spin_hint`] exist; the locks that spin need no more.
//!
//! # The parking contract
//!
//! `wait(word, expected, bitset, deadline)` returns at once with [`Wait::Changed`] if `word` differs from `expected`,
//! else sleeps. Check and sleep are one step towards `wake` on the same address. Outcomes are exact: a waiter counted
//! in the result of `wake` sees [`Wait::Woken`] and nobody else does, unless a wake for an older object at the same
//! address reaches it (locks must survive that stray wake). Neither call orders memory by itself: a waiter reads the
//! word again with the ordering it needs.

/// `make_atomics!(node; next, state)`: under loom, makes the atomics of a value before threads share it; else nothing.
#[allow(unused_macros, reason = "no lock of a no_std build needs it under loom")]
macro_rules! make_atomics {
    ($value:expr; $($field:tt),*) => {
        #[cfg(loom)]
        {
            $($value.$field.make();)*
        }
    };
}

#[cfg(all(feature = "std", loom))]
mod loom;
#[cfg(all(feature = "std", loom))]
use self::loom as backend;

#[cfg(all(feature = "std", not(loom), target_os = "linux"))]
mod linux;
#[cfg(all(feature = "std", not(loom), target_os = "linux"))]
use self::linux as backend;

#[cfg(all(feature = "std", not(loom), windows))]
mod windows;
#[cfg(all(feature = "std", not(loom), windows))]
use self::windows as backend;

#[cfg(all(feature = "std", not(loom), any(test, not(any(target_os = "linux", windows)))))]
mod fallback;
#[cfg(all(feature = "std", not(loom), not(any(target_os = "linux", windows))))]
use self::fallback as backend;

#[cfg(all(feature = "std", not(loom), not(target_os = "linux")))]
mod no_object;

#[cfg(all(feature = "std", any(loom, not(windows))))]
mod no_win32;

#[cfg(feature = "std")]
mod rows;

/// The objects of Windows.
#[cfg(feature = "std")]
pub(crate) mod win32 {
    #[cfg(any(loom, not(windows)))]
    pub(crate) use super::no_win32::*;
    #[cfg(all(not(loom), windows))]
    pub(crate) use super::windows::object::*;
}

/// Kernel objects that the always-in-the-kernel locks are made of.
#[cfg(feature = "std")]
pub(crate) mod object {
    #[cfg(all(not(loom), target_os = "linux"))]
    pub(crate) use super::linux::object::*;
    #[cfg(loom)]
    pub(crate) use super::loom::object::*;
    #[cfg(all(not(loom), not(target_os = "linux")))]
    pub(crate) use super::no_object::*;
}

#[cfg(feature = "std")]
mod error;
#[cfg(feature = "std")]
pub use self::error::SysError;

/// What came of a try to take a kernel object.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The caller has it.
    Yes,
    /// It is held, or the deadline passed.
    No,
}

/// What came of a wait for an object of Windows.
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "only Windows makes them")]
pub(crate) enum Waited {
    /// The caller has it.
    Taken,
    /// The caller has it, from a thread that ended without giving it back.
    Inherited,
    /// The deadline passed.
    TimedOut,
}

/// The atomics that the locks are made of; loom's when a model runs.
pub(crate) mod atomic {
    #[cfg(all(feature = "std", loom))]
    pub(crate) use super::loom::atomic::*;
    #[cfg(not(all(feature = "std", loom)))]
    #[allow(unused_imports, reason = "one list for every feature set")]
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering, fence,
    };
    // Small processors without an operating system have no 64-bit atomics; the locks that spin need none.
    #[cfg(all(feature = "std", not(loom)))]
    pub(crate) use core::sync::atomic::AtomicU64;
}

#[cfg(feature = "std")]
pub(crate) use self::parking::*;

/// What ended a [`wait`].
#[cfg(feature = "std")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A `wake` counted this waiter.
    Woken,
    /// The word did not hold the expected value; there was no sleep.
    Changed,
    /// The deadline passed; no wake was consumed.
    TimedOut,
    #[allow(dead_code, reason = "models have no signals")]
    /// The sleep ended for no reason of ours (a signal); no wake was consumed.
    Interrupted,
}

/// A bitset that every waiter and every waker matches.
#[cfg(feature = "std")]
pub(crate) const ANY: u32 = u32::MAX;

/// Tells the CPU that this is a wait loop; under loom, lets another thread run.
#[inline(always)]
pub(crate) fn spin_hint() {
    #[cfg(all(feature = "std", loom))]
    ::loom::hint::spin_loop();
    #[cfg(not(all(feature = "std", loom)))]
    core::hint::spin_loop();
}

/// Gives the CPU to another runnable thread; without `std` there is nobody to ask, so it pauses.
#[inline]
pub(crate) fn yield_now() {
    #[cfg(all(feature = "std", loom))]
    ::loom::thread::yield_now();
    #[cfg(all(feature = "std", not(loom)))]
    std::thread::yield_now();
    #[cfg(not(feature = "std"))]
    core::hint::spin_loop();
}

#[cfg(feature = "std")]
mod parking {
    use super::atomic::AtomicU32;
    use super::{Wait, backend};
    use core::time::Duration;
    use std::time::Instant;

    /// A point on the clock of [`now_ns`], in nanoseconds.
    pub(crate) type DeadlineNs = u64;

    /// Monotonic nanoseconds since some fixed point. Under loom each call is a tick, so every wait comes to an end.
    #[inline]
    pub(crate) fn now_ns() -> u64 {
        backend::now_ns()
    }

    /// The deadline `timeout` from now; a timeout beyond the clock's range means "never".
    pub(crate) fn deadline_after(timeout: Duration) -> DeadlineNs {
        now_ns().saturating_add(u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The deadline at `instant`, on our own clock.
    pub(crate) fn deadline_at(instant: Instant) -> DeadlineNs {
        deadline_after(instant.saturating_duration_since(Instant::now()))
    }

    /// Sleeps while `word` holds `expected`, until a [`wake`] with a common bit or the deadline.
    #[inline]
    pub(crate) fn wait(word: &AtomicU32, expected: u32, bitset: u32, deadline: Option<DeadlineNs>) -> Wait {
        backend::wait(word, expected, bitset, deadline)
    }

    /// Wakes up to `count` waiters of `word` whose bitset shares a bit; returns how many.
    #[inline]
    pub(crate) fn wake(word: &AtomicU32, count: u32, bitset: u32) -> u32 {
        backend::wake(word, count, bitset)
    }

    /// [`wake`] by bare address, for a word on another thread's stack that may be gone by now.
    ///
    /// The address is a key and is never read, so a stale one costs at worst a stray wake.
    #[inline]
    pub(crate) fn wake_address(word: *const AtomicU32, count: u32, bitset: u32) -> u32 {
        backend::wake(word, count, bitset)
    }

    /// A number of the calling thread, never zero, the same for the thread's whole life and in a forked child.
    ///
    /// Numbers are given in order and would repeat after 2^32 - 1 threads of one process.
    #[inline]
    pub(crate) fn thread_id() -> u32 {
        #[cfg(loom)]
        ::loom::thread_local!(static ID: core::cell::Cell<u32> = core::cell::Cell::new(0));
        #[cfg(not(loom))]
        std::thread_local!(static ID: core::cell::Cell<u32> = const { core::cell::Cell::new(0) });
        ID.with(|id| match id.get() {
            0 => {
                id.set(next_thread_id());
                id.get()
            }
            known => known,
        })
    }

    #[cold]
    fn next_thread_id() -> u32 {
        static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);
        loop {
            let id = NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
            if id != 0 {
                return id;
            }
        }
    }
}

#[cfg(all(test, feature = "std", not(loom)))]
mod tests;
