//! Any command, timed as the kernel accounts for it: what `timep` did in 1998.

use std::process::Command;

use crate::launch::Conditions;
use crate::process::ProcessUse;
use crate::sys;

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// Its exit status as a shell gives it: 128 and the number of the signal, if one ended it.
    pub code: u8,
    /// What it and the children it waited for used.
    pub process: ProcessUse,
}

/// Runs a command to its end; it keeps the standard streams and the terminal.
///
/// # Errors
/// It could not be started, or the system cannot tell what it used.
pub fn time(command: &mut Command) -> std::io::Result<Finished> {
    sys::command::time(command)
}

/// As [`time`], under other conditions; meanwhile the signals that end, reload or ask a program go to the command, and this process
/// lives on. Only for one command at a time.
///
/// # Errors
/// It could not be started, or not under these conditions, or the system cannot tell what it used.
pub fn forward(command: &mut Command, conditions: &Conditions) -> std::io::Result<Finished> {
    sys::command::forward(command, conditions)
}
