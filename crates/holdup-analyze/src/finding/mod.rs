//! What holds threads up: one file per kind of finding, one row each in [`RULES`].
//!
//! A rule is a pure function from [`Facts`] to findings. Its file begins with signs, thresholds and how it can be
//! wrong, as docs/findings.md tells them to users. A finding is data; its sentences are made by the program that prints
//! it.

mod allocator;
mod excessive_switching;
mod explain;
mod hot_atomic;
mod hot_lock;
mod imbalance;
mod interpreter_lock;
mod io_bound;
mod kernel_heavy;
mod lock_convoy;
mod memory_lock;
mod oversubscription;
mod page_faults;
mod ping_pong;
mod polling;
mod priority_inversion;
mod serial_phase;
mod sleeping_holder;
mod slow_stage;
mod small_pool;
mod spin_waste;
mod stages;
mod starvation;
mod thundering_herd;
mod wasted_wakeups;
mod weigh;
mod yield_storm;

use holdup_trace::{Pid, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use crate::doubt::SHORTEST_SPAN_NS;
use crate::facts::{Facts, LockName, Primitive, Site};

/// One thing that holds threads up. What is skipped in JSON is put into words by the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// Which kind.
    pub kind: Kind,
    /// Share of the elapsed time that would go if the cause went, 0 to 1, as far as it can be told: the order of
    /// findings.
    #[serde(rename = "severity_share")]
    pub severity: f64,
    /// By how much the program could get faster at most without the cause: 1.45 for at most 1.45 times as fast.
    pub bound: f64,
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
    /// Elapsed time is spent waiting for devices.
    IoBound,
    /// Threads of a process wait for its address space.
    MemoryLock,
    /// CPU time goes to pages that are touched for the first time, or threads wait for pages.
    PageFaults,
    /// Threads wait for each other in malloc and free.
    Allocator,
    /// One thread waits far longer than its like.
    Starvation,
    /// Others wait while one works alone.
    SerialPhase,
    /// A pipeline's stage that the others wait for.
    SlowStage,
    /// Callers queue behind a few workers that wait elsewhere.
    SmallPool,
    /// Short sleeps in a loop.
    Polling,
    /// `sched_yield` in a loop.
    YieldStorm,
    /// Threads take turns at an interpreter's lock.
    InterpreterLock,
}

impl Kind {
    /// All, in the order of docs/findings.md.
    pub const ALL: [Kind; 24] = [
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
        Kind::IoBound,
        Kind::MemoryLock,
        Kind::PageFaults,
        Kind::Allocator,
        Kind::Starvation,
        Kind::SerialPhase,
        Kind::SlowStage,
        Kind::SmallPool,
        Kind::Polling,
        Kind::YieldStorm,
        Kind::InterpreterLock,
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
                | PageFaults
                | YieldStorm
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
            Kind::IoBound => "io-bound",
            Kind::MemoryLock => "memory-lock",
            Kind::PageFaults => "page-faults",
            Kind::Allocator => "allocator",
            Kind::Starvation => "starvation",
            Kind::SerialPhase => "serial-phase",
            Kind::SlowStage => "slow-stage",
            Kind::SmallPool => "small-pool",
            Kind::Polling => "polling",
            Kind::YieldStorm => "yield-storm",
            Kind::InterpreterLock => "interpreter-lock",
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
    /// What is counted or measured, in `snake_case` with the unit last: the key in JSON. docs/findings.md explains
    /// each.
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
    /// Write and sync less often, in larger pieces, or beside the work.
    FasterIo,
    /// Map and unmap less often, keep memory.
    FewerMappings,
    /// Larger pages, memory used again.
    LargerPages,
    /// Another allocator, more arenas, fewer allocations.
    OtherAllocator,
    /// A lock that serves in turn, or lets writers in first.
    FairLock,
    /// Divide what one thread does alone.
    DivideSerialPart,
    /// More threads for the stage, or less work in it.
    WidenStage,
    /// More workers, or calls that do not block them.
    MoreWorkers,
    /// Wait to be woken.
    WaitInsteadOfPolling,
    /// Processes, or work that runs outside the interpreter.
    LeaveInterpreter,
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
    io_bound::RULE,
    memory_lock::RULE,
    page_faults::RULE,
    allocator::RULE,
    starvation::RULE,
    serial_phase::RULE,
    slow_stage::RULE,
    small_pool::RULE,
    polling::RULE,
    yield_storm::RULE,
    interpreter_lock::RULE,
];

/// What costs less is not worth a line.
const LEAST_SEVERITY: f64 = 0.05;

/// The same for kinds whose blame is shared by all who wait for work: a little of that is in every pool and pipeline.
const LEAST_SHARED: f64 = 0.1;

fn least(kind: Kind) -> f64 {
    match kind {
        Kind::SerialPhase | Kind::SlowStage | Kind::SmallPool => LEAST_SHARED,
        _ => LEAST_SEVERITY,
    }
}

impl Finding {
    /// One that says nothing yet but its kind and what to do.
    fn new(kind: Kind, cure: Cure, proof: Command) -> Finding {
        Finding {
            kind,
            severity: 0.0,
            bound: 1.0,
            subjects: Vec::new(),
            place: None,
            evidence: Vec::new(),
            moments: Vec::new(),
            cure,
            proof,
        }
    }
}

/// Everything that holds threads up, worst first. A finding that another explains (the switches of a convoy, say) is
/// left out: see [`explain`].
pub(crate) fn all(facts: &Facts) -> Vec<Finding> {
    if facts.span_ns() < SHORTEST_SPAN_NS {
        return Vec::new();
    }
    let slack = weigh::slack(facts).unwrap_or(1.0);
    let found = RULES.iter().flat_map(|rule| (rule.judge)(facts)).map(|finding| within(slack, finding));
    let mut findings: Vec<Finding> = found.filter(|finding| finding.severity >= least(finding.kind)).collect();
    findings.sort_by(|a, b| b.severity.total_cmp(&a.severity));
    explain::leave_out_consequences(facts, findings)
}

/// No cure of waiting wins more than what the CPUs have left; and what would go bounds the gain.
fn within(slack: f64, mut finding: Finding) -> Finding {
    if !finding.kind.costs_cpu_time() {
        finding.severity = finding.severity.min(slack);
    }
    finding.bound = 1.0 / (1.0 - finding.severity.clamp(0.0, 0.99));
    finding
}

/// Every kind with the names of the numbers that its findings may show, in the order of docs/findings.md.
pub fn vocabulary() -> impl Iterator<Item = (Kind, &'static [&'static str])> {
    RULES.iter().map(|rule| (rule.kind, rule.evidence))
}

#[cfg(test)]
mod tests;
