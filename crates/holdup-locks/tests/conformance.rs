//! One body for every lock of the registry: what `RawMutex` promises, and what the locks promise beyond.
#![allow(unsafe_code, reason = "raw locks are driven through their unsafe interface")]

use holdup_locks::lock_api::RawMutex;
use holdup_locks::{Mutex, Recursive, for_each_lock};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

/// A counter without atomics: it loses updates unless its lock excludes.
struct Counter<L> {
    lock: L,
    value: UnsafeCell<u64>,
}

// SAFETY: `value` is accessed only between `lock` and `unlock`; whether that excludes is what the tests check.
unsafe impl<L: Sync> Sync for Counter<L> {}

impl<L: RawMutex> Counter<L> {
    fn new() -> Self {
        Self { lock: L::INIT, value: UnsafeCell::new(0) }
    }

    fn add(&self) {
        let guard = self.lock.lock();
        // SAFETY: the lock is held.
        unsafe { *self.value.get() += 1 };
        // SAFETY: the guard is that of the acquisition above.
        unsafe { self.lock.unlock(guard) };
    }
}

/// Threads and iterations that the lock can bear here: few threads for locks that collapse when threads outnumber CPUs.
fn load(oversubscribable: bool, threads: usize, iterations: u64) -> (usize, u64) {
    let scale = if cfg!(miri) { 50 } else { 1 };
    (if oversubscribable { threads } else { 2 }, (iterations / scale).max(3))
}

fn mutual_exclusion<L: RawMutex + Sync>(oversubscribable: bool) {
    let (threads, iterations) = load(oversubscribable, 4, 5_000);
    let counter = Counter::<L>::new();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..iterations).for_each(|_| counter.add()));
        }
    });
    assert_eq!(counter.value.into_inner(), threads as u64 * iterations);
}

fn try_lock_never_blocks<L: RawMutex>() {
    let lock = L::INIT;
    let guard = lock.try_lock().expect("a free lock is taken by a try");
    assert!(lock.is_locked());
    assert!(lock.try_lock().is_none(), "a held lock is not taken by a try, and the try returns");
    // SAFETY: the guard is that of the acquisition above.
    unsafe { lock.unlock(guard) };
    assert!(!lock.is_locked());
    let guard = lock.try_lock().expect("free again");
    // SAFETY: as above.
    unsafe { lock.unlock(guard) };
}

fn a_panic_inside_releases<L: RawMutex>() {
    let mutex = Mutex::<L, u32>::new(1);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut value = mutex.lock();
        *value = 2;
        std::panic::resume_unwind(Box::new("inside"));
    }));
    assert!(outcome.is_err());
    assert_eq!(*mutex.lock(), 2);
}

fn recursion<L: RawMutex + Sync>() {
    let lock = Recursive::<L>::INIT;
    let outer = lock.enter();
    let inner = lock.enter();
    assert!(lock.try_lock(), "the holder's try succeeds");
    assert_eq!(lock.depth(), 3);
    let other = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| other.store(1 + usize::from(lock.try_lock()), Ordering::Relaxed));
    });
    assert_eq!(other.into_inner(), 1, "a stranger's try fails");
    // SAFETY: the level that `try_lock` took.
    unsafe { lock.unlock() };
    drop((outer, inner));
    assert!(!lock.is_locked());
    assert!(lock.try_lock(), "free after as many releases");
    // SAFETY: the level just taken.
    unsafe { lock.unlock() };
}

fn layout<L: RawMutex>() {
    assert!(size_of::<L>() <= 40, "a lock fits where a pthread mutex does");
    let _in_a_constant = const { L::INIT };
}

macro_rules! yes_no {
    (yes) => {
        true
    };
    (no) => {
        false
    };
}

macro_rules! suites {
    ([] $({
        $id:ident, $name:literal, $lock:ty, $family:ident, timed: $timed:ident, fifo: $fifo:ident,
        oversubscribable: $oversubscribable:ident, $summary:literal, $source:literal
    })*) => {$(
        mod $id {
            use super::*;

            #[test]
            fn mutual_exclusion() {
                if runs_here($name) {
                    super::mutual_exclusion::<$lock>(yes_no!($oversubscribable));
                }
            }

            #[test]
            fn try_lock_never_blocks() {
                if runs_here($name) {
                    super::try_lock_never_blocks::<$lock>();
                }
            }

            #[test]
            fn a_panic_inside_releases() {
                if runs_here($name) {
                    super::a_panic_inside_releases::<$lock>();
                }
            }

            #[test]
            fn recursion() {
                if runs_here($name) {
                    super::recursion::<$lock>();
                }
            }

            #[test]
            fn layout() {
                super::layout::<$lock>();
            }
        }
    )*};
}

/// Says why, if a lock cannot be checked on this machine.
fn runs_here(name: &str) -> bool {
    let missing = ["eventfd", "eventfd-sem", "sysv-sem", "futex-pi", "pipe"];
    if cfg!(miri) && missing.contains(&name) {
        eprintln!("skipped {name}: Miri has no preadv2, System V semaphores or priority-inheriting futexes");
        return false;
    }
    true
}

for_each_lock!(suites);
