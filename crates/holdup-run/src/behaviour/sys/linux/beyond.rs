//! Locks that are no mutexes of the C library, and are waited for as if they were: semaphores, and OpenMP's locks.

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use fastrand::Rng;
use libc::{CLOCK_MONOTONIC, CLOCK_REALTIME, EAGAIN, EINTR, ETIMEDOUT, c_int, clockid_t, pthread_t, sem_t, timespec};

use super::objects::{has_come, in_ms};
use super::trial::{Section, WHILE, compete, elsewhere, ensure, expect, fail, let_others_sleep, wait_for};

unsafe extern "C-unwind" {
    // Cancelled threads' stacks are unwound through these.
    fn sem_wait(semaphore: *mut sem_t) -> c_int;
    fn sem_clockwait(semaphore: *mut sem_t, clock: clockid_t, until: *const timespec) -> c_int;
    fn pthread_create(
        thread: *mut pthread_t,
        attributes: *const c_void,
        start: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        argument: *mut c_void,
    ) -> c_int;
    fn pthread_cancel(thread: pthread_t) -> c_int;
}

/// `sem_t`.
struct Semaphore(UnsafeCell<sem_t>);

// SAFETY: the object exists to be used from many threads; everything about it goes through the C library's functions.
unsafe impl Sync for Semaphore {}

impl Semaphore {
    fn new(value: u32) -> Box<Semaphore> {
        // SAFETY: zero is a valid value of the structure, and the memory of it is ours.
        unsafe {
            let semaphore = Box::new(Semaphore(UnsafeCell::new(std::mem::zeroed())));
            expect("sem_init", libc::sem_init(semaphore.0.get(), 0, value), 0);
            semaphore
        }
    }

    /// 0, or what `errno` says.
    fn code(result: c_int) -> c_int {
        if result == 0 { 0 } else { std::io::Error::last_os_error().raw_os_error().unwrap_or(-1) }
    }

    fn wait(&self) -> c_int {
        // SAFETY: the semaphore is initialised and lives as long as the borrow.
        Self::code(unsafe { sem_wait(self.0.get()) })
    }

    fn trywait(&self) -> c_int {
        // SAFETY: as in `wait`.
        Self::code(unsafe { libc::sem_trywait(self.0.get()) })
    }

    fn timedwait(&self, until: &timespec) -> c_int {
        // SAFETY: as in `wait`; the time lives through the call.
        Self::code(unsafe { libc::sem_timedwait(self.0.get(), until) })
    }

    fn clockwait(&self, clock: clockid_t, until: &timespec) -> c_int {
        // SAFETY: as in `timedwait`.
        Self::code(unsafe { sem_clockwait(self.0.get(), clock, until) })
    }

    fn must_post(&self) {
        // SAFETY: as in `wait`.
        expect("sem_post", Self::code(unsafe { libc::sem_post(self.0.get()) }), 0);
    }
}

/// Counts, time limits, signals and cancellation; then exclusion by a semaphore of one.
pub fn semaphore(seed: u64) {
    let two = Semaphore::new(2);
    expect("sem_wait", two.wait(), 0);
    expect("sem_trywait", two.trywait(), 0);
    expect("sem_trywait of 0", two.trywait(), EAGAIN);
    for clock in [CLOCK_REALTIME, CLOCK_MONOTONIC] {
        let soon = in_ms(clock, 5);
        let timed = if clock == CLOCK_REALTIME { two.timedwait(&soon) } else { two.clockwait(clock, &soon) };
        expect("a timed wait for a semaphore of 0", timed, ETIMEDOUT);
        ensure!(has_come(clock, &soon), "a timed wait for a semaphore ended before its time");
    }
    two.must_post();
    expect("sem_timedwait of 1", two.timedwait(&in_ms(CLOCK_REALTIME, 60_000)), 0);
    interrupted(&two);
    cancelled(&two);
    let one = Semaphore::new(1);
    let section = Section::new();
    let visits = compete(4, WHILE / 2, seed, |random| {
        enter(&one, random);
        section.visit(random);
        // Whoever has it may leave the release to another.
        if random.u64(..16) == 0 {
            elsewhere(|| one.must_post())
        } else {
            one.must_post()
        }
        1
    });
    section.ensure_visits(visits);
}

fn enter(semaphore: &Semaphore, random: &mut Rng) {
    match random.u64(..4) {
        0 => expect("sem_timedwait", semaphore.timedwait(&in_ms(CLOCK_REALTIME, 60_000)), 0),
        1 => wait_for(|| semaphore.trywait() == 0),
        _ => expect("sem_wait", semaphore.wait(), 0),
    }
}

/// A handler that was installed without `SA_RESTART` ends the wait.
fn interrupted(semaphore: &Semaphore) {
    static HANDLED: AtomicU32 = AtomicU32::new(0);
    extern "C" fn handle(_: c_int) {
        HANDLED.fetch_add(1, Ordering::SeqCst);
    }
    // SAFETY: zero is a valid value of the structure, and the handler only adds to an atomic.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as *const () as usize;
        expect("sigaction", libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut()), 0);
    }
    let waiter = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: always sound.
            waiter.store(unsafe { libc::pthread_self() }, Ordering::SeqCst);
            semaphore.wait()
        });
        wait_for(|| waiter.load(Ordering::SeqCst) != 0);
        while !thread.is_finished() {
            let_others_sleep();
            // SAFETY: the thread was started and is not joined yet.
            unsafe { libc::pthread_kill(waiter.load(Ordering::SeqCst), libc::SIGUSR1) };
        }
        expect("sem_wait that a signal interrupts", thread.join().unwrap_or(-1), EINTR);
    });
    ensure!(HANDLED.load(Ordering::SeqCst) > 0, "the signal was not handled");
}

/// A thread that waits for ever can be cancelled, and one that never has to wait too.
fn cancelled(semaphore: &Semaphore) {
    extern "C-unwind" fn wait_for_ever(semaphore: *mut c_void) -> *mut c_void {
        // SAFETY: `cancelled` gives a semaphore that lives until this thread is joined.
        let semaphore = unsafe { &*semaphore.cast::<Semaphore>() };
        loop {
            if semaphore.wait() != 0 {
                fail("sem_wait gave an error");
            }
            semaphore.must_post();
        }
    }
    for value in 0..2 {
        let (mut thread, mut result) = (0, ptr::null_mut());
        let argument = ptr::from_ref(semaphore).cast_mut().cast();
        // SAFETY: the argument outlives the thread, which is joined here, once.
        unsafe {
            expect("pthread_create", pthread_create(&raw mut thread, ptr::null(), wait_for_ever, argument), 0);
            let_others_sleep();
            expect("pthread_cancel", pthread_cancel(thread), 0);
            expect("pthread_join", libc::pthread_join(thread, &raw mut result), 0);
        }
        ensure!(result as isize == -1, "a thread that waited for a semaphore ended by itself, not by being cancelled");
        if value == 0 {
            semaphore.must_post();
        }
    }
}

/// Functions of an OpenMP runtime, as a program finds them: whatever is preloaded answers.
struct OpenMp {
    critical: [unsafe extern "C" fn(); 2],
    named: [unsafe extern "C" fn(*mut c_void); 2],
    lock: [unsafe extern "C" fn(*mut c_void); 4],
    nested: [unsafe extern "C" fn(*mut c_void); 4],
    test: [unsafe extern "C" fn(*mut c_void) -> c_int; 2],
}

impl OpenMp {
    /// None where there is no libgomp.
    fn load() -> Option<OpenMp> {
        // SAFETY: the library is one that C programs load all the time; it stays.
        let library = unsafe { libc::dlopen(c"libgomp.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if library.is_null() {
            return None;
        }
        let find = |name: &CStr| {
            // SAFETY: the name ends with 0.
            let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            ensure!(!found.is_null(), "nobody has {}", name.to_string_lossy());
            found
        };
        // SAFETY: OpenMP's functions of these names have these types.
        unsafe {
            let plain = |name| transmute::<*mut c_void, unsafe extern "C" fn()>(find(name));
            let of_lock = |name| transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void)>(find(name));
            let test = |name| transmute::<*mut c_void, unsafe extern "C" fn(*mut c_void) -> c_int>(find(name));
            Some(OpenMp {
                critical: [c"GOMP_critical_start", c"GOMP_critical_end"].map(plain),
                named: [c"GOMP_critical_name_start", c"GOMP_critical_name_end"].map(of_lock),
                lock: [c"omp_set_lock", c"omp_unset_lock", c"omp_init_lock", c"omp_destroy_lock"].map(of_lock),
                nested: [c"omp_set_nest_lock", c"omp_unset_nest_lock", c"omp_init_nest_lock", c"omp_destroy_nest_lock"]
                    .map(of_lock),
                test: [c"omp_test_lock", c"omp_test_nest_lock"].map(test),
            })
        }
    }
}

/// Room for any of OpenMP's locks.
struct Room(UnsafeCell<[u64; 4]>);

// SAFETY: as for `Semaphore`.
unsafe impl Sync for Room {}

/// Critical sections and locks exclude, each kind for itself; a lock that can be nested counts.
pub fn openmp(seed: u64) {
    let Some(omp) = OpenMp::load() else { return };
    let room = || Room(UnsafeCell::new([0; 4]));
    let rooms = [room(), room(), room()];
    let sections = [const { Section::new() }; 4];
    let visits = [const { AtomicU64::new(0) }; 4];
    let at = |index: usize| rooms[index].0.get().cast::<c_void>();
    // SAFETY: here and below, rooms 0, 1, 2 are a name, a lock and a nested lock, which live until the end; whoever
    // releases has acquired.
    unsafe {
        (omp.lock[2])(at(1));
        (omp.nested[2])(at(2));
    }
    compete(4, WHILE, seed, |random| {
        let which = random.usize(..4);
        // SAFETY: as above.
        unsafe {
            match which {
                0 => (omp.critical[0])(),
                1 => (omp.named[0])(at(0)),
                2 if random.bool() => (omp.lock[0])(at(1)),
                2 => wait_for(|| (omp.test[0])(at(1)) != 0),
                _ => (omp.nested[0])(at(2)),
            }
            sections[which].visit(random);
            match which {
                0 => (omp.critical[1])(),
                1 => (omp.named[1])(at(0)),
                2 => (omp.lock[1])(at(1)),
                _ => nest(&omp, at(2), &sections[3]),
            }
        }
        visits[which].fetch_add(1, Ordering::Relaxed);
        1
    });
    for (section, visits) in sections.iter().zip(&visits) {
        section.ensure_visits(visits.load(Ordering::Relaxed));
    }
    // SAFETY: as above.
    unsafe {
        (omp.lock[0])(at(1));
        let lock = &rooms[1];
        expect("omp_test_lock elsewhere", elsewhere(|| (omp.test[0])(lock.0.get().cast())), 0);
        (omp.lock[1])(at(1));
        expect("omp_test_lock", (omp.test[0])(at(1)), 1);
        (omp.lock[1])(at(1));
        (omp.lock[3])(at(1));
        (omp.nested[3])(at(2));
    }
}

/// Takes a nested lock that the thread has twice more, and gives all back; others stay outside until the last.
///
/// # Safety
/// The thread holds the lock once.
unsafe fn nest(omp: &OpenMp, lock: *mut c_void, section: &Section) {
    let before = section.visits();
    // SAFETY: the caller's promise.
    unsafe {
        (omp.nested[0])(lock);
        expect("omp_test_nest_lock of its holder", (omp.test[1])(lock), 3);
        (omp.nested[1])(lock);
        (omp.nested[1])(lock);
        std::thread::yield_now();
        ensure!(section.visits() == before, "another thread was inside before the last omp_unset_nest_lock");
        (omp.nested[1])(lock);
    }
}
