//! Looks at what runs on virtual machines among the recorded processes: the interpreters of Python and Ruby, Java's
//! machine, Go's scheduler, Node's engine.

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::allowance::Allowance;
use super::go::Scheduler;
use super::java::Machine;
use super::looks::Seen;
use super::node::Engine;
use super::{machine, python, ruby, snapshot, words};

/// Looks at all of them, for a hundredth of a CPU.
#[derive(Debug)]
pub struct Interpreters {
    processes: FxHashMap<u32, Process>,
    allowance: Allowance,
}

/// The part of a CPU that looks may take.
const ONE_IN: u64 = 100;
/// What is saved up for the next looks at most.
const SAVED: Duration = Duration::from_millis(1);
/// How soon a process is looked at again that runs on no such machine: it may be about to begin. The pause doubles each
/// time.
const FIRST_PAUSE_NS: u64 = 10_000_000;
const LONGEST_PAUSE_NS: u64 = 1_000_000_000;

/// A process, as far as it is known.
#[derive(Debug)]
enum Process {
    /// It runs nothing that can be read, or not yet: when to ask again, and the pause after that.
    Other {
        due_ns: u64,
        pause_ns: u64,
    },
    /// Its memory may not be read.
    Refused,
    Python(Box<python::Interpreter>),
    Ruby(Box<ruby::Interpreter>),
    Java(Box<Machine>),
    Go(Box<Scheduler>),
    Node(Box<Engine>),
}

impl Default for Interpreters {
    fn default() -> Interpreters {
        Interpreters { processes: FxHashMap::default(), allowance: Allowance::new(ONE_IN, SAVED) }
    }
}

impl Interpreters {
    /// Looks once at all these processes, if there is CPU time for it. Gives what is found to `see`, each at once.
    pub fn look(&mut self, pids: &[u32], see: &mut impl FnMut(Seen)) {
        let now_ns = machine::now_ns();
        self.allowance.earn(now_ns);
        if !self.allowance.is_left() {
            return;
        }
        self.processes.retain(|pid, _| pids.contains(pid));
        for &pid in pids {
            let first = Process::Other { due_ns: 0, pause_ns: FIRST_PAUSE_NS };
            let process = self.processes.entry(pid).or_insert(first);
            process.prepare(pid, now_ns, see);
            self.allowance.spend_on(|| process.look(now_ns, see));
        }
    }
}

impl Process {
    /// What is done once, or seldom and within limits of its own.
    fn prepare(&mut self, pid: u32, now_ns: u64, see: &mut impl FnMut(Seen)) {
        match self {
            Process::Other { due_ns, .. } if now_ns < *due_ns => {}
            Process::Other { pause_ns, .. } if words::may_read(pid) => {
                let pause_ns = (*pause_ns * 2).min(LONGEST_PAUSE_NS);
                *self = find(pid).unwrap_or(Process::Other { due_ns: now_ns + pause_ns, pause_ns });
            }
            // One that has ended is refused too, which is as good.
            Process::Other { .. } => *self = Process::Refused,
            Process::Java(machine) => machine.tell_code(now_ns, &mut |event| see(event.into())),
            Process::Refused | Process::Python(_) | Process::Ruby(_) | Process::Go(_) | Process::Node(_) => {}
        }
    }

    fn look(&mut self, now_ns: u64, see: &mut impl FnMut(Seen)) {
        let still = match self {
            Process::Refused | Process::Other { .. } => return,
            Process::Python(interpreter) => interpreter.look(now_ns, &mut |event| see(event.into())),
            Process::Ruby(interpreter) => interpreter.look(now_ns, &mut |event| see(event.into())),
            Process::Java(machine) => machine.look(now_ns, &mut |event| see(event.into())),
            Process::Go(scheduler) => scheduler.look(see),
            Process::Node(engine) => engine.look(now_ns, &mut |event| see(event.into())),
        };
        if still.is_none() {
            // It has executed another program, or ends.
            *self = Process::Other { due_ns: now_ns + FIRST_PAUSE_NS, pause_ns: FIRST_PAUSE_NS };
        }
    }
}

fn find(pid: u32) -> Option<Process> {
    let maps = snapshot::read(&format!("/proc/{pid}/maps"))?;
    let python = || python::Interpreter::find(pid, &maps).map(|found| Process::Python(Box::new(found)));
    let ruby = || ruby::Interpreter::find(pid, &maps).map(|found| Process::Ruby(Box::new(found)));
    let java = || Machine::find(pid, &maps).map(|found| Process::Java(Box::new(found)));
    let go = || Scheduler::find(pid, &maps).map(|found| Process::Go(Box::new(found)));
    let node = || Engine::find(pid, &maps).map(|found| Process::Node(Box::new(found)));
    python().or_else(ruby).or_else(java).or_else(go).or_else(node)
}
