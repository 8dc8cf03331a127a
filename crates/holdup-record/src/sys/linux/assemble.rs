//! From records in order of time to events: who is who, which records are one fact, what the registers mean.

use std::io;

use holdup_trace::{
    CallNumber, Event, FutexOp, Interpreted, Mapping, NO_CPU, OffCpu, Pid, Stack, StackId, Tid, What, Writer,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::decode::{self, Frame, Record, Sample, Shape, register};
use super::inside::{self, Translator};
use super::pointers::{GENERAL_MASK, Pointing};
use super::reduce::{Spaces, reduce};
use super::scripts::Scripts;
use super::snapshot;
use super::still::Still;
use crate::kernel;

/// The commands of `fcntl` that wait: `F_SETLKW` and `F_OFD_SETLKW`.
pub const WAITING_FCNTL: [u32; 2] = [7, 38];

/// What an event of the kernel is recorded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Switches, names, mappings, births and deaths.
    Side,
    /// A futex call that waits, on its way in; and one that hands over a lock with priority inheritance.
    FutexWait,
    /// A futex call on its way out that woke somebody, or waited in vain, or failed otherwise than by a changed value.
    FutexReturn,
    /// One in some futex calls that returned 0.
    FutexZero,
    /// A running thread.
    Sample,
    /// A page that came from a device.
    MajorFault,
    /// One in some pages that were touched for the first time.
    Fault,
    /// Another call that blocks.
    Call,
    /// The scheduler's own word on who leaves the CPU, why, and who gets it.
    Switch,
    /// Where a thread is that leaves for an uninterruptible sleep: written right before the record of the switch.
    DeepPlace,
    /// The same for other sleeps. Futex and other calls tell of most of them, so this is for targets where too many are
    /// left over: the walk up the kernel's stack costs 2 us.
    SleepPlace,
    /// A thread makes another one runnable.
    Waking,
}

impl Kind {
    /// What its samples carry.
    pub fn shape(self) -> Shape {
        const UNWIND: u64 = 1 << register::FP
            | 1 << register::SP
            | 1 << register::IP
            | match register::LR {
                Some(bit) => 1 << bit,
                None => 0,
            };
        const ARGUMENTS: u64 = 1 << register::ARGUMENT_1 | 1 << register::ARGUMENT_2;
        // The kernel's walk along the frame pointers costs as much as the rest of the record and often ends in a fault:
        // only for what is rare. The others are walked here, as far as the copy of the stack goes.
        let top = Shape { registers: UNWIND, stack: true, ..Shape::default() };
        let whole = Shape { chain: true, ..top };
        match self {
            Kind::Side => Shape::default(),
            Kind::Sample => Shape { registers: UNWIND | GENERAL_MASK, ..whole },
            Kind::Fault => top,
            Kind::MajorFault => Shape { addr: true, ..whole },
            Kind::Call => Shape { raw: true, ..top },
            Kind::FutexWait => Shape { registers: UNWIND | ARGUMENTS | 1 << register::ARGUMENT_3, ..top },
            Kind::FutexReturn => Shape { registers: UNWIND | ARGUMENTS | 1 << register::RESULT, ..top },
            Kind::FutexZero => Shape { registers: ARGUMENTS, ..Shape::default() },
            Kind::DeepPlace | Kind::SleepPlace => whole,
            Kind::Switch | Kind::Waking => Shape { raw: true, ..Shape::default() },
        }
    }
}

/// Where events go.
pub trait Sink {
    /// The number of a stack.
    fn stack(&mut self, stack: &Stack) -> StackId;

    /// The next event.
    ///
    /// # Errors
    /// It cannot be kept.
    fn event(&mut self, event: &Event) -> io::Result<()>;
}

impl<W: io::Write> Sink for Writer<W> {
    fn stack(&mut self, stack: &Stack) -> StackId {
        Writer::stack(self, stack)
    }

    fn event(&mut self, event: &Event) -> io::Result<()> {
        Writer::event(self, event)
    }
}

/// Feeds on records, gives events.
#[derive(Debug, Default)]
pub struct Assembler {
    kinds: FxHashMap<u64, Kind>,
    lanes: Vec<Lane>,
    spaces: Spaces,
    pointing: Pointing,
    scripts: Scripts,
    /// What the record that is being read says before all else, and besides.
    before: Option<What>,
    besides: Option<What>,
    /// Threads that were seen to begin and not to end, with their processes.
    alive: FxHashMap<u32, u32>,
    /// How many of them each process has.
    processes: FxHashMap<u32, usize>,
    /// Mappings, births and deaths come from all programs.
    of_all: bool,
    /// The command before it is executed: what it does until then is the recorder's doing.
    unborn: Option<u32>,
    /// Threads that entered a recorded call since they slept last.
    calling: FxHashSet<u32>,
    /// Sleeps, and those of them that no recorded call explains.
    sleeps: u64,
    unexplained: u64,
    scratch: Stack,
    translator: Translator,
    lost: u64,
    /// Whether a process still executes a program.
    goes_on: Option<fn(u32) -> bool>,
    /// Processes that go on, from which the kernel has taken the events.
    pub dropped: Vec<u32>,
}

/// One CPU.
#[derive(Debug, Default)]
struct Lane {
    cpu: u16,
    /// The thread of the last switch record, and whether it left.
    last: Option<(u32, bool)>,
    /// Where the thread is that leaves next.
    place: Option<(u32, StackId)>,
    /// Who left and who came by the scheduler's word: the threads' own events say it again, right afterwards. What the
    /// scheduler did not tell (on some CPUs, that one came after idleness) they tell alone.
    told_out: Option<u32>,
    told_in: Option<u32>,
}

impl Assembler {
    /// For rings of these CPUs.
    pub fn new(cpus: &[u16]) -> Self {
        let lanes = cpus.iter().map(|&cpu| Lane { cpu, ..Lane::default() }).collect();
        Assembler { lanes, ..Assembler::default() }
    }

    /// An event of the kernel, by the identifier in its records.
    pub fn know(&mut self, id: u64, kind: Kind) {
        self.kinds.insert(id, kind);
    }

    /// Mappings, births and deaths come from all programs.
    pub fn expect_everybody(&mut self) {
        self.of_all = true;
    }

    /// Processes of which `goes_on` says that they execute a program have not ended, whatever a record says.
    pub fn look_whether(&mut self, goes_on: fn(u32) -> bool) {
        self.goes_on = Some(goes_on);
    }

    /// The command that will be executed: its switches count from then on.
    pub fn await_execution(&mut self, pid: u32) {
        self.unborn = Some(pid);
    }

    /// The threads that records show to have been switched in or out.
    pub fn ran<'a>(&self, records: impl Iterator<Item = &'a [u8]>) -> FxHashSet<u32> {
        records.flat_map(|record| self.switched(record)).flatten().collect()
    }

    fn switched(&self, record: &[u8]) -> [Option<u32>; 2] {
        let Some(frame) = decode::frame(record) else { return [None; 2] };
        match decode::record(record) {
            Some(Record::Switch { .. } | Record::Exit { .. }) => [Some(frame.tid), None],
            Some(Record::Sample(bytes)) if inside::is_ours(frame) => inside::switched(frame, bytes),
            Some(Record::Sample(bytes)) if self.kinds.get(&frame.id) == Some(&Kind::Switch) => {
                let raw = Sample::read(bytes, Kind::Switch.shape()).map_or(&[][..], |sample| sample.raw);
                [Some(frame.tid), next_of(raw)]
            }
            _ => [None; 2],
        }
    }

    /// Whether so many sleeps have no explanation that [`Kind::SleepPlace`] is worth its cost.
    pub fn wants_places(&self) -> bool {
        const ENOUGH: u64 = 100;
        const ONE_IN: u64 = 20;
        self.unexplained >= ENOUGH && self.unexplained * ONE_IN >= self.sleeps
    }

    /// The sink has forgotten its stacks: those that are remembered here get new numbers.
    pub fn renew_stacks(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.place = None);
        self.translator.renew();
    }

    /// Hashes of stacks that are forgotten, which the programs inside the kernel are to tell anew if they come again.
    pub fn forgotten_stacks(&mut self) -> Vec<u64> {
        self.translator.turn()
    }

    /// Threads that were seen to begin and not to end.
    pub fn alive(&self) -> impl Iterator<Item = u32> {
        self.alive.keys().copied()
    }

    fn begins(&mut self, tid: u32, pid: u32) {
        let earlier = self.alive.insert(tid, pid);
        *self.processes.entry(pid).or_default() += 1;
        // It was known, or the end of an earlier thread of that number was lost.
        earlier.into_iter().for_each(|pid| self.leaves(pid));
    }

    /// Whoever records for days meets many threads: nothing of one that has ended is kept.
    fn ends(&mut self, tid: u32) {
        self.calling.remove(&tid);
        let pid = self.alive.remove(&tid);
        pid.into_iter().for_each(|pid| self.leaves(pid));
    }

    /// A process has a thread less.
    fn leaves(&mut self, pid: u32) {
        let Some(count) = self.processes.get_mut(&pid) else { return };
        *count -= 1;
        if *count == 0 {
            self.processes.remove(&pid);
            self.forget_memory(pid);
        }
    }

    fn forget_memory(&mut self, pid: u32) {
        self.spaces.clear(pid);
        self.pointing.forget(pid);
        self.scripts.forget(pid);
    }

    /// Records that were lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// An event that comes from elsewhere than a ring: a snapshot, a counter.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn outside(&mut self, event: &Event, sink: &mut impl Sink) -> io::Result<()> {
        match &event.what {
            What::Started { pid, .. } => self.begins(event.tid.0, pid.0),
            What::Exited => self.ends(event.tid.0),
            What::Mapped(map) => self.spaces.of(map.pid.0).map(map.start, map.len),
            _ => {}
        }
        sink.event(event)
    }

    /// The next record of a CPU, by the place of the CPU in the list.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn feed(&mut self, lane: usize, bytes: &[u8], sink: &mut impl Sink) -> io::Result<()> {
        let (Some(frame), Some(record)) = (decode::frame(bytes), decode::record(bytes)) else {
            return Ok(());
        };
        if let Record::Sample(bytes) = record
            && inside::is_ours(frame)
        {
            return self.feed_bpf(frame, bytes, sink);
        }
        let second = self.switched_in(frame, &record);
        if let (Some((next, _)), Some(lane)) = (&second, self.lanes.get_mut(lane)) {
            lane.told_in = Some(*next);
        }
        let first = self.event(lane, frame, record, sink);
        let [before, besides] = [&mut self.before, &mut self.besides].map(|what| Some((frame.tid, what.take()?)));
        let cpu = self.lanes.get(lane).map_or(NO_CPU, |lane| lane.cpu);
        for (tid, what) in before.into_iter().chain(first).chain(besides).chain(second) {
            sink.event(&Event { time_ns: frame.time_ns, tid: Tid(tid), cpu, what })?;
        }
        Ok(())
    }

    /// A record of the programs inside the kernel.
    fn feed_bpf(&mut self, frame: Frame, bytes: &[u8], sink: &mut impl Sink) -> io::Result<()> {
        let Some(facts) = self.translator.read(frame, bytes, &mut self.spaces, &mut |stack| sink.stack(stack)) else {
            return Ok(());
        };
        let cpu = inside::cpu(frame, bytes).unwrap_or(NO_CPU);
        for (tid, what) in facts.into_iter().flatten() {
            let wanted = match &what {
                What::Waking { target, .. } => self.is_ours(target.0),
                What::Lost { count } => {
                    self.lost += count;
                    true
                }
                _ => self.is_ours(tid),
            };
            if wanted {
                sink.event(&Event { time_ns: frame.time_ns, tid: Tid(tid), cpu, what })?;
            }
        }
        Ok(())
    }

    /// Whether a thread is the target's, and executes its program already.
    pub fn is_ours(&self, tid: u32) -> bool {
        self.alive.contains_key(&tid) && self.unborn != Some(tid)
    }

    /// The thread that gets the CPU, if the record is the scheduler's word on that.
    fn switched_in(&self, frame: Frame, record: &Record<'_>) -> Option<(u32, What)> {
        let Record::Sample(bytes) = record else { return None };
        if self.kinds.get(&frame.id) != Some(&Kind::Switch) {
            return None;
        }
        let next = next_of(Sample::read(bytes, Kind::Switch.shape())?.raw)?;
        self.is_ours(next).then_some((next, What::SwitchIn))
    }

    /// Whether a record tells of nobody of the target's: those of mappings, births and deaths may be of all programs.
    fn is_foreign(&self, record: &Record<'_>) -> bool {
        let whose = match record {
            Record::Fork { parent, .. } => *parent,
            Record::Exit { tid, .. } | Record::Comm { tid, .. } => *tid,
            Record::Map { pid, .. } => *pid,
            _ => return false,
        };
        !self.alive.contains_key(&whose)
    }

    fn event(&mut self, lane: usize, frame: Frame, record: Record<'_>, sink: &mut impl Sink) -> Option<(u32, What)> {
        if self.of_all && self.is_foreign(&record) {
            return None;
        }
        let what = match record {
            Record::Switch { out, preempted } => self.switch(lane, frame.tid, out, preempted)?,
            Record::Sample(bytes) => self.sample(lane, frame, bytes, sink)?,
            Record::Fork { tid, pid, parent, parent_pid } => {
                if pid != parent_pid {
                    self.spaces.copy(parent_pid, pid);
                }
                self.begins(tid, pid);
                return Some((tid, What::Started { pid: Pid(pid), parent: Some(Tid(parent)) }));
            }
            // The kernel takes its events from a process that executes a program as somebody else, with the same word.
            Record::Exit { tid, .. }
                if self.alive.get(&tid) == Some(&tid) && self.goes_on.is_some_and(|on| on(tid)) =>
            {
                self.dropped.push(tid);
                return None;
            }
            Record::Exit { tid, .. } => {
                self.ends(tid);
                return Some((tid, What::Exited));
            }
            Record::Comm { tid, pid, name, exec } => {
                if exec {
                    self.forget_memory(pid);
                    self.unborn = self.unborn.filter(|unborn| *unborn != pid);
                }
                return Some((tid, What::Named { name: text(name), exec }));
            }
            Record::Map { pid, start, len, offset, path, build_id, .. } => {
                self.spaces.of(pid).map(start, len);
                let build_id = build_id.map(Box::from);
                let mapping = Mapping { pid: Pid(pid), start, len, offset, path: text(path), build_id };
                What::Mapped(Box::new(mapping))
            }
            Record::Lost { count } => {
                self.lost += count;
                if let Some(lane) = self.lanes.get_mut(lane) {
                    *lane = Lane { cpu: lane.cpu, ..Lane::default() };
                }
                return Some((0, What::Lost { count }));
            }
        };
        Some((frame.tid, what))
    }

    fn switch(&mut self, lane: usize, tid: u32, out: bool, preempted: bool) -> Option<What> {
        let lane = self.lanes.get_mut(lane)?;
        let told = if out { &mut lane.told_out } else { &mut lane.told_in };
        if told.take() == Some(tid) {
            lane.last = Some((tid, out));
            return None;
        }
        // A thread that was attached to while it was being born may have two events that say the same.
        if lane.last.replace((tid, out)) == Some((tid, out)) {
            return None;
        }
        if !out {
            return Some(What::SwitchIn);
        }
        let off = if preempted { OffCpu::Runnable } else { OffCpu::Blocked };
        Some(What::SwitchOut { off, stack: None })
    }

    fn sample(&mut self, lane: usize, frame: Frame, bytes: &[u8], sink: &mut impl Sink) -> Option<What> {
        let kind = *self.kinds.get(&frame.id)?;
        // These tell of all programs.
        let of_all =
            matches!(kind, Kind::Sample | Kind::Switch | Kind::DeepPlace | Kind::SleepPlace | Kind::MajorFault);
        if of_all && !self.is_ours(frame.tid) {
            return None;
        }
        let sample = Sample::read(bytes, kind.shape())?;
        let stack = if kind.shape().stack { self.stack(frame.pid, &sample, sink) } else { None };
        match kind {
            Kind::FutexWait => {
                self.calling.insert(frame.tid);
                futex(kind, &sample, stack)
            }
            Kind::FutexReturn | Kind::FutexZero => futex(kind, &sample, stack),
            Kind::Sample => {
                let stack = stack?;
                // In the kernel, the registers are those of the call that it came with.
                if self.scratch.kernel.is_empty() {
                    let maps = |pid: u32| snapshot::read(&format!("/proc/{pid}/maps"));
                    let found = self.pointing.sampled(frame, &sample, maps);
                    self.besides = found.map(|found| What::Pointers(Box::new(found)));
                }
                let scripts = self.scripts.sampled(frame, &sample);
                self.before = scripts.map(|frames| What::Interpreted(Box::new(Interpreted { holds: false, frames })));
                Some(What::Sample { stack })
            }
            Kind::MajorFault => Some(What::MajorFault { addr: sample.addr, stack }),
            Kind::Fault => Some(What::MinorFault { stack: stack? }),
            Kind::Call => {
                let nr = CallNumber(u16::try_from(decode::u32_at(sample.raw, 8)?).ok()?);
                // The tracepoint that all calls share cannot be filtered by their arguments.
                let waits = i64::from(nr.0) != libc::SYS_fcntl
                    || decode::u32_at(sample.raw, 24).is_none_or(|it| WAITING_FCNTL.contains(&it));
                if waits {
                    self.calling.insert(frame.tid);
                }
                let arguments = decode::u64_at(sample.raw, 16).zip(decode::u64_at(sample.raw, 24));
                let nr = arguments.map_or(nr, |(first, second)| decode::NUMBERING.recorded(nr, first, second));
                waits.then_some(What::Call { nr, stack })
            }
            Kind::DeepPlace | Kind::SleepPlace => {
                self.lanes.get_mut(lane)?.place = Some((frame.tid, stack?));
                None
            }
            Kind::Switch => {
                let off = off_cpu(sample.raw)?;
                let lane = self.lanes.get_mut(lane)?;
                lane.told_out = Some(frame.tid);
                let place = lane.place.take().filter(|(tid, _)| *tid == frame.tid);
                if off != OffCpu::Runnable {
                    self.sleeps += 1;
                    self.unexplained += u64::from(!self.calling.remove(&frame.tid) && place.is_none());
                }
                Some(What::SwitchOut { off, stack: place.map(|(_, stack)| stack) })
            }
            Kind::Waking => {
                waking(sample.raw).filter(|target| self.is_ours(target.0)).map(|target| What::Waking { target, stack })
            }
            Kind::Side => None,
        }
    }

    /// The stack of a thread that was found blocked.
    pub fn still(&mut self, still: &Still, sink: &mut impl Sink) -> Option<StackId> {
        let space = self.spaces.of(still.pid());
        still.reduce(space, &mut self.scratch).then(|| sink.stack(&self.scratch))
    }

    fn stack(&mut self, pid: u32, sample: &Sample<'_>, sink: &mut impl Sink) -> Option<StackId> {
        let space = self.spaces.of(pid);
        reduce(sample, space, &mut self.scratch).then(|| sink.stack(&self.scratch))
    }
}

/// What a record of a futex call says.
fn futex(kind: Kind, sample: &Sample<'_>, stack: Option<StackId>) -> Option<What> {
    let op = FutexOp(sample.register(register::ARGUMENT_2)? as u32);
    let addr = sample.register(register::ARGUMENT_1)?;
    // A lock with priority inheritance goes to the next thread while the call lasts, which then returns 0 as every call
    // does that is not recorded: so its way in is taken for it.
    let hands_over = op.command() == FutexOp::UNLOCK_PI;
    let returned = |ret| What::FutexReturn { op, addr, ret, stack };
    match kind {
        Kind::FutexWait if hands_over => Some(returned(0)),
        Kind::FutexWait => {
            let value = sample.register(register::ARGUMENT_3)? as u32;
            Some(What::FutexWait { op, addr, value, stack })
        }
        Kind::FutexReturn => Some(returned(result(sample.register(register::RESULT)?))),
        _ => (op.wakes() && !hands_over).then(|| returned(0)),
    }
}

/// What a futex call returned to the program: the kernel's own codes for "begin the call again" are an interruption to
/// it.
fn result(register: u64) -> i32 {
    const RESTART: std::ops::RangeInclusive<i32> = -516..=-512;
    const EINTR: i32 = 4;
    let result = register as i32;
    if RESTART.contains(&result) { -EINTR } else { result }
}

/// `prev_state` in the record of sched_switch.
fn off_cpu(raw: &[u8]) -> Option<OffCpu> {
    decode::u64_at(raw, 32).map(kernel::off_cpu)
}

/// `next_pid` in the same record.
fn next_of(raw: &[u8]) -> Option<u32> {
    decode::u32_at(raw, 56)
}

/// The thread that sched_waking names; `None` if it was not the running thread that woke it but an interrupt.
fn waking(raw: &[u8]) -> Option<Tid> {
    const HARDIRQ: u8 = 8;
    let flags = *raw.get(2)?;
    (flags & HARDIRQ == 0).then_some(Tid(decode::u32_at(raw, 24)?))
}

fn text(bytes: &[u8]) -> Box<str> {
    String::from_utf8_lossy(bytes).into()
}

#[cfg(test)]
mod tests {
    use holdup_trace::Stacks;

    use super::super::decode::tests::{Bytes, comm, exit, fork, lost, map, sample, switch};
    use super::*;

    #[derive(Default)]
    struct Kept {
        stacks: Stacks,
        events: Vec<Event>,
    }

    impl Sink for Kept {
        fn stack(&mut self, stack: &Stack) -> StackId {
            self.stacks.intern(stack)
        }

        fn event(&mut self, event: &Event) -> io::Result<()> {
            self.events.push(event.clone());
            Ok(())
        }
    }

    const WAIT: u64 = 1;
    const RETURN: u64 = 2;
    const ZERO: u64 = 3;
    const SWITCH: u64 = 4;
    const WAKING: u64 = 5;
    const CALL: u64 = 6;
    const DEEP: u64 = 7;

    /// Feeds records of CPU 3 to an assembler.
    fn assembled(records: &[Vec<u8>]) -> (Assembler, Kept) {
        let mut assembler = Assembler::new(&[3]);
        let kinds = [
            Kind::FutexWait,
            Kind::FutexReturn,
            Kind::FutexZero,
            Kind::Switch,
            Kind::Waking,
            Kind::Call,
            Kind::DeepPlace,
        ];
        (1..).zip(kinds).for_each(|(id, kind)| assembler.know(id, kind));
        let mut kept = Kept::default();
        records.iter().for_each(|record| assembler.feed(0, record, &mut kept).unwrap());
        (assembler, kept)
    }

    fn facts(records: &[Vec<u8>]) -> Vec<What> {
        assembled(records).1.events.into_iter().map(|event| event.what).collect()
    }

    /// Registers of x86-64 in the order of their bits, then a stack.
    fn registers(values: &[u64], stack: &[u64]) -> Bytes {
        let body = values.iter().fold(Bytes::default().u64(2), |body, value| body.u64(*value));
        if stack.is_empty() {
            return body;
        }
        let body = stack.iter().fold(body.u64(stack.len() as u64 * 8), |body, word| body.u64(*word));
        body.u64(stack.len() as u64 * 8)
    }

    #[test]
    fn nothing_is_kept_of_threads_and_processes_that_have_come_and_gone() {
        let mut assembler = Assembler::new(&[3]);
        let mut kept = Kept::default();
        let event = |tid, what| Event { time_ns: 1, tid: Tid(tid), cpu: NO_CPU, what };
        let mut outside = |assembler: &mut Assembler, event| assembler.outside(&event, &mut kept).unwrap();
        let start = |tid, pid| event(tid, What::Started { pid: Pid(pid), parent: None });
        outside(&mut assembler, start(1, 1));
        for pid in 2..20_000 {
            outside(&mut assembler, start(pid, pid));
            outside(&mut assembler, start(pid + 100_000, pid));
            // A thread that is told of twice is one.
            outside(&mut assembler, start(pid, pid));
            assembler.spaces.of(pid).map(0x1000, 0x1000);
            assembler.calling.insert(pid);
            outside(&mut assembler, event(pid, What::Exited));
            assert!(assembler.spaces.of(pid).is_code(0x1000), "its other thread lives");
            outside(&mut assembler, event(pid + 100_000, What::Exited));
        }
        assert_eq!(assembler.alive().collect::<Vec<_>>(), [1]);
        assert_eq!((assembler.processes.len(), assembler.spaces.len(), assembler.calling.len()), (1, 0, 0));
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn futex_calls_are_read_from_registers() {
        // The order of bits: rax or rdx, rsi, rdi, rbp, rsp, rip.
        let call = |first, op| registers(&[first, op, 0xfeed0, 0, 0x7000, 0x1004], &[0x1008, 0]);
        let zero = |op| registers(&[op, 0xfeed0], &[]);
        let (_, kept) = assembled(&[
            map(0x1000, 0x1000, 1),
            sample(WAIT, 5, 10, call(2, 128)),
            sample(RETURN, 6, 11, call(1, 129)),
            sample(RETURN, 5, 12, call(-110i64 as u64, 128)),
            sample(RETURN, 5, 13, call(-516i64 as u64, 128)),
            sample(ZERO, 5, 14, zero(128)),
            sample(ZERO, 5, 15, zero(129)),
            sample(WAIT, 5, 16, call(0, 135)),
            sample(ZERO, 5, 17, zero(135)),
        ]);
        let stack = Some(StackId(0));
        let (wait, wake) = (FutexOp(128), FutexOp(129));
        let addr = 0xfeed0;
        let expected = [
            What::FutexWait { op: wait, addr, value: 2, stack },
            What::FutexReturn { op: wake, addr, ret: 1, stack },
            What::FutexReturn { op: wait, addr, ret: -110, stack },
            What::FutexReturn { op: wait, addr, ret: -4, stack },
            What::FutexReturn { op: wake, addr, ret: 0, stack: None },
            What::FutexReturn { op: FutexOp(135), addr, ret: 0, stack },
        ];
        assert_eq!(kept.events.iter().skip(1).map(|event| event.what.clone()).collect::<Vec<_>>(), expected);
        assert!(kept.events.iter().all(|event| event.cpu == 3));
        assert_eq!(kept.stacks.get(StackId(0)).unwrap().user, [0x1004]);
        assert_eq!(kept.stacks.len(), 1, "equal places are one stack");
    }

    /// A record of the tracepoint that all calls share.
    #[test]
    fn other_calls_are_told_by_number() {
        let mut body = Bytes::default().u32(20).u64(0).u64(7).u32(0);
        body = body.u64(0).u64(0);
        assert_eq!(facts(&[sample(CALL, 5, 10, body)]), [What::Call { nr: CallNumber(7), stack: None }]);
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn a_poll_of_no_descriptors_is_a_sleep() {
        let called = |descriptors: u64| {
            let body = Bytes::default().u32(32).u64(0).u64(7).u64(0x1000).u64(descriptors);
            facts(&[sample(CALL, 5, 10, body.u64(0).u64(0))])
        };
        let call = |nr| [What::Call { nr: CallNumber(nr), stack: None }];
        assert_eq!((called(0), called(1)), (call(230).to_vec(), call(7).to_vec()));
    }

    #[test]
    fn of_the_commands_of_fcntl_those_that_wait_are_calls() {
        let called = |command| {
            let body = Bytes::default().u32(28).u64(0).u64(72).u64(3).u32(command);
            facts(&[sample(CALL, 5, 10, body.u64(0).u64(0))]).len()
        };
        assert_eq!(
            [libc::F_SETLKW, libc::F_DUPFD_CLOEXEC, libc::F_GETFL].map(|command| called(command as u32)),
            [1, 0, 0]
        );
    }

    /// A record of sched_switch: thread 5 leaves in this state, `next` runs.
    fn scheduler(state: u64, next: u32) -> Bytes {
        let raw = (0..3).fold(Bytes::default().u32(68), |raw, _| raw.u64(0)).u32(5).u32(0).u64(state);
        (0..2).fold(raw, |raw, _| raw.u64(0)).u32(next).u32(0).u32(0)
    }

    #[test]
    fn a_place_belongs_to_the_switch_that_follows_it() {
        let place = |tid| {
            let chain = Bytes::default().u64(1).u64(0x1004);
            sample(DEEP, tid, 9, chain.u64(0).u64(0))
        };
        let born = fork(100, 5, 100, 1);
        let told = |place: Vec<u8>| facts(&[born.clone(), place, sample(SWITCH, 5, 10, scheduler(2, 0))])[1..].to_vec();
        let out = |stack| [What::SwitchOut { off: OffCpu::Uninterruptible, stack }];
        assert_eq!(told(place(5)), out(Some(StackId(0))));
        assert_eq!(told(place(6)), out(None), "of another thread");
    }

    #[test]
    fn places_are_wanted_where_many_sleeps_have_no_explanation() {
        let wants = |explained: usize, others: usize| {
            let call = || sample(CALL, 5, 10, Bytes::default().u32(20).u64(0).u64(7).u32(0).u64(0).u64(0));
            let sleep = || sample(SWITCH, 5, 10, scheduler(1, 0));
            let explained = (0..explained).flat_map(|_| [call(), sleep()]);
            let records: Vec<_> =
                [fork(100, 5, 100, 1)].into_iter().chain(explained).chain((0..others).map(|_| sleep())).collect();
            assembled(&records).0.wants_places()
        };
        assert!(wants(0, 100) && wants(1000, 100));
        assert!(!wants(0, 99) && !wants(5000, 100));
    }

    #[test]
    fn the_scheduler_tells_who_leaves_and_who_comes() {
        let born = [fork(100, 5, 100, 1), fork(100, 7, 100, 1)];
        let switched = |thread, state, next| {
            let (_, kept) =
                assembled(&[born.to_vec(), vec![sample(SWITCH, thread, 10, scheduler(state, next))]].concat());
            kept.events[2..].iter().map(|event| (event.tid.0, event.what.clone())).collect::<Vec<_>>()
        };
        let out = |off| (5, What::SwitchOut { off, stack: None });
        for (state, off) in [(1, OffCpu::Sleeping), (2, OffCpu::Uninterruptible), (0x10, OffCpu::Gone)] {
            assert_eq!(switched(5, state, 7), [out(off), (7, What::SwitchIn)]);
        }
        assert_eq!(switched(5, 0x100, 0), [out(OffCpu::Runnable)], "preempted");
        assert_eq!(switched(6, 1, 7), [(7, What::SwitchIn)], "a stranger left");
        assert_eq!(switched(6, 1, 8), [], "two strangers");
    }

    #[test]
    fn what_both_tell_is_told_once_and_what_one_tells_is_told() {
        let born = [fork(100, 5, 100, 1), fork(100, 7, 100, 1)];
        let told = |records: &[Vec<u8>]| facts(&[&born[..], records].concat())[2..].to_vec();
        let out = What::SwitchOut { off: OffCpu::Sleeping, stack: None };
        let both = [sample(SWITCH, 5, 10, scheduler(1, 7)), switch(5, 11, true, false), switch(7, 12, false, false)];
        assert_eq!(told(&both), [out, What::SwitchIn]);
        // After idleness only the thread's own event tells.
        assert_eq!(told(&[switch(7, 12, false, false)]), [What::SwitchIn]);
    }

    #[test]
    fn without_the_scheduler_s_word_a_switch_says_less() {
        assert_eq!(facts(&[switch(5, 11, true, true)]), [What::SwitchOut { off: OffCpu::Runnable, stack: None }]);
        assert_eq!(facts(&[switch(5, 11, true, false)]), [What::SwitchOut { off: OffCpu::Blocked, stack: None }]);
    }

    #[test]
    fn a_command_s_switches_count_from_its_execution_on() {
        let mut assembler = Assembler::new(&[3]);
        assembler.know(SWITCH, Kind::Switch);
        let mut kept = Kept::default();
        let started = What::Started { pid: Pid(5), parent: None };
        assembler.await_execution(5);
        assembler.outside(&Event { time_ns: 1, tid: Tid(5), cpu: NO_CPU, what: started }, &mut kept).unwrap();
        let leaves = sample(SWITCH, 5, 10, scheduler(1, 0));
        for record in [leaves.clone(), comm(5, "program", true), leaves] {
            assembler.feed(0, &record, &mut kept).unwrap();
        }
        let facts: Vec<&What> = kept.events.iter().map(|event| &event.what).collect();
        assert!(matches!(facts[..], [_, What::Named { .. }, What::SwitchOut { .. }]), "{facts:?}");
    }

    #[test]
    fn a_switch_that_two_events_tell_of_is_told_once_but_for_losses() {
        let out = |time| switch(5, time, true, false);
        assert_eq!(facts(&[out(10), out(11), switch(5, 12, false, false)]).len(), 2);
        let after = facts(&[out(10), lost(9, 11), out(12)]);
        assert_eq!(after[1], What::Lost { count: 9 });
        assert_eq!(after.len(), 3);
    }

    #[test]
    fn wakings_are_of_threads_and_not_of_interrupts() {
        let waking = |flags: u32| {
            let raw = Bytes::default().u32(36).u32(flags << 16).u32(0);
            let raw = (0..2).fold(raw, |raw, _| raw.u64(0)).u32(42).u32(0).u32(0);
            sample(WAKING, 5, 10, raw)
        };
        let told = |flags| facts(&[fork(100, 42, 100, 1), waking(flags)])[1..].to_vec();
        assert_eq!(told(0), [What::Waking { target: Tid(42), stack: None }]);
        assert_eq!(told(8), []);
        assert_eq!(facts(&[waking(0)]), [], "a stranger is woken");
    }

    #[test]
    fn who_lives_is_known() {
        let (assembler, kept) = assembled(&[fork(100, 5, 100, 1), fork(200, 200, 100, 2), exit(5, 3), lost(4, 5)]);
        assert_eq!(assembler.alive().collect::<Vec<_>>(), [200]);
        assert_eq!((assembler.lost(), kept.events.len()), (4, 4));
        assert_eq!(kept.events[1].tid, Tid(200));
        assert_eq!(kept.events[1].what, What::Started { pid: Pid(200), parent: Some(Tid(100)) });
    }

    #[test]
    fn a_process_that_goes_on_has_not_ended() {
        let ended = |goes_on: fn(u32) -> bool| {
            let mut assembler = Assembler::new(&[3]);
            assembler.look_whether(goes_on);
            let mut kept = Kept::default();
            let records = [fork(200, 200, 100, 2), fork(200, 201, 200, 3), exit(200, 4), exit(201, 5)];
            records.iter().for_each(|record| assembler.feed(0, record, &mut kept).unwrap());
            let ended: Vec<u32> =
                kept.events.iter().filter(|event| event.what == What::Exited).map(|event| event.tid.0).collect();
            (ended, assembler.dropped)
        };
        assert_eq!(ended(|_| true), (vec![201], vec![200]), "a thread that is not the first has ended");
        assert_eq!(ended(|_| false), (vec![200, 201], vec![]));
    }

    #[test]
    fn records_of_unknown_events_and_nonsense_are_passed_over() {
        assert_eq!(facts(&[sample(99, 5, 1, Bytes::default()), vec![0; 8], vec![9, 0, 0, 0, 0, 0, 9, 0, 1]]), []);
    }
}
