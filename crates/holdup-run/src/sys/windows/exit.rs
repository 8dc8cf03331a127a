//! How programs end here, and commands with our own streams, waited for with their resource use.

use std::io;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use super::job::{Job, process_use};
use crate::conditions::Conditions;
use crate::ended::Finished;

/// Runs a command to its end.
pub fn time(command: &mut Command) -> io::Result<Finished> {
    let began = Instant::now();
    let mut child = command.spawn()?;
    // Without a job (the process may be gone already) the account is the command's alone.
    let job = Job::with(&child, false).ok();
    let status = child.wait()?;
    Ok(Finished { code: code(status), process: process_use(began, &child, job.as_ref()) })
}

/// Signals that could be forwarded do not exist here.
pub fn forward(_: &mut Command, _: &Conditions) -> io::Result<Finished> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// The exit status, where it has a number that fits.
pub fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}

/// The usual name of the exception that ended a process.
pub fn signal_name(status: ExitStatus) -> Option<String> {
    let code = status.code()?.cast_unsigned();
    let known = [
        (0xC000_0005, "STATUS_ACCESS_VIOLATION (access violation)"),
        (0xC000_0409, "STATUS_STACK_BUFFER_OVERRUN (abort)"),
        (0xC000_001D, "STATUS_ILLEGAL_INSTRUCTION (illegal instruction)"),
        (0xC000_0094, "STATUS_INTEGER_DIVIDE_BY_ZERO (arithmetic error)"),
        (0xC000_00FD, "STATUS_STACK_OVERFLOW (stack overflow)"),
        (0xC000_013A, "STATUS_CONTROL_C_EXIT (interrupted)"),
        (0x8000_0003, "STATUS_BREAKPOINT (trap)"),
    ];
    let name = known.iter().find(|(number, _)| *number == code);
    match name {
        Some((_, name)) => Some((*name).to_owned()),
        // Errors of the system have their two highest bits set, warnings the highest.
        None if code >> 30 == 3 => Some(format!("exception {code:#x}")),
        None => None,
    }
}
