//! Work that takes CPU time and nothing else: counted steps of a dependent chain.
//!
//! A clock poll would be wrong: a thread that was switched out must not count its absence as work.

use std::hint::black_box;
use std::time::Instant;

/// Does so many steps. Not inlined, so that the steps in every loop are the very code that [`unit_ns`] timed.
#[inline(never)]
pub fn burn(steps: u64) {
    // Exclusive-or does not distribute over the product, so no two steps can be folded into one.
    let mut chain: u64 = black_box(steps);
    for _ in 0..steps {
        chain = (chain ^ 0x9E37_79B9).wrapping_mul(0xD129_0B26_88CC_D5A3);
    }
    black_box(chain);
}

/// Nanoseconds of one step on this machine now: the fastest of several short runs, which no interruption has stretched.
pub fn unit_ns() -> f64 {
    const RUNS: u32 = 25;
    const STEPS: u64 = 20_000;
    burn(STEPS);
    (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            burn(black_box(STEPS));
            start.elapsed().as_nanos() as f64 / STEPS as f64
        })
        .fold(f64::INFINITY, f64::min)
        // A clock too coarse to see a run would make every amount of work infinite.
        .max(1e-3)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_step_takes_some_time_and_not_much() {
        let unit_ns = super::unit_ns();
        assert!((0.05..1000.0).contains(&unit_ns), "{unit_ns}");
    }
}
