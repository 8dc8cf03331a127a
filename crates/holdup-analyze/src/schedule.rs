//! Schedules as text: a drawing of what threads do becomes a recording, so that tests show what they are about.
//!
//! ```text
//! tick 10us
//! m = mutex
//! A: ######M###mmmm##
//! B: ##mmmm####M#####
//! ```
//!
//! One line per thread, one character per tick. A thread exists from its first character to its last; spaces before and
//! after are time in which it does not. Lines of equal length end with the recording, shorter ones by the thread's
//! exit.
//!
//! | character | the thread |
//! |---|---|
//! | `#` | runs |
//! | `~` | could run, but does not: preempted after a run, woken but not yet running after a wait |
//! | `z` `p` `f` `w` | sleeps (`nanosleep`), polls (`epoll_wait`), waits for a device (`fsync`), waits for a child (`wait4`) |
//! | `y` | gave the CPU away (`sched_yield`) |
//! | `i` `x` | sleeps uninterruptibly, without a recorded call; the same after a major page fault |
//! | `o` | blocks in a call that is not recorded (a pipe, say) |
//! | `m` `n` `c` `d` `q` `b` `l` `j` | waits on the futex of that name: two mutexes, two condition variables, a semaphore, a barrier, a reader-writer lock, the end of a thread; other letters and kinds as declared |
//! | an upper-case letter | runs, and at the beginning of the tick wakes those who end their wait for the lower-case one at that moment: one of them, or all where the declaration says so; if there is nobody, the call is wasted (at `capabilities full` it must have run a tick before it can wake anybody) |
//!
//! Lines before the threads:
//!
//! | line | meaning |
//! |---|---|
//! | `tick 10us` | length of a tick (`ns`, `us`, `ms`); 1 ms if not said |
//! | `cpus 4` | CPUs of the machine; if not said, as many as are in use at once |
//! | `capabilities full` | with wake-ups, reasons of switches, kernel stacks; `capabilities user` if not said |
//! | `late wakes` | the return of a wake is recorded after the woken thread was switched in |
//! | `samples` | a CPU sample in the middle of each tick of running |
//! | `usage` | what the kernel counted for each thread, at its beginning and end |
//! | `priority A 39` | as /proc/TID/stat has it; implies `usage` |
//! | `m = mutex` | a futex: mutex, pi mutex, rust mutex, parking_lot, go, other lock, rwlock, libc, semaphore, barrier, condvar, park, join, once, unknown; then `, all` (a wake wakes all), `, own` (each thread waits on a word of its own, as of parking_lot) and `, unnamed` (no variable has that address) |
//! | `% = eagain m` | runs, and its wait for `m` gets EAGAIN |
//! | `t = timeout m` | waits for `m`, in vain |
//! | `u = yield m` | gave the CPU away in the function that takes `m` |
//! | `$ = in parse` | runs in the function `parse`, sampled; `, kernel` puts the sample there |
//! | `lost cpu0: xx` | in these ticks all events of the CPU are lost |
//! | `// …` | nothing |
//!
//! Two threads of different processes: `A@1: …`, `B@2: …`.

use std::collections::BTreeMap;
use std::sync::Arc;

use holdup_trace::{
    CallNumber, Capabilities, Ending, Event, FutexOp, Header, Machine, NO_CPU, OffCpu, Pid, Stack, StackId, Stacks,
    Target, ThreadUsage, Tid, What,
};

use crate::facts::{LockName, Primitive};
use crate::names::{Frame, Role, SpaceId};
use crate::timeline::Naming;
use crate::{Analysis, Options, Report};

/// A recording that was drawn.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    /// What the recording says about itself.
    pub header: Header,
    /// Its events, in order of time.
    pub events: Vec<Event>,
    /// Its stacks.
    pub stacks: Stacks,
    /// Its end.
    pub ending: Ending,
    tick_ns: u64,
    threads: Vec<Thread>,
    futexes: BTreeMap<char, Futex>,
    functions: Functions,
}

/// Where the first tick begins on the events' clock.
pub const START_NS: u64 = 1_000_000_000;

impl Schedule {
    /// Reads a drawing.
    ///
    /// # Errors
    /// A line that cannot be understood, or a thread that does what no thread can.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let mut drawing = Drawing::default();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            drawing.line(line).map_err(|why| format!("'{line}': {why}"))?;
        }
        drawing.into_schedule()
    }

    /// The number of a thread; `Tid(0)` if there is none of that name.
    pub fn tid(&self, name: &str) -> Tid {
        self.threads.iter().find(|thread| thread.name == name).map(|thread| thread.tid).unwrap_or_default()
    }

    /// The address of a futex.
    pub fn addr(&self, letter: char) -> u64 {
        addr_of(letter)
    }

    /// When a tick begins.
    pub fn time_ns(&self, tick: u64) -> u64 {
        START_NS + tick * self.tick_ns
    }

    /// What the analysis makes of it, with the names that the drawing gives.
    pub fn analyze(&self) -> Report {
        self.analyze_with(Options::default())
    }

    /// The same, with options.
    pub fn analyze_with(&self, options: Options) -> Report {
        let mut analysis = Analysis::new(&self.header, options);
        self.events.iter().for_each(|event| analysis.feed(event));
        analysis.finish_named(Some(&self.ending), &mut self.clone())
    }
}

impl Naming for Schedule {
    fn call_path(&mut self, _: SpaceId, stack: StackId) -> Arc<[Frame]> {
        let Some(stack) = self.stacks.get(stack) else { return Arc::from([]) };
        stack.kernel.iter().chain(&stack.user).map(|address| self.functions.frame(*address)).collect()
    }

    fn variable(&mut self, _: SpaceId, addr: u64) -> Option<LockName> {
        let letter = letter_of(addr);
        let futex = self.futexes.get(&letter)?;
        (!futex.unnamed).then(|| LockName::Symbol { name: letter.to_string(), offset: 0 })
    }

    fn primitive(&mut self, _: FutexOp, call_path: &[Frame]) -> Primitive {
        let innermost = call_path.first().and_then(|frame| frame.function.as_deref());
        let kind = innermost.and_then(|name| KINDS.iter().find(|kind| kind.wait == name));
        kind.map(|kind| kind.primitive).unwrap_or_default()
    }
}

/// A kind of futex: its word in drawings, what it is, the kernel's operations, and the functions that call them.
struct Kind {
    word: &'static str,
    primitive: Primitive,
    wait_op: u32,
    wake_op: u32,
    wait: &'static str,
    wake: &'static str,
}

const fn kind(
    word: &'static str,
    primitive: Primitive,
    ops: (u32, u32),
    wait: &'static str,
    wake: &'static str,
) -> Kind {
    Kind { word, primitive, wait_op: ops.0, wake_op: ops.1, wait, wake }
}

const PLAIN: (u32, u32) = (FutexOp::WAIT | PRIVATE, FutexOp::WAKE | PRIVATE);
const BITSET: (u32, u32) = (FutexOp::WAIT_BITSET | PRIVATE, FutexOp::WAKE | PRIVATE);
const PI: (u32, u32) = (FutexOp::LOCK_PI | PRIVATE, FutexOp::UNLOCK_PI | PRIVATE);
const PRIVATE: u32 = 128;

const KINDS: &[Kind] = &[
    kind("mutex", Primitive::Mutex, PLAIN, "__lll_lock_wait", "__lll_lock_wake"),
    kind("pi mutex", Primitive::PiMutex, PI, "lock_pi", "unlock_pi"),
    kind("rust mutex", Primitive::RustMutex, BITSET, "Mutex::lock_contended", "Mutex::wake"),
    kind("parking_lot", Primitive::ParkingLotMutex, PLAIN, "RawMutex::lock_slow", "RawMutex::unlock_slow"),
    kind("go", Primitive::GoRuntime, PLAIN, "runtime.futexsleep", "runtime.futexwakeup"),
    kind("other lock", Primitive::OtherLock, PLAIN, "own_lock_wait", "own_lock_wake"),
    kind("rwlock", Primitive::RwLock, BITSET, "pthread_rwlock_wrlock", "pthread_rwlock_unlock"),
    kind("libc", Primitive::Libc, PLAIN, "__lll_lock_wait_private", "__lll_lock_wake_private"),
    kind("semaphore", Primitive::Semaphore, BITSET, "sem_wait", "sem_post"),
    kind("barrier", Primitive::Barrier, PLAIN, "pthread_barrier_wait", "pthread_barrier_wake"),
    kind("condvar", Primitive::Condvar, BITSET, "pthread_cond_wait", "pthread_cond_signal"),
    kind("park", Primitive::Park, BITSET, "Parker::park", "Parker::unpark"),
    kind("join", Primitive::Join, BITSET, "pthread_join", "exit_thread"),
    kind("once", Primitive::Once, BITSET, "Once::wait", "Once::done"),
    kind("unknown", Primitive::Unknown, PLAIN, "syscall", "syscall_wake"),
];

/// Futexes that need no declaration.
const KNOWN: &[(char, &str)] = &[
    ('m', "mutex"),
    ('n', "mutex"),
    ('c', "condvar"),
    ('d', "condvar"),
    ('q', "semaphore"),
    ('b', "barrier, all"),
    ('l', "rwlock"),
    ('j', "join"),
];

#[derive(Clone, Copy, Debug)]
struct Futex {
    kind: usize,
    all: bool,
    own: bool,
    unnamed: bool,
}

impl Futex {
    fn parse(text: &str) -> Option<Futex> {
        let mut words = text.split(',').map(str::trim);
        let word = words.next()?;
        let kind = KINDS.iter().position(|kind| kind.word == word)?;
        let rest: Vec<&str> = words.collect();
        rest.iter().all(|word| ["all", "own", "unnamed"].contains(word)).then(|| Futex {
            kind,
            all: rest.contains(&"all"),
            own: rest.contains(&"own") || KINDS[kind].primitive == Primitive::ParkingLotMutex,
            unnamed: rest.contains(&"unnamed"),
        })
    }

    fn kind(self) -> &'static Kind {
        &KINDS[self.kind]
    }
}

const FUTEX_BASE: u64 = 0x10_0000;
const FUTEX_STEP: u64 = 0x1000;

fn addr_of(letter: char) -> u64 {
    FUTEX_BASE + u64::from(u32::from(letter)) * FUTEX_STEP
}

fn letter_of(addr: u64) -> char {
    let number = addr.saturating_sub(FUTEX_BASE) / FUTEX_STEP;
    u32::try_from(number).ok().and_then(char::from_u32).unwrap_or_default()
}

/// Functions get addresses as they are met.
#[derive(Clone, Debug, Default)]
struct Functions {
    names: Vec<(Arc<str>, Role)>,
}

const CODE_BASE: u64 = 0x40_0000;
const CODE_STEP: u64 = 0x100;

impl Functions {
    fn address(&mut self, name: &str, role: Role) -> u64 {
        let known = self.names.iter().position(|(known, r)| **known == *name && *r == role);
        let index = known.unwrap_or_else(|| {
            self.names.push((Arc::from(name), role));
            self.names.len() - 1
        });
        CODE_BASE + index as u64 * CODE_STEP
    }

    fn frame(&self, address: u64) -> Frame {
        let index = (address.saturating_sub(CODE_BASE) / CODE_STEP) as usize;
        let known = self.names.get(index);
        let role = known.map_or(Role::Program, |(_, role)| *role);
        let module = match role {
            Role::Program => "program",
            Role::Lock | Role::Runtime => "libc.so.6",
            Role::Scheduler | Role::Kernel => "[kernel]",
        };
        Frame {
            address,
            function: known.map(|(name, _)| name.clone()),
            module: Arc::from(module),
            offset: address - CODE_BASE.min(address),
            start: address - CODE_BASE.min(address),
            file: None,
            line: None,
            inlined: false,
            role,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Thread {
    name: String,
    tid: Tid,
    pid: Pid,
    priority: i32,
    cells: Vec<Cell>,
}

/// What a thread does in a tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Cell {
    #[default]
    Absent,
    Run(Act),
    Ready,
    Wait {
        futex: char,
        timeout: bool,
    },
    Block(char),
    /// Gives the CPU away where it would wait for this futex.
    Yield(char),
}

/// What a running thread does at the beginning of the tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Act {
    wakes: Option<char>,
    eagain: Option<char>,
    function: Option<u16>,
}

impl Cell {
    fn runs(self) -> bool {
        matches!(self, Cell::Run(_))
    }

    /// Whether it waits for somebody to wake it; and by which letter.
    fn blocked_on(self) -> Option<char> {
        match self {
            Cell::Wait { futex, timeout: false } => Some(futex),
            Cell::Block(letter) if letter != 'y' => Some(letter),
            _ => None,
        }
    }
}

/// The lines as they are read.
#[derive(Default)]
struct Drawing {
    tick_ns: Option<u64>,
    cpus: u32,
    full: bool,
    late: bool,
    samples: bool,
    usage: bool,
    futexes: BTreeMap<char, Futex>,
    symbols: BTreeMap<char, Cell>,
    run_in: Vec<(String, bool)>,
    priorities: Vec<(String, i32)>,
    lost: Vec<(u16, Vec<bool>)>,
    threads: Vec<(String, u32, String)>,
}

impl Drawing {
    fn line(&mut self, line: &str) -> Result<(), String> {
        let trimmed = line.trim();
        if trimmed.starts_with("//") {
            return Ok(());
        }
        let words: Vec<&str> = trimmed.split_whitespace().collect();
        match words[..] {
            ["tick", time] => self.tick_ns = Some(parse_ns(time)?),
            ["cpus", cpus] => self.cpus = cpus.parse().map_err(|_| "a number of CPUs is expected")?,
            ["capabilities", "full"] => self.full = true,
            ["capabilities", "user"] => self.full = false,
            ["late", "wakes"] => self.late = true,
            ["samples"] => self.samples = true,
            ["usage"] => self.usage = true,
            ["priority", name, value] => {
                self.usage = true;
                let value = value.parse().map_err(|_| "a priority is a number")?;
                self.priorities.push((name.to_owned(), value));
            }
            [symbol, "=", ..] => {
                let (_, meaning) = trimmed.split_once('=').unwrap_or_default();
                self.declare(symbol, meaning.trim())?;
            }
            _ => self.drawn(line.trim_start())?,
        }
        Ok(())
    }

    fn declare(&mut self, symbol: &str, meaning: &str) -> Result<(), String> {
        let mut letters = symbol.chars();
        let (Some(letter), None) = (letters.next(), letters.next()) else {
            return Err("one character is declared at a time".into());
        };
        if let Some(futex) = Futex::parse(meaning) {
            self.futexes.insert(letter, futex);
            return Ok(());
        }
        let cell = match meaning.split_once(' ') {
            Some(("eagain", on)) => Cell::Run(Act { eagain: on.chars().next(), ..Act::default() }),
            Some(("timeout", on)) => Cell::Wait { futex: on.chars().next().unwrap_or_default(), timeout: true },
            Some(("yield", on)) => Cell::Yield(on.chars().next().unwrap_or_default()),
            Some(("in", function)) => {
                let kernel = function.ends_with(", kernel");
                self.run_in.push((function.trim_end_matches(", kernel").to_owned(), kernel));
                Cell::Run(Act { function: Some(self.run_in.len() as u16 - 1), ..Act::default() })
            }
            _ => return Err("neither a kind of futex, nor eagain, timeout, yield or in".into()),
        };
        self.symbols.insert(letter, cell);
        Ok(())
    }

    fn drawn(&mut self, line: &str) -> Result<(), String> {
        let (name, cells) = line.split_once(':').ok_or("neither a thread nor a declaration")?;
        let cells = cells.strip_prefix(' ').unwrap_or(cells).trim_end();
        if let Some(cpu) = name.strip_prefix("lost cpu") {
            let cpu = cpu.trim().parse().map_err(|_| "a CPU is a number")?;
            self.lost.push((cpu, cells.chars().map(|c| c == 'x').collect()));
            return Ok(());
        }
        let (name, process) = name.trim().split_once('@').unwrap_or((name.trim(), "1"));
        let process = process.parse().map_err(|_| "a process is a number")?;
        self.threads.push((name.to_owned(), process, cells.to_owned()));
        Ok(())
    }

    fn cell(&self, letter: char) -> Result<Cell, String> {
        if let Some(cell) = self.symbols.get(&letter) {
            return Ok(*cell);
        }
        if letter.is_ascii_uppercase() {
            let wakes = Some(letter.to_ascii_lowercase());
            return Ok(Cell::Run(Act { wakes, ..Act::default() }));
        }
        match letter {
            ' ' => Ok(Cell::Absent),
            '#' => Ok(Cell::Run(Act::default())),
            '~' => Ok(Cell::Ready),
            futex if self.futexes.contains_key(&futex) => Ok(Cell::Wait { futex, timeout: false }),
            'z' | 'p' | 'f' | 'w' | 'y' | 'i' | 'x' | 'o' => Ok(Cell::Block(letter)),
            _ => Err(format!("'{letter}' is not declared")),
        }
    }

    fn into_schedule(mut self) -> Result<Schedule, String> {
        for (letter, kind) in KNOWN {
            let futex = Futex::parse(kind).ok_or("a known futex has an unknown kind")?;
            self.futexes.entry(*letter).or_insert(futex);
        }
        let mut threads = Vec::new();
        let mut leaders: BTreeMap<u32, Pid> = BTreeMap::new();
        for (index, (name, process, text)) in (101..).zip(&self.threads) {
            let cells: Result<Vec<Cell>, String> = text.chars().map(|letter| self.cell(letter)).collect();
            let cells = cells.map_err(|why| format!("thread {name}: {why}"))?;
            let priority = self.priorities.iter().find(|(n, _)| n == name).map_or(20, |(_, value)| *value);
            let pid = *leaders.entry(*process).or_insert(Pid(index));
            threads.push(Thread { name: name.clone(), tid: Tid(index), pid, priority, cells });
        }
        let ticks = threads.iter().map(|thread| thread.cells.len()).max().unwrap_or(0);
        Player::new(self, threads, leaders.into_values().collect()).play(ticks)
    }
}

fn parse_ns(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        _ => return Err("a time is a number and ns, us or ms".into()),
    };
    digits.parse::<u64>().map(|n| n * unit).map_err(|_| "a time is a number and ns, us or ms".into())
}

/// The order of events of one moment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Phase {
    Born,
    Enter,
    Out,
    Wake,
    In,
    Return,
    LateWake,
    Rest,
}

/// Plays a drawing tick by tick.
struct Player {
    drawing: Drawing,
    schedule: Schedule,
    /// Per thread: its CPU while it runs, and the last one.
    cpus: Vec<(Option<u16>, Option<u16>)>,
    /// Per thread: what it is off the CPU for.
    off: Vec<Cell>,
    /// Per thread: switches so far.
    usage: Vec<ThreadUsage>,
    busy: Vec<bool>,
    now: Vec<(Phase, Event)>,
}

impl Player {
    fn new(drawing: Drawing, threads: Vec<Thread>, leaders: Vec<Pid>) -> Player {
        let tick_ns = drawing.tick_ns.unwrap_or(1_000_000);
        let full = drawing.full;
        let capabilities = Capabilities {
            switches: true,
            switch_reasons: full,
            wakings: full,
            foreign_wakings: full,
            futexes: true,
            calls: true,
            samples: drawing.samples || !drawing.run_in.is_empty(),
            kernel: full,
            faults: full,
            lock_words: false,
            hardware: false,
        };
        let header = Header {
            producer: "a drawing".into(),
            began_ns: START_NS,
            machine: Machine { arch: "x86_64".into(), cpus: drawing.cpus, ..Machine::default() },
            target: Target { pids: leaders.iter().map(|pid| pid.0).collect(), ..Target::default() },
            capabilities,
            sample_period_ns: if capabilities.samples { tick_ns } else { 0 },
            ..Header::default()
        };
        let futexes = drawing.futexes.clone();
        let count = threads.len();
        let usage =
            threads.iter().map(|thread| ThreadUsage { priority: thread.priority, ..ThreadUsage::default() }).collect();
        Player {
            drawing,
            schedule: Schedule { header, tick_ns, threads, futexes, ..Schedule::default() },
            cpus: vec![(None, None); count],
            off: vec![Cell::Absent; count],
            usage,
            busy: Vec::new(),
            now: Vec::new(),
        }
    }

    fn play(mut self, ticks: usize) -> Result<Schedule, String> {
        for tick in 0..=ticks {
            self.step(tick, ticks)?;
        }
        let machine = &mut self.schedule.header.machine;
        machine.cpus = machine.cpus.max(self.busy.len() as u32);
        let lost = self.lose();
        self.schedule.ending = Ending {
            ended_ns: self.schedule.time_ns(ticks as u64),
            reason: "the target ended".into(),
            lost,
            ..Ending::default()
        };
        Ok(self.schedule)
    }

    fn cell(&self, thread: usize, tick: usize) -> Cell {
        self.schedule.threads[thread].cells.get(tick).copied().unwrap_or_default()
    }

    /// All that happens at the beginning of a tick.
    fn step(&mut self, tick: usize, ticks: usize) -> Result<(), String> {
        let count = self.schedule.threads.len();
        let before = |player: &Player, thread| match tick {
            0 => Cell::Absent,
            _ => player.cell(thread, tick - 1),
        };
        if tick < ticks {
            for thread in 0..count {
                self.leave(thread, before(self, thread), self.cell(thread, tick), tick)?;
            }
            for thread in 0..count {
                self.enter(thread, before(self, thread), self.cell(thread, tick), tick)?;
            }
            for thread in 0..count {
                self.act(thread, before(self, thread), self.cell(thread, tick), tick);
            }
        } else if self.drawing.usage {
            for thread in 0..count {
                if before(self, thread) != Cell::Absent {
                    self.usage_event(thread, tick);
                }
            }
        }
        self.now.sort_by_key(|(phase, event)| (event.time_ns, *phase));
        self.schedule.events.extend(self.now.drain(..).map(|(_, event)| event));
        Ok(())
    }

    fn emit(&mut self, phase: Phase, thread: usize, tick: usize, what: What) {
        let cpu = self.cpus[thread].0.or(self.cpus[thread].1).unwrap_or(NO_CPU);
        let time_ns = self.schedule.time_ns(tick as u64);
        let tid = self.schedule.threads[thread].tid;
        self.now.push((phase, Event { time_ns, tid, cpu, what }));
    }

    fn usage_event(&mut self, thread: usize, tick: usize) {
        let usage = Box::new(self.usage[thread]);
        self.emit(Phase::Born, thread, tick, What::Usage(usage));
    }

    /// A thread that stops running or existing, or begins to exist.
    fn leave(&mut self, thread: usize, before: Cell, after: Cell, tick: usize) -> Result<(), String> {
        if before == Cell::Absent && after != Cell::Absent {
            let pid = self.schedule.threads[thread].pid;
            let parent = (tick > 0).then(|| self.schedule.threads[0].tid);
            let name = self.schedule.threads[thread].name.as_str().into();
            self.emit(Phase::Born, thread, tick, What::Started { pid, parent });
            self.emit(Phase::Born, thread, tick, What::Named { name, exec: false });
            if self.drawing.usage {
                self.usage_event(thread, tick);
            }
            self.off[thread] = after;
        }
        if before.runs() && !after.runs() {
            self.go_off(thread, after, tick);
        } else if before != Cell::Absent && !before.runs() && after == Cell::Absent {
            self.emit(Phase::Enter, thread, tick, What::Exited);
        } else if !before.runs() && before != after && ![Cell::Absent, Cell::Ready].contains(&before) {
            let allowed = after == Cell::Ready || after.runs();
            if !allowed {
                let name = &self.schedule.threads[thread].name;
                return Err(format!("thread {name} goes from one wait to another at tick {tick} and never runs"));
            }
        }
        Ok(())
    }

    fn go_off(&mut self, thread: usize, after: Cell, tick: usize) {
        let full = self.drawing.full;
        let deep = if full { OffCpu::Uninterruptible } else { OffCpu::Blocked };
        let sleeping = if full { OffCpu::Sleeping } else { OffCpu::Blocked };
        let off = match after {
            Cell::Absent => {
                self.emit(Phase::Enter, thread, tick, What::Exited);
                OffCpu::Gone
            }
            Cell::Wait { futex, .. } => {
                self.futex_wait(thread, futex, tick);
                sleeping
            }
            Cell::Block(letter) => self.block(thread, letter, tick, sleeping, deep),
            Cell::Yield(futex) => {
                self.call(thread, tick, 24, "sched_yield", &format!("take_{futex}"));
                OffCpu::Runnable
            }
            Cell::Ready | Cell::Run(_) => OffCpu::Runnable,
        };
        let stack = full.then(|| self.stack(&["schedule"], &[], thread));
        self.emit(Phase::Out, thread, tick, What::SwitchOut { off, stack });
        match off {
            OffCpu::Runnable => self.usage[thread].involuntary += 1,
            _ => self.usage[thread].voluntary += 1,
        }
        if let Some(cpu) = self.cpus[thread].0.take() {
            self.busy[usize::from(cpu)] = false;
        }
        self.off[thread] = after;
    }

    fn futex_wait(&mut self, thread: usize, futex: char, tick: usize) {
        // Words of the threads' own are told apart by where threads come from, in more frames than these.
        const CALLERS: [(&str, Role); 4] =
            [("look_up", Role::Program), ("answer", Role::Program), ("serve", Role::Program), ("run", Role::Program)];
        let Futex { own, .. } = self.schedule.futexes[&futex];
        let kind = self.schedule.futexes[&futex].kind();
        let take = format!("take_{futex}");
        let callers = if own { &CALLERS[..] } else { &[] };
        let user = [&[(kind.wait, Role::Lock), (take.as_str(), Role::Program)], callers].concat();
        let stack = Some(self.stack(&[], &user, thread));
        let addr = self.futex_addr(futex, thread);
        let what = What::FutexWait { op: FutexOp(kind.wait_op), addr, value: 2, stack };
        self.emit(Phase::Enter, thread, tick, what);
    }

    /// Each thread parks on a word of its own where the futex is so.
    fn futex_addr(&self, futex: char, thread: usize) -> u64 {
        addr_of(futex) + if self.schedule.futexes[&futex].own { thread as u64 * 8 } else { 0 }
    }

    fn block(&mut self, thread: usize, letter: char, tick: usize, sleeping: OffCpu, deep: OffCpu) -> OffCpu {
        let (nr, function, off) = match letter {
            'z' => (35, "nanosleep", sleeping),
            'p' => (232, "epoll_wait", sleeping),
            'f' => (74, "fsync", deep),
            'w' => (61, "wait4", sleeping),
            'y' => (24, "sched_yield", OffCpu::Runnable),
            'x' | 'i' => {
                if letter == 'x' && self.drawing.full {
                    let stack = Some(self.stack(&[], &[("read_page", Role::Program)], thread));
                    self.emit(Phase::Enter, thread, tick, What::MajorFault { addr: 0x7000_0000, stack });
                }
                return deep;
            }
            _ => return sleeping,
        };
        self.call(thread, tick, nr, function, &format!("do_{function}"));
        off
    }

    fn call(&mut self, thread: usize, tick: usize, nr: u16, function: &str, caller: &str) {
        let stack = Some(self.stack(&[], &[(function, Role::Runtime), (caller, Role::Program)], thread));
        self.emit(Phase::Enter, thread, tick, What::Call { nr: CallNumber(nr), stack });
    }

    /// The stack of a thread: kernel functions, then user functions, then its own outermost one.
    fn stack(&mut self, kernel: &[&str], user: &[(&str, Role)], thread: usize) -> StackId {
        let own = format!("thread_{}", self.schedule.threads[thread].name);
        let functions = &mut self.schedule.functions;
        let kernel: Vec<u64> = kernel.iter().map(|name| functions.address(name, Role::Scheduler)).collect();
        let mut chain: Vec<u64> = user.iter().map(|(name, role)| functions.address(name, *role)).collect();
        chain.push(functions.address(&own, Role::Program));
        self.schedule.stacks.intern(&Stack { kernel, user: chain, ..Stack::default() })
    }

    /// A thread that begins to run.
    fn enter(&mut self, thread: usize, before: Cell, after: Cell, tick: usize) -> Result<(), String> {
        if before.runs() || !after.runs() {
            return Ok(());
        }
        let cpu = self.free_cpu(self.cpus[thread].1)?;
        self.busy[usize::from(cpu)] = true;
        self.cpus[thread] = (Some(cpu), Some(cpu));
        self.emit(Phase::In, thread, tick, What::SwitchIn);
        if let Cell::Wait { futex, timeout } = self.off[thread] {
            let op = FutexOp(self.schedule.futexes[&futex].kind().wait_op);
            let addr = self.futex_addr(futex, thread);
            let ret = if timeout { -110 } else { 0 };
            self.emit(Phase::Return, thread, tick, What::FutexReturn { op, addr, ret, stack: None });
        }
        Ok(())
    }

    fn free_cpu(&mut self, last: Option<u16>) -> Result<u16, String> {
        if let Some(cpu) = last.filter(|cpu| !self.busy[usize::from(*cpu)]) {
            return Ok(cpu);
        }
        if let Some(cpu) = self.busy.iter().position(|busy| !busy) {
            return Ok(cpu as u16);
        }
        self.busy.push(false);
        if self.drawing.cpus > 0 && self.busy.len() > self.drawing.cpus as usize {
            return Err(format!("more threads run at once than the {} CPUs", self.drawing.cpus));
        }
        Ok(self.busy.len() as u16 - 1)
    }

    /// What a running thread does in the tick.
    fn act(&mut self, thread: usize, before: Cell, after: Cell, tick: usize) {
        let Cell::Run(act) = after else { return };
        if let Some(letter) = act.wakes {
            self.wake(thread, letter, before.runs(), tick);
        }
        if let Some(futex) = act.eagain {
            self.futex_wait(thread, futex, tick);
            if let Some((phase, _)) = self.now.last_mut() {
                *phase = Phase::Rest;
            }
        }
        if self.drawing.samples || act.function.is_some() {
            self.sample(thread, act.function, tick);
        }
    }

    fn wake(&mut self, thread: usize, letter: char, ran: bool, tick: usize) {
        let early = ran && !self.drawing.late;
        let all = self.schedule.futexes.get(&letter).is_some_and(|futex| futex.all);
        let limit = if all { usize::MAX } else { 1 };
        let woken: Vec<usize> = (0..self.schedule.threads.len())
            .filter(|other| {
                *other != thread
                    && tick > 0
                    && (ran || !self.drawing.full)
                    && self.cell(*other, tick - 1).blocked_on() == Some(letter)
            })
            .filter(|other| self.cell(*other, tick).blocked_on() != Some(letter) && !self.is_woken(*other))
            .take(limit)
            .collect();
        let phase = if early { Phase::Wake } else { Phase::LateWake };
        for other in &woken {
            let target = self.schedule.threads[*other].tid;
            let stack = self.drawing.full.then(|| self.stack(&["try_to_wake_up"], &[], thread));
            // The event is there in any case while the tick is made up, as the mark of who is woken; see `is_woken`.
            self.emit(Phase::Wake, thread, tick, What::Waking { target, stack });
        }
        let Some(futex) = self.schedule.futexes.get(&letter) else { return };
        let kind = futex.kind();
        let user = [(kind.wake, Role::Lock), (&*format!("release_{letter}"), Role::Program)];
        let stack = (!woken.is_empty()).then(|| self.stack(&[], &user, thread));
        let addr = self.futex_addr(letter, woken.first().copied().unwrap_or(thread));
        let pi = kind.primitive == Primitive::PiMutex;
        let ret = if pi { 0 } else { woken.len() as i32 };
        self.emit(phase, thread, tick, What::FutexReturn { op: FutexOp(kind.wake_op), addr, ret, stack });
    }

    fn is_woken(&self, thread: usize) -> bool {
        let tid = self.schedule.threads[thread].tid;
        self.now.iter().any(|(_, event)| matches!(event.what, What::Waking { target, .. } if target == tid))
    }

    fn sample(&mut self, thread: usize, function: Option<u16>, tick: usize) {
        let named = function.and_then(|index| self.drawing.run_in.get(usize::from(index)).cloned());
        let (name, kernel) = named.unwrap_or(("work".into(), false));
        let stack = match kernel {
            true => self.stack(&[&name], &[("work", Role::Program)], thread),
            false => self.stack(&[], &[(&name, Role::Program)], thread),
        };
        self.emit(Phase::Rest, thread, tick, What::Sample { stack });
        if let Some((_, event)) = self.now.last_mut() {
            event.time_ns += self.schedule.tick_ns / 2;
        }
    }

    /// Takes away what was lost, and says so; and wake-ups, if the capabilities have none.
    fn lose(&mut self) -> u64 {
        if !self.drawing.full {
            self.schedule.events.retain(|event| !matches!(event.what, What::Waking { .. }));
        }
        let mut all = 0;
        for (cpu, ticks) in std::mem::take(&mut self.drawing.lost) {
            let mut tick = 0;
            while tick < ticks.len() {
                let len = ticks[tick..].iter().take_while(|lost| **lost).count();
                all += if len > 0 { self.lose_range(cpu, tick as u64, (tick + len) as u64) } else { 0 };
                tick += len.max(1);
            }
        }
        all
    }

    fn lose_range(&mut self, cpu: u16, from: u64, to: u64) -> u64 {
        let range = self.schedule.time_ns(from)..self.schedule.time_ns(to);
        let events = &mut self.schedule.events;
        let before = events.len();
        events.retain(|event| event.cpu != cpu || !range.contains(&event.time_ns));
        let count = (before - events.len()) as u64;
        let at = events.partition_point(|event| event.time_ns < range.end);
        let lost = Event { time_ns: range.end, tid: Tid(0), cpu, what: What::Lost { count } };
        events.insert(at, lost);
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(schedule: &Schedule, name: &str) -> Vec<(u64, What)> {
        let tid = schedule.tid(name);
        let own = schedule.events.iter().filter(|event| event.tid == tid);
        own.map(|event| ((event.time_ns - START_NS) / schedule.tick_ns, event.what.clone())).collect()
    }

    #[test]
    fn a_wait_becomes_its_events() {
        let schedule = Schedule::parse(
            "tick 10us
             A: ###M##
             B: #mm###",
        )
        .unwrap();
        let events = of(&schedule, "B");
        assert!(matches!(events[0], (0, What::Started { pid: Pid(101), parent: None })));
        assert!(matches!(events[1], (0, What::Named { .. })));
        assert!(matches!(events[2], (0, What::SwitchIn)));
        assert!(matches!(events[3], (1, What::FutexWait { .. })));
        assert!(matches!(events[4], (1, What::SwitchOut { off: OffCpu::Blocked, stack: None })));
        assert!(matches!(events[5], (3, What::SwitchIn)));
        assert!(matches!(events[6], (3, What::FutexReturn { ret: 0, .. })));
        assert_eq!(events.len(), 7);
        let wakes = of(&schedule, "A");
        assert!(matches!(wakes[3], (3, What::FutexReturn { ret: 1, stack: Some(_), .. })), "{wakes:?}");
        assert_eq!(schedule.header.machine.cpus, 2);
        assert_eq!(schedule.ending.ended_ns, START_NS + 60_000);
    }

    #[test]
    fn preemption_yields_exits_and_full_capabilities() {
        let schedule = Schedule::parse(
            "capabilities full
             cpus 1
             A: ##~~#y#
             B:   ##O",
        );
        assert!(schedule.is_err(), "B runs in tick 4 beside A on one CPU");
        let schedule = Schedule::parse(
            "capabilities full
             A: ##~~#y#oo#
             B:   ###~~#O",
        )
        .unwrap();
        let a = of(&schedule, "A");
        assert!(a.iter().any(|(t, what)| *t == 2 && matches!(what, What::SwitchOut { off: OffCpu::Runnable, .. })));
        assert!(a.iter().any(|(t, what)| *t == 5 && matches!(what, What::Call { nr: CallNumber(24), .. })));
        let b = of(&schedule, "B");
        assert!(matches!(b[0], (2, What::Started { parent: Some(Tid(101)), .. })));
        assert!(matches!(b[b.len() - 1], (9, What::SwitchOut { off: OffCpu::Gone, .. })));
        assert!(!b.iter().any(|(_, what)| matches!(what, What::Waking { .. })), "A's wait ends a tick later");
    }

    #[test]
    fn loss_takes_the_events_of_a_cpu() {
        let schedule = Schedule::parse(
            "A: ##oo##oo##
             lost cpu0:   xx",
        )
        .unwrap();
        assert_eq!(schedule.ending.lost, 1);
        assert!(schedule.events.iter().any(|event| event.what == What::Lost { count: 1 }));
        assert!(Schedule::parse("A: ##oozz##").unwrap_err().contains("never runs"));
        assert!(Schedule::parse("A: ##g").unwrap_err().contains("not declared"));
    }
}
