//! What to record.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use crate::ThreadNames;

/// What to record, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// Whom.
    pub target: Target,
    /// Of its threads, those of these names.
    pub threads: ThreadNames,
    /// The file to write; it must not exist.
    pub output: PathBuf,
    /// End after this time (the target goes on if it was attached to, and is waited for if it was started).
    pub limit: Option<Duration>,
    /// CPU samples per second and CPU; 0 for none.
    pub sample_hz: u32,
    /// Bytes of user stack to look at per stack: a multiple of 8, at most 4096; 0 for frame-pointer chains alone.
    pub stack_bytes: u32,
    /// Size of the buffer of each CPU in KiB, a power of two; `None` for what the rights allow.
    pub buffer_kib: Option<u32>,
    /// How much to ask for.
    pub detail: Detail,
    /// By what to capture.
    pub capture: Backend,
    /// What a command gets into its environment besides the recorder's own.
    pub environment: Vec<(OsString, OsString)>,
    /// A command gets no input, and what it prints goes nowhere.
    pub silent: bool,
    /// Called once, when the command has ended and processes that it left behind have gone on for a second: the
    /// recording goes on with them.
    pub left_behind: Option<fn()>,
}

impl Options {
    /// As much as the rights allow, until the target ends, at the usual rates.
    pub fn new(target: Target, output: impl Into<PathBuf>) -> Options {
        Options {
            target,
            threads: ThreadNames::default(),
            output: output.into(),
            limit: None,
            sample_hz: 1000,
            stack_bytes: 1024,
            buffer_kib: None,
            detail: Detail::Allowed,
            capture: Backend::Auto,
            environment: Vec::new(),
            silent: false,
            left_behind: None,
        }
    }
}

/// Whom to record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// Start this command: program and arguments.
    Command(Vec<OsString>),
    /// Attach to these processes, at least one, and all their threads.
    Processes(Vec<u32>),
}

/// Which of the processes that a process has started before its recording belong to it. Those that it starts from then
/// on always do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Children {
    /// None.
    None,
    /// Those that run the same program, as the workers of a server do that forks them.
    #[default]
    SameProgram,
    /// All.
    All,
}

/// By what to capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// Programs inside the kernel where the rights, the kernel and the detail allow them, else performance events, and
    /// looks where both are refused.
    #[default]
    Auto,
    /// Programs inside the kernel: needs CAP_BPF and CAP_PERFMON.
    Bpf,
    /// The kernel's performance events.
    Perf,
    /// Looks at the threads from outside, from time to time: where the kernel gives no events.
    Sampler,
}

/// How much to ask the kernel for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Detail {
    /// What an ordinary user gets at perf_event_paranoid=2, even if more is allowed.
    User,
    /// All that the rights allow at the default's cost.
    #[default]
    Allowed,
}
