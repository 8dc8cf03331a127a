//! Thirty-two threads, a short section, and a gate that lets two of them be active (Hart, 1998).
//!
//! `cargo run -p holdup-locks --example gate`

use holdup_locks::technique::{Gate, Gated};
use holdup_locks::{Mutex, TicketSpin};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Per batch of work: a thread sleeps at the gate, not in the lock.
static GATE: Gate = Gate::new(2);
/// Per acquisition: at most two threads spin for the lock, the others sleep. A lock in strict order would collapse here
/// without.
static STOCK: Mutex<Gated<TicketSpin, 2>, u64> = Mutex::new(0);

static INSIDE: AtomicUsize = AtomicUsize::new(0);

fn batch() -> usize {
    let _pass = GATE.enter();
    let inside = INSIDE.fetch_add(1, Ordering::Relaxed) + 1;
    for _ in 0..100 {
        *STOCK.lock() += 1;
    }
    INSIDE.fetch_sub(1, Ordering::Relaxed);
    inside
}

fn main() {
    let most = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..32).map(|_| scope.spawn(batch)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a batch does not panic")).max()
    });
    let most = most.expect("there were threads");
    println!("{} taken by 32 threads, at most {most} of them inside at a time", *STOCK.lock());
    assert_eq!(*STOCK.lock(), 3_200);
    assert!(most <= 2, "the gate's promise");
    assert_eq!(GATE.present(), 0);

    // The limit may change while the program runs.
    GATE.set_limit(1);
    let only = GATE.enter();
    assert!(GATE.try_enter().is_none());
    drop(only);
}

#[test]
fn runs() {
    main();
}
