//! One wait for a mutex that is held, and the ways to spin and sleep that policies are made of.
//!
//! `glibc` and `spin-park` are the lock `Futex` of holdup-locks, `ttas` is its `Ttas<CompareExchange>`: the same
//! functions, here on glibc's word. `spin-learn`, `capped` and `throttle` sleep as `Futex` does, and have no namesake
//! there.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use holdup_control::Policy;
use holdup_locks::{CompareExchange, SpinPolicy, word};
use libc::{clockid_t, timespec};

use super::kernel::{self, Until, Woken};
use super::mutex::{FREE, Mutex, WAITED};
use super::process::Served;
use super::record::{self, Record};
use super::{clock, thread};

/// Most pauses that `spin-learn` makes, as glibc's default for adaptive mutexes.
const LEARNED_MOST: i32 = 100;
/// Looks of a thread that has its place under `capped` or `throttle`.
pub const PLACED_SPINS: u32 = 100;
/// Looks of `ttas` from one that asks whether the wait is over to the next.
const LOOKS_BETWEEN: u32 = 16;

/// One wait for one mutex.
pub struct Wait<'a> {
    /// Who waits.
    pub served: Served,
    /// For what.
    pub mutex: &'a Mutex,
    /// The mutex's record.
    pub record: Option<Record>,
    /// Its kind.
    pub kind: c_int,
    deadline: Option<Deadline>,
    /// Whether it slept.
    pub slept: bool,
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
    pub fn check(&self) -> Result<(), c_int> {
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
    pub fn begin(served: Served, mutex: &'a Mutex, kind: c_int, deadline: Option<Deadline>, site: usize) -> Self {
        let record = record::of(served.process, mutex, site);
        Wait { served, mutex, record, kind, deadline, slept: false }
    }

    /// The mutex is ours.
    pub fn end(&mut self, site: usize, began: Option<u64>) {
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

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_take(&self) -> bool {
        self.mutex.word.load(Ordering::Relaxed) == FREE && self.mutex.try_acquire()
    }

    /// As `Futex::with_spin`: looks so many times before it sleeps.
    pub fn spin_park(&mut self, looks: u32) -> Result<(), c_int> {
        self.park(|wait, taken| word::spin(&wait.mutex.word, looks, taken))
    }

    /// As `Futex`, but for the spinning before each sleep.
    pub fn park(&mut self, spin: impl Fn(&Self, u32) -> bool) -> Result<(), c_int> {
        word::spin_then_sleep(&self.mutex.word, self, spin, Self::sleep)
    }

    /// Sleeps on the word, until the deadline if there is one.
    fn sleep(&mut self) -> Result<(), c_int> {
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
        Ok(())
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

    /// As `Ttas`, which never sleeps: so it looks itself whether time is up, another policy holds (then false), or the
    /// watchdog is due.
    pub fn spin_backing_off(&self) -> Result<bool, c_int> {
        let mut looks = 0;
        let mut since = (self.mutex.tally.load(Ordering::Relaxed), kernel::now_ns());
        let is_over = || {
            looks += 1;
            looks % LOOKS_BETWEEN == 0 && {
                self.watch_spinning(&mut since);
                self.policy() != Policy::Ttas || self.left_ns() == 0
            }
        };
        let taken = word::spin_backing_off::<CompareExchange>(&self.mutex.word, SpinPolicy::DEFAULT, is_over);
        if !taken && self.left_ns() == 0 { Err(libc::ETIMEDOUT) } else { Ok(taken) }
    }

    /// As `watch`, for one who has spun since a moment, at which the tally was this.
    fn watch_spinning(&self, (tally, since_ns): &mut (u16, u64)) {
        let Until::Ns(patience_ns) = self.watchdog() else { return };
        let now_ns = kernel::now_ns();
        if now_ns - *since_ns >= patience_ns {
            self.watch(*tally);
            (*tally, *since_ns) = (self.mutex.tally.load(Ordering::Relaxed), now_ns);
        }
    }

    /// As glibc's adaptive mutexes: twice the running average of the spins that were of use lately.
    pub fn spin_as_learned(&self, taken: u32) -> bool {
        let average = i32::from(self.mutex.spins.load(Ordering::Relaxed));
        let most = LEARNED_MOST.min(average * 2 + 10);
        let mut spins = 0;
        let taken = loop {
            if spins >= most {
                break false;
            }
            spins += 1;
            if word::spin(&self.mutex.word, 1, taken) {
                break true;
            }
        };
        self.mutex.spins.store((average + (spins - average) / 8) as i16, Ordering::Relaxed);
        taken
    }

    /// How long to sleep before the watchdog looks.
    pub fn watchdog(&self) -> Until {
        match self.served.process.watchdog_ns() {
            0 => Until::Woken,
            ns => Until::Ns(ns),
        }
    }

    /// A sleep was as long as the watchdog is patient: if nobody acquired the mutex meanwhile, it goes back to glibc's
    /// policy.
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

/// Wakes one of those that sleep on the word of a mutex that was just released. Its memory may be gone.
pub extern "C" fn wake(pointer: *const Mutex) -> c_int {
    if let Some(figures) = thread::figures() {
        figures.futex_wakes.fetch_add(1, Ordering::Relaxed);
    }
    kernel::wake_one(pointer.cast());
    0
}
