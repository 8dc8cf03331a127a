//! The event vocabulary: one fact each, stated by who saw it, never interpreted.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;

use crate::StackId;

/// A thread, by the number that the recorder's own namespace of processes knows it by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Tid(pub u32);

/// A process (thread group), numbered like [`Tid`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct Pid(pub u32);

/// The CPU of an event whose producer did not know it.
pub const NO_CPU: u16 = u16::MAX;

/// One fact.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, on the clock `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// The thread it is about; `Tid(0)` for facts about a CPU or the recording.
    pub tid: Tid,
    /// On which CPU, or [`NO_CPU`].
    pub cpu: u16,
    /// What happened.
    pub what: What,
}

impl Event {
    /// A running total of the whole recording.
    pub fn total(time_ns: u64, counter: Counter, value: u64) -> Event {
        Event { time_ns, tid: Tid(0), cpu: NO_CPU, what: What::Count { counter, value } }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// The thread got the CPU.
    SwitchIn,
    /// The thread left the CPU.
    SwitchOut {
        /// How much the kernel told of why.
        off: OffCpu,
        /// Where it was (user and kernel part), where the rights allow to see it.
        stack: Option<StackId>,
    },
    /// The thread made another one runnable (`sched_waking`): needs rights, see [`Capabilities`](crate::Capabilities).
    Waking {
        /// The thread that is woken.
        target: Tid,
        /// Where the waker was.
        stack: Option<StackId>,
    },
    /// The thread asks the kernel to wait on a futex. No sleep may follow: the kernel returns at once if the value
    /// differs.
    FutexWait {
        /// The operation with its flags.
        op: FutexOp,
        /// The user address that is waited on.
        addr: u64,
        /// The value that the thread expected to find there.
        value: u32,
        /// Where it was.
        stack: Option<StackId>,
    },
    /// A futex call returned. Of calls that wait, those that timed out, were interrupted or failed are recorded, but
    /// for those that found the value changed (they are the waits that no switch follows); that a wait was woken, its
    /// switches tell. Of calls that wake, all that woke somebody, and one in
    /// [`Header::futex_zero_period`](crate::Header::futex_zero_period) of those that woke nobody. An importer may have
    /// more of them.
    FutexReturn {
        /// The operation with its flags.
        op: FutexOp,
        /// The user address.
        addr: u64,
        /// What the kernel returned: 0 or a count, or a negative error number.
        ret: i32,
        /// Where it was; recorded for calls that woke somebody.
        stack: Option<StackId>,
    },
    /// The thread enters another system call that blocks by its nature (sleep, poll, fsync, yield ...). Its return is
    /// not recorded.
    Call {
        /// The number of the system call, of the machine named in the header; of a poll or select of no descriptors,
        /// that of a sleep ([`Numbering::recorded`](crate::Numbering::recorded)).
        nr: CallNumber,
        /// Where it was.
        stack: Option<StackId>,
    },
    /// The thread was found running, by a timer of [`Header::sample_period_ns`](crate::Header::sample_period_ns) on its
    /// CPU.
    Sample {
        /// Where it was.
        stack: StackId,
    },
    /// A page fault that had to read from a device.
    MajorFault {
        /// The address that was touched.
        addr: u64,
        /// Where it was.
        stack: Option<StackId>,
    },
    /// One in some page faults that read from no device. How many there were, the kernel counts.
    MinorFault {
        /// Where it was.
        stack: StackId,
    },
    /// The thread appeared. Its own event: `Event::tid` is the new thread.
    Started {
        /// Its process.
        pid: Pid,
        /// Who made it; `None` for threads that were there when the recording began.
        parent: Option<Tid>,
    },
    /// The thread ended.
    Exited,
    /// The thread got a name.
    Named {
        /// The new name, as the kernel has it.
        name: Box<str>,
        /// Whether the name comes from executing a program: every mapping of the process is then gone.
        exec: bool,
    },
    /// A file was mapped executable into the process of the thread.
    Mapped(Box<Mapping>),
    /// Events of this CPU were lost before this one, since the last event of the same CPU; of all CPUs if it is
    /// [`NO_CPU`].
    Lost {
        /// How many, as far as the kernel counted.
        count: u64,
    },
    /// The memory of a lock, read from outside.
    LockWord {
        /// The user address of the futex.
        addr: u64,
        /// The four bytes there.
        word: u32,
        /// The four bytes that glibc keeps the owner's thread number in (address + 8).
        owner: u32,
    },
    /// A running total since the recording began, or of the interval that the counter names.
    Count {
        /// Of what.
        counter: Counter,
        /// The total.
        value: u64,
    },
    /// What the kernel itself counted for the thread until now, from /proc.
    Usage(Box<ThreadUsage>),
    /// What an interposer in the process of the thread counted for a lock until now.
    LockFigures(Box<LockFigures>),
    /// The thread was found blocked, by a look at /proc from outside. The look takes a moment, in which the thread may
    /// have woken: it is about the time off the CPU that its own time lies in, if there is one. Looks that find what
    /// the last one found are recorded again only if the thread ran between them. Calls that the recorder sees anyway
    /// are not told again, but for those whose file is worth knowing.
    Blocked(Box<Blocked>),
    /// What the thread's interpreter was executing, by a look at its memory from outside. Looks come at regular times,
    /// whatever the thread does: so many of them tell so much time. One with a CPU is of the thread's next sample.
    Interpreted(Box<Interpreted>),
    /// What the tasks of a scheduler in the program (Go's goroutines) were doing, by a look at its memory from outside;
    /// the thread is the process's first.
    Tasks(Box<Tasks>),
    /// Where registers of a running thread pointed to, at the sample right before. Of few samples: instructions that
    /// many samples are of, and of each thread's some.
    Pointers(Box<Pointers>),
}

impl What {
    /// Where the thread itself was, if that was recorded.
    pub fn stack(&self) -> Option<StackId> {
        match self {
            What::SwitchOut { stack, .. }
            | What::Waking { stack, .. }
            | What::FutexWait { stack, .. }
            | What::FutexReturn { stack, .. }
            | What::Call { stack, .. }
            | What::MajorFault { stack, .. } => *stack,
            What::Sample { stack } | What::MinorFault { stack } => Some(*stack),
            What::Blocked(found) => found.stack,
            _ => None,
        }
    }
}

/// Registers of a thread that hold addresses of memory that the program may write to; what other registers hold is
/// nobody's.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pointers {
    /// The instruction that would have run next.
    pub ip: u64,
    /// The registers by the numbers that the machine's instructions have for them (x86-64: rax, rcx, rdx, rbx, rsp,
    /// rbp, rsi, rdi, r8 to r15), below [`Pointers::MOST`], ascending, each with what it holds.
    pub registers: Vec<(u8, u64)>,
}

impl Pointers {
    /// No machine has more registers.
    pub const MOST: u8 = 32;

    /// What a register holds, if that is known.
    pub fn register(&self, number: u8) -> Option<u64> {
        self.registers.iter().find(|(known, _)| *known == number).map(|(_, value)| *value)
    }
}

/// The tasks of one process at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tasks {
    /// How many there were.
    pub all: u64,
    /// How many of them were looked at.
    pub looked: u64,
    /// Those that were, by what they were doing.
    pub groups: Vec<TaskGroup>,
}

/// Tasks that a look found doing the same in the same place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskGroup {
    /// How many.
    pub count: u64,
    /// What their scheduler has them for.
    pub state: TaskState,
    /// What the scheduler says that they wait for, in its own words; empty for those that do not wait.
    pub reason: Arc<str>,
    /// The address of the semaphore or channel that they wait for; 0 for none, for a channel that nobody else waits
    /// for, or if it is not known.
    pub addr: u64,
    /// How many places the channel has that they wait for, if that is known.
    pub places: Option<u64>,
    /// The number of one of them, by which the next look tells them from others; 0 if it is not known.
    pub example: u64,
    /// Where in the program they are, if their stacks could be read.
    pub stack: Option<StackId>,
}

/// What a scheduler in a program has a task for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TaskState {
    /// It could run, and waits for a thread.
    Runnable,
    /// A thread runs it.
    Running,
    /// It is in a system call, or in code of another language.
    Call,
    /// It waits to be made runnable.
    #[default]
    Waiting,
}

/// What an interpreter executes in a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interpreted {
    /// Whether the thread has the lock that the interpreter runs under.
    pub holds: bool,
    /// The interpreted functions, innermost first.
    pub frames: Arc<[InterpretedFrame]>,
}

/// A place in interpreted code.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InterpretedFrame {
    /// The function, as its language qualifies it.
    pub function: Arc<str>,
    /// The source file.
    pub file: Arc<str>,
    /// The line, from 1; 0 if it is not known.
    pub line: u32,
}

/// How a thread was found blocked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocked {
    /// The system call that it is in; `None` outside of any, as in a page fault.
    pub nr: Option<CallNumber>,
    /// The kernel's function that it waits in, where it may be known.
    pub wchan: Option<Box<str>>,
    /// What the descriptor that the call is about stands for: a path, `socket:[...]`, `pipe:[...]`, `anon_inode:[...]`.
    pub file: Option<Box<str>>,
    /// Whether signals cannot interrupt the sleep (`D`).
    pub deep: bool,
    /// The call's first argument: a futex call's address, another's descriptor. 0 outside of calls.
    pub addr: u64,
    /// Where in the program it is, if its stack could be read.
    pub stack: Option<StackId>,
}

/// What an interposed process counted for one of its locks. Counts are exact; of durations, a part may have been
/// measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct LockFigures {
    /// The address of the lock, which is that of its futex.
    #[serde(skip)]
    pub addr: u64,
    /// Acquisitions.
    pub acquisitions: u64,
    /// Acquisitions that did not succeed at the first try.
    pub contended: u64,
    /// Acquisitions that slept.
    pub slept: u64,
    /// Threads that acquired it.
    pub threads: u32,
    /// Waits of contended acquisitions.
    pub wait: Spread,
    /// Times that it was held.
    pub hold: Spread,
}

/// How long something took, many times. Quantiles come from a histogram whose buckets double in width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Spread {
    /// How many were measured.
    #[serde(rename = "measured")]
    pub count: u64,
    /// How many each of them stands for.
    pub scale: u64,
    /// The measured ones together.
    pub sum_ns: u64,
    /// Half of them took no longer.
    #[serde(rename = "median_ns")]
    pub p50_ns: u64,
    /// 99% of them took no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// Why a thread left its CPU, as far as the kernel told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffCpu {
    /// It was still able to run: it was preempted or yielded.
    Runnable,
    /// It blocked; the kernel did not say how.
    Blocked,
    /// It blocked in a sleep that signals can interrupt (`S`).
    Sleeping,
    /// It blocked in a sleep that signals cannot interrupt (`D`).
    Uninterruptible,
    /// It ended, or was stopped by a signal or a debugger.
    Gone,
}

/// How the path of a [`Mapping`] begins that is no file, but a method that Java's machine compiled: its name follows.
pub const CODE_OF_JAVA: &str = "[java] ";

/// A mapping of executable code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The process.
    pub pid: Pid,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Where in the file it begins, in bytes; of a compiled method, how many bytes behind its start the first `pause`
    /// ends, 0 without one.
    pub offset: u64,
    /// The file, or a name in brackets as in /proc/PID/maps, or a compiled method ([`CODE_OF_JAVA`]).
    pub path: Box<str>,
    /// The file's build id, where the kernel or the file told it.
    pub build_id: Option<Box<[u8]>>,
}

/// A futex operation as the kernel gets it: command and flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FutexOp(pub u32);

impl FutexOp {
    /// FUTEX_WAIT.
    pub const WAIT: u32 = 0;
    /// FUTEX_WAKE.
    pub const WAKE: u32 = 1;
    /// FUTEX_REQUEUE.
    pub const REQUEUE: u32 = 3;
    /// FUTEX_CMP_REQUEUE.
    pub const CMP_REQUEUE: u32 = 4;
    /// FUTEX_WAKE_OP.
    pub const WAKE_OP: u32 = 5;
    /// FUTEX_LOCK_PI.
    pub const LOCK_PI: u32 = 6;
    /// FUTEX_UNLOCK_PI.
    pub const UNLOCK_PI: u32 = 7;
    /// FUTEX_TRYLOCK_PI.
    pub const TRYLOCK_PI: u32 = 8;
    /// FUTEX_WAIT_BITSET.
    pub const WAIT_BITSET: u32 = 9;
    /// FUTEX_WAKE_BITSET.
    pub const WAKE_BITSET: u32 = 10;
    /// FUTEX_WAIT_REQUEUE_PI.
    pub const WAIT_REQUEUE_PI: u32 = 11;
    /// FUTEX_CMP_REQUEUE_PI.
    pub const CMP_REQUEUE_PI: u32 = 12;
    /// FUTEX_LOCK_PI2.
    pub const LOCK_PI2: u32 = 13;
    /// The system call `futex_waitv` (and `futex_wait` of the second interface), which has no operation of its own.
    pub const WAITV: u32 = 64;
    /// The system call `futex_wake` of the second interface.
    pub const WAKE2: u32 = 65;

    const PRIVATE: u32 = 128;
    const CLOCK_REALTIME: u32 = 256;

    /// The command without its flags.
    pub fn command(self) -> u32 {
        self.0 & !(Self::PRIVATE | Self::CLOCK_REALTIME)
    }

    /// Whether the futex is private to the process.
    pub fn is_private(self) -> bool {
        self.0 & Self::PRIVATE != 0
    }

    /// Whether a timeout would be of the real-time clock.
    pub fn is_realtime(self) -> bool {
        self.0 & Self::CLOCK_REALTIME != 0
    }

    /// Whether the call can put the thread to sleep.
    pub fn waits(self) -> bool {
        matches!(
            self.command(),
            Self::WAIT | Self::WAIT_BITSET | Self::LOCK_PI | Self::LOCK_PI2 | Self::WAIT_REQUEUE_PI | Self::WAITV
        )
    }

    /// Whether the call can wake others.
    pub fn wakes(self) -> bool {
        !self.waits() && self.command() != Self::TRYLOCK_PI
    }
}

/// A system call number; 64-bit numbering of the machine in the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[schemars(inline)]
pub struct CallNumber(pub u16);

/// What is counted instead of being recorded one by one, or beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Counter {
    /// Futex calls of all kinds.
    FutexCalls,
    /// Futex calls that returned EAGAIN: the value had changed, nobody slept.
    FutexAgain,
    /// CPU cycles of the target on the event's CPU, in user mode.
    Cycles,
    /// Instructions of the target on the event's CPU.
    Instructions,
    /// References to the second-level cache that missed.
    L2Misses,
    /// References to the last-level cache that missed.
    L3Misses,
    /// Migrations of the target's threads between CPUs.
    Migrations,
    /// Page faults without a device.
    MinorFaults,
    /// CPU time of the recorder itself in nanoseconds.
    RecorderCpuNs,
    /// Calls of the target that read or write, of whatever kind.
    TransferCalls,
    /// Bytes that these read or wrote.
    TransferBytes,
    /// Cycles of the target on the event's CPU at the nominal frequency, whatever the CPU's own was.
    ReferenceCycles,
    /// Cycles that the event's CPU would have had at its nominal frequency since the recording began, asleep or not.
    NominalCycles,
    /// References to the second-level cache.
    L2References,
    /// References to the last-level cache.
    L3References,
    /// CPU time that a control group of the target, or one that it is in, was allowed, in nanoseconds.
    QuotaNs,
    /// Periods for each of which that group is allowed so much, while some of it could run.
    QuotaPeriods,
    /// Those of them in which it had used up what it was allowed and was stopped.
    ThrottledPeriods,
    /// How long connections have waited until the target accepts them, all together, in nanoseconds.
    ConnectionsWaitedNs,
}

/// What the kernel counted for one thread over its whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ThreadUsage {
    /// Voluntary context switches.
    pub voluntary: u64,
    /// Involuntary context switches.
    pub involuntary: u64,
    /// CPU time in user mode, in nanoseconds.
    pub user_ns: u64,
    /// CPU time in the kernel, in nanoseconds.
    pub kernel_ns: u64,
    /// Scheduling priority as /proc/TID/stat has it (20 is normal, lower is better, negative is real time);
    /// [`ThreadUsage::IDLE_PRIORITY`] for one that runs only when nobody else wants to.
    pub priority: i32,
    /// On how many CPUs it may run; 0 where that is not known.
    pub allowed_cpus: u32,
    /// The first of them.
    pub first_cpu: u32,
}

impl ThreadUsage {
    /// The priority of a thread that runs only when nobody else wants to (`SCHED_IDLE`): below that of all others.
    pub const IDLE_PRIORITY: i32 = 40;
}
