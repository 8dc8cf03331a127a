//! A parallel loop over a million numbers: threads claim chunks, large ones first, and count without meeting.
//!
//! `cargo run -p holdup-locks --example sum`

use holdup_locks::technique::{Chunks, ShardedCounter};

const END: u64 = 1_000_000;

/// Adds up the multiples of 3 or 5 below `END` with `threads` threads; returns the sum and how many chunks were
/// claimed.
fn sum(threads: usize) -> (i64, i64) {
    let numbers = Chunks::guided(0..END, threads, 1_000);
    let total = ShardedCounter::<16>::new();
    let claims = ShardedCounter::<16>::new();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                for chunk in &numbers {
                    let part: u64 = chunk.filter(|n| n % 3 == 0 || n % 5 == 0).sum();
                    total.add(part.cast_signed());
                    claims.add(1);
                }
            });
        }
    });
    // The threads have ended: the sums are exact.
    (total.sum(), claims.sum())
}

fn main() {
    let (alone, _) = sum(1);
    let (together, claims) = sum(4);
    println!("{together}, in {claims} chunks that 4 threads claimed");
    assert_eq!((alone, together), (233_333_166_668, 233_333_166_668));
}

#[test]
fn runs() {
    main();
}
