//! What a recording says about itself: at its beginning ([`Header`]) and, if it came that far, at its end ([`Ending`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Pid, Tid};

/// Written before the first event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Header {
    /// Who wrote it: `holdup 0.1.0`, or the importer and what it read.
    pub producer: String,
    /// When it began, in seconds since 1970 (for names and reports; events are on the monotonic clock).
    pub began_unix_s: u64,
    /// When it began on the events' clock, which is the machine's monotonic one: the zero of times in reports.
    pub began_ns: u64,
    /// The machine.
    pub machine: Machine,
    /// What was recorded.
    pub target: Target,
    /// What the recorder was able and asked to see.
    #[serde(rename = "grade")]
    pub capabilities: Capabilities,
    /// Time between two CPU samples of one CPU; 0 for none.
    pub sample_period_ns: u64,
    /// Bytes of user stack that were looked at.
    pub stack_bytes: u32,
    /// Each `FutexReturn` of a wake that woke nobody stands for so many; 0, as in files without this field, for one.
    pub futex_zero_period: u32,
    /// 0 if every switch and call was recorded. Otherwise the threads were only looked at from outside, at best after
    /// this time each: what they did between two looks is put together from what both found and from the times that the
    /// kernel counted, so that numbers of switches and waits, and the lengths of waits shorter than this, say nothing.
    pub look_period_ns: u64,
    /// CPU time that the recorder had used when the recording began, to load programs into the kernel for example; 0
    /// where it is not known.
    pub start_cpu_ns: u64,
    /// Why hardware counters were not recorded, as the end of a sentence that begins with them; null if they were, or
    /// where nobody asked for them.
    pub no_counters: Option<String>,
}

impl Header {
    /// Whether threads were only looked at from time to time.
    pub fn is_sampled(&self) -> bool {
        self.look_period_ns > 0
    }
}

/// The machine of a recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Machine {
    /// The name of the host, as the system has it; empty where it is not known.
    pub host: String,
    /// Its name for the CPU.
    pub cpu: String,
    /// CPUs that were online.
    pub cpus: u32,
    /// On how many of them the recorder might run; 0 where that is not known.
    pub allowed_cpus: u32,
    /// Architecture as Rust names it: `x86_64`, `aarch64`. System call numbers and registers are of this one.
    pub arch: String,
    /// Kernel release.
    pub kernel: String,
    /// The socket of each CPU, by the CPU's number; empty where the machine does not tell.
    pub sockets: Vec<u32>,
}

/// What was recorded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Target {
    /// The command that was started; empty if it was running already.
    pub command: Vec<String>,
    /// The processes that were attached to or started.
    pub pids: Vec<u32>,
    /// Whether it was running already.
    pub attached: bool,
}

impl Target {
    /// The processes.
    pub fn processes(&self) -> impl Iterator<Item = Pid> {
        self.pids.iter().copied().map(Pid)
    }

    /// The first thread of each process.
    pub fn leaders(&self) -> impl Iterator<Item = Tid> {
        self.pids.iter().copied().map(Tid)
    }
}

/// What a recorder was able to see. Analysis must not take the absence of what was never recorded for a fact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Capabilities {
    /// `SwitchIn` and `SwitchOut` of the target's threads.
    pub switches: bool,
    /// `SwitchOut` tells sleeping from uninterruptible and carries stacks.
    pub switch_reasons: bool,
    /// `Waking` by threads of the target.
    pub wakings: bool,
    /// `Waking` by everybody else too.
    pub foreign_wakings: bool,
    /// Futex waits and returns.
    pub futexes: bool,
    /// Other calls that block.
    pub calls: bool,
    /// CPU samples.
    pub samples: bool,
    /// Samples are taken in the kernel too, and stacks have a kernel part.
    pub kernel: bool,
    /// Major page faults.
    pub faults: bool,
    /// Lock words were read from outside.
    pub lock_words: bool,
    /// Hardware counters.
    pub hardware: bool,
}

/// Written after the last event; a recording without it was cut off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Ending {
    /// When, on the events' clock.
    pub ended_ns: u64,
    /// Why: `the target ended`, `Ctrl-C`, `SIGTERM`, `SIGHUP`, `the time was over`, or an error of the recorder.
    pub reason: String,
    /// Exit status of a command that was started: its code, or 128 and the number of the signal.
    pub status: Option<i32>,
    /// Events that the kernel could not deliver.
    pub lost: u64,
    /// CPU time that the recorder used, from its own start on.
    pub recorder_cpu_ns: u64,
    /// Voluntary context switches of a command that was started and all its children that were waited for, as the
    /// kernel counted.
    pub voluntary: Option<u64>,
    /// Involuntary ones of the same.
    pub involuntary: Option<u64>,
    /// CPU time of the same in user mode.
    pub user_ns: Option<u64>,
    /// CPU time of the same in the kernel.
    pub kernel_ns: Option<u64>,
    /// Page faults of the same, those that waited for a device included.
    pub faults: Option<u64>,
    /// Why this stretch of a longer recording was kept; null for a recording that was written from its beginning on.
    pub trigger: Option<Trigger>,
}

/// What a flight recorder waited for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Trigger {
    /// The condition as it was given: `lock-wait > 50ms`, `SIGUSR2`.
    pub condition: String,
    /// When it held first, on the events' clock.
    pub time_ns: u64,
    /// What was seen, as the end of a sentence: `thread 4711 had waited 61ms for the futex 0x7f00`.
    pub seen: String,
}

impl Ending {
    /// CPU time of a command that was started, in user mode and in the kernel.
    pub fn cpu_ns(&self) -> Option<(u64, u64)> {
        self.user_ns.zip(self.kernel_ns)
    }
}
