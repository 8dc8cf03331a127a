//! Events as bytes: one chunk under way.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::bytes::{put_bytes, put_varint, put_zigzag};
use super::layout::{MAX_INTERPRETED, MAX_STRING_BYTES, MAX_TASK_GROUPS, blocked, kind, tag, task};
use super::stack_code::StackEncoder;
use crate::{
    Blocked, Counter, Event, FutexOp, Interpreted, InterpretedFrame, LockFigures, Mapping, NO_CPU, OffCpu, Pid,
    Pointers, StackId, Stacks, TaskGroup, TaskState, Tasks, ThreadUsage, Tid, What,
};

/// A chunk of events under way. Threads, futexes and stacks are told where they first occur in it, and named by number
/// from then on.
#[derive(Debug, Default)]
pub(super) struct Encoder {
    bytes: Vec<u8>,
    events: u32,
    /// Of the last event.
    time_ns: u64,
    first_ns: u64,
    last_ns: u64,
    /// Number in `threads` of the last event's thread.
    thread: u32,
    thread_numbers: FxHashMap<Tid, u32>,
    /// The CPU of each thread's last event.
    cpus: Vec<u16>,
    futexes: FxHashMap<(FutexOp, u64), u64>,
    last_futex_addr: u64,
    last_fault_addr: u64,
    stack_numbers: FxHashMap<StackId, u64>,
    stacks: StackEncoder,
    /// Interpreted frames.
    interpreted: FxHashMap<Arc<[InterpretedFrame]>, u64>,
    /// The body of an event that carries its length.
    body: Vec<u8>,
}

/// Of which chunk header fields the encoder knows.
pub(super) struct Extent {
    pub(super) events: u32,
    pub(super) first_ns: u64,
    pub(super) last_ns: u64,
}

impl Encoder {
    pub(super) fn is_empty(&self) -> bool {
        self.events == 0
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn extent(&self) -> Extent {
        Extent { events: self.events, first_ns: self.first_ns, last_ns: self.last_ns }
    }

    /// Begins the next chunk, which knows nothing of this one.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.events = 0;
        self.thread_numbers.clear();
        self.cpus.clear();
        self.futexes.clear();
        (self.last_futex_addr, self.last_fault_addr) = (0, 0);
        self.stack_numbers.clear();
        self.stacks.clear();
        self.interpreted.clear();
    }

    /// Adds an event whose stacks are in `table`; a stack that is not there is written as an empty one.
    pub(super) fn put(&mut self, event: &Event, table: &Stacks) {
        match &event.what {
            What::SwitchIn => self.begin(event, kind::SWITCH_IN),
            What::SwitchOut { off, stack } => self.begin_with_stack(event, off_kind(*off), *stack, table),
            What::Waking { target, stack } => {
                self.begin_with_stack(event, kind::WAKING, *stack, table);
                self.put_thread(*target);
            }
            What::FutexWait { op, addr, value, stack } => {
                self.begin_with_stack(event, kind::FUTEX_WAIT, *stack, table);
                self.put_futex(*op, *addr);
                put_varint(&mut self.bytes, u64::from(*value));
            }
            What::FutexReturn { op, addr, ret, stack } => {
                self.begin_with_stack(event, kind::FUTEX_RETURN, *stack, table);
                self.put_futex(*op, *addr);
                put_zigzag(&mut self.bytes, i64::from(*ret));
            }
            What::Call { nr, stack } => {
                self.begin_with_stack(event, kind::CALL, *stack, table);
                put_varint(&mut self.bytes, u64::from(nr.0));
            }
            What::Sample { stack } => self.begin_with_stack(event, kind::SAMPLE, Some(*stack), table),
            What::MajorFault { addr, stack } => {
                self.begin_with_stack(event, kind::MAJOR_FAULT, *stack, table);
                put_zigzag(&mut self.bytes, addr.wrapping_sub(self.last_fault_addr) as i64);
                self.last_fault_addr = *addr;
            }
            rare => self.put_long(event, rare, table),
        }
    }

    /// An event that carries its length.
    fn put_long(&mut self, event: &Event, what: &What, table: &Stacks) {
        let mut body = std::mem::take(&mut self.body);
        body.clear();
        let kind = match what {
            What::Interpreted(found) => self.put_interpreted(&mut body, found),
            What::Blocked(found) => self.put_blocked(&mut body, found, table),
            What::Tasks(found) => self.put_tasks(&mut body, found, table),
            What::MinorFault { stack } => {
                put_stack(&mut body, *stack, table, &mut self.stack_numbers, &mut self.stacks);
                kind::MINOR_FAULT
            }
            what => put_body(&mut body, what),
        };
        self.begin(event, kind);
        put_bytes(&mut self.bytes, &body);
        self.body = body;
    }

    /// Threads mostly stay where they were found: frames are told once in a chunk.
    fn put_interpreted(&mut self, body: &mut Vec<u8>, found: &Interpreted) -> u8 {
        let next = self.interpreted.len() as u64;
        let number = *self.interpreted.entry(found.frames.clone()).or_insert(next);
        body.push(u8::from(found.holds));
        put_varint(body, number);
        if number == next {
            let frames = &found.frames[..found.frames.len().min(MAX_INTERPRETED)];
            put_varint(body, frames.len() as u64);
            for InterpretedFrame { function, file, line } in frames {
                put_bytes(body, cut(function).as_bytes());
                put_bytes(body, cut(file).as_bytes());
                put_varint(body, u64::from(*line));
            }
        }
        kind::INTERPRETED
    }

    fn put_tasks(&mut self, body: &mut Vec<u8>, found: &Tasks, table: &Stacks) -> u8 {
        let groups = &found.groups[..found.groups.len().min(MAX_TASK_GROUPS)];
        for number in [found.all, found.looked, groups.len() as u64] {
            put_varint(body, number);
        }
        for TaskGroup { count, state, reason, addr, places, example, stack } in groups {
            let flag = |bit, is_set: bool| if is_set { bit } else { 0 };
            let known =
                flag(1, stack.is_some()) | flag(task::PLACES, places.is_some()) | flag(task::EXAMPLE, *example != 0);
            body.push(task_state_code(*state) << 1 | known);
            put_varint(body, *count);
            put_varint(body, *addr);
            for number in places.iter().chain((*example != 0).then_some(example)) {
                put_varint(body, *number);
            }
            put_bytes(body, cut(reason).as_bytes());
            if let Some(stack) = stack {
                put_stack(body, *stack, table, &mut self.stack_numbers, &mut self.stacks);
            }
        }
        kind::TASKS
    }

    /// The strings stand here in full: many events repeat them, and LZ4 makes a few bytes of each.
    fn put_blocked(&mut self, body: &mut Vec<u8>, found: &Blocked, table: &Stacks) -> u8 {
        let Blocked { nr, wchan, file, deep, addr, stack } = found;
        let flag = |bit, is_set: bool| if is_set { bit } else { 0 };
        body.push(
            flag(blocked::DEEP, *deep)
                | flag(blocked::CALL, nr.is_some())
                | flag(blocked::WCHAN, wchan.is_some())
                | flag(blocked::FILE, file.is_some())
                | flag(blocked::STACK, stack.is_some()),
        );
        if let Some(nr) = nr {
            put_varint(body, u64::from(nr.0));
            put_varint(body, *addr);
        }
        for text in [wchan, file].into_iter().flatten() {
            put_bytes(body, cut(text).as_bytes());
        }
        if let Some(id) = stack {
            put_stack(body, *id, table, &mut self.stack_numbers, &mut self.stacks);
        }
        kind::BLOCKED
    }

    fn begin_with_stack(&mut self, event: &Event, kind: u8, stack: Option<StackId>, table: &Stacks) {
        match stack {
            None => self.begin(event, kind),
            Some(id) => {
                self.begin(event, kind | tag::STACK);
                put_stack(&mut self.bytes, id, table, &mut self.stack_numbers, &mut self.stacks);
            }
        }
    }

    /// Tag, time, thread, CPU.
    fn begin(&mut self, event: &Event, mut tag: u8) {
        self.begin_time(event.time_ns);
        let (thread, is_new) = self.thread_number(event.tid);
        if thread == self.thread && !is_new && self.events > 1 {
            tag |= tag::SAME_THREAD;
        }
        let cpu = &mut self.cpus[thread as usize];
        if *cpu != event.cpu {
            tag |= tag::CPU;
            *cpu = event.cpu;
        }
        self.bytes.push(tag);
        put_varint(&mut self.bytes, event.time_ns.wrapping_sub(self.time_ns));
        if tag & tag::SAME_THREAD == 0 {
            self.put_number_of_thread(thread, is_new, event.tid);
        }
        if tag & tag::CPU != 0 {
            put_varint(&mut self.bytes, u64::from(event.cpu));
        }
        (self.time_ns, self.thread) = (event.time_ns, thread);
    }

    /// Counts the event; sets the clock at the first one, and back where time goes back.
    fn begin_time(&mut self, time_ns: u64) {
        if self.events == 0 {
            put_varint(&mut self.bytes, time_ns);
            (self.time_ns, self.first_ns, self.last_ns) = (time_ns, time_ns, time_ns);
        }
        self.events += 1;
        if time_ns < self.time_ns {
            self.bytes.push(kind::BACK);
            put_varint(&mut self.bytes, self.time_ns - time_ns);
            self.time_ns = time_ns;
        }
        self.first_ns = self.first_ns.min(time_ns);
        self.last_ns = self.last_ns.max(time_ns);
    }

    fn thread_number(&mut self, tid: Tid) -> (u32, bool) {
        let next = self.cpus.len() as u32;
        let number = *self.thread_numbers.entry(tid).or_insert(next);
        if number == next {
            self.cpus.push(NO_CPU);
        }
        (number, number == next)
    }

    fn put_thread(&mut self, tid: Tid) {
        let (number, is_new) = self.thread_number(tid);
        self.put_number_of_thread(number, is_new, tid);
    }

    fn put_number_of_thread(&mut self, number: u32, is_new: bool, tid: Tid) {
        put_varint(&mut self.bytes, u64::from(number));
        if is_new {
            put_varint(&mut self.bytes, u64::from(tid.0));
        }
    }

    fn put_futex(&mut self, op: FutexOp, addr: u64) {
        let next = self.futexes.len() as u64;
        let number = *self.futexes.entry((op, addr)).or_insert(next);
        put_varint(&mut self.bytes, number);
        if number == next {
            put_varint(&mut self.bytes, u64::from(op.0));
            put_zigzag(&mut self.bytes, addr.wrapping_sub(self.last_futex_addr) as i64);
            self.last_futex_addr = addr;
        }
    }
}

/// A stack that the chunk has not named yet follows its number.
fn put_stack(
    bytes: &mut Vec<u8>,
    id: StackId,
    table: &Stacks,
    numbers: &mut FxHashMap<StackId, u64>,
    stacks: &mut StackEncoder,
) {
    let next = numbers.len() as u64;
    let number = *numbers.entry(id).or_insert(next);
    put_varint(bytes, number);
    if number == next {
        match table.get(id) {
            Some(stack) => stacks.put(bytes, stack),
            None => stacks.put(bytes, &crate::Stack::default()),
        }
    }
}

fn off_kind(off: OffCpu) -> u8 {
    match off {
        OffCpu::Runnable => kind::OFF_RUNNABLE,
        OffCpu::Blocked => kind::OFF_BLOCKED,
        OffCpu::Sleeping => kind::OFF_SLEEPING,
        OffCpu::Uninterruptible => kind::OFF_UNINTERRUPTIBLE,
        OffCpu::Gone => kind::OFF_GONE,
    }
}

/// Writes what follows the length; gives the kind. The common kinds have no body.
fn put_body(body: &mut Vec<u8>, what: &What) -> u8 {
    match what {
        What::Started { pid, parent } => put_started(body, *pid, *parent),
        What::Named { name, exec } => put_named(body, name, *exec),
        What::Mapped(mapping) => put_mapping(body, mapping),
        What::Lost { count } => {
            put_varint(body, *count);
            kind::LOST
        }
        What::LockWord { addr, word, owner } => {
            put_varint(body, *addr);
            put_varint(body, u64::from(*word));
            put_varint(body, u64::from(*owner));
            kind::LOCK_WORD
        }
        What::Count { counter, value } => {
            put_varint(body, counter_code(*counter));
            put_varint(body, *value);
            kind::COUNT
        }
        What::Usage(usage) => put_usage(body, usage),
        What::LockFigures(figures) => put_lock_figures(body, figures),
        What::Pointers(found) => put_pointers(body, found),
        What::Exited
        | What::SwitchIn
        | What::SwitchOut { .. }
        | What::Waking { .. }
        | What::FutexWait { .. }
        | What::FutexReturn { .. }
        | What::Call { .. }
        | What::Sample { .. }
        | What::MajorFault { .. }
        | What::MinorFault { .. }
        | What::Blocked(_)
        | What::Interpreted(_)
        | What::Tasks(_) => kind::EXITED,
    }
}

fn put_started(body: &mut Vec<u8>, pid: Pid, parent: Option<Tid>) -> u8 {
    put_varint(body, u64::from(pid.0));
    put_varint(body, parent.map_or(0, |tid| u64::from(tid.0) + 1));
    kind::STARTED
}

fn put_named(body: &mut Vec<u8>, name: &str, exec: bool) -> u8 {
    body.push(u8::from(exec));
    put_bytes(body, cut(name).as_bytes());
    kind::NAMED
}

fn put_mapping(body: &mut Vec<u8>, mapping: &Mapping) -> u8 {
    put_varint(body, u64::from(mapping.pid.0));
    for number in [mapping.start, mapping.len, mapping.offset] {
        put_varint(body, number);
    }
    put_bytes(body, cut(&mapping.path).as_bytes());
    match &mapping.build_id {
        None => body.push(0),
        Some(id) => {
            let id = &id[..id.len().min(MAX_STRING_BYTES)];
            put_varint(body, id.len() as u64 + 1);
            body.extend_from_slice(id);
        }
    }
    kind::MAPPED
}

fn put_usage(body: &mut Vec<u8>, usage: &ThreadUsage) -> u8 {
    for number in [usage.voluntary, usage.involuntary, usage.user_ns, usage.kernel_ns] {
        put_varint(body, number);
    }
    put_zigzag(body, i64::from(usage.priority));
    put_varint(body, u64::from(usage.allowed_cpus));
    put_varint(body, u64::from(usage.first_cpu));
    kind::USAGE
}

fn put_lock_figures(body: &mut Vec<u8>, figures: &LockFigures) -> u8 {
    let LockFigures { addr, acquisitions, contended, slept, threads, wait, hold } = *figures;
    for number in [addr, acquisitions, contended, slept, u64::from(threads)] {
        put_varint(body, number);
    }
    for spread in [wait, hold] {
        let numbers = [spread.count, spread.scale, spread.sum_ns, spread.p50_ns, spread.p99_ns, spread.max_ns];
        numbers.into_iter().for_each(|number| put_varint(body, number));
    }
    kind::LOCK_FIGURES
}

/// Which registers, a bit each; then of each how far it points from the one before, the first from 0: they often point
/// to the same region.
fn put_pointers(body: &mut Vec<u8>, found: &Pointers) -> u8 {
    let told = || found.registers.iter().filter(|(number, _)| *number < Pointers::MOST);
    put_varint(body, found.ip);
    put_varint(body, told().fold(0, |mask, (number, _)| mask | 1 << number));
    let mut last = 0;
    for (_, value) in told() {
        put_zigzag(body, value.wrapping_sub(last) as i64);
        last = *value;
    }
    kind::POINTERS
}

fn task_state_code(state: TaskState) -> u8 {
    match state {
        TaskState::Runnable => 0,
        TaskState::Running => 1,
        TaskState::Call => 2,
        TaskState::Waiting => 3,
    }
}

fn counter_code(counter: Counter) -> u64 {
    match counter {
        Counter::FutexCalls => 0,
        Counter::FutexAgain => 1,
        Counter::Cycles => 2,
        Counter::Instructions => 3,
        Counter::L2Misses => 4,
        Counter::L3Misses => 5,
        Counter::Migrations => 6,
        Counter::MinorFaults => 7,
        Counter::RecorderCpuNs => 8,
        Counter::TransferCalls => 9,
        Counter::TransferBytes => 10,
        Counter::ReferenceCycles => 11,
        Counter::NominalCycles => 12,
        Counter::L2References => 13,
        Counter::L3References => 14,
        Counter::QuotaNs => 15,
        Counter::QuotaPeriods => 16,
        Counter::ThrottledPeriods => 17,
        Counter::ConnectionsWaitedNs => 18,
    }
}

/// The text, or as much of its beginning as a recording keeps.
fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_STRING_BYTES)]
}
