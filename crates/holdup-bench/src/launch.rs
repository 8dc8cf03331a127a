//! A program of the user's, started under other conditions, watched, and ended with all that it started.

use std::io;
use std::process::{Command, ExitStatus};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::process::ProcessUse;
use crate::sys;

/// Under what conditions a program runs; by default those of whoever starts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// On these CPUs only.
    pub cpus: Option<Vec<u32>>,
    /// With this time slice, in nanoseconds (Linux 6.12 and later).
    pub slice_ns: Option<u64>,
    /// With the scheduler's batch policy.
    pub batch: bool,
}

impl Conditions {
    /// Whether this machine and user can have them; they are tried on a thread of our own.
    ///
    /// # Errors
    /// A sentence says why not.
    pub fn check(&self) -> Result<(), String> {
        let conditions = self.clone();
        let tried = std::thread::spawn(move || sys::launch::try_on_thread(&conditions)).join();
        tried.unwrap_or_else(|_| Err("the thread that tried them panicked".to_owned()))
    }
}

impl Conditions {
    /// Takes them for the calling thread, and so for the children that it starts.
    ///
    /// # Errors
    /// A sentence says why they cannot be had.
    pub fn take(&self) -> Result<(), String> {
        sys::launch::try_on_thread(self)
    }
}

/// A program that was started, in a process group of its own. Dropping it kills the group.
#[derive(Debug)]
pub struct Started(sys::launch::Started);

/// How a program ended, and what it left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// The last mebibyte of what it wrote on stdout.
    pub stdout: String,
    /// The last mebibyte of what it wrote on stderr.
    pub stderr: String,
    /// A hash (FNV-1a) of all that it wrote on stdout.
    pub stdout_hash: u64,
    /// What it and the children that it waited for used.
    pub process: ProcessUse,
}

impl Outcome {
    /// Its exit status as a shell gives it: 128 and the number of the signal, if one ended it.
    pub fn code(&self) -> u8 {
        sys::launch::code(self.status)
    }

    /// The usual name of the signal that ended it.
    pub fn signal(&self) -> Option<String> {
        sys::signal_name(self.status)
    }
}

impl Started {
    /// Starts it; its stdin is what the command says, its output is kept.
    ///
    /// # Errors
    /// It cannot be started, or not under these conditions.
    pub fn new(command: &mut Command, conditions: &Conditions) -> io::Result<Started> {
        sys::launch::start(command, conditions).map(Started)
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
        self.0.wait(deadline, stop)
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

/// The CPUs that this process may use, in order.
pub fn allowed_cpus() -> Vec<u32> {
    sys::allowed_cpus()
}
