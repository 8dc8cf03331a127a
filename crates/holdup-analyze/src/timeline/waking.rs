//! Who wakes whom, and hands over to whom.

use holdup_trace::{FutexOp, Tid};

use super::Wake;
use super::doing::{Doing, Plain, Waker};
use super::engine::Engine;
use super::ids::{GroupId, LockId, StackKey, ThreadId};
use super::lock::{ObjectCall, Place, Wait};
use super::pairs::HandOver;
use super::thread::{Pending, State};
use crate::names::{Names, SpaceId};

/// A woken thread may be seen to run before the call that woke it is seen to return, by so much.
const LATE_NS: u64 = 300_000;
/// Two threads hand over without a recorded wake if one leaves the CPU and the other gets one within this time.
const IN_TURN_NS: u64 = 100_000;
/// A thread that is about to leave the CPU to wait may be seen to be woken before it is seen to leave, by so much.
const EARLY_NS: u64 = 5_000;
/// A woken thread that takes the waker's CPU does so within this time.
const DISPLACE_NS: u64 = 50_000;
/// A thread that was woken with others and waits again after running no longer than this was woken for nothing.
pub(super) const HERD_RUN_NS: u64 = 50_000;

impl Engine {
    #[expect(clippy::too_many_arguments, reason = "the parts of one event")]
    pub(super) fn futex_return(
        &mut self,
        ti: ThreadId,
        now: u64,
        op: FutexOp,
        addr: u64,
        ret: i32,
        stack: Option<StackKey>,
        names: &Names,
    ) {
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
        if requeues && !self.locks[lock].waiting.is_empty() {
            self.locks[lock].moved = true;
            if !self.moved.contains(&lock) {
                self.moved.push(lock);
            }
        }
        self.count_wake(ti, lock, (ret, wants as u32), found, place, (requeues, unlocks_pi));
        self.locks[lock].released = now;
    }

    /// A call that waits returned: the last word on how the wait ended.
    fn wait_returned(&mut self, ti: ThreadId, ret: i32) {
        const EINTR: i32 = -4;
        const ETIMEDOUT: i32 = -110;
        let thread = &mut self.threads[ti];
        let lock = thread.returning.take();
        let pending = thread.pending;
        if let Pending::Futex { wait_site, .. } = pending {
            if lock.is_none() {
                let group = self.wait_sites[wait_site].group;
                self.groups[group].timeouts += u64::from(ret == ETIMEDOUT);
                return self.leave_pending(ti);
            }
            self.threads[ti].pending = Pending::None;
        }
        let Some(lock) = lock.filter(|_| ret < 0) else { return };
        let ended = &mut self.locks[lock].ended;
        let Some(wait) = ended.iter_mut().rev().find(|wait| wait.thread == ti) else { return };
        wait.unwoken = matches!(ret, EINTR | ETIMEDOUT);
        if wait.unwoken {
            // A signal ends a wait as well: that of a thread that is killed as its process exits, above all.
            let by = if ret == ETIMEDOUT { Waker::Timeout } else { Waker::Outside };
            self.threads[ti].log.set_waker(wait.from, (by, wait.to));
        }
        for group in wait.groups().filter(|_| ret == ETIMEDOUT) {
            self.groups[group].timeouts += 1;
        }
    }

    /// Finds whom a call woke, first among those who ran already, then in the order of the queue. Returns how many, and
    /// in which group.
    fn wake(&mut self, ti: ThreadId, lock: LockId, now: u64, wants: u32, place: Place) -> (u32, Option<GroupId>) {
        let mut found = (0, None);
        while found.0 < wants {
            let next = self.wake_ended(ti, lock, now, place).or_else(|| self.wake_waiting(ti, lock, now, place));
            let next = next.or_else(|| self.wake_moved(ti, lock, now, place));
            let Some((group, thread)) = next else { break };
            found = (found.0 + 1, Some(group));
            if wants >= 2 {
                self.join_herd(thread, group);
            }
        }
        found
    }

    /// One that ran already when the call returned.
    fn wake_ended(&mut self, ti: ThreadId, lock: LockId, now: u64, place: Place) -> Option<(GroupId, ThreadId)> {
        let waker = &self.threads[ti];
        // Whom it woke may have taken its CPU: then the call returns as soon as it has one again.
        let resumed = now.saturating_sub(waker.since) <= LATE_NS;
        let around = waker.preempted_at.filter(|_| resumed).unwrap_or(now).min(now);
        let earliest = around.saturating_sub(LATE_NS);
        let released = self.locks[lock].released;
        let exact = self.capabilities.wakings;
        let fits = |wait: &Wait| match wait.waker {
            Some((waker, _)) => exact && waker == Waker::Thread(ti) && !wait.claimed,
            None => !exact && !wait.unwoken && wait.to >= earliest && wait.to <= now && wait.thread != ti,
        };
        let ended = &self.locks[lock].ended;
        let candidates = ended.iter().enumerate().rev().filter(|(_, wait)| fits(wait));
        let (at, _) = candidates.min_by_key(|(_, wait)| wait.to.abs_diff(around))?;
        let mut wait = self.locks[lock].ended.remove(at)?;
        if wait.waker.is_none() {
            wait.waker = Some((Waker::Thread(ti), wait.to));
            wait.released_before = released.min(wait.to);
            self.settle(lock, wait);
            self.hand_over(ti, wait.thread, wait.to, place);
            let displaced = self.threads[ti].preempted_at.filter(|_| resumed);
            if displaced.is_some_and(|at| at.abs_diff(wait.to) <= DISPLACE_NS) {
                self.give_back(ti, wait.thread, now);
            }
        }
        Some((wait.group, wait.thread))
    }

    /// The next in the queue.
    fn wake_waiting(&mut self, ti: ThreadId, lock: LockId, now: u64, place: Place) -> Option<(GroupId, ThreadId)> {
        let exact = self.capabilities.wakings;
        let released = self.locks[lock].released;
        let wait = self.locks[lock].waiting.iter_mut().find(|wait| match wait.waker {
            Some((waker, _)) => exact && waker == Waker::Thread(ti) && !wait.claimed,
            None => !exact,
        })?;
        wait.claimed = true;
        let (thread, group, first) = (wait.thread, wait.group, wait.waker.is_none());
        if first {
            let at = now.max(wait.from);
            wait.waker = Some((Waker::Thread(ti), at));
            wait.released_before = released;
            self.threads[thread].woken = Some((Waker::Thread(ti), at));
            self.set_active(thread, at, true);
            self.hand_over(ti, thread, at, place);
        }
        Some((group, thread))
    }

    /// One that was moved here from another address.
    fn wake_moved(&mut self, ti: ThreadId, lock: LockId, now: u64, place: Place) -> Option<(GroupId, ThreadId)> {
        let space = self.locks[lock].space;
        let mut index = 0;
        while index < self.moved.len() {
            let other = self.moved[index];
            let from = &self.locks[other];
            if from.waiting.is_empty() {
                self.locks[other].moved = false;
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
        ti: ThreadId,
        lock: LockId,
        (ret, wants): (i32, u32),
        (found, group): (u32, Option<GroupId>),
        place: Place,
        (requeues, unlocks_pi): (bool, bool),
    ) {
        if ret == 0 && !unlocks_pi {
            if !requeues {
                self.wasted_wakes += self.zero_weight;
                self.locks[lock].wasted += self.zero_weight;
            }
            return;
        }
        if unlocks_pi && found == 0 {
            return;
        }
        self.threads[ti].wakes += 1;
        let woken = self.threads[ti].unplaced.take();
        if let Some(woken) = woken.filter(|_| place.stack.is_some()) {
            self.pairs.place(ti, woken, place);
        }
        // Whom it woke may be unknown (it did not sleep yet): then it counts for the lock's first way to wait.
        let first = || self.locks[lock].groups.first().map(|(_, group)| *group);
        let Some(group) = group.or_else(first) else { return };
        let group = &mut self.groups[group];
        group.wakes += 1;
        if place.stack.is_some() {
            *group.wake_sites.at(place) += 1;
        }
        if wants >= 2 {
            group.herds.calls += 1;
            group.herds.woken += u64::from(wants);
        }
    }

    fn join_herd(&mut self, thread: ThreadId, group: GroupId) {
        let thread = &mut self.threads[thread];
        let (from, to, futex) = thread.last_run;
        let ran_already = matches!(thread.state, State::Off(_)) && thread.woken.is_none();
        if ran_already && futex && to.saturating_sub(from) <= HERD_RUN_NS {
            self.groups[group].herds.back_to_sleep += 1;
        } else if !ran_already {
            thread.herd = Some(group);
        }
    }

    /// A thread that was woken with others leaves the CPU again.
    pub(super) fn herd_again(&mut self, ti: ThreadId, futex: bool, run: Option<u64>) {
        let herd = self.threads[ti].herd.take();
        if let Some(herd) = herd.filter(|_| futex && run.is_some_and(|run| run <= HERD_RUN_NS)) {
            self.groups[herd].herds.back_to_sleep += 1;
        }
    }

    /// The kernel says who woke whom.
    pub(super) fn waking(&mut self, tid: Tid, target: Tid, stack: Option<StackKey>, now: u64, cpu: u16, names: &Names) {
        let waker = self.index.get(&tid).copied();
        if let Some(ti) = waker {
            let at = self.seen_running(ti, now, cpu);
            self.threads[ti].last = at;
        }
        let Some(woken) = self.index.get(&target).copied() else { return };
        let place = Place { space: waker.map_or(self.threads[woken].space, |ti| self.space(ti, names)), stack };
        match self.threads[woken].state {
            State::Off(_) => self.wakes(waker, woken, now, place),
            _ => self.threads[woken].woken_early = Some((waker, now, place)),
        }
    }

    /// A thread has left the CPU: if it is to wait, it may have been woken on the way.
    pub(super) fn woken_on_the_way(&mut self, ti: ThreadId, now: u64) {
        let early = self.threads[ti].woken_early.take();
        if let Some((waker, _, place)) = early.filter(|(_, at, _)| now.saturating_sub(*at) <= EARLY_NS) {
            self.wakes(waker, ti, now, place);
        }
    }

    fn wakes(&mut self, waker: Option<ThreadId>, woken: ThreadId, now: u64, place: Place) {
        let thread = &mut self.threads[woken];
        let State::Off(doing) = thread.state else { return };
        if thread.woken.is_some() || doing == Doing::Plain(Plain::Preempted) {
            return;
        }
        let at = now.max(thread.since);
        // A device or a timer wakes by an interrupt: whoever runs just then has nothing to do with it.
        let by_interrupt = match doing {
            Doing::Plain(Plain::Sleep | Plain::Io | Plain::PageFault) => true,
            Doing::Block(block) => self.blocks[block].deep,
            _ => false,
        };
        let waker = waker.filter(|_| !by_interrupt);
        let by = waker.map_or(Waker::Outside, Waker::Thread);
        thread.woken = Some((by, at));
        let home = thread.cpu;
        let queue = thread.queue;
        let busy = self.cpus.at(home).map_or(0, |cpu| cpu.busy_ns(at));
        self.threads[woken].cpu_busy_ns = busy;
        self.set_active(woken, at, true);
        if let Some(queue) = queue {
            self.ends_wait(queue, woken, by, at);
        }
        if let Some(ti) = waker {
            self.hand_over(ti, woken, at, place);
        }
    }

    /// Where the kernel does not say who wakes whom: the thread that was last to call for such an object, since this
    /// one waits for it, has let it go on.
    pub(super) fn woken_by_call(&mut self, ti: ThreadId, doing: Doing) {
        let thread = &self.threads[ti];
        let Doing::Futex(wait_site) = doing else { return };
        if self.capabilities.wakings || thread.woken.is_some() {
            return;
        }
        let (queue, since) = (self.wait_sites[wait_site].lock, thread.since);
        let object = self.locks[queue].addr;
        let lets_go = |call: &&ObjectCall| call.object == object && call.thread != ti && call.at >= since;
        let Some(ObjectCall { thread: by, at, place, .. }) = self.object_calls.iter().find(lets_go).copied() else {
            return;
        };
        self.threads[ti].woken = Some((Waker::Thread(by), at));
        if let Some(wait) = self.ends_wait(queue, ti, Waker::Thread(by), at) {
            wait.claimed = true;
        }
        self.pair(by, ti, at, place, true);
    }

    /// Who ended the wait of a thread in this queue, and when.
    fn ends_wait(&mut self, queue: LockId, woken: ThreadId, by: Waker, at: u64) -> Option<&mut Wait> {
        let lock = &mut self.locks[queue];
        let wait = lock.waiting.iter_mut().find(|wait| wait.thread == woken)?;
        (wait.waker, wait.released_before) = (Some((by, at)), lock.released);
        Some(wait)
    }

    fn hand_over(&mut self, from: ThreadId, to: ThreadId, at: u64, place: Place) {
        self.pair(from, to, at, place, false);
        self.threads[from].unplaced = (place.stack.is_none()).then_some(to);
        if self.keep {
            let (from, to) = (self.threads[from].tid, self.threads[to].tid);
            self.wakes.push(Wake { time_ns: at, from, to });
        }
    }

    fn pair(&mut self, from: ThreadId, to: ThreadId, at: u64, place: Place, inferred: bool) {
        let waker = &self.threads[from];
        let on_cpu = waker.on_cpu_until(at);
        let run = waker.woken_by.filter(|(by, _)| *by == to).map(|(_, at)| on_cpu.saturating_sub(at));
        self.pairs.add(HandOver { from, to, at, place, run, inferred });
        let woken = &mut self.threads[to];
        woken.woken_by = Some((from, woken.on_cpu_at(at)));
        self.threads[from].last_woke = Some((to, at));
    }

    /// A thread runs again after it was preempted: perhaps by whom it woke right before.
    pub(super) fn given_back(&mut self, ti: ThreadId, doing: Doing, now: u64) {
        let thread = &self.threads[ti];
        let Some((woken, at)) = thread.last_woke else { return };
        let displaced = doing == Doing::Plain(Plain::Preempted) && thread.since.saturating_sub(at) <= DISPLACE_NS;
        if displaced && thread.since >= at {
            self.give_back(ti, woken, now);
        }
    }

    /// If the woken thread, which took the waker's CPU, has blocked since, both have had their turn.
    fn give_back(&mut self, waker: ThreadId, woken: ThreadId, now: u64) {
        let other = &self.threads[woken];
        let at = self.threads[waker].last_woke.map_or(0, |(_, at)| at);
        let State::Off(doing) = other.state else { return };
        let ran = other.last_run.0 >= at && other.woken.is_none();
        if !ran || matches!(doing, Doing::Plain(Plain::Preempted | Plain::Yielded)) {
            return;
        }
        self.pairs.give_back(waker, woken);
        let thread = &mut self.threads[waker];
        thread.woken_by = Some((woken, thread.on_cpu_at(now.min(thread.since))));
        thread.last_woke = None;
    }

    /// A thread blocks in a call that says nothing: who ran just before it, without a reason that is known, may be whom
    /// it woke.
    pub(super) fn block_in_turn(&mut self, ti: ThreadId, now: u64, names: &Names) {
        self.threads[ti].silent_blocks += 1;
        if self.capabilities.wakings {
            return;
        }
        let place = Place { space: self.space(ti, names), stack: self.threads[ti].stack };
        let other = self.silent_in.take();
        match other {
            Some((other, at)) if other != ti && now.saturating_sub(at) <= IN_TURN_NS => {
                self.pair(ti, other, at, place, true);
            }
            _ => self.silent_out = Some((ti, now)),
        }
    }

    /// A thread runs after such a call: who just blocked may have woken it.
    pub(super) fn in_turn(&mut self, ti: ThreadId, doing: Doing, now: u64) {
        let silent = matches!(doing, Doing::Block(_) | Doing::Plain(Plain::OtherCall));
        if !silent || self.capabilities.wakings {
            return;
        }
        match self.silent_out.take() {
            Some((other, at)) if other != ti && now.saturating_sub(at) <= IN_TURN_NS => {
                let place = Place { space: SpaceId::default(), stack: None };
                self.pair(other, ti, now, place, true);
            }
            _ => self.silent_in = Some((ti, now)),
        }
    }
}
