//! Sleeping on a word and waking its sleepers, the clock, and thread identity: by the backend of this build.

#[cfg(all(not(loom), not(any(target_os = "linux", windows))))]
use super::fallback as backend;
#[cfg(all(not(loom), target_os = "linux"))]
use super::linux as backend;
#[cfg(loom)]
use super::loom as backend;
#[cfg(all(not(loom), windows))]
use super::windows as backend;

use super::atomic::AtomicU32;
use super::outcome::Wait;
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
    #[cfg(not(loom))]
    static NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);
    // Afresh in each run of a model: what depends on a thread's number is then the same in runs of one schedule.
    #[cfg(loom)]
    ::loom::lazy_static! {
        static ref NEXT: core::sync::atomic::AtomicU32 = core::sync::atomic::AtomicU32::new(1);
    }
    loop {
        let id = NEXT.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
        if id != 0 {
            return id;
        }
    }
}

/// A bitset that every waiter and every waker matches.
pub(crate) const ANY: u32 = u32::MAX;
