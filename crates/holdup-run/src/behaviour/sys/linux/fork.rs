//! Locks and processes: shared between them, or held while one becomes two.

use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{EBUSY, pid_t};

use super::objects::{Attributes, Cond, Mutex};
use super::trial::{Section, WHILE, compete, ensure, expect, fail, let_others_sleep, wait_for};
use fastrand::Rng;

/// One value in memory that child processes share; all zero at first.
pub struct SharedMemory<T> {
    address: *mut T,
    holds: PhantomData<T>,
}

// SAFETY: it gives out shared references only, and `T` may be shared.
unsafe impl<T: Sync> Sync for SharedMemory<T> {}

impl<T> SharedMemory<T> {
    /// `T` must be made of locks and atomics, for which zero is a value.
    pub fn new() -> SharedMemory<T> {
        let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, wherever the kernel puts it.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), size_of::<T>(), libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if address == libc::MAP_FAILED {
            fail("there is no shared memory to be had");
        }
        SharedMemory { address: address.cast(), holds: PhantomData }
    }
}

impl<T> Deref for SharedMemory<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the mapping is as large as T, aligned to a page, and stays until the process ends.
        unsafe { &*self.address }
    }
}

/// Runs something in a child process, which ends with status 0 if that returns.
pub fn child(act: impl FnOnce()) -> pid_t {
    // SAFETY: the child uses the locks that are under test, threads and memory, all of which glibc keeps usable over a
    // fork, and ends without running what belongs to its parent.
    match unsafe { libc::fork() } {
        -1 => fail("fork failed"),
        0 => {
            act();
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) }
        }
        pid => pid,
    }
}

/// Waits for a child, which must have ended with status 0.
pub fn must_end_well(pid: pid_t) {
    let mut status = 0;
    // SAFETY: our own child, not yet reaped; the call writes one status.
    let reaped = unsafe { libc::waitpid(pid, &raw mut status, 0) };
    ensure!(reaped == pid, "the child of a fork cannot be waited for");
    ensure!(!libc::WIFSIGNALED(status), "the child of a fork was ended by signal {}", libc::WTERMSIG(status));
    ensure!(libc::WEXITSTATUS(status) == 0, "the child of a fork ended with status {}", libc::WEXITSTATUS(status));
}

/// What two processes share.
struct Shared {
    mutex: Mutex,
    cond: Cond,
    section: Section,
    visits: AtomicU64,
    ready: AtomicU32,
    turn: AtomicU64,
}

/// Exclusion between two threads in each of two processes, then a ball that they throw to each other.
pub fn process_shared(seed: u64) {
    const THROWS: u64 = 200;
    let shared = SharedMemory::<Shared>::new();
    shared.mutex.must_init(Attributes { shared: true, ..Attributes::default() });
    shared.cond.must_init_shared();
    let play = |me: u64| {
        shared.ready.fetch_add(1, Ordering::SeqCst);
        wait_for(|| shared.ready.load(Ordering::SeqCst) == 2);
        let visits = compete(2, WHILE, seed ^ me, |random| {
            shared.mutex.must_lock();
            shared.section.visit(random);
            shared.mutex.must_unlock();
            1
        });
        shared.visits.fetch_add(visits, Ordering::SeqCst);
        shared.mutex.must_lock();
        for _ in 0..THROWS {
            while shared.turn.load(Ordering::Relaxed) % 2 != me {
                shared.cond.must_wait(&shared.mutex);
            }
            shared.turn.fetch_add(1, Ordering::Relaxed);
            shared.cond.must_signal();
        }
        shared.mutex.must_unlock();
    };
    let other = child(|| play(1));
    play(0);
    must_end_well(other);
    shared.section.ensure_visits(shared.visits.load(Ordering::SeqCst));
    let throws = shared.turn.load(Ordering::Relaxed);
    ensure!(throws == 2 * THROWS, "{throws} throws, not {}", 2 * THROWS);
}

/// Locked by the lock behind the fork handlers below.
static GUARDED: Mutex = Mutex::new();

unsafe extern "C" fn take_guarded() {
    GUARDED.must_lock();
}

unsafe extern "C" fn give_guarded() {
    GUARDED.must_unlock();
}

/// Held by the thread that forks, by another one, and by a fork handler as libraries do.
pub fn held(seed: u64) {
    // SAFETY: the three functions live as long as the program.
    let registered = unsafe { libc::pthread_atfork(Some(take_guarded), Some(give_guarded), Some(give_guarded)) };
    expect("pthread_atfork", registered, 0);
    let (mine, theirs) = (Mutex::new(), Mutex::new());
    let (done, theirs_is_held) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            theirs.must_lock();
            theirs_is_held.store(1, Ordering::SeqCst);
            let mut random = Rng::with_seed(seed);
            // Keeps the guarded lock busy while forks happen.
            while done.load(Ordering::SeqCst) == 0 {
                GUARDED.must_lock();
                super::trial::linger(&mut random);
                GUARDED.must_unlock();
                super::trial::linger(&mut random);
            }
            theirs.must_unlock();
        });
        wait_for(|| theirs_is_held.load(Ordering::SeqCst) == 1);
        for round in 0..6 {
            mine.must_lock();
            let pid = child(|| {
                expect("pthread_mutex_trylock in the child of a lock held over fork", mine.trylock(), EBUSY);
                expect("pthread_mutex_trylock in the child of another thread's lock", theirs.trylock(), EBUSY);
                mine.must_unlock();
                use_in_child(&mine, seed + round);
                use_in_child(&GUARDED, seed + round);
                theirs.must_init(Attributes::default());
                use_in_child(&theirs, seed + round);
            });
            must_end_well(pid);
            mine.must_be_held();
            mine.must_unlock();
        }
        done.store(1, Ordering::SeqCst);
    });
    mine.must_be_free();
    theirs.must_be_free();
}

/// The child's own threads compete for the lock.
fn use_in_child(mutex: &Mutex, seed: u64) {
    mutex.must_be_free();
    let section = Section::new();
    let visits = compete(2, WHILE / 30, seed, |random| {
        mutex.must_lock();
        section.visit(random);
        mutex.must_unlock();
        1
    });
    section.ensure_visits(visits);
}

/// Four threads wait for the lock at the time of the fork. They are not in the child, and get the lock in the parent.
pub fn waiters(seed: u64) {
    const WAITERS: u32 = 4;
    let (mutex, section) = (Mutex::new(), Section::new());
    for round in 0..5 {
        let about_to_wait = AtomicU32::new(0);
        mutex.must_lock();
        std::thread::scope(|scope| {
            for _ in 0..WAITERS {
                scope.spawn(|| {
                    about_to_wait.fetch_add(1, Ordering::SeqCst);
                    mutex.must_lock();
                    section.visit(&mut Rng::with_seed(seed));
                    mutex.must_unlock();
                });
            }
            wait_for(|| about_to_wait.load(Ordering::SeqCst) == WAITERS);
            let_others_sleep();
            let pid = child(|| {
                expect("pthread_mutex_trylock in the child of a lock held over fork", mutex.trylock(), EBUSY);
                mutex.must_unlock();
                use_in_child(&mutex, seed + round);
            });
            must_end_well(pid);
            mutex.must_be_held();
            mutex.must_unlock();
        });
        section.ensure_visits(u64::from(WAITERS) * (round + 1));
        mutex.must_be_free();
    }
}
