//! What a recording says once it is added up: the numbers that findings judge and reports show.
//!
//! Every duration is in nanoseconds, every figure covers the recording from [`Facts::start_ns`] to [`Facts::end_ns`]
//! unless it says otherwise. A figure that was not recorded with these capabilities is `None`, never zero.
//!
//! Their JSON and its schema are derived here: a key is a field's name, its description the field's comment. What is
//! skipped is either not reported, or named by the program, which knows how places are called.

use std::collections::BTreeMap;
use std::ops::AddAssign;
use std::sync::Arc;

use holdup_trace::json::{Hex, optional, rows, shown};
use holdup_trace::{CallNumber, Counter, Ending, Header, Pid, ThreadUsage, Tid};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

use crate::Histogram;
use crate::efficiency::Efficiency;
use crate::names::{Frame, Role};

/// Everything that was added up.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Facts {
    /// What the recording says about itself.
    pub header: Header,
    /// Its end; null if it was cut off.
    pub ending: Option<Ending>,
    /// First moment that the figures cover, on the machine's monotonic clock, as every moment here.
    pub start_ns: u64,
    /// Last moment.
    pub end_ns: u64,
    /// Sums over all threads.
    pub totals: Totals,
    /// Per CPU, in order.
    pub cpus: Vec<CpuFacts>,
    /// Per socket, in order; empty where the machine did not tell which CPU sits where.
    pub sockets: Vec<SocketFacts>,
    /// Processes, by number.
    pub processes: Vec<ProcessFacts>,
    /// Threads, by when they appeared.
    pub threads: Vec<ThreadFacts>,
    /// Whatever threads waited for on a futex, most time lost first; those that are idle by design are among them, see
    /// [`Primitive::is_contention`].
    #[serde(skip)]
    pub locks: Vec<LockFacts>,
    /// Threads that woke each other or ran in turn, most round trips first.
    #[serde(skip)]
    pub pairs: Vec<PairFacts>,
    /// CPU samples by function, most first.
    pub symbols: Vec<Code>,
    /// CPU samples by module, most first.
    pub modules: Vec<Code>,
    /// CPU samples by the function that a goroutine began with, most first; without the runtime's own.
    #[serde(skip)]
    pub tasks: Vec<Task>,
    /// What goroutines of Go's programs were found doing, per process that could be looked into.
    #[serde(skip)]
    pub goroutines: Vec<GoroutineFacts>,
    /// Instructions where samples pile up, most first.
    #[serde(skip)]
    pub hotspots: Vec<Hotspot>,
    /// Cache lines that threads fight over with plain instructions, most samples first.
    #[serde(skip)]
    pub lines: Vec<LineFacts>,
    /// Calls that block by nature: how often each.
    #[serde(serialize_with = "rows::<_, Calls, _>")]
    #[schemars(with = "Vec<Calls>")]
    pub calls: BTreeMap<CallNumber, u64>,
    /// Where threads yielded (`sched_yield`), most first.
    #[serde(skip)]
    pub yield_sites: Vec<Site>,
    /// Where threads left the CPU because of each other (waits on a futex of any kind, yields), most often first.
    #[serde(skip)]
    pub switch_sites: Vec<Site>,
    /// CPU samples in the kernel by the function of the program that called it, most first; without the kernel's own
    /// frames.
    #[serde(skip)]
    pub kernel_sites: Vec<Site>,
    /// Page faults by the function of the program that touched the page, most first, where the kernel is not sampled.
    /// Their times are not known.
    #[serde(skip)]
    pub fault_sites: Vec<Site>,
    /// The part of `kernel_sites` in the kernel's futex code.
    #[serde(skip)]
    pub futex_sites: Vec<Site>,
    /// CPU samples by function of the program while only one thread was running or runnable, most first.
    #[serde(skip)]
    pub alone_sites: Vec<Site>,
    /// The others.
    #[serde(skip)]
    pub parallel_sites: Vec<Site>,
    /// Samples in loops that wait, of all threads, that were taken while another thread of the program waited for a CPU
    /// that other programs had.
    pub spun_beside_displaced: u64,
    /// Running totals, the last of each, summed over CPUs; one that was not recorded is absent.
    #[schemars(transform = named_by_counter)]
    pub counters: BTreeMap<Counter, u64>,
    /// What these say of all CPUs together.
    pub efficiency: Efficiency,
    /// The time of all threads by state, as shares that add up to 1.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub account: Account,
    /// Waits, each followed to what it came from, most time first.
    #[serde(skip)]
    pub blame: Vec<Blame>,
    /// What the elapsed time is made of.
    #[serde(skip)]
    pub path: Path,
    /// Calls that several threads block in, never two of them at once, the longest first.
    #[serde(skip)]
    pub turns: Vec<TurnFacts>,
    /// Threads that wait for events in one function and are woken together.
    #[serde(skip)]
    pub poll_herds: Option<PollHerds>,
    /// What Java's machine waited for to stop all threads.
    #[serde(skip)]
    pub safepoints: Option<SafepointFacts>,
}

impl Facts {
    /// Length of the recording.
    pub fn span_ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.start_ns)
    }

    /// How many switches of what the kernel counted were recorded. It counts the last one of a process, whose first
    /// thread leaves its CPU for good; here that is no wait, and in no total.
    pub fn recorded_of(&self, counted: u64) -> u64 {
        let ends = self.threads.iter().filter(|thread| thread.exited && thread.tid.0 == thread.pid.0).count() as u64;
        let recorded = self.totals.switches;
        recorded + counted.saturating_sub(recorded).min(ends)
    }

    /// How long other programs had the CPUs that the program's threads wanted, and how long the threads were there to
    /// work, that included.
    pub(crate) fn displacement(&self) -> (u64, u64) {
        let off =
            |reason| self.threads.iter().filter_map(|thread| thread.off.get(&reason)).map(|off| off.ns).sum::<u64>();
        let displaced_ns = off(Reason::Displaced);
        let work_ns: u64 = self.threads.iter().map(|thread| thread.on_cpu_ns + thread.lock_wait_ns).sum();
        (displaced_ns, displaced_ns + work_ns + off(Reason::Preempted))
    }

    /// The locks with their numbers.
    pub fn numbered_locks(&self) -> impl Iterator<Item = (LockNumber, &LockFacts)> {
        (0..).map(LockNumber).zip(&self.locks)
    }

    /// The lock with this number.
    pub fn lock(&self, number: LockNumber) -> Option<&LockFacts> {
        self.locks.get(number.index())
    }

    /// A process by its number.
    pub fn process(&self, pid: Pid) -> Option<&ProcessFacts> {
        self.processes.iter().find(|process| process.pid == pid)
    }

    /// A running total; 0 if it was not counted.
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counters.get(&counter).copied().unwrap_or(0)
    }

    /// The thread with this number; of several in time, the last.
    pub fn thread(&self, tid: Tid) -> Option<&ThreadFacts> {
        self.threads.iter().rev().find(|thread| thread.tid == tid)
    }
}

/// Which lock: its place in [`Facts::locks`]. The numbers of the mutexes of goroutines follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LockNumber(pub u32);

impl LockNumber {
    /// As an index.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Sums over all threads.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Totals {
    /// Events read.
    pub events: u64,
    /// Events that the kernel could not deliver.
    pub lost: u64,
    /// Times a thread left a CPU.
    pub switches: u64,
    /// Of these, those where it could have gone on: preempted or yielded.
    pub involuntary: u64,
    /// CPU time.
    pub on_cpu_ns: u64,
    /// Sum of the threads' lives within the recording: what shares of thread time are shares of.
    pub thread_ns: u64,
    /// Time in contended waits, of all threads.
    pub lock_wait_ns: u64,
    /// Length of each stay on a CPU.
    pub run_ns: Histogram,
    /// Time between being made runnable and running, where it is known.
    pub run_delay_ns: Histogram,
    /// Time during which so many threads were running or runnable: entry n for exactly n, the last for that many and
    /// more.
    pub runnable_ns: Vec<u64>,
    /// CPU samples in user code.
    pub user_samples: u64,
    /// CPU samples in the kernel; null if none could be taken there.
    pub kernel_samples: Option<u64>,
    /// Futex wakes by the target that woke nobody.
    pub wasted_wakes: u64,
}

/// What a scheduler of its own runs on a program's threads: all tasks that began with the same function.
#[derive(Clone, Debug, Default)]
pub struct Task {
    /// The function.
    pub function: String,
    /// CPU samples.
    pub samples: u64,
    /// Those of them that were taken while no other thread was running or runnable.
    pub alone: u64,
    /// Where most of them were taken.
    pub site: Site,
}

/// What the goroutines of one process were found doing, without those of Go's runtime.
#[derive(Clone, Debug, Default)]
pub struct GoroutineFacts {
    /// Which process.
    pub pid: Pid,
    /// How often they were looked at.
    pub looks: u64,
    /// How many there were, on average over the looks, as every number of goroutines here.
    pub mean: f64,
    /// What they were doing where, most first.
    pub doing: Vec<GoroutineGroup>,
    /// Mutexes that they were found waiting for, most first.
    pub mutexes: Vec<GoroutineLock>,
    /// Channels that they were found waiting to send into, by where they send, most first.
    pub sends: Vec<GoroutineLock>,
    /// What they were found waiting for where only so many may go on at a time, most first: a channel with a value for
    /// each who may, or a place in a queue whose head is let in by who leaves.
    pub entries: Vec<GoroutineLock>,
    /// Of several that began together, the last, which somebody waits for.
    pub last: Option<LastGoroutine>,
}

/// The last of several goroutines that began together with one function.
#[derive(Clone, Debug, Default)]
pub struct LastGoroutine {
    /// How many there were at most.
    pub most: u64,
    /// The share of all looks that find one of them alone, and somebody who waits for a wait group.
    pub alone: f64,
    /// Where it mostly is then.
    pub site: Site,
}

/// Goroutines that do the same in the same function.
#[derive(Clone, Debug, Default)]
pub struct GoroutineGroup {
    /// What.
    pub state: GoroutineState,
    /// Where; no call path where it is not known, as of those that run.
    pub site: Site,
    /// How many.
    pub mean: f64,
    /// Of those that sleep in a loop that does nothing but look.
    pub looking: Option<Looking>,
}

/// Goroutines that look again and again whether something has happened, and sleep in between.
#[derive(Clone, Copy, Debug, Default)]
pub struct Looking {
    /// The share of looks at goroutines that find one.
    pub share: f64,
    /// How often another one was there than before, or one again or no longer.
    pub turns: u64,
}

/// What a goroutine does, or waits for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GoroutineState {
    /// A thread runs it.
    Running,
    /// It waits for a thread.
    Runnable,
    /// It is in a system call, or in code of another language.
    Call,
    /// It waits for a mutex, also one of readers and writers.
    Mutex,
    /// It waits until a channel takes what it sends.
    Send,
    /// It waits for what comes in a channel, or for one of several channels.
    Receive,
    /// It waits for others by other means: a condition variable, a wait group.
    Others,
    /// It waits for time to pass.
    Sleep,
    /// It waits for a socket, a pipe or a file.
    Network,
    /// It waits for the runtime, or for what is not known.
    #[default]
    Unknown,
}

/// What goroutines wait for: a mutex, or places in a channel.
#[derive(Clone, Debug, Default)]
pub struct GoroutineLock {
    /// Where they wait, most first.
    pub wait_sites: Vec<Site>,
    /// The function that mostly waits, and its line.
    pub name: LockName,
    /// How many wait, on average over all looks.
    pub waiters: f64,
    /// Most that waited at once.
    pub most: u64,
    /// The share of the looks in which any waited.
    pub contended: f64,
    /// What was seen of who kept them waiting; `None` if that cannot be told.
    pub holder: Option<GoroutineHolder>,
}

/// Who keeps goroutines waiting, by all appearance.
#[derive(Clone, Debug, Default)]
pub struct GoroutineHolder {
    /// How many such there are at a time.
    pub mean: f64,
    /// What they do.
    pub doing: GoroutineState,
    /// Where they do it, most first.
    pub sites: Vec<Site>,
    /// The function that most of them began with, if those who wait for them began with another.
    pub began: Option<String>,
}

/// One CPU.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct CpuFacts {
    /// Time that threads of the target ran here.
    pub busy_ns: u64,
    /// Times one left.
    pub switches: u64,
    /// Events lost here.
    pub lost: u64,
    /// Running totals of this CPU, the last of each.
    #[schemars(transform = named_by_counter)]
    pub counters: BTreeMap<Counter, u64>,
    /// What the hardware's counters say.
    pub efficiency: Efficiency,
}

/// The CPUs of one socket.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct SocketFacts {
    /// Its number.
    pub socket: u32,
    /// Time that threads of the target ran on its CPUs.
    pub busy_ns: u64,
    /// What the hardware's counters say of them together.
    pub efficiency: Efficiency,
}

/// One process.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ProcessFacts {
    /// Its number.
    pub pid: Pid,
    /// The name of its first thread.
    pub name: String,
    /// The file that it executes, where mappings tell.
    pub program: Option<String>,
    /// What it executed last while it was recorded, in the first 15 bytes of the file's name; null if nothing.
    pub executed: Option<String>,
    /// The process that started it, if that has executed nothing since.
    #[serde(skip)]
    pub started_by: Option<Pid>,
    /// How many of its threads were seen.
    pub threads: usize,
}

/// One thread.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ThreadFacts {
    /// Its number.
    pub tid: Tid,
    /// Its process.
    pub pid: Pid,
    /// Its last name.
    pub name: String,
    /// First moment that it is known to exist.
    pub born_ns: u64,
    /// Last moment.
    pub ended_ns: u64,
    /// Whether it ended within the recording.
    pub exited: bool,
    /// CPU time.
    pub on_cpu_ns: u64,
    /// Its life by state, as shares that add up to 1.
    #[schemars(with = "BTreeMap<String, f64>")]
    pub account: Account,
    /// Time off CPU by reason, and how often.
    #[serde(serialize_with = "rows::<_, OffPart, _>")]
    #[schemars(with = "Vec<OffPart>")]
    pub off: BTreeMap<Reason, OffTime>,
    /// Times it left a CPU while it could have gone on.
    pub involuntary: u64,
    /// Times it left a CPU to wait.
    pub voluntary: u64,
    /// Length of its stays on a CPU.
    pub run_ns: Histogram,
    /// Time from runnable to running, where known.
    pub run_delay_ns: Histogram,
    /// Times it ran on another CPU than before.
    pub migrations: u64,
    /// CPU samples in user code.
    pub user_samples: u64,
    /// CPU samples in the kernel.
    pub kernel_samples: u64,
    /// Those of all its samples that were taken while no other thread was running or runnable.
    #[serde(skip)]
    pub alone_samples: u64,
    /// Its samples by whose work they are of.
    #[serde(skip)]
    pub lock_samples: LockSamples,
    /// CPU time that it only waited with, in loops, as far as CPU samples tell.
    #[serde(skip)]
    pub spun_ns: u64,
    /// The part of it in which it waited for others to come as far.
    #[serde(skip)]
    pub spun_together_ns: u64,
    /// Samples in parallel regions of OpenMP, and between them.
    #[serde(skip)]
    pub regions: Regions,
    /// Time in contended waits, a part of `off`.
    pub lock_wait_ns: u64,
    /// Futex calls by this thread that woke somebody.
    pub wakes: u64,
    /// Waits of other threads that it ended, of any kind but for a lock.
    #[serde(skip)]
    pub ended_waits: u64,
    /// Length of those waits of its own that no other thread ended, until it could go on.
    #[serde(skip)]
    pub timed_ns: Histogram,
    /// CPU samples by function of the program, with the call path that has most of them, most first.
    #[serde(skip)]
    pub hot_sites: Vec<Site>,
    /// Where it left the CPU for what is no futex: calls that sleep, or wait for a device or another end, most time
    /// first.
    #[serde(skip)]
    pub off_sites: Vec<Site>,
    /// Of these, where it mostly sleeps, in a loop that does nothing but look.
    #[serde(skip)]
    pub looking: Option<Site>,
    /// Whether it hands something on before each of the sleeps where it mostly sleeps.
    #[serde(skip)]
    pub hands_on: bool,
    /// Sleeps right after it called for a lock of a file once, and did not have to wait; or in a loop that does nothing
    /// but try to take a lock.
    #[serde(skip)]
    pub retries: OffTime,
    /// What the kernel counted at the first and the last reading.
    #[serde(flatten, serialize_with = "shown::<_, Usages, _>")]
    #[schemars(flatten, with = "Usages")]
    pub usage: Option<(ThreadUsage, ThreadUsage)>,
}

impl ThreadFacts {
    /// Its life within the recording.
    pub fn life_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.born_ns)
    }

    /// From when to when that is.
    pub(crate) fn life(&self) -> (u64, u64) {
        (self.born_ns, self.ended_ns)
    }

    /// CPU time in which it did not wait for others to come as far.
    pub fn worked_ns(&self) -> u64 {
        self.on_cpu_ns.saturating_sub(self.spun_together_ns)
    }
}

/// Where a thread runs that has parallel regions of OpenMP.
#[derive(Clone, Debug, Default)]
pub struct Regions {
    /// Samples in them, without those in which it only waits.
    pub inside: u64,
    /// Samples between them.
    pub between: u64,
    /// The function of the program in which most samples between them are.
    pub site: Option<Site>,
}

/// Time off CPU for one reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct OffTime {
    /// How often.
    pub count: u64,
    /// How long in all.
    #[serde(rename = "time_ns")]
    pub ns: u64,
}

impl OffTime {
    /// One time of this length.
    pub(crate) fn once(ns: u64) -> OffTime {
        OffTime { count: 1, ns }
    }
}

impl AddAssign for OffTime {
    fn add_assign(&mut self, other: OffTime) {
        self.count += other.count;
        self.ns += other.ns;
    }
}

/// What a thread's time goes to. Of a thread's life, the times of all states add up to the whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AccountState {
    /// It runs the program's code, or the kernel's for it.
    Running,
    /// It runs, but only waits: in a loop, or giving the CPU away again and again.
    Spinning,
    /// It could run, and other threads of the program have the CPUs.
    #[serde(rename = "waiting_for_cpu")]
    CpuOwn,
    /// It could run, and other programs have its CPU.
    #[serde(rename = "displaced")]
    CpuOther,
    /// It waits for a lock.
    #[serde(rename = "waiting_for_lock")]
    Lock,
    /// It waits for something to do: on a condition variable, a semaphore, a channel, in poll.
    #[serde(rename = "waiting_for_work")]
    Work,
    /// It waits for other threads to come as far, or to end; or for a child process.
    #[serde(rename = "waiting_for_threads")]
    Barrier,
    /// It waits for a device.
    #[serde(rename = "waiting_for_io")]
    Io,
    /// It waits for memory: a page from a device, or the address space that another thread changes.
    #[serde(rename = "waiting_for_memory")]
    Memory,
    /// It waits for time to pass.
    #[serde(rename = "sleeping")]
    Sleep,
    /// It is not known what it waits for.
    Unknown,
}

impl AccountState {
    /// How many there are.
    pub const COUNT: usize = 11;

    /// All, in the order of the account.
    pub const ALL: [AccountState; AccountState::COUNT] = [
        AccountState::Running,
        AccountState::Spinning,
        AccountState::CpuOwn,
        AccountState::CpuOther,
        AccountState::Lock,
        AccountState::Work,
        AccountState::Barrier,
        AccountState::Io,
        AccountState::Memory,
        AccountState::Sleep,
        AccountState::Unknown,
    ];

    /// Its name in files: `waiting-for-lock`.
    pub fn name(self) -> &'static str {
        match self {
            AccountState::Running => "running",
            AccountState::Spinning => "spinning",
            AccountState::CpuOwn => "waiting_for_cpu",
            AccountState::CpuOther => "displaced",
            AccountState::Lock => "waiting_for_lock",
            AccountState::Work => "waiting_for_work",
            AccountState::Barrier => "waiting_for_threads",
            AccountState::Io => "waiting_for_io",
            AccountState::Memory => "waiting_for_memory",
            AccountState::Sleep => "sleeping",
            AccountState::Unknown => "unknown",
        }
    }

    /// What time off the CPU for this reason counts for.
    pub fn of(reason: Reason) -> AccountState {
        use Primitive::{Barrier, Join, Once};
        match reason {
            Reason::Futex(primitive) if primitive.is_contention() => AccountState::Lock,
            Reason::Futex(Barrier | Join | Once) | Reason::Child => AccountState::Barrier,
            Reason::Futex(_) | Reason::Poll | Reason::Peer => AccountState::Work,
            Reason::Sleep => AccountState::Sleep,
            Reason::Io => AccountState::Io,
            Reason::PageFault | Reason::Memory => AccountState::Memory,
            Reason::Preempted | Reason::Starting => AccountState::CpuOwn,
            Reason::Displaced => AccountState::CpuOther,
            Reason::Yielded => AccountState::Spinning,
            Reason::OtherCall | Reason::Unknown => AccountState::Unknown,
        }
    }

    /// Whether the thread is off the CPU and cannot run before something happens.
    pub fn is_wait(self) -> bool {
        !matches!(self, AccountState::Running | AccountState::Spinning | AccountState::CpuOwn | AccountState::CpuOther)
    }
}

/// Time by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// In the order of [`AccountState::ALL`].
    pub ns: [u64; AccountState::COUNT],
}

impl Account {
    /// The time in one state.
    pub fn of(&self, state: AccountState) -> u64 {
        self.ns[state as usize]
    }

    /// All of it.
    pub fn total_ns(&self) -> u64 {
        self.ns.iter().sum()
    }

    /// The time in states that are no waits: the thread was on a CPU, or could go on.
    pub fn active_ns(&self) -> u64 {
        AccountState::ALL.into_iter().filter(|state| !state.is_wait()).map(|state| self.of(state)).sum()
    }

    /// The share of one state.
    pub fn share(&self, state: AccountState) -> f64 {
        match self.total_ns() {
            0 => 0.0,
            total => self.of(state) as f64 / total as f64,
        }
    }
}

impl Serialize for Account {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(AccountState::ALL.map(|state| (state.name(), self.share(state))))
    }
}

/// What a wait ends in, if each waker is followed to what it did meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Leaf {
    /// A thread ran.
    Running,
    /// A thread gave its CPU away again and again.
    Yielding,
    /// A thread could run and did not get a CPU that others of the program had.
    Cpu,
    /// Other programs had its CPU.
    OtherPrograms,
    /// A thread waited for a device.
    Io,
    /// A thread waited for memory.
    Memory,
    /// A thread slept, or a timeout passed.
    Sleep,
    /// Somebody outside the program had to do something.
    Outside,
    /// Not known.
    Unknown,
}

impl Leaf {
    /// All, in order.
    pub const ALL: [Leaf; 9] = [
        Leaf::Running,
        Leaf::Yielding,
        Leaf::Cpu,
        Leaf::OtherPrograms,
        Leaf::Io,
        Leaf::Memory,
        Leaf::Sleep,
        Leaf::Outside,
        Leaf::Unknown,
    ];
}

/// A branch of the blame tree: threads wait for something, and what that came from.
#[derive(Clone, Debug)]
pub struct Blame {
    /// Who waits.
    pub waiter: Tid,
    /// For which lock or other futex; `None` for what is no futex.
    pub lock: Option<LockNumber>,
    /// What its waker waited for in turn, if it did.
    pub via: Option<LockNumber>,
    /// What the chain ended in.
    pub leaf: Leaf,
    /// Whose doing that was; `Tid(0)` if nobody's that is known.
    pub thread: Tid,
    /// Where that thread left the CPU, or where it runs mostly.
    pub site: Option<Site>,
    /// The file, pipe or socket that it was found blocked on.
    pub file: Option<String>,
    /// Who asked that thread for something and waits for the answer, the last on the chain; may be who waits itself.
    pub asker: Option<Tid>,
    /// How long.
    pub ns: u64,
}

/// A call that threads block in by turns, though they wait for no lock.
#[derive(Clone, Debug, Default)]
pub struct TurnFacts {
    /// Who does, by number.
    pub threads: Vec<Tid>,
    /// Where: how often, and for how long in all.
    pub site: Site,
}

/// Threads that wait for events in one function and are woken together.
#[derive(Clone, Debug, Default)]
pub struct PollHerds {
    /// How often, and how many.
    pub herds: Herds,
    /// Where they wait.
    pub site: Site,
}

/// Waits of Java's machine until all threads had stopped.
#[derive(Clone, Debug, Default)]
pub struct SafepointFacts {
    /// The machine's thread that waits.
    pub machine: Tid,
    /// How long it slept for that, in all.
    pub ns: u64,
    /// How often.
    pub times: u64,
    /// Threads of the process, by how long they ran or could run meanwhile, those first that did longest.
    pub ran: Vec<(Tid, u64)>,
}

/// What the elapsed time is made of, walked backwards from its end.
#[derive(Clone, Debug, Default)]
pub struct Path {
    /// Its pieces by what and whose they are, longest first.
    pub parts: Vec<PathPart>,
    /// By lock: how long the path ran elsewhere because a thread of it waited for that.
    pub locks: Vec<(LockNumber, u64)>,
    /// Each piece in order of time, if a timeline was asked for.
    pub pieces: Vec<PathPiece>,
}

impl Path {
    /// How long it ran elsewhere because a thread of it waited for this lock.
    pub(crate) fn of_lock(&self, number: LockNumber) -> u64 {
        self.locks.iter().find(|(lock, _)| *lock == number).map_or(0, |(_, ns)| *ns)
    }

    /// The share of so long a recording that goes by in sleeps, and where the longest are.
    pub fn sleeps(&self, span_ns: u64) -> Option<(f64, &Site)> {
        let asleep = || self.parts.iter().filter(|part| part.leaf == Leaf::Sleep);
        let site = asleep().max_by_key(|part| part.ns)?.site.as_ref()?;
        Some((asleep().map(|part| part.ns).sum::<u64>() as f64 / span_ns.max(1) as f64, site))
    }
}

/// A sum of the path.
#[derive(Clone, Debug)]
pub struct PathPart {
    /// What.
    pub leaf: Leaf,
    /// Which thread.
    pub thread: Tid,
    /// Where it left the CPU, or where it runs mostly.
    pub site: Option<Site>,
    /// The file, pipe or socket that it was found blocked on.
    pub file: Option<String>,
    /// How long.
    pub ns: u64,
}

/// A piece of the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPiece {
    /// From.
    pub from_ns: u64,
    /// To.
    pub to_ns: u64,
    /// What.
    pub leaf: Leaf,
    /// Which thread.
    pub thread: Tid,
}

/// Why a thread was off CPU; a wait on a futex by what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum Reason {
    /// Asked to sleep for a time.
    Sleep = 1,
    /// Waiting for descriptors (poll, select, epoll) or in another call that waits for events by design.
    Poll,
    /// Waiting for data to reach or come from a device (fsync, uninterruptible sleep).
    Io,
    /// Waiting for a child process.
    Child,
    /// Reading a page from a device.
    PageFault,
    /// Waiting for the address space, which other threads of the process change (mmap, munmap, page faults).
    Memory,
    /// Waiting for what another thread or process sends: a pipe, a socket, a terminal, a message queue.
    Peer,
    /// It could run, but another thread of the target had its CPU.
    Preempted,
    /// It could run, but for most of the time its CPU was not with the target: other programs had it, or the
    /// hypervisor.
    Displaced,
    /// It gave the CPU away (`sched_yield`).
    Yielded,
    /// Another blocking call than those that are recorded by name.
    OtherCall,
    /// It had not run yet: from its start to its first run.
    Starting,
    /// It left for a reason that is not known (events were lost).
    Unknown,
    /// Waiting for what a futex stands for. Stands last because serde wants what has no word of its own there; its
    /// number keeps it first in order.
    #[serde(untagged)]
    Futex(Primitive) = 0,
}

impl Reason {
    /// Whether waiting for this is what the program means to do when it has nothing else to do.
    pub fn is_idle(self) -> bool {
        match self {
            Reason::Futex(primitive) => !primitive.is_contention(),
            Reason::Sleep | Reason::Poll | Reason::Child | Reason::Peer => true,
            _ => false,
        }
    }
}

/// What a futex stands for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Primitive {
    /// pthread_mutex (also behind std::mutex of C++ and mtx_t).
    Mutex,
    /// A mutex with priority inheritance.
    PiMutex,
    /// std::sync::Mutex of Rust.
    RustMutex,
    /// parking_lot's Mutex.
    ParkingLotMutex,
    /// A lock of the Go runtime.
    GoRuntime,
    /// A lock that spins or sleeps by the program's own code on a futex.
    OtherLock,
    /// A reader-writer lock of any library.
    #[serde(rename = "rwlock")]
    RwLock,
    /// malloc's arenas and other locks inside libc.
    #[serde(rename = "libc-lock")]
    Libc,
    /// A semaphore.
    Semaphore,
    /// A barrier.
    Barrier,
    /// A condition variable of any library.
    Condvar,
    /// A thread that parks itself until it is unparked (channels, executors, idle workers).
    Park,
    /// Waiting for a thread to end.
    Join,
    /// A one-time initialisation.
    Once,
    /// The lock that an interpreter runs its threads under: Python's, Ruby's.
    InterpreterLock,
    /// A semaphore that threads have one at a time.
    SemaphoreLock,
    /// A lock of a file (`flock`, `fcntl`): all of a program's files are one.
    FileLock,
    /// A futex that nothing is known about.
    #[default]
    #[serde(rename = "futex")]
    Unknown,
}

impl Primitive {
    /// Whether a wait means that another thread is in the way; `false` for waits that a program makes when it has
    /// nothing to do.
    pub fn is_contention(self) -> bool {
        use Primitive::*;
        matches!(
            self,
            Mutex
                | PiMutex
                | RustMutex
                | ParkingLotMutex
                | OtherLock
                | RwLock
                | Libc
                | InterpreterLock
                | SemaphoreLock
                | FileLock
        )
    }
}

/// One thing that threads waited for on a futex.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct LockFacts {
    /// Which process it is in.
    pub pid: Pid,
    /// That process by name and number, where a lock of another process has the same name.
    #[serde(skip)]
    pub process: Option<String>,
    /// Its address; null where the futex is not the lock (parking_lot parks each thread on a word of its own): there
    /// the lock is known by where it is taken.
    #[serde(rename = "address", serialize_with = "optional::<_, Hex, _>")]
    #[schemars(with = "Option<Hex>")]
    pub addr: Option<u64>,
    /// How it is called.
    #[serde(rename = "symbol", serialize_with = "symbol")]
    #[schemars(with = "Option<Symbol>")]
    pub name: LockName,
    /// What it is.
    pub primitive: Primitive,
    /// Waits that slept.
    pub waits: u64,
    /// How long each lasted, from leaving the CPU to running again.
    pub wait_ns: Histogram,
    /// How long threads gave the CPU away for it before they slept, or in place of that.
    pub yield_ns: u64,
    /// Waits that the kernel answered with EAGAIN, or that did not sleep.
    #[serde(rename = "refused_waits")]
    pub eagain_waits: u64,
    /// Waits that ended by timeout.
    pub timeouts: u64,
    /// Calls that woke somebody.
    pub wakes: u64,
    /// Calls that woke nobody.
    pub wasted_wakes: u64,
    /// Most threads that waited at the same time.
    pub max_waiters: u32,
    /// Threads that waited, with count and time, most time first.
    #[serde(serialize_with = "rows::<_, Holder, _>")]
    #[schemars(with = "Vec<Holder>")]
    pub waiters: Vec<(Tid, OffTime)>,
    /// Threads that ended waits (the former holders), with how often and how long the waits were, most time first;
    /// thread 0 stands for those that were not recorded.
    pub holders: Vec<Holder>,
    /// Where it is waited for, most time first.
    #[serde(skip)]
    pub wait_sites: Vec<Site>,
    /// Where it is released, most wakes first.
    #[serde(skip)]
    pub wake_sites: Vec<Site>,
    /// What its holders were found executing while others waited, most often first: of an interpreter's lock, if the
    /// interpreter was looked at.
    #[serde(skip)]
    pub hold_sites: Vec<Site>,
    /// Whether its holders, while others wait for it, mostly wait themselves, for threads that never want it.
    pub holders_wait_for_others: bool,
    /// What holders did while others waited.
    #[serde(flatten)]
    pub holder_doing: HolderDoing,
    /// Time from one end of a wait to the next, while others still waited: the pace of hand-overs.
    pub handover_ns: Histogram,
    /// How long a waiter had run before the wait, per wait.
    pub run_before_ns: Histogram,
    /// Time during which somebody waited.
    pub contended_ns: u64,
    /// Readings of the lock word from outside: all, held, contended.
    #[serde(serialize_with = "optional::<_, Words, _>")]
    #[schemars(with = "Option<Words>")]
    pub words: Option<(u64, u64, u64)>,
    /// What an interposer in the process counted for it.
    pub figures: Option<holdup_trace::LockFigures>,
    /// Who has it as the recording ends while others wait for it, where looks at its word tell.
    #[serde(skip)]
    pub kept: Option<Kept>,
    /// How many places there are and who wants one, where threads wait for one of a few.
    #[serde(skip)]
    pub places: Option<Places>,
    /// Wake-ups of several threads at once.
    #[serde(flatten)]
    pub herds: Herds,
    /// Waits where the holder had the lower priority and was preempted: how many, and how long it was preempted.
    pub inversions: OffTime,
    /// The waits of the longest durations, for the evidence: (thread, from, to), longest first, at most eight.
    #[serde(serialize_with = "rows::<_, Moment, _>")]
    #[schemars(with = "Vec<Moment>")]
    pub longest: Vec<(Tid, u64, u64)>,
}

impl LockFacts {
    /// How long this thread waited for it.
    pub(crate) fn waited_by(&self, tid: Tid) -> u64 {
        self.waiters.iter().filter(|(waiter, _)| *waiter == tid).map(|(_, off)| off.ns).sum()
    }
}

/// The places of a pool, as of connections.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Places {
    /// How many there are.
    pub places: u64,
    /// Threads that wait for one or have one.
    pub callers: Vec<Tid>,
}

/// A lock that somebody has as the recording ends, while others wait for it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kept {
    /// Who has it.
    pub holder: Tid,
    /// Whether that thread has ended.
    pub has_ended: bool,
    /// Those who wait, and since when.
    pub waiters: Vec<(Tid, u64)>,
}

/// How a lock is called.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LockName {
    /// The variable it is in: name, and the offset from its beginning in bytes.
    Symbol {
        /// The variable, demangled.
        name: String,
        /// The offset of the futex in it.
        offset: u64,
    },
    /// No variable: on the heap or a stack; called after the function that mostly waits for it.
    Site(String),
    /// Nothing is known but the address.
    #[default]
    Address,
}

/// A thread that ended waits for a lock.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Holder {
    /// The thread; 0 for threads that were not recorded.
    pub tid: Tid,
    /// Waits that it ended.
    pub count: u64,
    /// How long these had lasted.
    #[serde(rename = "time_ns")]
    pub ns: u64,
}

/// What holders did between the later of (the wait's beginning, the holder's own last wait for the lock) and the
/// release.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct HolderDoing {
    /// Time that holders ran while others waited.
    #[serde(rename = "holder_running_ns")]
    pub running_ns: u64,
    /// Time that holders were off CPU meanwhile, by reason.
    #[serde(rename = "holder_off", serialize_with = "rows::<_, HolderPart, _>")]
    #[schemars(with = "Vec<HolderPart>")]
    pub off: BTreeMap<Reason, u64>,
    /// Time of waits whose holder is not known: woken from outside, by timeout, or events were lost.
    #[serde(rename = "holder_unknown_ns")]
    pub unknown_ns: u64,
    /// Where holders left the CPU meanwhile, most time first.
    #[serde(skip)]
    pub off_sites: Vec<Site>,
}

/// Wake-ups of several threads at once.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Herds {
    /// Wake-ups of at least two threads at once.
    #[serde(rename = "herd_calls")]
    pub calls: u64,
    /// Threads woken by them.
    #[serde(rename = "herd_woken")]
    pub woken: u64,
    /// Of these, those that waited again within their first run, before doing anything longer than 50 us.
    #[serde(rename = "herd_back_to_sleep")]
    pub back_to_sleep: u64,
}

/// A place in the program with what happened there.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Site {
    /// Call path, innermost first, inlined frames included.
    #[serde(rename = "trail")]
    pub call_path: Vec<Frame>,
    /// How often.
    pub count: u64,
    /// How long in all, where it is about time.
    #[serde(rename = "time_ns")]
    pub ns: u64,
}

impl Site {
    /// The innermost frame of the program itself: the function that called `lock`. If that is generated code without a
    /// name, or there is none, the function of the runtime that was called; else the innermost frame.
    pub fn caller(&self) -> Option<&Frame> {
        crate::names::caller(&self.call_path)
    }

    /// The outermost function of the program: what its thread, or its goroutine, began with.
    pub(crate) fn began_with(&self) -> Option<&Arc<str>> {
        self.call_path.iter().rev().find(|frame| frame.role == Role::Program)?.function.as_ref()
    }

    /// Whether a process of PostgreSQL waits here for a lock that another transaction has, of a row or a table.
    pub fn waits_for_row(&self) -> bool {
        crate::names::leads_through(&self.call_path, |name| name == "ProcSleep")
    }

    /// Whether a connection is waited for here, to be let in by the other end.
    pub fn connects(&self) -> bool {
        const CALLS: [&str; 4] = ["connect", "__connect", "__libc_connect", "__sys_connect"];
        crate::names::leads_through(&self.call_path, |name| CALLS.contains(&name))
    }

    /// Whether that is a frame of the program.
    pub(crate) fn is_by_program(&self) -> bool {
        self.caller().is_some_and(|frame| frame.role == Role::Program)
    }
}

/// Two threads that follow each other.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct PairFacts {
    /// One, the smaller number.
    pub a: Tid,
    /// The other.
    pub b: Tid,
    /// Wake-ups of b by a and of a by b.
    #[serde(flatten)]
    pub wakings: Wakings,
    /// Round trips: a woke b, b then woke a (or the other way about).
    pub round_trips: u64,
    /// How long either ran between being woken and waking the other.
    pub run_ns: Histogram,
    /// Where a and b hand over, most first.
    #[serde(skip)]
    pub sites: Vec<Site>,
    /// First and last moment of the hand-overs.
    pub from_ns: u64,
    /// Last moment.
    pub to_ns: u64,
}

/// How often two threads woke each other.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct Wakings {
    /// Wake-ups of b by a.
    #[serde(rename = "a_wakes_b")]
    pub a_to_b: u64,
    /// Wake-ups of a by b.
    #[serde(rename = "b_wakes_a")]
    pub b_to_a: u64,
}

/// CPU samples by whose work they are of; without those of the recorder's own work in the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockSamples {
    /// In the functions of locks themselves, with what these call in user space.
    pub own: u64,
    /// In the kernel where it waits, wakes and switches, or what else a lock called it for.
    pub kernel: u64,
    /// Everywhere else.
    pub elsewhere: u64,
}

/// CPU samples of a function or a module.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Code {
    /// The function (symbols) or file (modules) as a frame.
    pub frame: Frame,
    /// Samples with it innermost.
    pub hits: u64,
    /// Samples with it anywhere on the stack.
    pub inclusive: u64,
}

/// An instruction at which samples pile up.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Hotspot {
    /// The instruction before the sampled one, where it is.
    pub frame: Frame,
    /// Its text.
    pub instruction: String,
    /// What makes it suspicious.
    pub class: HotspotClass,
    /// The variable it works on, where its operand tells.
    #[serde(skip)]
    pub variable: Option<LockName>,
    /// Samples right behind it.
    pub hits: u64,
    /// Of how many samples in its function.
    pub function_hits: u64,
    /// By thread, most first.
    #[serde(serialize_with = "rows::<_, Hits, _>")]
    #[schemars(with = "Vec<Hits>")]
    pub threads: Vec<(Tid, u64)>,
    /// By function of the program that called it, most first; each path begins with the instruction itself.
    #[serde(skip)]
    pub sites: Vec<Site>,
}

/// A cache line that several threads use at the same time, at least one of them to write, with instructions that are
/// not atomic; or several lines that are used alike.
#[derive(Clone, Debug, Default)]
pub struct LineFacts {
    /// The variable that is in it, if one is.
    pub variable: Option<LockName>,
    /// Where the instruction with most of the samples is, with the path to it.
    pub site: Site,
    /// Samples at instructions on it.
    pub hits: u64,
    /// Those of them beyond what other instructions of the same functions have.
    pub excess: u64,
    /// By thread, most first.
    pub threads: Vec<(Tid, u64)>,
    /// Threads that write to it.
    pub writers: u64,
    /// Different addresses in it that threads use, of the line with most samples.
    pub words: u64,
    /// Whether threads use one and the same of these.
    pub same_word: bool,
    /// Whether most of the samples are at atomic instructions.
    pub is_atomic: bool,
}

/// What kind of instruction holds samples up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HotspotClass {
    /// A `lock`-prefixed instruction or an `xchg` with memory.
    Atomic,
    /// A `pause` (or its like) in a loop.
    Pause,
    /// A read in a loop that nothing but another thread can end.
    Reread,
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

// Forms in JSON that differ from the fields they come from: maps and pairs as rows with named columns.

/// The keys of an object of counters.
fn named_by_counter(schema: &mut Schema) {
    let names = Counter::json_schema(&mut SchemaGenerator::default());
    schema.insert("propertyNames".to_owned(), names.to_value());
}

/// The variable, where the name is one.
fn symbol<S: Serializer>(name: &LockName, serializer: S) -> Result<S::Ok, S::Error> {
    let known = match name {
        LockName::Symbol { name, offset } => Some(Symbol { name: name.clone(), offset: *offset }),
        LockName::Site(_) | LockName::Address => None,
    };
    known.serialize(serializer)
}

/// A variable.
#[derive(Serialize, JsonSchema)]
struct Symbol {
    /// Its name, demangled.
    name: String,
    /// Where in it, in bytes.
    offset: u64,
}

/// A system call.
#[derive(Serialize, JsonSchema)]
struct Calls {
    /// Its number on the machine's architecture.
    number: CallNumber,
    /// How often.
    count: u64,
}

impl From<(&CallNumber, &u64)> for Calls {
    fn from((number, count): (&CallNumber, &u64)) -> Calls {
        Calls { number: *number, count: *count }
    }
}

/// Time off CPU for one reason.
#[derive(Serialize, JsonSchema)]
struct OffPart {
    /// Why.
    reason: Reason,
    /// Whether waiting for this is by design.
    idle: bool,
    /// How often, how long.
    #[serde(flatten)]
    time: OffTime,
}

impl From<(&Reason, &OffTime)> for OffPart {
    fn from((reason, time): (&Reason, &OffTime)) -> OffPart {
        OffPart { reason: *reason, idle: reason.is_idle(), time: *time }
    }
}

/// A holder's time off CPU for one reason.
#[derive(Serialize, JsonSchema)]
struct HolderPart {
    /// Why, as in a thread.
    reason: Reason,
    /// How long in all.
    time_ns: u64,
}

impl From<(&Reason, &u64)> for HolderPart {
    fn from((reason, ns): (&Reason, &u64)) -> HolderPart {
        HolderPart { reason: *reason, time_ns: *ns }
    }
}

impl From<&(Tid, OffTime)> for Holder {
    fn from((tid, time): &(Tid, OffTime)) -> Holder {
        Holder { tid: *tid, count: time.count, ns: time.ns }
    }
}

impl From<&(Tid, u64, u64)> for Moment {
    fn from((tid, from_ns, to_ns): &(Tid, u64, u64)) -> Moment {
        Moment { tid: *tid, from_ns: *from_ns, to_ns: *to_ns }
    }
}

/// Readings of a lock word.
#[derive(Serialize, JsonSchema)]
struct Words {
    /// How many.
    readings: u64,
    /// Of these, held.
    held: u64,
    /// Of these, held with waiters.
    contended: u64,
}

impl From<&(u64, u64, u64)> for Words {
    fn from((readings, held, contended): &(u64, u64, u64)) -> Words {
        Words { readings: *readings, held: *held, contended: *contended }
    }
}

/// What the kernel counted for a thread, where it was read.
#[derive(Serialize, JsonSchema)]
struct Usages {
    /// At the first reading.
    usage_first: Option<ThreadUsage>,
    /// At the last.
    usage_last: Option<ThreadUsage>,
}

impl From<&Option<(ThreadUsage, ThreadUsage)>> for Usages {
    fn from(read: &Option<(ThreadUsage, ThreadUsage)>) -> Usages {
        let (usage_first, usage_last) = read.map_or((None, None), |(first, last)| (Some(first), Some(last)));
        Usages { usage_first, usage_last }
    }
}

/// CPU samples of a thread.
#[derive(Serialize, JsonSchema)]
struct Hits {
    /// The thread.
    tid: Tid,
    /// How many.
    hits: u64,
}

impl From<&(Tid, u64)> for Hits {
    fn from((tid, hits): &(Tid, u64)) -> Hits {
        Hits { tid: *tid, hits: *hits }
    }
}
