//! map: threads read and update the values of 100,000 keys in a map that `--lock` names.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, RwLock};

use holdup_locks::technique::TableMap;

use super::context::{Context, Lost, equal, work};
use super::drive::{Member, Phase, Tally, Task};
use super::random::Draw;

/// How many keys every map has, from the start to the end.
pub const KEYS: u64 = 100_000;

/// What the workload asks of a map; values count their updates.
pub trait BenchMap: Sync {
    /// An empty map.
    fn create() -> Self;
    /// Adds a key with the value 0; called by one thread.
    fn insert(&self, key: u64);
    /// The value of a key.
    fn get(&self, key: u64) -> Option<u64>;
    /// Adds one to a key's value.
    fn add_one(&self, key: u64);
}

type Table = TableMap<u64, u64>;

impl BenchMap for Table {
    fn create() -> Self {
        TableMap::with_capacity_and_hasher(KEYS as usize, Default::default())
    }
    fn insert(&self, key: u64) {
        TableMap::insert(self, key, 0);
    }
    fn get(&self, key: u64) -> Option<u64> {
        TableMap::get(self, &key)
    }
    fn add_one(&self, key: u64) {
        self.update(&key, |value| *value += 1);
    }
}

/// One lock around the standard map.
pub type OneMutex = Mutex<HashMap<u64, u64>>;

impl BenchMap for OneMutex {
    fn create() -> Self {
        Mutex::new(HashMap::with_capacity(KEYS as usize))
    }
    fn insert(&self, key: u64) {
        self.lock().unwrap_or_else(PoisonError::into_inner).insert(key, 0);
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.lock().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }
    fn add_one(&self, key: u64) {
        if let Some(value) = self.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            *value += 1;
        }
    }
}

/// One reader-writer lock around the standard map.
pub type OneRwLock = RwLock<HashMap<u64, u64>>;

impl BenchMap for OneRwLock {
    fn create() -> Self {
        RwLock::new(HashMap::with_capacity(KEYS as usize))
    }
    fn insert(&self, key: u64) {
        self.write().unwrap_or_else(PoisonError::into_inner).insert(key, 0);
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.read().unwrap_or_else(PoisonError::into_inner).get(&key).copied()
    }
    fn add_one(&self, key: u64) {
        if let Some(value) = self.write().unwrap_or_else(PoisonError::into_inner).get_mut(&key) {
            *value += 1;
        }
    }
}

impl BenchMap for dashmap::DashMap<u64, u64> {
    fn create() -> Self {
        dashmap::DashMap::with_capacity(KEYS as usize)
    }
    fn insert(&self, key: u64) {
        dashmap::DashMap::insert(self, key, 0);
    }
    fn get(&self, key: u64) -> Option<u64> {
        dashmap::DashMap::get(self, &key).map(|value| *value)
    }
    fn add_one(&self, key: u64) {
        if let Some(mut value) = self.get_mut(&key) {
            *value += 1;
        }
    }
}

impl BenchMap for scc::HashMap<u64, u64> {
    fn create() -> Self {
        scc::HashMap::with_capacity(KEYS as usize)
    }
    fn insert(&self, key: u64) {
        // A key that is there already is an update lost in the check at the end.
        let _ = self.insert_sync(key, 0);
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.read_sync(&key, |_, value| *value)
    }
    fn add_one(&self, key: u64) {
        self.update_sync(&key, |_, value| *value += 1);
    }
}

impl BenchMap for papaya::HashMap<u64, u64> {
    fn create() -> Self {
        papaya::HashMap::with_capacity(KEYS as usize)
    }
    fn insert(&self, key: u64) {
        self.pin().insert(key, 0);
    }
    fn get(&self, key: u64) -> Option<u64> {
        self.pin().get(&key).copied()
    }
    fn add_one(&self, key: u64) {
        self.pin().update(key, |value| *value + 1);
    }
}

struct MapTask<M> {
    map: M,
    read_percent: u64,
    gap: Draw,
    /// Updates of the phases before this one: the map is not emptied between them.
    before: AtomicU64,
}

/// The map that the cell's lock names; `None` if it names none.
pub fn build(context: &Context<'_>) -> Option<Box<dyn Task>> {
    Some(match context.spec.lock.as_str() {
        "table-map" => task::<Table>(context),
        "map-mutex" => task::<OneMutex>(context),
        "map-rwlock" => task::<OneRwLock>(context),
        "map-dashmap" => task::<dashmap::DashMap<u64, u64>>(context),
        "map-scc" => task::<scc::HashMap<u64, u64>>(context),
        "map-papaya" => task::<papaya::HashMap<u64, u64>>(context),
        _ => return None,
    })
}

fn task<M: BenchMap + 'static>(context: &Context<'_>) -> Box<dyn Task> {
    let map = M::create();
    (0..KEYS).for_each(|key| map.insert(key));
    let read_percent = u64::from(context.spec.read_percent);
    Box::new(MapTask { map, read_percent, gap: context.gap, before: AtomicU64::new(0) })
}

impl<M: BenchMap> MapTask<M> {
    fn check(&self, done: &[Tally]) -> Result<(), Lost> {
        let found = (0..KEYS).filter_map(|key| self.map.get(key)).sum();
        let expected = self.before.load(Relaxed) + done.iter().map(|tally| tally.sum).sum::<u64>();
        self.before.store(expected, Relaxed);
        equal("updates in the map", found, expected)?;
        equal("keys that were not found", done.iter().map(|tally| tally.violations).sum(), 0)
    }
}

impl<M: BenchMap> Task for MapTask<M> {
    fn run(&self, me: &mut Member<'_>) {
        let mut tally = Tally::default();
        while tally.ops < me.limit && !me.stopped() {
            let key = me.random.below(KEYS);
            if me.random.below(100) < self.read_percent {
                tally.violations += u64::from(self.map.get(key).is_none());
            } else {
                self.map.add_one(key);
                tally.sum += 1;
            }
            let outside = self.gap.steps(&mut me.random);
            work(outside);
            tally.ops += 1;
            tally.acquisitions += 1;
            tally.gap_steps += outside;
        }
        me.tally = tally;
    }

    fn settle(&self, phase: &Phase<'_>) -> Result<(), String> {
        self.check(phase.tallies).map_err(|(_, why)| why)
    }
}
