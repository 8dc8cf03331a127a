//! Futexes: who waits where, who may have woken whom, and the sums of each.

use std::cmp::Ordering;
use std::collections::VecDeque;

use holdup_trace::{Blocked, FutexOp, LockFigures};

use super::doing::{Doing, Waker};
use super::ids::{FoundId, GroupId, LockId, StackKey, ThreadId, unknown_last};
use super::tally::Tally;
use crate::Histogram;
use crate::facts::{Herds, OffTime, Reason};
use crate::names::SpaceId;

/// A stack in an address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub space: SpaceId,
    pub stack: Option<StackKey>,
}

impl Ord for Place {
    fn cmp(&self, other: &Place) -> Ordering {
        let order = |place: &Place| (place.space, unknown_last(place.stack));
        order(self).cmp(&order(other))
    }
}

impl PartialOrd for Place {
    fn partial_cmp(&self, other: &Place) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a thread blocks in, if no call that is recorded by name tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Block {
    pub place: Place,
    /// Signals cannot interrupt it.
    pub deep: bool,
    /// What a look from outside found, if there was one.
    pub found: Option<FoundId>,
}

/// What a look found a thread blocked in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Found {
    pub reason: Reason,
    /// What the call's descriptor stands for.
    pub file: Option<Box<str>>,
    /// A pipe that the program made itself: what is at its other end is of the program too.
    pub own_pipe: bool,
}

/// The first descriptor that nobody hands to a program when it starts.
const FIRST_OWN_DESCRIPTOR: u64 = 3;

impl Found {
    pub(super) fn new(reason: Reason, found: &Blocked) -> Found {
        let is_pipe = found.file.as_deref().is_some_and(|file| file.starts_with("pipe:"));
        let own_pipe = is_pipe && reason == Reason::Peer && found.addr >= FIRST_OWN_DESCRIPTOR;
        Found { reason, file: found.file.clone(), own_pipe }
    }
}

/// A call about a lock of a file or a semaphore of the kernel, which may let others go on.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectCall {
    /// The address that stands for it.
    pub object: u64,
    pub thread: ThreadId,
    pub at: u64,
    pub place: Place,
}

/// Which threads ever waited at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waiters {
    None,
    One(ThreadId),
    Several,
}

impl Waiters {
    pub(super) fn only(self) -> Option<ThreadId> {
        match self {
            Waiters::One(thread) => Some(thread),
            Waiters::None | Waiters::Several => None,
        }
    }
}

/// One address that threads wait on: the queue and the calls that woke lately.
#[derive(Debug)]
pub(super) struct Lock {
    /// The space of the first thread that used it.
    pub space: SpaceId,
    pub addr: u64,
    /// That thread, for its process.
    pub thread: ThreadId,
    /// One group per operation that waits.
    pub groups: Vec<(u32, GroupId)>,
    pub waiting: VecDeque<Wait>,
    /// Waits that ended, oldest first, until it is certain who ended them.
    pub ended: VecDeque<Wait>,
    /// The last call that wakes, and the one before it.
    pub released: u64,
    pub waiters: Waiters,
    /// The last call moved those who waited to another address.
    pub moved: bool,
    pub wasted: u64,
    pub words: Words,
    /// The thread that its word named as its owner when it was looked at last, and when that was.
    pub owner: Option<(ThreadId, u64)>,
    /// Who has it as the recording ends, while others wait for it.
    pub kept: Option<Kept>,
    /// What threads were found doing that had it while others waited, and where they had left the CPU for it.
    pub held: Tally<Doing, u64>,
    pub held_at: Tally<Place, u64>,
    pub figures: Option<LockFigures>,
    /// Where nobody is seen to wake anybody: calls that ended several waits, and how many.
    pub together: (u64, u64),
}

/// What looks at the word of a lock found while threads waited.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    pub looks: u64,
    /// It was not 0.
    pub held: u64,
    /// It said that it is held and that others wait.
    pub contended: u64,
    /// It was neither 0, 1 nor that: a count, say.
    pub counts: u64,
}

impl Lock {
    pub(super) fn new(space: SpaceId, addr: u64, thread: ThreadId) -> Lock {
        Lock {
            space,
            addr,
            thread,
            groups: Vec::new(),
            waiting: VecDeque::new(),
            ended: VecDeque::new(),
            released: 0,
            waiters: Waiters::None,
            moved: false,
            wasted: 0,
            words: Words::default(),
            owner: None,
            kept: None,
            held: Tally::default(),
            held_at: Tally::default(),
            figures: None,
            together: (0, 0),
        }
    }
}

/// A lock that is not released before the recording ends.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub holder: ThreadId,
    /// Whether its holder had ended by then.
    pub has_ended: bool,
    /// Those who wait for it then, and since when.
    pub waiters: Vec<(ThreadId, u64)>,
}

/// A wait that slept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    pub thread: ThreadId,
    pub group: GroupId,
    /// The group of the place, for primitives whose futex is not the lock.
    pub place_group: Option<GroupId>,
    pub from: u64,
    /// 0 while it lasts.
    pub to: u64,
    /// Who ended it, and when.
    pub waker: Option<(Waker, u64)>,
    /// A recorded wake call has answered for it.
    pub claimed: bool,
    /// When the lock was released before the release that ended the wait.
    pub released_before: u64,
    /// The kernel said that nobody woke it: timeout or signal.
    pub unwoken: bool,
}

impl Wait {
    pub(super) fn groups(&self) -> impl Iterator<Item = GroupId> + use<> {
        [Some(self.group), self.place_group].into_iter().flatten()
    }
}

/// One way to wait at one address from one place.
#[derive(Debug)]
pub(super) struct WaitSite {
    pub lock: LockId,
    pub op: FutexOp,
    pub place: Place,
    pub group: GroupId,
    /// The group of the place, while it may be a primitive whose futex is not the lock.
    pub place_group: Option<GroupId>,
    pub waiters: Tally<ThreadId, OffTime>,
    pub eagain: u64,
}

/// Sums of one lock: of an address and operation, or of a place.
#[derive(Debug)]
pub(super) struct Group {
    pub lock: LockId,
    pub op: u32,
    pub by_place: bool,
    pub wait_ns: Histogram,
    pub timeouts: u64,
    pub wakes: u64,
    pub eagain: u64,
    pub waiting: u32,
    pub max_waiters: u32,
    pub contended_since: u64,
    pub contended_ns: u64,
    pub last_end: Option<u64>,
    pub handover_ns: Histogram,
    pub run_before_ns: Histogram,
    pub holders: Tally<Waker, OffTime>,
    /// Where nobody is seen to wake anybody: who had the lock since when, oldest first.
    pub takers: VecDeque<(ThreadId, u64)>,
    pub running_ns: u64,
    pub unknown_ns: u64,
    pub off: Tally<Doing, u64>,
    pub off_sites: Tally<Place, OffTime>,
    pub wake_sites: Tally<Place, u64>,
    pub herds: Herds,
    pub inversions: OffTime,
    pub longest: Vec<(ThreadId, u64, u64)>,
}

/// How many of the longest waits are kept.
pub(super) const LONGEST: usize = 8;

impl Group {
    pub(super) fn new(lock: LockId, op: u32, by_place: bool) -> Group {
        Group {
            lock,
            op,
            by_place,
            wait_ns: Histogram::default(),
            timeouts: 0,
            wakes: 0,
            eagain: 0,
            waiting: 0,
            max_waiters: 0,
            contended_since: 0,
            contended_ns: 0,
            last_end: None,
            handover_ns: Histogram::default(),
            run_before_ns: Histogram::default(),
            holders: Tally::default(),
            takers: VecDeque::new(),
            running_ns: 0,
            unknown_ns: 0,
            off: Tally::default(),
            off_sites: Tally::default(),
            wake_sites: Tally::default(),
            herds: Herds::default(),
            inversions: OffTime::default(),
            longest: Vec::new(),
        }
    }

    /// Somebody begins to wait.
    pub(super) fn begin(&mut self, now: u64, run_before: Option<u64>) {
        if self.waiting == 0 {
            self.contended_since = now;
            self.last_end = None;
        }
        self.waiting += 1;
        self.max_waiters = self.max_waiters.max(self.waiting);
        if let Some(run) = run_before {
            self.run_before_ns.add(run);
        }
    }

    /// Where nobody is seen to wake anybody: a thread has it from now on.
    pub(super) fn taken(&mut self, thread: ThreadId, now: u64) {
        const REMEMBERED: usize = 64;
        if self.takers.back().is_some_and(|(last, _)| *last == thread) {
            return;
        }
        if self.takers.len() == REMEMBERED {
            self.takers.pop_front();
        }
        self.takers.push_back((thread, now));
    }

    /// A thread waits again: if so soon, it was woken in vain.
    pub(super) fn not_taken(&mut self, thread: ThreadId, now: u64) {
        const IN_VAIN_NS: u64 = 20_000;
        self.takers.pop_back_if(|(taker, took)| *taker == thread && now.saturating_sub(*took) < IN_VAIN_NS);
    }

    /// Somebody no longer waits; `known` is false if it is not known since when.
    pub(super) fn end(&mut self, thread: ThreadId, from: u64, now: u64, known: bool) {
        self.waiting = self.waiting.saturating_sub(1);
        if self.waiting == 0 {
            self.contended_ns += now.saturating_sub(self.contended_since);
        }
        if !known {
            self.last_end = None;
            return;
        }
        if let Some(last) = self.last_end {
            self.handover_ns.add(now.saturating_sub(last));
        }
        self.last_end = (self.waiting > 0).then_some(now);
        self.wait_ns.add(now.saturating_sub(from));
        keep_longest(&mut self.longest, (thread, from, now));
    }

    /// Forgets all sums, and lets what is under way begin now.
    pub(super) fn restart(&mut self, now: u64) {
        let waiting = self.waiting;
        *self = Group::new(self.lock, self.op, self.by_place);
        self.waiting = waiting;
        self.max_waiters = waiting;
        self.contended_since = now;
    }
}

/// Inserts a wait in a short list, longest first.
pub(super) fn keep_longest(list: &mut Vec<(ThreadId, u64, u64)>, wait: (ThreadId, u64, u64)) {
    let length = |wait: &(ThreadId, u64, u64)| wait.2.saturating_sub(wait.1);
    if list.len() == LONGEST && list.last().is_some_and(|last| length(last) >= length(&wait)) {
        return;
    }
    let at = list.partition_point(|known| length(known) >= length(&wait));
    list.insert(at, wait);
    list.truncate(LONGEST);
}
