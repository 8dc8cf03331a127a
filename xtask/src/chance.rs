//! Chance that can be had again: numbers that a seed decides.

use std::time::{SystemTime, UNIX_EPOCH};

/// The multiplicative generator of L'Ecuyer (1999): good enough to pick moments and elements. Its upper bits are the
/// better ones.
pub struct Chance(u64);

impl Chance {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Chance {
        Chance(seed | 1)
    }

    /// For `cargo xtask COMMAND [TIMES [SEED]]`: how often something is to happen, and when; says how to have it again.
    pub fn of_command(command: &str, args: &[String], usual_times: u64) -> Result<(u64, Chance), String> {
        let number = |index: usize| args.get(index).map(|word| word.parse::<u64>().map_err(|_| word.clone()));
        let times =
            number(0).unwrap_or(Ok(usual_times)).map_err(|word| format!("'{word}' is not a number of times"))?;
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| u64::from(time.subsec_nanos()));
        let seed = number(1).unwrap_or_else(|| Ok(clock())).map_err(|word| format!("'{word}' is not a seed"))?;
        println!("again: cargo xtask {command} {times} {seed}");
        Ok((times, Chance::new(seed)))
    }

    /// The next number, all 64 bits of it.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(3_037_000_493);
        self.0
    }

    /// The next number, below this one.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.bits() >> 33) % limit.max(1)
    }
}
