//! Everything here is made by a constant, so it can be a `static`: no lazy initialisation, no allocation, no order of
//! start-up.
//!
//! `cargo run -p holdup-locks --example statics`

use holdup_locks::technique::{DefaultLock, FoldState, Gate, LockTable, ShardedCounter, TableMap};
use holdup_locks::{Adaptive, Fair, Mutex, Recursive, ReentrantMutex, Ttas};
use std::cell::Cell;

static CONFIG: Mutex<Adaptive, Vec<&str>> = Mutex::new(Vec::new());
static TURNS: Mutex<Fair, u32> = Mutex::new(0);
static FLAG: Mutex<Ttas, bool> = Mutex::new(false);
static SLEEPS_AT_ONCE: Mutex<Adaptive, u32> = Mutex::from_raw(Adaptive::with_spin(0), 0);
static DEPTH: ReentrantMutex<Adaptive, Cell<u32>> = ReentrantMutex::new(Cell::new(0));
static TREE: Recursive<Adaptive> = Recursive::INIT;
static TABLE: LockTable<DefaultLock, 64> = LockTable::new();
static SESSIONS: TableMap<u64, &str> = TableMap::with_hasher(FoldState::with_seed(7));
static GATE: Gate = Gate::new(4);
static SERVED: ShardedCounter = ShardedCounter::new();

fn work(id: u64) {
    let _pass = GATE.enter();
    let _object = TABLE.lock(id);
    let _tree = TREE.enter();
    let _again = TREE.enter();
    SESSIONS.insert(id, "open");
    *TURNS.lock() += 1;
    *SLEEPS_AT_ONCE.lock() += 1;
    SERVED.add(1);
}

fn main() {
    CONFIG.lock().push("verbose");
    *FLAG.lock() = true;
    std::thread::scope(|scope| {
        for id in 0..16 {
            scope.spawn(move || work(id));
        }
    });
    let outer = DEPTH.lock();
    DEPTH.lock().set(outer.get() + 1);
    println!("{} served, {} sessions, config {:?}", SERVED.sum(), SESSIONS.len(), CONFIG.lock());
    assert_eq!((SERVED.sum(), SESSIONS.len(), *TURNS.lock(), *SLEEPS_AT_ONCE.lock()), (16, 16, 16, 16));
    assert_eq!((outer.get(), *FLAG.lock(), TREE.is_locked()), (1, true, false));
}

#[test]
fn runs() {
    main();
}
