//! Records of locks in the figures: which one a mutex has, what goes into it.
//!
//! # Memory orderings
//! A thread fills in a record, which is nobody else's yet, and then puts its number into the mutex with Release; every
//! other takes the number from there with Acquire, which carries the record's fields that are no atomics. x86-64 orders
//! both by itself, so no test here can fail. Figures are Relaxed: each counts for itself.

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use holdup_control::{
    self as control, Durations, Figures, KIND_OPENMP, KIND_RWLOCK, KIND_SEMAPHORE, KIND_SPIN, LOCKS, LockRecord,
    MODULES, Policy, SITES,
};

use super::mutex::Mutex;
use super::process::Process;
use super::thread::{Thread, add};
use super::{beside, clock, kernel, modules, sites};

/// `Mutex::record` while a thread makes it.
const BEING_MADE: u16 = u16::MAX;
/// `LockRecord::policy` of a lock that follows the settings.
const FOLLOWS: u32 = u32::MAX;

/// One record, and what this process keeps beside it.
#[derive(Clone, Copy)]
pub struct Record {
    lock: &'static LockRecord,
    hold_began: &'static AtomicU64,
    shared: bool,
}

/// The record of a mutex, made if it has none yet; none while another thread makes it.
pub fn of(process: &'static Process, mutex: &Mutex, site: usize) -> Option<Record> {
    let id = mutex.record.load(Ordering::Acquire);
    if let Some(record) = valid(process, mutex, id) {
        return Some(record);
    }
    if id == BEING_MADE || mutex.record.compare_exchange(id, BEING_MADE, Ordering::Relaxed, Ordering::Relaxed).is_err()
    {
        return None;
    }
    let kind = beside::address_of(mutex).map_or(mutex.kind.load(Ordering::Relaxed), |_| KIND_OPENMP);
    let at = make(process, address(mutex), kind, sites::place(mutex.init.load(Ordering::Relaxed)), site);
    mutex.record.store(at as u16 + 1, Ordering::Release);
    Some(at_place(process, at))
}

/// The record that a mutex has.
pub fn existing(process: &'static Process, mutex: &Mutex) -> Option<Record> {
    valid(process, mutex, mutex.record.load(Ordering::Acquire))
}

/// The number of the record that a mutex at this address, initialised at this place, had before.
pub fn of_predecessor(process: &'static Process, mutex: &Mutex, site: usize) -> Option<u16> {
    let id = mutex.record.load(Ordering::Relaxed);
    let record = valid(process, mutex, id)?;
    (!record.shared && record.lock.init_site == site as u64).then_some(id)
}

/// A mutex is destroyed: what its record does not count yet is added.
pub fn settle(process: &'static Process, mutex: &Mutex) {
    let tally = mutex.tally.swap(0, Ordering::Relaxed);
    if let Some(record) = existing(process, mutex) {
        record.add_acquisitions(u64::from(rest(tally, process.between_ticks())));
    }
}

/// The process ends: what the records do not count yet is added, of the mutexes that still are where they were.
pub fn settle_all(process: &'static Process) {
    let figures = process.figures();
    let len = figures.locks_len.load(Ordering::Relaxed) as usize;
    for (at, lock) in figures.locks[..len.min(LOCKS - 1)].iter().enumerate() {
        let addr = lock.addr.load(Ordering::Relaxed);
        let mutex = match lock.kind {
            KIND_OPENMP => beside::mutex_of(addr),
            KIND_RWLOCK | KIND_SPIN | KIND_SEMAPHORE => None,
            _ => still_there(addr),
        };
        let Some(mutex) = mutex else { continue };
        if usize::from(mutex.record.load(Ordering::Relaxed)) == at + 1 {
            lock.acquisitions.fetch_add(
                u64::from(rest(mutex.tally.load(Ordering::Relaxed), process.between_ticks())),
                Ordering::Relaxed,
            );
        }
    }
}

/// What was a mutex at an address, if its memory is still there. The kernel is asked by a futex call that does not
/// sleep: a program may have forbidden itself all calls but those that it makes, and one with locks makes this one.
fn still_there(addr: u64) -> Option<&'static Mutex> {
    let last = addr + (size_of::<Mutex>() - size_of::<u32>()) as u64;
    let there = [addr, last].into_iter().all(|word| kernel::can_read(word as *const AtomicU32));
    // SAFETY: all of it can be read, for it spans two pages at most, and every value of it is valid. A thread that
    // still runs may take the memory away between the two lines, as it may under glibc's own lists at this time.
    there.then(|| unsafe { &*(addr as *const Mutex) })
}

/// In the child of a fork: new figures know the same locks and modules, with nothing counted.
///
/// # Safety
/// Both are mapped; nobody else writes either.
pub unsafe fn copy_identities(from: *const Figures, to: *mut Figures) {
    // SAFETY: the caller's promise; the fields of `to` that are no atomics are written through its pointer.
    unsafe {
        let old = &*from;
        let locks = old.locks_len.load(Ordering::Relaxed).min(LOCKS as u32 - 1);
        for (at, lock) in old.locks[..locks as usize].iter().enumerate() {
            let new = &raw mut (*to).locks[at];
            (&raw mut (*new).kind).write(lock.kind);
            (&raw mut (*new).init_site).write(lock.init_site);
            (&raw mut (*new).first_site).write(lock.first_site);
            for (old, new) in [(&lock.policy, &raw const (*new).policy), (&lock.tripped, &raw const (*new).tripped)] {
                (*new).store(old.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            for (old, new) in [(&lock.wait, &raw const (*new).wait), (&lock.hold, &raw const (*new).hold)] {
                (*new).scale.store(old.scale.load(Ordering::Relaxed), Ordering::Relaxed);
            }
            (*new).addr.store(lock.addr.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        (*to).locks_len.store(locks, Ordering::Relaxed);
        let modules = old.modules_len.load(Ordering::Relaxed).min(MODULES as u32);
        ptr::copy_nonoverlapping(old.modules.as_ptr(), (&raw mut (*to).modules).cast(), modules as usize);
        (*to).modules_len.store(modules, Ordering::Relaxed);
    }
}

/// How many of so many acquisitions are not yet in the record, if `between` go from one tick to the next.
fn rest(tally: u16, between: u16) -> u16 {
    if tally == 0 { 0 } else { ((tally - 1) & between) + 1 }
}

/// A number is believed if the record is of this very mutex: memory may be copied, and used again.
fn valid(process: &'static Process, mutex: &Mutex, id: u16) -> Option<Record> {
    if id == 0 || usize::from(id) > LOCKS {
        return None;
    }
    let record = at_place(process, usize::from(id) - 1);
    (record.shared || record.lock.addr.load(Ordering::Relaxed) == address(mutex)).then_some(record)
}

/// The record at a place.
pub fn at_place(process: &'static Process, at: usize) -> Record {
    Record { lock: &process.figures().locks[at], hold_began: process.hold_began(at), shared: at == LOCKS - 1 }
}

/// Where the lock is that a mutex is, or stands for.
fn address(mutex: &Mutex) -> u64 {
    beside::address_of(mutex).unwrap_or(ptr::from_ref(mutex) as u64)
}

/// Takes the next free record and fills it in.
pub fn make(process: &'static Process, address: u64, kind: u32, init_site: u64, site: usize) -> usize {
    let figures = process.figures();
    let next = figures
        .locks_len
        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |len| (len < LOCKS as u32 - 1).then_some(len + 1));
    let Ok(at) = next else {
        beyond(process);
        return LOCKS - 1;
    };
    let lock = ptr::from_ref(&figures.locks[at as usize]).cast_mut();
    // SAFETY: nobody else has this record before its address is there; the fields are written through a raw pointer.
    unsafe {
        (&raw mut (*lock).kind).write(kind);
        (&raw mut (*lock).init_site).write(init_site);
        (&raw mut (*lock).first_site).write(site as u64);
    }
    for place in [address, init_site, site as u64] {
        modules::know(figures, place);
    }
    let lock = &figures.locks[at as usize];
    let own = process.rule_for(kind, address, site as u64, init_site);
    lock.policy.store(own.unwrap_or(FOLLOWS), Ordering::Relaxed);
    lock.wait.scale.store(1, Ordering::Relaxed);
    lock.hold.scale.store(process.hold_scale(), Ordering::Relaxed);
    // ORDERING: Release, for holdup, which reads the file while the process runs: a record with an address has its
    // other fields.
    lock.addr.store(address, Ordering::Release);
    at as usize
}

/// The last record is for all that have none of their own.
fn beyond(process: &'static Process) {
    let figures = process.figures();
    if figures.locks_beyond.fetch_add(1, Ordering::Relaxed) == 0 {
        let last = &figures.locks[LOCKS - 1];
        last.wait.scale.store(1, Ordering::Relaxed);
        last.hold.scale.store(process.hold_scale(), Ordering::Relaxed);
    }
}

impl Record {
    /// A policy of its own, from a rule or the watchdog.
    #[inline]
    pub fn policy(self) -> Option<Policy> {
        match self.lock.policy.load(Ordering::Relaxed) {
            _ if self.shared => None,
            FOLLOWS => None,
            word => Policy::unpack(word),
        }
    }

    /// The same record, which several threads write at the same time.
    pub fn of_many(self) -> Self {
        Record { shared: true, ..self }
    }

    /// An acquisition of a lock that is only counted.
    pub fn passed(self, thread: &Thread) {
        self.add_acquisitions(1);
        self.seen(thread);
    }

    /// Adds acquisitions.
    pub fn add_acquisitions(self, more: u64) {
        self.lock.acquisitions.fetch_add(more, Ordering::Relaxed);
    }

    /// This thread uses the lock.
    pub fn seen(self, thread: &Thread) {
        let bit = 1 << (thread.number() % 64);
        if self.lock.threads.load(Ordering::Relaxed) & bit == 0 {
            self.lock.threads.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// A hold begins; whether its end is to be told.
    pub fn times_hold(self) -> bool {
        if !self.shared {
            self.hold_began.store(clock::now(), Ordering::Relaxed);
        }
        !self.shared
    }

    /// The hold that was begun last ended.
    pub fn hold_ended(self) {
        let ns = clock::since_ns(self.hold_began.load(Ordering::Relaxed));
        lasted(&self.lock.hold, ns, self.shared);
    }

    /// The holder had to wait.
    pub fn waited(self, thread: &Thread, site: usize, slept: bool, wait_ns: Option<u64>) {
        add(&self.lock.contended, 1, self.shared);
        add(&self.lock.slept, u64::from(slept), self.shared);
        self.seen(thread);
        if let Some(ns) = wait_ns {
            lasted(&self.lock.wait, ns, self.shared);
        }
        let site = self.site(site as u64);
        add(&site.contended, 1, self.shared);
        add(&site.wait_ns, wait_ns.unwrap_or(0), self.shared);
    }

    /// The entry of a place, or the last, which is for the rest.
    fn site(self, place: u64) -> &'static control::Site {
        let (rest, own) = self.lock.sites.split_last().expect("SITES is not 0");
        for site in own {
            let there = site.addr.load(Ordering::Relaxed);
            if there == place {
                return site;
            }
            if there == 0 && site.addr.compare_exchange(0, place, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return site;
            }
        }
        rest
    }

    /// Goes back to glibc's policy, for the watchdog.
    pub fn trip(self, process: &Process) {
        if self.shared || self.lock.tripped.swap(1, Ordering::Relaxed) == 1 {
            return;
        }
        self.lock.policy.store(Policy::Glibc.pack(), Ordering::Relaxed);
        process.figures().watchdog_trips.fetch_add(1, Ordering::Relaxed);
    }

    /// Threads that wait for the lock, as they tell.
    pub fn waiters(self) -> &'static AtomicU32 {
        &self.lock.waiters
    }
}

fn lasted(durations: &Durations, ns: u64, shared: bool) {
    add(&durations.count, 1, shared);
    add(&durations.ns, ns, shared);
    durations.max_ns.fetch_max(ns, Ordering::Relaxed);
    let bucket = &durations.buckets[bucket(ns)];
    if shared {
        bucket.fetch_add(1, Ordering::Relaxed);
    } else {
        bucket.store(bucket.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }
}

/// Bucket n is for 2^n up to 2^(n+1), bucket 0 for what is below two.
fn bucket(ns: u64) -> usize {
    (63 - (ns | 1).leading_zeros() as usize).min(control::BUCKETS - 1)
}

const _: () = assert!(SITES > 1 && LOCKS < BEING_MADE as usize && MODULES > 0);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        assert_eq!([0, 1, 2, 3, 4, 1023, 1024].map(bucket), [0, 0, 1, 1, 2, 9, 10]);
        assert_eq!(bucket(u64::MAX), control::BUCKETS - 1);
    }

    #[test]
    fn every_sixteenth_acquisition_is_counted_with_those_before_it() {
        // The first, the 17th, the 33rd look at the figures; the 17th adds the sixteen before it.
        assert_eq!([0, 1, 2, 16, 17, 32, 33].map(|tally| rest(tally, 15)), [0, 1, 2, 16, 1, 16, 1]);
    }
}
