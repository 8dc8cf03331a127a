//! What looks at Go's goroutines found, round by round.

use holdup_trace::{Pid, TaskGroup, Tasks};
use rustc_hash::FxHashMap;

use crate::names::SpaceId;

/// What looks found, by process.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) processes: FxHashMap<Pid, Process>,
}

/// Those of one process.
#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) space: Option<SpaceId>,
    /// What groups were found doing, by number, without how many and who.
    pub(super) kinds: Vec<TaskGroup>,
    /// Of each kind, how often another goroutine stood for it than at the look before that found any.
    pub(super) turns: Vec<u64>,
    examples: Vec<u64>,
    index: FxHashMap<TaskGroup, u32>,
    pub(super) looks: Vec<Look>,
    /// Kinds and how many of each, of all looks one after the other.
    counts: Vec<(u32, u64)>,
}

/// One round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// How many goroutines each of those that were looked at stands for.
    weight: f64,
    /// Where in the counts its own end.
    end: usize,
}

/// Kinds of groups in all looks of a process, and different ones, that are kept: longer recordings are judged by their
/// beginning.
const MOST_COUNTS: usize = 4_000_000;
const MOST_KINDS: usize = 100_000;
impl Found {
    /// A look.
    pub(super) fn found(&mut self, pid: Pid, space: SpaceId, tasks: &Tasks) {
        let process = self.processes.entry(pid).or_default();
        if process.counts.len().saturating_add(tasks.groups.len()) > MOST_COUNTS || tasks.looked == 0 {
            return;
        }
        process.space = Some(space);
        for group in &tasks.groups {
            let kind = TaskGroup { count: 0, example: 0, ..group.clone() };
            let next = process.kinds.len() as u32;
            if process.kinds.len() >= MOST_KINDS && !process.index.contains_key(&kind) {
                continue;
            }
            let number = *process.index.entry(kind.clone()).or_insert(next);
            if number == next {
                process.kinds.push(kind);
                process.turns.push(0);
                process.examples.push(group.example);
            }
            let at = number as usize;
            process.turns[at] += u64::from(process.examples[at] != group.example);
            process.examples[at] = group.example;
            process.counts.push((number, group.count));
        }
        let weight = (tasks.all as f64 / tasks.looked as f64).max(1.0);
        process.looks.push(Look { weight, end: process.counts.len() });
    }
}

impl Process {
    /// Each look: how many goroutines each that was looked at stands for, and what was found.
    pub(super) fn all(&self) -> impl Iterator<Item = (f64, &[(u32, u64)])> {
        let begins = std::iter::once(0).chain(self.looks.iter().map(|look| look.end));
        begins.zip(&self.looks).map(|(begin, look)| (look.weight, &self.counts[begin..look.end]))
    }
}
