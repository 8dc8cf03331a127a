//! The techniques under threads: invariants, models with random operations, hash distribution, bounds on waiting.
//!
//! Random tests print their seed; `HOLDUP_TEST_SEED=N cargo test -p holdup-locks --test techniques` repeats one.
#![cfg(not(loom))]
#![allow(unsafe_code, reason = "cells without a lock of their own show a missing exclusion to Miri and TSan")]

use std::cell::UnsafeCell;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use holdup_locks::technique::{
    Chunks, DefaultLock, FoldState, Gate, Gated, LockTable, ShardedCounter, TableMap, key_of, key_of_value,
};

/// Fewer rounds, keys and shards where every access is interpreted: a step there takes some thousand times as long.
const SCALE: u64 = if cfg!(miri) { 1 } else { 200 };
const MAP_KEYS: u64 = if cfg!(miri) { 20 } else { 200 };
const MAP_SHARDS: usize = if cfg!(miri) { 8 } else { 256 };

type Map<K, V, S = FoldState> = TableMap<K, V, S, DefaultLock, MAP_SHARDS>;

struct Random(u64);

impl Random {
    fn new(test: &str) -> Self {
        let seed = std::env::var("HOLDUP_TEST_SEED")
            .ok()
            .and_then(|seed| seed.parse().ok())
            .unwrap_or_else(|| RandomState::new().hash_one(test));
        println!("{test}: HOLDUP_TEST_SEED={seed}");
        Self::stream(seed, 0)
    }

    fn stream(seed: u64, stream: u64) -> Self {
        Self(FoldState::with_seed(seed).hash_one(stream) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

fn wait_until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

// ---- hash distribution

/// Checks that `slots` spread over `bins` as chance would: the chi-square statistic has the mean `bins - 1` and twice
/// that as variance, and six standard deviations above are as good as never. The share of pairs that meet is 1 in
/// `bins`.
fn assert_spread(what: &str, bins: usize, slots: impl IntoIterator<Item = usize>) {
    let mut counts = vec![0u64; bins];
    slots.into_iter().for_each(|slot| counts[slot] += 1);
    let keys = counts.iter().sum::<u64>() as f64;
    let expected = keys / bins as f64;
    let chi_square: f64 = counts.iter().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    let freedom = bins as f64 - 1.0;
    let bound = freedom + 6.0 * (2.0 * freedom).sqrt();
    assert!(chi_square < bound, "{what}: chi-square {chi_square:.0}, at most {bound:.0} expected of {keys} keys");

    let meetings: f64 = counts.iter().map(|&count| (count * count.saturating_sub(1)) as f64).sum();
    let share = meetings / (keys * (keys - 1.0)) * bins as f64;
    assert!((0.8..1.2).contains(&share), "{what}: two keys meet {share:.2} times as often as 1 in {bins}");
}

fn regular_key_sets(keys: u64) -> Vec<(String, Vec<u64>)> {
    let mut sets = vec![("small integers".to_owned(), (0..keys).collect::<Vec<_>>())];
    for stride in [8, 16, 24, 40, 64, 100, 4096, 4096 + 64, 1 << 20, 1 << 32] {
        for base in [0, 0x7f3a_1234_5010] {
            let set = (0..keys).map(|index| base + index * stride).collect();
            sets.push((format!("stride {stride} from {base:#x}"), set));
        }
    }
    sets
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic: nothing that Miri could find")]
fn table_spreads_regular_keys() {
    let table: LockTable<DefaultLock> = LockTable::new();
    for (what, set) in regular_key_sets(50_000) {
        assert_spread(&what, 256, set.iter().map(|&key| table.slot_of(key)));
    }
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic: nothing that Miri could find")]
fn table_spreads_allocator_addresses() {
    let table: LockTable<DefaultLock> = LockTable::new();
    for size in [1, 16, 24, 48, 100, 256, 1000, 4096, 10_000] {
        let objects: Vec<Vec<u8>> = (0..20_000).map(|_| Vec::with_capacity(size)).collect();
        let slots = objects.iter().map(|object| table.slot_of(object.as_ptr().addr() as u64));
        assert_spread(&format!("allocations of {size} bytes"), 256, slots);
    }
}

#[test]
#[cfg_attr(miri, ignore = "arithmetic: nothing that Miri could find")]
fn table_spreads_over_any_number_of_slots() {
    let table: LockTable<DefaultLock, 100> = LockTable::new();
    assert_spread("100 slots", 100, (0..50_000).map(|key| table.slot_of(key * 64)));
}

/// The hasher's bits that pick a map's shard, those that pick a bucket and those that tag it.
#[test]
#[cfg_attr(miri, ignore = "arithmetic: nothing that Miri could find")]
fn fold_hasher_spreads_in_all_bits_that_count() {
    let seed = Random::new("fold_hasher_spreads_in_all_bits_that_count").next();
    for state in [FoldState::with_seed(0), FoldState::with_seed(seed)] {
        for (what, set) in regular_key_sets(20_000) {
            for shift in [0, 8, 49, 56] {
                let bits = set.iter().map(|key| (state.hash_one(key) >> shift) as usize & 255);
                assert_spread(&format!("{what}, bits from {shift}, {state:?}"), 256, bits);
            }
        }
    }
}

#[test]
fn fold_hasher_tells_neighbours_apart() {
    let words = ["", "\0", "\0\0", "a", "a\0", "aaaaaaaa", "aaaaaaaa\0", "aaaaaaab", "baaaaaaa", "aaaaaaaaa"];
    let hashes: HashSet<u64> = words.iter().map(|word| key_of_value(*word)).collect();
    assert_eq!(hashes.len(), words.len());
    let halves: HashSet<u64> = [0u128, 1, 1 << 64, 1 << 127].iter().map(key_of_value).collect();
    assert_eq!(halves.len(), 4);
    assert_ne!(FoldState::default().hash_one(1), FoldState::default().hash_one(1), "each state draws a seed");
}

// ---- lock table

/// A cell whose only protection is the lock table, so that Miri and TSan see a missing exclusion.
struct Guarded(UnsafeCell<u64>);

// SAFETY: the tests touch the cell only under its key's lock.
unsafe impl Sync for Guarded {}

impl Guarded {
    fn add(&self, amount: u64) {
        // SAFETY: the caller holds the lock of this cell's key, and no reference outlives this statement.
        unsafe { *self.0.get() += amount };
    }
}

fn guarded(count: usize) -> Vec<Guarded> {
    (0..count).map(|_| Guarded(UnsafeCell::new(0))).collect()
}

fn total(cells: Vec<Guarded>) -> u64 {
    cells.into_iter().map(|cell| cell.0.into_inner()).sum()
}

#[test]
fn table_excludes_per_key() {
    static TABLE: LockTable<DefaultLock, 8> = LockTable::new();
    let cells = guarded(20);
    let rounds = 50 * SCALE;
    thread::scope(|scope| {
        for thread in 0..4 {
            let cells = &cells;
            scope.spawn(move || {
                for round in 0..rounds {
                    let cell = &cells[((round * 7 + thread) % 20) as usize];
                    let _guard = TABLE.lock(key_of(cell));
                    cell.add(1);
                }
            });
        }
    });
    assert_eq!(total(cells), 4 * rounds);
}

#[test]
fn lock_many_never_deadlocks() {
    let table: LockTable<DefaultLock, 16> = LockTable::new();
    let cells = guarded(12);
    let seed = Random::new("lock_many_never_deadlocks").next();
    let rounds = 10 * SCALE;
    thread::scope(|scope| {
        for thread in 0..4 {
            let (table, cells) = (&table, &cells);
            scope.spawn(move || lock_many_rounds(table, cells, Random::stream(seed, thread), rounds));
        }
    });
    let all_rounds = rounds.div_ceil(16);
    assert_eq!(total(cells), 4 * (rounds * 3 + all_rounds * 12));
}

/// Locks three random cells a round, in random order, by array and by slice in turn, and at times everything.
fn lock_many_rounds(table: &LockTable<DefaultLock, 16>, cells: &[Guarded], mut random: Random, rounds: u64) {
    for round in 0..rounds {
        let chosen: [&Guarded; 3] = std::array::from_fn(|_| &cells[random.below(12) as usize]);
        let keys = chosen.map(key_of);
        if round % 2 == 0 {
            let _guards = table.lock_many(&keys);
            chosen.iter().for_each(|cell| cell.add(1));
        } else {
            let _guards = table.lock_slice(&keys);
            chosen.iter().for_each(|cell| cell.add(1));
        }
        if round % 16 == 0 {
            let _all = table.lock_all();
            cells.iter().for_each(|cell| cell.add(1));
        }
    }
}

#[test]
fn lock_many_takes_each_slot_once() {
    let table: LockTable<DefaultLock, 4> = LockTable::new();
    let keys: [u64; 32] = std::array::from_fn(|index| index as u64);
    let slots: HashSet<usize> = keys.iter().map(|&key| table.slot_of(key)).collect();
    assert_eq!(table.lock_many(&keys).locks(), slots.len());
    assert_eq!(table.lock_slice(&keys).locks(), slots.len());
    assert_eq!(table.lock_many(&[]).locks(), 0);
    let all = table.lock_all();
    assert_eq!(all.locks(), 4);
    assert!(keys.iter().all(|&key| table.try_lock(key).is_none()));
    drop(all);
    assert!(keys.iter().all(|&key| table.try_lock(key).is_some()));
}

/// Two keys that share a slot, and are not equal.
fn colliding_keys(table: &LockTable<DefaultLock>) -> (u64, u64) {
    let other = (2..).find(|&key| table.slot_of(key) == table.slot_of(1)).expect("256 slots repeat soon");
    (1, other)
}

#[test]
#[cfg(debug_assertions)]
fn nested_lock_on_one_slot_is_named_in_debug_builds() {
    let table: LockTable<DefaultLock> = LockTable::new();
    let (first, second) = colliding_keys(&table);
    let guard = table.lock(first);
    let panic = catch_unwind(AssertUnwindSafe(|| drop(table.lock(second)))).expect_err("it would wait for itself");
    let message = panic.downcast_ref::<String>().expect("a formatted message");
    assert!(message.contains("lock_many"), "{message}");
    assert!(message.contains(&format!("slot {}", table.slot_of(first))), "{message}");
    // Another thread is not nested: it waits.
    thread::scope(|scope| {
        let waiter = scope.spawn(|| drop(table.lock(second)));
        drop(guard);
        waiter.join().expect("the other thread gets the lock");
    });
    drop(table.lock_many(&[first, second]));
}

#[test]
fn try_lock_fails_on_a_shared_slot_and_does_not_block() {
    let table: LockTable<DefaultLock> = LockTable::new();
    let (first, second) = colliding_keys(&table);
    let guard = table.lock(first);
    assert!(table.try_lock(second).is_none());
    drop(guard);
    assert!(table.try_lock(second).is_some());
}

#[test]
fn table_guards_are_released_by_a_panic() {
    let table: LockTable<DefaultLock, 16> = LockTable::new();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let _guards = table.lock_many(&[1, 2, 3]);
        panic!("inside");
    }));
    assert!(result.is_err());
    assert_eq!(table.lock_all().locks(), 16);
}

// ---- map

type SmallMap = TableMap<u64, u64, FoldState, DefaultLock, 16>;

#[test]
fn map_agrees_with_a_model() {
    let mut random = Random::new("map_agrees_with_a_model");
    let map = SmallMap::new();
    let mut model: HashMap<u64, u64> = HashMap::new();
    for step in 0..if cfg!(miri) { 60 } else { 50_000 } {
        let (key, value) = (random.below(MAP_KEYS), step);
        match random.below(12) {
            0..3 => assert_eq!(map.insert(key, value), model.insert(key, value)),
            3 | 4 => assert_eq!(map.remove(&key), model.remove(&key)),
            5 => assert_eq!(map.get(&key), model.get(&key).copied()),
            6 => {
                let expected = model.get_mut(&key).map(|old| std::mem::replace(old, value));
                assert_eq!(map.update(&key, |old| std::mem::replace(old, value)), expected);
            }
            7 => {
                map.modify_or_insert_with(key, |old| *old += 1, || value);
                model.entry(key).and_modify(|old| *old += 1).or_insert(value);
            }
            8 => assert_eq!(map.get_or_insert_with(key, || value), *model.entry(key).or_insert(value)),
            9 => assert_eq!(map.contains_key(&key), model.contains_key(&key)),
            10 => {
                let even = model.get(&key).is_some_and(|old| old % 2 == 0);
                let expected = if even { model.remove(&key) } else { None };
                assert_eq!(map.remove_if(&key, |old| *old % 2 == 0), expected);
            }
            _ => step_over_the_whole(&map, &mut model, &mut random),
        }
    }
    assert_same(&map, &model);
    assert_eq!(map.into_iter().collect::<HashMap<_, _>>(), model);
}

fn step_over_the_whole(map: &SmallMap, model: &mut HashMap<u64, u64>, random: &mut Random) {
    match random.below(40) {
        0 => {
            map.clear();
            model.clear();
        }
        1 => assert_eq!(map.drain().into_iter().collect::<HashMap<_, _>>(), std::mem::take(model)),
        2 => {
            let keep = |key: &u64, value: &mut u64| {
                *value += 1;
                !key.is_multiple_of(3)
            };
            map.retain(keep);
            model.retain(keep);
        }
        _ => assert_same(map, model),
    }
}

fn assert_same(map: &SmallMap, model: &HashMap<u64, u64>) {
    assert_eq!(map.len(), model.len());
    assert_eq!(map.is_empty(), model.is_empty());
    assert_eq!(map.to_vec().into_iter().collect::<HashMap<_, _>>(), *model);
    let mut sum = 0;
    map.for_each(|_, value| sum += value);
    assert_eq!(sum, model.values().sum::<u64>());
}

/// Each thread owns the keys of its residue class and models them, while all share the shards.
#[test]
fn map_agrees_with_a_model_per_thread() {
    let seed = Random::new("map_agrees_with_a_model_per_thread").next();
    let map: Map<u64, String> = Map::new();
    let models: Vec<HashMap<u64, String>> = thread::scope(|scope| {
        let handles: Vec<_> = (0..4)
            .map(|thread| {
                let map = &map;
                scope.spawn(move || model_own_keys(map, Random::stream(seed, thread), thread))
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("a model disagreed")).collect()
    });
    let expected: HashMap<u64, String> = models.into_iter().flatten().collect();
    assert_eq!(map.len(), expected.len());
    assert_eq!(map.to_vec().into_iter().collect::<HashMap<_, _>>(), expected);
}

fn model_own_keys(map: &Map<u64, String>, mut random: Random, thread: u64) -> HashMap<u64, String> {
    let mut model = HashMap::new();
    for step in 0..25 * SCALE {
        let key = random.below(100) * 4 + thread;
        match random.below(4) {
            0 | 1 => assert_eq!(map.insert(key, step.to_string()), model.insert(key, step.to_string())),
            2 => assert_eq!(map.remove(&key), model.remove(&key)),
            _ => assert_eq!(map.get(&key), model.get(&key).cloned()),
        }
    }
    model
}

#[test]
fn map_updates_are_atomic() {
    let map: Map<String, u64> = Map::new();
    let rounds = 10 * SCALE;
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for round in 0..rounds {
                    map.modify_or_insert_with(format!("key {}", round % 10), |count| *count += 1, || 1);
                }
            });
        }
    });
    assert_eq!(map.len(), 10);
    assert_eq!(map.drain().into_iter().map(|(_, count)| count).sum::<u64>(), 4 * rounds);
}

/// A reference count: whoever brings it to zero removes the entry, in one step, and exactly one thread does.
#[test]
fn map_removes_safely_at_zero() {
    let map: Map<u64, u64> = Map::new();
    let removals = AtomicU64::new(0);
    for key in 0..3 * SCALE {
        map.insert(key, 4);
    }
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for key in 0..3 * SCALE {
                    let gone = map.remove_if(&key, |count| {
                        *count -= 1;
                        *count == 0
                    });
                    removals.fetch_add(u64::from(gone.is_some()), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(removals.into_inner(), 3 * SCALE);
    assert!(map.is_empty());
}

/// Values are dropped exactly once, whichever way they leave.
#[test]
fn map_drops_each_value_once() {
    let value = Arc::new(());
    let map: Map<u64, Arc<()>> = (0..100).map(|key| (key, Arc::clone(&value))).collect();
    assert_eq!(Arc::strong_count(&value), 101);
    drop(map.insert(0, Arc::clone(&value)));
    drop(map.remove(&1));
    map.retain(|key, _| key % 2 == 0);
    assert_eq!(Arc::strong_count(&value), 51);
    let mut rest = map.into_iter();
    drop(rest.next());
    assert_eq!(Arc::strong_count(&value), 50);
    drop(rest);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn map_survives_a_panic_inside() {
    let map: Map<u64, u64> = [(1, 1)].into_iter().collect();
    assert!(catch_unwind(AssertUnwindSafe(|| map.update(&1, |_| panic!("inside")))).is_err());
    assert!(catch_unwind(AssertUnwindSafe(|| map.get_or_insert_with(2, || panic!("inside")))).is_err());
    assert_eq!(map.get(&1), Some(1));
    assert_eq!(map.get(&2), None);
    assert_eq!(map.len(), 1);
}

#[test]
#[cfg(debug_assertions)]
fn map_inside_its_own_closure_is_named_in_debug_builds() {
    let map: Map<u64, u64> = [(1, 1)].into_iter().collect();
    let nested = catch_unwind(AssertUnwindSafe(|| map.update(&1, |_| map.get(&1))));
    let panic = nested.expect_err("it would wait for itself");
    assert!(panic.downcast_ref::<String>().expect("a message").contains("inside its own closures"));
    assert_eq!(map.get(&1), Some(1));
}

#[test]
fn map_takes_any_hasher_capacity_and_borrowed_keys() {
    let sip: Map<String, u8, RandomState> = Map::with_capacity_and_hasher(1000, RandomState::new());
    sip.insert("one".into(), 1);
    assert_eq!(sip.get("one"), Some(1));
    let mut extended: Map<u8, u8> = Map::default();
    extended.extend([(1, 2), (3, 4), (1, 5)]);
    assert_eq!(extended.get(&1), Some(5));
    assert_eq!(format!("{:?}", [(7u8, 8u8)].into_iter().collect::<Map<_, _>>()), "{7: 8}");
}

// ---- gate

/// Counts who is inside and remembers the most there ever were.
#[derive(Default)]
struct HighWater {
    inside: AtomicUsize,
    most: AtomicUsize,
}

impl HighWater {
    fn visit(&self) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        thread::yield_now();
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn gate_never_admits_more_than_its_limit() {
    for limit in [1, 2, 3] {
        let gate = Gate::new(limit);
        let water = HighWater::default();
        thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    for round in 0..5 * SCALE {
                        if round % 5 == 0
                            && let Some(_pass) = gate.try_enter()
                        {
                            water.visit();
                        }
                        let _pass = gate.enter();
                        water.visit();
                    }
                });
            }
        });
        assert!(water.most.into_inner() <= limit as usize);
        assert_eq!(gate.present(), 0);
    }
}

/// Each writes one counter of the gate and reads the other; if both read too old a value, one sleeps for ever.
#[test]
fn gate_wakes_whoever_waits() {
    for _ in 0..if cfg!(miri) { 20 } else { 200 } {
        let gate = Gate::new(1);
        let visit = || {
            let _pass = gate.enter();
            // Long enough for the other to fall asleep.
            (0..10).for_each(|_| std::thread::yield_now());
        };
        std::thread::scope(|scope| {
            scope.spawn(visit);
            visit();
        });
        let pass = gate.enter();
        std::thread::scope(|scope| {
            scope.spawn(|| drop(gate.enter()));
            gate.set_limit(2);
        });
        drop(pass);
        assert_eq!(gate.present(), 0);
    }
}

#[test]
fn gate_limit_changes_live() {
    let gate = Gate::new(1);
    let water = HighWater::default();
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random::new("gate_limit_changes_live");
            while !done.load(Ordering::Relaxed) {
                gate.set_limit(random.below(4) as u32);
                thread::yield_now();
            }
        });
        let workers: Vec<_> = (0..6)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..5 * SCALE {
                        let _pass = gate.enter();
                        water.visit();
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().expect("a worker panicked"));
        done.store(true, Ordering::Relaxed);
    });
    assert!(water.most.into_inner() <= 3);
    assert_eq!(gate.present(), 0);
}

#[test]
fn gate_lets_sleepers_in_when_the_limit_rises() {
    let gate = Gate::new(0);
    assert_eq!(gate.limit(), 1, "0 is taken as 1");
    let pass = gate.enter();
    assert!(gate.try_enter().is_none());
    thread::scope(|scope| {
        let sleepers: Vec<_> = (0..3).map(|_| scope.spawn(|| drop(gate.enter()))).collect();
        wait_until(|| gate.present() == 4);
        gate.set_limit(2);
        sleepers.into_iter().for_each(|sleeper| sleeper.join().expect("a sleeper panicked"));
    });
    gate.set_limit(1);
    assert!(gate.try_enter().is_none(), "the first pass is still out");
    drop(pass);
    assert!(gate.try_enter().is_some());
}

#[test]
fn gate_lowered_sends_nobody_out_and_lets_nobody_in() {
    let gate = Gate::new(3);
    let mut passes = vec![gate.enter(), gate.enter(), gate.enter()];
    gate.set_limit(1);
    passes.pop();
    passes.pop();
    assert!(gate.try_enter().is_none());
    passes.pop();
    let pass = gate.try_enter();
    assert!(pass.is_some() && gate.try_enter().is_none());
}

#[test]
fn gate_is_first_come_first_served() {
    let gate = Gate::new(1);
    let order = Mutex::new(Vec::new());
    let waiters = if cfg!(miri) { 5 } else { 40 };
    thread::scope(|scope| {
        let pass = gate.enter();
        for waiter in 0..waiters {
            let (gate, order) = (&gate, &order);
            scope.spawn(move || {
                let _pass = gate.enter();
                order.lock().unwrap().push(waiter);
            });
            wait_until(|| gate.present() == waiter + 2);
        }
        drop(pass);
    });
    assert_eq!(order.into_inner().unwrap(), (0..waiters).collect::<Vec<_>>());
}

// ---- gated

/// The stated bound, exactly: with `k` before it, a thread in the line is in after `(k + 1) * TURN` places given back.
#[test]
fn gated_bounds_waiting() {
    const TURN: u32 = 8;
    const WAITERS: usize = 3;
    /// The waiters in the order in which they got in, each with the number of places given back until then.
    type Entered = Vec<(usize, u64)>;
    let lock: lock_api::Mutex<Gated<DefaultLock, 1, TURN>, Entered> = lock_api::Mutex::new(Vec::new());
    let given_back = AtomicU64::new(0);
    let entered = thread::scope(|scope| {
        let mut guard = lock.lock();
        for waiter in 0..WAITERS {
            let (lock, given_back) = (&lock, &given_back);
            scope.spawn(move || {
                let mut entered = lock.lock();
                entered.push((waiter, given_back.fetch_add(1, Ordering::SeqCst)));
            });
            // SAFETY: only the number of waiters is read; neither the guard nor its data is touched.
            wait_until(|| unsafe { lock.raw() }.waiting() == waiter as u64 + 1);
        }
        // Capture: give the lock back and take it again at once, as long as anyone still waits.
        while guard.len() < WAITERS {
            given_back.fetch_add(1, Ordering::SeqCst);
            drop(guard);
            guard = lock.lock();
        }
        guard.clone()
    });
    for (ahead, &(waiter, turns)) in entered.iter().enumerate() {
        assert_eq!(waiter, ahead, "the line is first come, first served");
        let bound = (ahead as u64 + 1) * u64::from(TURN);
        assert!(turns <= bound, "waiter {ahead} got in after {turns} turns, {bound} is the bound");
    }
}

#[test]
fn gated_gives_everyone_a_share() {
    gives_everyone_a_share::<1>();
    gives_everyone_a_share::<2>();
}

/// All threads go on until each has had its share: a starving thread would keep the test running for ever.
fn gives_everyone_a_share<const ACTIVE: u32>() {
    const THREADS: usize = 5;
    type Counts<const ACTIVE: u32> = lock_api::Mutex<Gated<DefaultLock, ACTIVE, 16>, [u64; THREADS]>;
    let share = SCALE;
    let lock: Counts<ACTIVE> = lock_api::Mutex::new([0; THREADS]);
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (lock, taken) = (&lock, &taken);
            scope.spawn(move || {
                loop {
                    let mut counts = lock.lock();
                    counts[thread] += 1;
                    taken.fetch_add(1, Ordering::Relaxed);
                    if counts.iter().all(|&count| count >= share) {
                        break;
                    }
                }
            });
        }
    });
    let counts = *lock.lock();
    assert_eq!(counts.iter().sum::<u64>(), taken.into_inner());
    assert!(counts.iter().all(|&count| count >= share));
}

#[test]
fn gated_try_lock_fails_while_held_and_leaves_no_trace() {
    let lock: lock_api::Mutex<Gated<DefaultLock>, u64> = lock_api::Mutex::new(0);
    let guard = lock.lock();
    assert!(lock.is_locked());
    assert!(lock.try_lock().is_none());
    drop(guard);
    *lock.try_lock().expect("free again") += 1;
    assert!(!lock.is_locked());
    assert_eq!(*lock.lock(), 1);
}

#[test]
fn gated_nests_over_a_gated_lock() {
    type Nested = Gated<Gated<DefaultLock, 1, 4>, 3, 4>;
    let lock: lock_api::Mutex<Nested, u64> = lock_api::Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| (0..5 * SCALE).for_each(|_| *lock.lock() += 1));
        }
    });
    assert_eq!(*lock.lock(), 25 * SCALE);
}

// ---- counter

#[test]
fn counter_loses_nothing() {
    let counter: ShardedCounter<4> = ShardedCounter::new();
    let taken = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| {
                for round in 0..25 * SCALE {
                    counter.add(3);
                    counter.sub(1);
                    if round % 16 == 0 {
                        taken.fetch_add(counter.take().cast_unsigned(), Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let total = counter.sum() + taken.into_inner().cast_signed();
    assert_eq!(total, (300 * SCALE).cast_signed());
}

#[test]
fn counter_goes_below_zero_and_back() {
    let counter: ShardedCounter<1> = ShardedCounter::default();
    counter.sub(5);
    assert_eq!(counter.sum(), -5);
    counter.add(7);
    assert_eq!(counter.take(), 2);
    counter.add(i64::MAX);
    counter.reset();
    assert_eq!(counter.sum(), 0);
}

// ---- chunks

/// Claims with several threads; the claimed ranges, sorted, must tile the range.
fn assert_tiles(chunks: &Chunks, start: u64, end: u64) {
    let mut claimed: Vec<_> = thread::scope(|scope| {
        let handles: Vec<_> = (0..4).map(|_| scope.spawn(|| chunks.iter().collect::<Vec<_>>())).collect();
        handles.into_iter().flat_map(|handle| handle.join().expect("a claimer panicked")).collect()
    });
    claimed.sort_by_key(|chunk| chunk.start);
    let mut next = start;
    for chunk in &claimed {
        assert_eq!(chunk.start, next);
        assert!(chunk.end > chunk.start);
        next = chunk.end;
    }
    assert_eq!(next, end);
    assert_eq!(chunks.next(), None, "what is claimed stays claimed");
}

#[test]
fn chunks_claim_every_index_once() {
    let mut random = Random::new("chunks_claim_every_index_once");
    for _ in 0..SCALE {
        let start = random.below(1_000);
        let end = start + random.below(5_000);
        let chunk = random.below(300) + if cfg!(miri) { 100 } else { 0 };
        assert_tiles(&Chunks::fixed(start..end, chunk), start, end);
        assert_tiles(&Chunks::guided(start..end, random.below(9) as usize, chunk), start, end);
    }
}

#[test]
fn chunks_stay_whole_at_the_ends_of_u64() {
    let max = u64::MAX;
    let cases =
        [(max - 10, max, 3), (max - 10, max, max), (0, max, max / 3), (0, max, max), (max, max, 1), (1, max, 1 << 62)];
    for (start, end, chunk) in cases {
        assert_tiles(&Chunks::fixed(start..end, chunk), start, end);
        assert_tiles(&Chunks::guided(start..end, 3, chunk), start, end);
    }
}

#[test]
#[allow(clippy::reversed_empty_ranges, reason = "what a caller may pass by mistake")]
fn chunks_of_nothing_are_none() {
    for chunks in [Chunks::fixed(5..5, 1), Chunks::fixed(9..5, 1), Chunks::guided(5..5, 2, 1)] {
        assert_eq!(chunks.next(), None);
        assert_eq!(chunks.indices().count(), 0);
    }
}

#[test]
fn guided_chunks_shrink_to_the_minimum() {
    let chunks = Chunks::guided(0..10_000, 4, 16);
    let lengths: Vec<u64> = chunks.iter().map(|chunk| chunk.end - chunk.start).collect();
    assert_eq!(lengths[0], 2_500);
    assert!(lengths.windows(2).all(|pair| pair[1] <= pair[0]));
    assert!(lengths[..lengths.len() - 1].iter().all(|&length| length >= 16));
}
