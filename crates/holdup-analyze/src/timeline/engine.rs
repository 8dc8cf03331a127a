//! The state machine: takes one event after another and adds up.
//!
//! Time never runs backwards for a thread: an event that is older than the thread's last counts as simultaneous with
//! it. What a thread does between two events that do not fit together is unknown, never guessed: see
//! [`Engine::lose_track`].

use holdup_trace::{CODE_OF_JAVA, CallNumber, Capabilities, Event, Header, NO_CPU, Pid, StackId, Tid, What};
use rustc_hash::FxHashMap;

use super::Wake;
use super::calls::Calls;
use super::cpus::Cpus;
use super::doing::{Doing, Plain};
use super::ids::{BlockId, FoundId, GroupId, LockId, StackKey, Table, ThreadId, WaitSiteId};
use super::lock::{Block, Found, Group, Lock, ObjectCall, Place, WaitSite, Words};
use super::pairs::Pairs;
use super::tally::Tally;
use super::thread::{Pending, State, Thread};
use super::touch::Touch;
use super::{goroutines, interpreted};
use crate::Options;
use crate::names::{Names, SpaceId};

/// Events of different CPUs may be out of order by so much without a word.
const DISORDER_NS: u64 = 1_000_000;
/// Thirteen days: an event that is farther from the first is damaged. Sums of thousands of threads then still fit.
const LONGEST_NS: u64 = 1 << 50;
/// Where a thread left the CPU: not known, or it did not.
const NOWHERE: Place = Place { space: SpaceId(0), stack: None };

const CACHE: usize = 1024;
/// Samples whose registers are kept: hours of them, but for programs that are damaged or made for it.
const MOST_TOUCHES: usize = 1 << 19;

/// What was met that touches every figure.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Trouble {
    pub lost: u64,
    pub lost_places: u64,
    pub lost_from: u64,
    pub lost_to: u64,
    pub skews: u64,
    pub skew_ns: u64,
    pub contradictions: u64,
}

/// Everything that is known so far.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(super) capabilities: Capabilities,
    /// Threads were looked at from time to time: nothing tells who wakes whom, but a lock's word may tell who has it.
    pub(super) is_sampled: bool,
    /// The last calls about objects of the kernel that did not block, the newest first.
    pub(super) object_calls: Vec<ObjectCall>,
    pub(super) keep: bool,
    pub(super) from: u64,
    to: u64,
    opened: bool,
    pub(super) calls: Calls,
    default_pid: Option<Pid>,
    pub(super) first: Option<u64>,
    pub(super) now: u64,
    pub(super) events: u64,
    epoch: u32,
    pub(super) threads: Table<ThreadId, Thread>,
    pub(super) index: FxHashMap<Tid, ThreadId>,
    cache: Vec<(Tid, Option<ThreadId>)>,
    pub(super) programs: FxHashMap<Pid, String>,
    /// What each process executed last and when, as the kernel calls it then: in the first 15 bytes of the file's name.
    pub(super) executed: FxHashMap<Pid, (String, u64)>,
    pub(super) cpus: Cpus,
    pub(super) locks: Table<LockId, Lock>,
    pub(super) lock_index: FxHashMap<(SpaceId, u64), LockId>,
    pub(super) groups: Table<GroupId, Group>,
    pub(super) place_groups: FxHashMap<Place, GroupId>,
    pub(super) wait_sites: Table<WaitSiteId, WaitSite>,
    pub(super) wait_site_index: FxHashMap<(LockId, u32, Option<StackKey>), WaitSiteId>,
    pub(super) blocks: Table<BlockId, Block>,
    pub(super) block_index: FxHashMap<Block, BlockId>,
    /// What threads were found blocked in, each once: why, and the file.
    pub(super) found: Table<FoundId, Found>,
    pub(super) found_index: FxHashMap<Found, FoundId>,
    /// Locks whose waiters were moved to other addresses.
    pub(super) moved: Vec<LockId>,
    pub(super) pairs: Pairs,
    pub(super) silent_out: Option<(ThreadId, u64)>,
    pub(super) silent_in: Option<(ThreadId, u64)>,
    pub(super) interpreted: interpreted::Found,
    pub(super) goroutines: goroutines::Found,
    pub(super) samples: FxHashMap<(Place, ThreadId), u64>,
    /// Those of them that were taken while no other thread was running or runnable.
    pub(super) alone: FxHashMap<(Place, ThreadId), u64>,
    /// Those that were taken while another thread waited for a CPU that other programs had.
    pub(super) beside_displaced: FxHashMap<Place, u64>,
    /// Page faults, where they are sampled.
    pub(super) faults: FxHashMap<Place, u64>,
    pub(super) call_counts: Tally<CallNumber, u64>,
    pub(super) yields: Tally<Place, u64>,
    pub(super) wasted_wakes: u64,
    /// How many wakes that woke nobody each recorded one stands for.
    pub(super) zero_weight: u64,
    pub(super) trouble: Trouble,
    pub(super) wakes: Vec<Wake>,
    /// What marks say, each once: what the thread does, and where it left the CPU for it.
    pub(super) kinds: Vec<(Doing, Place)>,
    kind_index: FxHashMap<(Doing, Place), u32>,
    /// What registers pointed to at samples.
    pub(super) touches: Vec<Touch>,
    /// Every sample for the viewer: when, whose, where.
    pub(super) sampled: Vec<(u64, ThreadId, Place)>,
}

impl Engine {
    pub(crate) fn new(header: &Header, options: Options) -> Engine {
        let pids = &header.target.pids;
        Engine {
            capabilities: header.capabilities,
            is_sampled: header.is_sampled(),
            object_calls: Vec::new(),
            keep: options.timeline,
            from: options.from_ns.unwrap_or(0),
            to: options.to_ns.unwrap_or(u64::MAX),
            opened: options.from_ns.is_none(),
            calls: Calls::of(&header.machine.arch),
            default_pid: (pids.len() == 1).then(|| Pid(pids[0])),
            first: None,
            now: 0,
            events: 0,
            epoch: 1,
            threads: Table::default(),
            index: FxHashMap::default(),
            cache: vec![(Tid(0), None); CACHE],
            programs: FxHashMap::default(),
            executed: FxHashMap::default(),
            cpus: Cpus::new(header.machine.cpus),
            locks: Table::default(),
            lock_index: FxHashMap::default(),
            groups: Table::default(),
            place_groups: FxHashMap::default(),
            wait_sites: Table::default(),
            wait_site_index: FxHashMap::default(),
            blocks: Table::default(),
            block_index: FxHashMap::default(),
            found: Table::default(),
            found_index: FxHashMap::default(),
            moved: Vec::new(),
            pairs: Pairs::default(),
            silent_out: None,
            silent_in: None,
            interpreted: interpreted::Found::default(),
            goroutines: goroutines::Found::default(),
            samples: FxHashMap::default(),
            faults: FxHashMap::default(),
            alone: FxHashMap::default(),
            beside_displaced: FxHashMap::default(),
            call_counts: Tally::default(),
            yields: Tally::default(),
            wasted_wakes: 0,
            zero_weight: header.futex_zero_period.max(1).into(),
            trouble: Trouble::default(),
            wakes: Vec::new(),
            kinds: Vec::new(),
            kind_index: FxHashMap::default(),
            touches: Vec::new(),
            sampled: Vec::new(),
        }
    }

    /// Takes the next event. `names` knows the mappings up to it.
    pub(crate) fn feed(&mut self, event: &Event, names: &Names) {
        let Some(now) = self.clock(event.time_ns) else { return };
        match event.what {
            What::SwitchIn => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                self.switch_in(ti, now, event.cpu);
            }
            What::SwitchOut { off, stack } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                self.switch_out(ti, now, event.cpu, off, stack, names);
            }
            What::FutexWait { op, addr, stack, .. } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                let now = self.seen_running(ti, now, event.cpu);
                self.futex_wait(ti, op, addr, key(stack), names);
                self.touch(ti, now);
            }
            What::FutexReturn { op, addr, ret, stack } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                let now = self.seen_running(ti, now, event.cpu);
                self.futex_return(ti, now, op, addr, ret, key(stack), names);
                self.touch(ti, now);
            }
            What::Call { nr, stack } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                let now = self.seen_running(ti, now, event.cpu);
                self.call(ti, nr, key(stack), now, names);
                self.touch(ti, now);
            }
            What::Sample { stack } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                let now = self.seen_running(ti, now, event.cpu);
                let place = Place { space: self.space(ti, names), stack: Some(stack.into()) };
                let place = self.interpreted_place(ti, now, place);
                *self.samples.entry((place, ti)).or_default() += 1;
                if self.cpus.active() == 1 {
                    *self.alone.entry((place, ti)).or_default() += 1;
                }
                if self.cpus.are_taken() {
                    *self.beside_displaced.entry(place).or_default() += 1;
                }
                self.threads[ti].last = now;
                if self.keep {
                    self.sampled.push((now, ti, place));
                }
            }
            _ => self.feed_rare(event, now, names),
        }
        if let Some(cpu) = self.cpus.at(event.cpu) {
            cpu.last = cpu.last.max(now);
        }
    }

    fn feed_rare(&mut self, event: &Event, now: u64, names: &Names) {
        match &event.what {
            What::Lost { count } => self.lost(event.cpu, *count, now),
            What::Count { counter, value } => self.cpus.count(event.cpu, *counter, *value),
            What::LockWord { addr, word, owner } => self.lock_word(event.tid, now, *addr, [*word, *owner], names),
            What::LockFigures(figures) => {
                if let Some(lock) = self.known_lock(event.tid, figures.addr, names) {
                    self.locks[lock].figures = Some(**figures);
                }
            }
            What::Started { pid, parent } => self.started(event.tid, *pid, *parent, now),
            // Of a process, of whose threads the one with its number may not be recorded.
            What::Mapped(mapping) if !mapping.path.starts_with(CODE_OF_JAVA) => {
                self.epoch += 1;
                self.programs.entry(mapping.pid).or_insert_with(|| mapping.path.to_string());
            }
            What::Mapped(_) => {}
            What::Waking { target, stack } => {
                self.waking(event.tid, *target, key(*stack), now, event.cpu, names);
            }
            _ => self.feed_of_thread(event, now, names),
        }
    }

    fn feed_of_thread(&mut self, event: &Event, now: u64, names: &Names) {
        let Some(ti) = self.thread(event.tid, now) else { return };
        match &event.what {
            What::Exited => self.exited(ti, now),
            What::Blocked(found) => self.found_blocked(ti, now, found, names),
            What::Interpreted(found) => self.found_interpreted(ti, now, event.cpu, found, names),
            What::Tasks(found) => {
                let (pid, space) = (self.threads[ti].pid, self.space(ti, names));
                self.goroutines.found(pid, space, found);
            }
            What::Named { name, exec } => {
                let thread = &mut self.threads[ti];
                thread.name = name.to_string();
                if *exec {
                    let pid = thread.pid;
                    self.programs.remove(&pid);
                    self.executed.insert(pid, (name.to_string(), now));
                    self.epoch += 1;
                }
            }
            What::Pointers(found) if self.touches.len() < MOST_TOUCHES => {
                let space = self.space(ti, names);
                // Who has the machine to itself fights with nobody.
                if self.cpus.active() > 1 {
                    self.touches.push(Touch { time_ns: now, thread: ti, cpu: event.cpu, space, found: found.clone() });
                }
            }
            What::Usage(usage) => {
                let thread = &mut self.threads[ti];
                thread.priority = Some(usage.priority);
                let switches = thread.switches();
                let first = thread.usage.map_or(**usage, |(first, _)| first);
                if thread.usage.is_none() {
                    thread.usage_switches.0 = switches;
                    thread.usage_ns.0 = now;
                }
                thread.usage_switches.1 = switches;
                thread.usage_ns.1 = now;
                thread.usage = Some((first, **usage));
            }
            What::MinorFault { stack } => {
                let now = self.seen_running(ti, now, event.cpu);
                let place = Place { space: self.space(ti, names), stack: Some((*stack).into()) };
                *self.faults.entry(place).or_default() += 1;
                self.threads[ti].last = now;
            }
            What::MajorFault { stack, .. } => {
                let now = self.seen_running(ti, now, event.cpu);
                self.threads[ti].pending = Pending::Fault { stack: key(*stack) };
                self.threads[ti].last = now;
            }
            _ => {}
        }
    }

    /// Keeps to the window, and to time that runs forwards. `None` behind the window's end.
    fn clock(&mut self, time: u64) -> Option<u64> {
        if time >= self.to {
            return None;
        }
        if !self.opened && time >= self.from {
            self.opened = true;
            self.restart();
        }
        if self.first.is_none() {
            self.first = Some(time);
            self.now = time;
            self.cpus.start(time.max(self.from));
        }
        self.events += 1;
        let possible = self.possible(time);
        if time.saturating_add(DISORDER_NS) < self.now || possible != time {
            self.trouble.skews += 1;
            self.trouble.skew_ns = self.trouble.skew_ns.max(self.now.abs_diff(time));
        }
        self.now = self.now.max(possible);
        Some(possible)
    }

    /// The moment, or the nearest that can belong to this recording.
    fn possible(&self, time: u64) -> u64 {
        let first = self.first.unwrap_or(time);
        time.clamp(first.saturating_sub(LONGEST_NS), first.saturating_add(LONGEST_NS))
    }

    /// The window begins: sums begin anew, states go on.
    fn restart(&mut self) {
        let at = self.from;
        self.events = 0;
        self.threads.iter_mut().for_each(|thread| thread.restart(at));
        self.groups.iter_mut().for_each(|group| group.restart(at));
        for lock in &mut self.locks {
            lock.ended.clear();
            lock.waiting.iter_mut().for_each(|wait| wait.from = wait.from.max(at));
            (lock.wasted, lock.words) = (0, Words::default());
        }
        for wait_site in &mut self.wait_sites {
            (wait_site.waiters, wait_site.eagain) = (Tally::default(), 0);
        }
        self.cpus.restart(at);
        self.pairs = Pairs::default();
        self.interpreted.restart();
        self.goroutines = goroutines::Found::default();
        self.samples.clear();
        self.touches.clear();
        self.alone.clear();
        self.beside_displaced.clear();
        self.faults.clear();
        (self.call_counts, self.yields) = (Tally::default(), Tally::default());
        self.wasted_wakes = 0;
        self.trouble = Trouble::default();
        self.wakes.clear();
        self.sampled.clear();
    }

    // Threads.

    /// A thread, made known if it is not. `None` for what is no thread.
    pub(super) fn thread(&mut self, tid: Tid, now: u64) -> Option<ThreadId> {
        let slot = tid.0 as usize % CACHE;
        if let (known, Some(ti)) = self.cache[slot]
            && known == tid
        {
            return Some(ti);
        }
        if tid.0 == 0 {
            return None;
        }
        let known = self.index.get(&tid).copied();
        let ti = known.unwrap_or_else(|| {
            let pid = self.default_pid.unwrap_or(Pid(tid.0));
            self.add_thread(tid, pid, false, now)
        });
        self.cache[slot] = (tid, Some(ti));
        Some(ti)
    }

    pub(super) fn add_thread(&mut self, tid: Tid, pid: Pid, forked: bool, now: u64) -> ThreadId {
        let ti = self.threads.push(Thread::new(tid, pid, forked, now.max(self.from)));
        self.index.insert(tid, ti);
        self.cache[tid.0 as usize % CACHE] = (tid, Some(ti));
        self.mark(ti, now, Doing::Plain(if forked { Plain::Starting } else { Plain::Unknown }));
        ti
    }

    fn started(&mut self, tid: Tid, pid: Pid, parent: Option<Tid>, now: u64) {
        if tid.0 == 0 {
            return;
        }
        self.epoch += 1;
        let parent_pid = parent.and_then(|tid| self.index.get(&tid)).map(|ti| self.threads[*ti].pid);
        if let Some(program) = parent_pid.filter(|p| *p != pid).and_then(|p| self.programs.get(&p).cloned()) {
            self.programs.entry(pid).or_insert(program);
        }
        let known = self.index.get(&tid).copied();
        let alive = known.filter(|ti| !self.threads[*ti].exited);
        if let Some(ti) = alive {
            self.threads[ti].pid = pid;
            return;
        }
        let ti = self.add_thread(tid, pid, parent.is_some(), now);
        if let Some(parent) = parent.and_then(|tid| self.index.get(&tid)) {
            self.threads[ti].parent = Some(*parent);
            self.threads[ti].priority = self.threads[*parent].priority;
            // The kernel hands the name down; a new one comes as an event.
            self.threads[ti].name = self.threads[*parent].name.clone();
            self.set_active(ti, now, true);
        }
    }

    fn exited(&mut self, ti: ThreadId, now: u64) {
        let now = now.max(self.threads[ti].last);
        match self.threads[ti].state {
            State::Running => self.end_run(ti, now, false),
            State::Off(doing) => self.end_off(ti, doing, now, false),
            State::New | State::Unknown => self.end_unknown(ti, now),
            State::Ended => return,
        }
        self.leave_pending(ti);
        self.keep_of_ended(ti, now);
        self.set_active(ti, now, false);
        let thread = &mut self.threads[ti];
        (thread.state, thread.since, thread.last, thread.exited) = (State::Ended, now, now, true);
    }

    pub(super) fn space(&mut self, ti: ThreadId, names: &Names) -> SpaceId {
        let epoch = self.epoch;
        let thread = &mut self.threads[ti];
        if thread.epoch != epoch {
            thread.epoch = epoch;
            thread.space = names.space(thread.tid);
        }
        thread.space
    }

    fn touch(&mut self, ti: ThreadId, now: u64) {
        let thread = &mut self.threads[ti];
        thread.last = now;
        thread.preempted_at = None;
    }

    pub(super) fn set_active(&mut self, ti: ThreadId, now: u64, active: bool) {
        let thread = &mut self.threads[ti];
        if thread.active != active {
            thread.active = active;
            self.cpus.activate(now, active);
        }
    }

    pub(super) fn mark(&mut self, ti: ThreadId, from: u64, doing: Doing) {
        self.mark_at(ti, from, doing, NOWHERE);
    }

    pub(super) fn mark_at(&mut self, ti: ThreadId, from: u64, doing: Doing, place: Place) {
        if self.keep {
            let kind = self.kind(doing, place);
            self.threads[ti].marks.push(from, kind);
        }
    }

    pub(super) fn kind(&mut self, doing: Doing, place: Place) -> u32 {
        let next = self.kinds.len() as u32;
        let kind = *self.kind_index.entry((doing, place)).or_insert(next);
        if kind == next {
            self.kinds.push((doing, place));
        }
        kind
    }

    /// What the last mark of a thread says it does is something else.
    pub(super) fn remark(&mut self, ti: ThreadId, one: Doing, other: Doing) {
        let Some(last) = self.threads[ti].marks.last() else { return };
        let (doing, place) = self.kinds[last as usize];
        if doing == one {
            let kind = self.kind(other, place);
            self.threads[ti].marks.replace_last(kind);
        }
    }

    fn lost(&mut self, cpu: u16, count: u64, now: u64) {
        let trouble = &mut self.trouble;
        trouble.lost = trouble.lost.saturating_add(count);
        trouble.lost_places += 1;
        let since = self.cpus.at(cpu).map_or(0, |cpu| {
            cpu.facts.lost = cpu.facts.lost.saturating_add(count);
            cpu.last
        });
        if trouble.lost_from == 0 {
            trouble.lost_from = if since == 0 { now } else { since };
        }
        trouble.lost_to = trouble.lost_to.max(now);
        for ti in self.threads.ids() {
            let here = cpu == NO_CPU || self.threads[ti].cpu == cpu;
            if here && self.threads[ti].state != State::Ended {
                self.forget(ti, since.max(self.threads[ti].last));
            }
        }
    }

    /// Length of what was looked at.
    pub(super) fn span_ns(&self) -> u64 {
        self.now.saturating_sub(self.from.max(self.first.unwrap_or(0)))
    }

    /// The recording is over: lets everything end that is under way. Returns the last moment.
    pub(crate) fn close(&mut self, ended: Option<u64>) -> u64 {
        let end = ended.map_or(0, |ended| self.possible(ended)).max(self.now).min(self.to).max(self.from);
        self.now = end;
        self.cpus.advance(end);
        for lock in self.locks.ids() {
            self.keep(lock, end);
        }
        for ti in self.threads.ids() {
            self.close_thread(ti, end);
            self.spread_found(ti);
        }
        for lock in self.locks.ids() {
            while let Some(wait) = self.locks[lock].ended.pop_front() {
                if wait.waker.is_none() {
                    self.settle(lock, wait);
                }
            }
        }
        end
    }

    fn close_thread(&mut self, ti: ThreadId, end: u64) {
        let end = end.max(self.threads[ti].since);
        match self.threads[ti].state {
            State::Running => {
                self.threads[ti].whole_run = false;
                self.end_run(ti, end, false);
            }
            State::Off(doing) => self.end_off(ti, doing, end, true),
            State::New | State::Unknown => self.end_unknown(ti, end),
            State::Ended => return,
        }
        let thread = &mut self.threads[ti];
        (thread.since, thread.last) = (end, end);
    }
}

pub(super) fn key(stack: Option<StackId>) -> Option<StackKey> {
    stack.map(StackKey::from)
}
