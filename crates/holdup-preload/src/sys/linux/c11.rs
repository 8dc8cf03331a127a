//! The mutexes of C11, which are pthread mutexes with other names for the results.

use std::ffi::c_int;

use libc::timespec;

use super::hooks;
use super::mutex::Mutex;
use super::{real, record, start};

/// The results, as glibc's `threads.h` numbers them.
const SUCCESS: c_int = 0;
const BUSY: c_int = 1;
const ERROR: c_int = 2;
const NO_MEMORY: c_int = 3;
const TIMED_OUT: c_int = 4;

fn result(error: c_int) -> c_int {
    match error {
        0 => SUCCESS,
        libc::EBUSY => BUSY,
        libc::ENOMEM => NO_MEMORY,
        libc::ETIMEDOUT => TIMED_OUT,
        _ => ERROR,
    }
}

/// `mtx_init`.
///
/// # Safety
/// `pointer` points to memory for a mutex, which no thread uses yet.
pub unsafe extern "C" fn init(pointer: *mut Mutex, kind: c_int, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { hooks::initialise(pointer, site, || real::mtx_init(pointer, kind)) }
}

/// `mtx_destroy`.
///
/// # Safety
/// `pointer` points to an initialised mutex that no thread holds, waits for or uses again.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mtx_destroy(pointer: *mut Mutex) {
    if let Some(served) = start::enter() {
        // SAFETY: the caller's promise; all fields are atomic.
        record::settle(served.process, unsafe { &*pointer });
    }
    // SAFETY: the caller's promise.
    unsafe { real::mtx_destroy(pointer) };
}

/// `mtx_lock`.
///
/// # Safety
/// `pointer` points to an initialised mutex, which outlives the call.
pub unsafe extern "C" fn lock(pointer: *mut Mutex, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    result(unsafe { hooks::lock_slow(pointer, site) })
}

/// `mtx_trylock`.
///
/// # Safety
/// `pointer` points to an initialised mutex, which outlives the call.
pub unsafe extern "C" fn trylock(pointer: *mut Mutex, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    result(unsafe { hooks::trylock(pointer, site) })
}

/// `mtx_timedlock`.
///
/// # Safety
/// `pointer` points to an initialised mutex and `until` to a time; both outlive the call.
pub unsafe extern "C" fn timedlock(pointer: *mut Mutex, until: *const timespec, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    result(unsafe { hooks::timedlock(pointer, until, site) })
}

/// `mtx_unlock`.
///
/// # Safety
/// `pointer` points to an initialised mutex, which outlives the call. The calling thread holds it.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn mtx_unlock(pointer: *mut Mutex) -> c_int {
    // SAFETY: the caller's promise.
    result(unsafe { hooks::unlock_slow(pointer, 0) })
}
