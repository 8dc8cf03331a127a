//! One body for every lock of the registry: what `RawMutex` promises, and what the locks promise beyond.
#![allow(unsafe_code, reason = "raw locks are driven through their unsafe interface")]

use holdup_locks::lock_api::{RawMutex, RawMutexTimed};
use holdup_locks::{Mutex, Recursive, for_each_lock};
use std::cell::UnsafeCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A counter without atomics: it loses updates unless its lock excludes.
struct Counter<L> {
    lock: L,
    value: UnsafeCell<u64>,
}

// SAFETY: `value` is accessed only between `lock` and `unlock`; whether that excludes is what the tests check.
unsafe impl<L: Sync> Sync for Counter<L> {}

impl<L: RawMutex> Counter<L> {
    fn new() -> Self {
        Self { lock: L::INIT, value: UnsafeCell::new(0) }
    }

    fn add(&self) {
        let guard = self.lock.lock();
        // SAFETY: the lock is held.
        unsafe { *self.value.get() += 1 };
        // SAFETY: the guard is that of the acquisition above.
        unsafe { self.lock.unlock(guard) };
    }
}

/// Threads and iterations that the lock can bear here: few threads for locks that collapse when threads outnumber CPUs.
fn load(oversubscribable: bool, threads: usize, iterations: u64) -> (usize, u64) {
    let scale = if cfg!(miri) { 500 } else { 1 };
    (if oversubscribable { threads } else { 2 }, (iterations / scale).max(3))
}

fn mutual_exclusion<L: RawMutex + Sync>(oversubscribable: bool) {
    let (threads, iterations) = load(oversubscribable, 4, 5_000);
    let counter = Counter::<L>::new();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..iterations).for_each(|_| counter.add()));
        }
    });
    assert_eq!(counter.value.into_inner(), threads as u64 * iterations);
}

fn try_lock_never_blocks<L: RawMutex>() {
    let lock = L::INIT;
    let guard = lock.try_lock().expect("a free lock is taken by a try");
    assert!(lock.is_locked());
    assert!(lock.try_lock().is_none(), "a held lock is not taken by a try, and the try returns");
    // SAFETY: the guard is that of the acquisition above.
    unsafe { lock.unlock(guard) };
    assert!(!lock.is_locked());
    let guard = lock.try_lock().expect("free again");
    // SAFETY: as above.
    unsafe { lock.unlock(guard) };
}

fn a_panic_inside_releases<L: RawMutex>() {
    let mutex = Mutex::<L, u32>::new(1);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut value = mutex.lock();
        *value = 2;
        std::panic::resume_unwind(Box::new("inside"));
    }));
    assert!(outcome.is_err());
    assert_eq!(*mutex.lock(), 2);
}

fn recursion<L: RawMutex + Sync>() {
    let lock = Recursive::<L>::INIT;
    let outer = lock.enter();
    let inner = lock.enter();
    assert!(lock.try_lock(), "the holder's try succeeds");
    assert_eq!(lock.depth(), 3);
    let other = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| other.store(1 + usize::from(lock.try_lock()), Ordering::Relaxed));
    });
    assert_eq!(other.into_inner(), 1, "a stranger's try fails");
    // SAFETY: the level that `try_lock` took.
    unsafe { lock.unlock() };
    drop((outer, inner));
    assert!(!lock.is_locked());
    assert!(lock.try_lock(), "free after as many releases");
    // SAFETY: the level just taken.
    unsafe { lock.unlock() };
}

fn timeouts<L>()
where
    L: RawMutexTimed<Duration = Duration, Instant = Instant> + Sync,
{
    const SHORT: Duration = Duration::from_millis(3);
    const LONG: Duration = Duration::from_secs(600);
    let counter = Counter::<L>::new();
    let guard = counter.lock.try_lock_for(SHORT).expect("a free lock is taken at once");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let began = Instant::now();
            assert!(counter.lock.try_lock_for(SHORT).is_none(), "held: the time runs out");
            assert!(began.elapsed() >= SHORT, "and not before it has run out");
            assert!(counter.lock.try_lock_until(began).is_none(), "a deadline in the past is a try");
            assert!(counter.lock.try_lock_for(Duration::ZERO).is_none());
        });
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let guard = counter.lock.try_lock_for(LONG).expect("it is released long before");
            // SAFETY: the guard is that of the acquisition above.
            unsafe { counter.lock.unlock(guard) };
        });
        // SAFETY: the guard of the first acquisition.
        unsafe { counter.lock.unlock(guard) };
    });
    // Giving up leaves no trace: the lock is free, excludes, and wakes.
    assert!(!counter.lock.is_locked());
    give_up_often(&counter);
}

/// Threads that wait with and without patience, together: no update is lost and nobody is left asleep.
fn give_up_often<L>(counter: &Counter<L>)
where
    L: RawMutexTimed<Duration = Duration, Instant = Instant> + Sync,
{
    let (threads, iterations) = load(true, 4, 300);
    let added = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let added = &added;
            scope.spawn(move || {
                for iteration in 0..iterations {
                    let patience = Duration::from_micros(iteration * 7 % 60);
                    if thread % 2 == 0 {
                        counter.add();
                    } else if let Some(guard) = counter.lock.try_lock_for(patience) {
                        // SAFETY: the lock is held.
                        unsafe { *counter.value.get() += 1 };
                        // SAFETY: the guard is that of the acquisition above.
                        unsafe { counter.lock.unlock(guard) };
                    } else {
                        continue;
                    }
                    added.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    // SAFETY: no other thread is left.
    assert_eq!(unsafe { *counter.value.get() }, added.into_inner() as u64);
}

fn two_hundred_threads<L: RawMutex + Sync>(oversubscribable: bool) {
    let threads = if cfg!(miri) { 6 } else { 200 };
    let (threads, iterations) = load(oversubscribable, threads, 10);
    let counter = Counter::<L>::new();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| (0..iterations).for_each(|_| counter.add()));
        }
    });
    assert_eq!(counter.value.into_inner(), threads as u64 * iterations);
}

/// Holders that give their CPU away make everybody wait: if a wake-up can get lost, this hangs.
fn no_wake_up_is_lost<L: RawMutex + Sync>(oversubscribable: bool) {
    let (threads, iterations) = load(oversubscribable, 16, 150);
    let mutex = Mutex::<L, u64>::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for _ in 0..iterations {
                    let mut value = mutex.lock();
                    *value += 1;
                    std::thread::yield_now();
                }
            });
        }
    });
    assert_eq!(*mutex.lock(), threads as u64 * iterations);
}

/// A thread gets its turns although others take the lock again as soon as they have released it.
fn waiting_is_bounded<L: RawMutex + Sync>() {
    const TURNS: u32 = if cfg!(miri) { 1 } else { 5 };
    let mutex = Mutex::<L, u64>::new(0);
    let done = AtomicBool::new(false);
    let gave_up = Instant::now() + Duration::from_secs(120);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) && Instant::now() < gave_up {
                    let mut value = mutex.lock();
                    *value += (0..if cfg!(miri) { 1 } else { 20_000 }).map(std::hint::black_box).count() as u64;
                }
            });
        }
        let victim = scope.spawn(|| (0..TURNS).for_each(|_| *mutex.lock() += 1));
        victim.join().expect("the victim does not panic");
        assert!(Instant::now() < gave_up, "the victim got its turns only when the others had stopped");
        done.store(true, Ordering::Relaxed);
    });
}

#[cfg(all(target_os = "linux", not(miri)))]
mod process {
    use super::*;
    use holdup_locks::{EventFd, EventFdSem, Pipe};

    /// Runs `body` in a forked child; true if it returned true.
    fn in_child(body: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs only `body`, which uses locks that the parent held free, and leaves by `_exit`.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let fine = catch_unwind(AssertUnwindSafe(body)).unwrap_or(false);
            // SAFETY: `_exit` takes a number and does not return.
            unsafe { libc::_exit(i32::from(!fine)) };
        }
        let mut status = -1;
        // SAFETY: waitpid writes the status of our own child.
        let waited = unsafe { libc::waitpid(child, &mut status, 0) };
        waited == child && status == 0
    }

    /// A lock that nobody held or awaited at the fork works in the child.
    pub fn fork<L: RawMutex + Sync>() {
        let counter = Counter::<L>::new();
        counter.add();
        assert!(in_child(|| {
            (0..3).for_each(|_| counter.add());
            // SAFETY: the child has one thread.
            unsafe { *counter.value.get() == 4 }
        }));
        counter.add();
        assert_eq!(counter.value.into_inner(), 2);
    }

    fn without_descriptors<L: RawMutex + Sync>(create: fn(&L) -> Result<(), holdup_locks::SysError>, call: &str) {
        assert!(in_child(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: setrlimit reads one rlimit; it concerns the child alone.
            let limited = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &none) } == 0;
            let counter = Counter::<L>::new();
            let error = create(&counter.lock).expect_err("no descriptor is left");
            counter.add();
            counter.add();
            // SAFETY: the child has one thread.
            let counted = unsafe { *counter.value.get() } == 2;
            limited && counted && error.call() == call && error.to_string().starts_with(call)
        }));
    }

    #[test]
    fn a_lock_whose_object_cannot_be_made_says_so_and_works() {
        without_descriptors(EventFd::create, "eventfd");
        without_descriptors(EventFdSem::create, "eventfd");
        without_descriptors(Pipe::create, "pipe2");
    }

    #[test]
    fn kernel_objects_can_be_made_here() {
        assert_eq!(EventFd::new().create(), Ok(()));
        assert_eq!(EventFdSem::new().create(), Ok(()));
        assert_eq!(Pipe::new().create(), Ok(()));
        assert_eq!(holdup_locks::SysvSem::new().create(), Ok(()));
        assert_eq!(holdup_locks::FutexPi::new().create(), Ok(()));
    }
}

fn layout<L: RawMutex>() {
    assert!(size_of::<L>() <= 40, "a lock fits where a pthread mutex does");
    let _in_a_constant = const { L::INIT };
}

macro_rules! yes_no {
    (yes) => {
        true
    };
    (no) => {
        false
    };
}

macro_rules! if_yes {
    (yes, $($body:tt)*) => { $($body)* };
    (no, $($body:tt)*) => {};
}

macro_rules! suites {
    ([] $({
        $id:ident, $name:literal, $lock:ty, $family:ident, timed: $timed:ident, fifo: $fifo:ident,
        oversubscribable: $oversubscribable:ident, $summary:literal, $source:literal
    })*) => {$(
        mod $id {
            use super::*;

            #[test]
            fn mutual_exclusion() {
                if runs_here($name) {
                    super::mutual_exclusion::<$lock>(yes_no!($oversubscribable));
                }
            }

            #[test]
            fn try_lock_never_blocks() {
                if runs_here($name) {
                    super::try_lock_never_blocks::<$lock>();
                }
            }

            #[test]
            fn a_panic_inside_releases() {
                if runs_here($name) {
                    super::a_panic_inside_releases::<$lock>();
                }
            }

            #[test]
            fn recursion() {
                if runs_here($name) {
                    super::recursion::<$lock>();
                }
            }

            #[test]
            fn two_hundred_threads() {
                if runs_here($name) {
                    super::two_hundred_threads::<$lock>(yes_no!($oversubscribable));
                }
            }

            #[test]
            fn no_wake_up_is_lost() {
                if runs_here($name) {
                    super::no_wake_up_is_lost::<$lock>(yes_no!($oversubscribable));
                }
            }

            #[cfg(all(target_os = "linux", not(miri)))]
            #[test]
            fn fork() {
                super::process::fork::<$lock>();
            }

            if_yes!($timed,
                #[test]
                fn timeouts() {
                    if runs_here($name) {
                        super::timeouts::<$lock>();
                    }
                }
            );

            #[test]
            fn layout() {
                super::layout::<$lock>();
            }

            #[cfg(debug_assertions)]
            mod misuse {
                use super::super::{misuse, runs_here};

                #[test]
                fn taken_again() {
                    if runs_here($name) {
                        misuse::taken_again::<$lock>($name);
                    }
                }

                #[test]
                fn released_twice() {
                    if runs_here($name) {
                        misuse::released_twice::<$lock>($name);
                        misuse::released_twice_while_another_holds_it::<$lock>($name);
                    }
                }

                #[test]
                fn released_by_a_stranger() {
                    if runs_here($name) {
                        misuse::released_by_a_stranger::<$lock>($name);
                    }
                }

                #[test]
                fn dropped_while_held() {
                    if runs_here($name) && !(cfg!(miri) && misuse::leaks_when_forgotten($name)) {
                        misuse::dropped_while_held::<$lock>($name);
                        misuse::a_forgotten_holder_is_forgotten::<$lock>();
                    }
                }
            }
        }
    )*};
}

/// Says why, if a lock cannot be checked on this machine.
fn runs_here(name: &str) -> bool {
    let missing = ["eventfd", "eventfd-sem", "sysv-sem", "futex-pi", "pipe"];
    if cfg!(miri) && missing.contains(&name) {
        eprintln!("skipped {name}: Miri has no preadv2, System V semaphores or priority-inheriting futexes");
        return false;
    }
    true
}

for_each_lock!(suites);

#[test]
fn waiting_is_bounded_where_promised() {
    waiting_is_bounded::<holdup_locks::Adaptive>();
    waiting_is_bounded::<holdup_locks::Fair>();
    waiting_is_bounded::<holdup_locks::Mcs>();
    waiting_is_bounded::<holdup_locks::Clh>();
    waiting_is_bounded::<holdup_locks::Ticket>();
}

/// The policies and variants that the registry's rows leave at their defaults.
#[test]
fn variants_exclude_too() {
    use holdup_locks::{Adaptive, Backoff, CompareExchange, Futex, SpinOn, SpinPolicy, Ttas};
    fn check<L: RawMutex + Sync>(lock: L) {
        let counter = Counter { lock, value: UnsafeCell::new(0) };
        let iterations = if cfg!(miri) { 3 } else { 2_000 };
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| (0..iterations).for_each(|_| counter.add()));
            }
        });
        assert_eq!(counter.value.into_inner(), 2 * iterations);
    }
    for backoff in [Backoff::None, Backoff::Count, Backoff::Exponential] {
        for spin_on in [SpinOn::Read, SpinOn::Rmw] {
            let policy = SpinPolicy::DEFAULT.with_backoff(backoff).with_spin_on(spin_on);
            check(<Ttas>::with_policy(policy));
            check(Ttas::<CompareExchange>::with_policy(policy));
        }
    }
    check(Adaptive::with_spin(0));
    check(Adaptive::with_spin(4_000));
    check(Futex::with_spin(100));
}

#[test]
fn the_registry_tells_names_apart() {
    use holdup_locks::LOCKS;
    for (place, info) in LOCKS.iter().enumerate() {
        assert!(LOCKS[..place].iter().all(|other| other.name != info.name), "{} stands twice", info.name);
        assert!(info.size_bytes <= 40, "{} fits where a pthread mutex does", info.name);
        assert!(!info.summary.is_empty() && !info.source.is_empty());
    }
}

/// The tables of the crate's page say of every lock which traits it has.
#[test]
fn the_crates_page_names_every_lock() {
    let page = include_str!("../src/lib.rs");
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("//! | ") && line.contains("| yes |")).collect();
    for info in holdup_locks::LOCKS {
        let name = info.type_name.rsplit(":").next().unwrap_or_default().trim();
        let is_there = rows.iter().any(|row| row.contains(&format!("[`{name}`]")));
        assert!(is_there, "{name} is in no row of 'Which traits' in src/lib.rs");
    }
}

/// Only debug builds check misuse.
#[cfg(debug_assertions)]
mod misuse {
    use super::*;
    use holdup_locks::technique::Gated;
    use std::sync::{PoisonError, RwLock, RwLockReadGuard};

    /// Written by the test that fills the table of holders: while it runs, no holder is known for certain.
    static CROWD: RwLock<()> = RwLock::new(());

    fn no_crowd() -> RwLockReadGuard<'static, ()> {
        CROWD.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The message of the panic that `body` ends in.
    fn message(body: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("misuse is noticed");
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
    }

    /// Every message begins with the lock's name and address.
    fn assert_names<L>(name: &str, lock: *const L, text: &str, what: &[&str]) {
        let start = format!("holdup-locks: {name} lock at {lock:p} ");
        assert!(text.starts_with(&start), "{text:?} starts with {start:?}");
        for part in what {
            assert!(text.contains(part), "{text:?} says {part:?}");
        }
    }

    /// What lets a test hand an acquisition to a thread that does not own it.
    struct Stolen<G>(G);

    // SAFETY: on purpose wrong: the debug check stops the stranger before it uses the guard.
    unsafe impl<G> Send for Stolen<G> {}

    /// A second copy of an acquisition's state, to release it twice.
    fn copy<G>(guard: &G) -> G {
        // SAFETY: misuse on purpose: of the two copies the debug check stops all but the first that is used.
        unsafe { std::ptr::read(guard) }
    }

    pub fn taken_again<L: RawMutex>(name: &str) {
        let _no_crowd = no_crowd();
        let lock = L::INIT;
        let guard = lock.lock();
        let text = message(|| drop(lock.lock()));
        assert_names(name, &lock, &text, &["taken again by thread", "which holds it already"]);
        assert!(lock.try_lock().is_none(), "a try by the holder is no misuse: it fails");
        // SAFETY: the guard is that of the first acquisition.
        unsafe { lock.unlock(guard) };
        let guard = lock.lock();
        // SAFETY: as above.
        unsafe { lock.unlock(guard) };
    }

    pub fn released_twice<L: RawMutex>(name: &str) {
        let _no_crowd = no_crowd();
        let lock = L::INIT;
        let guard = lock.lock();
        let second = copy(&guard);
        // SAFETY: the guard is that of the acquisition.
        unsafe { lock.unlock(guard) };
        // SAFETY: misuse on purpose: the debug check stops it before it does harm.
        let text = message(|| unsafe { lock.unlock(second) });
        assert_names(name, &lock, &text, &["released by thread", "while free"]);
    }

    pub fn released_by_a_stranger<L: RawMutex + Sync>(name: &str) {
        let _no_crowd = no_crowd();
        let lock = L::INIT;
        let guard = lock.lock();
        let stolen = Stolen(copy(&guard));
        let text = std::thread::scope(|scope| {
            let stranger = || {
                let stolen = stolen;
                // SAFETY: misuse on purpose: the debug check stops it before it does harm.
                message(|| unsafe { lock.unlock({ stolen }.0) })
            };
            let stranger = std::thread::Builder::new().name("stranger".to_owned()).spawn_scoped(scope, stranger);
            stranger.expect("a thread starts").join().expect("its panic was caught")
        });
        let what = ["released by thread", "(\"stranger\")", "which does not hold it: thread", "does"];
        assert_names(name, &lock, &text, &what);
        assert!(lock.is_locked(), "it is still held");
        // SAFETY: the guard is that of the acquisition.
        unsafe { lock.unlock(guard) };
    }

    /// The second release meets a lock that another thread has taken in between.
    pub fn released_twice_while_another_holds_it<L: RawMutex + Sync>(name: &str) {
        let _no_crowd = no_crowd();
        let lock = L::INIT;
        let guard = lock.lock();
        let second = copy(&guard);
        // SAFETY: the guard is that of the acquisition.
        unsafe { lock.unlock(guard) };
        let (taken, checked) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let guard = lock.lock();
                taken.wait();
                checked.wait();
                // SAFETY: the guard is that of the acquisition above.
                unsafe { lock.unlock(guard) };
            });
            taken.wait();
            // SAFETY: misuse on purpose: the debug check stops it before it does harm.
            let text = message(|| unsafe { lock.unlock(second) });
            assert_names(name, &lock, &text, &["which does not hold it: thread"]);
            checked.wait();
        });
        assert!(!lock.is_locked());
    }

    /// A forgotten guard of a CLH lock leaks its node, as documented; Miri would report the test's own leak.
    pub fn leaks_when_forgotten(name: &str) -> bool {
        name.starts_with("clh")
    }

    pub fn dropped_while_held<L: RawMutex>(name: &str) {
        let _no_crowd = no_crowd();
        let mut address = std::ptr::null();
        let text = message(|| {
            let lock = Box::new(L::INIT);
            address = &raw const *lock;
            std::mem::forget(lock.lock());
        });
        assert_names(name, address, &text, &["dropped while held by thread"]);
    }

    /// Another lock in the place of one that was forgotten while it was held starts afresh.
    pub fn a_forgotten_holder_is_forgotten<L: RawMutex + Sync>() {
        let _no_crowd = no_crowd();
        let mut place = std::mem::MaybeUninit::<L>::uninit();
        let forgotten: &L = place.write(L::INIT);
        std::thread::scope(|scope| {
            scope.spawn(|| _ = std::mem::ManuallyDrop::new(forgotten.lock()));
        });
        let lock = place.write(L::INIT);
        for _ in 0..2 {
            let guard = lock.lock();
            // SAFETY: the guard is that of the acquisition above.
            unsafe { lock.unlock(guard) };
        }
        // SAFETY: it was written above and is dropped once.
        unsafe { place.assume_init_drop() };
    }

    #[test]
    fn a_gated_lock_is_checked_too() {
        type Lock = Gated<holdup_locks::Adaptive>;
        taken_again::<Lock>("Gated");
        released_twice::<Lock>("Gated");
        released_by_a_stranger::<Lock>("Gated");
        let _no_crowd = no_crowd();
        let dropped = message(|| {
            let lock = Lock::INIT;
            let _ = std::mem::ManuallyDrop::new(lock.lock());
        });
        assert!(dropped.contains("adaptive lock at"), "the inner lock speaks for it: {dropped}");
    }

    #[test]
    fn a_stranger_cannot_release_a_recursive_lock() {
        let _no_crowd = no_crowd();
        let lock = Recursive::<holdup_locks::Adaptive>::INIT;
        let _held = lock.enter();
        std::thread::scope(|scope| {
            // SAFETY: misuse on purpose: the debug check stops it before it does harm.
            let stranger = scope.spawn(|| message(|| unsafe { lock.unlock() }));
            let text = stranger.join().expect("its panic was caught");
            assert!(text.contains("adaptive lock at") && text.contains("which does not hold it"), "{text}");
        });
    }

    /// More locks than the table of holders has room for, held at once: nobody is accused.
    #[test]
    fn thousands_of_held_locks_are_no_misuse() {
        let _alone = CROWD.write().unwrap_or_else(PoisonError::into_inner);
        let mutexes: Vec<Mutex<holdup_locks::Futex, ()>> = {
            let locks = if cfg!(miri) { 60 } else { 6_000 };
            (0..locks).map(|_| Mutex::new(())).collect()
        };
        for _ in 0..2 {
            let guards: Vec<_> = mutexes.iter().map(Mutex::lock).collect();
            drop(guards);
        }
    }
}
