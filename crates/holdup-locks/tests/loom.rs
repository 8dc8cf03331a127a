//! Models: every interleaving, within a bound on preemptions, of a few threads at one lock.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p holdup-locks --release --test loom`. loom finds lost wake-ups as
//! deadlocks, and missing orderings as concurrent accesses of the cell.
#![cfg(loom)]
#![allow(unsafe_code, reason = "raw locks are driven through their unsafe interface")]

use holdup_locks::lock_api::{RawMutex, RawMutexTimed};
use holdup_locks::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

struct Counter<L> {
    lock: L,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is accessed only between `lock` and `unlock`, and loom's cell reports it if that does not exclude.
unsafe impl<L: Sync> Sync for Counter<L> {}
// SAFETY: as above.
unsafe impl<L: Send> Send for Counter<L> {}

impl<L: RawMutex + model::Make> Counter<L> {
    fn new(lock: L) -> Self {
        lock.make();
        Self { lock, value: UnsafeCell::new(0) }
    }

    fn add_and_unlock(&self, guard: L::Guard) {
        self.value.with_mut(|value| {
            // SAFETY: the lock is held.
            unsafe { *value += 1 };
        });
        // SAFETY: the guard is that of the caller's acquisition.
        unsafe { self.lock.unlock(guard) };
    }

    fn add(&self) {
        self.add_and_unlock(self.lock.lock());
    }
}

fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 1_000;
    builder.check(model);
}

/// `threads` threads, this one among them, add `times` each.
fn all_add<L: RawMutex + model::Make + Send + Sync + 'static>(
    preemptions: usize,
    threads: u32,
    times: u32,
    new: fn() -> L,
) {
    explore(preemptions, move || {
        let counter = Arc::new(Counter::new(new()));
        let others: Vec<_> = (1..threads)
            .map(|_| {
                let counter = Arc::clone(&counter);
                loom::thread::spawn(move || (0..times).for_each(|_| counter.add()))
            })
            .collect();
        (0..times).for_each(|_| counter.add());
        others.into_iter().for_each(|other| other.join().unwrap());
        // A try: no mark that a waiter left may keep the lock from us.
        let guard = counter.lock.try_lock().expect("everybody has released it");
        // SAFETY: the lock is held.
        counter.value.with(|value| assert_eq!(unsafe { *value }, threads * times));
        // SAFETY: the guard is that of the acquisition above.
        unsafe { counter.lock.unlock(guard) };
    });
}

/// One thread gives up at a deadline while others add `times` each; whatever came of it, the lock works on.
fn one_gives_up<L>(preemptions: usize, threads: u32, times: u32, new: fn() -> L)
where
    L: RawMutexTimed<Duration = Duration> + model::Make + Send + Sync + 'static,
{
    one_gives_up_after(Duration::from_nanos(1), preemptions, threads, times, new);
}

/// As `one_gives_up`, with a deadline so many microseconds off: each reading of the clock takes one.
fn one_gives_up_after<L>(timeout: Duration, preemptions: usize, threads: u32, times: u32, new: fn() -> L)
where
    L: RawMutexTimed<Duration = Duration> + model::Make + Send + Sync + 'static,
{
    explore(preemptions, move || {
        let counter = Arc::new(Counter::new(new()));
        let spawn = |work: fn(&Counter<L>, Duration, u32) -> u32| {
            let counter = Arc::clone(&counter);
            loom::thread::spawn(move || work(&counter, timeout, times))
        };
        let adder = |counter: &Counter<L>, _, times| {
            (0..times).for_each(|_| counter.add());
            times
        };
        // Not this thread: loom does not explore that others have finished before its first step.
        let mut others = vec![spawn(|counter, timeout, _| {
            let timed = counter.lock.try_lock_for(timeout);
            timed.map_or(0, |guard| {
                counter.add_and_unlock(guard);
                1
            })
        })];
        others.extend((2..threads).map(|_| spawn(adder)));
        let mut added = adder(&counter, timeout, times);
        added += others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
        // A try: no mark that a waiter left may keep the lock from us.
        let guard = counter.lock.try_lock().expect("everybody has released it");
        // SAFETY: the lock is held.
        counter.value.with(|value| assert_eq!(unsafe { *value }, added));
        // SAFETY: the guard is that of the acquisition above.
        unsafe { counter.lock.unlock(guard) };
    });
}

/// One thread adds, another tries to; each of them is the first thread of the model once.
fn tries<L: RawMutex + model::Make + Send + Sync + 'static>(new: fn() -> L) {
    fn add<L: RawMutex + model::Make>(counter: &Counter<L>) -> u32 {
        counter.add();
        1
    }
    fn try_add<L: RawMutex + model::Make>(counter: &Counter<L>) -> u32 {
        let guard = counter.lock.try_lock();
        guard.map_or(0, |guard| {
            counter.add_and_unlock(guard);
            1
        })
    }
    one_each(new, add, try_add);
    one_each(new, try_add, add);
}

type Work<L> = fn(&Counter<L>) -> u32;

fn one_each<L>(new: fn() -> L, first: Work<L>, second: Work<L>)
where
    L: RawMutex + model::Make + Send + Sync + 'static,
{
    explore(3, move || {
        let counter = Arc::new(Counter::new(new()));
        let other = {
            let counter = Arc::clone(&counter);
            loom::thread::spawn(move || second(&counter))
        };
        let added = first(&counter) + other.join().unwrap();
        // A try that failed left no trace.
        let guard = counter.lock.try_lock().expect("everybody has released it");
        // SAFETY: the lock is held.
        counter.value.with(|value| assert_eq!(unsafe { *value }, added));
        // SAFETY: the guard is that of the acquisition above.
        unsafe { counter.lock.unlock(guard) };
    });
}

/// Both threads go two levels deep; nobody comes between the levels.
fn recurse<L: RawMutex + model::Make + Send + Sync + 'static>() {
    explore(3, || {
        let lock = Recursive::<L>::INIT;
        model::Make::make(&lock);
        let shared = Arc::new((lock, Counter { lock: Free, value: UnsafeCell::new(0) }));
        let twice = |shared: &(Recursive<L>, Counter<Free>)| {
            let (lock, counter) = shared;
            let _outer = lock.enter();
            counter.add_and_unlock(lock_api::GuardSend::new());
            let _inner = lock.enter();
            assert_eq!(lock.depth(), 2);
            counter.add_and_unlock(lock_api::GuardSend::new());
        };
        let other = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || twice(&shared))
        };
        twice(&shared);
        other.join().unwrap();
        assert!(!shared.0.held_by_me() && shared.0.try_lock());
        // SAFETY: the lock is held.
        shared.1.value.with(|value| assert_eq!(unsafe { *value }, 4));
        // SAFETY: the level just taken.
        unsafe { shared.0.unlock() };
    });
}

/// No lock: what stands under another one is guarded by that.
struct Free;

// SAFETY: it excludes nobody; the model under it says who excludes.
unsafe impl RawMutex for Free {
    const INIT: Self = Free;
    type Guard = lock_api::GuardSend;
    fn lock(&self) -> Self::Guard {
        lock_api::GuardSend::new()
    }
    fn try_lock(&self) -> Option<Self::Guard> {
        Some(self.lock())
    }
    unsafe fn unlock(&self, _guard: Self::Guard) {}
    fn is_locked(&self) -> bool {
        false
    }
}

impl model::Make for Free {
    fn make(&self) {}
}

/// Models of the kernel locks share one knob, so they take turns.
fn with_objects(objects: bool, run: impl FnOnce()) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    model::OBJECTS.store(objects, Ordering::Relaxed);
    run();
}

/// What every lock that is made of a kernel object must stand, with the object and with its stand-in.
fn of_an_object<L>(new: fn() -> L)
where
    L: RawMutexTimed<Duration = Duration> + model::Make + Send + Sync + 'static,
{
    all_add(2, 2, 2, new);
    all_add(2, 3, 1, new);
    one_gives_up(2, 2, 1, new);
    tries(new);
}

/// Models of `Adaptive` share its knobs, so they take turns.
fn with(asymmetric: bool, patience_ns: u64, run: impl FnOnce()) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    model::ASYMMETRIC.store(asymmetric, Ordering::Relaxed);
    model::PATIENCE_NS.store(patience_ns, Ordering::Relaxed);
    run();
}

/// Releases are read-modify-writes.
fn with_patience(patience_ns: u64, run: impl FnOnce()) {
    with(false, patience_ns, run);
}

/// Releases are plain stores, until somebody wants to sleep, and again after one without a waiter.
fn asymmetric_with_patience(patience_ns: u64, run: impl FnOnce()) {
    with(true, patience_ns, run);
}

fn two_twice_and_three_once(new: fn() -> Adaptive) {
    all_add(3, 2, 2, new);
    all_add(3, 3, 1, new);
}

const NEVER: u64 = u64::MAX;
const AT_ONCE: u64 = 0;

/// Preemptions of a model that takes minutes with three of them: so many where all time is there, else two.
fn three_in_proofs() -> usize {
    if std::env::var_os("HOLDUP_DEEP_MODELS").is_some() { 3 } else { 2 }
}

/// Not `Exchange`: loom keeps a partial modification order in which a failed exchange (it stores "locked" over
/// "locked") may seem to follow the holder's later plain store of "unlocked", which coherence forbids. The model then
/// spins for ever.
#[test]
fn ttas() {
    all_add(2, 2, 2, Ttas::<CompareExchange>::default);
    tries(Ttas::<CompareExchange>::default);
}

/// As `ttas`; the exchange is interpreted by Miri.
#[test]
fn tas() {
    all_add(2, 2, 2, Tas::<CompareExchange>::default);
    tries(Tas::<CompareExchange>::default);
}

#[test]
fn spinners_give_up() {
    one_gives_up(2, 2, 2, Ttas::<CompareExchange>::default);
    one_gives_up(2, 2, 2, Tas::<CompareExchange>::default);
}

/// Three threads with one preemption only: loom explores unfair schedules, in which two spinners alternate for ever.
#[test]
fn ticket() {
    all_add(1, 3, 1, Ticket::new);
    all_add(2, 2, 2, Ticket::new);
    tries(Ticket::new);
}

#[test]
fn ticket_spin() {
    all_add(1, 3, 1, TicketSpin::new);
    all_add(2, 2, 2, TicketSpin::new);
    tries(TicketSpin::new);
}

#[test]
fn futex() {
    all_add(3, 3, 1, Futex::new);
    all_add(2, 2, 2, Futex::new);
    one_gives_up(2, 3, 1, Futex::new);
    one_gives_up(3, 2, 1, Futex::new);
    tries(Futex::new);
    all_add(2, 3, 1, || Futex::with_spin(1));
    one_gives_up(2, 2, 1, || Futex::with_spin(1));
}

/// On another system it sleeps by that system's means; its protocol is the same.
#[test]
fn wait_on_address() {
    all_add(3, 3, 1, WaitOnAddress::new);
    all_add(2, 2, 2, WaitOnAddress::new);
    one_gives_up(2, 3, 1, WaitOnAddress::new);
    tries(WaitOnAddress::new);
}

#[test]
fn mcs_spin() {
    all_add(2, 3, 1, McsSpin::new);
    tries(McsSpin::new);
}

#[test]
fn fair() {
    all_add(2, 3, 1, Fair::new);
    all_add(2, 2, 2, Fair::new);
    tries(Fair::new);
}

#[test]
fn clh() {
    all_add(3, 3, 1, Clh::new);
    all_add(2, 2, 2, Clh::new);
    tries(Clh::new);
}

#[test]
fn clh_spin() {
    all_add(2, 3, 1, ClhSpin::new);
    tries(ClhSpin::new);
}

#[test]
fn mcs() {
    all_add(3, 3, 1, Mcs::new);
    tries(Mcs::new);
}

/// The lock is held before the others come, so that one preemption less is needed to let a head sleep, lead and leave.
#[test]
fn mcs_heads_follow_each_other() {
    explore(3, || {
        let counter = Arc::new(Counter::new(Mcs::new()));
        let guard = counter.lock.lock();
        let others: Vec<_> = (0..2)
            .map(|_| {
                let counter = Arc::clone(&counter);
                loom::thread::spawn(move || counter.add())
            })
            .collect();
        counter.add_and_unlock(guard);
        others.into_iter().for_each(|other| other.join().unwrap());
        let guard = counter.lock.try_lock().expect("everybody has released it");
        // SAFETY: the lock is held.
        counter.value.with(|value| assert_eq!(unsafe { *value }, 3));
        // SAFETY: the guard is that of the acquisition above.
        unsafe { counter.lock.unlock(guard) };
    });
}

#[test]
fn mcs_again_and_again() {
    all_add(4, 2, 2, Mcs::new);
}

#[test]
fn adaptive() {
    with_patience(NEVER, || two_twice_and_three_once(Adaptive::new));
}

#[test]
fn adaptive_that_sleeps_at_once() {
    with_patience(NEVER, || two_twice_and_three_once(|| Adaptive::with_spin(0)));
}

#[test]
fn adaptive_starving_hand_over() {
    with_patience(AT_ONCE, || two_twice_and_three_once(|| Adaptive::with_spin(0)));
}

#[test]
fn adaptive_gives_up() {
    with_patience(NEVER, || {
        one_gives_up(2, 3, 1, || Adaptive::with_spin(0));
        one_gives_up(three_in_proofs(), 3, 2, || Adaptive::with_spin(0));
    });
}

#[test]
fn adaptive_gives_up_while_it_starves() {
    with_patience(AT_ONCE, || {
        one_gives_up(2, 3, 1, || Adaptive::with_spin(0));
        // Time enough to starve before.
        let timeout = Duration::from_micros(4);
        one_gives_up_after(timeout, 2, 3, 1, || Adaptive::with_spin(0));
        one_gives_up_after(timeout, three_in_proofs(), 2, 2, || Adaptive::with_spin(0));
    });
}

#[test]
fn adaptive_tries() {
    with_patience(NEVER, || tries(Adaptive::new));
}

#[test]
fn adaptive_asymmetric() {
    asymmetric_with_patience(NEVER, || {
        all_add(3, 2, 2, Adaptive::new);
        all_add(2, 3, 1, Adaptive::new);
        tries(Adaptive::new);
    });
}

#[test]
fn adaptive_asymmetric_that_sleeps_at_once() {
    asymmetric_with_patience(NEVER, || two_twice_and_three_once(|| Adaptive::with_spin(0)));
}

#[test]
fn adaptive_asymmetric_starving() {
    asymmetric_with_patience(AT_ONCE, || all_add(3, 2, 2, || Adaptive::with_spin(0)));
}

#[test]
fn adaptive_asymmetric_gives_up() {
    asymmetric_with_patience(NEVER, || {
        one_gives_up(2, 3, 1, || Adaptive::with_spin(0));
        one_gives_up(3, 2, 2, || Adaptive::with_spin(0));
        one_gives_up(2, 3, 1, Adaptive::new);
    });
}

#[test]
fn recursive() {
    recurse::<Futex>();
    recurse::<Clh>();
}

#[test]
fn kernel_objects() {
    with_objects(true, || {
        of_an_object(EventFd::new);
        of_an_object(EventFdSem::new);
        of_an_object(Pipe::new);
        of_an_object(SysvSem::new);
        of_an_object(FutexPi::new);
    });
}

#[test]
fn kernel_stand_ins() {
    with_objects(false, || {
        of_an_object(EventFd::new);
        of_an_object(SysvSem::new);
        of_an_object(FutexPi::new);
    });
}

/// All threads meet one object, and those that lost the race close theirs.
#[test]
fn kernel_object_is_made_once() {
    with_objects(true, || {
        explore(3, || {
            let lock = Arc::new(EventFd::new());
            model::Make::make(&*lock);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let lock = Arc::clone(&lock);
                    loom::thread::spawn(move || lock.create().is_ok())
                })
                .collect();
            others.into_iter().for_each(|other| assert!(other.join().unwrap()));
            assert_eq!(model::open_objects(), 1);
            drop(lock);
            assert_eq!(model::open_objects(), 0);
        });
    });
}
