//! One cell of a sweep: every factor with exactly one value, and the table of factors that the command line,
//! experiment files, the store and the worker all share.
//!
//! Adding a factor: one field of [`Spec`] and one row of [`FACTORS`].

pub(crate) mod check;
mod cpus;
pub mod work;

pub use cpus::cpus;

use crate::lock::catalog;
use work::{Work, format_ns, parse_ns};

/// One cell: what a worker process measures.
#[derive(Clone, Debug, PartialEq)]
pub struct Spec {
    /// Name of a lock in [`catalog`]; `none` is no synchronisation.
    pub lock: String,
    /// What the threads do with it.
    pub workload: Workload,
    /// How many threads measure.
    pub threads: u32,
    /// How many times the same lock is taken per operation; 0 takes none (the 1998 baseline).
    pub depth: u32,
    /// How many different locks are taken in order.
    pub nest: u32,
    /// Work inside the section.
    pub hold: Work,
    /// Work outside the section.
    pub gap: Work,
    /// Where a thread gives up the CPU.
    pub pause: Pause,
    /// At most this many threads active; `None` is all.
    pub active: Option<u32>,
    /// What the gate of `active` admits: a thread once, or each acquisition.
    pub gate: GateKind,
    /// CPUs that the worker may use.
    pub cpus: Cpus,
    /// One thread per CPU, in turn.
    pub pin: bool,
    /// A busy process per CPU competes, at better priority than ours.
    pub background: bool,
    /// The scheduler's time slice for the measuring threads; `None` leaves the default.
    pub slice_ns: Option<u64>,
    /// Raise the priority inside the section: one system call each way.
    pub boost: Boost,
    /// Offset of the lock in its cache line; `None` starts at a line of its own.
    pub offset: Option<u32>,
    /// What lives in the lock's cache line besides it.
    pub share: Share,
    /// What a thread does that finds the lock taken.
    pub take: Take,
    /// Whether the threads are of one process.
    pub between: Between,
    /// Spin count of the locks that have one; `None` lets the lock decide.
    pub spin: Option<u32>,
    /// Back-off of the spin locks.
    pub backoff: Option<Backoff>,
    /// What the spin locks spin on.
    pub spin_on: Option<SpinOn>,
    /// The instruction by which the spin locks take the lock.
    pub rmw: Option<Rmw>,
    /// db: number of entries.
    pub entries: u64,
    /// db and map: share of reads, in percent; the rest updates.
    pub read_percent: u32,
    /// rw: share of reads of a thread that does both, in tenths of a percent.
    pub read_permille: u32,
    /// rw: so many threads only write, the others only read; `None` lets each do both.
    pub writers: Option<u32>,
    /// db: what guards the entries.
    pub table: Table,
    /// db: work of a read, under the entry's lock.
    pub read: Work,
    /// db: work of an update, under the entry's lock.
    pub update: Work,
    /// parallel-for: indices claimed at a time.
    pub chunk: u64,
    /// parallel-for: how the shared index is advanced.
    pub counter: CounterKind,
    /// ping-pong: packets handed over at a time.
    pub batch: u32,
    /// How much each run does.
    pub budget: Budget,
    /// Measure acquire latency.
    pub latency: bool,
    /// Record the run, for where its CPU time goes; whoever starts the worker does that.
    pub profile: bool,
}

/// The enum of workloads, their list, and their names as text, from one row each.
macro_rules! workloads {
    ($(#[$of_enum:meta])* pub enum Workload {
        $(#[$of_first:meta])* $first:ident = $first_name:literal,
        $($(#[$of_kind:meta])* $kind:ident = $name:literal,)*
    }) => {
        $(#[$of_enum])*
        pub enum Workload {
            $(#[$of_first])* $first,
            $($(#[$of_kind])* $kind,)*
        }

        const WORKLOADS: &[(&str, Workload)] =
            &[($first_name, Workload::$first), $(($name, Workload::$kind)),*];
        const WORKLOAD_NAMES: &str = concat!($first_name $(, ", ", $name)*);
    };
}

workloads! {
    /// What the threads do with the lock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum Workload {
        /// Lock, work, unlock: nothing is protected but the work itself.
        Empty = "empty",
        /// Lock, add one to a plain counter, unlock.
        Counter = "counter",
        /// Lock, pop or push a node of one shared linked list, unlock: an allocator (Intel 2009).
        FreeList = "free-list",
        /// Lock, write the own thread id to a global, unlock: the finest grain (Intel 2009).
        ThreadId = "thread-id",
        /// Read or update numbered entries of an in-memory database (Emmons 2001).
        Db = "db",
        /// Claim indices of a loop with empty bodies from one shared counter (Kraus 2014).
        ParallelFor = "parallel-for",
        /// Pairs of threads hand every packet to each other; one thread does both sides' work (Windows CE 2007).
        PingPong = "ping-pong",
        /// Read and update 100,000 keys of a concurrent map, which `lock` names.
        Map = "map",
        /// Read or write one piece of data; readers share it where the lock lets them.
        Rw = "rw",
    }
}

/// Where a thread gives up the CPU in each operation, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    /// While it holds the lock.
    pub holding: bool,
    /// After it released the lock.
    pub released: bool,
    /// Sleep for this long in place of a yield.
    pub sleep_ns: Option<u64>,
}

/// What the gate admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GateKind {
    /// A thread once, before its loop, until its end (1998).
    Thread,
    /// Each acquisition, in rotation.
    Acquire,
}

/// CPUs that the worker may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// All that the parent may use.
    All,
    /// The first so many of them.
    Count(u32),
    /// These, by number.
    Set(Vec<u32>),
}

/// What shares the lock's cache line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// Nothing.
    None,
    /// The protected data.
    Data,
    /// A word that another thread writes all the time.
    Neighbour,
}

/// How the priority is raised inside the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Boost {
    /// Not at all.
    Off,
    /// A larger share of the CPU: a better nice value.
    Share,
    /// Before all others: real-time priority.
    Realtime,
}

/// What a thread does that finds the lock taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// It waits.
    Wait,
    /// It does work outside the section, and tries again (Intel 2009).
    Try,
}

/// Whose threads they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Between {
    /// Of one process.
    Threads,
    /// Each of a process of its own; the first is measured.
    Processes,
}

/// Back-off of a spin lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backoff {
    /// Never pause for longer than one pause instruction, never yield.
    None,
    /// Spin a fixed count, then yield the CPU.
    Count,
    /// Bounded random exponential pauses, then yield.
    Exponential,
}

/// What a spin lock spins on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpinOn {
    /// A plain read, until the lock looks free.
    Read,
    /// The atomic instruction itself.
    Rmw,
}

/// The instruction that takes a spin lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rmw {
    /// Atomic exchange.
    Xchg,
    /// Atomic compare and exchange.
    CmpXchg,
}

/// What guards the entries of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// One lock for all.
    One,
    /// A table of this many locks, keyed by the entry's address.
    Slots(u32),
    /// One lock in each entry.
    PerEntry,
    /// One reader-writer lock for all.
    ReaderWriter,
}

/// How a shared counter is advanced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CounterKind {
    /// One fetch-and-add instruction.
    Xadd,
    /// A loop of 64-bit compare-exchanges.
    CasLoop,
    /// A loop of `cmpxchg8b`, as 32-bit code has to.
    CmpXchg8b,
    /// A plain counter under the cell's lock.
    Mutex,
    /// A counter per thread, no sharing.
    Sharded,
}

/// How much one run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// All threads run for this long.
    DurationNs(u64),
    /// Each thread does this many operations (db and parallel-for: all threads together).
    Iterations(u64),
}

impl Default for Spec {
    fn default() -> Spec {
        Spec {
            lock: catalog::usual().to_owned(),
            workload: Workload::Counter,
            threads: 4,
            depth: 1,
            nest: 1,
            hold: Work::NONE,
            gap: Work::NONE,
            pause: Pause { holding: false, released: false, sleep_ns: None },
            active: None,
            gate: GateKind::Thread,
            cpus: Cpus::All,
            pin: false,
            background: false,
            slice_ns: None,
            boost: Boost::Off,
            offset: None,
            share: Share::None,
            take: Take::Wait,
            between: Between::Threads,
            spin: None,
            backoff: None,
            spin_on: None,
            rmw: None,
            entries: 1000,
            read_percent: 90,
            read_permille: 950,
            writers: None,
            table: Table::One,
            read: Work::Fixed(work::Amount::Ns(20e3)),
            update: Work::Fixed(work::Amount::Ns(200e3)),
            chunk: 1,
            counter: CounterKind::Xadd,
            batch: 1,
            budget: Budget::DurationNs(200_000_000),
            latency: false,
            profile: false,
        }
    }
}

/// One row of the table of factors.
pub struct Factor {
    /// Name on the command line (without dashes), in experiment files and in the store.
    pub name: &'static str,
    /// What it changes, in one line.
    pub help: &'static str,
    /// The values it takes, for people.
    pub values: &'static str,
    /// The value may be left out on the command line and then is `on`.
    pub switch: bool,
    /// The values that a range such as `1..8`, `1..64*2`, `0..60+4` stands for, where there are ranges.
    ranges: Option<Expand>,
    set: fn(&mut Spec, &str) -> Result<(), String>,
    get: fn(&Spec) -> String,
}

/// From a range to its values.
type Expand = fn(&str) -> Result<Vec<String>, String>;

/// A value that a factor does not take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FactorError {
    /// No factor has this name.
    Unknown {
        /// The name as given.
        name: String,
    },
    /// The factor does not take this value.
    Value {
        /// The factor.
        factor: &'static str,
        /// Why not, and what is expected.
        why: String,
    },
}

impl std::fmt::Display for FactorError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FactorError::Unknown { name } => write!(f, "there is no factor '{name}'"),
            FactorError::Value { factor, why } => write!(f, "--{factor}: {why}"),
        }
    }
}

impl std::error::Error for FactorError {}

impl Factor {
    /// The factor of this name.
    pub fn named(name: &str) -> Result<&'static Factor, FactorError> {
        FACTORS.iter().find(|factor| factor.name == name).ok_or_else(|| FactorError::Unknown { name: name.to_owned() })
    }

    /// The factor's value in a cell, as text that [`Spec::set`] reads back.
    pub fn get(&self, spec: &Spec) -> String {
        (self.get)(spec)
    }

    /// The value that a cell has when nobody sets the factor.
    pub fn default_value(&self) -> String {
        self.get(&Spec::default())
    }

    /// Splits a list and its ranges into single values, each of them checked.
    pub fn expand(&'static self, text: &str) -> Result<Vec<String>, FactorError> {
        let fail = |why| FactorError::Value { factor: self.name, why };
        let mut values = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            match self.ranges {
                Some(expand) if part.contains("..") => values.extend(expand(part).map_err(fail)?),
                _ => values.push(part.to_owned()),
            }
        }
        for value in &values {
            (self.set)(&mut Spec::default(), value).map_err(fail)?;
        }
        Ok(values)
    }
}

impl Spec {
    /// Sets one factor from text.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FactorError> {
        let factor = Factor::named(name)?;
        (factor.set)(self, value).map_err(|why| FactorError::Value { factor: factor.name, why })
    }

    /// One factor's value as text.
    pub fn get(&self, name: &str) -> Result<String, FactorError> {
        Ok(Factor::named(name)?.get(self))
    }

    /// Every factor whose value is not the default, as name and value.
    pub fn changed(&self) -> Vec<(&'static str, String)> {
        let default = Spec::default();
        FACTORS
            .iter()
            .map(|factor| (factor, factor.get(self)))
            .filter(|(factor, value)| *value != factor.get(&default))
            .map(|(factor, value)| (factor.name, value))
            .collect()
    }

    /// All factors as `name=value` words, for the worker's command line and the store.
    pub fn to_words(&self) -> Vec<String> {
        FACTORS.iter().map(|factor| format!("{}={}", factor.name, factor.get(self))).collect()
    }

    /// Reads what [`Spec::to_words`] wrote; factors that are not named keep their default.
    pub fn from_words<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Spec, FactorError> {
        let mut spec = Spec::default();
        for word in words {
            let (name, value) = word.split_once('=').ok_or_else(|| FactorError::Unknown { name: word.to_owned() })?;
            spec.set(name, value)?;
        }
        Ok(spec)
    }
}

/// Every factor, in the order in which help and tables show them.
pub static FACTORS: &[Factor] = &[
    Factor {
        name: "lock",
        help: "the lock under test; none = no synchronisation, the baseline of the loop itself",
        values: "a name of 'holdup list locks'",
        switch: false,
        ranges: None,
        set: |spec, text| catalog::check_name(text).map(|name| spec.lock = name.to_owned()),
        get: |spec| spec.lock.clone(),
    },
    Factor {
        name: "workload",
        help: "what the threads do with the lock",
        values: WORKLOAD_NAMES,
        switch: false,
        ranges: None,
        set: |spec, text| word(text, WORKLOADS).map(|w| spec.workload = w),
        get: |spec| name_of(spec.workload, WORKLOADS),
    },
    Factor {
        name: "threads",
        help: "measuring threads (ping-pong: 1 does both sides' work, 2 are a pair)",
        values: "1..1024",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| whole(text, 1, 1024).map(|n| spec.threads = n),
        get: |spec| spec.threads.to_string(),
    },
    Factor {
        name: "depth",
        help: "times the same lock is taken per operation; 0 = none; above 1 a lock that is not recursive is wrapped",
        values: "0..64",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| whole(text, 0, 64).map(|n| spec.depth = n),
        get: |spec| spec.depth.to_string(),
    },
    Factor {
        name: "nest",
        help: "different locks taken in order",
        values: "1..16",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| whole(text, 1, 16).map(|n| spec.nest = n),
        get: |spec| spec.nest.to_string(),
    },
    Factor {
        name: "hold",
        help: "work inside the section, in counted steps of a calibrated loop",
        values: "0, 100ns, 20units, uniform:0..1us, exp:500ns",
        switch: false,
        ranges: None,
        set: |spec, text| Work::parse(text).map(|w| spec.hold = w),
        get: |spec| spec.hold.to_string(),
    },
    Factor {
        name: "gap",
        help: "work outside the section",
        values: "as hold",
        switch: false,
        ranges: None,
        set: |spec, text| Work::parse(text).map(|w| spec.gap = w),
        get: |spec| spec.gap.to_string(),
    },
    Factor {
        name: "yield",
        help: "where a thread gives up the CPU; with :sleep:TIME it sleeps there instead",
        values: "never, holding, released, both, holding:sleep:50us",
        switch: false,
        ranges: None,
        set: |spec, text| Pause::parse(text).map(|p| spec.pause = p),
        get: |spec| spec.pause.to_text(),
    },
    Factor {
        name: "active",
        help: "admission gate: at most so many threads active",
        values: "all, 1..1024",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| optional(text, "all", |t| whole(t, 1, 1024)).map(|n| spec.active = n),
        get: |spec| or_word(&spec.active, "all"),
    },
    Factor {
        name: "gate",
        help: "what the gate admits: a thread once (as in 1998), or each acquisition in fair rotation",
        values: "thread, acquire",
        switch: false,
        ranges: None,
        set: |spec, text| word(text, GATES).map(|g| spec.gate = g),
        get: |spec| name_of(spec.gate, GATES),
    },
    Factor {
        name: "cpus",
        help: "how many CPUs the threads may use, or which, joined by +",
        values: "all, 1, 2, cpu:0+2",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| Cpus::parse(text).map(|c| spec.cpus = c),
        get: |spec| spec.cpus.to_text(),
    },
    Factor {
        name: "pin",
        help: "bind each thread to one CPU, in turn",
        values: "off, on",
        switch: true,
        ranges: None,
        set: |spec, text| word(text, SWITCH).map(|b| spec.pin = b),
        get: |spec| name_of(spec.pin, SWITCH),
    },
    Factor {
        name: "background",
        help: "a busy process per CPU competes, and ours runs at lower priority",
        values: "off, on",
        switch: true,
        ranges: None,
        set: |spec, text| word(text, SWITCH).map(|b| spec.background = b),
        get: |spec| name_of(spec.background, SWITCH),
    },
    Factor {
        name: "slice",
        help: "the scheduler's time slice for the threads, where the kernel has it",
        values: "default, 100us..100ms",
        switch: false,
        ranges: None,
        set: |spec, text| optional(text, "default", span_ns).map(|n| spec.slice_ns = n),
        get: |spec| spec.slice_ns.map_or("default".to_owned(), |ns| format_ns(ns as f64)),
    },
    Factor {
        name: "boost",
        help: "raise the thread's priority inside the section: a system call each way",
        values: "off, on, realtime",
        switch: true,
        ranges: None,
        set: |spec, text| word(text, BOOSTS).map(|boost| spec.boost = boost),
        get: |spec| name_of(spec.boost, BOOSTS),
    },
    Factor {
        name: "offset",
        help: "the lock's offset in its cache line; 61..63 straddle two lines (lock straddle)",
        values: "natural, 0..63",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| optional(text, "natural", |t| whole(t, 0, 63)).map(|n| spec.offset = n),
        get: |spec| or_word(&spec.offset, "natural"),
    },
    Factor {
        name: "share",
        help: "what lives in the lock's cache line besides it",
        values: "none, data, neighbour",
        switch: false,
        ranges: None,
        set: |spec, text| word(text, SHARES).map(|s| spec.share = s),
        get: |spec| name_of(spec.share, SHARES),
    },
    Factor {
        name: "take",
        help: "what a thread does that finds the lock taken: wait, or work outside (gap) and try again",
        values: "wait, try",
        switch: false,
        ranges: None,
        set: |spec, text| word(text, TAKES).map(|take| spec.take = take),
        get: |spec| name_of(spec.take, TAKES),
    },
    Factor {
        name: "between",
        help: "threads of one process, or each of a process of its own, of which the first is measured",
        values: "threads, processes",
        switch: false,
        ranges: None,
        set: |spec, text| word(text, BETWEENS).map(|between| spec.between = between),
        get: |spec| name_of(spec.between, BETWEENS),
    },
    Factor {
        name: "spin",
        help: "spin count of the locks that spin before they sleep",
        values: "default, 0..1000000",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| optional(text, "default", |t| whole(t, 0, 1_000_000)).map(|n| spec.spin = n),
        get: |spec| or_word(&spec.spin, "default"),
    },
    Factor {
        name: "backoff",
        help: "back-off of the spin locks",
        values: "default, none, count, exp",
        switch: false,
        ranges: None,
        set: |spec, text| optional(text, "default", |t| word(t, BACKOFFS)).map(|b| spec.backoff = b),
        get: |spec| spec.backoff.map_or("default".to_owned(), |b| name_of(b, BACKOFFS)),
    },
    Factor {
        name: "spin-on",
        help: "what the spin locks spin on: a plain read, or the atomic instruction itself",
        values: "default, read, rmw",
        switch: false,
        ranges: None,
        set: |spec, text| optional(text, "default", |t| word(t, SPIN_ONS)).map(|s| spec.spin_on = s),
        get: |spec| spec.spin_on.map_or("default".to_owned(), |s| name_of(s, SPIN_ONS)),
    },
    Factor {
        name: "rmw",
        help: "the instruction by which the spin locks take the lock",
        values: "default, xchg, cmpxchg",
        switch: false,
        ranges: None,
        set: |spec, text| optional(text, "default", |t| word(t, RMWS)).map(|r| spec.rmw = r),
        get: |spec| spec.rmw.map_or("default".to_owned(), |r| name_of(r, RMWS)),
    },
    Factor {
        name: "entries",
        help: "db: number of entries",
        values: "1..10000000",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| whole(text, 1, 10_000_000).map(|n| spec.entries = n),
        get: |spec| spec.entries.to_string(),
    },
    Factor {
        name: "mix",
        help: "db and map: reads and updates, in percent",
        values: "90:10",
        switch: false,
        ranges: None,
        set: |spec, text| parse_mix(text).map(|n| spec.read_percent = n),
        get: |spec| format!("{}:{}", spec.read_percent, 100 - spec.read_percent),
    },
    Factor {
        name: "read-share",
        help: "rw: share of reads, in percent; the rest writes; a range stands for the usual shares in it",
        values: "0..100, also 99.9",
        switch: false,
        ranges: Some(share_range),
        set: |spec, text| parse_read_share(text).map(|n| spec.read_permille = n),
        get: |spec| format!("{}", f64::from(spec.read_permille) / 10.0),
    },
    Factor {
        name: "writers",
        help: "rw: so many threads only write and the others only read, whatever the read-share; each = both",
        values: "each, 0..1024",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| optional(text, "each", |t| whole(t, 0, 1024)).map(|n| spec.writers = n),
        get: |spec| or_word(&spec.writers, "each"),
    },
    Factor {
        name: "table",
        help: "db: one lock, a lock table of so many, one lock per entry, or a reader-writer lock (lock none: no lock)",
        values: "one, 1..65536, entry, rw",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| Table::parse(text).map(|t| spec.table = t),
        get: |spec| spec.table.to_text(),
    },
    Factor {
        name: "read",
        help: "db: work of a read, under the lock",
        values: "as hold",
        switch: false,
        ranges: None,
        set: |spec, text| Work::parse(text).map(|w| spec.read = w),
        get: |spec| spec.read.to_string(),
    },
    Factor {
        name: "update",
        help: "db: work of an update, under the lock",
        values: "as hold",
        switch: false,
        ranges: None,
        set: |spec, text| Work::parse(text).map(|w| spec.update = w),
        get: |spec| spec.update.to_string(),
    },
    Factor {
        name: "chunk",
        help: "parallel-for: indices claimed at a time",
        values: "1..1000000000",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| whole(text, 1, 1_000_000_000).map(|n| spec.chunk = n),
        get: |spec| spec.chunk.to_string(),
    },
    Factor {
        name: "counter",
        help: "parallel-for: how the shared index is advanced",
        values: "xadd, cas-loop, cmpxchg8b, mutex, sharded",
        switch: false,
        ranges: None,
        set: |spec, text| word(text, COUNTERS).map(|c| spec.counter = c),
        get: |spec| name_of(spec.counter, COUNTERS),
    },
    Factor {
        name: "batch",
        help: "ping-pong: packets handed over at a time",
        values: "1..65536",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| whole(text, 1, 65_536).map(|n| spec.batch = n),
        get: |spec| spec.batch.to_string(),
    },
    Factor {
        name: "iterations",
        help: "operations per thread (db and parallel-for: in all); replaces the duration",
        values: "auto, 1..1000000000000",
        switch: false,
        ranges: Some(whole_range),
        set: |spec, text| {
            optional(text, "auto", |t| whole(t, 1, 1_000_000_000_000)).map(|n| {
                if let Some(n) = n {
                    spec.budget = Budget::Iterations(n);
                }
            })
        },
        get: |spec| match spec.budget {
            Budget::Iterations(n) => n.to_string(),
            Budget::DurationNs(_) => "auto".to_owned(),
        },
    },
    Factor {
        name: "duration",
        help: "time that each run measures; replaces the iterations",
        values: "auto, 1ms..1h",
        switch: false,
        ranges: None,
        set: |spec, text| {
            optional(text, "auto", span_ns).map(|ns| {
                if let Some(ns) = ns {
                    spec.budget = Budget::DurationNs(ns);
                }
            })
        },
        get: |spec| match spec.budget {
            Budget::Iterations(_) => "auto".to_owned(),
            Budget::DurationNs(ns) => format_ns(ns as f64),
        },
    },
    Factor {
        name: "latency",
        help: "time a sample of the acquisitions and keep the percentiles; its cost is measured and shown",
        values: "off, on",
        switch: true,
        ranges: None,
        set: |spec, text| word(text, SWITCH).map(|b| spec.latency = b),
        get: |spec| name_of(spec.latency, SWITCH),
    },
    Factor {
        name: "profile",
        help: "record each run and say where its CPU time goes: to the lock, the kernel for it, or elsewhere; costs time",
        values: "off, on",
        switch: true,
        ranges: None,
        set: |spec, text| word(text, SWITCH).map(|b| spec.profile = b),
        get: |spec| name_of(spec.profile, SWITCH),
    },
];

const GATES: &[(&str, GateKind)] = &[("thread", GateKind::Thread), ("acquire", GateKind::Acquire)];
const SWITCH: &[(&str, bool)] = &[("off", false), ("on", true)];
const SHARES: &[(&str, Share)] = &[("none", Share::None), ("data", Share::Data), ("neighbour", Share::Neighbour)];
const BOOSTS: &[(&str, Boost)] = &[("off", Boost::Off), ("on", Boost::Share), ("realtime", Boost::Realtime)];
const TAKES: &[(&str, Take)] = &[("wait", Take::Wait), ("try", Take::Try)];
const BETWEENS: &[(&str, Between)] = &[("threads", Between::Threads), ("processes", Between::Processes)];
const BACKOFFS: &[(&str, Backoff)] =
    &[("none", Backoff::None), ("count", Backoff::Count), ("exp", Backoff::Exponential)];
const SPIN_ONS: &[(&str, SpinOn)] = &[("read", SpinOn::Read), ("rmw", SpinOn::Rmw)];
const RMWS: &[(&str, Rmw)] = &[("xchg", Rmw::Xchg), ("cmpxchg", Rmw::CmpXchg)];
const COUNTERS: &[(&str, CounterKind)] = &[
    ("xadd", CounterKind::Xadd),
    ("cas-loop", CounterKind::CasLoop),
    ("cmpxchg8b", CounterKind::CmpXchg8b),
    ("mutex", CounterKind::Mutex),
    ("sharded", CounterKind::Sharded),
];

impl Workload {
    /// Every workload with its name, for lists.
    pub const ALL: &[(&str, Workload)] = WORKLOADS;

    /// The name on the command line.
    pub fn name(self) -> String {
        name_of(self, WORKLOADS)
    }
}

impl Pause {
    fn parse(text: &str) -> Result<Pause, String> {
        let wrong =
            || format!("'{text}' is not one of never, holding, released, both; a sleep is written holding:sleep:50us");
        let (place, sleep_ns) = match text.split_once(":sleep:") {
            Some((place, time)) => (place, Some(span_ns(time)?)),
            None => (text, None),
        };
        let (holding, released) = match place {
            "never" if sleep_ns.is_none() => (false, false),
            "holding" => (true, false),
            "released" => (false, true),
            "both" => (true, true),
            _ => return Err(wrong()),
        };
        Ok(Pause { holding, released, sleep_ns })
    }

    fn to_text(self) -> String {
        let place = match (self.holding, self.released) {
            (false, false) => "never",
            (true, false) => "holding",
            (false, true) => "released",
            (true, true) => "both",
        };
        match self.sleep_ns {
            Some(ns) => format!("{place}:sleep:{}", format_ns(ns as f64)),
            None => place.to_owned(),
        }
    }
}

impl Cpus {
    fn parse(text: &str) -> Result<Cpus, String> {
        let wrong = || format!("'{text}' is not a number of CPUs; write all, a count such as 2, or which: cpu:0+2");
        if text == "all" {
            return Ok(Cpus::All);
        }
        let Some(list) = text.strip_prefix("cpu:") else {
            return whole(text, 1, 4096).map(Cpus::Count).map_err(|_| wrong());
        };
        let set: Result<Vec<u32>, _> = list.split('+').map(str::parse).collect();
        set.map(Cpus::Set).map_err(|_| wrong())
    }

    fn to_text(&self) -> String {
        match self {
            Cpus::All => "all".to_owned(),
            Cpus::Count(n) => n.to_string(),
            Cpus::Set(set) => format!("cpu:{}", set.iter().map(u32::to_string).collect::<Vec<_>>().join("+")),
        }
    }
}

impl Table {
    fn parse(text: &str) -> Result<Table, String> {
        match text {
            "one" => Ok(Table::One),
            "entry" => Ok(Table::PerEntry),
            "rw" => Ok(Table::ReaderWriter),
            _ => whole(text, 1, 65_536).map(Table::Slots).map_err(|_| {
                format!("'{text}' is not one of one, entry, rw, or a number of locks between 1 and 65536")
            }),
        }
    }

    fn to_text(self) -> String {
        match self {
            Table::One => "one".to_owned(),
            Table::Slots(n) => n.to_string(),
            Table::PerEntry => "entry".to_owned(),
            Table::ReaderWriter => "rw".to_owned(),
        }
    }
}

fn word<T: Copy>(text: &str, words: &[(&str, T)]) -> Result<T, String> {
    words.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        format!("'{text}' is not one of {}", names.join(", "))
    })
}

fn name_of<T: Copy + PartialEq>(value: T, words: &[(&str, T)]) -> String {
    words.iter().find(|(_, v)| *v == value).map_or_else(String::new, |(name, _)| (*name).to_owned())
}

fn whole<T: TryFrom<u64>>(text: &str, low: u64, high: u64) -> Result<T, String> {
    text.parse::<u64>()
        .ok()
        .filter(|n| (low..=high).contains(n))
        .and_then(|n| T::try_from(n).ok())
        .ok_or_else(|| format!("'{text}' is not a whole number between {low} and {high}"))
}

fn optional<T>(text: &str, none: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == none {
        return Ok(None);
    }
    parse(text).map(Some).map_err(|why| format!("{why}, or '{none}'"))
}

fn or_word<T: ToString>(value: &Option<T>, none: &str) -> String {
    value.as_ref().map_or_else(|| none.to_owned(), T::to_string)
}

fn span_ns(text: &str) -> Result<u64, String> {
    let ns = parse_ns(text)?;
    if (1.0..=3.6e12).contains(&ns) { Ok(ns as u64) } else { Err(format!("'{text}' is not between 1ns and 1h")) }
}

fn parse_mix(text: &str) -> Result<u32, String> {
    let wrong = || format!("'{text}' is not a mix; write reads:updates in percent, for example 90:10");
    let (reads, updates) = text.split_once(':').ok_or_else(wrong)?;
    let (reads, updates): (u32, u32) = (reads.parse().map_err(|_| wrong())?, updates.parse().map_err(|_| wrong())?);
    if reads.checked_add(updates) == Some(100) { Ok(reads) } else { Err(wrong()) }
}

/// Tenths of a percent.
fn parse_read_share(text: &str) -> Result<u32, String> {
    let permille = text.trim_end_matches('%').parse::<f64>().ok().map(|percent| percent * 10.0);
    let fits = |n: &f64| (0.0..=1_000.0).contains(n) && (n - n.round()).abs() < 1e-6;
    permille.filter(fits).map(|n| n.round() as u32).ok_or_else(|| {
        format!("'{text}' is not a share of reads; write percent, with one decimal at most, for example 50 or 99.9")
    })
}

/// Tenths of a percent, between those that a user gives.
const USUAL_SHARES: [u32; 10] = [0, 100, 250, 500, 750, 900, 950, 990, 999, 1_000];

/// `50..99.9`: these two, and the usual shares between them.
fn share_range(text: &str) -> Result<Vec<String>, String> {
    let wrong = || {
        format!(
            "'{text}' is not a range of shares; write for example 50..99.9, which is 50,75,90,95,99,99.9, or a list of \
             your own"
        )
    };
    let (low, high) = text.split_once("..").ok_or_else(wrong)?;
    let share = |text: &str| parse_read_share(text.trim()).map_err(|_| wrong());
    let (low, high) = (share(low)?, share(high)?);
    if low > high {
        return Err(wrong());
    }
    let mut shares = vec![low];
    shares.extend(USUAL_SHARES.into_iter().filter(|usual| (low + 1..high).contains(usual)));
    shares.extend((high > low).then_some(high));
    Ok(shares.into_iter().map(|permille| (f64::from(permille) / 10.0).to_string()).collect())
}

fn whole_range(text: &str) -> Result<Vec<String>, String> {
    Ok(expand_range(text)?.into_iter().map(|n| n.to_string()).collect())
}

/// `1..8` (all), `0..60+4` (every fourth), `1..64*2` (doubling).
fn expand_range(text: &str) -> Result<Vec<u64>, String> {
    const MOST: usize = 4096;
    let wrong = || format!("'{text}' is not a range; write for example 1..8, 0..60+4 or 1..64*2");
    let (low, rest) = text.split_once("..").ok_or_else(wrong)?;
    let (high, step, doubling) = match (rest.split_once('+'), rest.split_once('*')) {
        (Some((high, step)), None) => (high, step, false),
        (None, Some((high, step))) => (high, step, true),
        (None, None) => (rest, "1", false),
        _ => return Err(wrong()),
    };
    let number = |t: &str| t.trim().parse::<u64>().map_err(|_| wrong());
    let (low, high, step) = (number(low)?, number(high)?, number(step)?);
    if low > high || step == 0 || (doubling && (step < 2 || low == 0)) {
        return Err(wrong());
    }
    let next = |n: &u64| if doubling { n.checked_mul(step) } else { n.checked_add(step) };
    let values: Vec<u64> = std::iter::successors(Some(low), next).take_while(|n| *n <= high).take(MOST + 1).collect();
    if values.len() > MOST { Err(format!("'{text}' has more than {MOST} values")) } else { Ok(values) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_factor_reads_back_its_own_default() {
        for factor in FACTORS {
            let mut spec = Spec::default();
            spec.set(factor.name, &factor.default_value()).unwrap();
            assert_eq!(spec, Spec::default(), "{}", factor.name);
        }
    }

    #[test]
    fn a_cell_survives_its_words() {
        let words = [
            "lock=none",
            "workload=free-list",
            "threads=8",
            "hold=uniform:0units..10units",
            "yield=both:sleep:50us",
            "active=3",
            "gate=acquire",
            "cpus=cpu:0+1",
            "slice=20ms",
            "offset=60",
            "table=256",
            "mix=50:50",
            "read-share=99.9",
            "writers=2",
            "iterations=1000",
            "latency=on",
            "profile=on",
        ];
        let spec = Spec::from_words(words).unwrap();
        let written = spec.to_words();
        assert_eq!(Spec::from_words(written.iter().map(String::as_str)), Ok(spec.clone()));
        for word in words {
            assert!(written.contains(&word.to_owned()), "{word} in {written:?}");
        }
        assert_eq!(
            spec.changed().len(),
            words.len() + 1,
            "and duration, which iterations replaced: {:?}",
            spec.changed()
        );
    }

    #[test]
    fn lists_and_ranges_expand_in_order() {
        let expand = |name: &str, text: &str| Factor::named(name).unwrap().expand(text).unwrap().join(" ");
        assert_eq!(expand("threads", "1,2,4"), "1 2 4");
        assert_eq!(expand("threads", "1..4,8"), "1 2 3 4 8");
        assert_eq!(expand("threads", "1..64*2"), "1 2 4 8 16 32 64");
        assert_eq!(expand("offset", "natural,0..12+4"), "natural 0 4 8 12");
        assert_eq!(expand("hold", "0,uniform:0..1us"), "0 uniform:0..1us");
        assert_eq!(expand("read-share", "50%..99.9%"), "50 75 90 95 99 99.9");
        assert_eq!(expand("read-share", "0,60..92"), "0 60 75 90 92");
        assert_eq!(expand("read-share", "95..95"), "95");
    }

    #[test]
    fn a_wrong_value_names_the_factor_and_what_it_takes() {
        let error = |name: &str, text: &str| Factor::named(name).unwrap().expand(text).unwrap_err().to_string();
        assert_eq!(error("threads", "0"), "--threads: '0' is not a whole number between 1 and 1024");
        assert_eq!(
            error("threads", "4..2"),
            "--threads: '4..2' is not a range; write for example 1..8, 0..60+4 or 1..64*2"
        );
        assert_eq!(error("gate", "door"), "--gate: 'door' is not one of thread, acquire");
        assert!(error("mix", "90:20").contains("90:10"));
        assert!(error("read-share", "99.95").contains("50 or 99.9"));
        assert!(error("read-share", "101").contains("50 or 99.9"));
        assert!(error("read-share", "99..50").contains("50..99.9, which is"));
        assert!(error("read-share", "50..90+10").contains("50..99.9, which is"));
        assert!(error("cpus", "two").contains("cpu:0+2"));
        assert!(Spec::default().set("thread", "1").unwrap_err().to_string().contains("'thread'"));
    }
}
