//! Every schedule of small scenes: gate, gated lock, lock table, map, counter and chunks under loom's model checker.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p holdup-locks --release --test loom_techniques`. loom reports a lost wake-up as
//! a deadlock, and a missing exclusion or ordering as a causality violation of the cell that it should have guarded.
//! What threads share is touched once before they start, because the seam makes loom's atomics at first use.
#![cfg(loom)]
#![allow(unsafe_code, reason = "loom's cells are read and written through raw pointers")]

use std::sync::Arc;

use holdup_locks::lock_api::{Mutex, RawMutex};
use holdup_locks::technique::{Chunks, FoldState, Gate, Gated, LockTable, ShardedCounter, TableMap};
use holdup_locks::{Futex, Ttas};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;

/// Explores all schedules with at most `preemptions` forced switches.
fn explore(preemptions: usize, scene: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(scene);
}

/// Makes every atomic of a gate: its debug output shows them all.
fn touch(gate: &impl std::fmt::Debug) {
    assert!(!format!("{gate:?}").is_empty());
}

/// A number that only the technique under test protects.
struct Cell(UnsafeCell<u64>);

// SAFETY: loom itself checks that no two accesses overlap or race.
unsafe impl Sync for Cell {}
// SAFETY: as above; a number may move.
unsafe impl Send for Cell {}

impl Cell {
    fn new() -> Self {
        Self(UnsafeCell::new(0))
    }

    fn add_one(&self) -> u64 {
        // SAFETY: loom panics if this access is not exclusive; the pointer does not leave the closure.
        self.0.with_mut(|number| unsafe {
            *number += 1;
            *number
        })
    }
}

// ---- gate

#[test]
fn gate_carries_data() {
    explore(3, || {
        let shared = Arc::new((Gate::new(1), Cell::new()));
        touch(&shared.0);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    let _pass = shared.0.enter();
                    shared.1.add_one();
                })
            })
            .collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        let _pass = shared.0.enter();
        assert_eq!(shared.1.add_one(), 3);
    });
}

/// A try takes over what the last one inside did, or fails.
#[test]
fn gate_tries_carry_data() {
    explore(3, || {
        let shared = Arc::new((Gate::new(1), Cell::new()));
        touch(&shared.0);
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let _pass = shared.0.enter();
                shared.1.add_one();
            })
        };
        if let Some(_pass) = shared.0.try_enter() {
            shared.1.add_one();
        }
        other.join().unwrap();
        assert!(shared.0.try_enter().is_some(), "a try that failed left no trace");
    });
}

#[test]
fn gate_loses_no_wake_up() {
    explore(2, || {
        let gate = Arc::new(Gate::new(1));
        touch(&*gate);
        let others: Vec<_> = (0..2)
            .map(|_| {
                let gate = Arc::clone(&gate);
                thread::spawn(move || {
                    drop(gate.enter());
                    drop(gate.enter());
                })
            })
            .collect();
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(gate.present(), 0);
    });
}

#[test]
fn gate_admits_at_most_two() {
    explore(2, || {
        let shared = Arc::new((Gate::new(2), AtomicUsize::new(0)));
        touch(&shared.0);
        let visit = |shared: &(Gate, AtomicUsize)| {
            let _pass = shared.0.enter();
            assert!(shared.1.fetch_add(1, Ordering::SeqCst) < 2);
            shared.1.fetch_sub(1, Ordering::SeqCst);
        };
        let others: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || visit(&shared))
            })
            .collect();
        visit(&shared);
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// The main thread keeps its pass: only the higher limit can let the other in.
#[test]
fn set_limit_lets_a_sleeper_in() {
    explore(3, || {
        let gate = Arc::new(Gate::new(1));
        touch(&*gate);
        let pass = gate.enter();
        let other = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || drop(gate.enter()))
        };
        gate.set_limit(2);
        other.join().unwrap();
        drop(pass);
        assert_eq!(gate.present(), 0);
    });
}

/// Once `set_limit(1)` has returned and everybody who was inside has left, one at a time comes in.
#[test]
fn set_limit_lowered_holds_from_then_on() {
    explore(3, || {
        let shared = Arc::new((Gate::new(2), AtomicUsize::new(0)));
        touch(&shared.0);
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for _ in 0..2 {
                    let _pass = shared.0.enter();
                    assert!(shared.1.fetch_add(1, Ordering::SeqCst) < 2);
                    shared.1.fetch_sub(1, Ordering::SeqCst);
                }
            })
        };
        shared.0.set_limit(1);
        {
            let _pass = shared.0.enter();
            assert!(shared.1.fetch_add(1, Ordering::SeqCst) < 2);
            shared.1.fetch_sub(1, Ordering::SeqCst);
        }
        other.join().unwrap();
        let _pass = shared.0.enter();
        assert!(shared.0.try_enter().is_none());
    });
}

#[test]
fn two_set_limits_agree_with_themselves() {
    explore(3, || {
        let gate = Arc::new(Gate::new(1));
        touch(&*gate);
        let other = {
            let gate = Arc::clone(&gate);
            thread::spawn(move || gate.set_limit(3))
        };
        gate.set_limit(2);
        other.join().unwrap();
        let passes: Vec<_> = std::iter::from_fn(|| gate.try_enter()).collect();
        assert_eq!(passes.len(), gate.limit() as usize);
    });
}

// ---- gated

fn gated_scene<L: RawMutex + std::fmt::Debug + Send + Sync + 'static>(others: usize, rounds: usize) {
    let lock = Arc::new(Mutex::<L, _>::new(Cell::new()));
    drop(lock.lock());
    // SAFETY: nobody holds or uses the lock yet; only its debug output is read.
    touch(unsafe { lock.raw() });
    let work = move |lock: &Mutex<L, Cell>| {
        for _ in 0..rounds {
            lock.lock().add_one();
        }
    };
    let handles: Vec<_> = (0..others)
        .map(|_| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || work(&lock))
        })
        .collect();
    work(&lock);
    handles.into_iter().for_each(|handle| handle.join().unwrap());
    assert_eq!(lock.lock().add_one(), ((others + 1) * rounds + 1) as u64);
}

/// Two threads, no hand-over within reach: places are freed and the front is rung.
#[test]
fn gated_excludes_and_wakes() {
    explore(3, || gated_scene::<Gated<Ttas, 1, 100>>(1, 2));
}

/// Around a lock that excludes nobody: with one place the places alone exclude, and carry the data.
#[test]
fn gated_places_carry_data() {
    explore(3, || gated_scene::<Gated<Nobody, 1, 100>>(1, 2));
    explore(2, || gated_scene::<Gated<Nobody, 1, 1>>(2, 1));
}

/// Excludes nobody.
#[derive(Debug)]
struct Nobody;

// SAFETY: it breaks its promise on purpose; loom's cell reports it if what stands before it does not exclude.
unsafe impl RawMutex for Nobody {
    const INIT: Self = Nobody;
    type Guard = holdup_locks::lock_api::GuardSend;
    fn lock(&self) -> Self::Guard {
        Self::Guard::new()
    }
    fn try_lock(&self) -> Option<Self::Guard> {
        Some(Self::Guard::new())
    }
    unsafe fn unlock(&self, _guard: Self::Guard) {}
    fn is_locked(&self) -> bool {
        true
    }
}

/// Every place given back while somebody waits is handed over.
#[test]
fn gated_hands_over() {
    explore(3, || gated_scene::<Gated<Ttas, 1, 1>>(1, 2));
}

/// Three threads: the line has a second place, and free places, rings and hand-overs mix.
#[test]
fn gated_keeps_its_line_moving() {
    explore(2, || gated_scene::<Gated<Ttas, 1, 2>>(2, 1));
}

/// Two places: the inner lock decides between those inside.
#[test]
fn gated_with_two_places() {
    explore(2, || gated_scene::<Gated<Futex, 2, 1>>(2, 1));
}

// ---- lock table

#[test]
fn table_excludes() {
    explore(3, || {
        let shared = Arc::new((LockTable::<Futex, 2>::new(), Cell::new()));
        drop(shared.0.lock_all());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let _guard = shared.0.lock(7);
                shared.1.add_one();
            })
        };
        {
            let _guard = shared.0.lock(7);
            shared.1.add_one();
        }
        other.join().unwrap();
        let _guard = shared.0.lock(7);
        assert_eq!(shared.1.add_one(), 3);
    });
}

#[test]
fn lock_many_in_opposite_orders() {
    explore(3, || {
        let table = LockTable::<Futex, 2>::new();
        let first = 0;
        let second = (1..).find(|&key| table.slot_of(key) != table.slot_of(first)).unwrap();
        let shared = Arc::new((table, Cell::new()));
        drop(shared.0.lock_all());
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let _guards = shared.0.lock_many(&[second, first]);
                shared.1.add_one();
            })
        };
        {
            let _guards = shared.0.lock_many(&[first, second]);
            shared.1.add_one();
        }
        other.join().unwrap();
        let _guards = shared.0.lock_all();
        assert_eq!(shared.1.add_one(), 3);
    });
}

// ---- map

#[test]
fn map_updates_exclude() {
    explore(3, || {
        let map = TableMap::<u64, Cell, FoldState, Futex, 1>::with_hasher(FoldState::with_seed(1));
        map.insert(1, Cell::new());
        let map = Arc::new(map);
        let other = {
            let map = Arc::clone(&map);
            thread::spawn(move || map.update(&1, |cell| cell.add_one()))
        };
        map.modify_or_insert_with(1, |cell| _ = cell.add_one(), Cell::new);
        other.join().unwrap();
        assert_eq!(map.update(&1, |cell| cell.add_one()), Some(3));
    });
}

/// One of the two removes the value and owns it; the other finds nothing.
#[test]
fn map_removal_is_safe() {
    explore(3, || {
        let map = TableMap::<u64, Cell, FoldState, Futex, 1>::with_hasher(FoldState::with_seed(1));
        map.insert(1, Cell::new());
        let map = Arc::new(map);
        let other = {
            let map = Arc::clone(&map);
            thread::spawn(move || map.update(&1, |cell| cell.add_one()).is_some())
        };
        let removed = map.remove(&1).expect("nobody else removes");
        let updated_before = other.join().unwrap();
        assert_eq!(removed.add_one(), 1 + u64::from(updated_before));
    });
}

// ---- counter and chunks

#[test]
fn counter_take_is_exact() {
    explore(3, || {
        let counter = Arc::new(ShardedCounter::<2>::new());
        counter.reset();
        let other = {
            let counter = Arc::clone(&counter);
            thread::spawn(move || {
                counter.add(2);
                counter.sub(1);
            })
        };
        counter.add(10);
        let taken = counter.take();
        other.join().unwrap();
        assert_eq!(taken + counter.sum(), 11);
    });
}

fn chunks_scene(chunks: Chunks) {
    let chunks = Arc::new(chunks);
    let other = {
        let chunks = Arc::clone(&chunks);
        thread::spawn(move || chunks.indices().collect::<Vec<_>>())
    };
    let mut claimed: Vec<_> = chunks.indices().collect();
    claimed.extend(other.join().unwrap());
    claimed.sort_unstable();
    assert_eq!(claimed, [5, 6, 7, 8, 9]);
}

#[test]
fn chunks_never_overlap() {
    explore(3, || {
        let chunks = Chunks::fixed(4..10, 1);
        assert_eq!(chunks.next(), Some(4..5));
        chunks_scene(chunks);
    });
    explore(3, || {
        let chunks = Chunks::guided(4..10, 6, 1);
        assert_eq!(chunks.next(), Some(4..5));
        chunks_scene(chunks);
    });
}
