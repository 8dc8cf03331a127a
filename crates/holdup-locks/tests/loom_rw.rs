//! Models of the reader-writer locks: every interleaving, within a bound on preemptions, of a few readers and writers.
//!
//! Run with `RUSTFLAGS="--cfg loom" cargo test -p holdup-locks --release --test loom_rw`. loom finds lost wake-ups as
//! deadlocks, and a writer that is not alone as concurrent accesses of the cell.
#![cfg(loom)]
#![allow(unsafe_code, reason = "raw locks are driven through their unsafe interface")]

use holdup_locks::lock_api::{RawRwLock, RawRwLockDowngrade, RawRwLockTimed, RawRwLockUpgrade};
use holdup_locks::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

struct Counter<L> {
    lock: L,
    value: UnsafeCell<u32>,
}

// SAFETY: `value` is accessed only between a lock and its release, and loom's cell reports it if that does not exclude.
unsafe impl<L: Sync> Sync for Counter<L> {}
// SAFETY: as above.
unsafe impl<L: Send> Send for Counter<L> {}

impl<L: RawRwLock + model::Make> Counter<L> {
    fn new(lock: L) -> Self {
        lock.make();
        Self { lock, value: UnsafeCell::new(0) }
    }

    fn look(&self) -> u32 {
        // SAFETY: the caller has the lock for reading or writing.
        self.value.with(|value| unsafe { *value })
    }

    fn change(&self) {
        self.value.with_mut(|value| {
            // SAFETY: the caller has the lock for writing.
            unsafe { *value += 1 };
        });
    }

    fn read_and_unlock(&self, guard: L::SharedGuard) {
        self.look();
        // SAFETY: the guard is that of the caller's acquisition.
        unsafe { self.lock.unlock_shared(guard) };
    }

    fn write_and_unlock(&self, guard: L::ExclusiveGuard) {
        self.change();
        // SAFETY: the guard is that of the caller's acquisition.
        unsafe { self.lock.unlock_exclusive(guard) };
    }
}

/// What one thread does; returns how often it wrote.
type Work<L> = fn(&Counter<L>) -> u32;

fn read<L: RawRwLock + model::Make>(counter: &Counter<L>) -> u32 {
    counter.read_and_unlock(counter.lock.lock_shared());
    0
}

fn write<L: RawRwLock + model::Make>(counter: &Counter<L>) -> u32 {
    counter.write_and_unlock(counter.lock.lock_exclusive());
    1
}

fn write_and_read<L: RawRwLock + model::Make>(counter: &Counter<L>) -> u32 {
    write(counter) + read(counter)
}

fn read_and_write<L: RawRwLock + model::Make>(counter: &Counter<L>) -> u32 {
    read(counter) + write(counter)
}

fn try_to_read<L: RawRwLock + model::Make>(counter: &Counter<L>) -> u32 {
    let guard = counter.lock.try_lock_shared();
    guard.map_or(0, |guard| {
        counter.read_and_unlock(guard);
        0
    })
}

fn try_to_write<L: RawRwLock + model::Make>(counter: &Counter<L>) -> u32 {
    let guard = counter.lock.try_lock_exclusive();
    guard.map_or(0, |guard| {
        counter.write_and_unlock(guard);
        1
    })
}

fn read_in_time<L: RawRwLockTimed<Duration = Duration> + model::Make>(counter: &Counter<L>) -> u32 {
    let guard = counter.lock.try_lock_shared_for(Duration::from_nanos(1));
    guard.map_or(0, |guard| {
        counter.read_and_unlock(guard);
        0
    })
}

fn write_in_time<L: RawRwLockTimed<Duration = Duration> + model::Make>(counter: &Counter<L>) -> u32 {
    let guard = counter.lock.try_lock_exclusive_for(Duration::from_nanos(1));
    guard.map_or(0, |guard| {
        counter.write_and_unlock(guard);
        1
    })
}

/// What it wrote still stands when it reads: no writer comes in between.
fn downgrade<L: RawRwLockDowngrade + model::Make>(counter: &Counter<L>) -> u32 {
    let guard = counter.lock.lock_exclusive();
    counter.change();
    let written = counter.look();
    // SAFETY: the guard is that of the acquisition above.
    let guard = unsafe { counter.lock.downgrade(guard) };
    assert_eq!(counter.look(), written);
    counter.read_and_unlock(guard);
    1
}

/// What it read still stands when it writes: no writer comes in between.
fn upgrade<L: RawRwLockUpgrade + model::Make>(counter: &Counter<L>) -> u32 {
    let guard = counter.lock.lock_upgradable();
    let read = counter.look();
    // SAFETY: the guard is that of the acquisition above.
    let guard = unsafe { counter.lock.upgrade(guard) };
    assert_eq!(counter.look(), read);
    counter.write_and_unlock(guard);
    1
}

/// As `upgrade`, if that is possible at once.
fn try_to_upgrade<L: RawRwLockUpgrade + model::Make>(counter: &Counter<L>) -> u32 {
    let Some(guard) = counter.lock.try_lock_upgradable() else { return 0 };
    let read = counter.look();
    // SAFETY: the guard is that of the acquisition above.
    match unsafe { counter.lock.try_upgrade(guard) } {
        Ok(guard) => {
            assert_eq!(counter.look(), read);
            counter.write_and_unlock(guard);
            1
        }
        // SAFETY: the guard is still that of the acquisition above.
        Err(guard) => unsafe {
            counter.lock.unlock_upgradable(guard);
            0
        },
    }
}

/// This thread and one for each of `others` do their work; whatever came of it, the lock works on.
fn together<L>(preemptions: usize, new: fn() -> L, own: Work<L>, others: &'static [Work<L>])
where
    L: RawRwLock + model::Make + Send + Sync + 'static,
{
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 2_000;
    builder.check(move || {
        let counter = Arc::new(Counter::new(new()));
        let others: Vec<_> = others
            .iter()
            .map(|&work| {
                let counter = Arc::clone(&counter);
                loom::thread::spawn(move || work(&counter))
            })
            .collect();
        let own = own(&counter);
        let written = own + others.into_iter().map(|other| other.join().unwrap()).sum::<u32>();
        // A try: no mark that a waiter left may keep the lock from us.
        let guard = counter.lock.try_lock_exclusive().expect("everybody has released it");
        assert_eq!(counter.look(), written);
        // SAFETY: the guard is that of the acquisition above.
        unsafe { counter.lock.unlock_exclusive(guard) };
        assert!(!counter.lock.is_locked());
    });
}

/// Models share one knob, so they take turns. `AT_ONCE` lets the writer before the door reserve the next turn when it
/// first sleeps, `NEVER` never.
fn with_patience(patience_ns: u64, run: impl FnOnce()) {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    model::PATIENCE_NS.store(patience_ns, Ordering::Relaxed);
    run();
}

const NEVER: u64 = u64::MAX;
const AT_ONCE: u64 = 0;

/// One slot is shared by all; of two some threads have their own.
type Sharded = RwSharded<2>;

#[test]
fn rw_adaptive_readers_and_a_writer() {
    with_patience(NEVER, || together(2, RwAdaptive::new, read, &[read, write]));
    with_patience(NEVER, || together(2, RwAdaptive::new, write, &[read, read]));
}

#[test]
fn rw_adaptive_writers_and_a_reader() {
    with_patience(NEVER, || together(2, RwAdaptive::new, read, &[write, write]));
    with_patience(NEVER, || together(2, RwAdaptive::new, write, &[read, write]));
}

#[test]
fn rw_adaptive_again_and_again() {
    with_patience(NEVER, || together(3, RwAdaptive::new, write_and_read, &[read_and_write]));
    with_patience(NEVER, || together(3, RwAdaptive::new, write_and_read, &[write_and_read]));
}

/// A spinning waiter gives the model's other threads their turn, so that few of them sleep within a bound.
#[test]
fn rw_adaptive_that_sleeps_at_once() {
    let sleepy = || RwAdaptive::with_spin(0);
    with_patience(NEVER, || together(2, sleepy, read, &[read, write]));
    with_patience(NEVER, || together(2, sleepy, write, &[read, write]));
    with_patience(NEVER, || together(3, sleepy, write_and_read, &[write_and_read]));
}

#[test]
fn rw_adaptive_reserves() {
    with_patience(AT_ONCE, || together(2, RwAdaptive::new, write, &[read, write]));
    with_patience(AT_ONCE, || together(3, || RwAdaptive::with_spin(0), write_and_read, &[write_and_read]));
}

#[test]
fn rw_adaptive_tries() {
    with_patience(NEVER, || together(3, RwAdaptive::new, write, &[try_to_read, try_to_write]));
    with_patience(NEVER, || together(3, RwAdaptive::new, try_to_write, &[read, try_to_read]));
}

#[test]
fn rw_adaptive_a_reader_gives_up() {
    with_patience(NEVER, || together(2, RwAdaptive::new, write, &[read_in_time, read]));
    with_patience(NEVER, || together(2, || RwAdaptive::with_spin(0), write, &[read_in_time, write]));
}

#[test]
fn rw_adaptive_a_writer_gives_up() {
    with_patience(NEVER, || together(2, RwAdaptive::new, read, &[write_in_time, read]));
    with_patience(NEVER, || together(2, || RwAdaptive::with_spin(0), write, &[write_in_time, read]));
}

#[test]
fn rw_adaptive_downgrades() {
    with_patience(NEVER, || together(2, RwAdaptive::new, read, &[downgrade, write]));
}

#[test]
fn rw_adaptive_upgrades() {
    with_patience(NEVER, || together(2, RwAdaptive::new, write, &[upgrade, read]));
    with_patience(NEVER, || together(2, RwAdaptive::new, upgrade, &[upgrade]));
    with_patience(NEVER, || together(2, RwAdaptive::new, write, &[try_to_upgrade, read]));
}

/// Every slot is more to explore: of three threads at two of them one preemption.
#[test]
fn rw_sharded_readers_and_a_writer() {
    with_patience(NEVER, || together(1, Sharded::new, read, &[read, write]));
    with_patience(NEVER, || together(2, RwSharded::<1>::new, write, &[read, read]));
}

#[test]
fn rw_sharded_writers_and_a_reader() {
    with_patience(NEVER, || together(1, Sharded::new, read, &[write, write]));
    with_patience(NEVER, || together(2, RwSharded::<1>::new, write, &[read, write]));
}

#[test]
fn rw_sharded_that_sleeps_at_once() {
    with_patience(NEVER, || together(3, || RwSharded::<1>::with_spin(0), write, &[read]));
    with_patience(NEVER, || together(2, || Sharded::with_spin(0), write_and_read, &[read_and_write]));
}

#[test]
fn rw_sharded_again_and_again() {
    with_patience(NEVER, || together(2, Sharded::new, write_and_read, &[read_and_write]));
}

#[test]
fn rw_sharded_tries() {
    with_patience(NEVER, || together(2, RwSharded::<1>::new, write, &[try_to_read, try_to_write]));
    with_patience(NEVER, || together(2, Sharded::new, try_to_write, &[read]));
    with_patience(NEVER, || together(2, RwSharded::<1>::new, try_to_write, &[read, read]));
}

#[test]
fn rw_sharded_give_up() {
    with_patience(NEVER, || together(2, Sharded::new, write, &[read_in_time]));
    with_patience(NEVER, || together(2, RwSharded::<1>::new, read, &[write_in_time, read]));
}

#[test]
fn rw_sharded_downgrades() {
    with_patience(NEVER, || together(2, RwSharded::<1>::new, read, &[downgrade, write]));
}
