//! A command in our own process group, waited for with its resource use.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use super::{reap, timeval_ns};
use crate::command::Finished;
use crate::process::ProcessUse;

/// Runs it to its end.
pub fn time(command: &mut Command) -> io::Result<Finished> {
    let start = Instant::now();
    let child = command.spawn()?;
    // `Child` neither waits nor kills when it is dropped: the number stays taken until `reap` has it.
    let (status, usage) = reap(child.id() as libc::pid_t)?;
    let process = ProcessUse {
        elapsed_ns: start.elapsed().as_nanos() as u64,
        user_ns: timeval_ns(usage.ru_utime),
        kernel_ns: timeval_ns(usage.ru_stime),
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        minor_faults: usage.ru_minflt as u64,
        major_faults: usage.ru_majflt as u64,
        max_rss_bytes: usage.ru_maxrss as u64 * 1024,
    };
    Ok(Finished { code: code(status), process })
}

/// The exit status of a shell.
fn code(status: ExitStatus) -> u8 {
    const BY_SIGNAL: i32 = 128;
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
