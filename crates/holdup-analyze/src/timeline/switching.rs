//! Threads that get a CPU and leave it, and why.

use holdup_trace::{Blocked, OffCpu, StackId};

use super::calls::CallKind;
use super::doing::{Doing, NONE, Plain};
use super::engine::{Engine, number};
use super::lock::{Block, Place};
use super::thread::{Past, Pending, State};
use super::waiting::{FILE_LOCK, SEMAPHORE};
use crate::names::Names;

/// A woken thread that no other program is in the way of runs within this time.
const LONG_DELAY_NS: u64 = 300_000;

impl Engine {
    pub(super) fn switch_in(&mut self, ti: u32, now: u64, cpu: u16) {
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
    pub(super) fn seen_running(&mut self, ti: u32, now: u64, cpu: u16) -> u64 {
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

    pub(super) fn switch_out(
        &mut self,
        ti: u32,
        now: u64,
        cpu: u16,
        off: OffCpu,
        stack: Option<StackId>,
        names: &Names,
    ) {
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

    pub(super) fn end_run(&mut self, ti: u32, now: u64, futex: bool) {
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
            (
                OffCpu::Blocked | OffCpu::Sleeping,
                Pending::Call { kind: kind @ (CallKind::Lock | CallKind::Semaphore), stack },
            ) => {
                self.threads[ti as usize].pending = Pending::None;
                let object = if kind == CallKind::Lock { FILE_LOCK } else { SEMAPHORE };
                return (Doing::Futex(self.kernel_object(ti, object, stack, names)), stack);
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
    pub(super) fn found_blocked(&mut self, ti: u32, now: u64, found: &Blocked, names: &Names) {
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
    pub(super) fn spread_found(&mut self, ti: u32) {
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
    pub(super) fn end_off(&mut self, ti: u32, doing: Doing, now: u64, whole: bool) {
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

    pub(super) fn end_unknown(&mut self, ti: u32, now: u64) {
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
    pub(super) fn forget(&mut self, ti: u32, since: u64) {
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
}
