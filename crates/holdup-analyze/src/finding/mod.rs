//! What holds threads up: one file per kind of finding, one row each in [`RULES`].
//!
//! A rule is a pure function from [`Facts`] to findings. Its file begins with signs, thresholds and how it can be wrong, as
//! docs/findings.md tells them to users. A finding is data; its sentences are made by the program that prints it.

mod excessive_switching;
mod explain;
mod hot_atomic;
mod hot_lock;
mod imbalance;
mod kernel_heavy;
mod lock_convoy;
mod oversubscription;
mod ping_pong;
mod priority_inversion;
mod sleeping_holder;
mod spin_waste;
mod thundering_herd;
mod wasted_wakeups;
mod weigh;

use holdup_trace::{Pid, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::{Facts, LockName, Primitive, Site};
use weigh::MS;

/// One thing that holds threads up. What is skipped in JSON is put into words by the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// Which kind.
    pub kind: Kind,
    /// Share of the threads' working time (their lives less what they idled by design) or of CPU time, as the kind's page says,
    /// that this costs, 0 to 1: the order of findings.
    #[serde(rename = "severity_share")]
    pub severity: f64,
    /// Whom and what it is about.
    #[serde(skip)]
    pub subjects: Vec<Subject>,
    /// Where in the program; its caller is the place to print.
    #[serde(skip)]
    pub place: Option<Site>,
    /// What was seen: numbers with names, the most telling first.
    pub evidence: Vec<Evidence>,
    /// Moments to look at on a timeline, worst first.
    pub moments: Vec<Moment>,
    /// What to try.
    #[serde(skip)]
    pub cure: Cure,
    /// The command that tests the cure.
    #[serde(skip)]
    pub proof: Command,
}

/// The kinds of findings, in the words of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Most acquisitions of one lock end in a switch.
    LockConvoy,
    /// Much of all threads' time is lost waiting for one lock.
    HotLock,
    /// The holder is off CPU while others wait.
    SleepingHolder,
    /// Many more switches than time slices would give.
    ExcessiveSwitching,
    /// Two threads wake each other in turn.
    PingPong,
    /// More runnable threads than CPUs.
    Oversubscription,
    /// One wake-up releases many that go straight back to sleep.
    ThunderingHerd,
    /// CPU time burnt in spinning.
    SpinWaste,
    /// Samples pile up behind an atomic instruction on shared memory.
    HotAtomic,
    /// CPU time goes to the kernel.
    KernelHeavy,
    /// Wakes that wake nobody, waits that do not sleep.
    WastedWakeups,
    /// One thread does far more or less than its like.
    Imbalance,
    /// A lower-priority holder, preempted, delays a higher one.
    PriorityInversion,
}

impl Kind {
    /// All, in the order of docs/findings.md.
    pub const ALL: [Kind; 13] = [
        Kind::LockConvoy,
        Kind::HotLock,
        Kind::SleepingHolder,
        Kind::ExcessiveSwitching,
        Kind::PingPong,
        Kind::Oversubscription,
        Kind::ThunderingHerd,
        Kind::SpinWaste,
        Kind::HotAtomic,
        Kind::KernelHeavy,
        Kind::WastedWakeups,
        Kind::Imbalance,
        Kind::PriorityInversion,
    ];

    /// Whether the severity is a share of CPU time; otherwise it is one of the threads' working time.
    pub fn costs_cpu_time(self) -> bool {
        use Kind::*;
        matches!(
            self,
            ExcessiveSwitching
                | PingPong
                | ThunderingHerd
                | SpinWaste
                | HotAtomic
                | KernelHeavy
                | WastedWakeups
        )
    }

    /// Its name in output, files and links: `lock-convoy`.
    pub fn name(self) -> &'static str {
        match self {
            Kind::LockConvoy => "lock-convoy",
            Kind::HotLock => "hot-lock",
            Kind::SleepingHolder => "sleeping-holder",
            Kind::ExcessiveSwitching => "excessive-switching",
            Kind::PingPong => "ping-pong",
            Kind::Oversubscription => "oversubscription",
            Kind::ThunderingHerd => "thundering-herd",
            Kind::SpinWaste => "spin-waste",
            Kind::HotAtomic => "hot-atomic",
            Kind::KernelHeavy => "kernel-heavy",
            Kind::WastedWakeups => "wasted-wakeups",
            Kind::Imbalance => "imbalance",
            Kind::PriorityInversion => "priority-inversion",
        }
    }
}

/// Whom or what a finding is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A lock: index in [`Facts::locks`], and what is needed to name it without them.
    Lock {
        /// Index in [`Facts::locks`].
        index: usize,
        /// How it is called.
        name: LockName,
        /// Its address, where the futex is the lock.
        addr: Option<u64>,
        /// What it is.
        primitive: Primitive,
    },
    /// A thread.
    Thread {
        /// Its number.
        tid: Tid,
        /// Its name.
        name: String,
    },
    /// A process.
    Process {
        /// Its number.
        pid: Pid,
        /// Its name.
        name: String,
    },
    /// A variable.
    Variable(LockName),
    /// A function.
    Function(String),
}

/// A number with a name and a unit.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Evidence {
    /// What is counted or measured, in `snake_case` with the unit last: the key in JSON. docs/findings.md explains each.
    pub name: &'static str,
    /// How much.
    pub value: f64,
    /// In what.
    pub unit: Unit,
}

/// Units of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// A count.
    Count,
    /// Per second.
    #[serde(rename = "1/s")]
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// A share, 0 to 1.
    Share,
    /// A ratio to something that the name says.
    Ratio,
}

/// A stretch of time worth a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Moment {
    /// The thread.
    pub tid: Tid,
    /// From.
    pub from_ns: u64,
    /// To.
    pub to_ns: u64,
}

/// What to try; the sentence is the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Shorten the section, split the lock, or cap how many threads contend.
    ShortenSplitOrGate,
    /// Spin briefly before sleeping.
    SpinThenPark,
    /// Do the slow thing outside the lock.
    MoveOutOfSection,
    /// Give the two threads' work to one, or hand over in batches.
    MergeOrBatch,
    /// As many threads as CPUs.
    FewerThreads,
    /// Wake one at a time.
    WakeOne,
    /// Sleep instead of spinning, or back off.
    ParkInsteadOfSpin,
    /// Count per thread, or claim in chunks.
    ShardCounter,
    /// Make fewer system calls: larger buffers, batching.
    FewerCalls,
    /// Wake only when somebody waits; keep the waiters' count.
    WakeOnlyWaiters,
    /// Divide the work finer, or let idle threads take it.
    Rebalance,
    /// Inherit priority.
    InheritPriority,
    /// Larger work units between switches.
    CoarserWork,
}

/// A `holdup` command that tests a cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its words after `holdup`, before the program: `["try", "--remedy", "throttle:2"]`.
    pub words: Vec<String>,
    /// Whether the recorded program's command line follows after `--`.
    pub program: bool,
}

/// One kind of finding: how it is found, and the numbers it may show.
struct Rule {
    kind: Kind,
    judge: fn(&Facts) -> Vec<Finding>,
    evidence: &'static [&'static str],
}

/// Adding a finding: its file, its row, its section in docs/findings.md.
const RULES: &[Rule] = &[
    lock_convoy::RULE,
    hot_lock::RULE,
    sleeping_holder::RULE,
    excessive_switching::RULE,
    ping_pong::RULE,
    oversubscription::RULE,
    thundering_herd::RULE,
    spin_waste::RULE,
    hot_atomic::RULE,
    kernel_heavy::RULE,
    wasted_wakeups::RULE,
    imbalance::RULE,
    priority_inversion::RULE,
];

/// A shorter recording shows how a program starts, not how it works: nothing is judged.
const SHORTEST_SPAN_NS: u64 = 50 * MS;

/// What costs less is not worth a line.
const LEAST_SEVERITY: f64 = 0.02;

/// Everything that holds threads up, worst first. A finding that another explains (the switches of a convoy, say) is left out:
/// see [`explain`].
pub(crate) fn all(facts: &Facts) -> Vec<Finding> {
    if facts.span_ns() < SHORTEST_SPAN_NS {
        return Vec::new();
    }
    let found = RULES.iter().flat_map(|rule| (rule.judge)(facts));
    let mut findings: Vec<Finding> = found.filter(|finding| finding.severity >= LEAST_SEVERITY).collect();
    findings.sort_by(|a, b| b.severity.total_cmp(&a.severity));
    explain::leave_out_consequences(facts, findings)
}

/// Every kind with the names of the numbers that its findings may show, in the order of docs/findings.md.
pub fn vocabulary() -> impl Iterator<Item = (Kind, &'static [&'static str])> {
    RULES.iter().map(|rule| (rule.kind, rule.evidence))
}

#[cfg(test)]
mod tests;
