//! Programs in a process group of their own, under conditions which the child sets for itself between fork and exec.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::child::{code, process_use, reap, signal_name};
use super::schedule::take_in_child;
use crate::conditions::Conditions;
use crate::ended::Outcome;
use crate::sys::kept::Kept;

/// How long a stop may go unseen.
const GLANCE: Duration = Duration::from_millis(50);

/// A program in a group of its own. Dropping it kills the group.
#[derive(Debug)]
pub struct Started {
    child: Child,
    /// Readable when the child has ended; `None` before it is opened.
    pidfd: Option<OwnedFd>,
    began: Instant,
    out: Stream,
    err: Stream,
    ended_at: Option<Instant>,
    reaped: bool,
}

/// What the child does to itself.
fn prepare(conditions: &Conditions, parent: u32) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    if rustix::process::getppid().is_none_or(|now| now.as_raw_pid() as u32 != parent) {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    take_in_child(conditions)
}

impl Started {
    pub fn new(command: &mut Command, conditions: &Conditions) -> io::Result<Started> {
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let conditions = conditions.clone();
        let parent = std::process::id();
        // SAFETY: the closure makes system calls on plain numbers and on memory that was allocated before the fork; it
        // neither allocates nor takes a lock, and an error that it returns is a number.
        unsafe { command.pre_exec(move || prepare(&conditions, parent)) };
        let began = Instant::now();
        let mut child = command.spawn()?;
        let (out, err) = (Stream::new(child.stdout.take()), Stream::new(child.stderr.take()));
        let mut started = Started { child, pidfd: None, began, out, err, ended_at: None, reaped: false };
        started.pidfd = Some(pidfd_open(started.number()?, PidfdFlags::empty())?);
        Ok(started)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    fn number(&self) -> io::Result<Pid> {
        Pid::from_raw(self.child.id() as i32).ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))
    }

    /// Without anybody who could stop it, it sleeps through.
    pub fn wait(&mut self, deadline: Instant, stop: Option<&AtomicBool>) -> io::Result<bool> {
        while self.ended_at.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || stop.is_some_and(|stop| stop.load(Ordering::Relaxed)) {
                return Ok(false);
            }
            self.look(if stop.is_some() { left.min(GLANCE) } else { left })?;
        }
        Ok(true)
    }

    /// Waits for output or the end, but no longer.
    fn look(&mut self, longest: Duration) -> io::Result<()> {
        let ended = self.pidfd.as_ref().map_or(-1, |fd| fd.as_raw_fd());
        let mut fds =
            [ended, self.out.fd(), self.err.fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        let wait_ms = longest.as_millis().clamp(1, 1 << 20) as i32;
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
        (self.out.kept.text(), self.err.kept.text())
    }

    pub fn terminate(&self) {
        self.signal_group(Signal::TERM);
    }

    /// The child is not reaped, so its number and its group's are taken.
    fn signal_group(&self, signal: Signal) {
        if let Ok(group) = self.number() {
            // A group without members has ended.
            let _ = kill_process_group(group, signal);
        }
    }

    pub fn finish(mut self) -> io::Result<Outcome> {
        let (status, usage) = self.end()?;
        self.out.drain();
        self.err.drain();
        let mut process = process_use(self.began, &usage);
        let ended_at = self.ended_at.unwrap_or_else(Instant::now);
        process.elapsed_ns = ended_at.duration_since(self.began).as_nanos() as u64;
        let (stdout, stderr) = self.output();
        Ok(Outcome {
            status,
            code: code(status),
            signal: signal_name(status),
            stdout,
            stderr,
            stdout_hash: self.out.kept.hash(),
            process,
        })
    }

    /// Nothing of the group outlives this; until the child is reaped its number means nobody else.
    fn end(&mut self) -> io::Result<(ExitStatus, libc::rusage)> {
        self.signal_group(Signal::KILL);
        self.reaped = true;
        reap(self.child.id())
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

/// One of a child's output streams, kept up to a limit.
#[derive(Debug)]
struct Stream {
    pipe: Option<File>,
    kept: Kept,
}

impl Stream {
    fn new(pipe: Option<impl Into<OwnedFd>>) -> Stream {
        Stream { pipe: pipe.map(|pipe| File::from(pipe.into())), kept: Kept::new() }
    }

    /// Negative, which poll ignores, after the end.
    fn fd(&self) -> i32 {
        self.pipe.as_ref().map_or(-1, |pipe| pipe.as_raw_fd())
    }

    fn read(&mut self) {
        let mut buffer = [0; 16_384];
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(count) => self.kept.append(&buffer[..count]),
        }
    }

    /// Reads what is left without waiting for more.
    fn drain(&mut self) {
        if let Some(pipe) = &self.pipe {
            // One that still blocks ends when whoever else writes to it does.
            let _ = fcntl_setfl(pipe, OFlags::NONBLOCK);
        }
        while self.pipe.is_some() {
            self.read();
        }
    }
}
