//! How a spin lock waits: what it spins on, and how it backs off between two looks.
//!
//! | back-off | between two looks | source |
//! |---|---|---|
//! | none | one pause | — |
//! | count | one pause; every `limit` pauses the CPU is given away | Intel, "Implementing Scalable Atomic Locks", 2009 |
//! | exponential | 1..=bound pauses at random, bound doubling up to `limit`, then the CPU is given away each time | Anderson 1990, section 3; Agarwal & Cherian 1989 |
//!
//! The random draw keeps two waiters from looking in step. Giving the CPU away is what lets a spin lock survive more
//! threads than CPUs: the holder may be the thread that is switched out.

use crate::sys::{spin_hint, yield_now};

/// What a spin lock's waiter looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SpinOn {
    /// A plain read, which keeps the line shared until the lock is free.
    Read,
    /// The atomic operation itself, which takes the line exclusively each time.
    Rmw,
}

/// What a spin lock's waiter does between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Backoff {
    /// One pause. Collapses when threads outnumber CPUs; for study.
    None,
    /// One pause, and the CPU is given away after every `limit` of them.
    Count,
    /// Random pauses from an exponentially growing range, then the CPU is given away.
    Exponential,
}

/// How a [`Tas`](crate::Tas) or [`Ttas`](crate::Ttas) lock waits.
///
/// ```
/// use holdup_locks::{Backoff, Mutex, SpinOn, SpinPolicy, Ttas};
///
/// const COUNTED: SpinPolicy = SpinPolicy::DEFAULT.with_backoff(Backoff::Count).with_spin_on(SpinOn::Rmw);
/// static LOCK: Mutex<Ttas, ()> = Mutex::from_raw(Ttas::with_policy(COUNTED), ());
/// assert!(LOCK.try_lock().is_some());
/// assert!(COUNTED.limit > 0);
/// ```
///
/// Without back-off a spin lock collapses once threads outnumber CPUs. Change the default only with a measurement in
/// hand: `holdup bench --lock ttas --backoff none,count,exp --threads 2,8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)] // C programs initialise it.
pub struct SpinPolicy {
    /// What the waiter looks at.
    pub spin_on: SpinOn,
    /// What it does between two looks.
    pub backoff: Backoff,
    /// Pauses before the CPU is given away (`Count`), or the largest number of pauses in a row (`Exponential`).
    pub limit: u16,
}

impl SpinPolicy {
    /// Read, exponential back-off: the default of `Ttas`.
    pub const DEFAULT: Self = Self { spin_on: SpinOn::Read, backoff: Backoff::Exponential, limit: EXPONENTIAL_LIMIT };

    /// This policy with another back-off and that back-off's default limit.
    #[must_use]
    pub const fn with_backoff(self, backoff: Backoff) -> Self {
        let limit = match backoff {
            Backoff::None => 0,
            Backoff::Count => COUNT_LIMIT,
            Backoff::Exponential => EXPONENTIAL_LIMIT,
        };
        Self { backoff, limit, ..self }
    }

    /// This policy, spinning on something else.
    #[must_use]
    pub const fn with_spin_on(self, spin_on: SpinOn) -> Self {
        Self { spin_on, ..self }
    }
}

impl Default for SpinPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

const COUNT_LIMIT: u16 = if cfg!(any(loom, miri)) { 2 } else { 100 };
const EXPONENTIAL_LIMIT: u16 = if cfg!(any(loom, miri)) { 2 } else { 64 };

/// Looks at full back-off before the CPU is given away.
const PATIENCE: u32 = if cfg!(any(loom, miri)) { 1 } else { 4 };

/// One waiter's back-off state.
pub(super) struct Waiter {
    policy: SpinPolicy,
    bound: u32,
    looks: u32,
    random: u32,
}

impl Waiter {
    pub(super) fn new(policy: SpinPolicy) -> Self {
        let waiter = Self { policy, bound: 1, looks: 0, random: 0 };
        // Two waiters have two stacks: their addresses are seed enough to fall out of step.
        let seed = (core::ptr::from_ref(&waiter) as usize >> 4) as u32;
        Self { random: seed.wrapping_mul(0x9E37_79B9) | 1, ..waiter }
    }

    /// Waits a while before the next look.
    pub(super) fn pause(&mut self) {
        match self.policy.backoff {
            Backoff::None => spin_hint(),
            Backoff::Count => self.pause_counted(),
            Backoff::Exponential => self.pause_exponentially(),
        }
    }

    fn pause_counted(&mut self) {
        spin_hint();
        self.looks += 1;
        if self.looks >= u32::from(self.policy.limit) {
            self.looks = 0;
            yield_now();
        }
    }

    fn pause_exponentially(&mut self) {
        for _ in 0..=self.draw() % self.bound {
            spin_hint();
        }
        if self.bound < u32::from(self.policy.limit) {
            self.bound *= 2;
            return;
        }
        self.looks += 1;
        if self.looks > PATIENCE {
            yield_now();
        }
    }

    /// Marsaglia's 32-bit xorshift (2003).
    fn draw(&mut self) -> u32 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 17;
        self.random ^= self.random << 5;
        self.random
    }
}
