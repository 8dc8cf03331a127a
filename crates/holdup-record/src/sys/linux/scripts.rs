//! What scripts running threads execute, by samples of them: the functions of JavaScript in Node's processes.

use std::sync::Arc;
use std::time::Duration;

use holdup_trace::InterpretedFrame;
use rustc_hash::FxHashMap;

use super::allowance::Allowance;
use super::decode::{Frame, Sample};
use super::node::Engine;
use super::{machine, snapshot, words};

/// The part of a CPU that looks may take, and what is saved up: samples come in heaps.
const ONE_IN: u64 = 100;
const SAVED: Duration = Duration::from_millis(5);
/// How soon a process without an engine is asked again: it may be about to begin. The pause doubles each time.
const FIRST_PAUSE_NS: u64 = 50_000_000;
const LONGEST_PAUSE_NS: u64 = 6_400_000_000;

/// The engines of the processes that were sampled.
#[derive(Debug)]
pub struct Scripts {
    processes: FxHashMap<u32, Process>,
    allowance: Allowance,
}

/// A process, as far as it is known.
#[derive(Debug)]
enum Process {
    /// It has none, or not yet: when to ask again, and the pause after that.
    Other {
        due_ns: u64,
        pause_ns: u64,
    },
    Node(Box<Engine>),
}

impl Default for Scripts {
    fn default() -> Scripts {
        Scripts { processes: FxHashMap::default(), allowance: Allowance::new(ONE_IN, SAVED) }
    }
}

impl Scripts {
    /// The functions that a thread was in at a sample, innermost first.
    pub fn sampled(&mut self, frame: Frame, sample: &Sample<'_>) -> Option<Arc<[InterpretedFrame]>> {
        let pid = frame.pid;
        let process = self.processes.entry(pid).or_insert(Process::Other { due_ns: 0, pause_ns: FIRST_PAUSE_NS });
        if let Process::Other { due_ns, .. } = process
            && frame.time_ns < *due_ns
        {
            return None;
        }
        let now_ns = machine::now_ns();
        self.allowance.earn(now_ns);
        if !self.allowance.is_left() {
            return None;
        }
        self.allowance.spend_on(|| {
            if let Process::Other { pause_ns, .. } = process {
                let (due_ns, pause_ns) = (now_ns + *pause_ns, (*pause_ns * 2).min(LONGEST_PAUSE_NS));
                *process = find(pid).unwrap_or(Process::Other { due_ns, pause_ns });
            }
            match process {
                Process::Node(engine) => engine.running(now_ns, frame.tid, sample),
                Process::Other { .. } => None,
            }
        })
    }

    /// A process executed a program, or ended: its memory is another's.
    pub fn forget(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }
}

fn find(pid: u32) -> Option<Process> {
    let maps = words::may_read(pid).then(|| snapshot::read(&format!("/proc/{pid}/maps")))??;
    Some(Process::Node(Box::new(Engine::find(pid, &maps)?)))
}
