//! Threads that get a CPU and leave it, and why.

use holdup_trace::{Blocked, OffCpu, StackId};

use super::calls::CallKind;
use super::doing::{Doing, Plain};
use super::engine::{Engine, key};
use super::ids::{BlockId, FoundId, StackKey, ThreadId};
use super::lock::{Block, Found, Place};
use super::tally::Tally;
use super::thread::{Past, Pending, State};
use super::waiting;
use crate::facts::OffTime;
use crate::names::Names;

/// A woken thread that no other program is in the way of runs within this time.
const LONG_DELAY_NS: u64 = 300_000;

impl Engine {
    pub(super) fn switch_in(&mut self, ti: ThreadId, now: u64, cpu: u16) {
        let thread = &self.threads[ti];
        let now = now.max(thread.last);
        match thread.state {
            State::Off(doing) => {
                let doing = self.whose_turn(ti, doing, now);
                self.woken_by_call(ti, doing);
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
    fn whose_turn(&mut self, ti: ThreadId, doing: Doing, now: u64) -> Doing {
        if doing != Doing::Plain(Plain::Preempted) {
            return doing;
        }
        let thread = &mut self.threads[ti];
        let length = now.saturating_sub(thread.since);
        let busy = self.cpus.at(thread.cpu).map(|cpu| cpu.busy_ns(now).saturating_sub(thread.cpu_busy_ns));
        // Looks from outside do not tell who had which CPU; but where the target's threads have enough of them, others
        // had it.
        let by_own = busy.map_or(!self.is_sampled || self.cpus.are_wanted(), |busy| busy.saturating_mul(2) >= length);
        if by_own {
            return doing;
        }
        let displaced = Doing::Plain(Plain::Displaced);
        self.remark(ti, doing, displaced);
        displaced
    }

    fn begin_run(&mut self, ti: ThreadId, now: u64, cpu: u16, whole: bool) {
        self.set_active(ti, now, true);
        if let Some(cpu) = self.cpus.at(cpu) {
            cpu.begin_run(now);
        }
        self.mark(ti, now, Doing::Running(cpu));
        let thread = &mut self.threads[ti];
        thread.migrations += u64::from(thread.ran && thread.cpu != cpu);
        thread.ran = true;
        (thread.state, thread.since, thread.last) = (State::Running, now, now);
        (thread.cpu, thread.whole_run, thread.woken) = (cpu, whole, None);
    }

    fn run_delay(&mut self, ti: ThreadId, doing: Doing, now: u64) {
        let thread = &mut self.threads[ti];
        let ready_since = match doing {
            Doing::Plain(Plain::Preempted | Plain::Displaced | Plain::Yielded) => Some(thread.since),
            _ => thread.woken.map(|(_, at)| at),
        };
        if let Some(since) = ready_since {
            thread.run_delay_ns.add(now.saturating_sub(since));
        }
    }

    /// The thread does something that only a running thread does. Returns the time to use.
    pub(super) fn seen_running(&mut self, ti: ThreadId, now: u64, cpu: u16) -> u64 {
        let thread = &self.threads[ti];
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
        ti: ThreadId,
        now: u64,
        cpu: u16,
        off: OffCpu,
        stack: Option<StackId>,
        names: &Names,
    ) {
        if self.threads[ti].state == State::Ended {
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
        let thread = &mut self.threads[ti];
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
        self.woken_on_the_way(ti, now);
    }

    /// Length of the stay on the CPU that ends, if its beginning was seen.
    fn stay(&self, ti: ThreadId, now: u64) -> Option<u64> {
        let thread = &self.threads[ti];
        thread.whole_run.then(|| now.saturating_sub(thread.since))
    }

    pub(super) fn end_run(&mut self, ti: ThreadId, now: u64, futex: bool) {
        let run = self.stay(ti, now);
        let thread = &mut self.threads[ti];
        let length = now.saturating_sub(thread.since);
        thread.on_cpu_ns += length;
        if let Some(run) = run {
            thread.run_ns.add(run);
        }
        thread.last_run = (thread.since, now, futex);
        let (from, cpu) = (thread.since, thread.cpu);
        thread.remember(Past { from, to: now, doing: Doing::Running(cpu), stack: None });
        if let Some(cpu) = self.cpus.at(cpu) {
            cpu.facts.busy_ns += length;
            cpu.end_run(now);
        }
    }

    /// Why a thread leaves the CPU, and where it was.
    fn why_off(
        &mut self,
        ti: ThreadId,
        off: OffCpu,
        stack: Option<StackId>,
        names: &Names,
    ) -> (Doing, Option<StackKey>) {
        let pending = self.threads[ti].pending;
        if let (OffCpu::Blocked | OffCpu::Sleeping, Pending::Call { kind, stack }) = (off, pending)
            && let Some(object) = waiting::object(kind)
        {
            self.threads[ti].pending = Pending::None;
            // It let nobody go on.
            let own = self.object_calls.iter().position(|call| call.thread == ti);
            own.map(|at| self.object_calls.remove(at));
            return (Doing::Futex(self.kernel_object(ti, object, stack, names)), stack);
        }
        let (plain, at) = match (off, pending) {
            (OffCpu::Runnable, Pending::Call { kind: CallKind::Yield, stack }) => (Plain::Yielded, stack),
            (OffCpu::Runnable, _) => return (Doing::Plain(Plain::Preempted), key(stack)),
            (OffCpu::Gone, _) => (Plain::Unknown, key(stack)),
            (OffCpu::Blocked | OffCpu::Sleeping, Pending::Futex { wait_site, stack, .. }) => {
                return (Doing::Futex(wait_site), stack);
            }
            (OffCpu::Uninterruptible, Pending::Futex { .. }) => {
                return (Doing::Plain(Plain::Io), key(stack));
            }
            (_, Pending::Fault { stack }) => (Plain::PageFault, stack),
            (_, Pending::Call { kind, stack }) if !matches!(kind, CallKind::Yield | CallKind::Other) => {
                (Plain::of(kind), stack)
            }
            (off, _) => {
                self.threads[ti].pending = Pending::None;
                return self.unnamed_block(ti, off == OffCpu::Uninterruptible, stack, names);
            }
        };
        self.threads[ti].pending = Pending::None;
        (Doing::Plain(plain), at)
    }

    /// No call explains it; the stack of the switch may.
    fn unnamed_block(
        &mut self,
        ti: ThreadId,
        deep: bool,
        stack: Option<StackId>,
        names: &Names,
    ) -> (Doing, Option<StackKey>) {
        let Some(stack) = stack else {
            return (Doing::Plain(if deep { Plain::Io } else { Plain::OtherCall }), None);
        };
        let place = Place { space: self.space(ti, names), stack: Some(stack.into()) };
        (Doing::Block(self.block(Block { place, deep, found: None })), Some(stack.into()))
    }

    pub(super) fn block(&mut self, block: Block) -> BlockId {
        let next = self.blocks.next();
        let index = *self.block_index.entry(block).or_insert(next);
        if index == next {
            self.blocks.push(block);
        }
        index
    }

    /// A look from outside found the thread blocked: it says what an ordinary user's events do not.
    pub(super) fn found_blocked(&mut self, ti: ThreadId, now: u64, found: &Blocked, names: &Names) {
        let thread = &self.threads[ti];
        let State::Off(doing) = thread.state else { return };
        let (place, deep) = match doing {
            Doing::Block(block) => (self.blocks[block].place, self.blocks[block].deep),
            Doing::Plain(Plain::OtherCall | Plain::Io | Plain::PageFault) => {
                (Place { space: thread.space, stack: thread.stack }, found.deep)
            }
            _ => return,
        };
        let place = if place.stack.is_none() { Place { stack: key(found.stack), ..place } } else { place };
        if now < thread.since || thread.woken.is_some_and(|(_, at)| at <= now) {
            return;
        }
        if let Some(object) = found.nr.and_then(|nr| waiting::object(self.calls.kind(nr))) {
            // Woken for it in vain, the thread waits again within the call.
            let (since, wait_site) = (thread.since, self.kernel_object(ti, object, place.stack, names));
            let thread = &mut self.threads[ti];
            (thread.state, thread.stack) = (State::Off(Doing::Futex(wait_site)), place.stack);
            self.begin_wait(ti, wait_site, since, None);
            return self.remark(ti, doing, Doing::Futex(wait_site));
        }
        let Some(reason) = self.calls.reason(found) else { return };
        let known = self.found(Found::new(reason, found));
        let space = self.space(ti, names);
        let block = self.block(Block { place: Place { space, ..place }, deep, found: Some(known) });
        let thread = &mut self.threads[ti];
        *thread.found.at(block) += 1;
        thread.stack = place.stack;
        thread.state = State::Off(Doing::Block(block));
        self.remark(ti, doing, Doing::Block(block));
    }

    fn found(&mut self, what: Found) -> FoundId {
        let next = self.found.next();
        let known = *self.found_index.entry(what.clone()).or_insert(next);
        if known == next {
            self.found.push(what);
        }
        known
    }

    /// Stretches in calls that nobody looked into are like those of the thread that were, if those are mostly of one
    /// kind. Who works on many files in turn does the same with each.
    pub(super) fn spread_found(&mut self, ti: ThreadId) {
        let mostly = |hits: u64, all: u64| hits * 3 >= all * 2;
        let seen: Vec<(BlockId, u64)> = self.threads[ti].found.iter().copied().collect();
        let space = self.threads[ti].space;
        let all: u64 = seen.iter().map(|(_, hits)| hits).sum();
        let mut files: Tally<Option<FoundId>, u64> = Tally::default();
        seen.iter().for_each(|(block, hits)| *files.at(self.blocks[*block].found) += hits);
        let of_one_file = files.iter().any(|(_, hits)| mostly(*hits, all));
        let mut kinds: Tally<Block, u64> = Tally::default();
        let mut places: Vec<(Block, Place, u64)> = Vec::new();
        for (block, hits) in seen {
            let Block { place, deep, found } = self.blocks[block];
            let without_file = |found: &Found| Found { file: None, own_pipe: false, ..found.clone() };
            let found = match found {
                Some(found) if !of_one_file => Some(self.found(without_file(&self.found[found]))),
                found => found,
            };
            let kind = Block { place: Place { space, stack: None }, deep, found };
            *kinds.at(kind) += hits;
            places.push((kind, place, hits));
        }
        let Some((of, hits)) = kinds.iter().max_by_key(|(_, hits)| *hits).copied() else { return };
        if !mostly(hits, all) {
            return;
        }
        let mut of_kind: Tally<Place, u64> = Tally::default();
        places.iter().filter(|(kind, ..)| *kind == of).for_each(|(_, place, hits)| *of_kind.at(*place) += hits);
        let block = match of_kind.iter().max_by_key(|(_, hits)| *hits) {
            Some((place, most)) if mostly(*most, hits) => Block { place: *place, ..of },
            _ => of,
        };
        let block = self.block(block);
        let place = self.blocks[block].place;
        let thread = &mut self.threads[ti];
        let other = std::mem::take(&mut thread.plain[Plain::OtherCall as usize]);
        let time = thread.blocks.at(block);
        time.count += other.count;
        time.ns += other.ns;
        thread.log.replace(Doing::Plain(Plain::OtherCall), Doing::Block(block), place.stack);
        let mut marks = std::mem::take(&mut thread.marks);
        for kind in marks.kinds_mut() {
            let (doing, _) = self.kinds[*kind as usize];
            if doing == Doing::Plain(Plain::OtherCall) {
                *kind = self.kind(Doing::Block(block), place);
            }
        }
        self.threads[ti].marks = marks;
    }

    /// Adds up a time off the CPU. `whole` is false if its end is not known to be now.
    pub(super) fn end_off(&mut self, ti: ThreadId, doing: Doing, now: u64, whole: bool) {
        let woken = self.threads[ti].woken;
        if let (Some((_, at)), true) = (woken, self.keep) {
            self.mark(ti, at.min(now).max(self.threads[ti].since), Doing::Ready);
        }
        let thread = &mut self.threads[ti];
        let (from, stack) = (thread.since, thread.stack);
        let length = now.saturating_sub(from);
        thread.remember(Past { from, to: now, doing, stack });
        thread.log.push(from, now, doing, stack, woken);
        if let Some((_, at)) = woken {
            // Who had the CPU since the wake: the program's own threads, or others.
            let delay = now.saturating_sub(at);
            let (cpu, before) = (thread.cpu, thread.cpu_busy_ns);
            let busy = self.cpus.at(cpu).map_or(delay, |cpu| cpu.busy_ns(now).saturating_sub(before));
            if delay >= LONG_DELAY_NS && busy.saturating_mul(2) < delay {
                self.threads[ti].log.displaced();
            }
        }
        let thread = &mut self.threads[ti];
        // One call is a try; a second one gives the lock back.
        if doing == Doing::Plain(Plain::Sleep) && thread.file_locks == 1 {
            thread.retries += OffTime::once(length);
        }
        if !matches!(doing, Doing::Plain(Plain::Preempted | Plain::Displaced)) {
            thread.file_locks = 0;
        }
        let time = match doing {
            Doing::Plain(plain) => &mut thread.plain[plain as usize],
            Doing::Block(block) => thread.blocks.at(block),
            Doing::Futex(wait_site) => self.wait_sites[wait_site].waiters.at(ti),
            Doing::Running(_) | Doing::Ready => &mut thread.plain[Plain::Unknown as usize],
        };
        *time += OffTime::once(length);
        if let Doing::Futex(_) = doing {
            self.end_wait(ti, now, whole);
        }
    }

    pub(super) fn end_unknown(&mut self, ti: ThreadId, now: u64) {
        let thread = &mut self.threads[ti];
        let starting = thread.state == State::New && thread.forked;
        let plain = if starting { Plain::Starting } else { Plain::Unknown };
        let length = now.saturating_sub(thread.since);
        if length > 0 || starting {
            let time = &mut thread.plain[plain as usize];
            *time += OffTime::once(length);
        }
        let from = thread.since;
        thread.remember(Past { from, to: now, doing: Doing::Plain(plain), stack: None });
        thread.log.push(from, now, Doing::Plain(plain), None, None);
        thread.since = now;
    }

    /// What the thread seemed to do does not fit to what it does now: since its last event nothing is known.
    fn lose_track(&mut self, ti: ThreadId, now: u64) {
        self.trouble.contradictions += 1;
        self.forget(ti, self.threads[ti].last);
        self.end_unknown(ti, now);
    }

    /// From `since` on nothing is known of the thread.
    pub(super) fn forget(&mut self, ti: ThreadId, since: u64) {
        let thread = &self.threads[ti];
        let since = since.max(thread.since);
        match thread.state {
            State::Running => {
                self.threads[ti].whole_run = false;
                self.end_run(ti, since, false);
            }
            State::Off(doing) => self.drop_off(ti, doing, since),
            State::New | State::Unknown => self.end_unknown(ti, since),
            State::Ended => return,
        }
        self.set_active(ti, since, false);
        self.mark(ti, since, Doing::Plain(Plain::Unknown));
        let thread = &mut self.threads[ti];
        (thread.state, thread.since, thread.last) = (State::Unknown, since, since.max(thread.last));
        (thread.pending, thread.woken, thread.herd) = (Pending::None, None, None);
        (thread.returning, thread.preempted_at) = (None, None);
    }

    /// A time off the CPU that ended at an unknown moment: its certain part counts for the thread, not for the lock.
    fn drop_off(&mut self, ti: ThreadId, doing: Doing, since: u64) {
        let thread = &mut self.threads[ti];
        let length = since.saturating_sub(thread.since);
        if length > 0 {
            let plain = if let Doing::Plain(plain) = doing { plain } else { Plain::Unknown };
            thread.log.push(thread.since, since, Doing::Plain(plain), None, None);
            let time = &mut thread.plain[plain as usize];
            *time += OffTime::once(length);
        }
        if let Doing::Futex(_) = doing {
            self.end_wait(ti, since, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use holdup_trace::{CallNumber, Event, Header, NO_CPU, Pid, Stack, Stacks, Tid, What};

    use super::*;
    use crate::facts::Leaf;
    use crate::{Analysis, NoModules, Options, Reason};

    /// A thread that leaves the CPU four times without any call by name; each of the first three waits is looked at,
    /// at one of these places. How long it waited where, in microseconds; 0 is no place that is known.
    fn io_sites(looks: [u64; 3]) -> Vec<(u64, u64)> {
        let mut stacks = Stacks::new();
        let mut analysis = Analysis::new(&Header::default(), Options::default());
        let mut feed = |at: u64, what| {
            analysis.feed(&Event { time_ns: 1_000_000 + at * 1_000, tid: Tid(2), cpu: NO_CPU, what });
        };
        feed(0, What::Started { pid: Pid(2), parent: None });
        feed(1, What::SwitchIn);
        for n in 0..4 {
            let at = 10 + n * 100;
            feed(at, What::SwitchOut { off: OffCpu::Blocked, stack: None });
            if let Some(ip) = looks.get(n as usize) {
                let stack = stacks.intern(&Stack { kernel: vec![0xffff_ffff_8100_0000 + ip], ..Stack::default() });
                let found = Blocked {
                    nr: Some(CallNumber(17)),
                    file: Some("/data".into()),
                    deep: true,
                    stack: Some(stack),
                    ..Blocked::default()
                };
                feed(at + 5, What::Blocked(Box::new(found)));
            }
            feed(at + 50, What::SwitchIn);
        }
        feed(500, What::Exited);
        let facts = analysis.finish(None, &stacks, &NoModules).facts;
        let thread = facts.thread(Tid(2)).expect("the thread");
        assert_eq!(thread.off[&Reason::Io].count, 4, "the fourth is like the others");
        let at = |site: &crate::Site| site.call_path.last().map_or(0, |frame| frame.offset & 0xfff);
        let rows = facts.blame.iter().filter(|row| row.leaf == Leaf::Io);
        let mut found: Vec<(u64, u64)> = rows.map(|row| (row.site.as_ref().map_or(0, at), row.ns / 1_000)).collect();
        found.sort_unstable();
        found
    }

    #[test]
    fn a_look_says_where_a_thread_is_blocked_and_what_nobody_looked_into_is_like_most() {
        assert_eq!(io_sites([1, 1, 1]), [(1, 200)]);
        assert_eq!(io_sites([1, 2, 3]), [(0, 50), (1, 50), (2, 50), (3, 50)]);
    }

    /// For events of a machine whose calls have the numbers of x86-64.
    fn on_x86_64() -> Analysis {
        let mut header = Header::default();
        header.machine.arch = "x86_64".to_owned();
        Analysis::new(&header, Options::default())
    }

    /// Thread 3 has a semaphore of the kernel while 2 waits for it, twice; the second time it is found there, for it
    /// waits again within the same call.
    #[test]
    fn who_calls_for_an_object_of_the_kernel_lets_the_one_go_on_that_waits_for_it() {
        const SEMTIMEDOP: CallNumber = CallNumber(220);
        let mut analysis = on_x86_64();
        let mut feed = |at: u64, tid: u32, what| {
            analysis.feed(&Event { time_ns: 1_000_000 + at * 1_000, tid: Tid(tid), cpu: NO_CPU, what });
        };
        let call = || What::Call { nr: SEMTIMEDOP, stack: None };
        let out = || What::SwitchOut { off: OffCpu::Blocked, stack: None };
        for tid in [2, 3] {
            feed(0, tid, What::Started { pid: Pid(2), parent: None });
            feed(1, tid, What::SwitchIn);
        }
        feed(5, 3, call());
        feed(10, 2, call());
        feed(11, 2, out());
        feed(40, 3, call());
        feed(50, 2, What::SwitchIn);
        feed(51, 2, out());
        let found = Blocked { nr: Some(SEMTIMEDOP), addr: 7, ..Blocked::default() };
        feed(60, 2, What::Blocked(Box::new(found)));
        feed(80, 3, call());
        feed(90, 2, What::SwitchIn);
        for tid in [2, 3] {
            feed(100, tid, What::Exited);
        }
        let facts = analysis.finish(None, &Stacks::new(), &NoModules).facts;
        let [lock] = &facts.locks[..] else { panic!("{:?}", facts.locks) };
        assert_eq!((lock.waits, lock.wait_ns.sum_ns()), (2, 78_000));
        let [holder] = &lock.holders[..] else { panic!("{:?}", lock.holders) };
        assert_eq!((holder.tid, holder.count), (Tid(3), 2));
    }

    #[test]
    fn a_sleep_after_one_call_for_a_files_lock_is_before_another_try() {
        const FLOCK: CallNumber = CallNumber(73);
        let mut analysis = on_x86_64();
        let mut feed = |at: u64, what| {
            analysis.feed(&Event { time_ns: 1_000_000 + at * 1_000, tid: Tid(2), cpu: NO_CPU, what });
        };
        let call = |nr| What::Call { nr, stack: None };
        feed(0, What::Started { pid: Pid(2), parent: None });
        feed(1, What::SwitchIn);
        // It tries once, takes and gives it back, and does neither.
        for (at, calls) in [(100, 1), (200, 2), (300, 0)] {
            (0..calls).for_each(|_| feed(at, call(FLOCK)));
            feed(at + 1, call(CallNumber(230)));
            feed(at + 2, What::SwitchOut { off: OffCpu::Blocked, stack: None });
            feed(at + 52, What::SwitchIn);
        }
        feed(400, What::Exited);
        let facts = analysis.finish(None, &Stacks::new(), &NoModules).facts;
        let thread = facts.thread(Tid(2)).expect("the thread");
        assert_eq!(thread.off[&Reason::Sleep].count, 3);
        assert_eq!((thread.retries.count, thread.retries.ns), (1, 50_000));
    }
}
