//! A policy that is a lock of holdup-locks waits as that lock does: both go through the same scenes, and what is seen
//! of a waiter, and of the word, must be the same.
#![allow(unsafe_code, reason = "locks are driven through their unsafe interfaces")]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use std::{env, fs, mem, ptr};

use holdup_control::{Policy, Profile};
use holdup_locks::lock_api::{GuardNoSend, RawMutex, RawMutexTimed};
use holdup_locks::{CompareExchange, Futex, SpinPolicy, Ttas};

use super::Control;

/// Set in the program that runs under the library.
const INSIDE: &str = "HOLDUP_SIDE_BY_SIDE";

#[test]
fn a_policy_waits_as_the_lock_that_it_is() {
    let ttas = || Ttas::<CompareExchange>::with_policy(SpinPolicy::DEFAULT);
    same(Policy::Glibc, &scenes(&Library(Futex::new())));
    same(Policy::SpinPark(100), &scenes(&Library(Futex::with_spin(100))));
    same(Policy::Ttas, &scenes(&Library(ttas())));
    let sleeps = "waits: asleep, word 2; has it: word 2; timed out: word 2; free: word 0";
    assert_eq!(scenes(&Library(Futex::new())), sleeps);
    let spins = "waits: running, word 1; has it: word 1; timed out: word 1; free: word 0";
    assert_eq!(scenes(&Library(ttas())), spins);
}

/// The program under the library: this test, which the one above starts again.
#[test]
fn inside() {
    if env::var_os(INSIDE).is_none() {
        println!("skipped: this is for the program that another test starts");
        return;
    }
    // SAFETY: zero is what a static initialiser has.
    println!("seen: {}", scenes(&Pthread(UnsafeCell::new(unsafe { mem::zeroed() }))));
}

fn same(policy: Policy, library: &str) {
    let control = Control::new(policy, Profile::Off);
    let mut program = control.command(&env::current_exe().unwrap());
    let words = ["--exact", "side_by_side::inside", "--nocapture", "--test-threads=1"];
    let output = program.args(words).env(INSIDE, "1").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let seen = said.lines().find_map(|line| line.split_once("seen: ")).map(|(_, seen)| seen);
    assert_eq!(seen, Some(library), "{policy}: {said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(control.seen()[0].acquisitions() > 8000, "it was served");
}

/// A lock whose first word is the one that threads wait for.
trait Side: Sync {
    fn lock(&self);
    fn lock_for(&self, timeout: Duration) -> bool;
    fn unlock(&self);

    fn word(&self) -> u32 {
        // SAFETY: it begins with an atomic of 32 bits, as `scenes` finds confirmed.
        unsafe { &*ptr::from_ref(self).cast::<AtomicU32>() }.load(Ordering::Relaxed)
    }
}

struct Library<L>(L);

impl<L: RawMutexTimed<Guard = GuardNoSend, Duration = Duration> + Sync> Side for Library<L> {
    fn lock(&self) {
        let _ = RawMutex::lock(&self.0);
    }

    fn lock_for(&self, timeout: Duration) -> bool {
        self.0.try_lock_for(timeout).is_some()
    }

    fn unlock(&self) {
        // SAFETY: only its holder calls this, and its guard has no state.
        unsafe { RawMutex::unlock(&self.0, GuardNoSend::new()) };
    }
}

struct Pthread(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a mutex is for many threads.
unsafe impl Sync for Pthread {}

impl Side for Pthread {
    fn lock(&self) {
        // SAFETY: it is one.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    fn lock_for(&self, timeout: Duration) -> bool {
        let mut until = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place is there to be written.
        unsafe { libc::clock_gettime(libc::CLOCK_REALTIME, &raw mut until) };
        let ns = until.tv_nsec + timeout.as_nanos() as i64;
        until = libc::timespec { tv_sec: until.tv_sec + ns / 1_000_000_000, tv_nsec: ns % 1_000_000_000 };
        // SAFETY: it is one, and so is the time.
        unsafe { libc::pthread_mutex_timedlock(self.0.get(), &raw const until) == 0 }
    }

    fn unlock(&self) {
        // SAFETY: it is one.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

/// What is seen of a waiter while the lock is held, when it has got it, and when it has given up.
fn scenes<S: Side>(side: &S) -> String {
    assert_eq!(side.word(), 0);
    side.lock();
    assert_eq!(side.word(), 1, "the word is where it is thought to be");
    let (thread, may_release) = (AtomicU32::new(0), AtomicBool::new(false));
    let mut seen = thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            thread.store(kernel_thread(), Ordering::Relaxed);
            side.lock();
            thread.store(0, Ordering::Relaxed);
            while !may_release.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            side.unlock();
        });
        let waits = format!("waits: {}, word {}", settled(&thread), side.word());
        side.unlock();
        while thread.load(Ordering::Relaxed) != 0 {
            thread::yield_now();
        }
        let seen = format!("{waits}; has it: word {}", side.word());
        may_release.store(true, Ordering::Relaxed);
        waiter.join().unwrap();
        seen
    });
    side.lock();
    thread::scope(|scope| {
        scope.spawn(|| assert!(!side.lock_for(Duration::from_millis(20)), "it is held"));
    });
    seen += &format!("; timed out: word {}", side.word());
    side.unlock();
    excludes(side);
    seen + &format!("; free: word {}", side.word())
}

/// What the waiter does once it has made up its mind: it sleeps, or it has run for longer than anybody spins who means
/// to sleep.
fn settled(thread: &AtomicU32) -> &'static str {
    const DECIDED_NS: u64 = 5_000_000;
    loop {
        thread::sleep(Duration::from_millis(1));
        let folder = format!("/proc/self/task/{}", thread.load(Ordering::Relaxed));
        let (Ok(stat), Ok(times)) =
            (fs::read_to_string(format!("{folder}/stat")), fs::read_to_string(format!("{folder}/schedstat")))
        else {
            continue;
        };
        let state = stat.rsplit_once(") ").unwrap().1;
        let ran_ns: u64 = times.split(' ').next().unwrap().parse().unwrap();
        match () {
            () if state.starts_with('S') => return "asleep",
            () if ran_ns > DECIDED_NS => return "running",
            () => {}
        }
    }
}

fn kernel_thread() -> u32 {
    // SAFETY: always sound.
    unsafe { libc::gettid() as u32 }
}

/// A count without atomics, which loses something unless the lock excludes.
fn excludes<S: Side>(side: &S) {
    struct Count(UnsafeCell<u64>);
    // SAFETY: it is changed by the lock's holder alone; whether there is only one is what is tested.
    unsafe impl Sync for Count {}
    let count = &Count(UnsafeCell::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || {
                for _ in 0..2000 {
                    side.lock();
                    // SAFETY: the lock is held.
                    unsafe { *count.0.get() += 1 };
                    side.unlock();
                }
            });
        }
    });
    // SAFETY: the threads have ended.
    assert_eq!(unsafe { *count.0.get() }, 8000);
}
