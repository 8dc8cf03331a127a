//! What stands beside the mutex: read-write locks, spin locks, and the locks of C11.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use libc::{CLOCK_REALTIME, EBUSY, ETIMEDOUT, c_int, timespec};

use super::objects::{in_ms, in_ns};
use super::trial::{Section, WHILE, compete, elsewhere, ensure, expect, linger, wait_for};
use fastrand::Rng;

unsafe extern "C" {
    pub fn pthread_rwlock_timedrdlock(lock: *mut libc::pthread_rwlock_t, deadline: *const timespec) -> c_int;
    pub fn pthread_rwlock_timedwrlock(lock: *mut libc::pthread_rwlock_t, deadline: *const timespec) -> c_int;
}

/// `pthread_rwlock_t`
pub struct ReadWrite(pub UnsafeCell<libc::pthread_rwlock_t>);

// SAFETY: the object exists to be used from many threads; everything about it goes through the C library's functions.
unsafe impl Sync for ReadWrite {}

impl ReadWrite {
    pub const fn new() -> ReadWrite {
        ReadWrite(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER))
    }

    pub fn call(&self, function: unsafe extern "C" fn(*mut libc::pthread_rwlock_t) -> c_int) -> c_int {
        // SAFETY: all of these functions take a lock that lives as long as the borrow; only holders unlock.
        unsafe { function(self.0.get()) }
    }

    pub fn timed(
        &self,
        function: unsafe extern "C" fn(*mut libc::pthread_rwlock_t, *const timespec) -> c_int,
        deadline: &timespec,
    ) -> c_int {
        // SAFETY: as in `call`; the time lives through the call.
        unsafe { function(self.0.get(), deadline) }
    }
}

/// Meetings of readers, refusals, exclusion of writers; then spin locks.
pub fn rwlock(seed: u64) {
    static STATIC: ReadWrite = ReadWrite::new();
    readers_meet(&STATIC);
    refusals(&STATIC);
    let made = ReadWrite::new();
    // SAFETY: fresh memory of ours; null attributes are the default.
    expect("pthread_rwlock_init", unsafe { libc::pthread_rwlock_init(made.0.get(), std::ptr::null()) }, 0);
    readers_meet(&made);
    writers_exclude(&made, seed);
    expect("pthread_rwlock_destroy", made.call(libc::pthread_rwlock_destroy), 0);
    spin(seed);
}

/// Both must be inside before either leaves.
pub fn readers_meet(lock: &ReadWrite) {
    let inside = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                expect("pthread_rwlock_rdlock", lock.call(libc::pthread_rwlock_rdlock), 0);
                inside.fetch_add(1, Ordering::SeqCst);
                wait_for(|| inside.load(Ordering::SeqCst) == 2);
                expect("pthread_rwlock_unlock", lock.call(libc::pthread_rwlock_unlock), 0);
            });
        }
    });
}

fn refusals(lock: &ReadWrite) {
    let soon = || in_ms(CLOCK_REALTIME, 5);
    expect("pthread_rwlock_rdlock", lock.call(libc::pthread_rwlock_rdlock), 0);
    elsewhere(|| {
        expect("pthread_rwlock_trywrlock beside a reader", lock.call(libc::pthread_rwlock_trywrlock), EBUSY);
        let timed = lock.timed(pthread_rwlock_timedwrlock, &soon());
        expect("pthread_rwlock_timedwrlock beside a reader", timed, ETIMEDOUT);
        expect("pthread_rwlock_tryrdlock beside a reader", lock.call(libc::pthread_rwlock_tryrdlock), 0);
        expect("pthread_rwlock_unlock", lock.call(libc::pthread_rwlock_unlock), 0);
    });
    expect("pthread_rwlock_unlock", lock.call(libc::pthread_rwlock_unlock), 0);
    expect("pthread_rwlock_trywrlock", lock.call(libc::pthread_rwlock_trywrlock), 0);
    elsewhere(|| {
        expect("pthread_rwlock_tryrdlock beside a writer", lock.call(libc::pthread_rwlock_tryrdlock), EBUSY);
        let timed = lock.timed(pthread_rwlock_timedrdlock, &soon());
        expect("pthread_rwlock_timedrdlock beside a writer", timed, ETIMEDOUT);
    });
    expect("pthread_rwlock_unlock", lock.call(libc::pthread_rwlock_unlock), 0);
}

pub fn writers_exclude(lock: &ReadWrite, seed: u64) {
    let (section, readers) = (Section::new(), AtomicU64::new(0));
    let visits = compete(4, WHILE / 2, seed, |random| {
        if random.u64(..3) == 0 {
            expect("pthread_rwlock_wrlock", lock.call(libc::pthread_rwlock_wrlock), 0);
            section.visit(random);
            ensure!(readers.load(Ordering::SeqCst) == 0, "a reader was inside beside a writer");
            expect("pthread_rwlock_unlock", lock.call(libc::pthread_rwlock_unlock), 0);
            return 1;
        }
        expect("pthread_rwlock_rdlock", lock.call(libc::pthread_rwlock_rdlock), 0);
        readers.fetch_add(1, Ordering::SeqCst);
        let before = section.visits();
        linger(random);
        ensure!(section.visits() == before, "a writer was inside beside a reader");
        readers.fetch_sub(1, Ordering::SeqCst);
        expect("pthread_rwlock_unlock", lock.call(libc::pthread_rwlock_unlock), 0);
        0
    });
    section.ensure_visits(visits);
}

/// `pthread_spinlock_t`
struct Spin(UnsafeCell<libc::pthread_spinlock_t>);

// SAFETY: as for `ReadWrite`.
unsafe impl Sync for Spin {}

fn spin(seed: u64) {
    let lock = Spin(UnsafeCell::new(0));
    let call = |function: unsafe extern "C" fn(*mut libc::pthread_spinlock_t) -> c_int| {
        let lock = &lock;
        // SAFETY: all of these functions take a lock that lives as long as the borrow; only holders unlock.
        unsafe { function(lock.0.get()) }
    };
    // SAFETY: fresh memory of ours.
    expect("pthread_spin_init", unsafe { libc::pthread_spin_init(lock.0.get(), 0) }, 0);
    expect("pthread_spin_lock", call(libc::pthread_spin_lock), 0);
    expect("pthread_spin_trylock", elsewhere(|| call(libc::pthread_spin_trylock)), EBUSY);
    expect("pthread_spin_unlock", call(libc::pthread_spin_unlock), 0);
    let section = Section::new();
    let visits = compete(3, WHILE / 3, seed, |random| {
        expect("pthread_spin_lock", call(libc::pthread_spin_lock), 0);
        section.visit(random);
        expect("pthread_spin_unlock", call(libc::pthread_spin_unlock), 0);
        1
    });
    section.ensure_visits(visits);
    expect("pthread_spin_destroy", call(libc::pthread_spin_destroy), 0);
}

/// `mtx_t` and `cnd_t`: in the GNU C library as large and as aligned as their relatives.
#[repr(C)]
struct C11 {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    cond: UnsafeCell<libc::pthread_cond_t>,
}

// SAFETY: as for `ReadWrite`.
unsafe impl Sync for C11 {}

type Mtx = libc::pthread_mutex_t;
type Cnd = libc::pthread_cond_t;

const MTX_PLAIN: c_int = 0;
const MTX_RECURSIVE: c_int = 1;
const MTX_TIMED: c_int = 2;
const THRD_SUCCESS: c_int = 0;
const THRD_BUSY: c_int = 1;
const THRD_TIMEDOUT: c_int = 4;

unsafe extern "C" {
    fn mtx_init(mutex: *mut Mtx, kind: c_int) -> c_int;
    fn mtx_lock(mutex: *mut Mtx) -> c_int;
    fn mtx_trylock(mutex: *mut Mtx) -> c_int;
    fn mtx_timedlock(mutex: *mut Mtx, deadline: *const timespec) -> c_int;
    fn mtx_unlock(mutex: *mut Mtx) -> c_int;
    fn mtx_destroy(mutex: *mut Mtx);
    fn cnd_init(cond: *mut Cnd) -> c_int;
    fn cnd_wait(cond: *mut Cnd, mutex: *mut Mtx) -> c_int;
    fn cnd_timedwait(cond: *mut Cnd, mutex: *mut Mtx, deadline: *const timespec) -> c_int;
    fn cnd_broadcast(cond: *mut Cnd) -> c_int;
    fn cnd_destroy(cond: *mut Cnd);
}

/// A call must return this code of C11's.
fn expect_c11(call: &str, returned: c_int, expected: c_int) {
    let name = |code| match code {
        THRD_SUCCESS => "thrd_success".to_owned(),
        THRD_BUSY => "thrd_busy".to_owned(),
        THRD_TIMEDOUT => "thrd_timedout".to_owned(),
        code => code.to_string(),
    };
    ensure!(returned == expected, "{call} returned {}, not {}", name(returned), name(expected));
}

impl C11 {
    fn new(kind: c_int) -> Box<C11> {
        // SAFETY: zero is a value of both, and they are initialised before any other use.
        let new = Box::new(unsafe { C11 { mutex: std::mem::zeroed(), cond: std::mem::zeroed() } });
        // SAFETY: fresh memory of ours, which stays where it is.
        unsafe {
            expect_c11("mtx_init", mtx_init(new.mutex.get(), kind), THRD_SUCCESS);
            expect_c11("cnd_init", cnd_init(new.cond.get()), THRD_SUCCESS);
        }
        new
    }

    fn call(&self, function: unsafe extern "C" fn(*mut Mtx) -> c_int) -> c_int {
        // SAFETY: all of these functions take a lock that lives as long as the borrow; only holders unlock.
        unsafe { function(self.mutex.get()) }
    }

    fn lock(&self) {
        expect_c11("mtx_lock", self.call(mtx_lock), THRD_SUCCESS);
    }

    fn unlock(&self) {
        expect_c11("mtx_unlock", self.call(mtx_unlock), THRD_SUCCESS);
    }

    fn timedlock(&self, deadline: &timespec) -> c_int {
        // SAFETY: as in `call`; the time lives through the call.
        unsafe { mtx_timedlock(self.mutex.get(), deadline) }
    }

    fn wait(&self) {
        // SAFETY: both live as long as the borrow, and the caller holds the lock.
        expect_c11("cnd_wait", unsafe { cnd_wait(self.cond.get(), self.mutex.get()) }, THRD_SUCCESS);
    }

    fn waits_until_the_deadline(&self) {
        self.lock();
        let deadline = in_ms(CLOCK_REALTIME, 5);
        let code = loop {
            // SAFETY: as in `wait`; the time lives through the call.
            match unsafe { cnd_timedwait(self.cond.get(), self.mutex.get(), &raw const deadline) } {
                // A wake-up without a reason is allowed.
                THRD_SUCCESS => {}
                code => break code,
            }
        };
        expect_c11("cnd_timedwait without a signal", code, THRD_TIMEDOUT);
        self.unlock();
    }

    fn destroy(&self) {
        // SAFETY: nobody holds the lock or waits, and nobody uses either again.
        unsafe {
            mtx_destroy(self.mutex.get());
            cnd_destroy(self.cond.get());
        }
    }
}

/// The same questions as for the relatives, with C11's answers.
pub fn c11(seed: u64) {
    let lock = C11::new(MTX_TIMED);
    expect_c11("mtx_trylock of a free lock", lock.call(mtx_trylock), THRD_SUCCESS);
    elsewhere(|| {
        expect_c11("mtx_trylock of a held lock", lock.call(mtx_trylock), THRD_BUSY);
        expect_c11("mtx_timedlock of a held lock", lock.timedlock(&in_ms(CLOCK_REALTIME, 5)), THRD_TIMEDOUT);
    });
    lock.unlock();
    lock.waits_until_the_deadline();
    c11_excludes(&lock, seed);
    c11_excludes(&C11::new(MTX_PLAIN), seed);
    let recursive = C11::new(MTX_RECURSIVE);
    recursive.lock();
    recursive.lock();
    recursive.unlock();
    expect_c11("mtx_trylock of a held lock", elsewhere(|| recursive.call(mtx_trylock)), THRD_BUSY);
    recursive.unlock();
    everybody_wakes();
    lock.destroy();
}

fn c11_excludes(lock: &C11, seed: u64) {
    let section = Section::new();
    let visits = compete(4, WHILE / 2, seed, |random| {
        let code = match random.u64(..3) {
            0 => lock.call(mtx_trylock),
            1 => lock.timedlock(&in_ns(CLOCK_REALTIME, random.u64(..60_000) as i64)),
            _ => lock.call(mtx_lock),
        };
        if code == THRD_BUSY || code == THRD_TIMEDOUT {
            return 0;
        }
        expect_c11("a function that locks a mtx_t", code, THRD_SUCCESS);
        section.visit(random);
        lock.unlock();
        1
    });
    section.ensure_visits(visits);
    expect_c11("mtx_trylock of a free lock", lock.call(mtx_trylock), THRD_SUCCESS);
    lock.unlock();
}

/// Three threads wait for one broadcast.
fn everybody_wakes() {
    let (lock, section) = (C11::new(MTX_PLAIN), Section::new());
    let (waiting, go) = (AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for index in 0..3 {
            let (lock, section, waiting, go) = (&lock, &section, &waiting, &go);
            scope.spawn(move || {
                lock.lock();
                waiting.fetch_add(1, Ordering::SeqCst);
                while go.load(Ordering::Relaxed) == 0 {
                    lock.wait();
                }
                section.visit(&mut Rng::with_seed(index));
                lock.unlock();
            });
        }
        wait_for(|| waiting.load(Ordering::SeqCst) == 3);
        lock.lock();
        go.store(1, Ordering::Relaxed);
        // SAFETY: the condition lives on.
        expect_c11("cnd_broadcast", unsafe { cnd_broadcast(lock.cond.get()) }, THRD_SUCCESS);
        lock.unlock();
    });
    section.ensure_visits(3);
}
