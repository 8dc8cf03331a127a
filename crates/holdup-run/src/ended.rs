//! How a program ended, what it left, and what it used.

use std::process::ExitStatus;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Resources of a whole process, as the system accounts for them (wait4 on Linux); null for what it does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessUse {
    /// From start to end.
    pub elapsed_ns: u64,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub kernel_ns: u64,
    /// Voluntary context switches.
    pub voluntary_switches: Option<u64>,
    /// Involuntary context switches.
    pub involuntary_switches: Option<u64>,
    /// Page faults without I/O.
    pub minor_faults: Option<u64>,
    /// Page faults with I/O.
    pub major_faults: Option<u64>,
    /// Peak resident memory.
    pub max_rss_bytes: u64,
}

/// A command that has ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// Its exit status as a shell gives it: 128 and the number of the signal, if one ended it.
    pub code: u8,
    /// What it and the children it waited for used.
    pub process: ProcessUse,
}

/// How a watched program ended, and what it left.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it ended.
    pub status: ExitStatus,
    /// Its exit status as a shell gives it: 128 and the number of the signal, if one ended it.
    pub code: u8,
    /// The usual name of the signal that ended it.
    pub signal: Option<String>,
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
    /// The last line that it wrote on stderr, as the end of a sentence.
    pub fn last_words(&self) -> String {
        // A panic's own last line is advice how to see more, not what happened.
        let says_something = |line: &&str| !line.trim().is_empty() && !line.starts_with("note: ");
        let line = self.stderr.lines().rev().find(says_something);
        line.map_or_else(String::new, |line| format!("; its last words: {}", line.trim()))
    }
}
