//! Bytes as events: the reverse of `encode.rs`, of bytes that nobody vouches for.

use std::sync::Arc;

use super::bytes::{Corrupt, Cursor};
use super::layout::{MAX_INTERPRETED, MAX_TASK_GROUPS, blocked, kind, tag, task};
use super::stack_code::StackDecoder;
use crate::{
    Blocked, CallNumber, Counter, Event, FutexOp, Interpreted, InterpretedFrame, LockFigures, Mapping, NO_CPU, OffCpu,
    Pid, Pointers, Spread, Stack, StackId, Stacks, TaskGroup, TaskState, Tasks, ThreadUsage, Tid, What,
};

/// Reads chunks of events. It is kept from chunk to chunk for its memory alone.
#[derive(Debug)]
pub(super) struct Decoder {
    event: Event,
    /// Number of the last event's thread.
    thread: usize,
    threads: Vec<Thread>,
    futexes: Vec<(FutexOp, u64)>,
    last_fault_addr: u64,
    /// The chunk's stacks in the caller's table.
    stacks: Vec<StackId>,
    stack_decoder: StackDecoder,
    /// The chunk's frames of interpreted code.
    interpreted: Vec<Arc<[InterpretedFrame]>>,
    scratch: Stack,
    /// How many more addresses and words the caller's table may take.
    stack_budget: u64,
    /// Events of unknown kinds in this chunk.
    pub(super) unknown: u64,
}

#[derive(Clone, Copy, Debug)]
struct Thread {
    tid: Tid,
    /// The CPU of its last event.
    cpu: u16,
}

impl Decoder {
    /// A decoder that adds at most so many addresses and words to the caller's table.
    pub(super) fn new(stack_budget: u64) -> Self {
        Decoder {
            event: Event { time_ns: 0, tid: Tid(0), cpu: NO_CPU, what: What::SwitchIn },
            thread: 0,
            threads: Vec::new(),
            futexes: Vec::new(),
            last_fault_addr: 0,
            stacks: Vec::new(),
            stack_decoder: StackDecoder::default(),
            interpreted: Vec::new(),
            scratch: Stack::default(),
            stack_budget,
            unknown: 0,
        }
    }

    /// Gives the events of one chunk to `sink`; counts them, also those before damage and those of unknown kinds.
    pub(super) fn chunk(
        &mut self,
        bytes: &[u8],
        table: &mut Stacks,
        sink: &mut dyn FnMut(&Event),
    ) -> (u64, Result<(), Corrupt>) {
        let mut given = 0;
        let outcome = self.events(bytes, table, &mut |event| {
            given += 1;
            sink(event);
        });
        (given, outcome)
    }

    fn events(&mut self, bytes: &[u8], table: &mut Stacks, sink: &mut dyn FnMut(&Event)) -> Result<(), Corrupt> {
        self.clear();
        let mut from = Cursor::new(bytes);
        self.event.time_ns = from.varint()?;
        while !from.is_empty() {
            let tag = from.u8()?;
            if tag == kind::BACK {
                self.event.time_ns = self.event.time_ns.wrapping_sub(from.varint()?);
                continue;
            }
            self.begin(tag, &mut from)?;
            if self.what(tag, &mut from, table)? {
                sink(&self.event);
            } else {
                self.unknown += 1;
            }
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.threads.clear();
        self.futexes.clear();
        self.last_fault_addr = 0;
        self.stacks.clear();
        self.stack_decoder.clear();
        self.interpreted.clear();
        self.unknown = 0;
    }

    /// Time, thread, CPU.
    #[inline]
    fn begin(&mut self, tag: u8, from: &mut Cursor<'_>) -> Result<(), Corrupt> {
        self.event.time_ns = self.event.time_ns.wrapping_add(from.varint()?);
        if tag & tag::SAME_THREAD == 0 {
            self.thread = self.thread_number(from)?;
        }
        let thread = self.threads.get_mut(self.thread).ok_or(Corrupt("has an event of no thread"))?;
        if tag & tag::CPU != 0 {
            thread.cpu = from.u16()?;
        }
        (self.event.tid, self.event.cpu) = (thread.tid, thread.cpu);
        Ok(())
    }

    #[inline]
    fn thread_number(&mut self, from: &mut Cursor<'_>) -> Result<usize, Corrupt> {
        let number = from.varint()?;
        if number == self.threads.len() as u64 {
            self.threads.push(Thread { tid: Tid(from.u32()?), cpu: NO_CPU });
        }
        if number < self.threads.len() as u64 {
            Ok(number as usize)
        } else {
            Err(Corrupt("names a thread that it has not told"))
        }
    }

    /// What happened; false for a kind that is not known, which is passed over.
    #[inline]
    fn what(&mut self, tag: u8, from: &mut Cursor<'_>, table: &mut Stacks) -> Result<bool, Corrupt> {
        let kind = tag & tag::KIND;
        if kind >= kind::FIRST_LONG {
            let len = from.len()?;
            let mut body = Cursor::new(from.take(len)?);
            let told = match kind {
                kind::INTERPRETED => self.interpreted(body).map(Some),
                kind::BLOCKED => self.blocked(body, table).map(Some),
                kind::TASKS => self.tasks(body, table),
                kind::MINOR_FAULT => self.stack(&mut body, table).map(|stack| Some(What::MinorFault { stack })),
                kind => long_event(kind, body),
            };
            return match told? {
                Some(what) => {
                    self.event.what = what;
                    Ok(true)
                }
                None => Ok(false),
            };
        }
        let stack = if tag & tag::STACK != 0 { Some(self.stack(from, table)?) } else { None };
        self.event.what = match kind {
            kind::SWITCH_IN => What::SwitchIn,
            kind::OFF_RUNNABLE => What::SwitchOut { off: OffCpu::Runnable, stack },
            kind::OFF_BLOCKED => What::SwitchOut { off: OffCpu::Blocked, stack },
            kind::OFF_SLEEPING => What::SwitchOut { off: OffCpu::Sleeping, stack },
            kind::OFF_UNINTERRUPTIBLE => What::SwitchOut { off: OffCpu::Uninterruptible, stack },
            kind::OFF_GONE => What::SwitchOut { off: OffCpu::Gone, stack },
            kind::WAKING => {
                let target = self.thread_number(from)?;
                What::Waking { target: self.threads[target].tid, stack }
            }
            kind::FUTEX_WAIT => {
                let (op, addr) = self.futex(from)?;
                What::FutexWait { op, addr, value: from.u32()?, stack }
            }
            kind::FUTEX_RETURN => {
                let (op, addr) = self.futex(from)?;
                What::FutexReturn { op, addr, ret: from.i32()?, stack }
            }
            kind::CALL => What::Call { nr: CallNumber(from.u16()?), stack },
            kind::SAMPLE => What::Sample { stack: stack.ok_or(Corrupt("has a sample without a stack"))? },
            kind::MAJOR_FAULT => {
                self.last_fault_addr = self.last_fault_addr.wrapping_add(from.zigzag()? as u64);
                What::MajorFault { addr: self.last_fault_addr, stack }
            }
            _ => return Err(Corrupt("has an event of a kind that never was")),
        };
        Ok(true)
    }

    fn blocked(&mut self, mut body: Cursor<'_>, table: &mut Stacks) -> Result<What, Corrupt> {
        let body = &mut body;
        let flags = body.u8()?;
        let has = |bit| flags & bit != 0;
        let in_call = has(blocked::CALL);
        Ok(What::Blocked(Box::new(Blocked {
            deep: has(blocked::DEEP),
            nr: if in_call { Some(CallNumber(body.u16()?)) } else { None },
            addr: if in_call { body.varint()? } else { 0 },
            wchan: if has(blocked::WCHAN) { Some(text(body)?) } else { None },
            file: if has(blocked::FILE) { Some(text(body)?) } else { None },
            stack: if has(blocked::STACK) { Some(self.stack(body, table)?) } else { None },
        })))
    }

    /// What the tasks were doing; `None` if they were doing what this version does not know.
    fn tasks(&mut self, mut body: Cursor<'_>, table: &mut Stacks) -> Result<Option<What>, Corrupt> {
        let body = &mut body;
        let (all, looked, count) = (body.varint()?, body.varint()?, body.len()?);
        if count > MAX_TASK_GROUPS {
            return Err(Corrupt("has more groups of tasks than there can be"));
        }
        let mut groups = Vec::new();
        for _ in 0..count {
            let code = body.u8()?;
            let (count, addr) = (body.varint()?, body.varint()?);
            let places = if code & task::PLACES != 0 { Some(body.varint()?) } else { None };
            let example = if code & task::EXAMPLE != 0 { body.varint()? } else { 0 };
            let reason = text(body)?.into();
            let stack = if code & 1 != 0 { Some(self.stack(body, table)?) } else { None };
            let state = match (code & !(task::PLACES | task::EXAMPLE)) >> 1 {
                0 => TaskState::Runnable,
                1 => TaskState::Running,
                2 => TaskState::Call,
                3 => TaskState::Waiting,
                _ => return Ok(None),
            };
            groups.push(TaskGroup { count, state, reason, addr, places, example, stack });
        }
        Ok(Some(What::Tasks(Box::new(Tasks { all, looked, groups }))))
    }

    fn interpreted(&mut self, mut body: Cursor<'_>) -> Result<What, Corrupt> {
        let body = &mut body;
        let holds = body.u8()? != 0;
        let number = body.varint()?;
        if number == self.interpreted.len() as u64 {
            let count = body.len()?;
            if count > MAX_INTERPRETED {
                return Err(Corrupt("has more frames of interpreted code than there can be"));
            }
            let frame = |_| {
                let (function, file) = (text(body)?.into(), text(body)?.into());
                Ok(InterpretedFrame { function, file, line: body.u32()? })
            };
            self.interpreted.push((0..count).map(frame).collect::<Result<_, Corrupt>>()?);
        }
        let known = usize::try_from(number).ok().and_then(|number| self.interpreted.get(number)).cloned();
        let frames = known.ok_or(Corrupt("names interpreted code that it has not told"))?;
        Ok(What::Interpreted(Box::new(Interpreted { holds, frames })))
    }

    #[inline]
    fn futex(&mut self, from: &mut Cursor<'_>) -> Result<(FutexOp, u64), Corrupt> {
        let number = from.varint()?;
        if number == self.futexes.len() as u64 {
            let last = self.futexes.last().map_or(0, |(_, addr)| *addr);
            let op = FutexOp(from.u32()?);
            self.futexes.push((op, last.wrapping_add(from.zigzag()? as u64)));
        }
        let known = usize::try_from(number).ok().and_then(|number| self.futexes.get(number));
        known.copied().ok_or(Corrupt("names a futex that it has not told"))
    }

    #[inline]
    fn stack(&mut self, from: &mut Cursor<'_>, table: &mut Stacks) -> Result<StackId, Corrupt> {
        let number = from.varint()?;
        if number == self.stacks.len() as u64 {
            let id = self.new_stack(from, table)?;
            self.stacks.push(id);
        }
        let known = usize::try_from(number).ok().and_then(|number| self.stacks.get(number));
        known.copied().ok_or(Corrupt("names a stack that it has not told"))
    }

    fn new_stack(&mut self, from: &mut Cursor<'_>, table: &mut Stacks) -> Result<StackId, Corrupt> {
        self.stack_decoder.take(from, &mut self.scratch)?;
        let before = table.len();
        let stack = &self.scratch;
        // One for the entry itself, so that small stacks are not free.
        let size = (8 + stack.kernel.len() + stack.user.len() + stack.words.len()) as u64;
        if size > self.stack_budget {
            return Err(Corrupt("has more stacks than a file of its size has room for"));
        }
        let id = table.intern(stack);
        if table.len() > before {
            self.stack_budget -= size;
        }
        Ok(id)
    }
}

/// An event that carries its length: what a newer version may have put after the fields that are known is passed over.
fn long_event(kind: u8, mut body: Cursor<'_>) -> Result<Option<What>, Corrupt> {
    let body = &mut body;
    Ok(Some(match kind {
        kind::STARTED => started(body)?,
        kind::EXITED => What::Exited,
        kind::NAMED => What::Named { exec: body.u8()? != 0, name: text(body)? },
        kind::MAPPED => What::Mapped(Box::new(mapping(body)?)),
        kind::LOST => What::Lost { count: body.varint()? },
        kind::LOCK_WORD => What::LockWord { addr: body.varint()?, word: body.u32()?, owner: body.u32()? },
        kind::COUNT => match counter(body.varint()?) {
            Some(counter) => What::Count { counter, value: body.varint()? },
            None => return Ok(None),
        },
        kind::USAGE => What::Usage(Box::new(ThreadUsage {
            voluntary: body.varint()?,
            involuntary: body.varint()?,
            user_ns: body.varint()?,
            kernel_ns: body.varint()?,
            priority: body.i32()?,
            // Older files end here.
            allowed_cpus: if body.is_empty() { 0 } else { body.u32()? },
            first_cpu: if body.is_empty() { 0 } else { body.u32()? },
        })),
        kind::LOCK_FIGURES => What::LockFigures(Box::new(LockFigures {
            addr: body.varint()?,
            acquisitions: body.varint()?,
            contended: body.varint()?,
            slept: body.varint()?,
            threads: body.u32()?,
            wait: spread(body)?,
            hold: spread(body)?,
        })),
        kind::POINTERS => What::Pointers(Box::new(pointers(body)?)),
        _ => return Ok(None),
    }))
}

fn pointers(body: &mut Cursor<'_>) -> Result<Pointers, Corrupt> {
    let (ip, mask) = (body.varint()?, body.u32()?);
    let mut registers = Vec::new();
    let mut value: u64 = 0;
    for number in (0..Pointers::MOST).filter(|number| mask >> number & 1 != 0) {
        value = value.wrapping_add(body.zigzag()? as u64);
        registers.push((number, value));
    }
    Ok(Pointers { ip, registers })
}

fn spread(body: &mut Cursor<'_>) -> Result<Spread, Corrupt> {
    Ok(Spread {
        count: body.varint()?,
        scale: body.varint()?,
        sum_ns: body.varint()?,
        p50_ns: body.varint()?,
        p99_ns: body.varint()?,
        max_ns: body.varint()?,
    })
}

fn started(body: &mut Cursor<'_>) -> Result<What, Corrupt> {
    let pid = Pid(body.u32()?);
    let parent = match body.varint()? {
        0 => None,
        number => Some(Tid(u32::try_from(number - 1).map_err(|_| Corrupt("names a parent that cannot be"))?)),
    };
    Ok(What::Started { pid, parent })
}

fn mapping(body: &mut Cursor<'_>) -> Result<Mapping, Corrupt> {
    Ok(Mapping {
        pid: Pid(body.u32()?),
        start: body.varint()?,
        len: body.varint()?,
        offset: body.varint()?,
        path: text(body)?,
        build_id: match body.varint()? {
            0 => None,
            longer => {
                let len = usize::try_from(longer - 1).unwrap_or(usize::MAX);
                Some(body.take(len)?.into())
            }
        },
    })
}

fn text(body: &mut Cursor<'_>) -> Result<Box<str>, Corrupt> {
    let len = body.len()?;
    Ok(String::from_utf8_lossy(body.take(len)?).into())
}

fn counter(code: u64) -> Option<Counter> {
    Some(match code {
        0 => Counter::FutexCalls,
        1 => Counter::FutexAgain,
        2 => Counter::Cycles,
        3 => Counter::Instructions,
        4 => Counter::L2Misses,
        5 => Counter::L3Misses,
        6 => Counter::Migrations,
        7 => Counter::MinorFaults,
        8 => Counter::RecorderCpuNs,
        9 => Counter::TransferCalls,
        10 => Counter::TransferBytes,
        11 => Counter::ReferenceCycles,
        12 => Counter::NominalCycles,
        13 => Counter::L2References,
        14 => Counter::L3References,
        15 => Counter::QuotaNs,
        16 => Counter::QuotaPeriods,
        17 => Counter::ThrottledPeriods,
        18 => Counter::ConnectionsWaitedNs,
        _ => return None,
    })
}
