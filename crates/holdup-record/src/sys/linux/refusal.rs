//! Why the kernel refuses, in words: what is so, what is needed, and the command that grants the least of it.

use std::os::unix::fs::MetadataExt as _;
use std::{fs, io};

use super::session::OpenError;
use super::{rights, status};
use crate::Error;
use crate::doctor::{CAP_SYS_PTRACE, Container, Seeing, in_container, refusal};

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
        OpenError::Call("mmap", why) if matches!(why.raw_os_error(), Some(libc::EPERM | libc::ENOMEM)) => {
            Error::Refused(NO_MEMORY.into())
        }
        OpenError::Call(call, why) => Error::Call { call, why },
    }
}

const NO_MEMORY: &str = "this user may lock no more memory for buffers, of which other recordings have some (ulimit -l, \
     kernel.perf_event_mlock_kb); end those, or run `sudo sysctl kernel.perf_event_mlock_kb=2064`";

/// The error for a process that the programs inside the kernel cannot be told to follow.
pub fn of_bpf(why: String) -> Error {
    Error::Refused(format!("capture by BPF has failed: {why}; run with `--capture perf`"))
}

/// The error for a process whose threads this user may not look into.
pub fn of_looks(pid: u32) -> Error {
    if let Some(owner) = foreign_owner(pid) {
        return of_another(pid, owner);
    }
    let probe = rights::probe().unwrap_or_default();
    Error::Refused(match probe.ptrace_scope.filter(|scope| *scope > 0) {
        None if probe.uid == 0 && probe.container != Container::None => format!(
            "process {pid} may not be looked into: that needs the same user, or the right to trace others; start the container \
             with it: `{}`",
            in_container(&probe, "cap_sys_ptrace")
        ),
        Some(scope) => format!(
            "process {pid} may not be looked into: kernel.yama.ptrace_scope is {scope}, which allows only programs that \
             holdup starts itself; run `sudo sysctl kernel.yama.ptrace_scope=0`"
        ),
        None => format!(
            "process {pid} may not be looked into: that needs the right to trace it (CAP_SYS_PTRACE if it runs with more \
             rights than this user); run `sudo holdup record -p {pid}`"
        ),
    })
}

/// The error for a user who may not even open an event of its own.
pub fn of_discovery(why: io::Error) -> Error {
    match why.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::ENOSYS) => forbidden(why, std::process::id()),
        _ => Error::Call { call: "perf_event_open", why },
    }
}

fn forbidden(why: io::Error, pid: u32) -> Error {
    match (foreign_owner(pid), rights::probe()) {
        (Some(owner), _) => of_another(pid, owner),
        (_, Some(probe)) => {
            Error::Refused(refusal(Seeing::Switches, why.raw_os_error().unwrap_or(libc::EPERM), &probe))
        }
        (_, None) => Error::Call { call: "perf_event_open", why },
    }
}

/// The error for a process of another user. Who has the file's capabilities for events and programs inside the kernel
/// is let at everybody by the kernel; holdup gives its user no more than his own processes for that.
///
/// # Errors
/// That one.
pub fn if_of_another(pid: u32) -> Result<(), Error> {
    let traces_all = status::effective_capabilities() >> CAP_SYS_PTRACE & 1 == 1;
    match foreign_owner(pid).filter(|_| !traces_all) {
        Some(owner) => Err(of_another(pid, owner)),
        None => Ok(()),
    }
}

/// The user whom a process belongs to, if that is neither this one nor is this one root.
fn foreign_owner(pid: u32) -> Option<u32> {
    let owner = fs::metadata(format!("/proc/{pid}")).map(|data| data.uid()).ok()?;
    // SAFETY: a call without memory that always succeeds.
    let me = unsafe { libc::geteuid() };
    is_foreign(owner, me).then_some(owner)
}

fn is_foreign(owner: u32, me: u32) -> bool {
    owner != me && me != 0
}

fn of_another(pid: u32, owner: u32) -> Error {
    Error::Refused(format!(
        "process {pid} belongs to user {owner}, and only that user or root may record it; \
         run `sudo -u '#{owner}' holdup record -p {pid}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_may_not_be_locked_is_no_matter_of_security() {
        let mmap = |errno| of(OpenError::Call("mmap", io::Error::from_raw_os_error(errno)), 7).to_string();
        assert!(mmap(libc::EPERM).contains("may lock no more memory"), "{}", mmap(libc::EPERM));
        assert!(mmap(libc::EINVAL).contains("mmap"), "{}", mmap(libc::EINVAL));
    }

    #[test]
    fn processes_of_others_are_refused_to_all_but_root() {
        assert!(is_foreign(0, 1000) && is_foreign(1001, 1000));
        assert!(!is_foreign(1000, 1000) && !is_foreign(1000, 0));
        assert!(if_of_another(std::process::id()).is_ok());
        assert!(of_another(7, 1001).to_string().contains("belongs to user 1001"));
    }
}
