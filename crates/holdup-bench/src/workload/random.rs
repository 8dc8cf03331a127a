//! Random streams, one per thread, and the amounts of work drawn from them.

use crate::spec::work::Work;

/// A splitmix64 stream (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014).
///
/// Every thread has its own: a shared generator would be a lock of its own and hide the one under test.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of one thread; the same index always gives the same numbers.
    pub fn stream(index: u64) -> Random {
        let mut seed = Random(0x5EED_0F40_1D0B);
        for _ in 0..2 {
            seed = Random(seed.next() ^ index.wrapping_mul(0xA076_1D64_78BD_642F));
        }
        seed
    }

    /// The next 64 random bits.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an endless stream needs no Option around each number")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`, by Lemire's multiply and shift; the bias is under bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// A number above 0, up to and including 1.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        ((self.next() >> 11) + 1) as f64 / (1_u64 << 53) as f64
    }
}

/// A distribution of work in whole steps of the calibrated loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    /// No work at all.
    None,
    /// Always so many steps.
    Fixed(u64),
    /// Uniform from `low` on, `choices` values.
    Uniform {
        /// The smallest number of steps.
        low: u64,
        /// How many different numbers there are.
        choices: u64,
    },
    /// Exponential with this mean.
    Exponential(f64),
}

impl Draw {
    /// The distribution that a user's words mean when one step takes `unit_ns`.
    pub fn of(work: Work, unit_ns: f64) -> Draw {
        let steps = |amount: crate::spec::work::Amount| amount.units(unit_ns).round() as u64;
        match work {
            _ if work.is_none() => Draw::None,
            Work::Fixed(amount) => Draw::Fixed(steps(amount)),
            Work::Uniform(low, high) => {
                Draw::Uniform { low: steps(low), choices: steps(high).saturating_sub(steps(low)) + 1 }
            }
            Work::Exponential(mean) => Draw::Exponential(mean.units(unit_ns)),
        }
    }

    /// One draw.
    #[inline]
    pub fn steps(self, random: &mut Random) -> u64 {
        match self {
            Draw::None => 0,
            Draw::Fixed(steps) => steps,
            Draw::Uniform { low, choices } => low + random.below(choices),
            Draw::Exponential(mean) => (-random.unit().ln() * mean).round() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::work::Work;

    fn mean_of(text: &str) -> f64 {
        let draw = Draw::of(Work::parse(text).unwrap(), 2.0);
        let mut random = Random::stream(3);
        let draws = 200_000;
        (0..draws).map(|_| draw.steps(&mut random)).sum::<u64>() as f64 / f64::from(draws)
    }

    #[test]
    fn distributions_have_the_mean_that_their_name_says() {
        assert_eq!(mean_of("0"), 0.0);
        assert_eq!(mean_of("7units"), 7.0);
        assert_eq!(mean_of("100ns"), 50.0, "two nanoseconds a step");
        assert!((mean_of("uniform:0..100units") - 50.0).abs() < 0.5);
        assert!((mean_of("uniform:100ns..300ns") - 100.0).abs() < 0.5);
        assert!((mean_of("exp:80units") - 80.0).abs() < 1.0);
    }

    #[test]
    fn uniform_reaches_both_ends_and_nothing_beyond() {
        let draw = Draw::of(Work::parse("uniform:3units..5units").unwrap(), 1.0);
        let mut random = Random::stream(1);
        let mut seen = [0; 9];
        for _ in 0..3_000 {
            seen[draw.steps(&mut random) as usize] += 1;
        }
        assert_eq!(seen.iter().filter(|&&n| n > 0).count(), 3, "{seen:?}");
        assert!(seen[3] > 800 && seen[4] > 800 && seen[5] > 800, "{seen:?}");
    }

    #[test]
    fn streams_repeat_themselves_and_differ_from_each_other() {
        let first = |index| (0..4).scan(Random::stream(index), |r, _| Some(r.next())).collect::<Vec<_>>();
        assert_eq!(first(1), first(1));
        assert_ne!(first(1), first(2));
        assert_eq!(Random::stream(0).next(), first(0)[0], "a stream depends on nothing but its index");
    }
}
