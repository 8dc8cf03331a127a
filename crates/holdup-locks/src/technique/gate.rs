//! A gate that lets at most N threads be active; the others sleep in the kernel, first come, first served.
//!
//! What: a counting semaphore with tickets, as Hart (1998) put before his threads: with fewer active threads a
//! contended lock costs less ("thread serialisation"). It counts; it keeps no list of threads.
//!
//! | field | meaning |
//! |---|---|
//! | `tickets` | tickets taken: every `enter` takes the next one |
//! | `admitted` | tickets below this number may pass: the limit plus the passes given back |
//! | `limit` | how many may be active |
//! | `bell` | counts rings; sleepers sleep on it, each under the bit `ticket % 32` |
//!
//! Invariants:
//! 1. A thread passes when its ticket is below `admitted`. So at most `limit` are inside, and who came first passes
//!    first.
//! 2. `admitted - limit` is the number of passes given back, whatever `set_limit` does: both move by the same amount.
//! 3. A sleeper read the bell *before* it found its ticket too high; who raises `admitted` rings the bell *after*. So
//!    either the bell changed, and the sleep does not begin, or the ring finds the sleeper. No wake-up is lost.
//! 4. Nobody rings when nobody waits: a pass given back finds `tickets <= admitted` and stays in user space.
//! 5. Both counters have 64 bits and never wrap in practice: a thread may be switched out for any time between its
//!    ticket and its pass.
//!
//! Memory orderings: `tickets` and `admitted` are `SeqCst` in `enter` and `leave`: each writes one and then reads the
//! other (store buffering), and at least one of the two must see the other's write, or a thread sleeps for ever: the
//! loom test `gate_loses_no_wake_up` fails when both reads are weakened. The add to `admitted` in `leave` is also the
//! release, and the read in `enter` the acquire, that carry what the leaver did inside to the next one:
//! `gate_carries_data` (loom). The bell's add is `Release` and its load `Acquire` for invariant 3:
//! `gate_loses_no_wake_up`.
//!
//! Cost and when not to use it: see [`Gate`].

use core::fmt;
use core::marker::PhantomData;

use crate::sys::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::sys::{ANY, wait, wake};

/// Lets at most `limit` threads be inside at a time; the others sleep, first come, first served. 24 bytes.
///
/// ```
/// use holdup_locks::technique::Gate;
///
/// static GATE: Gate = Gate::new(2);
///
/// std::thread::scope(|scope| {
///     for _ in 0..8 {
///         scope.spawn(|| {
///             let _pass = GATE.enter();
///             // At most two threads are here.
///         });
///     }
/// });
/// assert_eq!(GATE.present(), 0);
/// ```
///
/// # Cost
/// Two atomic adds and two loads for `enter` and leaving together when the gate is open, about as much as a mutex; a
/// sleep and a wake-up in the kernel, several microseconds, when it is full.
///
/// # When not to use it
/// * Around work shorter than that sleep: take [`Gated`](super::Gated), which does not put a thread to sleep each time.
/// * Where a pass is taken while holding a lock that those inside need: they would wait for you, and you for them.
/// * Around work that blocks for long: its place stays taken. A thread that enters twice takes two places and can wait
///   for itself.
/// * As a first cure: as many threads as CPUs and a queue of work do the same for nothing.
///
/// # Source
/// The active-thread gate of Hart (1998), "thread serialisation": a counting throttle.
#[repr(C)] // C programs initialise it.
pub struct Gate {
    tickets: AtomicU64,
    admitted: AtomicU64,
    limit: AtomicU32,
    bell: AtomicU32,
}

impl Gate {
    /// A gate for `limit` threads; 0 is taken as 1, as nobody could ever pass.
    #[must_use]
    pub const fn new(limit: u32) -> Self {
        let limit = at_least_one(limit);
        Self {
            tickets: AtomicU64::new(0),
            admitted: AtomicU64::new(limit as u64),
            limit: AtomicU32::new(limit),
            bell: AtomicU32::new(0),
        }
    }

    /// Waits for a place. It is given back when the pass is dropped.
    #[inline]
    pub fn enter(&self) -> Pass<'_> {
        self.enter_raw();
        Pass { gate: self, stays_on_its_thread: PhantomData }
    }

    /// Takes a place if one is free and nobody waits for it.
    #[inline]
    pub fn try_enter(&self) -> Option<Pass<'_>> {
        let mut ticket = self.tickets.load(Ordering::Relaxed);
        // The load of `admitted` decides: if the limit sinks before the exchange, this thread came in before that.
        while may_pass(ticket, self.admitted.load(Ordering::Acquire)) {
            match self.tickets.compare_exchange_weak(ticket, ticket + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(Pass { gate: self, stays_on_its_thread: PhantomData }),
                Err(seen) => ticket = seen,
            }
        }
        None
    }

    /// Changes the limit at once; 0 is taken as 1.
    ///
    /// Raised, it lets sleepers in. Lowered, it sends nobody out: nobody more comes in until enough passes are given
    /// back.
    pub fn set_limit(&self, limit: u32) {
        let limit = at_least_one(limit);
        let old = self.limit.swap(limit, Ordering::Relaxed);
        // Two calls at once may change `admitted` in the other order; their sum is the same, and in between it may
        // even be "negative", which `may_pass` understands.
        let difference = u64::from(limit).wrapping_sub(u64::from(old));
        let first = self.admitted.fetch_add(difference, Ordering::SeqCst);
        if limit > old && may_pass(first, latest(&self.tickets)) {
            self.ring(ANY);
        }
    }

    /// Gives back a place whose pass was forgotten: for those who cannot keep a guard, as C cannot.
    ///
    /// ```
    /// use holdup_locks::technique::Gate;
    ///
    /// let gate = Gate::new(1);
    /// std::mem::forget(gate.enter());
    /// assert_eq!(gate.present(), 1);
    /// // SAFETY: this thread is inside by the pass above.
    /// unsafe { gate.leave_forgotten() };
    /// assert_eq!(gate.present(), 0);
    /// ```
    ///
    /// # Safety
    ///
    /// The calling thread is inside by a pass that it gave to [`core::mem::forget`], and has not given this place back
    /// yet.
    #[inline]
    pub unsafe fn leave_forgotten(&self) {
        self.leave_raw();
    }

    /// How many threads may be inside.
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.limit.load(Ordering::Relaxed)
    }

    /// How many threads are inside or wait; a moment's value.
    #[must_use]
    pub fn present(&self) -> u64 {
        let left = self.admitted.load(Ordering::Relaxed).wrapping_sub(u64::from(self.limit()));
        let present = self.tickets.load(Ordering::Relaxed).wrapping_sub(left);
        // The three words are read one after the other: a thread that leaves meanwhile must not count as minus one.
        u64::try_from(present as i64).unwrap_or(0)
    }

    /// [`Gate::enter`] without a guard; answered by one [`Gate::leave_raw`].
    #[inline]
    pub(super) fn enter_raw(&self) {
        let ticket = self.tickets.fetch_add(1, Ordering::SeqCst);
        if !may_pass(ticket, latest(&self.admitted)) {
            self.wait_for(ticket);
        }
    }

    #[cold]
    fn wait_for(&self, ticket: u64) {
        loop {
            // The bell first, then the ticket: invariant 3.
            let bell = self.bell.load(Ordering::Acquire);
            if may_pass(ticket, self.admitted.load(Ordering::Acquire)) {
                return;
            }
            wait(&self.bell, bell, bit_of(ticket), None);
        }
    }

    /// Gives one place back, to the first who waits if anyone does.
    #[inline]
    pub(super) fn leave_raw(&self) {
        let next = self.admitted.fetch_add(1, Ordering::SeqCst);
        if may_pass(next, latest(&self.tickets)) {
            self.ring(bit_of(next));
        }
    }

    /// Wakes the sleepers under these bits. Where more than 32 wait, others share a bit and go back to sleep.
    #[cold]
    fn ring(&self, bits: u32) {
        self.bell.fetch_add(1, Ordering::Release);
        wake(&self.bell, u32::MAX, bits);
    }
}

const fn at_least_one(limit: u32) -> u32 {
    if limit == 0 { 1 } else { limit }
}

/// Whether `ticket` is below `bound`, both counted modulo 2^64.
#[inline]
const fn may_pass(ticket: u64, bound: u64) -> bool {
    bound.wrapping_sub(ticket) as i64 > 0
}

/// The bit under which a ticket's holder sleeps.
#[inline]
const fn bit_of(ticket: u64) -> u32 {
    1 << (ticket % 32)
}

/// A load in the one order of all `SeqCst` operations.
///
/// loom treats such a load as `Acquire` and may hand out an old value; there a read-modify-write, which always sees the
/// latest, stands in for it.
#[inline]
fn latest(word: &AtomicU64) -> u64 {
    if cfg!(loom) { word.fetch_add(0, Ordering::SeqCst) } else { word.load(Ordering::SeqCst) }
}

impl fmt::Debug for Gate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("limit", &self.limit())
            .field("present", &self.present())
            .field("rings", &self.bell.load(Ordering::Relaxed))
            .finish()
    }
}

/// A place inside a [`Gate`], given back when dropped. It stays on the thread that entered.
#[must_use = "the place is given back as soon as the pass is dropped"]
#[derive(Debug)]
pub struct Pass<'a> {
    gate: &'a Gate,
    stays_on_its_thread: PhantomData<*mut ()>,
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.gate.leave_raw();
    }
}
