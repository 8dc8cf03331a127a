//! A command with our own streams, waited for with its resource use.

use std::io;
use std::process::Command;
use std::time::Instant;

use super::job::{Job, process_use};
use super::launch::code;
use crate::command::Finished;
use crate::launch::Conditions;

/// Runs it to its end.
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
