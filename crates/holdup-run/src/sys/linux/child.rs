//! Children: how they end, and what they used.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Instant;

use crate::ended::ProcessUse;

/// Waits for the end of a child whose number is still taken.
pub fn reap(pid: u32) -> io::Result<(ExitStatus, libc::rusage)> {
    loop {
        let mut status = 0;
        // SAFETY: an all-zero rusage is valid; the call writes the two places given, which live through it.
        let (done, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid as libc::pid_t, &raw mut status, 0, &raw mut usage), usage)
        };
        if done >= 0 {
            return Ok((ExitStatus::from_raw(status), usage));
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What a reaped process used since it was started.
pub fn process_use(start: Instant, usage: &libc::rusage) -> ProcessUse {
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ProcessUse {
        elapsed_ns: start.elapsed().as_nanos() as u64,
        user_ns: ns(usage.ru_utime),
        kernel_ns: ns(usage.ru_stime),
        voluntary_switches: Some(usage.ru_nvcsw as u64),
        involuntary_switches: Some(usage.ru_nivcsw as u64),
        minor_faults: Some(usage.ru_minflt as u64),
        major_faults: Some(usage.ru_majflt as u64),
        max_rss_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

/// The exit status of a shell.
pub fn code(status: ExitStatus) -> u8 {
    const BY_SIGNAL: i32 = 128;
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The usual name of the signal that ended a process.
pub fn signal_name(status: ExitStatus) -> Option<String> {
    let signal = status.signal()?;
    let known = [
        (libc::SIGSEGV, "SIGSEGV (segmentation fault)"),
        (libc::SIGABRT, "SIGABRT (abort)"),
        (libc::SIGBUS, "SIGBUS (bus error)"),
        (libc::SIGILL, "SIGILL (illegal instruction)"),
        (libc::SIGFPE, "SIGFPE (arithmetic error)"),
        (libc::SIGKILL, "SIGKILL (killed)"),
        (libc::SIGTERM, "SIGTERM (terminated)"),
        (libc::SIGINT, "SIGINT (interrupted)"),
        (libc::SIGTRAP, "SIGTRAP (trap)"),
        (libc::SIGSYS, "SIGSYS (forbidden system call)"),
    ];
    let name = known.iter().find(|(number, _)| *number == signal);
    Some(name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned()))
}
