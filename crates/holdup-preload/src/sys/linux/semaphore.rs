//! Semaphores: the real functions serve them. Each wait is counted, with a profile each semaphore has a record, and
//! `spin-park` looks at it so many times before the real function sleeps. The other policies are about who holds a
//! lock, and of a semaphore nobody can tell.
//!
//! A wait for a semaphore is a cancellation point, and ends when a signal is handled: so whoever looks looks a bounded
//! number of times, and the real function has the last word.

use std::ffi::{c_int, c_void};
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

use holdup_control::{KIND_SEMAPHORE, Policy};
use libc::{clockid_t, timespec};

use super::passed::record_of;
use super::process::Served;
use super::{clock, real, start};

unsafe extern "C-unwind" {
    fn pthread_testcancel();
}

/// The value, in the first half of the structure since glibc 2.21; a newer one that puts it elsewhere makes the looks
/// useless, not wrong.
fn value(semaphore: *mut c_void) -> u32 {
    // SAFETY: the callers' semaphore is at least as large, aligned, and outlives the call.
    unsafe { &*semaphore.cast::<AtomicU32>() }.load(Ordering::Relaxed)
}

/// One attempt that leaves `errno` as it was.
fn attempt(semaphore: *mut c_void) -> bool {
    // SAFETY: the place is the thread's own.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { errno.read() };
    // SAFETY: the callers' semaphore is initialised.
    let taken = unsafe { real::sem_trywait(semaphore) } == 0;
    // SAFETY: as above.
    unsafe { errno.write(before) };
    taken
}

fn spin(served: Served, semaphore: *mut c_void) -> bool {
    let Policy::SpinPark(looks) = served.process.policy() else { return false };
    (0..looks).any(|_| {
        spin_loop();
        value(semaphore) > 0 && attempt(semaphore)
    })
}

fn acquired(served: Served, semaphore: *mut c_void, site: usize, waited: Option<(bool, Option<u64>)>) {
    let thread = served.thread;
    if let Some(slot) = thread.figures() {
        thread.add(&slot.acquisitions, 1);
        thread.add(&slot.contended, u64::from(waited.is_some()));
        thread.add(&slot.slept, u64::from(waited.is_some_and(|(slept, _)| slept)));
    }
    if !served.process.profiles() {
        return;
    }
    let Some(record) = record_of(served, KIND_SEMAPHORE, semaphore, 0, site) else { return };
    record.passed(thread);
    if let Some((slept, began)) = waited {
        record.waited(thread, site, slept, began.map(clock::since_ns));
    }
}

/// # Safety
/// `semaphore` points to an initialised semaphore, which outlives the call.
unsafe fn wait(semaphore: *mut c_void, site: usize, real: impl FnOnce() -> c_int) -> c_int {
    let Some(served) = start::enter() else { return real() };
    // As the real function does even where it need not wait.
    // SAFETY: no frame here has anything to clean up when the thread is unwound.
    unsafe { pthread_testcancel() };
    if attempt(semaphore) {
        acquired(served, semaphore, site, None);
        return 0;
    }
    let began = served.process.times_waits().then(clock::now);
    if spin(served, semaphore) {
        acquired(served, semaphore, site, Some((false, began)));
        return 0;
    }
    let result = real();
    if result == 0 {
        acquired(served, semaphore, site, Some((true, began)));
    }
    result
}

/// `sem_wait`.
///
/// # Safety
/// `semaphore` points to an initialised semaphore, which outlives the call.
pub unsafe extern "C-unwind" fn sem_wait(semaphore: *mut c_void, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { wait(semaphore, site, || real::sem_wait(semaphore)) }
}

/// `sem_timedwait`.
///
/// # Safety
/// `semaphore` points to an initialised semaphore and `until` to a time; both outlive the call.
pub unsafe extern "C-unwind" fn sem_timedwait(semaphore: *mut c_void, until: *const timespec, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { checked(semaphore, until, site, || real::sem_timedwait(semaphore, until)) }
}

/// `sem_clockwait`.
///
/// # Safety
/// `semaphore` points to an initialised semaphore and `until` to a time; both outlive the call.
pub unsafe extern "C-unwind" fn sem_clockwait(
    semaphore: *mut c_void,
    clock: clockid_t,
    until: *const timespec,
    site: usize,
) -> c_int {
    let real = || {
        // SAFETY: the caller's promise.
        unsafe { real::sem_clockwait(semaphore, clock, until) }
    };
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return real();
    }
    // SAFETY: the caller's promise.
    unsafe { checked(semaphore, until, site, real) }
}

/// A time that is none is an error, which the real functions tell even where the semaphore could be had.
///
/// # Safety
/// `semaphore` points to an initialised semaphore and `until` to a time; both outlive the call.
unsafe fn checked(semaphore: *mut c_void, until: *const timespec, site: usize, real: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    let nanoseconds = unsafe { (*until).tv_nsec };
    if !(0..1_000_000_000).contains(&nanoseconds) {
        return real();
    }
    // SAFETY: the caller's promise.
    unsafe { wait(semaphore, site, real) }
}

/// `sem_trywait`.
///
/// # Safety
/// `semaphore` points to an initialised semaphore, which outlives the call.
pub unsafe extern "C" fn sem_trywait(semaphore: *mut c_void, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    let result = unsafe { real::sem_trywait(semaphore) };
    if result == 0
        && let Some(served) = start::enter()
    {
        acquired(served, semaphore, site, None);
    }
    result
}
