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

#[cfg(all(feature = "std", not(loom), target_os = "linux"))]
mod linux;

#[cfg(all(feature = "std", not(loom), windows))]
mod windows;

#[cfg(all(feature = "std", not(loom), any(test, not(any(target_os = "linux", windows)))))]
mod fallback;

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

pub(crate) mod atomic;
#[cfg(feature = "std")]
mod error;
#[cfg(feature = "std")]
mod outcome;
#[cfg(feature = "std")]
mod parking;
#[cfg(feature = "std")]
pub use self::error::SysError;

#[cfg(feature = "std")]
pub(crate) use self::outcome::{Taken, Wait, Waited};
#[cfg(feature = "std")]
pub(crate) use self::parking::*;

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

#[cfg(all(test, feature = "std", not(loom)))]
mod tests;
