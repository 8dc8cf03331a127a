//! Parking on any system with `std`: waiters in a table keyed by address, each asleep in `std::thread::park`.
//!
//! Correct and portable rather than fast. It also compiles in Linux test builds, where the parking contract's tests run
//! over both backends.

use super::Wait;
use super::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

const BUCKETS: usize = 64;

struct Waiter {
    address: usize,
    bitset: u32,
    woken: Arc<AtomicBool>,
    thread: Thread,
}

type Bucket = Mutex<Vec<Waiter>>;

static TABLE: [Bucket; BUCKETS] = [const { Mutex::new(Vec::new()) }; BUCKETS];

fn bucket(address: usize) -> MutexGuard<'static, Vec<Waiter>> {
    let mixed = (address >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15_u64 as usize);
    // A poisoned bucket is still consistent: no code that can panic runs under it.
    TABLE[mixed >> (usize::BITS - 6)].lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn wait(word: &AtomicU32, expected: u32, bitset: u32, deadline: Option<u64>) -> Wait {
    let address = core::ptr::from_ref(word) as usize;
    let woken = Arc::new(AtomicBool::new(false));
    {
        // The bucket's lock makes "still as expected" and "now asleep" one step towards wake().
        let mut waiters = bucket(address);
        if word.load(Ordering::SeqCst) != expected {
            return Wait::Changed;
        }
        let thread = std::thread::current();
        waiters.push(Waiter { address, bitset, woken: Arc::clone(&woken), thread });
    }
    loop {
        if woken.load(Ordering::Acquire) {
            return Wait::Woken;
        }
        match deadline {
            None => std::thread::park(),
            Some(deadline) => match deadline.checked_sub(now_ns()) {
                None | Some(0) => return leave(address, &woken),
                Some(left_ns) => std::thread::park_timeout(Duration::from_nanos(left_ns)),
            },
        }
    }
}

/// Leaves the table at the deadline, unless a wake came first: then it counts.
fn leave(address: usize, woken: &Arc<AtomicBool>) -> Wait {
    let mut waiters = bucket(address);
    match waiters.iter().position(|waiter| Arc::ptr_eq(&waiter.woken, woken)) {
        Some(place) => {
            waiters.remove(place);
            Wait::TimedOut
        }
        None => Wait::Woken,
    }
}

pub(super) fn wake(word: *const AtomicU32, count: u32, bitset: u32) -> u32 {
    let address = word as usize;
    let mut waiters = bucket(address);
    let mut left = count;
    waiters.retain(|waiter| {
        if left == 0 || waiter.address != address || waiter.bitset & bitset == 0 {
            return true;
        }
        left -= 1;
        waiter.woken.store(true, Ordering::Release);
        waiter.thread.unpark();
        false
    });
    count - left
}

pub(super) fn now_ns() -> u64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    // 584 years of uptime fit.
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}
