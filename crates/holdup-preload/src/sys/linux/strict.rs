//! Programs that forbid themselves all calls but to read, to write and to end a thread (seccomp's strict mode). The
//! kernel kills for any other, and for reading the processor's counter and so any clock; asking whether it would is a
//! call, so it is noted when they do it.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use super::real;

/// No order is needed: the thread that ends the process is the one that it matters to.
static ON: AtomicBool = AtomicBool::new(false);

/// Whether a thread of the process is in that mode.
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// `prctl`.
///
/// # Safety
/// The arguments are as the function of that name requires.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    // Before it is so: afterwards there may be no more code of ours in between.
    if option == libc::PR_SET_SECCOMP && a == libc::SECCOMP_MODE_STRICT as usize {
        ON.store(true, Ordering::Relaxed);
    }
    // SAFETY: the caller's promise.
    unsafe { real::prctl(option, a, b, c, d) }
}
