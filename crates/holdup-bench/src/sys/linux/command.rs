//! A command in our own process group, waited for with its resource use.

use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use super::{process_use, reap};
use crate::command::Finished;

pub use super::forward::forward;

/// Runs it to its end.
pub fn time(command: &mut Command) -> io::Result<Finished> {
    let start = Instant::now();
    let child = command.spawn()?;
    // `Child` neither waits nor kills when it is dropped: the number stays taken until `reap` has it.
    let (status, usage) = reap(child.id() as libc::pid_t)?;
    Ok(Finished { code: code(status), process: process_use(start, &usage) })
}

/// The exit status of a shell.
pub fn code(status: ExitStatus) -> u8 {
    const BY_SIGNAL: i32 = 128;
    let code = status.code().or_else(|| status.signal().map(|signal| BY_SIGNAL + signal));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)
}
