//! One body for every reader-writer lock of the registry: what `RawRwLock` promises, and what the locks promise beyond.
#![allow(unsafe_code, reason = "raw locks are driven through their unsafe interface")]

use holdup_locks::lock_api::{RawRwLock, RawRwLockDowngrade, RawRwLockTimed, RawRwLockUpgrade};
use holdup_locks::{RW_LOCKS, RwAdaptive, RwLock, RwLockUpgradableReadGuard, RwSharded, for_each_rw_lock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Barrier, mpsc};
use std::time::{Duration, Instant};

const SHORT: Duration = Duration::from_millis(3);
const LONG: Duration = Duration::from_secs(600);

/// Fewer iterations where they are interpreted.
fn iterations(usual: u32) -> u32 {
    if cfg!(miri) { (usual / 500).max(3) } else { usual }
}

/// Two numbers that only differ while a writer is at work.
type Pair = [u64; 2];

fn writers_are_alone<L: RawRwLock + Sync + Send>() {
    const WRITERS: u32 = 2;
    let lock = RwLock::<L, Pair>::new([0, 0]);
    let times = iterations(3_000);
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                for _ in 0..times {
                    let mut pair = lock.write();
                    pair[0] += 1;
                    pair[1] += 1;
                }
            });
        }
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..times {
                    let pair = lock.read();
                    assert_eq!(pair[0], pair[1], "a writer was in beside a reader");
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), [u64::from(WRITERS * times); 2]);
}

/// All readers meet inside, or this waits for ever.
fn readers_share<L: RawRwLock + Sync + Send>() {
    let lock = RwLock::<L, u32>::new(7);
    let inside = Barrier::new(3);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let value = lock.read();
                inside.wait();
                assert_eq!(*value, 7);
            });
        }
    });
}

fn tries_never_block<L: RawRwLock>() {
    let lock = RwLock::<L, u32>::new(0);
    {
        let _reader = lock.try_read().expect("a free lock");
        assert!(lock.try_read().is_some(), "readers share");
        assert!(lock.try_write().is_none(), "a reader is in");
        assert!(lock.is_locked() && !lock.is_locked_exclusive());
    }
    {
        let _writer = lock.try_write().expect("free again");
        assert!(lock.try_read().is_none() && lock.try_write().is_none(), "a writer is in");
        assert!(lock.is_locked() && lock.is_locked_exclusive());
    }
    assert!(!lock.is_locked());
    assert!(lock.try_write().is_some());
}

fn a_panic_inside_releases<L: RawRwLock>() {
    let lock = RwLock::<L, u32>::new(1);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        *lock.write() = 2;
        let _reader = lock.read();
        std::panic::resume_unwind(Box::new("inside"));
    }));
    assert!(outcome.is_err());
    assert_eq!(*lock.try_write().expect("released"), 2);
}

fn a_writer_becomes_a_reader<L: RawRwLockDowngrade + Sync + Send>() {
    let lock = RwLock::<L, u32>::new(0);
    let mut writer = lock.write();
    *writer = 1;
    let reader = holdup_locks::RwLockWriteGuard::downgrade(writer);
    std::thread::scope(|scope| {
        scope.spawn(|| assert_eq!(*lock.read(), 1, "other readers come in"));
    });
    assert!(lock.try_write().is_none(), "and no writer");
    drop(reader);
    assert!(lock.try_write().is_some());
}

fn an_upgradable_reader_becomes_a_writer<L: RawRwLockUpgrade + Sync + Send>() {
    let lock = RwLock::<L, u32>::new(0);
    let upgradable = lock.upgradable_read();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(*lock.read(), 0, "readers come in");
            assert!(lock.try_upgradable_read().is_none() && lock.try_write().is_none(), "nobody who may write does");
        });
    });
    let reader = lock.read();
    let upgradable = RwLockUpgradableReadGuard::try_upgrade(upgradable).map(drop).expect_err("a reader is in");
    drop(reader);
    let mut writer = RwLockUpgradableReadGuard::try_upgrade(upgradable).expect("nobody else is in");
    *writer = 1;
    drop(writer);
    assert!(lock.try_upgradable_read().is_some());
    let upgraders = 3;
    std::thread::scope(|scope| {
        for _ in 0..upgraders {
            scope.spawn(|| {
                for _ in 0..iterations(500) {
                    let upgradable = lock.upgradable_read();
                    let seen = *upgradable;
                    *RwLockUpgradableReadGuard::upgrade(upgradable) = seen + 1;
                    drop(lock.read());
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), 1 + upgraders * iterations(500), "no writer came in between reading and writing");
}

fn timeouts<L>()
where
    L: RawRwLockTimed<Duration = Duration, Instant = Instant> + Sync + Send,
{
    let lock = RwLock::<L, u64>::new(0);
    let elsewhere = |work: &(dyn Fn() + Sync)| {
        std::thread::scope(|scope| scope.spawn(work).join().expect("it does not panic"));
    };
    let writer = lock.try_write_for(SHORT).expect("free");
    elsewhere(&|| {
        let began = Instant::now();
        assert!(lock.try_read_for(SHORT).is_none() && lock.try_write_for(SHORT).is_none(), "a writer is in");
        assert!(began.elapsed() >= 2 * SHORT, "no try ends before its time");
        assert!(lock.try_read_until(began).is_none() && lock.try_write_until(began).is_none());
    });
    drop(writer);
    let reader = lock.try_read_for(SHORT).expect("free again: who gave up left no trace");
    elsewhere(&|| {
        assert!(lock.try_write_for(SHORT).is_none(), "a reader is in");
        assert!(lock.try_read_for(LONG).is_some(), "the writer that gave up keeps no reader out");
    });
    std::thread::scope(|scope| {
        scope.spawn(|| *lock.try_write_for(LONG).expect("it is released long before") += 1);
        drop(reader);
    });
    let _writer = lock.try_write().expect("free");
}

/// Readers and writers with and without patience, together: no write is lost and nobody is left asleep.
fn give_up_often<L>()
where
    L: RawRwLockTimed<Duration = Duration, Instant = Instant> + Sync + Send,
{
    let lock = RwLock::<L, Pair>::new([0, 0]);
    let written = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..6 {
            let (lock, written) = (&lock, &written);
            scope.spawn(move || {
                for iteration in 0..iterations(600) {
                    let patience = Duration::from_micros(u64::from(iteration) * 7 % 60);
                    let writer = match thread {
                        0 => Some(lock.write()),
                        1 | 2 => lock.try_write_for(patience),
                        _ => {
                            let reader = if thread == 3 { Some(lock.read()) } else { lock.try_read_for(patience) };
                            assert!(reader.is_none_or(|pair| pair[0] == pair[1]));
                            continue;
                        }
                    };
                    if let Some(mut pair) = writer {
                        pair[0] += 1;
                        std::thread::yield_now();
                        pair[1] += 1;
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    assert_eq!(lock.into_inner(), [u64::from(written.into_inner()); 2]);
}

/// Threads that give their CPU away while they hold it: if a wake-up can get lost, this hangs.
fn no_wake_up_is_lost<L: RawRwLock + Sync + Send>() {
    let threads = if cfg!(miri) { 4 } else { 24 };
    let lock = RwLock::<L, u32>::new(0);
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let lock = &lock;
            scope.spawn(move || {
                for iteration in 0..iterations(150) {
                    if (thread + iteration) % 4 == 0 {
                        *lock.write() += 1;
                    } else {
                        let _reader = lock.read();
                        std::thread::yield_now();
                    }
                }
            });
        }
    });
    let expected = (0..threads).flat_map(|t| (0..iterations(150)).map(move |i| t + i)).filter(|n| n % 4 == 0).count();
    assert_eq!(lock.into_inner() as usize, expected);
}

/// Waits until `lock` lets no reader in: a writer waits for it, or is in.
fn await_closed<L: RawRwLock>(lock: &RwLock<L, u32>) {
    while lock.try_read().is_some() {
        std::thread::yield_now();
    }
}

/// A writer that waits keeps later readers out: it comes in before each of them, after those that were in.
fn a_writer_waits_for_the_readers_that_are_in<L: RawRwLock + Sync + Send>() {
    let lock = RwLock::<L, u32>::new(0);
    // So many readers came in after the writer had begun to wait and before it was in.
    let passed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let first = lock.read();
        scope.spawn(|| *lock.write() += 1);
        await_closed(&lock);
        let (came, comes) = mpsc::channel();
        for _ in 0..4 {
            let (came, lock, passed) = (came.clone(), &lock, &passed);
            scope.spawn(move || {
                came.send(()).expect("the test waits");
                passed.fetch_add(u32::from(*lock.read() == 0), Ordering::Relaxed);
            });
        }
        (0..4).for_each(|_| comes.recv().expect("all readers come"));
        assert!(lock.try_read().is_none(), "the writer still waits for the first reader, and nobody passes it");
        drop(first);
    });
    assert_eq!(passed.into_inner(), 0, "readers passed a writer that waited");
}

/// Both sides get turns although the other side takes the lock again as soon as it has released it.
fn neither_side_starves<L: RawRwLock + Sync + Send>() {
    let turns = iterations(200);
    let lock = RwLock::<L, u32>::new(0);
    for writing in [true, false] {
        let done = AtomicBool::new(false);
        let gave_up = Instant::now() + Duration::from_secs(120);
        std::thread::scope(|scope| {
            // Two that overlap: a lock that prefers their side is never free of it.
            for _ in 0..2 {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) && Instant::now() < gave_up {
                        if writing {
                            let _reader = lock.read();
                            std::thread::yield_now();
                        } else {
                            *lock.write() += 1;
                        }
                    }
                });
            }
            let victim = scope.spawn(|| {
                (0..turns).for_each(|_| if writing { *lock.write() += 1 } else { drop(lock.read()) });
            });
            victim.join().expect("the victim does not panic");
            assert!(Instant::now() < gave_up, "the victim got its turns only when the others had stopped");
            done.store(true, Ordering::Relaxed);
        });
    }
}

/// Only debug builds check misuse.
#[cfg(debug_assertions)]
mod misuse {
    use super::*;

    /// The message of the panic that `body` ends in.
    fn message(body: impl FnOnce()) -> String {
        let panic = catch_unwind(AssertUnwindSafe(body)).expect_err("misuse is noticed");
        panic.downcast_ref::<String>().cloned().unwrap_or_default()
    }

    fn assert_says<L>(name: &str, lock: &L, text: &str, what: &str) {
        let start = format!("holdup-locks: {name} lock at {lock:p} ");
        assert!(text.starts_with(&start) && text.contains(what), "{text:?}: {start:?} ... {what:?}");
    }

    /// Releases what the caller may not have.
    fn release<L: RawRwLock<SharedGuard = G, ExclusiveGuard = G>, G>(lock: &L, guard: G, writer: bool) {
        // SAFETY: misuse on purpose: the debug check stops it before it does harm.
        unsafe { if writer { lock.unlock_exclusive(guard) } else { lock.unlock_shared(guard) } }
    }

    pub fn is_reported<L>(name: &str)
    where
        L: RawRwLock<SharedGuard = lock_api::GuardNoSend, ExclusiveGuard = lock_api::GuardNoSend> + Sync,
    {
        use holdup_locks::lock_api;
        let guard = lock_api::GuardNoSend::new;
        let lock = L::INIT;
        for writer in [false, true] {
            let text = message(|| release(&lock, guard(), writer));
            assert_says(name, &lock, &text, "it was released twice, or never taken");
        }
        let held = lock.lock_exclusive();
        assert_says(name, &lock, &message(|| _ = lock.lock_shared()), "taken again by thread");
        assert_says(name, &lock, &message(|| _ = lock.lock_exclusive()), "taken again by thread");
        assert_says(name, &lock, &message(|| release(&lock, guard(), false)), "without a reader in it");
        let text = std::thread::scope(|scope| {
            let stranger = scope.spawn(|| message(|| release(&lock, guard(), true)));
            stranger.join().expect("its panic was caught")
        });
        assert_says(name, &lock, &text, "which does not hold it: thread");
        release(&lock, held, true);
        let reader = lock.lock_shared();
        assert_says(name, &lock, &message(|| release(&lock, guard(), true)), "without a writer in it");
        release(&lock, reader, false);
        assert!(!lock.is_locked());
        for writer in [false, true] {
            let text = message(|| {
                let lock = L::INIT;
                let _never_released = if writer { lock.lock_exclusive() } else { lock.lock_shared() };
            });
            assert!(text.contains(name) && text.contains("dropped while held"), "{text}");
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn a_forked_child_can_use_it<L: RawRwLock + Sync + Send>() {
    let lock = RwLock::<L, u32>::new(1);
    *lock.write() += 1;
    // SAFETY: the child runs only what follows, with a lock that the parent held free, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        *lock.write() += 1;
        let fine = *lock.read() == 3 && lock.try_write().is_some();
        // SAFETY: `_exit` takes a number and does not return.
        unsafe { libc::_exit(i32::from(!fine)) };
    }
    let mut status = -1;
    // SAFETY: waitpid writes the status of our own child.
    let waited = unsafe { libc::waitpid(child, &mut status, 0) };
    assert_eq!((waited, status), (child, 0));
    assert_eq!(*lock.read(), 2);
}

macro_rules! if_yes {
    (yes, $($body:tt)*) => { $($body)* };
    (no, $($body:tt)*) => {};
}

macro_rules! suites {
    ([] $({ $id:ident, $name:literal, $lock:ty, upgradable: $upgradable:ident, $summary:literal, $source:literal })*) => {$(
        mod $id {
            #[test]
            fn writers_are_alone() {
                super::writers_are_alone::<$lock>();
            }

            #[test]
            fn readers_share() {
                super::readers_share::<$lock>();
            }

            #[test]
            fn tries_never_block() {
                super::tries_never_block::<$lock>();
            }

            #[test]
            fn a_panic_inside_releases() {
                super::a_panic_inside_releases::<$lock>();
            }

            #[test]
            fn a_writer_becomes_a_reader() {
                super::a_writer_becomes_a_reader::<$lock>();
            }

            if_yes!($upgradable,
                #[test]
                fn an_upgradable_reader_becomes_a_writer() {
                    super::an_upgradable_reader_becomes_a_writer::<$lock>();
                }
            );

            #[test]
            fn timeouts() {
                super::timeouts::<$lock>();
            }

            #[test]
            fn give_up_often() {
                super::give_up_often::<$lock>();
            }

            #[test]
            fn no_wake_up_is_lost() {
                super::no_wake_up_is_lost::<$lock>();
            }

            #[test]
            fn a_writer_waits_for_the_readers_that_are_in() {
                super::a_writer_waits_for_the_readers_that_are_in::<$lock>();
            }

            #[test]
            fn neither_side_starves() {
                super::neither_side_starves::<$lock>();
            }

            #[cfg(all(target_os = "linux", not(miri)))]
            #[test]
            fn a_forked_child_can_use_it() {
                super::a_forked_child_can_use_it::<$lock>();
            }

            #[cfg(debug_assertions)]
            #[test]
            fn misuse_is_reported() {
                super::misuse::is_reported::<$lock>($name);
            }
        }
    )*};
}

for_each_rw_lock!(suites);

/// The word counts 8,190 readers; the next one is turned away or waits, and one that leaves makes room.
#[test]
fn a_word_full_of_readers_lets_the_next_one_wait() {
    let lock = RwAdaptive::new();
    let readers: Vec<_> = std::iter::from_fn(|| lock.try_lock_shared()).collect();
    assert_eq!(readers.len(), 8_190);
    assert!(lock.try_lock_shared_for(Duration::from_millis(1)).is_none(), "no room in time");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let guard = lock.lock_shared();
            // SAFETY: the guard is that of the acquisition above.
            unsafe { lock.unlock_shared(guard) };
        });
        for reader in readers {
            // SAFETY: each guard is that of one acquisition.
            unsafe { lock.unlock_shared(reader) };
        }
        waits.join().expect("it came in");
    });
    assert!(!lock.is_locked());
}

/// Threads beyond the slots share them, and waiters that do not spin are woken.
#[test]
fn variants_exclude_too() {
    all_write_and_read(&RwLock::<RwSharded<1>, u32>::new(0));
    all_write_and_read(&RwLock::from_raw(RwAdaptive::with_spin(0), 0));
    all_write_and_read(&RwLock::from_raw(RwSharded::<2>::with_spin(0), 0));
}

fn all_write_and_read<L: RawRwLock + Sync + Send>(lock: &RwLock<L, u32>) {
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..iterations(500) {
                    *lock.write() += 1;
                    let _reader = lock.read();
                }
            });
        }
    });
    assert_eq!(*lock.read(), 3 * iterations(500));
}

#[test]
fn the_registry_and_the_crates_page_name_them_all() {
    let page = include_str!("../src/lib.rs");
    for (place, info) in RW_LOCKS.iter().enumerate() {
        let others = RW_LOCKS[..place].iter().map(|other| other.name);
        let mutexes = holdup_locks::LOCKS.iter().map(|other| other.name);
        assert!(others.chain(mutexes).all(|name| name != info.name), "{} stands twice", info.name);
        assert!(!info.summary.is_empty() && !info.source.is_empty());
        let name = info.type_name.rsplit(':').next().unwrap_or_default().trim();
        assert!(page.contains(&format!("[`{name}`]")), "{name} is not on the crate's page");
    }
}
