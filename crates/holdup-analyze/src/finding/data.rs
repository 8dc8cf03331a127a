//! What a finding is made of.

use holdup_trace::{Pid, Tid};
use schemars::JsonSchema;
use serde::Serialize;

use crate::facts::{Facts, LockName, LockNumber, Moment, Primitive, Site};

/// One thing that holds threads up. What is skipped in JSON is put into words by the program.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Finding {
    /// Which kind.
    pub kind: Kind,
    /// Share of the elapsed time that would go if the cause went, 0 to 1, as far as it can be told: the order of
    /// findings.
    #[serde(rename = "severity_share")]
    pub severity: f64,
    /// By how much the program could get faster at most without the cause: 1.45 for at most 1.45 times as fast; null
    /// where that is more than 20 times, or what waits is not seen: nobody knows how much, then.
    pub bound: Option<f64>,
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

/// The enum of kinds, their list, and their names, from one row each.
macro_rules! kinds {
    ($(#[$of_enum:meta])* pub enum Kind { $($(#[$of_kind:meta])* $kind:ident = $name:literal,)* }) => {
        $(#[$of_enum])*
        pub enum Kind {
            $($(#[$of_kind])* #[serde(rename = $name)] $kind,)*
        }

        impl Kind {
            /// All, in the order of docs/findings.md.
            pub const ALL: [Kind; [$($name),*].len()] = [$(Kind::$kind),*];

            /// Its name in output, files and links: `lock-convoy`.
            pub fn name(self) -> &'static str {
                match self {
                    $(Kind::$kind => $name,)*
                }
            }
        }
    };
}

kinds! {
    /// The kinds of findings, in the words of the field.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
    pub enum Kind {
        /// Most acquisitions of one lock end in a switch.
        LockConvoy = "lock-convoy",
        /// Much of all threads' time is lost waiting for one lock.
        HotLock = "hot-lock",
        /// Threads wait for locks that will never be released.
        Deadlock = "deadlock",
        /// The holder is off CPU while others wait.
        SleepingHolder = "sleeping-holder",
        /// Many more switches than time slices would give.
        ExcessiveSwitching = "excessive-switching",
        /// Two threads wake each other in turn.
        PingPong = "ping-pong",
        /// More runnable threads than CPUs.
        Oversubscription = "oversubscription",
        /// One wake-up releases many that go straight back to sleep.
        ThunderingHerd = "thundering-herd",
        /// CPU time burnt in spinning.
        SpinWaste = "spin-waste",
        /// Samples pile up behind an atomic instruction on shared memory.
        HotAtomic = "hot-atomic",
        /// CPU time goes to the kernel.
        KernelHeavy = "kernel-heavy",
        /// Wakes that wake nobody, waits that do not sleep.
        WastedWakeups = "wasted-wakeups",
        /// One thread does far more or less than its like.
        Imbalance = "imbalance",
        /// A lower-priority holder, preempted, delays a higher one.
        PriorityInversion = "priority-inversion",
        /// Elapsed time is spent waiting for devices.
        IoBound = "io-bound",
        /// Threads of a process wait for its address space.
        MemoryLock = "memory-lock",
        /// CPU time goes to pages that are touched for the first time, or threads wait for pages.
        PageFaults = "page-faults",
        /// Threads wait for each other in malloc and free.
        Allocator = "allocator",
        /// One thread waits far longer than its like.
        Starvation = "starvation",
        /// Others wait while one works alone.
        SerialPhase = "serial-phase",
        /// A pipeline's stage that the others wait for.
        SlowStage = "slow-stage",
        /// Callers queue behind a few workers that wait elsewhere.
        SmallPool = "small-pool",
        /// Short sleeps in a loop.
        Polling = "polling",
        /// `sched_yield` in a loop.
        YieldStorm = "yield-storm",
        /// Threads take turns at an interpreter's lock.
        InterpreterLock = "interpreter-lock",
        /// A runtime collects garbage for much of the time.
        GarbageCollection = "garbage-collection",
        /// CPU time goes to spinning for a lock inside the kernel.
        KernelLock = "kernel-lock",
        /// Threads are made for little work each.
        ThreadChurn = "thread-churn",
        /// Threads may run on a few of the CPUs only, and wait for each other there.
        CpuAffinity = "cpu-affinity",
        /// The kernel stops the program when it has used up the CPU time of a period.
        CpuQuota = "cpu-quota",
        /// Nobody goes on until timed waits for a condition run out.
        LostWakeups = "lost-wakeups",
        /// CPU time goes to turning messages into bytes and back.
        CopiedMessages = "copied-messages",
        /// CPU time goes to making encrypted connections.
        ConnectionChurn = "connection-churn",
    }
}

impl Kind {
    /// Whether the severity is a share of CPU time; otherwise it is one of the threads' working time.
    fn costs_cpu_time(self) -> bool {
        use Kind::*;
        matches!(
            self,
            ExcessiveSwitching
                | PingPong
                | SpinWaste
                | HotAtomic
                | KernelHeavy
                | KernelLock
                | ThreadChurn
                | WastedWakeups
                | PageFaults
                | YieldStorm
                | CopiedMessages
                | ConnectionChurn
        )
    }
}

/// Whom or what a finding is about.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A lock: its number, and what is needed to name it without the facts.
    Lock {
        /// Which.
        number: LockNumber,
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

/// What to try; the sentence is the program's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// Shorten the section, split the lock, or cap how many threads contend.
    ShortenSplitOrGate,
    /// Shorter transactions, on rows of their own.
    ShortenTransactions,
    /// Spin briefly before sleeping.
    SpinThenPark,
    /// Do the slow thing outside the lock.
    MoveOutOfSection,
    /// Do the I/O outside the lock, or once for all that wait.
    MoveIoOutOfSection,
    /// Find what lets one in at a time, and give each its own.
    LetSeveralIn,
    /// Read the other end faster, or write outside the lock.
    FasterReader,
    /// Give the two threads' work to one, or hand over in batches.
    MergeOrBatch,
    /// Hand over ahead, so that both work at once.
    LetOverlap,
    /// As many threads as CPUs.
    FewerThreads,
    /// Wake one at a time.
    WakeOne,
    /// Sleep instead of spinning, or back off.
    ParkInsteadOfSpin,
    /// Let threads of OpenMP sleep where they wait for each other, or have fewer of them.
    SleepAtBarriers,
    /// Count per thread, or claim in chunks.
    ShardCounter,
    /// Give each thread's data cache lines of its own.
    OwnLines,
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
    /// Read ahead, in larger pieces, or keep what was read.
    FewerReads,
    /// Map and unmap less often, keep memory.
    FewerMappings,
    /// Larger pages, memory used again.
    LargerPages,
    /// Pages of files that are in memory before they are used.
    PagesAhead,
    /// Another allocator, more arenas, fewer allocations.
    OtherAllocator,
    /// A lock that serves in turn, or lets writers in first.
    FairLock,
    /// Divide what one thread does alone.
    DivideSerialPart,
    /// Start several before one is waited for.
    StartSeveral,
    /// Let loops of Java look now and then whether they are to stop.
    ReachSafepoints,
    /// More threads for the stage, or less work in it.
    WidenStage,
    /// More workers, or calls that do not block them.
    MoreWorkers,
    /// Await calls that block the event loop, or hand them to other threads.
    LetLoopGoOn,
    /// Wait to be woken.
    WaitInsteadOfPolling,
    /// Send less, or share it.
    SendLess,
    /// More in each task for another process.
    LargerTasks,
    /// More in each task of a queue.
    HandOverMore,
    /// More to do for each thread in a round.
    LongerRounds,
    /// A share of the connections for each thread that waits for them.
    SpreadEvents,
    /// Let goroutines sleep until there is something.
    BlockInsteadOfLooking,
    /// Processes, or work that runs outside the interpreter.
    LeaveInterpreter,
    /// Make less garbage, give the collector room, or take another.
    LessGarbage,
    /// Leave it to the runtime when to collect garbage.
    CollectUnasked,
    /// A file, pipe or socket for each thread, or one thread that serves all.
    OwnObjects,
    /// Connections that are kept and used again.
    KeepConnections,
    /// Threads that are kept and used again.
    KeepThreads,
    /// Processes that are kept and asked again.
    KeepProcesses,
    /// Let threads run on more CPUs.
    WidenAffinity,
    /// Let Go run on more CPUs at once.
    RaiseGomaxprocs,
    /// Let a control group use more CPU time.
    RaiseQuota,
    /// Conditions of their own for different waiters, or wakes for all.
    WakeWhoCanGoOn,
    /// Do not wait for more where nobody can send it.
    TakeWhatIsThere,
    /// Wait in the call that takes what comes, of which one is woken.
    WaitInCall,
    /// Take more connections at a time.
    AcceptMore,
    /// Let tasks not wait where those run that they wait for.
    WaitElsewhere,
    /// Calls that another thread serves meanwhile.
    CallAsynchronously,
    /// Take locks in one order everywhere.
    LockInOrder,
    /// Release on every way out.
    ReleaseAlways,
}

/// A `holdup` command that tests a cure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its words after `holdup`, before the program: `["try", "--remedy", "throttle:2"]`.
    pub words: Vec<String>,
    /// Whether the recorded program's command line follows after `--`.
    pub program: bool,
}

impl Finding {
    /// Whether the severity is a share of CPU time; otherwise it is one of the threads' working time.
    pub fn costs_cpu_time(&self) -> bool {
        self.kind.costs_cpu_time() && self.cure != Cure::LetOverlap || self.is_of_refused_calls()
    }

    /// Whether it is a lock that is known by the calls for it that come too late: they take CPU time in place of waits.
    pub(super) fn is_of_refused_calls(&self) -> bool {
        self.kind == Kind::HotLock && self.evidence.iter().any(|evidence| evidence.name == "wasted_calls_per_s")
    }

    /// One that says nothing yet but its kind and what to do.
    pub(super) fn new(kind: Kind, cure: Cure, proof: Command) -> Finding {
        Finding {
            kind,
            severity: 0.0,
            bound: None,
            subjects: Vec::new(),
            place: None,
            evidence: Vec::new(),
            moments: Vec::new(),
            cure,
            proof,
        }
    }
}

/// One kind of finding: how it is found, and the numbers it may show.
pub(super) struct Rule {
    pub kind: Kind,
    pub judge: fn(&Facts) -> Vec<Finding>,
    pub evidence: &'static [&'static str],
}
