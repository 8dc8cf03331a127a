//! The C library's locks as a program calls them, by their own names: whatever is preloaded answers.
//!
//! Methods named as the function's last part return what the function returned; those with `must_` in front end the
//! process if that is not 0. No object moves while it is in use: they are statics, boxed, or borrowed by scoped
//! threads.

use std::cell::UnsafeCell;

use libc::{c_int, clockid_t, pthread_mutexattr_t, timespec};

use super::trial::expect;

unsafe extern "C" {
    fn pthread_mutex_clocklock(mutex: *mut libc::pthread_mutex_t, clock: clockid_t, time: *const timespec) -> c_int;
}

unsafe extern "C-unwind" {
    // A cancelled thread's stack is unwound through it.
    pub fn pthread_cond_clockwait(
        cond: *mut libc::pthread_cond_t,
        mutex: *mut libc::pthread_mutex_t,
        clock: clockid_t,
        time: *const timespec,
    ) -> c_int;
}

/// How a mutex is initialised.
#[derive(Clone, Copy, Debug, Default)]
pub struct Attributes {
    /// `PTHREAD_MUTEX_NORMAL` and so on; an explicit normal lock is another number than the default in the C library's
    /// lock.
    pub kind: Option<c_int>,
    pub robust: bool,
    pub shared: bool,
}

impl Attributes {
    pub fn kind(kind: c_int) -> Attributes {
        Attributes { kind: Some(kind), ..Attributes::default() }
    }
}

/// `pthread_mutex_t`.
#[derive(Debug)]
#[repr(transparent)]
pub struct Mutex(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the object exists to be used from many threads; everything about it goes through the C library's functions.
unsafe impl Sync for Mutex {}
// SAFETY: nobody sends one that is in use (see the module); one that is not is plain memory.
unsafe impl Send for Mutex {}

impl Mutex {
    /// `PTHREAD_MUTEX_INITIALIZER`
    pub const fn new() -> Mutex {
        Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    /// `PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP`
    pub const fn recursive() -> Mutex {
        Mutex(UnsafeCell::new(libc::PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP))
    }

    /// `PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP`
    pub const fn errorcheck() -> Mutex {
        Mutex(UnsafeCell::new(libc::PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP))
    }

    /// `PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP`
    pub const fn adaptive() -> Mutex {
        Mutex(UnsafeCell::new(libc::PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP))
    }

    /// A new one, initialised by `pthread_mutex_init`.
    pub fn with(attributes: Attributes) -> Box<Mutex> {
        let mutex = Box::new(Mutex::new());
        mutex.must_init(attributes);
        mutex
    }

    /// `pthread_mutex_init`
    pub fn must_init(&self, attributes: Attributes) {
        // SAFETY: the attributes are initialised before use and destroyed after; the memory of the mutex is ours.
        unsafe {
            let mut attr: pthread_mutexattr_t = std::mem::zeroed();
            expect("pthread_mutexattr_init", libc::pthread_mutexattr_init(&raw mut attr), 0);
            if let Some(kind) = attributes.kind {
                let set = libc::pthread_mutexattr_settype(&raw mut attr, kind);
                expect("pthread_mutexattr_settype", set, 0);
            }
            if attributes.robust {
                let set = libc::pthread_mutexattr_setrobust(&raw mut attr, libc::PTHREAD_MUTEX_ROBUST);
                expect("pthread_mutexattr_setrobust", set, 0);
            }
            if attributes.shared {
                let set = libc::pthread_mutexattr_setpshared(&raw mut attr, libc::PTHREAD_PROCESS_SHARED);
                expect("pthread_mutexattr_setpshared", set, 0);
            }
            expect("pthread_mutex_init", libc::pthread_mutex_init(self.0.get(), &raw const attr), 0);
            expect("pthread_mutexattr_destroy", libc::pthread_mutexattr_destroy(&raw mut attr), 0);
        }
    }

    /// For functions that are not called by name.
    pub fn as_ptr(&self) -> *mut libc::pthread_mutex_t {
        self.0.get()
    }

    pub fn lock(&self) -> c_int {
        // SAFETY: the pointer is to a mutex that lives as long as the borrow.
        unsafe { libc::pthread_mutex_lock(self.0.get()) }
    }

    pub fn trylock(&self) -> c_int {
        // SAFETY: as in `lock`.
        unsafe { libc::pthread_mutex_trylock(self.0.get()) }
    }

    pub fn timedlock(&self, deadline: &timespec) -> c_int {
        // SAFETY: as in `lock`; the time lives through the call.
        unsafe { libc::pthread_mutex_timedlock(self.0.get(), deadline) }
    }

    pub fn clocklock(&self, clock: clockid_t, deadline: &timespec) -> c_int {
        // SAFETY: as in `timedlock`.
        unsafe { pthread_mutex_clocklock(self.0.get(), clock, deadline) }
    }

    pub fn unlock(&self) -> c_int {
        // SAFETY: as in `lock`; a wrong unlock is answered with an error or, for normal mutexes, never done but by
        // agreement.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) }
    }

    pub fn consistent(&self) -> c_int {
        // SAFETY: as in `lock`.
        unsafe { libc::pthread_mutex_consistent(self.0.get()) }
    }

    pub fn destroy(&self) -> c_int {
        // SAFETY: as in `lock`; whoever destroys it initialises it again before any other use.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) }
    }

    #[track_caller]
    pub fn must_lock(&self) {
        expect("pthread_mutex_lock", self.lock(), 0);
    }

    #[track_caller]
    pub fn must_unlock(&self) {
        expect("pthread_mutex_unlock", self.unlock(), 0);
    }

    /// Nobody holds it, and it can be taken.
    #[track_caller]
    pub fn must_be_free(&self) {
        expect("pthread_mutex_trylock of a free lock", self.trylock(), 0);
        self.must_unlock();
    }

    /// Another thread finds it held.
    #[track_caller]
    pub fn must_be_held(&self) {
        let code = super::trial::elsewhere(|| self.trylock());
        expect("pthread_mutex_trylock of a lock that another thread holds", code, libc::EBUSY);
    }
}

/// `pthread_cond_t`.
#[derive(Debug)]
#[repr(transparent)]
pub struct Cond(UnsafeCell<libc::pthread_cond_t>);

// SAFETY: as for `Mutex`.
unsafe impl Sync for Cond {}
// SAFETY: as for `Mutex`.
unsafe impl Send for Cond {}

impl Cond {
    /// `PTHREAD_COND_INITIALIZER`
    pub const fn new() -> Cond {
        Cond(UnsafeCell::new(libc::PTHREAD_COND_INITIALIZER))
    }

    /// `pthread_cond_init` for use between processes.
    pub fn must_init_shared(&self) {
        // SAFETY: the attributes are initialised before use and destroyed after; the memory of the condition is ours.
        unsafe {
            let mut attr: libc::pthread_condattr_t = std::mem::zeroed();
            expect("pthread_condattr_init", libc::pthread_condattr_init(&raw mut attr), 0);
            let set = libc::pthread_condattr_setpshared(&raw mut attr, libc::PTHREAD_PROCESS_SHARED);
            expect("pthread_condattr_setpshared", set, 0);
            expect("pthread_cond_init", libc::pthread_cond_init(self.0.get(), &raw const attr), 0);
            expect("pthread_condattr_destroy", libc::pthread_condattr_destroy(&raw mut attr), 0);
        }
    }

    pub fn as_ptr(&self) -> *mut libc::pthread_cond_t {
        self.0.get()
    }

    /// Waits, with the mutex held.
    #[track_caller]
    pub fn must_wait(&self, mutex: &Mutex) {
        // SAFETY: both live as long as the borrows, and the caller holds the mutex.
        expect("pthread_cond_wait", unsafe { libc::pthread_cond_wait(self.0.get(), mutex.as_ptr()) }, 0);
    }

    pub fn timedwait(&self, mutex: &Mutex, deadline: &timespec) -> c_int {
        // SAFETY: as in `must_wait`; the time lives through the call.
        unsafe { libc::pthread_cond_timedwait(self.0.get(), mutex.as_ptr(), deadline) }
    }

    pub fn clockwait(&self, mutex: &Mutex, clock: clockid_t, deadline: &timespec) -> c_int {
        // SAFETY: as in `timedwait`.
        unsafe { pthread_cond_clockwait(self.0.get(), mutex.as_ptr(), clock, deadline) }
    }

    #[track_caller]
    pub fn must_signal(&self) {
        // SAFETY: the condition lives as long as the borrow.
        expect("pthread_cond_signal", unsafe { libc::pthread_cond_signal(self.0.get()) }, 0);
    }

    #[track_caller]
    pub fn must_broadcast(&self) {
        // SAFETY: as in `must_signal`.
        expect("pthread_cond_broadcast", unsafe { libc::pthread_cond_broadcast(self.0.get()) }, 0);
    }
}

/// A clock's time now.
pub fn now(clock: clockid_t) -> timespec {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec into the one given.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time
}

/// So many nanoseconds from now, or before now.
pub fn in_ns(clock: clockid_t, ns: i64) -> timespec {
    const SECOND: i64 = 1_000_000_000;
    let time = now(clock);
    let sum = time.tv_nsec + ns;
    timespec { tv_sec: time.tv_sec + sum.div_euclid(SECOND), tv_nsec: sum.rem_euclid(SECOND) }
}

/// So many milliseconds from now.
pub fn in_ms(clock: clockid_t, ms: i64) -> timespec {
    in_ns(clock, ms * 1_000_000)
}

/// Whether the clock has reached a time.
pub fn has_come(clock: clockid_t, time: &timespec) -> bool {
    let now = now(clock);
    (now.tv_sec, now.tv_nsec) >= (time.tv_sec, time.tv_nsec)
}
