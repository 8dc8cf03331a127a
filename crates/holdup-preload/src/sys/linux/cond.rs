//! Condition variables: the real functions, which release and take the mutex inside glibc, with the figures kept right
//! on both sides. They are cancellation points: the thread may leave them by unwinding, and then holds the mutex too.

use std::ffi::{c_int, c_void};

use libc::{clockid_t, pthread_cond_t, timespec};

use super::hooks;
use super::mutex::{self, Mutex};
use super::process::Served;
use super::{real, start};

/// The mutex is in glibc's hands while this lives.
struct Lent<'a> {
    served: Served,
    mutex: &'a Mutex,
    owner_kept: bool,
}

impl<'a> Lent<'a> {
    fn new(mutex: &'a Mutex) -> Option<Self> {
        mutex::classify(mutex.kind()).ok()?;
        let served = start::enter()?;
        hooks::hold_ends(served, mutex);
        Some(Lent { served, mutex, owner_kept: false })
    }

    /// The call failed before it released the mutex: no new acquisition.
    fn kept(mut self) {
        self.owner_kept = true;
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if !self.owner_kept {
            hooks::counted(self.served, self.mutex, 0);
        }
    }
}

fn finish(lent: Option<Lent>, result: c_int) -> c_int {
    if let Some(lent) = lent
        && (result == libc::EINVAL || result == libc::EPERM)
    {
        lent.kept();
    }
    result
}

/// `cnd_wait`.
///
/// # Safety
/// `cond` and `mutex` point to an initialised condition variable and mutex, which outlive the call; the calling thread
/// holds the mutex.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cnd_wait(cond: *mut c_void, mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let _lent = Lent::new(unsafe { &*mutex });
    // SAFETY: the caller's promise.
    unsafe { real::cnd_wait(cond, mutex) }
}

/// `cnd_timedwait`.
///
/// # Safety
/// `cond` and `mutex` point to an initialised condition variable and mutex, `until` to a time; all outlive the call,
/// and the calling thread holds the mutex.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn cnd_timedwait(cond: *mut c_void, mutex: *mut Mutex, until: *const timespec) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let _lent = Lent::new(unsafe { &*mutex });
    // SAFETY: the caller's promise.
    unsafe { real::cnd_timedwait(cond, mutex, until) }
}

/// `pthread_cond_wait`.
///
/// # Safety
/// `cond` and `mutex` point to an initialised condition variable and mutex, which outlive the call; the calling thread
/// holds the mutex.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cond_wait(cond: *mut pthread_cond_t, mutex: *mut Mutex) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let lent = Lent::new(unsafe { &*mutex });
    // SAFETY: the caller's promise.
    let result = unsafe { real::cond_wait(cond, mutex) };
    finish(lent, result)
}

/// `pthread_cond_timedwait`.
///
/// # Safety
/// `cond` and `mutex` point to an initialised condition variable and mutex, `until` to a time; all outlive the call,
/// and the calling thread holds the mutex.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cond_timedwait(
    cond: *mut pthread_cond_t,
    mutex: *mut Mutex,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let lent = Lent::new(unsafe { &*mutex });
    // SAFETY: the caller's promise.
    let result = unsafe { real::cond_timedwait(cond, mutex, until) };
    finish(lent, result)
}

/// `pthread_cond_clockwait`.
///
/// # Safety
/// `cond` and `mutex` point to an initialised condition variable and mutex, `until` to a time; all outlive the call,
/// and the calling thread holds the mutex.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn pthread_cond_clockwait(
    cond: *mut pthread_cond_t,
    mutex: *mut Mutex,
    clock: clockid_t,
    until: *const timespec,
) -> c_int {
    // SAFETY: the caller's promise; all fields are atomic.
    let lent = Lent::new(unsafe { &*mutex });
    // SAFETY: the caller's promise.
    let result = unsafe { real::cond_clockwait(cond, mutex, clock, until) };
    finish(lent, result)
}
