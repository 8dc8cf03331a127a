//! Programs under other conditions, which the child sets for itself between fork and exec.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{SchedAttr, Stream, bind_thread, check, kill_group, process_use, reap, set_slice, thread_nice};
use crate::launch::{Conditions, Outcome};

pub use super::command::code;

/// How long a stop or a deadline may go unseen.
const GLANCE: Duration = Duration::from_millis(50);

/// A program in a group of its own.
#[derive(Debug)]
pub struct Started {
    child: Child,
    pidfd: OwnedFd,
    began: Instant,
    out: Stream,
    err: Stream,
    ended_at: Option<Instant>,
    reaped: bool,
}

/// Tries the conditions on the calling thread, which is not good for anything else afterwards.
pub fn try_on_thread(conditions: &Conditions) -> Result<(), String> {
    let not_so = |what: &str, why: io::Error| format!("{what}: {why}");
    if let Some(cpus) = &conditions.cpus {
        bind_thread(cpus).map_err(|why| not_so("sched_setaffinity", why))?;
    }
    if let Some(slice_ns) = conditions.slice_ns {
        set_slice(slice_ns)?;
    }
    if conditions.batch {
        schedule(conditions).map_err(|why| not_so("sched_setattr", why))?;
    }
    Ok(())
}

/// Starts it.
pub fn start(command: &mut Command, conditions: &Conditions) -> io::Result<Started> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let conditions = conditions.clone();
    let parent = std::process::id();
    // SAFETY: the closure makes system calls on plain numbers and on memory that was allocated before the fork; it neither
    // allocates nor takes a lock, and an error that it returns is a number.
    unsafe { command.pre_exec(move || apply(&conditions, parent)) };
    let began = Instant::now();
    let mut child = command.spawn()?;
    let (out, err) = (Stream::new(child.stdout.take()), Stream::new(child.stderr.take()));
    let pid = child.id() as libc::pid_t;
    // SAFETY: takes plain numbers; the result is checked before it becomes an owned descriptor.
    let pidfd = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        match check(fd) {
            Ok(()) => OwnedFd::from_raw_fd(fd),
            Err(why) => {
                kill_group(pid);
                reap(pid)?;
                return Err(why);
            }
        }
    };
    Ok(Started { child, pidfd, began, out, err, ended_at: None, reaped: false })
}

/// What the child does to itself.
fn apply(conditions: &Conditions, parent: u32) -> io::Result<()> {
    if !super::die_with_parent(Some(parent)) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    take(conditions)
}

/// Puts the calling process, a child before its exec, under the conditions; makes system calls on plain numbers alone.
pub(super) fn take(conditions: &Conditions) -> io::Result<()> {
    if let Some(cpus) = &conditions.cpus {
        bind_thread(cpus)?;
    }
    schedule(conditions)
}

/// Sets slice and policy in one call, since each call sets both.
fn schedule(conditions: &Conditions) -> io::Result<()> {
    if conditions.slice_ns.is_none() && !conditions.batch {
        return Ok(());
    }
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        policy: if conditions.batch { libc::SCHED_BATCH as u32 } else { libc::SCHED_OTHER as u32 },
        nice: thread_nice(),
        runtime_ns: conditions.slice_ns.unwrap_or(0),
        ..SchedAttr::default()
    };
    // SAFETY: the structure is as large as its size field says and lives through the call, which only reads it.
    check(unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) } as libc::c_int)
}

impl Started {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn wait(&mut self, deadline: Instant, stop: &AtomicBool) -> io::Result<bool> {
        while self.ended_at.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            self.look(left.min(GLANCE))?;
        }
        Ok(true)
    }

    /// Waits for output or the end, but not for long.
    fn look(&mut self, longest: Duration) -> io::Result<()> {
        let mut fds = [self.pidfd.as_raw_fd(), self.out.fd(), self.err.fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let wait_ms = longest.as_millis().max(1) as i32;
        // SAFETY: the array lives through the call, which writes only its `revents`.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, wait_ms) };
        if ready < 0 {
            let why = io::Error::last_os_error();
            return if why.kind() == io::ErrorKind::Interrupted { Ok(()) } else { Err(why) };
        }
        if fds[0].revents != 0 {
            self.ended_at = Some(Instant::now());
        }
        if fds[1].revents != 0 {
            self.out.read();
        }
        if fds[2].revents != 0 {
            self.err.read();
        }
        Ok(())
    }

    pub fn output(&self) -> (String, String) {
        (self.out.text(), self.err.text())
    }

    pub fn terminate(&self) {
        // SAFETY: takes plain numbers; the child is not reaped, so its number and its group's are taken.
        unsafe { libc::kill(-(self.child.id() as libc::pid_t), libc::SIGTERM) };
    }

    pub fn finish(mut self) -> io::Result<Outcome> {
        let (status, usage) = self.end()?;
        self.out.drain();
        self.err.drain();
        let mut process = process_use(self.began, &usage);
        let ended_at = self.ended_at.unwrap_or_else(Instant::now);
        process.elapsed_ns = ended_at.duration_since(self.began).as_nanos() as u64;
        Ok(Outcome {
            status,
            stdout: self.out.text(),
            stderr: self.err.text(),
            stdout_hash: self.out.hash(),
            process,
        })
    }

    /// Nothing of the group outlives this; until the child is reaped its number means nobody else.
    fn end(&mut self) -> io::Result<(ExitStatus, libc::rusage)> {
        let pid = self.child.id() as libc::pid_t;
        kill_group(pid);
        self.reaped = true;
        reap(pid)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if !self.reaped {
            // A failure to reap leaves a zombie until we end; nobody can do more about it.
            let _ = self.end();
        }
    }
}
