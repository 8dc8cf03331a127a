//! From records in order of time to events: who is who, which records are one fact, what the registers mean.

use std::io;

use holdup_trace::{
    CallNumber, Event, FutexOp, Mapping, NO_CPU, OffCpu, Pid, Stack, StackId, Tid, What, Writer,
};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::decode::{self, Frame, Record, Sample, Shape, register};
use crate::kernel;
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
            Kind::Side | Kind::CountAgain => Shape::default(),
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
            What::Exited => drop(self.alive.remove(&event.tid.0)),
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
            Kind::Side | Kind::CountAgain => None,
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

/// `prev_state` in the record of sched_switch.
fn off_cpu(raw: &[u8]) -> Option<OffCpu> {
    decode::u64_at(raw, 32).map(kernel::off_cpu)
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

    use super::*;
    use crate::decode::tests::{Bytes, exit, fork, lost, map, sample, switch};

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
    const WOKE: u64 = 2;
    const END: u64 = 3;
    const SWITCH: u64 = 4;
    const WAKING: u64 = 5;

    /// Feeds records of CPU 3 to an assembler.
    fn assembled(records: &[Vec<u8>]) -> (Assembler, Kept) {
        let mut assembler = Assembler::new(&[3]);
        let kinds = [Kind::FutexWait, Kind::FutexWoke, Kind::FutexEnd, Kind::Switch, Kind::Waking];
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
    #[cfg(target_arch = "x86_64")]
    fn futex_calls_are_read_from_registers() {
        // The order of bits: rax, rdx, rsi, rdi, rbp, rsp, rip.
        let wait = registers(&[2, 128, 0xfeed0, 0, 0x7000, 0x1004], &[0x1008, 0]);
        let woke = registers(&[1, 129, 0xfeed0, 0, 0x7000, 0x1004], &[0x1008, 0]);
        let timeout = registers(&[-110i64 as u64, 128, 0xfeed0], &[]);
        let restart = registers(&[-516i64 as u64, 128, 0xfeed0], &[]);
        let (_, kept) = assembled(&[
            map(0x1000, 0x1000, 1),
            sample(WAIT, 5, 10, wait),
            sample(WOKE, 6, 11, woke),
            sample(END, 5, 12, timeout),
            sample(END, 5, 13, restart),
        ]);
        let stack = Some(StackId(0));
        let (wait, wake) = (FutexOp(128), FutexOp(129));
        let addr = 0xfeed0;
        let expected = [
            What::FutexWait { op: wait, addr, value: 2, stack },
            What::FutexReturn { op: wake, addr, ret: 1, stack },
            What::FutexReturn { op: wait, addr, ret: -110, stack: None },
            What::FutexReturn { op: wait, addr, ret: -4, stack: None },
        ];
        assert_eq!(kept.events.iter().skip(1).map(|event| event.what.clone()).collect::<Vec<_>>(), expected);
        assert!(kept.events.iter().all(|event| event.cpu == 3));
        assert_eq!(kept.stacks.get(StackId(0)).unwrap().user, [0x1004]);
        assert_eq!(kept.stacks.len(), 1, "equal places are one stack");
    }

    fn scheduler(state: u64) -> Bytes {
        let raw = Bytes::default().u32(60);
        let raw = (0..3).fold(raw, |raw, _| raw.u64(0)).u32(0).u32(0).u64(state);
        let raw = (0..2).fold(raw, |raw, _| raw.u64(0)).u32(0);
        let mut body = Bytes::default().u64(0);
        body.0.extend(raw.0);
        body.u64(0).u64(0)
    }

    #[test]
    fn the_scheduler_s_word_and_the_switch_are_one_fact() {
        for (state, off) in [(1, OffCpu::Sleeping), (2, OffCpu::Uninterruptible), (0x10, OffCpu::Gone)] {
            let facts = facts(&[sample(SWITCH, 5, 10, scheduler(state)), switch(5, 11, true, false)]);
            assert_eq!(facts, [What::SwitchOut { off, stack: None }]);
        }
        let other = facts(&[sample(SWITCH, 6, 10, scheduler(1)), switch(5, 11, true, false)]);
        assert_eq!(other, [What::SwitchOut { off: OffCpu::Blocked, stack: None }]);
        let preempted = facts(&[switch(5, 11, true, true)]);
        assert_eq!(preempted, [What::SwitchOut { off: OffCpu::Runnable, stack: None }]);
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
        assert_eq!(facts(&[waking(0)]), [What::Waking { target: Tid(42), stack: None }]);
        assert_eq!(facts(&[waking(8)]), []);
    }

    #[test]
    fn who_lives_is_known() {
        let (assembler, kept) =
            assembled(&[fork(100, 5, 100, 1), fork(200, 200, 100, 2), exit(5, 3), lost(4, 5)]);
        assert_eq!(assembler.alive().iter().copied().collect::<Vec<_>>(), [200]);
        assert_eq!((assembler.lost(), assembler.events()), (4, 4));
        assert_eq!(kept.events[1].tid, Tid(200));
        assert_eq!(kept.events[1].what, What::Started { pid: Pid(200), parent: Some(Tid(100)) });
    }

    #[test]
    fn records_of_unknown_events_and_nonsense_are_passed_over() {
        assert_eq!(
            facts(&[sample(99, 5, 1, Bytes::default()), vec![0; 8], vec![9, 0, 0, 0, 0, 0, 9, 0, 1]]),
            []
        );
    }
}
