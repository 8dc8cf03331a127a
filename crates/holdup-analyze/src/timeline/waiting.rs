//! Futex calls: who waits for what, and how a wait ends.

use holdup_trace::{CallNumber, FutexOp, Tid};

use super::calls::CallKind;
use super::doing::{Doing, Plain, Waker};
use super::engine::Engine;
use super::ids::{GroupId, LockId, StackKey, Table, ThreadId, WaitSiteId};
use super::lock::{Group, Kept, Lock, ObjectCall, Place, Wait, WaitSite, Waiters};
use super::tally::Tally;
use super::thread::{Past, Pending, State, Thread};
use crate::facts::OffTime;
use crate::names::{Names, SpaceId};

/// A caller that was preempted within the call returns whenever it runs again; after this nobody asks any more.
const FORGET_NS: u64 = 200_000_000;
/// A thread whose process ends has left its wait no longer than this before.
const ENDS_NS: u64 = 20_000_000;
/// Waits of one lock that may be open to the question who ended them.
const MOST_ENDED: usize = 64;
/// Calls about objects of the kernel that are remembered.
const MOST_OBJECT_CALLS: usize = 8;
/// The space of futexes that several processes may share.
const SHARED: SpaceId = SpaceId(u32::MAX);

/// The addresses that stand for what the kernel keeps: no futex is there.
pub(super) const FILE_LOCK: u64 = 8;
pub(super) const SEMAPHORE: u64 = 16;

/// The object of the kernel that such calls are about.
pub(super) fn object(kind: CallKind) -> Option<u64> {
    match kind {
        CallKind::Lock => Some(FILE_LOCK),
        CallKind::Semaphore => Some(SEMAPHORE),
        _ => None,
    }
}

impl Engine {
    /// The thread has left the call that it entered last, without a sleep.
    pub(super) fn leave_pending(&mut self, ti: ThreadId) {
        let thread = &mut self.threads[ti];
        if let Pending::Futex { wait_site, lock, .. } = std::mem::replace(&mut thread.pending, Pending::None) {
            if thread.returning == Some(lock) {
                // It slept, and returned without a word: the lock was handed to it.
                return;
            }
            let wait_site = &mut self.wait_sites[wait_site];
            wait_site.eagain += 1;
            self.groups[wait_site.group].eagain += 1;
            if let Some(group) = wait_site.place_group {
                self.groups[group].eagain += 1;
            }
        }
    }

    pub(super) fn call(&mut self, ti: ThreadId, nr: CallNumber, stack: Option<StackKey>, now: u64, names: &Names) {
        self.leave_pending(ti);
        *self.call_counts.at(nr) += 1;
        let kind = self.calls.kind(nr);
        // Whoever asks later what the thread did takes the space as it is known then.
        let space = self.space(ti, names);
        if kind == CallKind::Yield && stack.is_some() {
            *self.yields.at(Place { space, stack }) += 1;
        }
        if kind == CallKind::Lock {
            self.threads[ti].file_locks += 1;
        }
        if let Some(object) = object(kind) {
            self.object_calls.truncate(MOST_OBJECT_CALLS - 1);
            self.object_calls.insert(0, ObjectCall { object, thread: ti, at: now, place: Place { space, stack } });
        }
        self.threads[ti].pending = Pending::Call { kind, stack };
    }

    pub(super) fn futex_wait(&mut self, ti: ThreadId, op: FutexOp, addr: u64, stack: Option<StackKey>, names: &Names) {
        self.leave_pending(ti);
        let space = self.space(ti, names);
        let lock = self.lock(space, op, addr, ti);
        let wait_site = self.wait_site(lock, op, Place { space, stack });
        let thread = &mut self.threads[ti];
        thread.returning = None;
        thread.pending = Pending::Futex { wait_site, lock, stack };
    }

    /// A wait for something that the kernel keeps for all processes, such as the lock of a file: which one is not
    /// known.
    pub(super) fn kernel_object(
        &mut self,
        ti: ThreadId,
        addr: u64,
        stack: Option<StackKey>,
        names: &Names,
    ) -> WaitSiteId {
        let space = self.space(ti, names);
        let lock = self.lock(space, FutexOp(FutexOp::WAIT), addr, ti);
        self.wait_site(lock, FutexOp(FutexOp::WAIT), Place { space, stack })
    }

    pub(super) fn lock(&mut self, space: SpaceId, op: FutexOp, addr: u64, ti: ThreadId) -> LockId {
        let key = (if op.is_private() || op.command() >= FutexOp::WAITV { space } else { SHARED }, addr);
        let next = self.locks.next();
        let lock = *self.lock_index.entry(key).or_insert(next);
        if lock == next {
            self.locks.push(Lock::new(space, addr, ti));
        }
        lock
    }

    pub(super) fn wait_site(&mut self, lock: LockId, op: FutexOp, place: Place) -> WaitSiteId {
        let next = self.wait_sites.next();
        let wait_site = *self.wait_site_index.entry((lock, op.command(), place.stack)).or_insert(next);
        if wait_site == next {
            let group = self.group(lock, op.command());
            let waiters = Tally::default();
            let wait_site = WaitSite { lock, op, place, group, place_group: None, waiters, eagain: 0 };
            self.wait_sites.push(wait_site);
        }
        wait_site
    }

    fn group(&mut self, lock: LockId, op: u32) -> GroupId {
        let known = self.locks[lock].groups.iter().find(|(known, _)| *known == op);
        if let Some((_, group)) = known {
            return *group;
        }
        let group = self.groups.push(Group::new(lock, op, false));
        self.locks[lock].groups.push((op, group));
        group
    }

    /// The group of a place, as long as the futex may be a word of the waiting thread instead of the lock.
    fn place_group(&mut self, wait_site: WaitSiteId, ti: ThreadId) -> Option<GroupId> {
        let WaitSite { lock, op, place, .. } = self.wait_sites[wait_site];
        let (only, waiters) = (Waiters::One(ti), &mut self.locks[lock].waiters);
        *waiters = if matches!(*waiters, Waiters::None) || *waiters == only { only } else { Waiters::Several };
        let plain = matches!(op.command(), FutexOp::WAIT | FutexOp::WAIT_BITSET);
        if *waiters != only || !plain || place.stack.is_none() {
            return None;
        }
        let next = self.groups.next();
        let group = *self.place_groups.entry(place).or_insert(next);
        if group == next {
            self.groups.push(Group::new(lock, op.command(), true));
        }
        self.wait_sites[wait_site].place_group = Some(group);
        Some(group)
    }

    pub(super) fn begin_wait(&mut self, ti: ThreadId, wait_site: WaitSiteId, now: u64, run: Option<u64>) {
        let WaitSite { lock, group, .. } = self.wait_sites[wait_site];
        let place_group = self.place_group(wait_site, ti);
        for group in [Some(group), place_group].into_iter().flatten() {
            self.groups[group].not_taken(ti, now);
            self.groups[group].begin(now, run);
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
        self.locks[lock].waiting.push_back(wait);
        self.threads[ti].queue = Some(lock);
    }

    /// The thread runs again, or (if not `whole`) nobody knows since when it does.
    pub(super) fn end_wait(&mut self, ti: ThreadId, now: u64, whole: bool) {
        let thread = &mut self.threads[ti];
        let Some(lock) = thread.queue.take() else { return };
        thread.returning = whole.then_some(lock);
        if let Pending::Futex { wait_site, .. } = thread.pending {
            let command = self.wait_sites[wait_site].op.command();
            // Who waits for a lock with priority inheritance may be woken and lose it again within the call.
            if !matches!(command, FutexOp::LOCK_PI | FutexOp::LOCK_PI2) {
                thread.pending = Pending::None;
            }
        }
        let queue = &mut self.locks[lock].waiting;
        let Some(at) = queue.iter().position(|wait| wait.thread == ti) else { return };
        let Some(mut wait) = queue.remove(at) else { return };
        wait.to = now;
        for group in wait.groups() {
            self.groups[group].end(ti, wait.from, now, whole);
        }
        if whole {
            self.wait_ended(lock, wait, now);
        }
    }

    fn wait_ended(&mut self, lock: LockId, wait: Wait, now: u64) {
        if self.is_sampled {
            if let Some((holder, _)) = wait.waker {
                self.threads[wait.thread].log.set_waker(wait.from, (holder, now));
            }
            return self.settle_sampled(lock, &wait);
        }
        if wait.claimed || (wait.waker.is_some() && self.capabilities.wakings) {
            self.settle(lock, wait);
            if wait.claimed {
                return;
            }
        }
        self.expire(lock, now);
        let ended = &mut self.locks[lock].ended;
        ended.push_back(wait);
    }

    /// Waits that nobody will answer for any more.
    fn expire(&mut self, lock: LockId, now: u64) {
        loop {
            let ended = &mut self.locks[lock].ended;
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
    fn settle_late(&mut self, lock: LockId, mut wait: Wait) {
        if wait.waker.is_some() {
            return;
        }
        if !wait.unwoken {
            let waiting = &mut self.locks[lock].waiting;
            let wrong = waiting.iter_mut().find(|other| other.waker.is_some_and(|(_, at)| at <= wait.to));
            if let Some(other) = wrong {
                wait.waker = other.waker.take();
                wait.released_before = other.released_before;
                let thread = other.thread;
                other.claimed = false;
                self.threads[thread].woken = None;
            }
        }
        self.settle(lock, wait);
    }

    /// All about a wait is known: what its holder did meanwhile.
    pub(super) fn settle(&mut self, lock: LockId, wait: Wait) {
        let waker = wait.waker.or(wait.unwoken.then_some((Waker::Timeout, wait.to)));
        if let Some(waker) = waker {
            self.threads[wait.thread].log.set_waker(wait.from, waker);
        }
        for group in wait.groups() {
            self.settle_in(group, lock, &wait);
        }
    }

    /// Where nobody is seen to wake anybody: divides a wait among those who had the lock meanwhile, the last one first.
    /// Who has waited for it has it next, and so has whoever a look finds in its word.
    fn settle_sampled(&mut self, lock: LockId, wait: &Wait) {
        for group in wait.groups() {
            let takers: Vec<(ThreadId, u64)> = self.groups[group].takers.iter().rev().copied().collect();
            let (mut until, mut known_ns) = (wait.to, 0);
            for (at, (taker, took)) in (1..).zip(&takers) {
                // Who is the first that is known is believed to have had it from the beginning.
                let from = if at == takers.len() { wait.from } else { (*took).max(wait.from) };
                // The moments at which looks place the ends of waits are not exact: who waits has given it away.
                let holder =
                    if *taker == wait.thread { takers[..at].iter().rev().nth(1) } else { Some(&takers[at - 1]) };
                if let Some((holder, _)) = holder.filter(|_| from < until) {
                    known_ns += until - from;
                    *self.groups[group].holders.at(Waker::Thread(*holder)) += OffTime::once(until - from);
                    self.divide(group, lock, (*holder, wait.thread), (from, until));
                }
                until = until.min(from);
            }
            let group = &mut self.groups[group];
            group.unknown_ns += wait.to.saturating_sub(wait.from).saturating_sub(known_ns);
            group.taken(wait.thread, wait.to);
        }
    }

    fn settle_in(&mut self, group: GroupId, lock: LockId, wait: &Wait) {
        let length = wait.to.saturating_sub(wait.from);
        let sums = &mut self.groups[group];
        let Some((waker, woken_at)) = wait.waker else {
            sums.unknown_ns += length;
            return;
        };
        *sums.holders.at(waker) += OffTime::once(length);
        let Some(waker) = waker.thread() else {
            sums.unknown_ns += length;
            return;
        };
        let from = wait.from.max(wait.released_before);
        self.divide(group, lock, (waker, wait.thread), (from, woken_at.min(wait.to)));
    }

    /// Divides what a holder did for a part of another's wait.
    fn divide(&mut self, group: GroupId, lock: LockId, (holder, waiter): (ThreadId, ThreadId), (from, to): (u64, u64)) {
        let (group, thread) = (&mut self.groups[group], &self.threads[holder]);
        let without_cpu = split(group, thread, &self.wait_sites, lock, from, to);
        let priorities = thread.priority.zip(self.threads[waiter].priority);
        if without_cpu > 0 && priorities.is_some_and(|(holder, waiter)| holder > waiter) {
            group.inversions += OffTime::once(without_cpu);
        }
    }

    /// The lock at an address of a thread's process, if anybody waited there.
    pub(super) fn known_lock(&self, tid: Tid, addr: u64, names: &Names) -> Option<LockId> {
        let keys = [(names.space(tid), addr), (SHARED, addr)];
        keys.iter().find_map(|key| self.lock_index.get(key)).copied()
    }

    pub(super) fn lock_word(&mut self, tid: Tid, now: u64, addr: u64, [word, owner]: [u32; 2], names: &Names) {
        let Some(lock) = self.known_lock(tid, addr, names) else { return };
        // 2 is "held, and others wait" of glibc and Rust; the highest bit says the same for locks with priority
        // inheritance.
        let contended = word == 2 || word & 0x8000_0000 != 0;
        let seen = &mut self.locks[lock].words;
        seen.looks += 1;
        seen.held += u64::from(word != 0);
        seen.contended += u64::from(contended);
        seen.counts += u64::from(word > 1 && !contended);
        let named = self.index.get(&Tid(owner)).copied().filter(|_| word != 0);
        let holder = named.filter(|holder| self.may_have(*holder, lock));
        self.locks[lock].owner = holder.map(|holder| (holder, now));
        if !self.is_sampled {
            return;
        }
        if let Some(holder) = holder {
            self.held_by(lock, holder, now);
        }
        if let Some(named) = named {
            self.found_with(lock, named, tid.0 == owner);
        }
    }

    /// A look found that a thread has the lock. If it was looked at as well and has the lock still, this it does with
    /// it; if not, it was about to release it, and so it ran.
    fn found_with(&mut self, lock: LockId, holder: ThreadId, is_looked_at: bool) {
        let thread = &self.threads[holder];
        let doing = match thread.state {
            State::Off(doing) if is_looked_at => doing,
            _ => Doing::Running(0),
        };
        if matches!(doing, Doing::Futex(wait_site) if self.wait_sites[wait_site].lock == lock) {
            return;
        }
        let place = Place { space: thread.space, stack: thread.stack };
        let is_off = !matches!(doing, Doing::Running(_)) && place.stack.is_some();
        *self.locks[lock].held.at(doing) += 1;
        if is_off {
            *self.locks[lock].held_at.at(place) += 1;
        }
    }

    /// Whether a thread is of a process that uses the lock.
    fn may_have(&self, thread: ThreadId, lock: LockId) -> bool {
        let Lock { thread: user, addr, .. } = self.locks[lock];
        let is_shared = self.lock_index.get(&(SHARED, addr)) == Some(&lock);
        is_shared || self.threads[thread].pid == self.threads[user].pid
    }

    /// The recording is over: who was found to have a lock, and has not released it since, has it still, and those who
    /// wait for it wait for that thread.
    pub(super) fn keep(&mut self, lock: LockId, end: u64) {
        let of = &mut self.locks[lock];
        let Some((holder, seen)) = of.owner.filter(|(_, seen)| *seen >= of.released) else { return };
        let mut waiters = Vec::new();
        for wait in of.waiting.iter_mut().filter(|wait| wait.from <= seen && !wait.claimed) {
            waiters.push((wait.thread, wait.from));
            (wait.waker, wait.claimed) = (Some((Waker::Thread(holder), end)), true);
        }
        if !waiters.is_empty() {
            of.kept = Some(Kept { holder, has_ended: self.threads[holder].exited, waiters });
        }
    }

    /// A thread ends as soon as its wait for a lock is over, though nobody has released the lock: its process ends, and
    /// until then it waited for who was found to have the lock. Where threads are only looked at, releases are not
    /// seen.
    pub(super) fn keep_of_ended(&mut self, ti: ThreadId, now: u64) {
        if self.is_sampled {
            return;
        }
        let Some(stay) = self.threads[ti].log.stays().last().copied() else { return };
        let Doing::Futex(wait_site) = stay.doing() else { return };
        let lock = self.wait_sites[wait_site].lock;
        let (owner, released) = (self.locks[lock].owner, self.locks[lock].released);
        let Some((holder, _)) = owner.filter(|(_, seen)| *seen >= released.max(stay.from)) else { return };
        if holder == ti || now.saturating_sub(stay.to) > ENDS_NS {
            return;
        }
        self.threads[ti].log.set_waker(stay.from, (Waker::Thread(holder), stay.to));
        let thread = &self.threads[holder];
        let has_ended = thread.exited && thread.last.saturating_add(ENDS_NS) < now;
        let kept = self.locks[lock].kept.get_or_insert(Kept { holder, has_ended, waiters: Vec::new() });
        if kept.holder == holder {
            kept.waiters.push((ti, stay.from));
        }
    }

    /// Where nothing else tells who ends a wait: the thread that had the lock when it was looked at last.
    fn held_by(&mut self, lock: LockId, holder: ThreadId, now: u64) {
        for wait in &mut self.locks[lock].waiting {
            if wait.thread != holder {
                wait.waker = Some((Waker::Thread(holder), wait.from));
            }
        }
        for (_, group) in &self.locks[lock].groups {
            self.groups[*group].taken(holder, now);
        }
    }
}

/// Divides the time of a holder among what it did. Its own wait for the same lock ends the look back. Returns how long
/// it wanted a CPU and had none.
fn split(
    group: &mut Group,
    thread: &Thread,
    wait_sites: &Table<WaitSiteId, WaitSite>,
    lock: LockId,
    from: u64,
    to: u64,
) -> u64 {
    let state = match thread.state {
        State::Running => Some(Doing::Running(thread.cpu)),
        State::Off(doing) => Some(doing),
        _ => None,
    };
    let current = state.map(|doing| Past { from: thread.since, to: u64::MAX, doing, stack: thread.stack });
    let mut rest = to;
    let mut without_cpu = 0;
    for past in current.into_iter().chain(thread.past.iter().rev().copied()) {
        let begin = past.from.max(from);
        let length = past.to.min(rest).saturating_sub(begin);
        if past.from >= rest {
            continue;
        }
        match past.doing {
            Doing::Running(_) => group.running_ns += length,
            Doing::Futex(wait_site) if wait_sites[wait_site].lock == lock => return without_cpu,
            doing => {
                let is_taken = matches!(doing, Doing::Plain(Plain::Preempted | Plain::Displaced));
                without_cpu += if is_taken { length } else { 0 };
                *group.off.at(doing) += length;
                if past.stack.is_some() && length > 0 {
                    *group.off_sites.at(Place { space: thread.space, stack: past.stack }) += OffTime::once(length);
                }
            }
        }
        rest = begin;
        if rest <= from {
            return without_cpu;
        }
    }
    group.unknown_ns += rest.saturating_sub(from);
    without_cpu
}
