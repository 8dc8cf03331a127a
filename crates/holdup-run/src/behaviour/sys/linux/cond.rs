//! Condition variables: they give a lock back and take it again inside the C library.

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, ETIMEDOUT, c_int, clockid_t, pthread_key_t, pthread_t, timespec};

use super::objects::{Attributes, Cond, Mutex, has_come, in_ms, pthread_cond_clockwait};
use super::trial::{Section, Until, WHILE, compete, ensure, expect, fail};
use fastrand::Rng;

/// Rounds of a broadcast to all waiters, then a queue between producers and consumers.
pub fn broadcast(seed: u64) {
    rounds(seed);
    queue(seed);
}

/// Six waiters, thirty rounds. Each visits the section right after its wait: it must have the lock.
fn rounds(seed: u64) {
    const WAITERS: u64 = 6;
    const ROUNDS: u64 = 30;
    static MUTEX: Mutex = Mutex::new();
    static GO: Cond = Cond::new();
    static ARRIVED: Cond = Cond::new();
    let (arrived, round, section) = (AtomicU64::new(0), AtomicU64::new(0), Section::new());
    let waiter = |index: u64| {
        let mut random = Rng::with_seed(seed ^ index);
        MUTEX.must_lock();
        for this in 0..ROUNDS {
            arrived.fetch_add(1, Ordering::Relaxed);
            ARRIVED.must_signal();
            while round.load(Ordering::Relaxed) == this {
                GO.must_wait(&MUTEX);
            }
            section.visit(&mut random);
        }
        MUTEX.must_unlock();
    };
    std::thread::scope(|scope| {
        (0..WAITERS).for_each(|index| drop(scope.spawn(move || waiter(index))));
        for this in 0..ROUNDS {
            MUTEX.must_lock();
            while arrived.load(Ordering::Relaxed) < WAITERS * (this + 1) {
                ARRIVED.must_wait(&MUTEX);
            }
            round.store(this + 1, Ordering::Relaxed);
            // Both are allowed: to broadcast with the lock and without it.
            if this % 2 == 0 {
                GO.must_broadcast();
                MUTEX.must_unlock();
            } else {
                MUTEX.must_unlock();
                GO.must_broadcast();
            }
        }
    });
    section.ensure_visits(WAITERS * ROUNDS);
    MUTEX.must_be_free();
}

/// Two producers, three consumers, a bounded queue of which only the length matters.
fn queue(seed: u64) {
    const ITEMS: u64 = 1_200;
    const ROOM: u64 = 4;
    let mutex = Mutex::with(Attributes::default());
    let (filled, emptied) = (Cond::new(), Cond::new());
    let (length, made, taken) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let section = Section::new();
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let produce = |random: &mut Rng| {
        mutex.must_lock();
        while get(&length) == ROOM && get(&made) < ITEMS {
            emptied.must_wait(&mutex);
        }
        let more = get(&made) < ITEMS;
        if more {
            section.visit(random);
            made.store(get(&made) + 1, Ordering::Relaxed);
            length.store(get(&length) + 1, Ordering::Relaxed);
        }
        // The last item ends the wait of everybody.
        if get(&made) == ITEMS {
            filled.must_broadcast()
        } else {
            filled.must_signal()
        }
        mutex.must_unlock();
        more
    };
    let consume = |random: &mut Rng| {
        mutex.must_lock();
        while get(&length) == 0 && get(&taken) + get(&length) < ITEMS {
            filled.must_wait(&mutex);
        }
        let more = get(&length) > 0;
        if more {
            section.visit(random);
            length.store(get(&length) - 1, Ordering::Relaxed);
            taken.store(get(&taken) + 1, Ordering::Relaxed);
        }
        if get(&taken) == ITEMS {
            filled.must_broadcast();
        }
        emptied.must_broadcast();
        mutex.must_unlock();
        more
    };
    std::thread::scope(|scope| {
        let (produce, consume) = (&produce, &consume);
        for index in 0..5 {
            let mut random = Rng::with_seed(seed ^ (100 + index));
            scope.spawn(move || while if index < 2 { produce(&mut random) } else { consume(&mut random) } {});
        }
    });
    ensure!(get(&taken) == ITEMS && get(&length) == 0, "{} of {ITEMS} items came through the queue", get(&taken));
    section.ensure_visits(2 * ITEMS);
}

/// A wait with a deadline.
type TimedWait = fn(&Cond, &Mutex, clockid_t, &timespec) -> c_int;

/// Both functions, both clocks of the newer one.
pub fn clockwait(seed: u64) {
    let ways: [(&str, clockid_t, TimedWait); 3] = [
        ("pthread_cond_clockwait", CLOCK_MONOTONIC, Cond::clockwait),
        ("pthread_cond_clockwait", CLOCK_REALTIME, Cond::clockwait),
        ("pthread_cond_timedwait", CLOCK_REALTIME, |cond, mutex, _, time| cond.timedwait(mutex, time)),
    ];
    for (call, clock, wait) in ways {
        signal_ends(call, clock, wait);
        deadline_ends(call, clock, wait);
        contended(call, clock, wait, seed);
    }
}

/// The signaller needs the lock while the waiter waits. If it gets it only after the deadline, no signal can end the
/// wait.
fn signal_ends(call: &str, clock: clockid_t, wait: TimedWait) {
    const DEADLINE_MS: i64 = 6_000;
    let (mutex, cond) = (Mutex::new(), Cond::new());
    let (waits, signalled) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let deadline = in_ms(clock, DEADLINE_MS);
            mutex.must_lock();
            waits.store(true, Ordering::Relaxed);
            while !signalled.load(Ordering::Relaxed) {
                let code = wait(&cond, &mutex, clock, &deadline);
                ensure!(code != ETIMEDOUT, "the signaller did not get the lock during {call}, only after its deadline");
                expect(call, code, 0);
            }
            mutex.must_be_held();
            mutex.must_unlock();
        });
        let until = Instant::now();
        loop {
            mutex.must_lock();
            if waits.load(Ordering::Relaxed) {
                break;
            }
            mutex.must_unlock();
            std::thread::yield_now();
        }
        signalled.store(true, Ordering::Relaxed);
        cond.must_signal();
        mutex.must_unlock();
        let took = until.elapsed().as_millis();
        ensure!(took < DEADLINE_MS as u128, "the signaller got the lock after {took} ms, when {call} had timed out");
    });
}

/// Nobody signals: the wait ends at its deadline, not before, with the lock held.
fn deadline_ends(call: &str, clock: clockid_t, wait: TimedWait) {
    let (mutex, cond) = (Mutex::new(), Cond::new());
    mutex.must_lock();
    let deadline = in_ms(clock, 15);
    let code = loop {
        match wait(&cond, &mutex, clock, &deadline) {
            // A wake-up without a reason is allowed.
            0 => {}
            code => break code,
        }
    };
    expect(call, code, ETIMEDOUT);
    ensure!(has_come(clock, &deadline), "{call} timed out before its deadline");
    mutex.must_be_held();
    mutex.must_unlock();
    mutex.must_be_free();
}

/// Waits that time out between threads that want the lock.
fn contended(call: &str, clock: clockid_t, wait: TimedWait, seed: u64) {
    let (mutex, cond, section) = (Mutex::new(), Cond::new(), Section::new());
    let visits = compete(4, WHILE / 3, seed, |random| {
        mutex.must_lock();
        if random.u64(..4) == 0 {
            let code = wait(&cond, &mutex, clock, &in_ms(clock, random.u64(..2) as i64));
            ensure!(code == 0 || code == ETIMEDOUT, "{call} returned {code}");
        } else if random.u64(..4) == 0 {
            cond.must_signal();
        }
        section.visit(random);
        mutex.must_unlock();
        1
    });
    section.ensure_visits(visits);
    mutex.must_be_free();
}

// Cancellation unwinds the thread's stack through these calls, so they are declared as functions that can unwind, and
// the frames between them and the thread's start own nothing that needs to be dropped.
unsafe extern "C-unwind" {
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const c_void,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_cond_wait(cond: *mut libc::pthread_cond_t, mutex: *mut libc::pthread_mutex_t) -> c_int;
    fn pthread_cond_timedwait(
        cond: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        time: *const timespec,
    ) -> c_int;
    fn pthread_cancel(thread: pthread_t) -> c_int;
}

/// What a thread that is to be cancelled works with.
struct Cancelled {
    mutex: Mutex,
    cond: Cond,
    section: Section,
    /// The key whose destructor is the thread's clean-up.
    key: pthread_key_t,
    /// Which of the three waits.
    way: AtomicU32,
    /// It has the lock and is about to wait.
    waits: AtomicBool,
    cleaned_up: AtomicU64,
    deadline: timespec,
}

/// `PTHREAD_CANCELED`
const CANCELED: *mut c_void = ptr::without_provenance_mut(usize::MAX);

/// Threads are cancelled in each of the three waits, while two others use the lock.
pub fn cancel(seed: u64) {
    const ROUNDS: u64 = 30;
    let mut key = 0;
    // SAFETY: writes the key into the place given.
    expect("pthread_key_create", unsafe { libc::pthread_key_create(&raw mut key, Some(clean_up)) }, 0);
    let cancelled = &Cancelled {
        mutex: Mutex::new(),
        cond: Cond::new(),
        section: Section::new(),
        key,
        way: AtomicU32::new(0),
        waits: AtomicBool::new(false),
        cleaned_up: AtomicU64::new(0),
        deadline: in_ms(CLOCK_REALTIME, 600_000),
    };
    let over = AtomicBool::new(false);
    let others = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for index in 0..2 {
            let (over, others) = (&over, &others);
            scope.spawn(move || {
                let mut random = Rng::with_seed(seed ^ index);
                while !over.load(Ordering::Relaxed) {
                    visit(cancelled, &mut random);
                    others.fetch_add(1, Ordering::Relaxed);
                    std::thread::yield_now();
                }
            });
        }
        for round in 0..ROUNDS {
            cancel_one(cancelled, round);
        }
        over.store(true, Ordering::Relaxed);
    });
    let cleaned_up = cancelled.cleaned_up.load(Ordering::Relaxed);
    ensure!(cleaned_up == ROUNDS, "{cleaned_up} of {ROUNDS} cancelled threads cleaned up");
    cancelled.section.ensure_visits(others.load(Ordering::Relaxed) + ROUNDS);
    let after = compete(4, WHILE / 6, seed, |random| {
        visit(cancelled, random);
        1
    });
    cancelled.section.ensure_visits(others.load(Ordering::Relaxed) + ROUNDS + after);
    cancelled.mutex.must_be_free();
}

fn visit(cancelled: &Cancelled, random: &mut Rng) {
    cancelled.mutex.must_lock();
    cancelled.section.visit(random);
    cancelled.mutex.must_unlock();
}

/// Starts a thread, waits until it waits, cancels it and joins it.
fn cancel_one(cancelled: &Cancelled, round: u64) {
    cancelled.way.store((round % 3) as u32, Ordering::SeqCst);
    cancelled.waits.store(false, Ordering::SeqCst);
    let (mut thread, mut result) = (0, ptr::null_mut());
    let argument = ptr::from_ref(cancelled).cast_mut().cast();
    // SAFETY: the argument outlives the thread, which is joined below.
    expect("pthread_create", unsafe { pthread_create(&raw mut thread, ptr::null(), wait_for_ever, argument) }, 0);
    loop {
        cancelled.mutex.must_lock();
        // It set this with the lock and gave the lock back by waiting.
        let waits = cancelled.waits.load(Ordering::Relaxed);
        cancelled.mutex.must_unlock();
        if waits {
            break;
        }
        std::thread::yield_now();
    }
    // SAFETY: the thread exists until it is joined, and it has been neither joined nor detached.
    unsafe {
        expect("pthread_cancel", pthread_cancel(thread), 0);
        expect("pthread_join", libc::pthread_join(thread, &raw mut result), 0);
    }
    ensure!(result == CANCELED, "the thread ended by itself, not by being cancelled");
}

extern "C-unwind" fn wait_for_ever(argument: *mut c_void) -> *mut c_void {
    // SAFETY: `cancel_one` gives a `Cancelled` that lives until this thread is joined.
    let cancelled = unsafe { &*argument.cast::<Cancelled>() };
    // SAFETY: the key is valid; the value is what its destructor expects.
    unsafe { libc::pthread_setspecific(cancelled.key, argument) };
    cancelled.mutex.must_lock();
    cancelled.waits.store(true, Ordering::Relaxed);
    let (cond, mutex, deadline) = (cancelled.cond.as_ptr(), cancelled.mutex.as_ptr(), &raw const cancelled.deadline);
    let way = cancelled.way.load(Ordering::Relaxed);
    let until = Until::after(std::time::Duration::from_secs(600));
    while !until.is_over() {
        // SAFETY: both objects live until the thread is joined, and this thread has the mutex.
        unsafe {
            match way {
                0 => pthread_cond_wait(cond, mutex),
                1 => pthread_cond_timedwait(cond, mutex, deadline),
                _ => pthread_cond_clockwait(cond, mutex, CLOCK_REALTIME, deadline),
            };
        }
    }
    fail("a wait was not cancelled for ten minutes")
}

/// The cancelled thread's clean-up: it was given the lock again before its stack was unwound.
unsafe extern "C" fn clean_up(argument: *mut c_void) {
    // SAFETY: the value that `wait_for_ever` has set.
    let cancelled = unsafe { &*argument.cast::<Cancelled>() };
    cancelled.section.visit(&mut Rng::with_seed(1));
    cancelled.cleaned_up.fetch_add(1, Ordering::Relaxed);
    cancelled.mutex.must_unlock();
}
