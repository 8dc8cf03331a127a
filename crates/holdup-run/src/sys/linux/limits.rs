//! What the limits of this process do to it.

use std::ptr::null_mut;

/// A write beyond the limit of file size (`ulimit -f`) fails from now on, as one to a full disk does, where it ended
/// the process without a word. Programs that it starts are still ended: a handler, unlike a signal that is ignored, is
/// not theirs.
pub fn outlive_file_limit() {
    extern "C" fn go_on(_: libc::c_int) {}
    // SAFETY: all-zero actions are valid; both live through the calls, and the handler does nothing.
    unsafe {
        let mut before: libc::sigaction = std::mem::zeroed();
        let known = libc::sigaction(libc::SIGXFSZ, std::ptr::null(), &raw mut before) == 0;
        if known && before.sa_sigaction == libc::SIG_DFL {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = go_on as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_RESTART;
            // If it cannot be had, the limit does what it always did.
            libc::sigaction(libc::SIGXFSZ, &raw const action, null_mut());
        }
    }
}
