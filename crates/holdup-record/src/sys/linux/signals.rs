//! SIGTERM and SIGHUP end a recording as Ctrl-C does: its file is whole, and a command that was started gets the signal
//! too.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use super::target::Process;

/// What supervisors send, and what a terminal that goes away does.
const SIGNALS: [(i32, &str); 2] = [(libc::SIGTERM, "SIGTERM"), (libc::SIGHUP, "SIGHUP")];

static STOP: OnceLock<&'static AtomicBool> = OnceLock::new();
/// The first that came; 0 before.
static HEARD: AtomicI32 = AtomicI32::new(0);
/// What the command has not got yet; 0 for nothing.
static TO_PASS_ON: AtomicI32 = AtomicI32::new(0);
/// How often a flight recorder was asked to write and has not heard it yet.
static REQUESTS: AtomicU32 = AtomicU32::new(0);
/// How often a service was asked to read its settings again and has not heard it yet.
static RELOADS: AtomicU32 = AtomicU32::new(0);

/// From now on these signals set `stop` (the first that is given here), but for those that are ignored, as SIGHUP is
/// under nohup.
pub fn listen(stop: &'static AtomicBool) {
    if STOP.set(stop).is_err() {
        return;
    }
    for (signal, _) in SIGNALS {
        // SAFETY: all-zero actions are valid and live as long as the calls; the handler only does what is allowed in
        // one.
        unsafe {
            let (mut before, mut action): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
            action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            if libc::sigaction(signal, std::ptr::null(), &raw mut before) == 0 && before.sa_sigaction != libc::SIG_IGN {
                libc::sigaction(signal, &raw const action, std::ptr::null_mut());
            }
        }
    }
}

/// From now on SIGUSR2 asks a flight recorder to write what it has.
pub fn heed_requests() {
    handle(libc::SIGUSR2, on_request);
}

/// How often it came since the last call.
pub fn requests() -> u32 {
    REQUESTS.swap(0, Ordering::Relaxed)
}

/// From now on SIGHUP asks a service to read its settings again.
pub fn heed_reloads() {
    handle(libc::SIGHUP, on_reload);
}

/// How often it came since the last call.
pub fn reloads() -> u32 {
    RELOADS.swap(0, Ordering::Relaxed)
}

fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int)) {
    // SAFETY: all-zero actions are valid and live as long as the call; the handlers only add to a number.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(signal, &raw const action, std::ptr::null_mut());
    }
}

extern "C" fn on_request(_: libc::c_int) {
    REQUESTS.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn on_reload(_: libc::c_int) {
    RELOADS.fetch_add(1, Ordering::Relaxed);
}

/// The signal that ended the recording: number and name.
pub fn heard() -> Option<(i32, &'static str)> {
    let heard = HEARD.load(Ordering::Relaxed);
    SIGNALS.into_iter().find(|(signal, _)| *signal == heard)
}

/// Sends what came to a command that was started, once.
pub fn pass_on(process: &Process) {
    match TO_PASS_ON.swap(0, Ordering::Relaxed) {
        signal if signal != 0 && process.is_child() => process.send(signal),
        _ => {}
    }
}

extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid info.
    let by_kernel = unsafe { !info.is_null() && (*info).si_code == libc::SI_KERNEL };
    if HEARD.load(Ordering::Relaxed) == 0 {
        HEARD.store(signal, Ordering::Relaxed);
        // What the kernel sends, as a terminal goes away, it sends to the whole group.
        TO_PASS_ON.store(if by_kernel { 0 } else { signal }, Ordering::Relaxed);
    }
    if let Some(stop) = STOP.get() {
        stop.store(true, Ordering::Relaxed);
    }
}
