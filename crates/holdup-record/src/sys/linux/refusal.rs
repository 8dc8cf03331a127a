//! Why the kernel refuses, in words: what is so, what is needed, and the command that grants the least of it.

use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

use super::session::OpenError;
use crate::Error;

/// The error for a thread whose events cannot be opened.
pub fn of(error: OpenError, pid: u32) -> Error {
    match error {
        OpenError::Gone => Error::NoProcess(pid),
        OpenError::Forbidden(_) => Error::Refused(forbidden(pid)),
        OpenError::Descriptors => Error::Refused(
            "this user may not open enough files for one per thread, CPU and event; \
             allow more with `ulimit -n unlimited`, or `sudo prlimit --nofile=1048576 --pid $$` in this shell"
                .into(),
        ),
        OpenError::Call(call, why) => Error::Call { call, why },
    }
}

/// The error for a user who may not even open an event of its own.
pub fn of_discovery(why: io::Error) -> Error {
    match why.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => Error::Refused(forbidden(std::process::id())),
        Some(libc::ENOSYS) => Error::Refused(
            "this kernel was built without perf_event_open (CONFIG_PERF_EVENTS), which recording needs"
                .into(),
        ),
        _ => Error::Call { call: "perf_event_open", why },
    }
}

fn forbidden(pid: u32) -> String {
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid")
        .ok()
        .and_then(|text| text.trim().parse::<i32>().ok());
    let owner = fs::metadata(format!("/proc/{pid}")).map(|data| data.uid()).ok();
    // SAFETY: a call without memory that always succeeds.
    let me = unsafe { libc::geteuid() };
    match (paranoid, owner) {
        (_, Some(owner)) if owner != me && me != 0 => format!(
            "process {pid} belongs to user {owner}, and only that user or root may record it; \
             run `sudo -u '#{owner}' holdup record -p {pid}`"
        ),
        (Some(level), _) if level > 2 && me != 0 => format!(
            "kernel.perf_event_paranoid is {level} here, and recording needs 2 or less; \
             run `sudo sysctl kernel.perf_event_paranoid=2`"
        ),
        _ => format!(
            "the kernel does not let this process use perf_event_open for process {pid}: a container's seccomp filter \
             forbids it, or process {pid} has more rights than this one; in Docker, `docker run --cap-add PERFMON` allows it"
        ),
    }
}
