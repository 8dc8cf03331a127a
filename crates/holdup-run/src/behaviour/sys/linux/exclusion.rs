//! The four ways to take a mutex.

use std::sync::atomic::{AtomicBool, Ordering};

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, EINVAL, ETIMEDOUT, clockid_t, timespec};

use super::objects::{Attributes, Mutex, has_come, in_ms, in_ns};
use super::trial::{Section, WHILE, compete, elsewhere, ensure, expect, let_others_sleep, wait_for};
use fastrand::Rng;

/// Four threads, a static lock and an initialised one, nested and alone.
pub fn lock(seed: u64) {
    static OUTER: Mutex = Mutex::new();
    let inner = Mutex::with(Attributes::kind(libc::PTHREAD_MUTEX_NORMAL));
    let (outer_section, inner_section) = (Section::new(), Section::new());
    let inside_inner = |random: &mut Rng| {
        inner.must_lock();
        inner_section.visit(random);
        inner.must_unlock();
    };
    // The inner section's visits are counted in the upper half.
    const INNER: u64 = 1 << 32;
    let counts = compete(4, WHILE, seed, |random| {
        let (nested, alone) = (random.u64(..4) == 0, random.u64(..4) == 0);
        OUTER.must_lock();
        outer_section.visit(random);
        if nested {
            inside_inner(random);
        }
        OUTER.must_unlock();
        if alone {
            inside_inner(random);
        }
        1 + INNER * (u64::from(nested) + u64::from(alone))
    });
    outer_section.ensure_visits(counts % INNER);
    inner_section.ensure_visits(counts / INNER);
    OUTER.must_be_free();
    inner.must_be_free();
}

/// First with fresh locks, so that the very first call is trylock; then mixed.
pub fn trylock(seed: u64) {
    static FRESH: Mutex = Mutex::new();
    expect("the first pthread_mutex_trylock", FRESH.trylock(), 0);
    expect("pthread_mutex_trylock by the holder", FRESH.trylock(), EBUSY);
    FRESH.must_be_held();
    must_hand_over(&FRESH);
    let locked = Mutex::with(Attributes::default());
    locked.must_lock();
    locked.must_be_held();
    must_hand_over(&locked);

    let section = Section::new();
    let visits = compete(4, WHILE, seed, |random| {
        if random.u64(..2) == 0 {
            FRESH.must_lock();
        } else {
            match FRESH.trylock() {
                0 => {}
                code => {
                    expect("pthread_mutex_trylock", code, EBUSY);
                    return 0;
                }
            }
        }
        section.visit(random);
        FRESH.must_unlock();
        1
    });
    section.ensure_visits(visits);
    FRESH.must_be_free();
}

/// The lock is held by the caller: another thread that wants it gets it, but not before it is unlocked.
fn must_hand_over(mutex: &Mutex) {
    let (about_to_lock, released) = (AtomicBool::new(false), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            about_to_lock.store(true, Ordering::SeqCst);
            mutex.must_lock();
            ensure!(released.load(Ordering::SeqCst), "lock did not wait for the holder, who had used trylock or lock");
            mutex.must_unlock();
        });
        wait_for(|| about_to_lock.load(Ordering::SeqCst));
        let_others_sleep();
        released.store(true, Ordering::SeqCst);
        mutex.must_unlock();
    });
    mutex.must_be_free();
}

/// `pthread_mutex_timedlock`, whose clock is the real-time clock.
pub fn timedlock(seed: u64) {
    timed("pthread_mutex_timedlock", CLOCK_REALTIME, seed, Mutex::timedlock);
}

/// `pthread_mutex_clocklock` with both of its clocks.
pub fn clocklock(seed: u64) {
    for clock in [CLOCK_MONOTONIC, CLOCK_REALTIME] {
        let lock = |mutex: &Mutex, time: &timespec| mutex.clocklock(clock, time);
        timed("pthread_mutex_clocklock", clock, seed, lock);
    }
    let mutex = Mutex::new();
    let no_clock = mutex.clocklock(libc::CLOCK_PROCESS_CPUTIME_ID, &in_ms(CLOCK_MONOTONIC, 1));
    expect("pthread_mutex_clocklock with a clock that it does not take", no_clock, EINVAL);
    mutex.must_be_free();
}

fn timed(call: &str, clock: clockid_t, seed: u64, timed: impl Fn(&Mutex, &timespec) -> i32 + Sync) {
    const LONG_MS: i64 = 60_000;
    let mutex = Mutex::new();
    expect(call, timed(&mutex, &in_ms(clock, -1000)), 0);
    mutex.must_be_held();
    let deadline = in_ms(clock, 25);
    expect(call, elsewhere(|| timed(&mutex, &deadline)), ETIMEDOUT);
    ensure!(has_come(clock, &deadline), "{call} gave up before its deadline");
    expect(call, elsewhere(|| timed(&mutex, &in_ms(clock, -1000))), ETIMEDOUT);
    let nonsense = timespec { tv_nsec: 1_000_000_000, ..in_ms(clock, 1000) };
    expect(call, elsewhere(|| timed(&mutex, &nonsense)), EINVAL);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            expect(call, timed(&mutex, &in_ms(clock, LONG_MS)), 0);
            mutex.must_unlock();
        });
        let_others_sleep();
        mutex.must_unlock();
    });

    let section = Section::new();
    let visits = compete(4, WHILE, seed, |random| {
        let code = match random.u64(..4) {
            0 => mutex.lock(),
            1 => timed(&mutex, &in_ms(clock, LONG_MS)),
            _ => timed(&mutex, &in_ns(clock, random.u64(..60_000) as i64)),
        };
        if code == 0 {
            section.visit(random);
            mutex.must_unlock();
            return 1;
        }
        expect(call, code, ETIMEDOUT);
        0
    });
    section.ensure_visits(visits);
    mutex.must_be_free();
    // Whoever gave up has left nothing behind that would keep others out.
    let after = compete(4, WHILE / 6, seed, |random| {
        mutex.must_lock();
        section.visit(random);
        mutex.must_unlock();
        1
    });
    section.ensure_visits(visits + after);
}
