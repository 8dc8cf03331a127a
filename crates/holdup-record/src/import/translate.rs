//! Says in holdup's events what the records of a perf.data file say.

use std::io::Write;
use std::mem;

use holdup_trace::{
    BLOCKING_CALLS, CallNumber, Capabilities, Counter, Ending, Event, FutexOp, Header, Machine, Mapping, NO_CPU,
    Numbering, OffCpu, Pid, Stack, StackId, Target, Tid, What, Writer,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::file::{Attr, Feature, File};
use super::format::{Field, Format, formats};
use super::record::{self, Raw, Sample, Stamp, kind};
use super::scope::{Scope, Threads};
use super::{ImportError, Imported};
use crate::bytes::{Bytes, Order, lossy, number};
use crate::kernel::{context, off_cpu};
use crate::record::Record;

/// Writes all that is understood, in order of time.
pub fn translate(file: &File<'_>, scope: &Scope, mut out: impl Write) -> Result<Imported, ImportError> {
    let meanings = Meanings::of(file);
    let survey = Survey::of(file, &meanings)?;
    if !survey.shows_anything() {
        return Err(ImportError::Nothing { has: survey.other() });
    }
    let threads = Threads::of(file, scope, &survey.order)?;
    let header = header(file, &meanings, &survey, threads.as_ref());
    let writer = Writer::new(Counting { out: &mut out, bytes: 0 }, &header).map_err(ImportError::Write)?;
    let mut translator = Translator::new(file, &meanings, &survey, threads.as_ref(), writer);
    for &(time, at) in &survey.order {
        translator.record(time, at).map_err(ImportError::Write)?;
    }
    let Translator { mut writer, events, lost, again, .. } = translator;
    if again > 0 {
        let event = Event::total(survey.last_ns, Counter::FutexAgain, again);
        writer.event(&event).map_err(ImportError::Write)?;
    }
    let ending = Ending {
        ended_ns: survey.last_ns,
        reason: if file.cut { "the file ends here".into() } else { "the recording by perf ended".into() },
        lost,
        ..Ending::default()
    };
    let bytes = writer.finish(&ending).map_err(ImportError::Write)?.bytes;
    let mut notes = notes(file, &meanings, &survey);
    notes.extend(seen(&survey, scope, threads.as_ref()));
    Ok(Imported { header, ending, events: events + u64::from(again > 0), bytes, notes })
}

/// Counts what goes through.
struct Counting<W> {
    out: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let len = self.out.write(bytes)?;
        self.bytes += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// What the tracepoints of a file mean here, with the fields that are needed.
#[derive(Clone, Debug)]
enum Meaning {
    Switch {
        prev: Field,
        prev_state: Field,
        next: Field,
        names: Option<[Field; 2]>,
    },
    Waking {
        target: Field,
        name: Option<Field>,
    },
    /// The same said later, on the CPU of the woken thread; used where the file has no `sched_waking`.
    Wakeup {
        target: Field,
        name: Option<Field>,
    },
    FutexEnter {
        addr: Field,
        op: Field,
        value: Field,
    },
    FutexExit {
        ret: Field,
    },
    /// Every system call: its number and arguments.
    AnyEnter {
        nr: Field,
        args: Field,
    },
    AnyExit {
        nr: Field,
        ret: Field,
    },
    Call {
        nr: Field,
    },
}

struct Meanings {
    by_id: FxHashMap<u64, Meaning>,
    formats: FxHashMap<u64, Format>,
    numbering: Numbering,
}

impl Meanings {
    fn of(file: &File<'_>) -> Self {
        let formats = file.feature(Feature::TracingData).map(formats).unwrap_or_default();
        let by_id = formats.iter().filter_map(|(id, format)| Some((*id, meaning(format)?))).collect();
        let numbering = Numbering::of(file.text(Feature::Arch).as_deref().unwrap_or_default());
        Meanings { by_id, formats, numbering }
    }

    fn of_attr(&self, attr: &Attr) -> Option<&Meaning> {
        (attr.kind == Attr::TRACEPOINT).then(|| self.by_id.get(&attr.config)).flatten()
    }
}

fn call_number(nr: u64) -> Option<CallNumber> {
    u16::try_from(nr).ok().map(CallNumber)
}

fn meaning(format: &Format) -> Option<Meaning> {
    let field = |name: &str| format.field(name);
    Some(match (&*format.group, &*format.name) {
        ("sched", "sched_switch") => Meaning::Switch {
            prev: field("prev_pid")?,
            prev_state: field("prev_state")?,
            next: field("next_pid")?,
            names: field("prev_comm").zip(field("next_comm")).map(|(prev, next)| [prev, next]),
        },
        ("sched", "sched_waking") => Meaning::Waking { target: field("pid")?, name: field("comm") },
        ("sched", "sched_wakeup" | "sched_wakeup_new") => {
            Meaning::Wakeup { target: field("pid")?, name: field("comm") }
        }
        ("syscalls", "sys_enter_futex") => {
            Meaning::FutexEnter { addr: field("uaddr")?, op: field("op")?, value: field("val")? }
        }
        ("syscalls", "sys_exit_futex") => Meaning::FutexExit { ret: field("ret")? },
        ("raw_syscalls", "sys_enter") => Meaning::AnyEnter { nr: field("id")?, args: field("args")? },
        ("raw_syscalls", "sys_exit") => Meaning::AnyExit { nr: field("id")?, ret: field("ret")? },
        ("syscalls", name) if BLOCKING_CALLS.iter().any(|call| call.tracepoint == name) => {
            Meaning::Call { nr: field("__syscall_nr").or_else(|| field("nr"))? }
        }
        _ => return None,
    })
}

/// What a first look over all records gives: their order, and what is there at all.
#[derive(Default)]
struct Survey {
    /// Time and place of each record of the kernel, in order of time; records without a time come first.
    order: Vec<(u64, usize)>,
    first_ns: u64,
    last_ns: u64,
    switches: u64,
    /// Whether `sched_switch` alone tells all switches of the threads that are seen, those in too.
    complete: bool,
    /// Whether it is certain that whole CPUs were recorded, and not just some threads.
    whole_cpus: bool,
    /// Whether tracepoints were sampled, as `perf record -F` does: some of each are missing.
    sampled: bool,
    switch_records: u64,
    wakings: u64,
    wakeups: u64,
    futex_enters: u64,
    futex_exits: u64,
    calls: u64,
    samples: u64,
    kernel_samples: u64,
    others: u64,
}

impl Survey {
    fn of(file: &File<'_>, meanings: &Meanings) -> Result<Self, ImportError> {
        let mut survey = Survey { first_ns: u64::MAX, ..Survey::default() };
        let mut chains = Chains::default();
        for (at, raw) in record::records(file) {
            if raw.kind == kind::COMPRESSED || raw.kind == kind::COMPRESSED2 {
                return Err(ImportError::Compressed);
            }
            if raw.kind >= kind::FIRST_OF_PERF {
                continue;
            }
            let attr = record::attr_of(file, &raw);
            let time = record::stamp(file, attr, &raw).time.unwrap_or(0);
            survey.order.push((time, at));
            if time > 0 {
                survey.first_ns = survey.first_ns.min(time);
                survey.last_ns = survey.last_ns.max(time);
            }
            survey.count(file, meanings, attr, &raw, &mut chains);
        }
        survey.whole_cpus |= chains.from_idle;
        survey.complete = survey.switch_records == 0 && (chains.from_idle || chains.are_whole());
        survey.sampled = file.attrs.iter().any(|attr| meanings.of_attr(attr).is_some() && attr.misses_some());
        survey.first_ns = survey.first_ns.min(survey.last_ns);
        // Stable: what has the same time stays as the file has it.
        survey.order.sort_by_key(|(time, _)| *time);
        Ok(survey)
    }

    fn count(&mut self, file: &File<'_>, meanings: &Meanings, attr: &Attr, raw: &Raw<'_>, chains: &mut Chains) {
        if matches!(raw.kind, kind::SWITCH | kind::SWITCH_CPU_WIDE) {
            self.switch_records += 1;
            self.whole_cpus |= raw.kind == kind::SWITCH_CPU_WIDE;
        }
        if raw.kind != kind::SAMPLE {
            return;
        }
        let Some(sample) = record::sample_of(attr, raw.body, file.order) else {
            self.others += 1;
            return;
        };
        let figure = match meanings.of_attr(attr) {
            Some(Meaning::Switch { prev, next, .. }) => {
                let of = |field: &Field| field.number(sample.raw, file.order);
                chains.add(sample.stamp, of(prev), of(next));
                &mut self.switches
            }
            Some(Meaning::Waking { .. }) => &mut self.wakings,
            Some(Meaning::Wakeup { .. }) => &mut self.wakeups,
            Some(Meaning::FutexEnter { .. }) => &mut self.futex_enters,
            Some(Meaning::FutexExit { .. }) => &mut self.futex_exits,
            Some(Meaning::AnyEnter { .. }) => {
                self.calls += 1;
                &mut self.futex_enters
            }
            Some(Meaning::AnyExit { .. }) => &mut self.futex_exits,
            Some(Meaning::Call { .. }) => &mut self.calls,
            None if attr.is_sampling() => {
                self.kernel_samples += u64::from(raw.misc & MODE == MODE_KERNEL);
                &mut self.samples
            }
            None => &mut self.others,
        };
        *figure += 1;
    }

    fn shows_anything(&self) -> bool {
        let figures = [self.switches, self.switch_records, self.wakings, self.wakeups, self.futex_enters, self.samples];
        figures.iter().any(|figure| *figure > 0)
    }

    fn other(&self) -> String {
        match self.others {
            0 => format!("{} records of other kinds", self.order.len()),
            n => format!("{n} samples of other events"),
        }
    }
}

/// The switches of each CPU: in whole recordings, each begins with the thread that the one before ended with.
#[derive(Default)]
struct Chains {
    switches: Vec<(u32, u64, u64, u64)>,
    /// Somebody got the CPU from the idle thread, which is recorded with whole CPUs only.
    from_idle: bool,
}

impl Chains {
    fn add(&mut self, stamp: Stamp, prev: Option<u64>, next: Option<u64>) {
        if let (Some(prev), Some(next)) = (prev, next) {
            self.from_idle |= prev == 0;
            self.switches.push((stamp.cpu.unwrap_or(u32::MAX), stamp.time.unwrap_or(0), prev, next));
        }
    }

    /// A tenth may be lost.
    fn are_whole(mut self) -> bool {
        self.switches.sort_by_key(|(cpu, time, ..)| (*cpu, *time));
        let pairs = self.switches.windows(2).filter(|pair| pair[0].0 == pair[1].0);
        let (all, fitting) =
            pairs.fold((0_u64, 0_u64), |(all, fitting), pair| (all + 1, fitting + u64::from(pair[0].3 == pair[1].2)));
        all > 0 && fitting * 10 >= all * 9
    }
}

const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const MODE_USER: u16 = 2;
struct Translator<'f, 'a, W: Write> {
    file: &'f File<'a>,
    meanings: &'f Meanings,
    survey: &'f Survey,
    /// The threads that are shown; `None` for all.
    threads: Option<&'f Threads>,
    build_ids: FxHashMap<Box<str>, Box<[u8]>>,
    writer: Writer<W>,
    known: FxHashSet<u32>,
    /// Ended threads: their last switch comes after their end, and is no new thread's.
    ended: FxHashSet<u32>,
    /// The processes of threads, as births and names tell.
    processes: FxHashMap<u32, u32>,
    /// The futex call that a thread is in.
    futexes: FxHashMap<u32, (FutexOp, u64)>,
    /// Where and why a thread is about to leave, from `sched_switch`, until the record of the switch itself.
    leaving: FxHashMap<u32, (OffCpu, Option<StackId>)>,
    stack: Stack,
    events: u64,
    lost: u64,
    again: u64,
}

impl<'f, 'a, W: Write> Translator<'f, 'a, W> {
    fn new(
        file: &'f File<'a>,
        meanings: &'f Meanings,
        survey: &'f Survey,
        threads: Option<&'f Threads>,
        writer: Writer<W>,
    ) -> Self {
        Translator {
            file,
            meanings,
            survey,
            threads,
            build_ids: file.feature(Feature::BuildId).map(build_ids).unwrap_or_default(),
            writer,
            known: FxHashSet::default(),
            ended: FxHashSet::default(),
            processes: FxHashMap::default(),
            futexes: FxHashMap::default(),
            leaving: FxHashMap::default(),
            stack: Stack::default(),
            events: 0,
            lost: 0,
            again: 0,
        }
    }

    fn record(&mut self, time: u64, at: usize) -> std::io::Result<()> {
        let Some(raw) = record::at_offset(self.file.records, at, self.file.order) else { return Ok(()) };
        let attr = record::attr_of(self.file, &raw);
        let mut stamp = record::stamp(self.file, attr, &raw);
        stamp.time = Some(time.max(self.survey.first_ns));
        match raw.kind {
            kind::SAMPLE => match record::sample_of(attr, raw.body, self.file.order) {
                Some(sample) => self.sample(attr, &raw, &Sample { stamp, ..sample }),
                None => Ok(()),
            },
            kind::SWITCH | kind::SWITCH_CPU_WIDE if self.survey.whole_cpus => Ok(()),
            _ => match Record::read(raw.kind, raw.misc, raw.body, self.file.order) {
                Some(record) => self.no_sample(time, &stamp, record),
                None => Ok(()),
            },
        }
    }

    fn no_sample(&mut self, time: u64, stamp: &Stamp, record: Record<'_>) -> std::io::Result<()> {
        match record {
            Record::Switch { out, preempted } => self.switch(stamp, out, preempted),
            Record::Comm { tid, pid, name, exec } => {
                self.comm(stamp, tid, pid, What::Named { name: lossy(name), exec })
            }
            Record::Fork { tid, pid, parent, .. } => self.fork(time, stamp, tid, pid, parent),
            Record::Exit { tid, .. } => self.exit(stamp, tid),
            Record::Map { pid, tid, start, len, offset, path, build_id } => {
                let (path, build_id) = (lossy(path), build_id.map(Box::from));
                self.mapped(stamp, tid, Mapping { pid: Pid(pid), start, len, offset, path, build_id })
            }
            Record::Lost { count } => {
                self.lost = self.lost.saturating_add(count);
                self.emit(stamp, 0, What::Lost { count })
            }
            Record::Sample(_) => Ok(()),
        }
    }

    fn is_shown(&self, tid: u32) -> bool {
        self.threads.is_none_or(|threads| threads.has(tid))
    }

    /// Writes an event, if it is one of those that are shown: losses, and what happens to a shown thread.
    fn emit(&mut self, stamp: &Stamp, tid: u32, what: What) -> std::io::Result<()> {
        let whom = if let What::Waking { target, .. } = what { target.0 } else { tid };
        let wakes = whom != tid;
        if tid != 0 && (!self.is_shown(whom) || self.ended.contains(&tid) && !wakes) {
            return Ok(());
        }
        self.events += 1;
        let cpu = stamp.cpu.and_then(|cpu| u16::try_from(cpu).ok()).unwrap_or(NO_CPU);
        self.writer.event(&Event { time_ns: stamp.time.unwrap_or(0), tid: Tid(tid), cpu, what })
    }

    /// Says that a thread is there, the first time that it is seen without having been born.
    fn meet(&mut self, stamp: &Stamp, tid: u32, pid: Option<u32>) -> std::io::Result<()> {
        if tid == 0 || tid > i32::MAX as u32 || self.ended.contains(&tid) || !self.known.insert(tid) {
            return Ok(());
        }
        // A thread that is about to end tells no number.
        let pid = pid.filter(|pid| *pid != 0 && *pid <= i32::MAX as u32);
        let pid = self.processes.get(&tid).copied().or(pid).unwrap_or(tid);
        self.emit(stamp, tid, What::Started { pid: Pid(pid), parent: None })
    }

    /// The same for a thread that a tracepoint names, whose name comes with it.
    fn meet_named(&mut self, stamp: &Stamp, tid: u32, pid: Option<u32>, name: Option<Box<str>>) -> std::io::Result<()> {
        if tid == 0 || tid > i32::MAX as u32 || self.known.contains(&tid) {
            return Ok(());
        }
        self.meet(stamp, tid, pid)?;
        match name {
            Some(name) if !name.is_empty() => self.emit(stamp, tid, What::Named { name, exec: false }),
            _ => Ok(()),
        }
    }

    fn sample(&mut self, attr: &Attr, raw: &Raw<'_>, sample: &Sample<'_>) -> std::io::Result<()> {
        let (stamp, order) = (&sample.stamp, self.file.order);
        let tid = stamp.tid.unwrap_or(0);
        let of = |field: &Field| field.number(sample.raw, order);
        let signed = |field: &Field| of(field).map(|n| n as i32);
        let meanings = self.meanings;
        let Some(meaning) = meanings.of_attr(attr) else {
            return if attr.is_sampling() && tid != 0 { self.cpu_sample(raw, sample) } else { Ok(()) };
        };
        match meaning {
            Meaning::Switch { prev, prev_state, next, names } => {
                let (Some(prev), Some(state), Some(next)) = (of(prev), of(prev_state), of(next)) else {
                    return Ok(());
                };
                let name = |at: usize| names.and_then(|names: [Field; 2]| names[at].text(sample.raw));
                self.sched_switch(sample, raw, [prev as u32, next as u32], off_cpu(state), [name(0), name(1)])
            }
            Meaning::Waking { target, name } => {
                self.waking(sample, raw, of(target), name.and_then(|name| name.text(sample.raw)))
            }
            Meaning::Wakeup { target, name } if self.survey.wakings == 0 => {
                self.waking(sample, raw, of(target), name.and_then(|name| name.text(sample.raw)))
            }
            Meaning::Wakeup { .. } => Ok(()),
            _ if tid == 0 => Ok(()),
            Meaning::FutexEnter { addr, op, value } => match (of(addr), of(op), of(value)) {
                (Some(addr), Some(op), Some(value)) => self.futex_enter(sample, raw, addr, op, value),
                _ => Ok(()),
            },
            Meaning::FutexExit { ret } => match signed(ret) {
                Some(ret) => self.futex_exit(sample, raw, ret),
                None => Ok(()),
            },
            Meaning::AnyEnter { nr, args } => {
                let arg = |at| args.element(sample.raw, at, 8, order);
                let Some(nr) = of(nr).and_then(call_number) else { return Ok(()) };
                if Some(nr) == meanings.numbering.futex() {
                    match (arg(0), arg(1), arg(2)) {
                        (Some(addr), Some(op), Some(value)) => self.futex_enter(sample, raw, addr, op, value),
                        _ => Ok(()),
                    }
                } else if meanings.numbering.blocking(nr).is_some() {
                    self.call(sample, raw, nr)
                } else {
                    Ok(())
                }
            }
            Meaning::AnyExit { nr, ret } => match (of(nr).and_then(call_number), signed(ret)) {
                (nr @ Some(_), Some(ret)) if nr == meanings.numbering.futex() => self.futex_exit(sample, raw, ret),
                _ => Ok(()),
            },
            Meaning::Call { nr } => of(nr).and_then(call_number).map_or(Ok(()), |nr| self.call(sample, raw, nr)),
        }
    }

    fn cpu_sample(&mut self, raw: &Raw<'_>, sample: &Sample<'_>) -> std::io::Result<()> {
        let tid = sample.stamp.tid.unwrap_or(0);
        self.meet(&sample.stamp, tid, sample.stamp.pid)?;
        let stack = self.stack(raw, sample).unwrap_or_else(|| self.writer.stack(&Stack::default()));
        self.emit(&sample.stamp, tid, What::Sample { stack })
    }

    /// Where a sample was taken; `None` if it does not say.
    fn stack(&mut self, raw: &Raw<'_>, sample: &Sample<'_>) -> Option<StackId> {
        let mut stack = mem::take(&mut self.stack);
        stack.kernel.clear();
        stack.user.clear();
        split(&mut stack, raw.misc & MODE, sample, self.file.order);
        let id = (!stack.kernel.is_empty() || !stack.user.is_empty()).then(|| self.writer.stack(&stack));
        self.stack = stack;
        id
    }

    fn sched_switch(
        &mut self,
        sample: &Sample<'_>,
        raw: &Raw<'_>,
        [prev, next]: [u32; 2],
        off: OffCpu,
        [prev_name, next_name]: [Option<Box<str>>; 2],
    ) -> std::io::Result<()> {
        let stamp = &sample.stamp;
        // The record is made by the thread that leaves; its process is known, the other's is not.
        let pid = stamp.pid.filter(|_| stamp.tid == Some(prev));
        let stack = if prev == 0 { None } else { self.stack(raw, sample) };
        self.meet_named(stamp, prev, pid, prev_name)?;
        if self.survey.switch_records > 0 {
            self.leaving.insert(prev, (off, stack));
            return Ok(());
        }
        if prev != 0 {
            self.emit(stamp, prev, What::SwitchOut { off, stack })?;
        }
        // Where only some threads were recorded, the next one may be anybody's.
        if next != 0 && (self.survey.complete || self.known.contains(&next)) {
            self.meet_named(stamp, next, None, next_name)?;
            self.emit(stamp, next, What::SwitchIn)?;
        }
        Ok(())
    }

    fn switch(&mut self, stamp: &Stamp, out: bool, preempted: bool) -> std::io::Result<()> {
        let Some(tid) = stamp.tid.filter(|tid| *tid != 0) else { return Ok(()) };
        self.meet(stamp, tid, stamp.pid)?;
        if !out {
            return self.emit(stamp, tid, What::SwitchIn);
        }
        let known = if preempted { OffCpu::Runnable } else { OffCpu::Blocked };
        let (off, stack) = self.leaving.remove(&tid).unwrap_or((known, None));
        self.emit(stamp, tid, What::SwitchOut { off, stack })
    }

    fn waking(
        &mut self,
        sample: &Sample<'_>,
        raw: &Raw<'_>,
        target: Option<u64>,
        name: Option<Box<str>>,
    ) -> std::io::Result<()> {
        /// `common_flags`: the record was made in an interrupt, which only happened to hit the running thread.
        const HARDIRQ: u8 = 8;
        let (stamp, waker) = (&sample.stamp, sample.stamp.tid.unwrap_or(0));
        let in_interrupt = sample.raw.get(2).is_none_or(|flags| flags & HARDIRQ != 0);
        let Some(target) = target.and_then(|tid| u32::try_from(tid).ok()) else { return Ok(()) };
        if self.survey.whole_cpus {
            self.meet_named(stamp, target, None, name)?;
        }
        if in_interrupt || waker == 0 || target == 0 {
            return Ok(());
        }
        self.meet(stamp, waker, stamp.pid)?;
        let stack = self.stack(raw, sample);
        self.emit(stamp, waker, What::Waking { target: Tid(target), stack })
    }

    fn futex_enter(
        &mut self,
        sample: &Sample<'_>,
        raw: &Raw<'_>,
        addr: u64,
        op: u64,
        value: u64,
    ) -> std::io::Result<()> {
        let (stamp, op) = (&sample.stamp, FutexOp(op as u32));
        let tid = stamp.tid.unwrap_or(0);
        self.meet(stamp, tid, stamp.pid)?;
        self.futexes.insert(tid, (op, addr));
        if !op.waits() {
            return Ok(());
        }
        let stack = self.stack(raw, sample);
        self.emit(stamp, tid, What::FutexWait { op, addr, value: value as u32, stack })
    }

    fn futex_exit(&mut self, sample: &Sample<'_>, raw: &Raw<'_>, ret: i32) -> std::io::Result<()> {
        const EAGAIN: i32 = -11;
        let tid = sample.stamp.tid.unwrap_or(0);
        let Some((op, addr)) = self.futexes.remove(&tid) else { return Ok(()) };
        if op.waits() && ret == EAGAIN {
            self.again += 1;
            return Ok(());
        }
        let stack = if op.wakes() && ret > 0 { self.stack(raw, sample) } else { None };
        self.emit(&sample.stamp, tid, What::FutexReturn { op, addr, ret, stack })
    }

    fn call(&mut self, sample: &Sample<'_>, raw: &Raw<'_>, nr: CallNumber) -> std::io::Result<()> {
        let tid = sample.stamp.tid.unwrap_or(0);
        self.meet(&sample.stamp, tid, sample.stamp.pid)?;
        let stack = self.stack(raw, sample);
        self.emit(&sample.stamp, tid, What::Call { nr, stack })
    }

    fn comm(&mut self, stamp: &Stamp, tid: u32, pid: u32, named: What) -> std::io::Result<()> {
        self.processes.insert(tid, pid);
        // The idle thread's name is of no use.
        if tid == 0 {
            return Ok(());
        }
        self.meet(stamp, tid, Some(pid))?;
        self.emit(stamp, tid, named)
    }

    fn fork(&mut self, time: u64, stamp: &Stamp, tid: u32, pid: u32, parent: u32) -> std::io::Result<()> {
        // perf makes up births of the threads that it finds at the beginning; they have no time.
        let born = time > 0 && parent != 0;
        if tid == 0 || (!born && self.known.contains(&tid)) {
            return Ok(());
        }
        self.known.insert(tid);
        self.ended.remove(&tid);
        self.processes.insert(tid, pid);
        let parent = born.then_some(Tid(parent));
        self.emit(stamp, tid, What::Started { pid: Pid(pid), parent })
    }

    fn exit(&mut self, stamp: &Stamp, tid: u32) -> std::io::Result<()> {
        self.futexes.remove(&tid);
        self.leaving.remove(&tid);
        self.processes.remove(&tid);
        if !self.known.remove(&tid) {
            return Ok(());
        }
        let told = self.emit(stamp, tid, What::Exited);
        self.ended.insert(tid);
        told
    }

    fn mapped(&mut self, stamp: &Stamp, tid: u32, mut mapping: Mapping) -> std::io::Result<()> {
        // The kernel's own code is mapped under a process that cannot be.
        if tid == 0 || tid > i32::MAX as u32 || mapping.start.checked_add(mapping.len).is_none() {
            return Ok(());
        }
        let known = self.build_ids.get(&mapping.path).cloned();
        mapping.build_id = mapping.build_id.or(known);
        self.meet(stamp, tid, Some(mapping.pid.0))?;
        self.emit(stamp, tid, What::Mapped(Box::new(mapping)))
    }
}

/// Splits a call chain at the kernel's marks (`PERF_CONTEXT_*`); without a chain, the instruction pointer is all.
fn split(stack: &mut Stack, mode: u16, sample: &Sample<'_>, order: Order) {
    let mut part = mode;
    for word in sample.chain.chunks_exact(8).filter_map(|word| number(word, order)) {
        match word {
            context::KERNEL => part = MODE_KERNEL,
            context::USER => part = MODE_USER,
            context::FIRST.. => part = 0,
            address if part == MODE_KERNEL => stack.kernel.push(address),
            address if part == MODE_USER => stack.user.push(address),
            _ => {}
        }
    }
    if stack.kernel.is_empty() && stack.user.is_empty() {
        match (mode, sample.ip) {
            (MODE_KERNEL, Some(ip)) => stack.kernel.push(ip),
            (MODE_USER, Some(ip)) => stack.user.push(ip),
            _ => {}
        }
    }
}

/// Build ids of files by path: records of a process number, an id of 20 bytes in 24, and a path.
fn build_ids(mut section: Bytes<'_>) -> FxHashMap<Box<str>, Box<[u8]>> {
    /// The length of the id stands behind it.
    const HAS_SIZE: u16 = 1 << 15;
    let mut ids = FxHashMap::default();
    let mut next = || {
        let (_kind, misc, size) = (section.u32()?, section.u16()?, section.u16()?);
        let body = section.take(usize::from(size).checked_sub(8)?)?;
        let (id, path) = (body.get(4..28)?, body.get(28..)?);
        let len = if misc & HAS_SIZE != 0 { usize::from(id[20]).min(20) } else { 20 };
        let end = path.iter().position(|byte| *byte == 0).unwrap_or(path.len());
        Some((lossy(&path[..end]), Box::from(&id[..len])))
    };
    while let Some((path, id)) = next() {
        ids.insert(path, id);
    }
    ids
}

fn header(file: &File<'_>, meanings: &Meanings, survey: &Survey, threads: Option<&Threads>) -> Header {
    let cpus = file.feature(Feature::NrCpus).and_then(|mut section| {
        section.u32()?;
        section.u32()
    });
    let version = file.text(Feature::Version).map(|version| format!(" (perf {version})")).unwrap_or_default();
    let text = |feature| file.text(feature).unwrap_or_default().into_string();
    let sampling = file.attrs.iter().filter(|attr| meanings.of_attr(attr).is_none() && attr.is_sampling());
    Header {
        producer: format!("holdup {}, import of perf.data{version}", env!("CARGO_PKG_VERSION")),
        began_unix_s: began_unix_s(file, survey.first_ns).unwrap_or(0),
        began_ns: survey.first_ns,
        machine: Machine {
            host: text(Feature::Host),
            cpu: text(Feature::CpuDesc),
            cpus: cpus.unwrap_or(0),
            allowed_cpus: 0,
            arch: text(Feature::Arch),
            kernel: text(Feature::OsRelease),
            sockets: Vec::new(),
        },
        target: Target {
            command: Vec::new(),
            pids: threads.map(|threads| threads.roots.clone()).unwrap_or_default(),
            attached: threads.is_none_or(|threads| !threads.are_a_command),
        },
        capabilities: capabilities(survey),
        sample_period_ns: sampling
            .filter_map(Attr::sample_period_ns)
            .next()
            .filter(|_| survey.samples > 0)
            .unwrap_or(0),
        futex_zero_period: 1,
        look_period_ns: 0,
        start_cpu_ns: 0,
        no_counters: None,
        stack_bytes: 0,
    }
}

/// The time of day of the beginning, where perf noted what its clock showed at a time of day.
fn began_unix_s(file: &File<'_>, first_ns: u64) -> Option<u64> {
    let mut section = file.feature(Feature::ClockData)?;
    let (_version, _clock) = (section.u32()?, section.u32()?);
    let (wall_ns, clock_ns) = (section.u64()?, section.u64()?);
    Some(wall_ns.checked_sub(clock_ns)?.checked_add(first_ns)? / 1_000_000_000)
}

fn capabilities(survey: &Survey) -> Capabilities {
    // Of what was sampled, some is missing: no absence is a fact then.
    let all = !survey.sampled;
    let whole = survey.whole_cpus && all;
    Capabilities {
        switches: (survey.complete && all) || survey.switch_records > 0,
        switch_reasons: survey.switches > 0 && all,
        wakings: survey.wakings + survey.wakeups > 0 && all,
        foreign_wakings: whole && survey.wakings + survey.wakeups > 0,
        futexes: survey.futex_enters > 0 && survey.futex_exits > 0 && all,
        calls: survey.calls > 0 && all,
        samples: survey.samples > 0,
        kernel: survey.kernel_samples > 0,
        faults: false,
        lock_words: false,
        hardware: false,
    }
}

/// Whose threads are in the recording, where perf saw more than one program and nobody was asked for.
fn seen(survey: &Survey, scope: &Scope, threads: Option<&Threads>) -> Option<String> {
    match (scope, threads) {
        (Scope::Command, Some(threads)) if threads.others > 0 => Some(format!(
            "shown are the command that perf ran (process {}) and its children; --all shows the {} other processes of \
             the file, too",
            threads.roots[0], threads.others
        )),
        (Scope::Command, None) if survey.whole_cpus => Some(
            "perf recorded the whole machine, and it is all shown; `-p PID` shows one process and its children".into(),
        ),
        _ => None,
    }
}

fn notes(file: &File<'_>, meanings: &Meanings, survey: &Survey) -> Vec<String> {
    const CLOCK_MONOTONIC: u32 = 1;
    let mut notes = Vec::new();
    let left_over = record::left_over(file);
    if file.cut {
        notes
            .push("the file is cut off: names of events and build ids are missing, and the last records may be".into());
    } else if left_over > 0 {
        notes.push(format!("{left_over} bytes at the end of the records are damaged and were left out"));
    }
    if meanings.formats.is_empty() && file.attrs.iter().any(|attr| attr.kind == Attr::TRACEPOINT) {
        notes.push("the file does not say what its tracepoints mean, so they were left out".into());
    }
    if file.attrs.iter().any(|attr| attr.clock() != Some(CLOCK_MONOTONIC)) {
        notes.push(
            "the times are those of perf's own clock, not comparable with other recordings; \
             `perf record -k CLOCK_MONOTONIC` records comparable ones"
                .into(),
        );
    }
    if survey.switches > 0 && !survey.complete && survey.switch_records == 0 {
        notes.push(
            "only switches of single threads were recorded, so when they run again is unknown; \
             `perf sched record` or `perf record --switch-events` records it"
                .into(),
        );
    }
    if survey.sampled {
        notes.push(
            "only some of the tracepoints' events were recorded, as `perf record -F` and -c do; without them it \
             records all"
                .into(),
        );
    }
    if survey.futex_enters == 0 {
        notes.push(
            "no futex calls were recorded, so locks cannot be told apart; add `-e syscalls:sys_enter_futex \
             -e syscalls:sys_exit_futex` to `perf record`, or use `holdup record`"
                .into(),
        );
    }
    if survey.others > 0 {
        notes.push(format!("{} samples of other events were left out", survey.others));
    }
    notes
}
