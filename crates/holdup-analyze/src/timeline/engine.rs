//! The state machine: takes one event after another and adds up.
//!
//! Time never runs backwards for a thread: an event that is older than the thread's last counts as simultaneous with
//! it. What a thread does between two events that do not fit together is unknown, never guessed: see
//! [`Engine::lose_track`].

use holdup_trace::{
    Blocked, CallNumber, Capabilities, Event, FutexOp, Header, NO_CPU, OffCpu, Pid, StackId, Tid, What,
};
use rustc_hash::FxHashMap;

use super::Wake;
use super::calls::{CallKind, Calls};
use super::cpus::Cpus;
use super::doing::{Doing, NONE, OUTSIDE, Plain, TIMEOUT};
use super::lock::{Block, Group, Lock, Place, Wait, WaitSite};
use super::pairs::{HandOver, Pairs};
use super::tally::Tally;
use super::thread::{Past, Pending, State, Thread};
use crate::Options;
use crate::facts::Reason;
use crate::names::{Names, SpaceId};

/// A woken thread may be seen to run before the call that woke it is seen to return, by so much.
const LATE_NS: u64 = 300_000;
/// A caller that was preempted within the call returns whenever it runs again; after this nobody asks any more.
const FORGET_NS: u64 = 200_000_000;
/// Waits of one lock that may be open to the question who ended them.
const MOST_ENDED: usize = 64;
/// Two threads hand over without a recorded wake if one leaves the CPU and the other gets one within this time.
const IN_TURN_NS: u64 = 100_000;
/// A woken thread that no other program is in the way of runs within this time.
const LONG_DELAY_NS: u64 = 300_000;
/// A woken thread that takes the waker's CPU does so within this time.
const DISPLACE_NS: u64 = 50_000;
/// A thread that was woken with others and waits again after running no longer than this was woken for nothing.
const HERD_RUN_NS: u64 = 50_000;
/// Events of different CPUs may be out of order by so much without a word.
const DISORDER_NS: u64 = 1_000_000;
/// Thirteen days: an event that is farther from the first is damaged. Sums of thousands of threads then still fit.
const LONGEST_NS: u64 = 1 << 50;
/// Where a thread left the CPU: not known, or it did not.
const NOWHERE: Place = Place { space: SpaceId(0), stack: NONE };

/// The space of futexes that several processes may share.
const SHARED: SpaceId = SpaceId(u32::MAX);

const CACHE: usize = 1024;

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
    pub(super) keep: bool,
    pub(super) from: u64,
    to: u64,
    opened: bool,
    calls: Calls,
    default_pid: Option<Pid>,
    pub(super) first: Option<u64>,
    pub(super) now: u64,
    pub(super) events: u64,
    epoch: u32,
    pub(super) threads: Vec<Thread>,
    index: FxHashMap<Tid, u32>,
    cache: Vec<(Tid, u32)>,
    pub(super) programs: FxHashMap<Pid, String>,
    /// What each process executed last, as the kernel calls it then: in the first 15 bytes of the file's name.
    pub(super) executed: FxHashMap<Pid, String>,
    pub(super) cpus: Cpus,
    pub(super) locks: Vec<Lock>,
    lock_index: FxHashMap<(SpaceId, u64), u32>,
    pub(super) groups: Vec<Group>,
    place_groups: FxHashMap<Place, u32>,
    pub(super) wait_sites: Vec<WaitSite>,
    wait_site_index: FxHashMap<(u32, u32, u32), u32>,
    pub(super) blocks: Vec<Block>,
    block_index: FxHashMap<Block, u32>,
    /// What threads were found blocked in, each once: why, and the file.
    pub(super) found: Vec<(Reason, Option<Box<str>>)>,
    found_index: FxHashMap<(Reason, Option<Box<str>>), u32>,
    /// Locks whose waiters were moved to other addresses.
    moved: Vec<u32>,
    pub(super) pairs: Pairs,
    silent_out: Option<(u32, u64)>,
    silent_in: Option<(u32, u64)>,
    pub(super) samples: FxHashMap<(Place, u32), u64>,
    pub(super) call_counts: Tally<CallNumber, u64>,
    pub(super) yields: Tally<Place, u64>,
    pub(super) wasted_wakes: u64,
    /// How many wakes that woke nobody each recorded one stands for.
    zero_weight: u64,
    pub(super) trouble: Trouble,
    pub(super) wakes: Vec<Wake>,
    /// What marks say, each once: what the thread does, and where it left the CPU for it.
    pub(super) kinds: Vec<(Doing, Place)>,
    kind_index: FxHashMap<(Doing, Place), u32>,
    /// Every sample for the viewer: when, whose, where.
    pub(super) sampled: Vec<(u64, u32, Place)>,
}

impl Engine {
    pub(crate) fn new(header: &Header, options: Options) -> Engine {
        let pids = &header.target.pids;
        Engine {
            capabilities: header.capabilities,
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
            threads: Vec::new(),
            index: FxHashMap::default(),
            cache: vec![(Tid(0), NONE); CACHE],
            programs: FxHashMap::default(),
            executed: FxHashMap::default(),
            cpus: Cpus::new(header.machine.cpus),
            locks: Vec::new(),
            lock_index: FxHashMap::default(),
            groups: Vec::new(),
            place_groups: FxHashMap::default(),
            wait_sites: Vec::new(),
            wait_site_index: FxHashMap::default(),
            blocks: Vec::new(),
            block_index: FxHashMap::default(),
            found: Vec::new(),
            found_index: FxHashMap::default(),
            moved: Vec::new(),
            pairs: Pairs::default(),
            silent_out: None,
            silent_in: None,
            samples: FxHashMap::default(),
            call_counts: Tally::default(),
            yields: Tally::default(),
            wasted_wakes: 0,
            zero_weight: header.futex_zero_period.max(1).into(),
            trouble: Trouble::default(),
            wakes: Vec::new(),
            kinds: Vec::new(),
            kind_index: FxHashMap::default(),
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
                self.futex_wait(ti, op, addr, number(stack), names);
                self.touch(ti, now);
            }
            What::FutexReturn { op, addr, ret, stack } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                let now = self.seen_running(ti, now, event.cpu);
                self.futex_return(ti, now, op, addr, ret, number(stack), names);
                self.touch(ti, now);
            }
            What::Call { nr, stack } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                let now = self.seen_running(ti, now, event.cpu);
                self.call(ti, nr, number(stack), names);
                self.touch(ti, now);
            }
            What::Sample { stack } => {
                let Some(ti) = self.thread(event.tid, now) else { return };
                let now = self.seen_running(ti, now, event.cpu);
                let place = Place { space: self.space(ti, names), stack: stack.0 };
                *self.samples.entry((place, ti)).or_default() += 1;
                self.threads[ti as usize].last = now;
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
            What::LockWord { addr, word, .. } => self.lock_word(event.tid, *addr, *word, names),
            What::LockFigures(figures) => {
                if let Some(lock) = self.known_lock(event.tid, figures.addr, names) {
                    self.locks[lock as usize].figures = Some(**figures);
                }
            }
            What::Started { pid, parent } => self.started(event.tid, *pid, *parent, now),
            What::Waking { target, stack } => {
                self.waking(event.tid, *target, number(*stack), now, event.cpu, names);
            }
            _ => self.feed_of_thread(event, now, names),
        }
    }

    fn feed_of_thread(&mut self, event: &Event, now: u64, names: &Names) {
        let Some(ti) = self.thread(event.tid, now) else { return };
        match &event.what {
            What::Exited => self.exited(ti, now),
            What::Blocked(found) => self.found_blocked(ti, now, found, names),
            What::Named { name, exec } => {
                let thread = &mut self.threads[ti as usize];
                thread.name = name.to_string();
                if *exec {
                    let pid = thread.pid;
                    self.programs.remove(&pid);
                    self.executed.insert(pid, name.to_string());
                    self.epoch += 1;
                }
            }
            What::Mapped(mapping) => {
                self.epoch += 1;
                self.programs.entry(mapping.pid).or_insert_with(|| mapping.path.to_string());
            }
            What::Usage(usage) => {
                let thread = &mut self.threads[ti as usize];
                thread.priority = Some(usage.priority);
                let switches = thread.switches();
                let first = thread.usage.map_or(**usage, |(first, _)| first);
                if thread.usage.is_none() {
                    thread.usage_switches.0 = switches;
                }
                thread.usage_switches.1 = switches;
                thread.usage = Some((first, **usage));
            }
            What::MajorFault { stack, .. } => {
                let now = self.seen_running(ti, now, event.cpu);
                self.threads[ti as usize].pending = Pending::Fault { stack: number(*stack) };
                self.threads[ti as usize].last = now;
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
            (lock.wasted, lock.words) = (0, (0, 0, 0));
        }
        for wait_site in &mut self.wait_sites {
            (wait_site.waiters, wait_site.eagain) = (Tally::default(), 0);
        }
        self.cpus.restart(at);
        self.pairs = Pairs::default();
        self.samples.clear();
        (self.call_counts, self.yields) = (Tally::default(), Tally::default());
        self.wasted_wakes = 0;
        self.trouble = Trouble::default();
        self.wakes.clear();
        self.sampled.clear();
    }

    // Threads.

    /// The index of a thread, made known if it is not. `None` for what is no thread.
    fn thread(&mut self, tid: Tid, now: u64) -> Option<u32> {
        let slot = tid.0 as usize % CACHE;
        if self.cache[slot].0 == tid && self.cache[slot].1 != NONE {
            return Some(self.cache[slot].1);
        }
        if tid.0 == 0 {
            return None;
        }
        let known = self.index.get(&tid).copied();
        let ti = known.unwrap_or_else(|| {
            let pid = self.default_pid.unwrap_or(Pid(tid.0));
            self.add_thread(tid, pid, false, now)
        });
        self.cache[slot] = (tid, ti);
        Some(ti)
    }

    fn add_thread(&mut self, tid: Tid, pid: Pid, forked: bool, now: u64) -> u32 {
        let ti = self.threads.len() as u32;
        self.threads.push(Thread::new(tid, pid, forked, now.max(self.from)));
        self.index.insert(tid, ti);
        self.cache[tid.0 as usize % CACHE] = (tid, ti);
        self.mark(ti, now, Doing::Plain(if forked { Plain::Starting } else { Plain::Unknown }));
        ti
    }

    fn started(&mut self, tid: Tid, pid: Pid, parent: Option<Tid>, now: u64) {
        if tid.0 == 0 {
            return;
        }
        self.epoch += 1;
        let parent_pid = parent.and_then(|tid| self.index.get(&tid)).map(|ti| self.threads[*ti as usize].pid);
        if let Some(program) = parent_pid.filter(|p| *p != pid).and_then(|p| self.programs.get(&p).cloned()) {
            self.programs.entry(pid).or_insert(program);
        }
        let known = self.index.get(&tid).copied();
        let alive = known.filter(|ti| !self.threads[*ti as usize].exited);
        if let Some(ti) = alive {
            self.threads[ti as usize].pid = pid;
            return;
        }
        let ti = self.add_thread(tid, pid, parent.is_some(), now);
        if let Some(parent) = parent.and_then(|tid| self.index.get(&tid)) {
            self.threads[ti as usize].parent = Some(*parent);
            self.threads[ti as usize].priority = self.threads[*parent as usize].priority;
            // The kernel hands the name down; a new one comes as an event.
            self.threads[ti as usize].name = self.threads[*parent as usize].name.clone();
            self.set_active(ti, now, true);
        }
    }

    fn exited(&mut self, ti: u32, now: u64) {
        let now = now.max(self.threads[ti as usize].last);
        match self.threads[ti as usize].state {
            State::Running => self.end_run(ti, now, false),
            State::Off(doing) => self.end_off(ti, doing, now, false),
            State::New | State::Unknown => self.end_unknown(ti, now),
            State::Ended => return,
        }
        self.leave_pending(ti);
        self.set_active(ti, now, false);
        let thread = &mut self.threads[ti as usize];
        (thread.state, thread.since, thread.last, thread.exited) = (State::Ended, now, now, true);
    }

    fn space(&mut self, ti: u32, names: &Names) -> SpaceId {
        let epoch = self.epoch;
        let thread = &mut self.threads[ti as usize];
        if thread.epoch != epoch {
            thread.epoch = epoch;
            thread.space = names.space(thread.tid);
        }
        thread.space
    }

    fn touch(&mut self, ti: u32, now: u64) {
        let thread = &mut self.threads[ti as usize];
        thread.last = now;
        thread.preempted_at = None;
    }

    fn set_active(&mut self, ti: u32, now: u64, active: bool) {
        let thread = &mut self.threads[ti as usize];
        if thread.active != active {
            thread.active = active;
            self.cpus.activate(now, active);
        }
    }

    fn mark(&mut self, ti: u32, from: u64, doing: Doing) {
        self.mark_at(ti, from, doing, NOWHERE);
    }

    fn mark_at(&mut self, ti: u32, from: u64, doing: Doing, place: Place) {
        if self.keep {
            let kind = self.kind(doing, place);
            self.threads[ti as usize].marks.push(from, kind);
        }
    }

    fn kind(&mut self, doing: Doing, place: Place) -> u32 {
        let next = self.kinds.len() as u32;
        let kind = *self.kind_index.entry((doing, place)).or_insert(next);
        if kind == next {
            self.kinds.push((doing, place));
        }
        kind
    }

    /// What the last mark of a thread says it does is something else.
    fn remark(&mut self, ti: u32, one: Doing, other: Doing) {
        let Some(last) = self.threads[ti as usize].marks.last() else { return };
        let (doing, place) = self.kinds[last as usize];
        if doing == one {
            let kind = self.kind(other, place);
            self.threads[ti as usize].marks.replace_last(kind);
        }
    }

    // Switches.

    fn switch_in(&mut self, ti: u32, now: u64, cpu: u16) {
        let thread = &self.threads[ti as usize];
        let now = now.max(thread.last);
        match thread.state {
            State::Off(doing) => {
                let doing = self.whose_turn(ti, doing, now);
                self.run_delay(ti, doing, now);
                self.end_off(ti, doing, now, true);
                self.in_turn(ti, doing, now);
                self.given_back(ti, doing, now);
            }
            State::Running => self.lose_track(ti, now),
            State::New | State::Unknown => self.end_unknown(ti, now),
            // A number that is used again, whose start was not seen.
            State::Ended => {
                let (tid, pid) = (thread.tid, thread.pid);
                let ti = self.add_thread(tid, pid, false, now);
                return self.begin_run(ti, now, cpu, true);
            }
        }
        self.begin_run(ti, now, cpu, true);
    }

    /// A thread that was preempted gets a CPU now. The target's own threads kept it off its CPU, or other programs did:
    /// whoever had the CPU for most of the time.
    fn whose_turn(&mut self, ti: u32, doing: Doing, now: u64) -> Doing {
        if doing != Doing::Plain(Plain::Preempted) {
            return doing;
        }
        let thread = &mut self.threads[ti as usize];
        let length = now.saturating_sub(thread.since);
        let busy = self.cpus.at(thread.cpu).map_or(length, |cpu| cpu.busy_ns(now).saturating_sub(thread.cpu_busy_ns));
        if busy.saturating_mul(2) >= length {
            return doing;
        }
        let displaced = Doing::Plain(Plain::Displaced);
        self.remark(ti, doing, displaced);
        displaced
    }

    fn begin_run(&mut self, ti: u32, now: u64, cpu: u16, whole: bool) {
        self.set_active(ti, now, true);
        if let Some(cpu) = self.cpus.at(cpu) {
            cpu.begin_run(now);
        }
        self.mark(ti, now, Doing::Running(cpu));
        let thread = &mut self.threads[ti as usize];
        thread.migrations += u64::from(thread.ran && thread.cpu != cpu);
        thread.ran = true;
        (thread.state, thread.since, thread.last) = (State::Running, now, now);
        (thread.cpu, thread.whole_run, thread.woken) = (cpu, whole, None);
    }

    fn run_delay(&mut self, ti: u32, doing: Doing, now: u64) {
        let thread = &mut self.threads[ti as usize];
        let ready_since = match doing {
            Doing::Plain(Plain::Preempted | Plain::Displaced | Plain::Yielded) => Some(thread.since),
            _ => thread.woken.map(|(_, at)| at),
        };
        if let Some(since) = ready_since {
            thread.run_delay_ns.add(now.saturating_sub(since));
        }
    }

    /// The thread does something that only a running thread does. Returns the time to use.
    fn seen_running(&mut self, ti: u32, now: u64, cpu: u16) -> u64 {
        let thread = &self.threads[ti as usize];
        let now = now.max(thread.last);
        match thread.state {
            State::Running => {}
            // It was running already when the recording began, or nothing was lost and its first switch was not
            // recorded.
            State::New if !thread.forked => {
                let born = thread.born;
                self.begin_run(ti, born, cpu, false);
            }
            State::New | State::Unknown => {
                self.end_unknown(ti, now);
                self.begin_run(ti, now, cpu, false);
            }
            State::Off(_) => {
                self.lose_track(ti, now);
                self.begin_run(ti, now, cpu, false);
            }
            // The last things that a thread does on its way out are recorded after its end.
            State::Ended => return thread.last,
        }
        now
    }

    fn switch_out(&mut self, ti: u32, now: u64, cpu: u16, off: OffCpu, stack: Option<StackId>, names: &Names) {
        if self.threads[ti as usize].state == State::Ended {
            return;
        }
        let now = self.seen_running(ti, now, cpu);
        let (doing, at) = self.why_off(ti, off, stack, names);
        let futex = matches!(doing, Doing::Futex(_));
        let run = self.stay(ti, now);
        self.end_run(ti, now, futex);
        let busy = self.cpus.at(cpu).map_or(0, |cpu| {
            cpu.facts.switches += 1;
            cpu.busy_ns(now)
        });
        let runnable = off == OffCpu::Runnable;
        self.set_active(ti, now, runnable);
        if self.keep {
            let space = self.space(ti, names);
            self.mark_at(ti, now, doing, Place { space, stack: at });
        }
        let thread = &mut self.threads[ti as usize];
        match runnable {
            true => thread.involuntary += 1,
            false => thread.voluntary += 1,
        }
        thread.preempted_at = runnable.then_some(now);
        thread.cpu_busy_ns = busy;
        (thread.state, thread.since, thread.last) = (State::Off(doing), now, now);
        (thread.stack, thread.woken) = (at, None);
        match doing {
            Doing::Futex(wait_site) => self.begin_wait(ti, wait_site, now, run),
            Doing::Block(_) | Doing::Plain(Plain::OtherCall) => self.block_in_turn(ti, now, names),
            _ => {}
        }
        if !runnable {
            self.herd_again(ti, futex, run);
        }
    }

    /// Length of the stay on the CPU that ends, if its beginning was seen.
    fn stay(&self, ti: u32, now: u64) -> Option<u64> {
        let thread = &self.threads[ti as usize];
        thread.whole_run.then(|| now.saturating_sub(thread.since))
    }

    fn end_run(&mut self, ti: u32, now: u64, futex: bool) {
        let run = self.stay(ti, now);
        let thread = &mut self.threads[ti as usize];
        let length = now.saturating_sub(thread.since);
        thread.on_cpu_ns += length;
        if let Some(run) = run {
            thread.run_ns.add(run);
        }
        thread.last_run = (thread.since, now, futex);
        let (from, cpu) = (thread.since, thread.cpu);
        thread.remember(Past { from, to: now, doing: Doing::Running(cpu), stack: NONE });
        if let Some(cpu) = self.cpus.at(cpu) {
            cpu.facts.busy_ns += length;
            cpu.end_run(now);
        }
    }

    /// Why a thread leaves the CPU, and where it was.
    fn why_off(&mut self, ti: u32, off: OffCpu, stack: Option<StackId>, names: &Names) -> (Doing, u32) {
        let pending = self.threads[ti as usize].pending;
        let (plain, at) = match (off, pending) {
            (OffCpu::Runnable, Pending::Call { kind: CallKind::Yield, stack }) => (Plain::Yielded, stack),
            (OffCpu::Runnable, _) => return (Doing::Plain(Plain::Preempted), number(stack)),
            (OffCpu::Gone, _) => (Plain::Unknown, number(stack)),
            (OffCpu::Blocked | OffCpu::Sleeping, Pending::Futex { wait_site, stack, .. }) => {
                return (Doing::Futex(wait_site), stack);
            }
            (OffCpu::Uninterruptible, Pending::Futex { .. }) => {
                return (Doing::Plain(Plain::Io), number(stack));
            }
            (_, Pending::Fault { stack }) => (Plain::PageFault, stack),
            (_, Pending::Call { kind, stack }) if !matches!(kind, CallKind::Yield | CallKind::Other) => {
                (Plain::of(kind), stack)
            }
            (off, _) => {
                self.threads[ti as usize].pending = Pending::None;
                return self.unnamed_block(ti, off == OffCpu::Uninterruptible, stack, names);
            }
        };
        self.threads[ti as usize].pending = Pending::None;
        (Doing::Plain(plain), at)
    }

    /// No call explains it; the stack of the switch may.
    fn unnamed_block(&mut self, ti: u32, deep: bool, stack: Option<StackId>, names: &Names) -> (Doing, u32) {
        let Some(stack) = stack else {
            return (Doing::Plain(if deep { Plain::Io } else { Plain::OtherCall }), NONE);
        };
        let place = Place { space: self.space(ti, names), stack: stack.0 };
        (Doing::Block(self.block(Block { place, deep, found: NONE })), stack.0)
    }

    fn block(&mut self, block: Block) -> u32 {
        let next = self.blocks.len() as u32;
        let index = *self.block_index.entry(block).or_insert(next);
        if index == next {
            self.blocks.push(block);
        }
        index
    }

    /// A look from outside found the thread blocked: it says what an ordinary user's events do not.
    fn found_blocked(&mut self, ti: u32, now: u64, found: &Blocked, names: &Names) {
        let thread = &self.threads[ti as usize];
        let State::Off(doing) = thread.state else { return };
        let (place, deep) = match doing {
            Doing::Block(block) => (self.blocks[block as usize].place, self.blocks[block as usize].deep),
            Doing::Plain(Plain::OtherCall | Plain::Io | Plain::PageFault) => {
                (Place { space: thread.space, stack: thread.stack }, found.deep)
            }
            _ => return,
        };
        if now < thread.since || thread.woken.is_some_and(|(_, at)| at <= now) {
            return;
        }
        let Some(reason) = self.calls.reason(found) else { return };
        let key = (reason, found.file.clone());
        let next = self.found.len() as u32;
        let known = *self.found_index.entry(key.clone()).or_insert(next);
        if known == next {
            self.found.push(key);
        }
        let space = self.space(ti, names);
        let block = self.block(Block { place: Place { space, ..place }, deep, found: known });
        let bare = self.block(Block { place: Place { space, stack: NONE }, deep, found: known });
        let thread = &mut self.threads[ti as usize];
        *thread.found.at(bare) += 1;
        thread.state = State::Off(Doing::Block(block));
        self.remark(ti, doing, Doing::Block(block));
    }

    /// Stretches in calls that nobody looked into are like those of the thread that were, if those are mostly of one
    /// kind.
    fn spread_found(&mut self, ti: u32) {
        let thread = &mut self.threads[ti as usize];
        let all: u64 = thread.found.iter().map(|(_, hits)| hits).sum();
        let Some((block, hits)) = thread.found.iter().max_by_key(|(_, hits)| *hits).copied() else { return };
        if hits * 3 < all * 2 {
            return;
        }
        let other = std::mem::take(&mut thread.plain[Plain::OtherCall as usize]);
        let time = thread.blocks.at(block);
        time.count += other.count;
        time.ns += other.ns;
        thread.log.replace(Doing::Plain(Plain::OtherCall), Doing::Block(block));
        let mut marks = std::mem::take(&mut thread.marks);
        for kind in marks.kinds_mut() {
            let (doing, place) = self.kinds[*kind as usize];
            if doing == Doing::Plain(Plain::OtherCall) {
                *kind = self.kind(Doing::Block(block), place);
            }
        }
        self.threads[ti as usize].marks = marks;
    }

    /// Adds up a time off the CPU. `whole` is false if its end is not known to be now.
    fn end_off(&mut self, ti: u32, doing: Doing, now: u64, whole: bool) {
        let woken = self.threads[ti as usize].woken;
        if let (Some((_, at)), true) = (woken, self.keep) {
            self.mark(ti, at.min(now).max(self.threads[ti as usize].since), Doing::Ready);
        }
        let thread = &mut self.threads[ti as usize];
        let (from, stack) = (thread.since, thread.stack);
        let length = now.saturating_sub(from);
        thread.remember(Past { from, to: now, doing, stack });
        thread.log.push(from, now, doing, stack, woken.unwrap_or((NONE, now)));
        if let Some((_, at)) = woken {
            // Who had the CPU since the wake: the program's own threads, or others.
            let delay = now.saturating_sub(at);
            let (cpu, before) = (thread.cpu, thread.cpu_busy_ns);
            let busy = self.cpus.at(cpu).map_or(delay, |cpu| cpu.busy_ns(now).saturating_sub(before));
            if delay >= LONG_DELAY_NS && busy.saturating_mul(2) < delay {
                self.threads[ti as usize].log.displaced();
            }
        }
        let thread = &mut self.threads[ti as usize];
        let time = match doing {
            Doing::Plain(plain) => &mut thread.plain[plain as usize],
            Doing::Block(block) => thread.blocks.at(block),
            Doing::Futex(wait_site) => self.wait_sites[wait_site as usize].waiters.at(ti),
            Doing::Running(_) | Doing::Ready => &mut thread.plain[Plain::Unknown as usize],
        };
        time.count += 1;
        time.ns += length;
        if let Doing::Futex(_) = doing {
            self.end_wait(ti, now, whole);
        }
    }

    fn end_unknown(&mut self, ti: u32, now: u64) {
        let thread = &mut self.threads[ti as usize];
        let starting = thread.state == State::New && thread.forked;
        let plain = if starting { Plain::Starting } else { Plain::Unknown };
        let length = now.saturating_sub(thread.since);
        if length > 0 || starting {
            let time = &mut thread.plain[plain as usize];
            time.count += 1;
            time.ns += length;
        }
        let from = thread.since;
        thread.remember(Past { from, to: now, doing: Doing::Plain(plain), stack: NONE });
        thread.log.push(from, now, Doing::Plain(plain), NONE, (NONE, now));
        thread.since = now;
    }

    /// What the thread seemed to do does not fit to what it does now: since its last event nothing is known.
    fn lose_track(&mut self, ti: u32, now: u64) {
        self.trouble.contradictions += 1;
        self.forget(ti, self.threads[ti as usize].last);
        self.end_unknown(ti, now);
    }

    /// From `since` on nothing is known of the thread.
    fn forget(&mut self, ti: u32, since: u64) {
        let thread = &self.threads[ti as usize];
        let since = since.max(thread.since);
        match thread.state {
            State::Running => {
                self.threads[ti as usize].whole_run = false;
                self.end_run(ti, since, false);
            }
            State::Off(doing) => self.drop_off(ti, doing, since),
            State::New | State::Unknown => self.end_unknown(ti, since),
            State::Ended => return,
        }
        self.set_active(ti, since, false);
        self.mark(ti, since, Doing::Plain(Plain::Unknown));
        let thread = &mut self.threads[ti as usize];
        (thread.state, thread.since, thread.last) = (State::Unknown, since, since.max(thread.last));
        (thread.pending, thread.woken, thread.herd) = (Pending::None, None, NONE);
        (thread.returning, thread.preempted_at) = (NONE, None);
    }

    /// A time off the CPU that ended at an unknown moment: its certain part counts for the thread, not for the lock.
    fn drop_off(&mut self, ti: u32, doing: Doing, since: u64) {
        let thread = &mut self.threads[ti as usize];
        let length = since.saturating_sub(thread.since);
        if length > 0 {
            let plain = if let Doing::Plain(plain) = doing { plain } else { Plain::Unknown };
            thread.log.push(thread.since, since, Doing::Plain(plain), NONE, (NONE, since));
            let time = &mut thread.plain[plain as usize];
            time.count += 1;
            time.ns += length;
        }
        if let Doing::Futex(_) = doing {
            self.end_wait(ti, since, false);
        }
    }

    // Calls.

    /// The thread has left the call that it entered last, without a sleep.
    fn leave_pending(&mut self, ti: u32) {
        let thread = &mut self.threads[ti as usize];
        if let Pending::Futex { wait_site, lock, .. } = std::mem::replace(&mut thread.pending, Pending::None) {
            if thread.returning == lock {
                // It slept, and returned without a word: the lock was handed to it.
                return;
            }
            let wait_site = &mut self.wait_sites[wait_site as usize];
            wait_site.eagain += 1;
            self.groups[wait_site.group as usize].eagain += 1;
            if wait_site.place_group != NONE {
                self.groups[wait_site.place_group as usize].eagain += 1;
            }
        }
    }

    fn call(&mut self, ti: u32, nr: CallNumber, stack: u32, names: &Names) {
        self.leave_pending(ti);
        *self.call_counts.at(nr) += 1;
        let kind = self.calls.kind(nr);
        if kind == CallKind::Yield && stack != NONE {
            let place = Place { space: self.space(ti, names), stack };
            *self.yields.at(place) += 1;
        }
        self.threads[ti as usize].pending = Pending::Call { kind, stack };
    }

    fn futex_wait(&mut self, ti: u32, op: FutexOp, addr: u64, stack: u32, names: &Names) {
        self.leave_pending(ti);
        let space = self.space(ti, names);
        let lock = self.lock(space, op, addr, ti);
        let wait_site = self.wait_site(lock, op, Place { space, stack });
        let thread = &mut self.threads[ti as usize];
        thread.returning = NONE;
        thread.pending = Pending::Futex { wait_site, lock, stack };
    }

    fn lock(&mut self, space: SpaceId, op: FutexOp, addr: u64, ti: u32) -> u32 {
        let key = (if op.is_private() || op.command() >= FutexOp::WAITV { space } else { SHARED }, addr);
        let next = self.locks.len() as u32;
        let lock = *self.lock_index.entry(key).or_insert(next);
        if lock == next {
            self.locks.push(Lock::new(space, addr, ti));
        }
        lock
    }

    fn wait_site(&mut self, lock: u32, op: FutexOp, place: Place) -> u32 {
        let next = self.wait_sites.len() as u32;
        let wait_site = *self.wait_site_index.entry((lock, op.command(), place.stack)).or_insert(next);
        if wait_site == next {
            let group = self.group(lock, op.command());
            let waiters = Tally::default();
            let wait_site = WaitSite { lock, op, place, group, place_group: NONE, waiters, eagain: 0 };
            self.wait_sites.push(wait_site);
        }
        wait_site
    }

    fn group(&mut self, lock: u32, op: u32) -> u32 {
        let known = self.locks[lock as usize].groups.iter().find(|(known, _)| *known == op);
        if let Some((_, group)) = known {
            return *group;
        }
        let group = self.groups.len() as u32;
        self.groups.push(Group::new(lock, op, false));
        self.locks[lock as usize].groups.push((op, group));
        group
    }

    /// The group of a place, as long as the futex may be a word of the waiting thread instead of the lock.
    fn place_group(&mut self, wait_site: u32, ti: u32) -> u32 {
        let WaitSite { lock, op, place, .. } = self.wait_sites[wait_site as usize];
        let only = &mut self.locks[lock as usize].only_waiter;
        *only = if *only == NONE || *only == ti { ti } else { OUTSIDE };
        let plain = matches!(op.command(), FutexOp::WAIT | FutexOp::WAIT_BITSET);
        if *only != ti || !plain || place.stack == NONE {
            return NONE;
        }
        let next = self.groups.len() as u32;
        let group = *self.place_groups.entry(place).or_insert(next);
        if group == next {
            self.groups.push(Group::new(lock, op.command(), true));
        }
        self.wait_sites[wait_site as usize].place_group = group;
        group
    }

    // Waits.

    fn begin_wait(&mut self, ti: u32, wait_site: u32, now: u64, run: Option<u64>) {
        let WaitSite { lock, group, .. } = self.wait_sites[wait_site as usize];
        let place_group = self.place_group(wait_site, ti);
        for group in [group, place_group].into_iter().filter(|group| *group != NONE) {
            self.groups[group as usize].begin(now, run);
        }
        let wait = Wait {
            thread: ti,
            group,
            place_group,
            from: now,
            to: 0,
            waker: None,
            claimed: false,
            released_before: 0,
            unwoken: false,
        };
        self.locks[lock as usize].waiting.push_back(wait);
        self.threads[ti as usize].queue = lock;
    }

    /// The thread runs again, or (if not `whole`) nobody knows since when it does.
    fn end_wait(&mut self, ti: u32, now: u64, whole: bool) {
        let thread = &mut self.threads[ti as usize];
        let lock = std::mem::replace(&mut thread.queue, NONE);
        if lock == NONE {
            return;
        }
        thread.returning = if whole { lock } else { NONE };
        if let Pending::Futex { wait_site, .. } = thread.pending {
            let command = self.wait_sites[wait_site as usize].op.command();
            // Who waits for a lock with priority inheritance may be woken and lose it again within the call.
            if !matches!(command, FutexOp::LOCK_PI | FutexOp::LOCK_PI2) {
                thread.pending = Pending::None;
            }
        }
        let queue = &mut self.locks[lock as usize].waiting;
        let Some(at) = queue.iter().position(|wait| wait.thread == ti) else { return };
        let Some(mut wait) = queue.remove(at) else { return };
        wait.to = now;
        for group in [wait.group, wait.place_group].into_iter().filter(|group| *group != NONE) {
            self.groups[group as usize].end(ti, wait.from, now, whole);
        }
        if whole {
            self.wait_ended(lock, wait, now);
        }
    }

    fn wait_ended(&mut self, lock: u32, wait: Wait, now: u64) {
        if wait.claimed || (wait.waker.is_some() && self.capabilities.wakings) {
            self.settle(lock, wait);
            if wait.claimed {
                return;
            }
        }
        self.expire(lock, now);
        let ended = &mut self.locks[lock as usize].ended;
        ended.push_back(wait);
    }

    /// Waits that nobody will answer for any more.
    fn expire(&mut self, lock: u32, now: u64) {
        loop {
            let ended = &mut self.locks[lock as usize].ended;
            let Some(first) = ended.front() else { return };
            if ended.len() < MOST_ENDED && first.to.saturating_add(FORGET_NS) >= now {
                return;
            }
            if let Some(wait) = ended.pop_front() {
                self.settle_late(lock, wait);
            }
        }
    }

    /// A wait whose waker was not found in time. If one that waits still was thought to be woken before, it was this
    /// one instead.
    pub(super) fn settle_late(&mut self, lock: u32, mut wait: Wait) {
        if wait.waker.is_some() {
            return;
        }
        if !wait.unwoken {
            let waiting = &mut self.locks[lock as usize].waiting;
            let wrong = waiting.iter_mut().find(|other| other.waker.is_some_and(|(_, at)| at <= wait.to));
            if let Some(other) = wrong {
                wait.waker = other.waker.take();
                wait.released_before = other.released_before;
                let thread = other.thread;
                other.claimed = false;
                self.threads[thread as usize].woken = None;
            }
        }
        self.settle(lock, wait);
    }

    /// All about a wait is known: what its holder did meanwhile.
    fn settle(&mut self, lock: u32, wait: Wait) {
        let waker = wait.waker.or(wait.unwoken.then_some((TIMEOUT, wait.to)));
        if let Some(waker) = waker {
            self.threads[wait.thread as usize].log.set_waker(wait.from, waker);
        }
        for group in [wait.group, wait.place_group].into_iter().filter(|group| *group != NONE) {
            self.settle_in(group, lock, &wait);
        }
    }

    fn settle_in(&mut self, group: u32, lock: u32, wait: &Wait) {
        let length = wait.to.saturating_sub(wait.from);
        let group = &mut self.groups[group as usize];
        let Some((waker, woken_at)) = wait.waker else {
            group.unknown_ns += length;
            return;
        };
        let holder = group.holders.at(waker);
        holder.count += 1;
        holder.ns += length;
        let Some(thread) = self.threads.get(waker as usize) else {
            group.unknown_ns += length;
            return;
        };
        let from = wait.from.max(wait.released_before);
        let to = woken_at.min(wait.to);
        let preempted = split(group, thread, &self.wait_sites, lock, from, to);
        let lower = |holder: i32, waiter: i32| holder > waiter;
        let priorities = thread.priority.zip(self.threads[wait.thread as usize].priority);
        if preempted > 0 && priorities.is_some_and(|(holder, waiter)| lower(holder, waiter)) {
            group.inversions.count += 1;
            group.inversions.ns += preempted;
        }
    }

    // Wakes.

    #[expect(clippy::too_many_arguments, reason = "the parts of one event")]
    fn futex_return(&mut self, ti: u32, now: u64, op: FutexOp, addr: u64, ret: i32, stack: u32, names: &Names) {
        if op.waits() {
            return self.wait_returned(ti, ret);
        }
        self.leave_pending(ti);
        if !op.wakes() || ret < 0 {
            return;
        }
        let space = self.space(ti, names);
        let lock = self.lock(space, op, addr, ti);
        let command = op.command();
        let requeues = matches!(command, FutexOp::REQUEUE | FutexOp::CMP_REQUEUE | FutexOp::CMP_REQUEUE_PI);
        let unlocks_pi = command == FutexOp::UNLOCK_PI;
        let wants = match ret {
            _ if unlocks_pi => 1,
            _ if requeues => ret.min(1),
            _ => ret,
        };
        let place = Place { space, stack };
        let found = self.wake(ti, lock, now, wants as u32, place);
        if requeues && !self.locks[lock as usize].waiting.is_empty() {
            self.locks[lock as usize].moved = true;
            if !self.moved.contains(&lock) {
                self.moved.push(lock);
            }
        }
        self.count_wake(ti, lock, (ret, wants as u32), found, place, (requeues, unlocks_pi));
        self.locks[lock as usize].released = now;
    }

    /// A call that waits returned: the last word on how the wait ended.
    fn wait_returned(&mut self, ti: u32, ret: i32) {
        const EINTR: i32 = -4;
        const ETIMEDOUT: i32 = -110;
        let thread = &mut self.threads[ti as usize];
        let lock = std::mem::replace(&mut thread.returning, NONE);
        let pending = thread.pending;
        if let Pending::Futex { wait_site, .. } = pending {
            if lock == NONE {
                let group = self.wait_sites[wait_site as usize].group;
                self.groups[group as usize].timeouts += u64::from(ret == ETIMEDOUT);
                return self.leave_pending(ti);
            }
            self.threads[ti as usize].pending = Pending::None;
        }
        if lock == NONE || ret >= 0 {
            return;
        }
        let ended = &mut self.locks[lock as usize].ended;
        let Some(wait) = ended.iter_mut().rev().find(|wait| wait.thread == ti) else { return };
        wait.unwoken = matches!(ret, EINTR | ETIMEDOUT);
        if wait.unwoken {
            self.threads[ti as usize].log.set_waker(wait.from, (TIMEOUT, wait.to));
        }
        let groups = [wait.group, wait.place_group];
        for group in groups.into_iter().filter(|group| *group != NONE && ret == ETIMEDOUT) {
            self.groups[group as usize].timeouts += 1;
        }
    }

    /// Finds whom a call woke, first among those who ran already, then in the order of the queue. Returns how many, and
    /// in which group.
    fn wake(&mut self, ti: u32, lock: u32, now: u64, wants: u32, place: Place) -> (u32, u32) {
        let mut found = (0, NONE);
        while found.0 < wants {
            let next = self.wake_ended(ti, lock, now, place).or_else(|| self.wake_waiting(ti, lock, now, place));
            let next = next.or_else(|| self.wake_moved(ti, lock, now, place));
            let Some((group, thread)) = next else { break };
            found = (found.0 + 1, group);
            if wants >= 2 {
                self.join_herd(thread, group);
            }
        }
        found
    }

    /// One that ran already when the call returned.
    fn wake_ended(&mut self, ti: u32, lock: u32, now: u64, place: Place) -> Option<(u32, u32)> {
        let waker = &self.threads[ti as usize];
        // Whom it woke may have taken its CPU: then the call returns as soon as it has one again.
        let resumed = now.saturating_sub(waker.since) <= LATE_NS;
        let around = waker.preempted_at.filter(|_| resumed).unwrap_or(now).min(now);
        let earliest = around.saturating_sub(LATE_NS);
        let released = self.locks[lock as usize].released;
        let exact = self.capabilities.wakings;
        let fits = |wait: &Wait| match wait.waker {
            Some((waker, _)) => exact && waker == ti && !wait.claimed,
            None => !exact && !wait.unwoken && wait.to >= earliest && wait.to <= now && wait.thread != ti,
        };
        let ended = &self.locks[lock as usize].ended;
        let candidates = ended.iter().enumerate().rev().filter(|(_, wait)| fits(wait));
        let (at, _) = candidates.min_by_key(|(_, wait)| wait.to.abs_diff(around))?;
        let mut wait = self.locks[lock as usize].ended.remove(at)?;
        if wait.waker.is_none() {
            wait.waker = Some((ti, wait.to));
            wait.released_before = released.min(wait.to);
            self.settle(lock, wait);
            self.hand_over(ti, wait.thread, wait.to, place);
            let displaced = self.threads[ti as usize].preempted_at.filter(|_| resumed);
            if displaced.is_some_and(|at| at.abs_diff(wait.to) <= DISPLACE_NS) {
                self.give_back(ti, wait.thread, now);
            }
        }
        Some((wait.group, wait.thread))
    }

    /// The next in the queue.
    fn wake_waiting(&mut self, ti: u32, lock: u32, now: u64, place: Place) -> Option<(u32, u32)> {
        let exact = self.capabilities.wakings;
        let released = self.locks[lock as usize].released;
        let wait = self.locks[lock as usize].waiting.iter_mut().find(|wait| match wait.waker {
            Some((waker, _)) => exact && waker == ti && !wait.claimed,
            None => !exact,
        })?;
        wait.claimed = true;
        let (thread, group, first) = (wait.thread, wait.group, wait.waker.is_none());
        if first {
            let at = now.max(wait.from);
            wait.waker = Some((ti, at));
            wait.released_before = released;
            self.threads[thread as usize].woken = Some((ti, at));
            self.set_active(thread, at, true);
            self.hand_over(ti, thread, at, place);
        }
        Some((group, thread))
    }

    /// One that was moved here from another address.
    fn wake_moved(&mut self, ti: u32, lock: u32, now: u64, place: Place) -> Option<(u32, u32)> {
        let space = self.locks[lock as usize].space;
        let mut index = 0;
        while index < self.moved.len() {
            let other = self.moved[index];
            let from = &self.locks[other as usize];
            if from.waiting.is_empty() {
                self.locks[other as usize].moved = false;
                self.moved.swap_remove(index);
                continue;
            }
            if other != lock && from.space == space {
                let found = self.wake_waiting(ti, other, now, place);
                if found.is_some() {
                    return found;
                }
            }
            index += 1;
        }
        None
    }

    fn count_wake(
        &mut self,
        ti: u32,
        lock: u32,
        (ret, wants): (i32, u32),
        (found, group): (u32, u32),
        place: Place,
        (requeues, unlocks_pi): (bool, bool),
    ) {
        if ret == 0 && !unlocks_pi {
            if !requeues {
                self.wasted_wakes += self.zero_weight;
                self.locks[lock as usize].wasted += self.zero_weight;
            }
            return;
        }
        if unlocks_pi && found == 0 {
            return;
        }
        self.threads[ti as usize].wakes += 1;
        let woken = std::mem::replace(&mut self.threads[ti as usize].unplaced, NONE);
        if woken != NONE && place.stack != NONE {
            self.pairs.place(ti, woken, place);
        }
        // Whom it woke may be unknown (it did not sleep yet): then it counts for the lock's first way to wait.
        let first = self.locks[lock as usize].groups.first().map_or(NONE, |(_, group)| *group);
        let group = if group == NONE { first } else { group };
        if group == NONE {
            return;
        }
        let group = &mut self.groups[group as usize];
        group.wakes += 1;
        if place.stack != NONE {
            *group.wake_sites.at(place) += 1;
        }
        if wants >= 2 {
            group.herds.calls += 1;
            group.herds.woken += u64::from(wants);
        }
    }

    fn join_herd(&mut self, thread: u32, group: u32) {
        let thread = &mut self.threads[thread as usize];
        let (from, to, futex) = thread.last_run;
        let ran_already = matches!(thread.state, State::Off(_)) && thread.woken.is_none();
        if ran_already && futex && to.saturating_sub(from) <= HERD_RUN_NS {
            self.groups[group as usize].herds.back_to_sleep += 1;
        } else if !ran_already {
            thread.herd = group;
        }
    }

    /// A thread that was woken with others leaves the CPU again.
    fn herd_again(&mut self, ti: u32, futex: bool, run: Option<u64>) {
        let herd = std::mem::replace(&mut self.threads[ti as usize].herd, NONE);
        if herd != NONE && futex && run.is_some_and(|run| run <= HERD_RUN_NS) {
            self.groups[herd as usize].herds.back_to_sleep += 1;
        }
    }

    /// The kernel says who woke whom.
    fn waking(&mut self, tid: Tid, target: Tid, stack: u32, now: u64, cpu: u16, names: &Names) {
        let waker = self.index.get(&tid).copied();
        if let Some(ti) = waker {
            let at = self.seen_running(ti, now, cpu);
            self.threads[ti as usize].last = at;
        }
        let Some(woken) = self.index.get(&target).copied() else { return };
        let thread = &mut self.threads[woken as usize];
        let State::Off(doing) = thread.state else { return };
        if thread.woken.is_some() || doing == Doing::Plain(Plain::Preempted) {
            return;
        }
        let at = now.max(thread.since);
        // A device or a timer wakes by an interrupt: whoever runs just then has nothing to do with it.
        let by_interrupt = match doing {
            Doing::Plain(Plain::Sleep | Plain::Io | Plain::PageFault) => true,
            Doing::Block(block) => self.blocks[block as usize].deep,
            _ => false,
        };
        let waker = waker.filter(|_| !by_interrupt);
        let by = waker.unwrap_or(OUTSIDE);
        thread.woken = Some((by, at));
        let home = thread.cpu;
        let queue = thread.queue;
        let busy = self.cpus.at(home).map_or(0, |cpu| cpu.busy_ns(at));
        self.threads[woken as usize].cpu_busy_ns = busy;
        self.set_active(woken, at, true);
        if queue != NONE {
            let lock = &mut self.locks[queue as usize];
            let released = lock.released;
            if let Some(wait) = lock.waiting.iter_mut().find(|wait| wait.thread == woken) {
                wait.waker = Some((by, at));
                wait.released_before = released;
            }
        }
        if let Some(ti) = waker {
            let place = Place { space: self.space(ti, names), stack };
            self.hand_over(ti, woken, at, place);
        }
    }

    // Pairs.

    fn hand_over(&mut self, from: u32, to: u32, at: u64, place: Place) {
        self.pair(from, to, at, place, false);
        self.threads[from as usize].unplaced = if place.stack == NONE { to } else { NONE };
        if self.keep {
            let (from, to) = (self.threads[from as usize].tid, self.threads[to as usize].tid);
            self.wakes.push(Wake { time_ns: at, from, to });
        }
    }

    fn pair(&mut self, from: u32, to: u32, at: u64, place: Place, inferred: bool) {
        let waker = &self.threads[from as usize];
        let on_cpu = waker.on_cpu_until(at);
        let run = (waker.woken_by.0 == to).then(|| on_cpu.saturating_sub(waker.woken_by.1));
        self.pairs.add(HandOver { from, to, at, place, run, inferred });
        let woken = &mut self.threads[to as usize];
        woken.woken_by = (from, woken.on_cpu_at(at));
        self.threads[from as usize].last_woke = (to, at);
    }

    /// A thread runs again after it was preempted: perhaps by whom it woke right before.
    fn given_back(&mut self, ti: u32, doing: Doing, now: u64) {
        let thread = &self.threads[ti as usize];
        let (woken, at) = thread.last_woke;
        let displaced = doing == Doing::Plain(Plain::Preempted) && thread.since.saturating_sub(at) <= DISPLACE_NS;
        if woken != NONE && displaced && thread.since >= at {
            self.give_back(ti, woken, now);
        }
    }

    /// If the woken thread, which took the waker's CPU, has blocked since, both have had their turn.
    fn give_back(&mut self, waker: u32, woken: u32, now: u64) {
        let other = &self.threads[woken as usize];
        let at = self.threads[waker as usize].last_woke.1;
        let State::Off(doing) = other.state else { return };
        let ran = other.last_run.0 >= at && other.woken.is_none();
        if !ran || matches!(doing, Doing::Plain(Plain::Preempted | Plain::Yielded)) {
            return;
        }
        self.pairs.give_back(waker, woken);
        let thread = &mut self.threads[waker as usize];
        thread.woken_by = (woken, thread.on_cpu_at(now.min(thread.since)));
        thread.last_woke = (NONE, 0);
    }

    /// A thread blocks in a call that says nothing: who ran just before it, without a reason that is known, may be whom
    /// it woke.
    fn block_in_turn(&mut self, ti: u32, now: u64, names: &Names) {
        self.threads[ti as usize].silent_blocks += 1;
        if self.capabilities.wakings {
            return;
        }
        let place = Place { space: self.space(ti, names), stack: self.threads[ti as usize].stack };
        let other = self.silent_in.take();
        match other {
            Some((other, at)) if other != ti && now.saturating_sub(at) <= IN_TURN_NS => {
                self.pair(ti, other, at, place, true);
            }
            _ => self.silent_out = Some((ti, now)),
        }
    }

    /// A thread runs after such a call: who just blocked may have woken it.
    fn in_turn(&mut self, ti: u32, doing: Doing, now: u64) {
        let silent = matches!(doing, Doing::Block(_) | Doing::Plain(Plain::OtherCall));
        if !silent || self.capabilities.wakings {
            return;
        }
        match self.silent_out.take() {
            Some((other, at)) if other != ti && now.saturating_sub(at) <= IN_TURN_NS => {
                let place = Place { space: SpaceId::default(), stack: NONE };
                self.pair(other, ti, now, place, true);
            }
            _ => self.silent_in = Some((ti, now)),
        }
    }

    // The rest.

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
        for ti in 0..self.threads.len() as u32 {
            let here = cpu == NO_CPU || self.threads[ti as usize].cpu == cpu;
            if here && self.threads[ti as usize].state != State::Ended {
                self.forget(ti, since.max(self.threads[ti as usize].last));
            }
        }
    }

    /// The lock at an address of a thread's process, if anybody waited there.
    fn known_lock(&self, tid: Tid, addr: u64, names: &Names) -> Option<u32> {
        let keys = [(names.space(tid), addr), (SHARED, addr)];
        keys.iter().find_map(|key| self.lock_index.get(key)).copied()
    }

    fn lock_word(&mut self, tid: Tid, addr: u64, word: u32, names: &Names) {
        let Some(lock) = self.known_lock(tid, addr, names) else { return };
        let words = &mut self.locks[lock as usize].words;
        words.0 += 1;
        words.1 += u64::from(word != 0);
        // 2 is "held, and others wait" of glibc and Rust; the highest bit says the same for locks with priority
        // inheritance.
        words.2 += u64::from(word == 2 || word & 0x8000_0000 != 0);
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
        for ti in 0..self.threads.len() as u32 {
            self.close_thread(ti, end);
            self.spread_found(ti);
        }
        for lock in 0..self.locks.len() as u32 {
            while let Some(wait) = self.locks[lock as usize].ended.pop_front() {
                if wait.waker.is_none() {
                    self.settle(lock, wait);
                }
            }
        }
        end
    }

    fn close_thread(&mut self, ti: u32, end: u64) {
        let end = end.max(self.threads[ti as usize].since);
        match self.threads[ti as usize].state {
            State::Running => {
                self.threads[ti as usize].whole_run = false;
                self.end_run(ti, end, false);
            }
            State::Off(doing) => self.end_off(ti, doing, end, true),
            State::New | State::Unknown => self.end_unknown(ti, end),
            State::Ended => return,
        }
        let thread = &mut self.threads[ti as usize];
        (thread.since, thread.last) = (end, end);
    }
}

fn number(stack: Option<StackId>) -> u32 {
    stack.map_or(NONE, |stack| stack.0)
}

/// Divides the time of a holder among what it did. Its own wait for the same lock ends the look back. Returns how long
/// it was preempted.
fn split(group: &mut Group, thread: &Thread, wait_sites: &[WaitSite], lock: u32, from: u64, to: u64) -> u64 {
    let state = match thread.state {
        State::Running => Some(Doing::Running(thread.cpu)),
        State::Off(doing) => Some(doing),
        _ => None,
    };
    let current = state.map(|doing| Past { from: thread.since, to: u64::MAX, doing, stack: thread.stack });
    let mut rest = to;
    let mut preempted = 0;
    for past in current.into_iter().chain(thread.past.iter().rev().copied()) {
        let begin = past.from.max(from);
        let length = past.to.min(rest).saturating_sub(begin);
        if past.from >= rest {
            continue;
        }
        match past.doing {
            Doing::Running(_) => group.running_ns += length,
            Doing::Futex(wait_site) if wait_sites[wait_site as usize].lock == lock => return preempted,
            doing => {
                preempted += if doing == Doing::Plain(Plain::Preempted) { length } else { 0 };
                *group.off.at(doing) += length;
                if past.stack != NONE && length > 0 {
                    let site = group.off_sites.at(Place { space: thread.space, stack: past.stack });
                    site.count += 1;
                    site.ns += length;
                }
            }
        }
        rest = begin;
        if rest <= from {
            return preempted;
        }
    }
    group.unknown_ns += rest.saturating_sub(from);
    preempted
}
