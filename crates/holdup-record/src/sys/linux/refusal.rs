//! Why the kernel refuses, in words: what is so, what is needed, and the command that grants the least of it.

use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

use super::rights;
use super::session::OpenError;
use crate::Error;
use crate::doctor::{Seeing, refusal};

/// The error for a thread whose events cannot be opened.
pub fn of(error: OpenError, pid: u32) -> Error {
    match error {
        OpenError::Gone => Error::NoProcess(pid),
        OpenError::Forbidden(why) => forbidden(why, pid),
        OpenError::Descriptors => Error::Refused(
            "this user may not open enough files for one per thread, CPU and event; \
             run `sudo prlimit --nofile=1048576 --pid $$` in this shell first"
                .into(),
        ),
        OpenError::Call(call, why) => Error::Call { call, why },
    }
}

/// The error for a process that the programs inside the kernel cannot be told to follow.
pub fn of_bpf(why: String) -> Error {
    Error::Refused(format!("capture by BPF has failed: {why}; run with `--capture perf`"))
}

/// The error for a user who may not even open an event of its own.
pub fn of_discovery(why: io::Error) -> Error {
    match why.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::ENOSYS) => forbidden(why, std::process::id()),
        _ => Error::Call { call: "perf_event_open", why },
    }
}

fn forbidden(why: io::Error, pid: u32) -> Error {
    let owner = fs::metadata(format!("/proc/{pid}")).map(|data| data.uid()).ok();
    // SAFETY: a call without memory that always succeeds.
    let me = unsafe { libc::geteuid() };
    match (owner, rights::probe()) {
        (Some(owner), _) if owner != me && me != 0 => Error::Refused(format!(
            "process {pid} belongs to user {owner}, and only that user or root may record it; \
             run `sudo -u '#{owner}' holdup record -p {pid}`"
        )),
        (_, Some(probe)) => {
            Error::Refused(refusal(Seeing::Switches, why.raw_os_error().unwrap_or(libc::EPERM), &probe))
        }
        (_, None) => Error::Call { call: "perf_event_open", why },
    }
}
