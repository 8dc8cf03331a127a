//! How things stand at a moment of a recording: what its events until then say of who lives, what is mapped and what
//! each thread does, in as few events as say the same.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::{Blocked, Event, Mapping, NO_CPU, OffCpu, Pid, StackId, Tid, What};

/// Learns from events, and tells what they come to.
#[derive(Debug, Default)]
pub(super) struct Standing {
    threads: FxHashMap<Tid, Thread>,
    /// Executable memory of each process.
    spaces: FxHashMap<Pid, Space>,
}

/// Executable memory of a process.
#[derive(Clone, Debug, Default)]
struct Space {
    /// By where it begins, each with the how-manieth it was.
    mappings: BTreeMap<u64, (u64, Mapping)>,
    mapped: u64,
}

/// Mappings that are kept of a process. That memory is unmapped is not told, so those of libraries and of generated
/// code that come and go would become ever more.
const MAPPINGS: usize = 1024;
/// Of these, the first stay: the program and the libraries that it began with.
const FIRST_MAPPINGS: u64 = 256;

/// A thread that lives.
#[derive(Clone, Debug, Default)]
struct Thread {
    pid: Pid,
    name: Option<Box<str>>,
    doing: Doing,
    /// The last call that can block, since it ran last: a futex wait, or another.
    call: Option<What>,
    /// What a look has found since it ran last.
    found: Option<Box<Blocked>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Doing {
    #[default]
    Unknown,
    Running(u16),
    Off(OffCpu, Option<StackId>),
}

impl Standing {
    /// Learns from the next event.
    pub(super) fn note(&mut self, event: &Event) {
        match &event.what {
            What::SwitchIn => {
                let Some(thread) = self.threads.get_mut(&event.tid) else { return };
                thread.doing = Doing::Running(event.cpu);
                (thread.call, thread.found) = (None, None);
            }
            What::SwitchOut { off, stack } => {
                let Some(thread) = self.threads.get_mut(&event.tid) else { return };
                thread.doing = Doing::Off(*off, *stack);
            }
            What::FutexWait { .. } | What::Call { .. } => {
                let Some(thread) = self.threads.get_mut(&event.tid) else { return };
                thread.call = Some(event.what.clone());
            }
            What::FutexReturn { op, .. } if op.waits() => {
                let Some(thread) = self.threads.get_mut(&event.tid) else { return };
                thread.call = None;
            }
            What::Blocked(found) => {
                let Some(thread) = self.threads.get_mut(&event.tid) else { return };
                // A look that found a thread that runs says nothing of the time to come.
                if !matches!(thread.doing, Doing::Running(_)) {
                    thread.found = Some(found.clone());
                }
            }
            What::Started { pid, parent } => self.start(event.tid, *pid, *parent),
            What::Exited => self.end(event.tid),
            What::Named { name, exec } => self.name(event.tid, name, *exec),
            What::Mapped(mapping) => self.map(mapping),
            _ => {}
        }
    }

    fn start(&mut self, tid: Tid, pid: Pid, parent: Option<Tid>) {
        let parent = parent.and_then(|parent| self.threads.get(&parent));
        let name = parent.and_then(|parent| parent.name.clone());
        let from = parent.map(|parent| parent.pid).filter(|from| *from != pid);
        // A process begins with the memory of the one that made it.
        if let Some(mut space) = from.and_then(|from| self.spaces.get(&from)).cloned() {
            space.mappings.values_mut().for_each(|(_, mapping)| mapping.pid = pid);
            self.spaces.insert(pid, space);
        }
        self.threads.insert(tid, Thread { pid, name, ..Thread::default() });
    }

    fn end(&mut self, tid: Tid) {
        let Some(thread) = self.threads.remove(&tid) else { return };
        if !self.threads.values().any(|other| other.pid == thread.pid) {
            self.spaces.remove(&thread.pid);
        }
    }

    fn name(&mut self, tid: Tid, name: &str, exec: bool) {
        let Some(thread) = self.threads.get_mut(&tid) else { return };
        thread.name = Some(name.into());
        if exec {
            self.spaces.remove(&thread.pid);
        }
    }

    fn map(&mut self, mapping: &Mapping) {
        self.spaces.entry(mapping.pid).or_default().map(mapping);
    }

    /// Asks for new numbers of the stacks that it names.
    pub(super) fn renumber(&mut self, number: &mut impl FnMut(StackId) -> Option<StackId>) {
        for thread in self.threads.values_mut() {
            if let Doing::Off(_, stack) = &mut thread.doing {
                *stack = stack.and_then(&mut *number);
            }
            if let Some(What::FutexWait { stack, .. } | What::Call { stack, .. }) = &mut thread.call {
                *stack = stack.and_then(&mut *number);
            }
            if let Some(found) = &mut thread.found {
                found.stack = found.stack.and_then(&mut *number);
            }
        }
    }

    /// How things stand, as events of this moment: processes, each with its threads and its memory, then what threads
    /// do.
    pub(super) fn events(&self, time_ns: u64) -> Vec<Event> {
        let mut threads: Vec<(Tid, &Thread)> = self.threads.iter().map(|(tid, thread)| (*tid, thread)).collect();
        threads.sort_unstable_by_key(|(tid, thread)| (thread.pid, tid.0 != thread.pid.0, *tid));
        let event = |tid, cpu, what| Event { time_ns, tid, cpu, what };
        let mut events = Vec::new();
        for &(tid, thread) in &threads {
            events.push(event(tid, NO_CPU, What::Started { pid: thread.pid, parent: None }));
            let name = thread.name.clone().map(|name| What::Named { name, exec: false });
            events.extend(name.map(|what| event(tid, NO_CPU, what)));
        }
        for processes in threads.chunk_by(|(_, a), (_, b)| a.pid == b.pid) {
            let (tid, thread) = processes[0];
            let space = self.spaces.get(&thread.pid).into_iter().flat_map(|space| space.mappings.values());
            events.extend(space.map(|(_, map)| event(tid, NO_CPU, What::Mapped(Box::new(map.clone())))));
        }
        for (tid, thread) in threads {
            if let Doing::Running(cpu) = thread.doing {
                events.push(event(tid, cpu, What::SwitchIn));
            }
            events.extend(thread.call.clone().map(|what| event(tid, NO_CPU, what)));
            if let Doing::Off(off, stack) = thread.doing {
                events.push(event(tid, NO_CPU, What::SwitchOut { off, stack }));
            }
            let found = thread.found.clone().map(What::Blocked);
            events.extend(found.map(|what| event(tid, NO_CPU, what)));
        }
        events
    }
}

impl Space {
    fn map(&mut self, mapping: &Mapping) {
        let end = mapping.start.saturating_add(mapping.len);
        // What is mapped in another's place takes it.
        let covered = |old: &Mapping| old.start < end && old.start.saturating_add(old.len) > mapping.start;
        let before = self.mappings.range(..end).rev();
        let gone: Vec<u64> = before.map_while(|(start, (_, old))| covered(old).then_some(*start)).collect();
        gone.iter().for_each(|start| drop(self.mappings.remove(start)));
        self.mappings.insert(mapping.start, (self.mapped, mapping.clone()));
        self.mapped += 1;
        if self.mappings.len() > MAPPINGS {
            let later = self.mappings.iter().filter(|(_, (number, _))| *number >= FIRST_MAPPINGS);
            let oldest = later.min_by_key(|(_, (number, _))| *number).map(|(start, _)| *start);
            oldest.iter().for_each(|start| drop(self.mappings.remove(start)));
        }
    }
}
