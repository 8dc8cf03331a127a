//! One thread: its state, its sums, and what it did lately.

use std::collections::VecDeque;

use holdup_trace::{Pid, ThreadUsage, Tid};

use super::calls::CallKind;
use super::doing::{Doing, Plain, Waker};
use super::ids::{BlockId, CodeId, GroupId, LockId, StackKey, ThreadId, WaitSiteId};
use super::lock::Place;
use super::log::Log;
use super::row::Marks;
use super::tally::Tally;
use crate::Histogram;
use crate::facts::OffTime;
use crate::names::SpaceId;

/// How many intervals of a thread's past are kept for the question what it did while it held a lock.
const PAST: usize = 64;

/// Where a thread is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Nothing was seen of it since it appeared.
    New,
    Running,
    Off(Doing),
    /// Events were lost.
    Unknown,
    Ended,
}

/// A call that the thread entered and that may explain why it leaves the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pending {
    None,
    Futex { wait_site: WaitSiteId, lock: LockId, stack: Option<StackKey> },
    Call { kind: CallKind, stack: Option<StackKey> },
    Fault { stack: Option<StackKey> },
}

/// A stretch of a thread's past.
#[derive(Clone, Copy, Debug)]
pub(super) struct Past {
    pub from: u64,
    pub to: u64,
    pub doing: Doing,
    pub stack: Option<StackKey>,
}

/// One thread.
#[derive(Debug)]
pub(super) struct Thread {
    pub tid: Tid,
    pub pid: Pid,
    pub forked: bool,
    /// Who started it.
    pub parent: Option<ThreadId>,
    pub name: String,
    pub born: u64,
    /// Its last event.
    pub last: u64,
    pub exited: bool,
    pub space: SpaceId,
    pub epoch: u32,
    pub state: State,
    /// When the state began.
    pub since: u64,
    /// Whether the run began with a switch that was seen.
    pub whole_run: bool,
    /// Where it left the CPU.
    pub stack: Option<StackKey>,
    /// When its interpreter was looked at last, and what it executed then.
    pub code: Option<(u64, CodeId)>,
    pub cpu: u16,
    pub ran: bool,
    /// Whether it is counted as running or runnable.
    pub active: bool,
    pub pending: Pending,
    /// Who woke it and when, until it runs.
    pub woken: Option<(Waker, u64)>,
    /// Who was seen to wake it while it was still seen to run, when and where.
    pub woken_early: Option<(Option<ThreadId>, u64, Place)>,
    /// The lock whose queue it stands in.
    pub queue: Option<LockId>,
    /// The lock whose wait it just ended; the return of the call is still to come.
    pub returning: Option<LockId>,
    /// The group whose herd it was woken with.
    pub herd: Option<GroupId>,
    /// Whom it woke last, as long as nobody told where.
    pub unplaced: Option<ThreadId>,
    /// Since when a call of its own may have been under way while it was preempted.
    pub preempted_at: Option<u64>,
    /// How long its CPU had been busy with the target when it left it.
    pub cpu_busy_ns: u64,
    /// The last run that ended: from, to, and whether it ended in a wait on a futex.
    pub last_run: (u64, u64, bool),
    /// Who woke it last, and its CPU time then: for pairs.
    pub woken_by: Option<(ThreadId, u64)>,
    /// Whom it woke last, and when: for pairs.
    pub last_woke: Option<(ThreadId, u64)>,
    /// Blocks without a known waker, for pairs.
    pub silent_blocks: u64,
    /// How often it called for a lock of a file without having to wait, since it last left the CPU by itself; and its
    /// sleeps after one such call.
    pub file_locks: u64,
    pub retries: OffTime,

    pub on_cpu_ns: u64,
    pub plain: [OffTime; Plain::ALL.len()],
    pub blocks: Tally<BlockId, OffTime>,
    pub run_ns: Histogram,
    pub run_delay_ns: Histogram,
    pub migrations: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub wakes: u64,
    pub priority: Option<i32>,
    /// First and last reading, and the switches recorded by then.
    pub usage: Option<(ThreadUsage, ThreadUsage)>,
    pub usage_switches: (u64, u64),
    /// When these readings were.
    pub usage_ns: (u64, u64),

    pub past: VecDeque<Past>,
    /// Every stretch off the CPU.
    pub log: Log,
    /// How often it was found blocked in what, by block.
    pub found: Tally<BlockId, u64>,
    /// What it did since when, for the viewer.
    pub marks: Marks,
}

impl Thread {
    pub(super) fn new(tid: Tid, pid: Pid, forked: bool, now: u64) -> Thread {
        Thread {
            tid,
            pid,
            forked,
            parent: None,
            name: String::new(),
            born: now,
            last: now,
            exited: false,
            space: SpaceId::default(),
            epoch: 0,
            state: State::New,
            since: now,
            whole_run: false,
            stack: None,
            code: None,
            cpu: holdup_trace::NO_CPU,
            ran: false,
            active: false,
            pending: Pending::None,
            woken: None,
            woken_early: None,
            queue: None,
            returning: None,
            herd: None,
            unplaced: None,
            preempted_at: None,
            cpu_busy_ns: 0,
            last_run: (0, 0, false),
            woken_by: None,
            last_woke: None,
            silent_blocks: 0,
            file_locks: 0,
            retries: OffTime::default(),
            on_cpu_ns: 0,
            plain: [OffTime::default(); Plain::ALL.len()],
            blocks: Tally::default(),
            run_ns: Histogram::default(),
            run_delay_ns: Histogram::default(),
            migrations: 0,
            voluntary: 0,
            involuntary: 0,
            wakes: 0,
            priority: None,
            usage: None,
            usage_switches: (0, 0),
            usage_ns: (0, 0),
            past: VecDeque::new(),
            log: Log::default(),
            found: Tally::default(),
            marks: Marks::default(),
        }
    }

    pub(super) fn switches(&self) -> u64 {
        self.voluntary + self.involuntary
    }

    /// CPU time until a moment in the present or the last run.
    pub(super) fn on_cpu_at(&self, at: u64) -> u64 {
        let (from, to, _) = self.last_run;
        if self.state != State::Running && at <= from {
            return self.on_cpu_ns.saturating_sub(to.saturating_sub(from));
        }
        self.on_cpu_until(at)
    }

    /// CPU time until now.
    pub(super) fn on_cpu_until(&self, now: u64) -> u64 {
        let run = if self.state == State::Running { now.saturating_sub(self.since) } else { 0 };
        self.on_cpu_ns + run
    }

    pub(super) fn remember(&mut self, past: Past) {
        if self.past.len() == PAST {
            self.past.pop_front();
        }
        self.past.push_back(past);
    }

    /// Forgets all sums, and lets what is under way begin now.
    pub(super) fn restart(&mut self, now: u64) {
        let old = std::mem::replace(self, Thread::new(self.tid, self.pid, self.forked, now));
        let since = old.since.max(now);
        let mut marks = Marks::default();
        if let (Some(kind), true) = (old.marks.last(), old.state != State::Ended) {
            marks.push(since, kind);
        }
        *self = Thread {
            parent: old.parent,
            name: old.name,
            born: old.born.max(now),
            last: old.last.max(now),
            exited: old.exited,
            space: old.space,
            epoch: old.epoch,
            state: old.state,
            since,
            whole_run: old.whole_run,
            stack: old.stack,
            cpu: old.cpu,
            cpu_busy_ns: old.cpu_busy_ns,
            ran: old.ran,
            active: old.active,
            pending: old.pending,
            woken: old.woken,
            queue: old.queue,
            returning: old.returning,
            priority: old.priority,
            marks,
            ..Thread::new(self.tid, self.pid, self.forked, now)
        };
    }
}
