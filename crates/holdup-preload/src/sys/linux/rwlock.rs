//! Reader-writer locks. The real functions serve them; a policy changes what they do.
//!
//! `spin-park` tries so many times before the real function sleeps.
//!
//! `prefer-writer` makes a lock of the default kind one that prefers writers, as
//! `pthread_rwlockattr_setkind_np(PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP)` would have: the real functions then
//! keep new readers out while a writer waits. What keeps that safe in a program that was not written for it:
//!
//! 1. **A lock changes before anybody is in.** Writers that wait by different kinds miss each other's wake-ups, so only
//!    a lock that is zero in every byte is changed, by whoever comes first, and everybody else sees the change before
//!    the real function is called. One that was made with another kind or for several processes is not zero. Nothing
//!    changes it back while the process runs: the policy is read once. Where rules give locks policies of their own,
//!    whoever comes first settles it, by a mark in the lock: where a lock is first taken from, threads could see
//!    differently. The mark goes when the lock is initialised anew.
//! 2. **Who reads may read again.** A thread that has any lock for reading does not wait for a writer that waits
//!    (which may wait for it, by this lock or by others): it comes in as readers of the default kind do, by an addition
//!    to the word. So read locks may be nested as POSIX has it.
//! 3. **Nobody waits for ever for a wait.** What no thread can know by itself is that it has to read before *another*
//!    thread stops reading. So with a watchdog a reader waits for a waiting writer only so long; then it comes in, and
//!    from then on all readers do.

use std::ffi::{c_int, c_void};
use std::hint::spin_loop;
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering};

use holdup_control::{KIND_RWLOCK, RwPolicy};
use libc::{CLOCK_MONOTONIC, clockid_t, timespec};

use super::counted::Kind;
use super::passed::{pass, record_of, tried};
use super::process::Served;
use super::read_write::ReadWrite;
use super::thread::{self, Thread};
use super::{kernel, real, start};

/// The watchdog was due: readers wait for no writer that waits.
static TRIPPED: AtomicBool = AtomicBool::new(false);

/// As readers of the default kind, for one who must not wait for a writer that waits.
fn nested(lock: &ReadWrite, thread: &Thread) -> Option<c_int> {
    let must = thread.reads.get() > 0 || TRIPPED.load(Ordering::Relaxed);
    if must && lock.is_marked() { lock.join_readers() } else { None }
}

/// The policy of a lock: that of the process, unless there are rules.
#[inline]
fn policy_of(served: Served, lock: &ReadWrite, site: usize) -> RwPolicy {
    match served.process.has_rw_rules {
        false => served.process.rw,
        true => lock.settled().unwrap_or_else(|| settle(served, lock, 0, site)),
    }
}

/// Nobody has settled yet what the policy of a lock is; known is where it was initialised, or where it is first taken.
#[cold]
fn settle(served: Served, lock: &ReadWrite, init_site: u64, site: usize) -> RwPolicy {
    let address = ptr::from_ref(lock) as u64;
    let word = served.process.rule_for(KIND_RWLOCK, address, site as u64, init_site);
    let (policy, is_first) = lock.settle(word.and_then(RwPolicy::unpack).unwrap_or(served.process.rw));
    if is_first && word.is_some() {
        // So that the report knows of it.
        record_of(served, KIND_RWLOCK, address as *mut c_void, init_site, site);
    }
    policy
}

/// `pthread_rwlock_init`.
///
/// # Safety
/// `lock` points to memory for a reader-writer lock, which no thread uses yet; `attributes` is null or points to
/// initialised attributes.
pub unsafe extern "C" fn init(lock: *mut c_void, attributes: *const c_void, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { real::rwlock_init(lock, attributes) };
    if let Some(served) = start::enter().filter(|served| result == 0 && served.process.has_rw_rules) {
        let fits = served.process.rule_for(KIND_RWLOCK, lock as u64, 0, site as u64).is_some();
        if fits {
            // SAFETY: the caller's promise.
            settle(served, unsafe { ReadWrite::at(lock) }, site as u64, 0);
        }
    }
    result
}

fn prefer_writers(served: Served, lock: &ReadWrite) {
    if lock.prefer_writers() {
        served.process.figures().rw_preferring.fetch_add(1, Ordering::Relaxed);
    }
}

/// The thread has one lock more for reading, where that matters; and where it cannot be told whether it does, as long
/// as others are counted.
fn count_read(served: Option<Served>, thread: &Thread, result: c_int) -> c_int {
    let counts = served.is_some_and(|served| served.process.prefers_writers) || thread.reads.get() > 0;
    if result == 0 && counts {
        thread.reads.set(thread.reads.get() + 1);
    }
    result
}

/// A way to acquire: the real functions for it.
struct Way<T, A> {
    /// Tries.
    attempt: T,
    /// Waits.
    acquire: A,
    /// Whether the wait has no end of its own.
    is_endless: bool,
}

/// # Safety
/// `pointer` points to an initialised reader-writer lock, which outlives the call.
unsafe fn read(pointer: *mut c_void, site: usize, way: &Way<impl Fn() -> c_int, impl Fn() -> c_int>) -> c_int {
    let thread = thread::this();
    // SAFETY: the caller's promise.
    let lock = unsafe { ReadWrite::at(pointer) };
    let nested_or = |other: &dyn Fn() -> c_int| nested(lock, thread).unwrap_or_else(other);
    let served = start::enter();
    let result = match served.map(|served| (served, policy_of(served, lock, site))) {
        None => nested_or(&way.acquire),
        Some((_, RwPolicy::Glibc)) => pass(Kind::ReadWrite, pointer, site, &way.attempt, &way.acquire),
        Some((_, RwPolicy::SpinPark(tries))) => {
            pass(Kind::ReadWrite, pointer, site, &way.attempt, || spin_then(tries, way))
        }
        Some((served, RwPolicy::PreferWriter)) => {
            prefer_writers(served, lock);
            let attempt = || nested_or(&way.attempt);
            pass(Kind::ReadWrite, pointer, site, attempt, || match served.process.watchdog_ns() {
                ns @ 1.. if way.is_endless && lock.is_marked() => patiently(served, pointer, lock, ns, way),
                _ => nested_or(&way.acquire),
            })
        }
    };
    count_read(served, thread, result)
}

/// Waits, but for a writer that waits for others no longer than this.
fn patiently(
    served: Served,
    pointer: *mut c_void,
    lock: &ReadWrite,
    patience_ns: u64,
    way: &Way<impl Fn() -> c_int, impl Fn() -> c_int>,
) -> c_int {
    loop {
        let attempted = nested(lock, served.thread).unwrap_or_else(&way.attempt);
        if attempted != libc::EBUSY {
            return attempted;
        }
        let until = moment(kernel::now_ns().saturating_add(patience_ns));
        // SAFETY: the lock is that of the caller of `read`.
        let result = unsafe { real::rwlock_clockrdlock(pointer, CLOCK_MONOTONIC, &raw const until) };
        if result != libc::ETIMEDOUT {
            return result;
        }
        if lock.keeps_readers_out() && !TRIPPED.swap(true, Ordering::Relaxed) {
            served.process.figures().rw_watchdog_trips.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn moment(ns: u64) -> timespec {
    timespec { tv_sec: (ns / 1_000_000_000) as i64, tv_nsec: (ns % 1_000_000_000) as i64 }
}

/// # Safety
/// `pointer` points to an initialised reader-writer lock, which outlives the call.
unsafe fn write(pointer: *mut c_void, site: usize, way: &Way<impl Fn() -> c_int, impl Fn() -> c_int>) -> c_int {
    // SAFETY: the caller's promise.
    let lock = unsafe { ReadWrite::at(pointer) };
    match start::enter().map(|served| (served, policy_of(served, lock, site))) {
        Some((_, RwPolicy::SpinPark(tries))) => {
            return pass(Kind::ReadWrite, pointer, site, &way.attempt, || spin_then(tries, way));
        }
        Some((served, RwPolicy::PreferWriter)) => prefer_writers(served, lock),
        _ => {}
    }
    pass(Kind::ReadWrite, pointer, site, &way.attempt, &way.acquire)
}

/// Tries so many times, then waits.
fn spin_then(tries: u32, way: &Way<impl Fn() -> c_int, impl Fn() -> c_int>) -> c_int {
    for _ in 0..tries {
        let result = (way.attempt)();
        if result != libc::EBUSY {
            return result;
        }
        spin_loop();
    }
    (way.acquire)()
}

/// The functions that acquire a reader-writer lock, those that take a time or a clock with the others. A time or clock
/// that is none is an error even where the lock could be had, so the real function alone is asked.
macro_rules! read_write {
    ($($(#[$about:meta])+ $name:ident($($arg:ident: $type:ty),*) $(if $valid:expr)? => $way:ident, $attempt:ident,
        $acquire:ident;)*) => {$(
        $(#[$about])+
        ///
        /// # Safety
        /// `lock` points to an initialised reader-writer lock and `until`, if there is one, to a time; both outlive the
        /// call.
        pub unsafe extern "C" fn $name(lock: *mut c_void, $($arg: $type,)* site: usize) -> c_int {
            let acquire = || {
                // SAFETY: the caller's promise.
                unsafe { real::$acquire(lock, $($arg),*) }
            };
            $(if !$valid {
                return acquire();
            })?
            let attempt = || {
                // SAFETY: the caller's promise.
                unsafe { real::$attempt(lock) }
            };
            let arguments: &[&str] = &[$(stringify!($arg)),*];
            let is_endless = arguments.is_empty();
            // SAFETY: the caller's promise.
            unsafe { $way(lock, site, &Way { attempt, acquire, is_endless }) }
        }
    )*};
}

read_write! {
    /// `pthread_rwlock_rdlock`.
    rdlock() => read, rwlock_tryrdlock, rwlock_rdlock;
    /// `pthread_rwlock_timedrdlock`.
    timedrdlock(until: *const timespec) if is_time(until) => read, rwlock_tryrdlock, rwlock_timedrdlock;
    /// `pthread_rwlock_clockrdlock`.
    clockrdlock(clock: clockid_t, until: *const timespec) if is_clock(clock) && is_time(until)
        => read, rwlock_tryrdlock, rwlock_clockrdlock;
    /// `pthread_rwlock_wrlock`.
    wrlock() => write, rwlock_trywrlock, rwlock_wrlock;
    /// `pthread_rwlock_timedwrlock`.
    timedwrlock(until: *const timespec) if is_time(until) => write, rwlock_trywrlock, rwlock_timedwrlock;
    /// `pthread_rwlock_clockwrlock`.
    clockwrlock(clock: clockid_t, until: *const timespec) if is_clock(clock) && is_time(until)
        => write, rwlock_trywrlock, rwlock_clockwrlock;
}

fn is_clock(clock: clockid_t) -> bool {
    clock == libc::CLOCK_REALTIME || clock == CLOCK_MONOTONIC
}

/// The pointer is what the functions' callers give as a time.
fn is_time(until: *const timespec) -> bool {
    // SAFETY: they promise that it is one, which outlives the call.
    (0..1_000_000_000).contains(&unsafe { (*until).tv_nsec })
}

/// `pthread_rwlock_tryrdlock`.
///
/// # Safety
/// `lock` points to an initialised reader-writer lock, which outlives the call.
pub unsafe extern "C" fn tryrdlock(lock: *mut c_void, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    let read_write = unsafe { ReadWrite::at(lock) };
    let (thread, served) = (thread::this(), start::enter());
    if let Some(served) = served.filter(|served| policy_of(*served, read_write, site) == RwPolicy::PreferWriter) {
        prefer_writers(served, read_write);
    }
    let result = nested(read_write, thread).unwrap_or_else(|| {
        // SAFETY: the caller's promise.
        unsafe { real::rwlock_tryrdlock(lock) }
    });
    tried(Kind::ReadWrite, lock, site, count_read(served, thread, result))
}

/// `pthread_rwlock_trywrlock`.
///
/// # Safety
/// `lock` points to an initialised reader-writer lock, which outlives the call.
pub unsafe extern "C" fn trywrlock(lock: *mut c_void, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    let read_write = unsafe { ReadWrite::at(lock) };
    if let Some(served) = start::enter().filter(|served| policy_of(*served, read_write, site) == RwPolicy::PreferWriter)
    {
        prefer_writers(served, read_write);
    }
    // SAFETY: the caller's promise.
    tried(Kind::ReadWrite, lock, site, unsafe { real::rwlock_trywrlock(lock) })
}

/// `pthread_rwlock_unlock`.
///
/// # Safety
/// `lock` points to an initialised reader-writer lock, which outlives the call; the calling thread has it.
pub unsafe extern "C" fn unlock(lock: *mut c_void, _site: usize) -> c_int {
    let reads = &thread::this().reads;
    // While a thread has the lock for reading, there is no writer. What is left of the lock after its release is
    // nobody's, so this comes first.
    // SAFETY: the caller's promise.
    if reads.get() > 0 && !unsafe { ReadWrite::at(lock) }.has_writer() {
        reads.set(reads.get() - 1);
    }
    // SAFETY: the caller's promise.
    unsafe { real::rwlock_unlock(lock) }
}
