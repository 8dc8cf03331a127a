//! Which threads of a perf.data file are shown: perf records whole machines, and few people want to read about all of
//! one.

use rustc_hash::FxHashSet;

use super::ImportError;
use super::file::File;
use super::record;
use crate::record::Record;

/// Whose threads are imported. Wake-ups by others are kept: they say where a wake-up came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Scope {
    /// The command that perf started and the processes it starts; everything if perf started none.
    #[default]
    Command,
    /// These processes and the ones they start.
    Processes(Vec<u32>),
    /// Everything that perf saw.
    All,
}

/// The threads of a scope.
#[derive(Debug)]
pub(super) struct Threads {
    /// The processes that the scope began with, by number.
    pub roots: Vec<u32>,
    /// perf started them.
    pub are_a_command: bool,
    /// How many other processes the file tells of.
    pub others: usize,
    tids: FxHashSet<u32>,
}

impl Threads {
    /// The threads of a file that belong to a scope; `None` if all do. `order` has time and place of the file's
    /// records.
    pub fn of(file: &File<'_>, scope: &Scope, order: &[(u64, usize)]) -> Result<Option<Self>, ImportError> {
        let tasks: Vec<Task> = order.iter().filter_map(|(_, at)| Task::read(file, *at)).collect();
        let roots = match scope {
            Scope::All => return Ok(None),
            Scope::Processes(pids) => pids.clone(),
            Scope::Command => match tasks.iter().find(|task| task.is_started_by_perf) {
                Some(command) => vec![command.pid],
                None => return Ok(None),
            },
        };
        if let Some(missing) = roots.iter().find(|root| tasks.iter().all(|task| task.pid != **root)) {
            return Err(ImportError::NoProcess(*missing));
        }
        let mut pids: FxHashSet<u32> = roots.iter().copied().collect();
        let mut tids = pids.clone();
        for task in &tasks {
            if task.parent.is_some_and(|parent| pids.contains(&parent)) {
                pids.insert(task.pid);
            }
            if pids.contains(&task.pid) {
                tids.insert(task.tid);
            }
        }
        let others: FxHashSet<u32> = tasks.iter().map(|task| task.pid).filter(|pid| !pids.contains(pid)).collect();
        Ok(Some(Threads { roots, are_a_command: *scope == Scope::Command, others: others.len(), tids }))
    }

    /// Whether this thread is one of them.
    pub fn has(&self, tid: u32) -> bool {
        self.tids.contains(&tid)
    }
}

/// What a record says of who is whose.
struct Task {
    pid: u32,
    tid: u32,
    /// The process that started this one, at a birth.
    parent: Option<u32>,
    is_started_by_perf: bool,
}

impl Task {
    fn read(file: &File<'_>, at: usize) -> Option<Self> {
        /// What perf calls its child until that becomes the command.
        const BEFORE_EXEC: &[u8] = b"perf-exec";
        let raw = record::at_offset(file.records, at, file.order)?;
        match Record::read(raw.kind, raw.misc, raw.body, file.order)? {
            Record::Comm { pid, tid, name, .. } => {
                Some(Task { pid, tid, parent: None, is_started_by_perf: name == BEFORE_EXEC })
            }
            Record::Fork { pid, tid, parent_pid, .. } => {
                Some(Task { pid, tid, parent: Some(parent_pid), is_started_by_perf: false })
            }
            _ => None,
        }
    }
}
