//! How to wait for a mutex that is held: glibc's protocol on the word, and the policies that differ in what comes before the sleep.

use std::ffi::c_int;
use std::hint::spin_loop;
use std::sync::atomic::{AtomicU32, Ordering};

use holdup_control::Policy;
use libc::{clockid_t, timespec};

use super::hooks::{self, Served};
use super::kernel::{self, Until, Woken};
use super::mutex::{ADAPTIVE, FREE, HELD, Mutex, RECURSIVE, WAITED};
use super::record::{self, Record};
use super::{clock, gate, process};

/// Most pauses that `adaptive` makes, as glibc's default.
const ADAPTIVE_MOST: i32 = 100;
/// Pauses between two looks of `ttas`: doubled from the first to the last.
const TTAS_FIRST: u32 = 1;
const TTAS_LAST: u32 = 32;
/// Looks of `ttas`.
const TTAS_LOOKS: u32 = 10;
/// Pauses of a thread that has its place under `capped` or behind a gate.
pub const PLACED_SPINS: u32 = 100;
/// After so many wakes that were left to a spinner, one is made all the same.
const SKIPS: u32 = 32;
/// `count` under `capped`: in its lowest bits the waiters that spin, then whether a wake is owed, then the process's generation,
/// since the spinners of a parent do not survive a fork.
const SPINNERS: u32 = 0x7f;
const OWED: u32 = 0x80;
const GENERATION_SHIFT: u32 = 8;

/// One wait for one mutex.
pub struct Wait<'a> {
    /// Who waits.
    pub served: Served,
    /// For what.
    pub mutex: &'a Mutex,
    /// The mutex's record.
    pub record: Option<Record>,
    kind: c_int,
    deadline: Option<Deadline>,
    /// Whether it slept.
    pub slept: bool,
    /// What the word becomes when the wait takes the mutex: `WAITED` once others may sleep that nobody else knows of.
    taken: u32,
}

/// Waits until the mutex is ours, or until the moment has come, if there is one; the errors are those of `pthread_mutex_timedlock`, and
/// without a moment there are none.
#[cold]
pub fn lock(
    served: Served,
    mutex: &Mutex,
    kind: c_int,
    deadline: Option<Deadline>,
    site: usize,
) -> Result<(), c_int> {
    if let Some(deadline) = &deadline {
        deadline.check()?;
    }
    let mut wait = Wait::begin(served, mutex, kind, deadline, site);
    let began = served.process.times_waits().then(clock::now);
    wait.by_policy()?;
    wait.end(site, began);
    Ok(())
}

/// A moment on a clock after which a wait is over.
#[derive(Clone, Copy)]
pub struct Deadline {
    /// `CLOCK_REALTIME` or `CLOCK_MONOTONIC`.
    pub clock: clockid_t,
    /// On that clock.
    pub moment: timespec,
}

impl Deadline {
    /// A time of day before 1970 is over, which the kernel would call no time.
    fn check(&self) -> Result<(), c_int> {
        match self.moment {
            timespec { tv_nsec, .. } if !(0..1_000_000_000).contains(&tv_nsec) => Err(libc::EINVAL),
            timespec { tv_sec: ..0, .. } => Err(libc::ETIMEDOUT),
            _ => Ok(()),
        }
    }

    fn left_ns(&self) -> u64 {
        let now = kernel::now(self.clock);
        let s = self.moment.tv_sec.saturating_sub(now.tv_sec);
        let ns = s.saturating_mul(1_000_000_000).saturating_add(self.moment.tv_nsec - now.tv_nsec);
        u64::try_from(ns).unwrap_or(0)
    }
}

impl<'a> Wait<'a> {
    fn begin(served: Served, mutex: &'a Mutex, kind: c_int, deadline: Option<Deadline>, site: usize) -> Self {
        let record = record::of(served.process, mutex, site);
        Wait { served, mutex, record, kind, deadline, slept: false, taken: HELD }
    }

    /// The mutex is ours.
    fn end(&mut self, site: usize, began: Option<u64>) {
        let thread = self.served.thread;
        if let Some(slot) = thread.figures() {
            thread.add(&slot.contended, 1);
            thread.add(&slot.slept, u64::from(self.slept));
        }
        // Another thread may have been about to make the record when the wait began.
        self.record = self.record.or_else(|| record::existing(self.served.process, self.mutex));
        if let Some(record) = self.record {
            let wait_ns = began.map(clock::since_ns);
            record.waited(thread, site, self.slept, wait_ns);
        }
    }

    /// The policy of this mutex at this moment.
    pub fn policy(&self) -> Policy {
        let own = self.record.and_then(|record| record.policy());
        own.unwrap_or_else(|| self.served.process.policy())
    }

    fn by_policy(&mut self) -> Result<(), c_int> {
        match self.policy() {
            Policy::Glibc if self.kind != ADAPTIVE => self.park(|_| false),
            Policy::SpinPark(spins) => self.park(|wait| wait.spin(spins)),
            Policy::Glibc | Policy::Adaptive => self.park(Self::spin_adaptively),
            Policy::Ttas => self.park(Self::spin_backing_off),
            Policy::Capped(_) if self.kind == RECURSIVE => self.park(|wait| wait.spin(PLACED_SPINS)),
            Policy::Capped(most) => self.park(|wait| wait.spin_capped(most)),
            Policy::Gate(most) => gate::lock(self, most),
        }
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_take(&self) -> bool {
        self.mutex.word.load(Ordering::Relaxed) == FREE
            && self
                .mutex
                .word
                .compare_exchange(FREE, self.taken, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }

    /// Tries in the given way, then sleeps on the word; again and again, until the mutex is ours.
    pub fn park(&mut self, try_for_a_while: impl Fn(&Self) -> bool) -> Result<(), c_int> {
        loop {
            if try_for_a_while(self) {
                return Ok(());
            }
            // As glibc: one who comes to sleepers need not mark the word, one who was woken must, or take it.
            let marked = !self.slept && self.mutex.word.load(Ordering::Relaxed) == WAITED;
            if !marked && self.mutex.word.swap(WAITED, Ordering::Acquire) == FREE {
                return Ok(());
            }
            let before = self.mutex.tally.load(Ordering::Relaxed);
            let until = match self.deadline {
                Some(Deadline { clock, moment }) => Until::Moment(clock, moment),
                None => self.watchdog(),
            };
            match self.sleep_on(&self.mutex.word, WAITED, until) {
                Woken::TimedOut if self.deadline.is_some() => return Err(libc::ETIMEDOUT),
                Woken::TimedOut => self.watch(before),
                Woken::Invalid if self.deadline.is_some() => return Err(libc::EINVAL),
                Woken::BySomebody | Woken::Changed | Woken::Invalid => {}
            }
            // Others may sleep on the word, and with the wake came the duty to remember them.
            self.taken = WAITED;
        }
    }

    /// Nanoseconds that are left; a wait without a deadline has them without end.
    pub fn left_ns(&self) -> u64 {
        self.deadline.map_or(u64::MAX, |deadline| deadline.left_ns())
    }

    /// Sleeps on a word of the mutex, and counts it.
    pub fn sleep_on(&mut self, word: &AtomicU32, value: u32, until: Until) -> Woken {
        if let Some(record) = self.record {
            record.waiters().fetch_add(1, Ordering::Relaxed);
        }
        let woken = kernel::sleep(word, value, until);
        if let Some(record) = self.record {
            record.waiters().fetch_sub(1, Ordering::Relaxed);
        }
        if woken != Woken::Changed && woken != Woken::Invalid {
            self.slept = true;
            self.served.process.figures().futex_waits.fetch_add(1, Ordering::Relaxed);
        }
        woken
    }

    fn spin(&self, spins: u32) -> bool {
        for _ in 0..spins {
            spin_loop();
            if self.try_take() {
                return true;
            }
        }
        false
    }

    /// As glibc's adaptive mutexes: twice the running average of the spins that were of use lately.
    fn spin_adaptively(&self) -> bool {
        let average = i32::from(self.mutex.spins.load(Ordering::Relaxed));
        let most = ADAPTIVE_MOST.min(average * 2 + 10);
        let mut spins = 0;
        let taken = loop {
            if spins >= most {
                break false;
            }
            spins += 1;
            spin_loop();
            if self.try_take() {
                break true;
            }
        };
        self.mutex.spins.store((average + (spins - average) / 8) as i16, Ordering::Relaxed);
        taken
    }

    fn spin_backing_off(&self) -> bool {
        let mut pauses = TTAS_FIRST;
        for _ in 0..TTAS_LOOKS {
            for _ in 0..pauses {
                spin_loop();
            }
            if self.try_take() {
                return true;
            }
            pauses = (pauses * 2).min(TTAS_LAST);
        }
        false
    }

    /// Spins if fewer than so many do.
    ///
    /// A release may leave waking a sleeper to those who spin, and then says so in `count` (see [`release`]). Whoever takes the
    /// mutex while spinning takes it as `WAITED` then, so that his release wakes; whoever gives up looks at the word once more,
    /// with the swap of `park`, which marks it `WAITED` in any case.
    fn spin_capped(&self, most: u32) -> bool {
        hooks::mark_capped(self.mutex);
        let generation = process::generation() << GENERATION_SHIFT;
        let count = &self.mutex.count;
        let most = most.min(SPINNERS);
        let enter = count.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |count| {
            let count = if count & !(SPINNERS | OWED) == generation { count } else { generation };
            (count & SPINNERS < most).then_some(count + 1)
        });
        if enter.is_err() {
            return false;
        }
        for _ in 0..PLACED_SPINS {
            spin_loop();
            if self.mutex.word.load(Ordering::Relaxed) == FREE && self.take_from_spin() {
                return true;
            }
        }
        count.fetch_sub(1, Ordering::SeqCst);
        false
    }

    /// Takes the mutex if it is free, with the duty to wake if that is owed, and is no spinner any more.
    fn take_from_spin(&self) -> bool {
        let both = self.mutex.word_and_count();
        let take = both.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |old| {
            let (word, count) = (old as u32, (old >> 32) as u32);
            let taken = if count & OWED != 0 { WAITED } else { self.taken };
            let count = (count & !OWED) - 1;
            (word == FREE).then_some(u64::from(count) << 32 | u64::from(taken))
        });
        take.is_ok()
    }

    /// How long to sleep before the watchdog looks.
    pub fn watchdog(&self) -> Until {
        match self.served.process.watchdog_ns() {
            0 => Until::Woken,
            ns => Until::Ns(ns),
        }
    }

    /// A sleep was as long as the watchdog is patient: if nobody acquired the mutex meanwhile, it goes back to glibc's policy.
    pub fn watch(&self, tally_before: u16) {
        let nobody = self.mutex.tally.load(Ordering::Relaxed) == tally_before;
        if let Some(record) = self.record
            && nobody
            && self.policy() != Policy::Glibc
        {
            record.trip(self.served.process);
        }
    }
}

/// Releases a mutex and wakes one of its waiters, if any sleeps and nobody awake has taken over to wake it.
pub fn release(served: Served, mutex: &Mutex, kind: c_int) -> c_int {
    if mutex.capped.load(Ordering::Relaxed) == 0 || kind == RECURSIVE {
        if mutex.word.swap(FREE, Ordering::Release) >= WAITED {
            return hooks::wake(mutex);
        }
        return 0;
    }
    // The number of spinners must be that of the moment of the release, and afterwards the mutex may be gone: so both at once.
    let skips = served.thread.skipped_wakes.get();
    let mut skipped = false;
    let generation = process::generation();
    let release = |old: u64| {
        let (word, count) = (old as u32, (old >> 32) as u32);
        let spins = count >> GENERATION_SHIFT == generation && count & SPINNERS > 0;
        skipped = word >= WAITED && spins && skips < SKIPS;
        Some(u64::from(if skipped { count | OWED } else { count }) << 32 | u64::from(FREE))
    };
    let old = mutex.word_and_count().fetch_update(Ordering::SeqCst, Ordering::Relaxed, release);
    served.thread.skipped_wakes.set(if skipped { skips + 1 } else { 0 });
    if !skipped && old.is_ok_and(|old| old as u32 >= WAITED) {
        return hooks::wake(mutex);
    }
    0
}
