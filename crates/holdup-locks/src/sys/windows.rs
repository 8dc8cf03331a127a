//! Windows: parking on `WaitOnAddress`, the performance counter as clock, and the Win32 objects.
//!
//! `WaitOnAddress` wakes without a reason, counts nobody and knows no bitset. So a waiter stands in a table keyed by
//! the address it waits for, and sleeps on a word of its own: the parking contract's exact outcomes come from the
//! table, and the kernel's call only sends to sleep and wakes. The lock `wait-on-address` sleeps on its word without
//! the table.

pub(crate) mod object;

use super::Wait;
use super::atomic::{AtomicU32, Ordering};
use core::cell::Cell;
use core::ptr;
use core::sync::atomic::AtomicI64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::Threading::{INFINITE, WaitOnAddress, WakeByAddressSingle};

const NS_PER_S: u128 = 1_000_000_000;
const NS_PER_MS: u64 = 1_000_000;
const BUCKETS: usize = 64;

const ASLEEP: u32 = 0;
const WOKEN: u32 = 1;

/// A waiter, on its thread's stack; in its bucket's list exactly as long as `state` is `ASLEEP`.
struct Waiter {
    address: usize,
    bitset: u32,
    state: AtomicU32,
    /// The one that came after it. Read and written under the bucket's lock.
    next: Cell<*const Waiter>,
}

/// Waiters in the order of their arrival.
struct Bucket {
    first: *const Waiter,
}

// SAFETY: the pointers lead to waiters that stay where they are while they are in the list, whatever thread walks it.
unsafe impl Send for Bucket {}

static TABLE: [Mutex<Bucket>; BUCKETS] = [const { Mutex::new(Bucket { first: ptr::null() }) }; BUCKETS];

fn bucket(address: usize) -> MutexGuard<'static, Bucket> {
    let mixed = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
    // A poisoned bucket is still consistent: no code that can panic runs under it.
    TABLE[mixed >> (usize::BITS - 6)].lock().unwrap_or_else(PoisonError::into_inner)
}

impl Bucket {
    fn append(&mut self, waiter: &Waiter) {
        let mut last = ptr::null();
        self.retain(|other| {
            last = ptr::from_ref(other);
            true
        });
        // SAFETY: a waiter in the list is alive, because only its removal under this lock lets its thread go.
        match unsafe { <*const Waiter>::as_ref(last) } {
            Some(last) => last.next.set(waiter),
            None => self.first = waiter,
        }
    }

    /// Takes out of the list whom `keep` refuses. `keep` may end the waiter that it refuses: it is not touched
    /// afterwards.
    fn retain(&mut self, mut keep: impl FnMut(&Waiter) -> bool) {
        let mut kept: *const Waiter = ptr::null();
        let mut here = self.first;
        // SAFETY: as in `append`: what is in the list is alive, until `keep` says otherwise.
        while let Some(waiter) = unsafe { here.as_ref() } {
            let next = waiter.next.get();
            if keep(waiter) {
                kept = here;
            } else {
                // SAFETY: `kept` is null or was kept a moment ago.
                match unsafe { kept.as_ref() } {
                    Some(kept) => kept.next.set(next),
                    None => self.first = next,
                }
            }
            here = next;
        }
    }
}

pub(super) fn wait(word: &AtomicU32, expected: u32, bitset: u32, deadline: Option<u64>) -> Wait {
    let address = ptr::from_ref(word) as usize;
    let waiter = Waiter { address, bitset, state: AtomicU32::new(ASLEEP), next: Cell::new(ptr::null()) };
    {
        // The bucket's lock makes "still as expected" and "now asleep" one step towards wake().
        let mut waiters = bucket(address);
        if word.load(Ordering::SeqCst) != expected {
            return Wait::Changed;
        }
        waiters.append(&waiter);
    }
    loop {
        // ORDERING: pairs with the waker's Release; the waiter's stack is its own again.
        if waiter.state.load(Ordering::Acquire) == WOKEN {
            return Wait::Woken;
        }
        if deadline.is_some_and(|deadline| now_ns() >= deadline) {
            return leave(&waiter);
        }
        sleep_on(&waiter.state, ASLEEP, deadline);
    }
}

/// Leaves the table at the deadline, unless a wake came first: then it counts.
fn leave(waiter: &Waiter) -> Wait {
    let mut waiters = bucket(waiter.address);
    if waiter.state.load(Ordering::Acquire) == WOKEN {
        return Wait::Woken;
    }
    waiters.retain(|other| !ptr::eq(other, waiter));
    Wait::TimedOut
}

pub(super) fn wake(word: *const AtomicU32, count: u32, bitset: u32) -> u32 {
    let address = word as usize;
    let mut left = count;
    bucket(address).retain(|waiter| {
        if left == 0 || waiter.address != address || waiter.bitset & bitset == 0 {
            return true;
        }
        left -= 1;
        let state = ptr::from_ref(&waiter.state);
        waiter.state.store(WOKEN, Ordering::Release);
        // The waiter may be gone by now; its address is only a key.
        wake_sleeper(state);
        false
    });
    count - left
}

/// Sleeps while the word has this value, not past the deadline; may wake without a reason.
fn sleep_on(word: &AtomicU32, value: u32, deadline: Option<u64>) {
    // SAFETY: both addresses are of four readable bytes that live through the call.
    unsafe { WaitOnAddress(word.as_ptr().cast(), ptr::from_ref(&value).cast(), 4, left_ms(deadline)) };
}

/// Wakes one that sleeps on the word.
fn wake_sleeper(word: *const AtomicU32) {
    // SAFETY: the address is a key and is not read.
    unsafe { WakeByAddressSingle(word.cast()) };
}

/// Milliseconds until the deadline, rounded up: nobody gives up too early.
fn left_ms(deadline: Option<u64>) -> u32 {
    let Some(deadline) = deadline else { return INFINITE };
    let left_ms = deadline.saturating_sub(now_ns()).div_ceil(NS_PER_MS);
    u32::try_from(left_ms).unwrap_or(INFINITE).min(INFINITE - 1)
}

pub(super) fn now_ns() -> u64 {
    let mut ticks = 0;
    // SAFETY: writes one integer into the one given; since Windows XP it cannot fail.
    unsafe { QueryPerformanceCounter(&raw mut ticks) };
    // 584 years of uptime fit.
    u64::try_from(ticks as u128 * NS_PER_S / ticks_per_s() as u128).unwrap_or(u64::MAX)
}

/// Fixed at boot, so every thread that asks stores the same.
fn ticks_per_s() -> i64 {
    static KNOWN: AtomicI64 = AtomicI64::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return known;
    }
    let mut asked = 0;
    // SAFETY: writes one integer into the one given; since Windows XP it cannot fail.
    unsafe { QueryPerformanceFrequency(&raw mut asked) };
    KNOWN.store(asked, Ordering::Relaxed);
    asked.max(1)
}
