//! The techniques beside their peers: ratios of paired, interleaved runs.
//!
//! `cargo bench -p holdup-locks --bench techniques [-- [ROUNDS] [FILTER]]` prints, per technique, how many times as fast
//! as the baseline each candidate was: the median over the rounds and the quartiles. All candidates of a block run once
//! per round, in an order that changes, so that a machine that speeds up or slows down does so for all of them.
//!
//! The names of a map say its hasher: `default` is what the type takes when one names none, `sip` is std's `RandomState`,
//! `fold` ours.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, RwLock};
use std::time::Instant;

use holdup_locks::technique::{DefaultLock, FoldState, Gated, LockTable, ShardedCounter, TableMap, mix};

const THREADS: usize = 2;
const KEYS: u64 = 100_000;
const MAP_OPERATIONS: u64 = 400_000;
const SIMPLE_OPERATIONS: u64 = 1_000_000;

fn main() {
    // `cargo bench` passes `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(15);
    let filter = words.iter().find(|word| word.parse::<usize>().is_err()).map_or("", String::as_str);
    for percent in [50, 10] {
        block(&format!("maps, {percent}% updates"), maps(percent), rounds, filter);
    }
    block("counter", counters(), rounds, filter);
    block("lock table", tables(), rounds, filter);
    block("gated, 8 threads", gates(), rounds, filter);
}

/// One run of a candidate: seconds.
type Run = Box<dyn Fn(u64) -> f64>;

struct Candidate {
    name: &'static str,
    run: Run,
}

fn candidate(name: &'static str, run: impl Fn(u64) -> f64 + 'static) -> Candidate {
    Candidate { name, run: Box::new(run) }
}

/// Runs all candidates `rounds` times and prints each one's ratio to the first.
fn block(title: &str, candidates: Vec<Candidate>, rounds: usize, filter: &str) {
    if !title.contains(filter) {
        return;
    }
    let mut seconds = vec![Vec::new(); candidates.len()];
    for round in 0..rounds {
        for step in 0..candidates.len() {
            let index = (step + round) % candidates.len();
            seconds[index].push((candidates[index].run)(round as u64));
        }
    }
    println!("\n{title}: speed-up over the first (median, quartiles of {rounds} paired runs)");
    for (candidate, own) in candidates.iter().zip(&seconds) {
        let mut ratios: Vec<f64> = seconds[0].iter().zip(own).map(|(base, own)| base / own).collect();
        ratios.sort_by(f64::total_cmp);
        let at = |share: f64| ratios[((ratios.len() - 1) as f64 * share).round() as usize];
        println!("  {:<28} {:>6.2}  [{:.2} to {:.2}]", candidate.name, at(0.5), at(0.25), at(0.75));
    }
}

/// Runs `body(thread, seed)` on `threads` threads and returns the seconds from the common start to the last end.
fn timed(threads: usize, seed: u64, body: impl Fn(usize, u64) + Sync) -> f64 {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, body) = (&barrier, &body);
                scope.spawn(move || {
                    barrier.wait();
                    let start = Instant::now();
                    body(thread, mix(seed * 64 + thread as u64 + 1));
                    (start, Instant::now())
                })
            })
            .collect();
        barrier.wait();
        let spans: Vec<_> =
            handles.into_iter().map(|handle| handle.join().expect("a body panicked")).collect();
        let first = spans.iter().map(|span| span.0).min().expect("there are threads");
        let last = spans.iter().map(|span| span.1).max().expect("there are threads");
        (last - first).as_secs_f64()
    })
}

struct Random(u64);

impl Random {
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

/// What a map must do here; each peer in its own best words.
trait Map: Sync + 'static {
    fn put(&self, key: u64, value: u64);
    fn read(&self, key: u64) -> u64;
    fn bump(&self, key: u64);
}

fn map(name: &'static str, percent: u64, map: impl Map) -> Candidate {
    for key in 0..KEYS {
        map.put(mix(key), 0);
    }
    candidate(name, move |seed| {
        timed(THREADS, seed, |_, seed| {
            let mut random = Random(seed);
            for _ in 0..MAP_OPERATIONS {
                let key = mix(random.below(KEYS));
                if random.below(100) < percent {
                    map.bump(key);
                } else {
                    black_box(map.read(key));
                }
            }
        })
    })
}

fn maps(percent: u64) -> Vec<Candidate> {
    let fold = FoldState::default;
    vec![
        map("Mutex<HashMap> default", percent, Mutex::new(HashMap::<u64, u64>::new())),
        map("RwLock<HashMap> default", percent, RwLock::new(HashMap::<u64, u64>::new())),
        map("dashmap default", percent, dashmap::DashMap::<u64, u64>::new()),
        map("scc default", percent, scc::HashMap::<u64, u64>::new()),
        map("papaya default", percent, papaya::HashMap::<u64, u64>::new()),
        map("TableMap default", percent, TableMap::<u64, u64>::new()),
        map("TableMap sip", percent, TableMap::<u64, u64, RandomState>::default()),
        map("Mutex<HashMap> fold", percent, Mutex::new(HashMap::with_hasher(fold()))),
        map("dashmap fold", percent, dashmap::DashMap::with_hasher(fold())),
        map("scc fold", percent, scc::HashMap::with_hasher(fold())),
        map("papaya fold", percent, papaya::HashMap::with_hasher(fold())),
    ]
}

impl<S: BuildHasher + Send + Sync + 'static> Map for TableMap<u64, u64, S> {
    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        self.get(&key).expect("the key was put")
    }
    fn bump(&self, key: u64) {
        self.update(&key, |value| *value += 1).expect("the key was put");
    }
}

impl<S: BuildHasher + Send + 'static> Map for Mutex<HashMap<u64, u64, S>> {
    fn put(&self, key: u64, value: u64) {
        self.lock().expect("not poisoned").insert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        self.lock().expect("not poisoned")[&key]
    }
    fn bump(&self, key: u64) {
        *self.lock().expect("not poisoned").get_mut(&key).expect("the key was put") += 1;
    }
}

impl Map for RwLock<HashMap<u64, u64>> {
    fn put(&self, key: u64, value: u64) {
        self.write().expect("not poisoned").insert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        self.read().expect("not poisoned")[&key]
    }
    fn bump(&self, key: u64) {
        *self.write().expect("not poisoned").get_mut(&key).expect("the key was put") += 1;
    }
}

impl<S: BuildHasher + Clone + Send + Sync + 'static> Map for dashmap::DashMap<u64, u64, S> {
    fn put(&self, key: u64, value: u64) {
        self.insert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        *self.get(&key).expect("the key was put")
    }
    fn bump(&self, key: u64) {
        *self.get_mut(&key).expect("the key was put") += 1;
    }
}

impl<S: BuildHasher + Send + Sync + 'static> Map for scc::HashMap<u64, u64, S> {
    fn put(&self, key: u64, value: u64) {
        self.upsert_sync(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        self.read_sync(&key, |_, value| *value).expect("the key was put")
    }
    fn bump(&self, key: u64) {
        self.update_sync(&key, |_, value| *value += 1).expect("the key was put");
    }
}

impl<S: BuildHasher + Send + Sync + 'static> Map for papaya::HashMap<u64, u64, S> {
    fn put(&self, key: u64, value: u64) {
        self.pin().insert(key, value);
    }
    fn read(&self, key: u64) -> u64 {
        *self.pin().get(&key).expect("the key was put")
    }
    fn bump(&self, key: u64) {
        self.pin().update(key, |value| value + 1).expect("the key was put");
    }
}

fn counters() -> Vec<Candidate> {
    static ONE: AtomicU64 = AtomicU64::new(0);
    static SHARDED: ShardedCounter = ShardedCounter::new();
    let each =
        |add: fn()| move |seed| timed(THREADS, seed, |_, _| (0..SIMPLE_OPERATIONS).for_each(|_| add()));
    vec![
        candidate("one AtomicU64", each(|| _ = black_box(ONE.fetch_add(1, Ordering::Relaxed)))),
        candidate("ShardedCounter", each(|| SHARDED.add(1))),
    ]
}

fn tables() -> Vec<Candidate> {
    vec![
        candidate("one lock", table_run::<1>()),
        candidate("LockTable of 16", table_run::<16>()),
        candidate("LockTable of 256", table_run::<256>()),
    ]
}

/// Random objects, each incremented under its key's lock.
fn table_run<const N: usize>() -> impl Fn(u64) -> f64 {
    let table: LockTable<DefaultLock, N> = LockTable::new();
    let objects: Vec<AtomicU64> = (0..10_000).map(AtomicU64::new).collect();
    move |seed| {
        timed(THREADS, seed, |_, seed| {
            let mut random = Random(seed);
            for _ in 0..SIMPLE_OPERATIONS {
                let object = &objects[random.below(objects.len() as u64) as usize];
                let _guard = table.lock(holdup_locks::technique::key_of(object));
                object.store(object.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
            }
        })
    }
}

fn gates() -> Vec<Candidate> {
    vec![
        candidate("std Mutex", lock_run(Mutex::new(0u64), |lock| *lock.lock().expect("not poisoned") += 1)),
        candidate("DefaultLock", lock_run(raw::<DefaultLock>(), |lock| *lock.lock() += 1)),
        candidate("Gated<DefaultLock>", lock_run(raw::<Gated<DefaultLock>>(), |lock| *lock.lock() += 1)),
        candidate("Gated, 2 active", lock_run(raw::<Gated<DefaultLock, 2>>(), |lock| *lock.lock() += 1)),
        candidate(
            "Gated, turn 1024",
            lock_run(raw::<Gated<DefaultLock, 1, 1024>>(), |lock| *lock.lock() += 1),
        ),
    ]
}

fn raw<L: lock_api::RawMutex>() -> lock_api::Mutex<L, u64> {
    lock_api::Mutex::new(0)
}

fn lock_run<T: Sync + 'static>(lock: T, bump: fn(&T)) -> impl Fn(u64) -> f64 {
    move |seed| {
        timed(8, seed, |_, _| {
            for _ in 0..SIMPLE_OPERATIONS / 8 {
                bump(&lock);
            }
        })
    }
}
