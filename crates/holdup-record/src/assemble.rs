//! From records in order of time to events: who is who, which records are one fact, what the registers mean.

use std::io;

use holdup_trace::{
    CallNumber, Event, FutexOp, Mapping, NO_CPU, OffCpu, Pid, Stack, StackId, Tid, What, Writer,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decode::{self, Frame, Record, Sample, Shape, register};
use crate::reduce::{Spaces, reduce};

/// What an event of the kernel is recorded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Switches, names, mappings, births and deaths.
    Side,
    /// A futex call that waits, on its way in.
    FutexWait,
    /// A futex call that woke somebody, on its way out.
    FutexWoke,
    /// Every other futex call on its way out, but for those that found the value changed.
    FutexEnd,
    /// Futex calls, counted.
    CountCalls,
    /// Futex calls that found the value changed, counted.
    CountAgain,
    /// A running thread.
    Sample,
    /// A page that came from a device.
    MajorFault,
    /// Another call that blocks.
    Call(u16),
    /// The scheduler's own word on why a thread leaves the CPU.
    Switch,
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
        // The kernel's walk along the frame pointers costs as much as the rest of the record and often ends in a fault: only
        // for what is rare. The others are walked here, as far as the copy of the stack goes.
        let top = Shape { registers: UNWIND, stack: true, ..Shape::default() };
        let whole = Shape { chain: true, ..top };
        match self {
            Kind::Side | Kind::CountCalls | Kind::CountAgain => Shape::default(),
            Kind::Sample => whole,
            Kind::MajorFault => Shape { addr: true, ..whole },
            Kind::Call(_) => top,
            Kind::FutexWait => Shape { registers: UNWIND | ARGUMENTS | 1 << register::ARGUMENT_3, ..top },
            Kind::FutexWoke => Shape { registers: UNWIND | ARGUMENTS | 1 << register::RESULT, ..top },
            Kind::FutexEnd => Shape { registers: ARGUMENTS | 1 << register::RESULT, ..Shape::default() },
            Kind::Switch => Shape { raw: true, ..whole },
            Kind::Waking => Shape { raw: true, ..Shape::default() },
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
    /// Threads that were seen to begin and not to end.
    alive: FxHashSet<u32>,
    scratch: Stack,
    lost: u64,
    events: u64,
}

/// One CPU.
#[derive(Debug, Default)]
struct Lane {
    cpu: u16,
    /// The thread of the last switch record, and whether it left.
    last: Option<(u32, bool)>,
    /// What the scheduler's tracepoint said about the thread that leaves next.
    leaving: Option<(u32, OffCpu, Option<StackId>)>,
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

    /// Threads that were seen to begin and not to end.
    pub fn alive(&self) -> &FxHashSet<u32> {
        &self.alive
    }

    /// A thread is gone without a record of it.
    pub fn bury(&mut self, tid: u32) {
        self.alive.remove(&tid);
    }

    /// Records that were lost so far.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Events given so far.
    pub fn events(&self) -> u64 {
        self.events
    }

    /// An event that comes from elsewhere than a ring: a snapshot, a counter.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn outside(&mut self, event: &Event, sink: &mut impl Sink) -> io::Result<()> {
        match &event.what {
            What::Started { .. } => drop(self.alive.insert(event.tid.0)),
            What::Exited => self.bury(event.tid.0),
            What::Mapped(map) => self.spaces.of(map.pid.0).map(map.start, map.len),
            _ => {}
        }
        self.events += 1;
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
        let Some((tid, what)) = self.event(lane, frame, record, sink) else { return Ok(()) };
        let cpu = self.lanes.get(lane).map_or(NO_CPU, |lane| lane.cpu);
        self.events += 1;
        sink.event(&Event { time_ns: frame.time_ns, tid: Tid(tid), cpu, what })
    }

    fn event(
        &mut self,
        lane: usize,
        frame: Frame,
        record: Record<'_>,
        sink: &mut impl Sink,
    ) -> Option<(u32, What)> {
        let what = match record {
            Record::Switch { out, preempted } => self.switch(lane, frame.tid, out, preempted)?,
            Record::Sample(bytes) => self.sample(lane, frame, bytes, sink)?,
            Record::Fork { tid, pid, parent, parent_pid } => {
                if pid != parent_pid {
                    self.spaces.copy(parent_pid, pid);
                }
                self.alive.insert(tid);
                return Some((tid, What::Started { pid: Pid(pid), parent: Some(Tid(parent)) }));
            }
            Record::Exit { tid, .. } => {
                self.alive.remove(&tid);
                return Some((tid, What::Exited));
            }
            Record::Comm { tid, pid, name, exec } => {
                if exec {
                    self.spaces.clear(pid);
                }
                return Some((tid, What::Named { name: text(name), exec }));
            }
            Record::Map { pid, start, len, offset, path, build_id } => {
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
        // A thread that was attached to while it was being born may have two events that say the same.
        if lane.last.replace((tid, out)) == Some((tid, out)) {
            return None;
        }
        if !out {
            return Some(What::SwitchIn);
        }
        let told = lane.leaving.take().filter(|(leaving, ..)| *leaving == tid);
        let (off, stack) = match told {
            Some((_, off, stack)) => (off, stack),
            None => (if preempted { OffCpu::Runnable } else { OffCpu::Blocked }, None),
        };
        Some(What::SwitchOut { off, stack })
    }

    fn sample(&mut self, lane: usize, frame: Frame, bytes: &[u8], sink: &mut impl Sink) -> Option<What> {
        let kind = *self.kinds.get(&frame.id)?;
        let sample = Sample::read(bytes, kind.shape())?;
        let stack = if kind.shape().stack { self.stack(frame.pid, &sample, sink) } else { None };
        match kind {
            Kind::FutexWait => Some(What::FutexWait {
                op: FutexOp(sample.register(register::ARGUMENT_2)? as u32),
                addr: sample.register(register::ARGUMENT_1)?,
                value: sample.register(register::ARGUMENT_3)? as u32,
                stack,
            }),
            Kind::FutexWoke | Kind::FutexEnd => Some(What::FutexReturn {
                op: FutexOp(sample.register(register::ARGUMENT_2)? as u32),
                addr: sample.register(register::ARGUMENT_1)?,
                ret: result(sample.register(register::RESULT)?),
                stack,
            }),
            Kind::Sample => Some(What::Sample { stack: stack? }),
            Kind::MajorFault => Some(What::MajorFault { addr: sample.addr, stack }),
            Kind::Call(nr) => Some(What::Call { nr: CallNumber(nr), stack }),
            Kind::Switch => {
                let lane = self.lanes.get_mut(lane)?;
                lane.leaving = Some((frame.tid, off_cpu(sample.raw)?, stack));
                None
            }
            Kind::Waking => waking(sample.raw).map(|target| What::Waking { target, stack }),
            Kind::Side | Kind::CountCalls | Kind::CountAgain => None,
        }
    }

    fn stack(&mut self, pid: u32, sample: &Sample<'_>, sink: &mut impl Sink) -> Option<StackId> {
        let space = self.spaces.of(pid);
        reduce(sample, space, &mut self.scratch).then(|| sink.stack(&self.scratch))
    }
}

/// What a futex call returned to the program: the kernel's own codes for "begin the call again" are an interruption to it.
fn result(register: u64) -> i32 {
    const RESTART: std::ops::RangeInclusive<i32> = -516..=-512;
    const EINTR: i32 = 4;
    let result = register as i32;
    if RESTART.contains(&result) { -EINTR } else { result }
}

/// `prev_state` of sched_switch, in the bits that the tracepoint reports (linux/sched.h, TASK_REPORT).
fn off_cpu(raw: &[u8]) -> Option<OffCpu> {
    const SLEEPING: u64 = 1;
    const UNINTERRUPTIBLE: u64 = 2;
    const IDLE: u64 = 0x80;
    let state = decode::u64_at(raw, 32)?;
    Some(match state {
        state if state & SLEEPING != 0 => OffCpu::Sleeping,
        state if state & (UNINTERRUPTIBLE | IDLE) != 0 => OffCpu::Uninterruptible,
        state if state & 0x7f != 0 => OffCpu::Gone,
        _ => OffCpu::Runnable,
    })
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
