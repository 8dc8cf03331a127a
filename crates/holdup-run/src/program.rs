//! A program: started under other conditions, watched, and ended with all that it started.

use std::io;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::conditions::Conditions;
use crate::ended::{Finished, Outcome};
use crate::sys;

/// Whether this machine and user can have these conditions; they are tried on a thread of our own.
///
/// # Errors
/// A sentence says why not.
pub fn check(conditions: &Conditions) -> Result<(), String> {
    let conditions = conditions.clone();
    let tried = std::thread::spawn(move || sys::take(&conditions)).join();
    tried.unwrap_or_else(|_| Err("the thread that tried them panicked".to_owned()))
}

/// Takes them for the calling thread, and so for the children that it starts.
///
/// # Errors
/// A sentence says why they cannot be had.
pub fn take(conditions: &Conditions) -> Result<(), String> {
    sys::take(conditions)
}

/// The CPUs that this process may use, in order.
pub fn allowed_cpus() -> Vec<u32> {
    sys::allowed_cpus()
}

/// A write beyond the limit of file size (`ulimit -f`) is an error of ours from now on, and ends no process but those
/// that we start.
pub fn outlive_file_limit() {
    sys::outlive_file_limit();
}

/// Works on a thread with a stack of its own where the first thread's may not grow as large (`ulimit -s`).
pub fn with_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    /// What Linux allows by default.
    const BYTES: usize = 8 << 20;
    if !sys::has_less_stack(BYTES as u64) {
        return work();
    }
    // Where not even one thread can be had, it is tried on this one.
    let mut work = Some(work);
    let done = std::thread::scope(|scope| {
        let on_its_own = || work.take().map(|work| work());
        let thread = std::thread::Builder::new().stack_size(BYTES).spawn_scoped(scope, on_its_own);
        thread.ok().and_then(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    done.or_else(|| work.map(|work| work())).expect("it has worked once")
}

/// Where a process or thread could not be started because there are too many: the limit, and the command that lifts it.
pub fn no_more_processes(why: &io::Error) -> Option<String> {
    sys::no_more_processes(why)
}

/// This program again, in another role.
#[derive(Clone, Debug)]
pub struct OwnProgram {
    /// The executable.
    pub exe: PathBuf,
    /// The arguments that say which role.
    pub args: Vec<String>,
}

impl OwnProgram {
    /// The command that starts it, to which the role's own arguments are still to be added.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.exe);
        // Its last line is kept as the reason of its end; a backtrace would push the reason out.
        command.args(&self.args).env("RUST_BACKTRACE", "0");
        command
    }
}

/// A program that was started, in a process group of its own. Dropping it kills the group.
#[derive(Debug)]
pub struct Started(sys::Started);

impl Started {
    /// Starts it; its stdin is what the command says, its output is kept. It dies with the thread that starts it.
    ///
    /// # Errors
    /// It cannot be started, or not under these conditions.
    pub fn new(command: &mut Command, conditions: &Conditions) -> io::Result<Started> {
        sys::Started::new(command, conditions).map(Started)
    }

    /// Its process number.
    pub fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Collects its output until it has ended (true), or until the deadline or a stop (false).
    ///
    /// # Errors
    /// It cannot be watched.
    pub fn wait(&mut self, deadline: Instant, stop: &AtomicBool) -> io::Result<bool> {
        self.0.wait(deadline, Some(stop))
    }

    /// What it wrote so far, stdout before stderr: the last mebibyte of each.
    pub fn output(&self) -> (String, String) {
        self.0.output()
    }

    /// Asks its group to end (SIGTERM).
    pub fn terminate(&self) {
        self.0.terminate();
    }

    /// Kills what is left of its group, and tells how it ended.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn finish(self) -> io::Result<Outcome> {
        self.0.finish()
    }
}

/// How long a start waits before it is tried again, where the system refused it for a reason that passes.
const PAUSES_MS: [u64; 4] = [20, 100, 500, 2_000];

/// Tries again what the system refuses for want of something that may be there soon: of hours of runs, none is to be
/// lost because one start met a full process table.
fn patiently<T>(mut start: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    for pause_ms in PAUSES_MS {
        match start() {
            Err(why) if sys::may_pass(&why) => std::thread::sleep(Duration::from_millis(pause_ms)),
            result => return result,
        }
    }
    start()
}

/// Runs a program without input until it ends, or until its time is up; then it is killed. Says how it ended, and
/// whether in time. Nobody wakes while it runs and writes nothing. A start that the system refuses for want of memory
/// or processes is tried again, for 3 s.
///
/// # Errors
/// It cannot be started or watched.
pub fn run_for(command: &mut Command, limit: Duration) -> io::Result<(Outcome, bool)> {
    command.stdin(Stdio::null());
    let mut started = patiently(|| sys::Started::new(command, &Conditions::default()))?;
    let in_time = started.wait(Instant::now() + limit, None)?;
    Ok((started.finish()?, in_time))
}

/// Runs a command to its end; it keeps the standard streams and the terminal. On Linux, signals that end a program go
/// to it, as with [`forward`].
///
/// # Errors
/// It could not be started, or the system cannot tell what it used.
pub fn time(command: &mut Command) -> io::Result<Finished> {
    sys::time(command)
}

/// As [`time`], under other conditions; meanwhile the signals that end, reload or ask a program go to the command, and
/// this process lives on. Only for one command at a time.
///
/// # Errors
/// It could not be started, or not under these conditions, or the system cannot tell what it used.
pub fn forward(command: &mut Command, conditions: &Conditions) -> io::Result<Finished> {
    sys::forward(command, conditions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tries(why: io::ErrorKind, refusals: usize) -> (io::Result<&'static str>, usize) {
        let mut calls = 0;
        let result = patiently(|| {
            calls += 1;
            if calls > refusals { Ok("started") } else { Err(io::Error::from(why)) }
        });
        (result, calls)
    }

    #[test]
    fn a_start_refused_for_want_of_memory_is_tried_again_and_no_other() {
        let (result, calls) = tries(io::ErrorKind::OutOfMemory, 2);
        assert_eq!((result.unwrap(), calls), ("started", 3));
        let (result, calls) = tries(io::ErrorKind::NotFound, 2);
        assert_eq!((result.unwrap_err().kind(), calls), (io::ErrorKind::NotFound, 1));
        let (result, calls) = tries(io::ErrorKind::OutOfMemory, usize::MAX);
        assert_eq!((result.unwrap_err().kind(), calls), (io::ErrorKind::OutOfMemory, PAUSES_MS.len() + 1));
    }
}
