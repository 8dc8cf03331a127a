//! What a thread did when, for viewers, in little room: millions of intervals take twelve bytes each.

use std::collections::HashMap;
use std::sync::Arc;

use holdup_trace::Tid;

use crate::facts::{LockNumber, Reason};
use crate::names::Frame;

/// What the viewer draws: kept only when [`Options::timeline`](crate::Options::timeline) asks for it.
#[derive(Clone, Debug, Default)]
pub struct Timeline {
    /// Per thread, in the order of [`Facts::threads`](crate::Facts::threads).
    pub threads: Vec<Row>,
    /// What rows consist of, each kind once.
    pub kinds: Vec<StretchKind>,
    /// Every wake-up between threads that is known, in order of time.
    pub wakes: Vec<Wake>,
    /// Every CPU sample, in order of time.
    pub samples: Vec<SampleAt>,
    /// The call paths that samples and kinds name, each once, innermost frame first.
    pub call_paths: Vec<Arc<[Frame]>>,
}

/// What a thread did, without gaps and in order of time: each stretch lasts until the next.
#[derive(Clone, Debug, Default)]
pub struct Row {
    marks: Marks,
    end_ns: u64,
}

/// What a stretch of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StretchKind {
    /// What the thread did.
    pub state: State,
    /// Where it left the CPU, if that is known: index in [`Timeline::call_paths`].
    pub call_path: Option<u32>,
}

/// One CPU sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleAt {
    /// When.
    pub time_ns: u64,
    /// Index in [`Facts::threads`](crate::Facts::threads).
    pub thread: u32,
    /// Index in [`Timeline::call_paths`].
    pub call_path: u32,
}

/// A stretch of a thread's life in one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    /// From.
    pub from_ns: u64,
    /// To.
    pub to_ns: u64,
    /// What it did.
    pub state: State,
}

/// What a thread did for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// It ran on this CPU.
    Running {
        /// Which.
        cpu: u16,
    },
    /// It was off CPU.
    Off {
        /// Why.
        reason: Reason,
        /// Waiting for this lock.
        lock: Option<LockNumber>,
    },
    /// It could run but did not yet.
    Runnable,
    /// Events were lost: not known.
    Unknown,
}

/// One thread made another runnable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When.
    pub time_ns: u64,
    /// Who.
    pub from: Tid,
    /// Whom.
    pub to: Tid,
}

impl Timeline {
    /// Rows of these intervals: moments that go back are held, gaps become stretches of which nothing is known.
    pub fn of(threads: &[Vec<Interval>]) -> Timeline {
        let mut timeline = Timeline::default();
        let mut known = HashMap::new();
        for intervals in threads {
            let mut row = Row { end_ns: intervals.first().map_or(0, |first| first.from_ns), ..Row::default() };
            let mut put = |row: &mut Row, to_ns, state| {
                let kinds = &mut timeline.kinds;
                let kind = *known.entry(state).or_insert_with(|| {
                    kinds.push(StretchKind { state, call_path: None });
                    kinds.len() as u32 - 1
                });
                row.marks.push(row.end_ns, kind);
                row.end_ns = to_ns;
            };
            for interval in intervals {
                if interval.from_ns > row.end_ns {
                    put(&mut row, interval.from_ns, State::Unknown);
                }
                if interval.to_ns > row.end_ns {
                    put(&mut row, interval.to_ns, interval.state);
                }
            }
            timeline.threads.push(row);
        }
        timeline
    }

    /// What a thread did.
    pub fn intervals(&self, thread: usize) -> impl DoubleEndedIterator<Item = Interval> + '_ {
        self.threads.get(thread).into_iter().flat_map(|row| {
            row.stretches().map(|(from_ns, to_ns, kind)| {
                let state = self.kinds.get(kind as usize).map_or(State::Unknown, |kind| kind.state);
                Interval { from_ns, to_ns, state }
            })
        })
    }
}

impl Row {
    /// How many stretches it has.
    pub fn len(&self) -> usize {
        self.marks.from.len()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.marks.from.is_empty()
    }

    /// The end of the last stretch.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// When each stretch begins.
    pub fn begins_ns(&self) -> &[u64] {
        &self.marks.from
    }

    /// What each stretch is: index in [`Timeline::kinds`].
    pub fn kinds(&self) -> &[u32] {
        &self.marks.kind
    }

    /// From, to, and kind.
    pub fn stretches(&self) -> impl DoubleEndedIterator<Item = (u64, u64, u32)> + '_ {
        (0..self.len()).map(|at| {
            let to_ns = self.marks.from.get(at + 1).copied().unwrap_or(self.end_ns);
            (self.marks.from[at], to_ns, self.marks.kind[at])
        })
    }
}

/// Beginnings of stretches, while they are collected.
#[derive(Clone, Debug, Default)]
pub(super) struct Marks {
    from: Vec<u64>,
    kind: Vec<u32>,
}

impl Marks {
    pub(super) fn push(&mut self, from: u64, kind: u32) {
        self.from.push(from);
        self.kind.push(kind);
    }

    pub(super) fn last(&self) -> Option<u32> {
        self.kind.last().copied()
    }

    pub(super) fn replace_last(&mut self, kind: u32) {
        self.kind.iter_mut().last().into_iter().for_each(|last| *last = kind);
    }

    pub(super) fn kinds_mut(&mut self) -> impl Iterator<Item = &mut u32> {
        self.kind.iter_mut()
    }

    /// The row from `born` to `last`, with its kinds told anew; stretches without length go.
    pub(super) fn into_row(mut self, born: u64, last: u64, kind: impl Fn(u32) -> u32) -> Row {
        let (mut kept, mut at) = (0, born);
        for index in 0..self.from.len() {
            let to = self.from.get(index + 1).copied().unwrap_or(last);
            if to > at {
                (self.from[kept], self.kind[kept]) = (at, kind(self.kind[index]));
                (kept, at) = (kept + 1, to);
            }
        }
        self.from.truncate(kept);
        self.kind.truncate(kept);
        Row { marks: self, end_ns: at }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_no_gaps_and_time_never_goes_back() {
        let run = State::Running { cpu: 1 };
        let interval = |from_ns, to_ns, state| Interval { from_ns, to_ns, state };
        let odd = [interval(100, 200, run), interval(300, 420, State::Runnable), interval(10, 400, run)];
        let timeline = Timeline::of(&[odd.to_vec(), Vec::new()]);
        let row: Vec<Interval> = timeline.intervals(0).collect();
        let gap = interval(200, 300, State::Unknown);
        assert_eq!(row, [odd[0], gap, odd[1]]);
        assert_eq!((timeline.threads[0].len(), timeline.threads[0].end_ns()), (3, 420));
        assert!(timeline.threads[1].is_empty() && timeline.intervals(7).next().is_none());
    }

    #[test]
    fn stretches_without_length_go() {
        let mut marks = Marks::default();
        [(5, 0), (10, 1), (10, 2), (30, 3)].into_iter().for_each(|(from, kind)| marks.push(from, kind));
        let row = marks.into_row(5, 30, |kind| kind * 10);
        assert_eq!(row.stretches().collect::<Vec<_>>(), [(5, 10, 0), (10, 30, 20)]);
    }
}
