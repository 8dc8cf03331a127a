//! What to record.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
        let stack_bytes = target.stack_bytes();
        Options {
            target,
            threads: ThreadNames::default(),
            output: output.into(),
            limit: None,
            sample_hz: 1000,
            stack_bytes,
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

/// So much of a stack leads through the locks of native programs to whoever takes them.
const STACK_BYTES: u32 = 1024;
/// .NET's own part of a call path, from its libraries to the program's code, takes more.
const STACK_BYTES_OF_DOT_NET: u32 = 4096;

impl Target {
    /// Bytes of user stack that it takes to see who waits: more for .NET than for others. That is known by the command
    /// (`dotnet`, or a program with its `.runtimeconfig.json` beside it), or by what a process has loaded.
    fn stack_bytes(&self) -> u32 {
        let is_dot_net = match self {
            Target::Command(command) => command.first().is_some_and(|program| starts_dot_net(program)),
            Target::Processes(pids) => pids.iter().any(|pid| {
                let maps = fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
                maps.lines().any(|line| line.ends_with("/libcoreclr.so"))
            }),
        };
        if is_dot_net { STACK_BYTES_OF_DOT_NET } else { STACK_BYTES }
    }
}

fn starts_dot_net(program: &OsStr) -> bool {
    let path = Path::new(program);
    let mut config = program.to_owned();
    config.push(".runtimeconfig.json");
    path.file_name() == Some(OsStr::new("dotnet")) || Path::new(&config).is_file()
}

/// Which of the processes that a process has started before its recording belong to it. Those that it starts from then
/// on always do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_dot_net_get_deeper_stacks() {
        let bytes = |program: &Path| Target::Command(vec![program.into(), "x".into()]).stack_bytes();
        assert_eq!((bytes(Path::new("/usr/bin/dotnet")), bytes(Path::new("dotnetx"))), (4096, 1024));
        let folder = std::env::temp_dir().join(format!("holdup-dotnet-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let program = folder.join("shop");
        assert_eq!(bytes(&program), 1024);
        fs::write(folder.join("shop.runtimeconfig.json"), "{}").unwrap();
        assert_eq!(bytes(&program), 4096, "a program that starts its own runtime");
        fs::remove_dir_all(&folder).unwrap();
        assert_eq!(Target::Processes(vec![std::process::id()]).stack_bytes(), 1024);
    }
}
