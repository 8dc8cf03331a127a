//! Mutexes that know their owner: recursive, error checking, robust.

use libc::{EBUSY, EDEADLK, ENOTRECOVERABLE, EOWNERDEAD, EPERM, ETIMEDOUT};

use super::fork::{SharedMemory, child, must_end_well};
use super::objects::{Attributes, Cond, Mutex, in_ms};
use super::trial::{Section, WHILE, compete, elsewhere, ensure, expect, let_others_sleep};

/// The static form, the dynamic one, and the adaptive kind, which is normal in all but how it waits.
pub fn recursive(seed: u64) {
    static STATIC: Mutex = Mutex::recursive();
    static ADAPTIVE: Mutex = Mutex::adaptive();
    counts_its_owner("static", &STATIC, seed);
    counts_its_owner("dynamic", &Mutex::with(Attributes::kind(libc::PTHREAD_MUTEX_RECURSIVE)), seed);
    let section = Section::new();
    let visits = compete(4, WHILE / 3, seed, |random| {
        ADAPTIVE.must_lock();
        section.visit(random);
        ADAPTIVE.must_unlock();
        1
    });
    section.ensure_visits(visits);
    ADAPTIVE.must_be_free();
}

fn counts_its_owner(form: &str, mutex: &Mutex, seed: u64) {
    let again = |code| ensure!(code == 0, "the owner of a {form} recursive lock did not get it again: error {code}");
    mutex.must_lock();
    again(mutex.lock());
    again(mutex.trylock());
    again(mutex.timedlock(&in_ms(libc::CLOCK_REALTIME, 1000)));
    for held in (0..4).rev() {
        mutex.must_be_held();
        expect("pthread_mutex_unlock by another thread", elsewhere(|| mutex.unlock()), EPERM);
        ensure!(
            mutex.unlock() == 0,
            "the owner could not unlock a {form} recursive lock that was held {} times",
            held + 1
        );
    }
    expect("pthread_mutex_unlock of a free recursive lock", mutex.unlock(), EPERM);
    elsewhere(|| mutex.must_be_free());
    waits_on_a_condition(mutex);

    let section = Section::new();
    let visits = compete(4, WHILE / 2, seed, |random| {
        let depth = 1 + random.u64(..3);
        (0..depth).for_each(|_| mutex.must_lock());
        section.visit(random);
        (0..depth).for_each(|_| mutex.must_unlock());
        1
    });
    section.ensure_visits(visits);
    mutex.must_be_free();
}

/// Waiting gives the lock back, and the wait ends with it held once.
fn waits_on_a_condition(mutex: &Mutex) {
    let cond = Cond::new();
    mutex.must_lock();
    let code = cond.timedwait(mutex, &in_ms(libc::CLOCK_REALTIME, 2));
    ensure!(code == 0 || code == ETIMEDOUT, "pthread_cond_timedwait returned {code}");
    mutex.must_be_held();
    mutex.must_unlock();
    expect("pthread_mutex_unlock after a wait and an unlock", mutex.unlock(), EPERM);
}

/// Every misuse has its error, and the lock still excludes.
pub fn errorcheck(seed: u64) {
    static STATIC: Mutex = Mutex::errorcheck();
    let dynamic = Mutex::with(Attributes::kind(libc::PTHREAD_MUTEX_ERRORCHECK));
    for mutex in [&STATIC, &dynamic] {
        expect("pthread_mutex_unlock of a free error-checking lock", mutex.unlock(), EPERM);
        mutex.must_lock();
        expect("pthread_mutex_lock by the owner", mutex.lock(), EDEADLK);
        expect("pthread_mutex_timedlock by the owner", mutex.timedlock(&in_ms(libc::CLOCK_REALTIME, 50)), EDEADLK);
        expect("pthread_mutex_trylock by the owner", mutex.trylock(), EBUSY);
        expect("pthread_mutex_unlock by another thread", elsewhere(|| mutex.unlock()), EPERM);
        mutex.must_be_held();
        mutex.must_unlock();
        expect("pthread_mutex_unlock of an unlocked lock", mutex.unlock(), EPERM);
        waits_on_a_condition(mutex);
        let section = Section::new();
        let visits = compete(4, WHILE / 2, seed, |random| {
            let code = if random.u64(..2) == 0 { mutex.lock() } else { mutex.trylock() };
            if code == EBUSY {
                return 0;
            }
            expect("a lock or trylock of an error-checking lock", code, 0);
            section.visit(random);
            mutex.must_unlock();
            1
        });
        section.ensure_visits(visits);
        mutex.must_be_free();
    }
}

/// Owners die as threads and as processes.
pub fn robust(_: u64) {
    let robust = Attributes { robust: true, ..Attributes::default() };
    let mutex = Mutex::with(robust);
    elsewhere(|| mutex.must_lock());
    expect("pthread_mutex_lock after its owner's end", mutex.lock(), EOWNERDEAD);
    expect("pthread_mutex_consistent", mutex.consistent(), 0);
    mutex.must_unlock();
    mutex.must_be_free();

    elsewhere(|| mutex.must_lock());
    expect("pthread_mutex_trylock after its owner's end", mutex.trylock(), EOWNERDEAD);
    mutex.must_unlock();
    expect("pthread_mutex_lock of a lock that nobody made consistent", mutex.lock(), ENOTRECOVERABLE);

    let memory = SharedMemory::<Mutex>::new();
    memory.must_init(Attributes { shared: true, ..robust });
    for _ in 0..3 {
        dies_before_a_waiter(&memory);
    }
}

/// A child process takes the lock and ends; a thread that waits meanwhile is told.
fn dies_before_a_waiter(mutex: &Mutex) {
    let ready = SharedMemory::<std::sync::atomic::AtomicU32>::new();
    let owner = child(|| {
        mutex.must_lock();
        ready.store(1, std::sync::atomic::Ordering::SeqCst);
        let_others_sleep();
        let_others_sleep();
    });
    super::trial::wait_for(|| ready.load(std::sync::atomic::Ordering::SeqCst) == 1);
    let code = elsewhere(|| {
        let code = mutex.lock();
        if code == EOWNERDEAD {
            expect("pthread_mutex_consistent", mutex.consistent(), 0);
        }
        mutex.must_unlock();
        code
    });
    must_end_well(owner);
    expect("pthread_mutex_lock while its owner's process ends", code, EOWNERDEAD);
    mutex.must_be_free();
}
