//! A command whose parent lives on to report: signals that reach the parent are the command's.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Instant;

use super::child::{code, process_use, reap};
use super::schedule::take_in_child;
use crate::conditions::Conditions;
use crate::ended::Finished;

/// The signals that people and supervisors send to end, reload or ask a program.
const FORWARDED: [libc::c_int; 6] =
    [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2];

/// The command that runs; 0 when none does.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal that came before there was a command.
static EARLY: AtomicI32 = AtomicI32::new(0);

/// Runs it to its end, under the conditions that there are.
pub fn time(command: &mut Command) -> io::Result<Finished> {
    forward(command, &Conditions::default())
}

/// Runs it to its end.
pub fn forward(command: &mut Command, conditions: &Conditions) -> io::Result<Finished> {
    if *conditions != Conditions::default() {
        let conditions = conditions.clone();
        // SAFETY: the closure makes system calls on plain numbers and on memory that was allocated before the fork; it
        // neither allocates nor takes a lock, and an error that it returns is a number.
        unsafe { command.pre_exec(move || take_in_child(&conditions)) };
    }
    let _handlers = Handlers::install()?;
    let start = Instant::now();
    let child = command.spawn()?;
    let pid = child.id() as libc::pid_t;
    CHILD.store(pid, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 {
        // SAFETY: the process is a child that was not waited for yet, so that the number is its.
        unsafe { libc::kill(pid, early) };
    }
    let ended = wait(pid);
    CHILD.store(0, Ordering::SeqCst);
    let (status, usage) = ended?;
    Ok(Finished { code: code(status), process: process_use(start, &usage) })
}

/// Waits until the child is a zombie, so that no signal goes to a number that the kernel may have given away; then
/// reaps it.
fn wait(pid: libc::pid_t) -> io::Result<(std::process::ExitStatus, libc::rusage)> {
    loop {
        // SAFETY: an all-zero siginfo is valid, and waitid fills the one it is given.
        let done = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, pid as libc::id_t, &raw mut info, libc::WEXITED | libc::WNOWAIT)
        };
        let why = io::Error::last_os_error();
        if done == 0 {
            break;
        }
        if why.kind() != io::ErrorKind::Interrupted {
            return Err(why);
        }
    }
    CHILD.store(0, Ordering::SeqCst);
    reap(pid as u32)
}

/// What a signal does while it lives; the actions before it are put back when it goes.
struct Handlers([libc::sigaction; FORWARDED.len()]);

impl Handlers {
    fn install() -> io::Result<Handlers> {
        // SAFETY: all-zero actions are valid.
        let (mut before, mut action): ([libc::sigaction; FORWARDED.len()], libc::sigaction) =
            unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
        action.sa_sigaction = on_signal as *const () as libc::sighandler_t;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
        for (signal, before) in FORWARDED.iter().zip(&mut before) {
            // SAFETY: both actions live; the handler only does what is allowed in one.
            if unsafe { libc::sigaction(*signal, &raw const action, before) } != 0 {
                return Err(io::Error::last_os_error());
            }
            if before.sa_sigaction == libc::SIG_IGN {
                // Under nohup the command must not see it either.
                // SAFETY: as above.
                unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
            }
        }
        Ok(Handlers(before))
    }
}

impl Drop for Handlers {
    fn drop(&mut self) {
        for (signal, before) in FORWARDED.iter().zip(&self.0) {
            // SAFETY: the action is the one that was there before.
            unsafe { libc::sigaction(*signal, before, std::ptr::null_mut()) };
        }
    }
}

/// Passes a signal on. One that the kernel sent (Ctrl-C and the like) went to the whole group of the terminal: the
/// command has it.
extern "C" fn on_signal(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a handler with SA_SIGINFO a valid info.
    let by_kernel = unsafe { !info.is_null() && (*info).si_code == libc::SI_KERNEL };
    let child = CHILD.load(Ordering::SeqCst);
    if child == 0 {
        EARLY.store(signal, Ordering::SeqCst);
    } else if !by_kernel {
        // SAFETY: the child was not reaped, see `wait`; kill is allowed in a handler. It may change errno, which is put
        // back.
        unsafe {
            let errno = *libc::__errno_location();
            libc::kill(child, signal);
            *libc::__errno_location() = errno;
        }
    }
}
