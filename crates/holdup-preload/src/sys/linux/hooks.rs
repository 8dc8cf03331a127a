//! What stands in for glibc's mutex functions, apart from their shortest paths.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use holdup_control::{Fallback, THREADS};
use libc::{clockid_t, pthread_mutexattr_t, timespec};

use super::mutex::{self, FREE, MARK_TIMED, Mutex};
use super::process::Served;
use super::record;
use super::sites;
use super::thread::Thread;
use super::wait::Deadline;
use super::{policy, real, start};

/// Serves the call, or has the real function do it.
#[inline]
fn served(mutex: &Mutex) -> Option<(Served, c_int)> {
    let served = start::enter()?;
    match mutex::classify(mutex.kind()) {
        Ok(kind) => Some((served, kind)),
        Err(_) => None,
    }
}

/// Counts an acquisition that the real function made.
fn fell_back(mutex: &Mutex, result: c_int) -> c_int {
    if let (Err(why), Some(served)) = (mutex::classify(mutex.kind()), start::enter())
        && (result == 0 || result == libc::EOWNERDEAD)
    {
        count_fallback(served, why);
    }
    result
}

pub fn count_fallback(served: Served, why: Fallback) {
    served.process.figures().fallbacks[why as usize].fetch_add(1, Ordering::Relaxed);
}

/// `pthread_mutex_lock` where the shortest path does not serve.
///
/// # Safety
/// `pointer` points to an initialised mutex, which outlives the call.
pub unsafe extern "C" fn lock_slow(pointer: *mut Mutex, site: usize) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let mutex = unsafe { &*pointer };
    let Some((served, kind)) = served(mutex) else {
        // SAFETY: the caller's promise.
        return fell_back(mutex, unsafe { real::mutex_lock(pointer) });
    };
    match relock(mutex, kind, served.thread) {
        Relock::Not => {}
        Relock::Done(result) => return result,
        Relock::Deadlock => return libc::EDEADLK,
    }
    if !mutex.try_acquire() {
        let waited = policy::lock(served, mutex, kind, None, site);
        debug_assert!(waited.is_ok(), "only a deadline ends a wait without the mutex");
    }
    acquired(served, mutex, kind, site);
    0
}

/// `pthread_mutex_trylock`.
///
/// # Safety
/// `pointer` points to an initialised mutex, which outlives the call.
pub unsafe extern "C" fn trylock(pointer: *mut Mutex, site: usize) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let mutex = unsafe { &*pointer };
    let Some((served, kind)) = served(mutex) else {
        // SAFETY: the caller's promise.
        return fell_back(mutex, unsafe { real::mutex_trylock(pointer) });
    };
    match relock(mutex, kind, served.thread) {
        Relock::Done(result) => return result,
        Relock::Not | Relock::Deadlock => {}
    }
    if !mutex.try_acquire() {
        return libc::EBUSY;
    }
    acquired(served, mutex, kind, site);
    0
}

/// `pthread_mutex_timedlock`.
///
/// # Safety
/// `pointer` points to an initialised mutex and `until` to a time; both outlive the call.
pub unsafe extern "C" fn timedlock(pointer: *mut Mutex, until: *const timespec, site: usize) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let mutex = unsafe { &*pointer };
    let Some((served, kind)) = served(mutex) else {
        // SAFETY: the caller's promise.
        return fell_back(mutex, unsafe { real::mutex_timedlock(pointer, until) });
    };
    // SAFETY: the caller's promise.
    unsafe { lock_until(served, mutex, kind, libc::CLOCK_REALTIME, until, site) }
}

/// `pthread_mutex_clocklock`.
///
/// # Safety
/// `pointer` points to an initialised mutex and `until` to a time; both outlive the call.
pub unsafe extern "C" fn clocklock(
    pointer: *mut Mutex,
    clock: clockid_t,
    until: *const timespec,
    site: usize,
) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let mutex = unsafe { &*pointer };
    let Some((served, kind)) = served(mutex) else {
        // SAFETY: the caller's promise.
        return fell_back(mutex, unsafe { real::mutex_clocklock(pointer, clock, until) });
    };
    if clock != libc::CLOCK_REALTIME && clock != libc::CLOCK_MONOTONIC {
        return libc::EINVAL;
    }
    // SAFETY: the caller's promise.
    unsafe { lock_until(served, mutex, kind, clock, until, site) }
}

/// # Safety
/// `until` points to a time, which is read only if the mutex is not free.
unsafe fn lock_until(
    served: Served,
    mutex: &Mutex,
    kind: c_int,
    clock: clockid_t,
    until: *const timespec,
    site: usize,
) -> c_int {
    match relock(mutex, kind, served.thread) {
        Relock::Not => {}
        Relock::Done(result) => return result,
        Relock::Deadlock => return libc::EDEADLK,
    }
    if !mutex.try_acquire() {
        // SAFETY: the caller's promise.
        let deadline = Deadline { clock, moment: unsafe { *until } };
        if let Err(error) = policy::lock(served, mutex, kind, Some(deadline), site) {
            return error;
        }
    }
    acquired(served, mutex, kind, site);
    0
}

/// `pthread_mutex_unlock` where the shortest path does not serve.
///
/// # Safety
/// `pointer` points to an initialised mutex, which outlives the call.
pub unsafe extern "C" fn unlock_slow(pointer: *mut Mutex, _site: usize) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let mutex = unsafe { &*pointer };
    let Some((served, kind)) = served(mutex) else {
        // SAFETY: the caller's promise.
        return unsafe { real::mutex_unlock(pointer) };
    };
    if kind == mutex::RECURSIVE || kind == mutex::ERRORCHECK {
        if mutex.owner.load(Ordering::Relaxed) != served.thread.tid.get() || mutex.word.load(Ordering::Relaxed) == FREE
        {
            return libc::EPERM;
        }
        if kind == mutex::RECURSIVE {
            let depth = mutex.count.load(Ordering::Relaxed).wrapping_sub(1);
            mutex.count.store(depth, Ordering::Relaxed);
            if depth != 0 {
                return 0;
            }
        }
    }
    hold_ends(served, mutex);
    mutex.owner.store(0, Ordering::Relaxed);
    let users = mutex.users.load(Ordering::Relaxed).wrapping_sub(1);
    mutex.users.store(users, Ordering::Relaxed);
    policy::release(served, mutex, kind)
}

/// Whether the calling thread has the mutex already, where that makes a difference.
enum Relock {
    Not,
    Done(c_int),
    Deadlock,
}

#[inline]
fn relock(mutex: &Mutex, kind: c_int, thread: &Thread) -> Relock {
    let matters = kind == mutex::RECURSIVE || kind == mutex::ERRORCHECK;
    if !matters || mutex.owner.load(Ordering::Relaxed) != thread.tid.get() {
        return Relock::Not;
    }
    if kind == mutex::ERRORCHECK {
        return Relock::Deadlock;
    }
    let depth = mutex.count.load(Ordering::Relaxed);
    if depth == u32::MAX {
        return Relock::Done(libc::EAGAIN);
    }
    mutex.count.store(depth + 1, Ordering::Relaxed);
    Relock::Done(0)
}

/// What follows every acquisition but the shortest.
fn acquired(served: Served, mutex: &Mutex, kind: c_int, site: usize) {
    if kind == mutex::RECURSIVE {
        mutex.count.store(1, Ordering::Relaxed);
    }
    mutex.owner.store(served.thread.tid.get(), Ordering::Relaxed);
    mutex.users.store(mutex.users.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    counted(served, mutex, site);
}

/// Counts an acquisition, and looks at the figures when it is time.
pub fn counted(served: Served, mutex: &Mutex, site: usize) {
    if let Some(slot) = served.thread.figures() {
        served.thread.add(&slot.acquisitions, 1);
        if served.thread.shares_slot.get() {
            served.process.figures().threads_len.fetch_max(THREADS as u32, Ordering::Relaxed);
        }
    }
    let before = mutex.tally.load(Ordering::Relaxed);
    mutex.tally.store(before.wrapping_add(1), Ordering::Relaxed);
    if before & served.process.between_ticks() == 0 || served.process.times_all() {
        tick(served, mutex, before, site);
    }
}

/// An acquisition by the shortest path, every sixteenth.
///
/// # Safety
/// `pointer` points to an initialised mutex that the calling thread holds.
pub unsafe extern "C" fn lock_tick(pointer: *mut Mutex, site: usize) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let mutex = unsafe { &*pointer };
    if let Some(served) = start::enter() {
        let before = mutex.tally.load(Ordering::Relaxed).wrapping_sub(1);
        tick(served, mutex, before, site);
    }
    0
}

fn tick(served: Served, mutex: &Mutex, before: u16, site: usize) {
    let process = served.process;
    let between = process.between_ticks();
    if before == u16::MAX - between {
        // The next tick would be at 0, as that of a mutex that was never acquired.
        mutex.tally.store(between + 2, Ordering::Relaxed);
    }
    let had = mutex.record.load(Ordering::Relaxed) != 0;
    if !had && !process.records_all() {
        return;
    }
    let Some(record) = record::of(process, mutex, site) else { return };
    if before & between == 0 && had && before != 0 {
        record.add_acquisitions(u64::from(between) + 1);
    }
    record.seen(served.thread);
    if process.times_holds() && record.times_hold() {
        mutex.marks.store(MARK_TIMED, Ordering::Relaxed);
    }
}

/// Ends the hold that runs, if it is timed.
pub fn hold_ends(served: Served, mutex: &Mutex) {
    if mutex.marks.load(Ordering::Relaxed) & MARK_TIMED == 0 {
        return;
    }
    mutex.marks.store(0, Ordering::Relaxed);
    if let Some(record) = record::existing(served.process, mutex) {
        record.hold_ended();
    }
}

/// `pthread_mutex_init`.
///
/// # Safety
/// `pointer` points to memory for a mutex, which no thread uses yet; `attributes` is null or points to initialised
/// attributes.
pub unsafe extern "C" fn init(pointer: *mut Mutex, attributes: *const pthread_mutexattr_t, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { initialise(pointer, site, || real::mutex_init(pointer, attributes)) }
}

/// Has the real function initialise a mutex, and notes where that was.
///
/// # Safety
/// `pointer` points to memory for a mutex, which `real` initialises if it returns 0.
pub unsafe fn initialise(pointer: *mut Mutex, site: usize, real: impl FnOnce() -> c_int) -> c_int {
    let served = start::enter();
    let before = served.and_then(|served| {
        // SAFETY: the caller's promise; what the bytes were is checked before it is believed.
        let mutex = unsafe { &*pointer };
        record::of_predecessor(served.process, mutex, site)
    });
    let result = real();
    // SAFETY: the caller's promise; all fields are atomic.
    let mutex = unsafe { &*pointer };
    if result == 0 && served.is_some() && mutex::classify(mutex.kind()).is_ok() {
        mutex.init.store(sites::number(site), Ordering::Relaxed);
        mutex.record.store(before.unwrap_or(0), Ordering::Relaxed);
    }
    result
}

/// `pthread_mutex_destroy`.
///
/// # Safety
/// `pointer` points to an initialised mutex that no other thread uses meanwhile, and none after a result of 0.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn pthread_mutex_destroy(pointer: *mut Mutex) -> c_int {
    // SAFETY: the caller's promise.
    let mutex = unsafe { &*pointer };
    let served = served(mutex);
    // SAFETY: the caller's promise.
    let result = unsafe { real::mutex_destroy(pointer) };
    if let (0, Some((served, _))) = (result, served) {
        record::settle(served.process, mutex);
    }
    result
}
