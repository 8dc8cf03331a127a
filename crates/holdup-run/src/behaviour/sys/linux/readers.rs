//! Reader-writer locks where a policy may not touch them, or must not be noticed: readers that nest, locks of other
//! kinds, between processes and over forks.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{CLOCK_REALTIME, EBUSY, ETIMEDOUT, c_int, clockid_t, timespec};

use super::fork::{SharedMemory, child, must_end_well};
use super::objects::in_ms;
use super::siblings::{
    ReadWrite, pthread_rwlock_timedrdlock, pthread_rwlock_timedwrlock, readers_meet, writers_exclude,
};
use super::trial::{elsewhere, expect, let_others_sleep, wait_for};

unsafe extern "C" {
    fn pthread_rwlock_clockrdlock(
        lock: *mut libc::pthread_rwlock_t,
        clock: clockid_t,
        deadline: *const timespec,
    ) -> c_int;
    fn pthread_rwlockattr_setkind_np(attributes: *mut libc::pthread_rwlockattr_t, kind: c_int) -> c_int;
}

unsafe extern "C" fn clock_read(lock: *mut libc::pthread_rwlock_t, deadline: *const timespec) -> c_int {
    // SAFETY: the caller's lock and time.
    unsafe { pthread_rwlock_clockrdlock(lock, CLOCK_REALTIME, deadline) }
}

impl ReadWrite {
    fn must_read(&self) {
        expect("pthread_rwlock_rdlock", self.call(libc::pthread_rwlock_rdlock), 0);
    }

    fn must_write(&self) {
        expect("pthread_rwlock_wrlock", self.call(libc::pthread_rwlock_wrlock), 0);
    }

    fn must_unlock(&self) {
        expect("pthread_rwlock_unlock", self.call(libc::pthread_rwlock_unlock), 0);
    }

    fn must_init(&self, kind: c_int, sharing: c_int) {
        let mut attributes = std::mem::MaybeUninit::uninit();
        // SAFETY: the attributes are initialised by the first call, before all others; the lock is fresh memory.
        unsafe {
            expect("pthread_rwlockattr_init", libc::pthread_rwlockattr_init(attributes.as_mut_ptr()), 0);
            let attributes = attributes.as_mut_ptr();
            expect("pthread_rwlockattr_setkind_np", pthread_rwlockattr_setkind_np(attributes, kind), 0);
            expect("pthread_rwlockattr_setpshared", libc::pthread_rwlockattr_setpshared(attributes, sharing), 0);
            expect("pthread_rwlock_init", libc::pthread_rwlock_init(self.0.get(), attributes), 0);
        }
    }
}

/// Readers that read again, by every call, while a writer waits for them to leave.
pub fn nested(_: u64) {
    static STATIC: ReadWrite = ReadWrite::new();
    read_again(&STATIC);
    let made = ReadWrite::new();
    made.must_init(0, libc::PTHREAD_PROCESS_PRIVATE);
    read_again(&made);
    read_crosswise();
}

fn read_again(lock: &ReadWrite) {
    for _ in 0..3 {
        lock.must_read();
        beside_a_writer(lock, || {
            let soon = || in_ms(CLOCK_REALTIME, 5000);
            lock.must_read();
            expect("pthread_rwlock_tryrdlock of a reader", lock.call(libc::pthread_rwlock_tryrdlock), 0);
            expect("pthread_rwlock_timedrdlock of a reader", lock.timed(pthread_rwlock_timedrdlock, &soon()), 0);
            expect("pthread_rwlock_clockrdlock of a reader", lock.timed(clock_read, &soon()), 0);
            expect("pthread_rwlock_trywrlock beside readers", lock.call(libc::pthread_rwlock_trywrlock), EBUSY);
            (0..5).for_each(|_| lock.must_unlock());
        });
        // Whoever was in must have been counted out, for readers and writers alike.
        expect("pthread_rwlock_trywrlock", lock.call(libc::pthread_rwlock_trywrlock), 0);
        lock.must_unlock();
    }
}

/// Acts while a thread waits to write, which it does when the act is over.
fn beside_a_writer(lock: &ReadWrite, act: impl FnOnce()) {
    let about_to = AtomicU32::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            about_to.store(1, Ordering::SeqCst);
            lock.must_write();
            lock.must_unlock();
        });
        wait_for(|| about_to.load(Ordering::SeqCst) == 1);
        let_others_sleep();
        act();
    });
}

/// Two threads read two locks in opposite order, a writer waits for each.
fn read_crosswise() {
    let locks = [ReadWrite::new(), ReadWrite::new()];
    let (reads, go) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for first in [0, 1] {
            let (locks, reads, go) = (&locks, &reads, &go);
            scope.spawn(move || {
                locks[first].must_read();
                reads.fetch_add(1, Ordering::SeqCst);
                wait_for(|| go.load(Ordering::SeqCst) == 1);
                locks[1 - first].must_read();
                (0..2).for_each(|at| locks[at].must_unlock());
            });
        }
        wait_for(|| reads.load(Ordering::SeqCst) == 2);
        for lock in &locks {
            scope.spawn(|| {
                lock.must_write();
                lock.must_unlock();
            });
        }
        let_others_sleep();
        go.store(1, Ordering::SeqCst);
    });
}

/// All kinds, in one process, between two, and over a fork.
pub fn others(seed: u64) {
    // PTHREAD_RWLOCK_PREFER_READER_NP, _WRITER_NP and _WRITER_NONRECURSIVE_NP.
    for kind in 0..3 {
        let lock = ReadWrite::new();
        lock.must_init(kind, libc::PTHREAD_PROCESS_PRIVATE);
        readers_meet(&lock);
        writers_exclude(&lock, seed);
        over_a_fork(&lock);
        let shared = SharedMemory::<ReadWrite>::new();
        shared.must_init(kind, libc::PTHREAD_PROCESS_SHARED);
        between_processes(&shared);
    }
    over_a_fork(&ReadWrite::new());
}

/// Whoever waits in another process is woken.
fn between_processes(lock: &ReadWrite) {
    for writes in [true, false] {
        lock.must_write();
        let other = child(|| {
            if writes {
                lock.must_write()
            } else {
                lock.must_read()
            }
            lock.must_unlock();
        });
        let_others_sleep();
        lock.must_unlock();
        must_end_well(other);
    }
    lock.must_write();
    lock.must_unlock();
}

/// Held for reading by the thread that forks: in both processes it is, and can be used on.
fn over_a_fork(lock: &ReadWrite) {
    lock.must_read();
    let pid = child(|| {
        lock.must_read();
        let soon = in_ms(CLOCK_REALTIME, 5);
        let timed = elsewhere(|| lock.timed(pthread_rwlock_timedwrlock, &soon));
        expect("pthread_rwlock_timedwrlock in the child of a lock held over fork", timed, ETIMEDOUT);
        (0..2).for_each(|_| lock.must_unlock());
        lock.must_write();
        lock.must_unlock();
        readers_meet(lock);
    });
    must_end_well(pid);
    expect("pthread_rwlock_trywrlock beside a reader", lock.call(libc::pthread_rwlock_trywrlock), EBUSY);
    lock.must_unlock();
    lock.must_write();
    lock.must_unlock();
}
