//! The techniques beside their peers: ratios of paired, interleaved runs.
//!
//! `cargo bench -p holdup-locks --bench techniques [-- [ROUNDS] [FILTER]]` prints, per technique, how many times as
//! fast as the baseline each candidate was: the median of the rounds' own ratios with its 95% interval (by order
//! statistics: no assumption about their distribution). All candidates of a block run once per round, in an order that
//! changes, so that a machine that speeds up or slows down does so for all of them.
//!
//! Two threads run on a processor each (on Linux; left alone they would share one for the first milliseconds), and a
//! run counts only if neither had to wait for its processor for more than 15% of the time (Linux says so in
//! /proc/thread-self/schedstat; elsewhere every run counts): on a machine that is busy with other work the two would
//! take turns, and a lock that nobody contends is no test. The table says how many pairs were left. Where more threads
//! run than there are processors, waiting is part of the matter and every run counts.
//!
//! The names of a map say its hasher: `default` is what the type takes when one names none, `sip` is std's
//! `RandomState`, `fold` ours.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, Mutex, RwLock};
use std::time::Instant;

use holdup_locks::technique::{Chunks, DefaultLock, FoldState, Gate, Gated, LockTable, ShardedCounter, TableMap, mix};
use holdup_locks::{Adaptive, Futex, TicketSpin, Ttas};

const THREADS: usize = 2;
const KEYS: u64 = 100_000;
const MAP_OPERATIONS: u64 = 100_000;
const SIMPLE_OPERATIONS: u64 = 200_000;
/// Indices of a loop that threads share.
const LOOP: u64 = 400_000;

fn main() {
    // `cargo bench` passes `--bench`.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(51);
    let filter = words.iter().find(|word| word.parse::<usize>().is_err()).map_or("", String::as_str);
    let blocks = [
        ("maps, 50% updates", maps(50), MAP_OPERATIONS * THREADS as u64),
        ("maps, 10% updates", maps(10), MAP_OPERATIONS * THREADS as u64),
        ("one thread", one_thread(), SIMPLE_OPERATIONS),
        ("counter", counters(), SIMPLE_OPERATIONS * THREADS as u64),
        ("loop, 2 threads", loops(THREADS), LOOP),
        ("loop, 8 threads", loops(8), LOOP),
        ("lock table", tables(), SIMPLE_OPERATIONS * THREADS as u64),
        ("gated, 8 threads", gates(), SIMPLE_OPERATIONS / 16 * 8),
    ];
    for (title, candidates, operations) in blocks {
        if title.contains(filter) {
            block(title, candidates, rounds, operations);
        }
    }
}

/// What one run of a candidate took, and whether it had its processors to itself.
struct Sample {
    seconds: f64,
    counts: bool,
}

type Run = Box<dyn Fn(u64) -> Sample>;

struct Candidate {
    name: &'static str,
    run: Run,
}

fn candidate(name: &'static str, run: impl Fn(u64) -> Sample + 'static) -> Candidate {
    Candidate { name, run: Box::new(run) }
}

/// Runs all candidates `rounds` times, `operations` each time, and prints each one's ratio to the first.
fn block(title: &str, candidates: Vec<Candidate>, rounds: usize, operations: u64) {
    // By candidate and round; None where the machine was busy.
    let mut seconds = vec![Vec::new(); candidates.len()];
    let mut turns = (0..candidates.len()).collect::<Vec<_>>();
    for round in 0..rounds {
        for &turn in &turns {
            let sample = (candidates[turn].run)(round as u64);
            seconds[turn].push(sample.counts.then_some(sample.seconds));
        }
        turns.rotate_left(1);
    }
    println!("\n{title}: speed-up over the first");
    println!("  {:<28} {:>7}  {:<14} {:>8} {:>8}", "", "median", "95% interval", "ns/op", "pairs");
    for (candidate, own) in candidates.iter().zip(&seconds) {
        print_row(candidate.name, &seconds[0], own, operations);
    }
}

fn print_row(name: &str, base: &[Option<f64>], own: &[Option<f64>], operations: u64) {
    let pairs = base.iter().zip(own);
    let ratios = sorted(pairs.filter_map(|(base, own)| Some((*base)? / (*own)?)).collect());
    let runs = format!("{}/{}", ratios.len(), own.len());
    if ratios.is_empty() {
        println!("  {name:<28} {:>7}  {:<14} {:>8} {runs:>8}", "n/a", "machine busy", "");
        return;
    }
    let ns = median(&sorted(own.iter().flatten().copied().collect())) * 1e9 / operations as f64;
    let interval = interval(&ratios).map_or("too few pairs".to_owned(), |(low, high)| format!("[{low:.2}-{high:.2}]"));
    println!("  {name:<28} {:>7.2}  {interval:<14} {ns:>8.1} {runs:>8}", median(&ratios));
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

/// The 95% interval of the median: the k-th smallest and k-th largest value, with the largest k for which a fair coin
/// shows fewer than k heads in at most 2.5% of as many throws.
fn interval(sorted: &[f64]) -> Option<(f64, f64)> {
    let n = sorted.len();
    let (mut probability, mut below, mut k) = (0.5_f64.powi(n as i32), 0.0, 0);
    while below + probability <= 0.025 {
        below += probability;
        probability *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    (k > 0).then(|| (sorted[k - 1], sorted[n - k]))
}

/// Nanoseconds that this thread was ready to run and had no processor, where the system tells.
fn waited_ns() -> u64 {
    let line = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// Keeps this thread on the `index`-th of the CPUs that it may use, if there are so many.
#[cfg(target_os = "linux")]
fn stay_on_cpu(index: usize) {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if let Some(cpu) = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).nth(index) {
        let mut one = CpuSet::new();
        one.set(cpu);
        // A refusal only leaves more runs that do not count.
        let _ = sched_setaffinity(None, &one);
    }
}

#[cfg(not(target_os = "linux"))]
fn stay_on_cpu(_index: usize) {}

/// Runs `body(thread, seed)` on `threads` threads and measures from the common start to the last end.
fn timed(threads: usize, seed: u64, body: impl Fn(usize, u64) + Sync) -> Sample {
    let barrier = Barrier::new(threads + 1);
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let (barrier, body) = (&barrier, &body);
                scope.spawn(move || {
                    if threads <= THREADS {
                        stay_on_cpu(thread);
                    }
                    barrier.wait();
                    let (waited, start) = (waited_ns(), Instant::now());
                    body(thread, mix(seed * 64 + thread as u64 + 1));
                    (start, Instant::now(), waited_ns() - waited)
                })
            })
            .collect();
        barrier.wait();
        let spans: Vec<_> = handles.into_iter().map(|handle| handle.join().expect("a body panicked")).collect();
        let first = spans.iter().map(|span| span.0).min().expect("there are threads");
        let last = spans.iter().map(|span| span.1).max().expect("there are threads");
        let seconds = (last - first).as_secs_f64();
        let waited = spans.iter().map(|span| span.2).max().expect("there are threads") as f64 * 1e-9;
        Sample { seconds, counts: threads > THREADS || waited < 0.15 * seconds }
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

/// What each technique costs where nobody else is.
fn one_thread() -> Vec<Candidate> {
    let std = Mutex::new(0u64);
    let adaptive = lock_api::Mutex::<Adaptive, u64>::new(0);
    let gated = lock_api::Mutex::<Gated<Adaptive>, u64>::new(0);
    let table: LockTable<Adaptive> = LockTable::new();
    let gate = Gate::new(2);
    let counter: ShardedCounter = ShardedCounter::new();
    let chunks = || Chunks::fixed(0..SIMPLE_OPERATIONS, 1);
    vec![
        alone("std Mutex", move |_| *std.lock().expect("not poisoned") += 1),
        alone("Adaptive", move |_| *adaptive.lock() += 1),
        alone("LockTable<Adaptive>", move |key| drop(table.lock(key))),
        alone("Gated<Adaptive>", move |_| *gated.lock() += 1),
        alone("Gate", move |_| drop(gate.enter())),
        alone("ShardedCounter", move |_| counter.add(1)),
        candidate("Chunks, one index each", move |seed| {
            let chunks = chunks();
            timed(1, seed, |_, _| chunks.iter().for_each(|chunk| _ = black_box(chunk)))
        }),
    ]
}

fn alone(name: &'static str, work: impl Fn(u64) + Sync + 'static) -> Candidate {
    candidate(name, move |seed| timed(1, seed, |_, _| (0..SIMPLE_OPERATIONS).for_each(&work)))
}

fn counters() -> Vec<Candidate> {
    static ONE: AtomicU64 = AtomicU64::new(0);
    static SHARDED: ShardedCounter = ShardedCounter::new();
    let each = |add: fn()| move |seed| timed(THREADS, seed, |_, _| (0..SIMPLE_OPERATIONS).for_each(|_| add()));
    vec![
        candidate("one AtomicU64", each(|| _ = black_box(ONE.fetch_add(1, Ordering::Relaxed)))),
        candidate("ShardedCounter", each(|| SHARDED.add(1))),
    ]
}

/// Threads that share a loop's indices, whose bodies take a few nanoseconds.
fn loops(threads: usize) -> Vec<Candidate> {
    let shared = move |chunks: fn(usize) -> Chunks| {
        move |seed| {
            let chunks = chunks(threads);
            timed(threads, seed, |_, _| chunks.indices().for_each(body))
        }
    };
    vec![
        candidate("one fetch-add per index", move |seed| {
            let next = AtomicU64::new(0);
            timed(threads, seed, |_, _| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= LOOP {
                        break;
                    }
                    body(index);
                }
            })
        }),
        candidate("Chunks of 1", shared(|_| Chunks::fixed(0..LOOP, 1))),
        candidate("Chunks of 64", shared(|_| Chunks::fixed(0..LOOP, 64))),
        candidate("Chunks of 4096", shared(|_| Chunks::fixed(0..LOOP, 4096))),
        candidate("Chunks, guided", shared(|threads| Chunks::guided(0..LOOP, threads, 64))),
        candidate("an equal share each", move |seed| {
            timed(threads, seed, |thread, _| {
                let (thread, threads) = (thread as u64, threads as u64);
                (LOOP * thread / threads..LOOP * (thread + 1) / threads).for_each(body);
            })
        }),
    ]
}

/// A loop's body: a few dependent multiplications.
fn body(index: u64) {
    black_box(mix(mix(mix(index))));
}

fn tables() -> Vec<Candidate> {
    vec![
        candidate("one lock", table_run::<1>()),
        candidate("LockTable of 16", table_run::<16>()),
        candidate("LockTable of 256", table_run::<256>()),
    ]
}

/// Random objects, each incremented under its key's lock.
fn table_run<const N: usize>() -> impl Fn(u64) -> Sample {
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

/// Plain `TicketSpin` is missing: with more threads than processors it takes minutes.
fn gates() -> Vec<Candidate> {
    vec![
        candidate("std Mutex", lock_run(Mutex::new(0u64), |lock| *lock.lock().expect("not poisoned") += 1)),
        raw_lock::<Adaptive>("Adaptive"),
        raw_lock::<Gated<Adaptive>>("Gated<Adaptive>"),
        raw_lock::<Gated<Adaptive, 1, 256>>("Gated<Adaptive>, turn 256"),
        raw_lock::<Futex>("Futex"),
        raw_lock::<Gated<Futex>>("Gated<Futex>"),
        raw_lock::<Gated<Futex, 2>>("Gated<Futex>, 2 active"),
        raw_lock::<Ttas>("Ttas"),
        raw_lock::<Gated<Ttas>>("Gated<Ttas>"),
        raw_lock::<Gated<TicketSpin>>("Gated<TicketSpin>"),
    ]
}

fn raw_lock<L: lock_api::RawMutex + Send + Sync + 'static>(name: &'static str) -> Candidate {
    candidate(name, lock_run(lock_api::Mutex::<L, u64>::new(0), |lock| *lock.lock() += 1))
}

fn lock_run<T: Sync + 'static>(lock: T, bump: fn(&T)) -> impl Fn(u64) -> Sample {
    move |seed| {
        timed(8, seed, |_, _| {
            for _ in 0..SIMPLE_OPERATIONS / 16 {
                bump(&lock);
            }
        })
    }
}
