//! Reader-writer locks where a policy may not touch them, or must not be noticed: readers that nest, locks of other
//! kinds, between processes and over forks, waits that end at a time.

use std::sync::atomic::{AtomicU32, Ordering};

use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EBUSY, EINVAL, ETIMEDOUT, c_int, clockid_t, timespec};

use super::fork::{SharedMemory, child, must_end_well};
use super::objects::{has_come, in_ms, in_ns};
use super::siblings::{
    ReadWrite, pthread_rwlock_timedrdlock, pthread_rwlock_timedwrlock, readers_meet, writers_exclude,
};
use super::trial::{Section, WHILE, compete, elsewhere, ensure, expect, let_others_sleep, linger, wait_for};

unsafe extern "C" {
    fn pthread_rwlock_clockrdlock(
        lock: *mut libc::pthread_rwlock_t,
        clock: clockid_t,
        deadline: *const timespec,
    ) -> c_int;
    fn pthread_rwlock_clockwrlock(
        lock: *mut libc::pthread_rwlock_t,
        clock: clockid_t,
        deadline: *const timespec,
    ) -> c_int;
    fn pthread_rwlockattr_setkind_np(attributes: *mut libc::pthread_rwlockattr_t, kind: c_int) -> c_int;
}

/// A function that takes a lock, a clock and a time.
type Clocked = unsafe extern "C" fn(*mut libc::pthread_rwlock_t, clockid_t, *const timespec) -> c_int;

impl ReadWrite {
    fn clocked(&self, function: Clocked, clock: clockid_t, deadline: &timespec) -> c_int {
        // SAFETY: the lock lives as long as the borrow; the time lives through the call.
        unsafe { function(self.0.get(), clock, deadline) }
    }

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
            let clock_read =
                |lock: &ReadWrite, time: &timespec| lock.clocked(pthread_rwlock_clockrdlock, CLOCK_REALTIME, time);
            lock.must_read();
            expect("pthread_rwlock_tryrdlock of a reader", lock.call(libc::pthread_rwlock_tryrdlock), 0);
            expect("pthread_rwlock_timedrdlock of a reader", lock.timed(pthread_rwlock_timedrdlock, &soon()), 0);
            expect("pthread_rwlock_clockrdlock of a reader", clock_read(lock, &soon()), 0);
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

/// Reads and writes that give up at a time, by the functions whose clock is fixed, and by those that take one.
pub fn timed(seed: u64) {
    for clock in [CLOCK_MONOTONIC, CLOCK_REALTIME] {
        let read = |lock: &ReadWrite, time: &timespec| lock.clocked(pthread_rwlock_clockrdlock, clock, time);
        let write = |lock: &ReadWrite, time: &timespec| lock.clocked(pthread_rwlock_clockwrlock, clock, time);
        let names = ["pthread_rwlock_clockrdlock", "pthread_rwlock_clockwrlock"];
        gives_up_in_time(&Timed { names, clock, read, write }, seed);
    }
    let read = |lock: &ReadWrite, time: &timespec| lock.timed(pthread_rwlock_timedrdlock, time);
    let write = |lock: &ReadWrite, time: &timespec| lock.timed(pthread_rwlock_timedwrlock, time);
    let names = ["pthread_rwlock_timedrdlock", "pthread_rwlock_timedwrlock"];
    gives_up_in_time(&Timed { names, clock: CLOCK_REALTIME, read, write }, seed);

    let lock = ReadWrite::new();
    let functions: [Clocked; 2] = [pthread_rwlock_clockrdlock, pthread_rwlock_clockwrlock];
    for function in functions {
        let no_clock = lock.clocked(function, libc::CLOCK_PROCESS_CPUTIME_ID, &in_ms(CLOCK_MONOTONIC, 1));
        expect("a pthread_rwlock_clock function with a clock that it does not take", no_clock, EINVAL);
    }
    expect("pthread_rwlock_trywrlock", lock.call(libc::pthread_rwlock_trywrlock), 0);
    lock.must_unlock();
}

/// A pair of functions that take a lock for reading and for writing, with a time of one clock.
struct Timed<R, W> {
    names: [&'static str; 2],
    clock: clockid_t,
    read: R,
    write: W,
}

impl<R: Fn(&ReadWrite, &timespec) -> c_int + Sync, W: Fn(&ReadWrite, &timespec) -> c_int + Sync> Timed<R, W> {
    /// So many milliseconds from now.
    fn in_ms(&self, ms: i64) -> timespec {
        in_ms(self.clock, ms)
    }

    fn read(&self, lock: &ReadWrite, time: &timespec, expected: c_int) {
        expect(self.names[0], (self.read)(lock, time), expected);
    }

    fn write(&self, lock: &ReadWrite, time: &timespec, expected: c_int) {
        expect(self.names[1], (self.write)(lock, time), expected);
    }

    /// Reading or writing.
    fn take(&self, writes: bool, lock: &ReadWrite, time: &timespec, expected: c_int) {
        if writes { self.write(lock, time, expected) } else { self.read(lock, time, expected) }
    }

    /// Reads or writes (true) give up a lock that another thread has, at the time and not before.
    fn give_up(&self, lock: &ReadWrite, sides: &[bool]) {
        let nonsense = timespec { tv_nsec: 1_000_000_000, ..self.in_ms(1000) };
        for &writes in sides {
            elsewhere(|| {
                let deadline = self.in_ms(15);
                self.take(writes, lock, &deadline, ETIMEDOUT);
                let call = self.names[usize::from(writes)];
                ensure!(has_come(self.clock, &deadline), "{call} gave up before its deadline");
                self.take(writes, lock, &self.in_ms(-1000), ETIMEDOUT);
                self.take(writes, lock, &nonsense, EINVAL);
            });
        }
    }
}

fn gives_up_in_time<R, W>(timed: &Timed<R, W>, seed: u64)
where
    R: Fn(&ReadWrite, &timespec) -> c_int + Sync,
    W: Fn(&ReadWrite, &timespec) -> c_int + Sync,
{
    let lock = &ReadWrite::new();
    // A free lock is had however late it is.
    let late = || timed.in_ms(-1000);
    timed.read(lock, &late(), 0);
    timed.give_up(lock, &[true]);
    // The writer that gave up keeps no reader out.
    elsewhere(|| {
        timed.read(lock, &late(), 0);
        lock.must_unlock();
    });
    lock.must_unlock();
    timed.write(lock, &late(), 0);
    timed.give_up(lock, &[false, true]);
    std::thread::scope(|scope| {
        for writes in [false, true] {
            scope.spawn(move || {
                let time = timed.in_ms(60_000);
                if writes {
                    timed.write(lock, &time, 0)
                } else {
                    timed.read(lock, &time, 0)
                }
                lock.must_unlock();
            });
        }
        let_others_sleep();
        lock.must_unlock();
    });
    timed_exclude(timed, lock, seed);
    // Whoever gave up has left nothing behind that would keep others out.
    readers_meet(lock);
    expect("pthread_rwlock_trywrlock", lock.call(libc::pthread_rwlock_trywrlock), 0);
    lock.must_unlock();
}

/// Threads that have little patience.
fn timed_exclude<R, W>(timed: &Timed<R, W>, lock: &ReadWrite, seed: u64)
where
    R: Fn(&ReadWrite, &timespec) -> c_int + Sync,
    W: Fn(&ReadWrite, &timespec) -> c_int + Sync,
{
    let section = Section::new();
    let visits = compete(4, WHILE / 2, seed, |random| {
        let writes = random.u64(..3) == 0;
        let time = in_ns(timed.clock, random.u64(..60_000) as i64);
        let code = if writes { (timed.write)(lock, &time) } else { (timed.read)(lock, &time) };
        if code != 0 {
            expect(timed.names[usize::from(writes)], code, ETIMEDOUT);
            return 0;
        }
        if writes {
            section.visit(random);
        } else {
            let before = section.visits();
            linger(random);
            ensure!(section.visits() == before, "a writer was inside beside a reader");
        }
        lock.must_unlock();
        u64::from(writes)
    });
    section.ensure_visits(visits);
}
