//! What hardware counters say of a core, a socket, or all: how much of its time turns into instructions, and what of
//! the rest caches cost.
//!
//! The figures are those that Intel's Performance Counter Monitor prints, by the same formulas; a figure whose counters
//! the machine does not have is `None`.

use std::collections::BTreeMap;

use holdup_trace::Counter;
use schemars::JsonSchema;
use serde::Serialize;

/// Cycles that a reference to the second-level cache costs which the third-level one answers, about.
const L3_HIT_CYCLES: f64 = 35.0;
/// Cycles that a reference costs which memory answers, about.
const L3_MISS_CYCLES: f64 = 180.0;

/// The figures of some counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Efficiency {
    /// Instructions per cycle that the CPU would have had at its nominal frequency, asleep or not.
    pub instructions_per_nominal_cycle: Option<f64>,
    /// Instructions per cycle.
    pub instructions_per_cycle: Option<f64>,
    /// Cycles per nominal one: 1 is a CPU that is never asleep, at its nominal frequency.
    pub frequency: Option<f64>,
    /// The same, of the time in which it is not asleep.
    pub active_frequency: Option<f64>,
    /// References to the second-level cache that missed.
    pub l2_misses: Option<u64>,
    /// References to the third-level cache that missed.
    pub l3_misses: Option<u64>,
    /// References to the second-level cache that hit, as a share of all.
    pub l2_hit_ratio: Option<f64>,
    /// The same of the third-level cache.
    pub l3_hit_ratio: Option<f64>,
    /// Cycles that were lost to references which the third-level cache answered, as a share of all: an estimate.
    pub lost_to_l2_misses: Option<f64>,
    /// Cycles that were lost to references which memory answered, as a share of all: an estimate.
    pub lost_to_l3_misses: Option<f64>,
}

impl Efficiency {
    /// Of these counters, one core's or sums over several.
    pub fn of(counters: &BTreeMap<Counter, u64>) -> Efficiency {
        let count = |counter| counters.get(&counter).map(|value| *value as f64);
        let per = |a: Option<f64>, b: Option<f64>| Some(a? / b.filter(|b| *b > 0.0)?);
        let cycles = count(Counter::Cycles);
        let instructions = count(Counter::Instructions);
        let nominal = count(Counter::NominalCycles);
        let (l2_misses, l3_misses) = (count(Counter::L2Misses), count(Counter::L3Misses));
        let hits = |all, misses| Some((1.0 - per(misses, all)?).max(0.0));
        let lost = |misses: Option<f64>, price: f64| Some((per(misses, cycles)? * price).min(1.0));
        let answered_by_l3 = l2_misses.zip(l3_misses).map(|(l2, l3)| (l2 - l3).max(0.0));
        Efficiency {
            instructions_per_nominal_cycle: per(instructions, nominal),
            instructions_per_cycle: per(instructions, cycles),
            frequency: per(cycles, nominal),
            active_frequency: per(cycles, count(Counter::ReferenceCycles)),
            l2_misses: counters.get(&Counter::L2Misses).copied(),
            l3_misses: counters.get(&Counter::L3Misses).copied(),
            l2_hit_ratio: hits(count(Counter::L2References), l2_misses),
            l3_hit_ratio: hits(count(Counter::L3References), l3_misses),
            lost_to_l2_misses: lost(answered_by_l3, L3_HIT_CYCLES),
            lost_to_l3_misses: lost(l3_misses, L3_MISS_CYCLES),
        }
    }

    /// Whether there is any figure.
    pub fn is_known(&self) -> bool {
        *self != Efficiency::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_quotients_of_counters() {
        let counters = BTreeMap::from([
            (Counter::Cycles, 2_000),
            (Counter::Instructions, 1_000),
            (Counter::ReferenceCycles, 1_600),
            (Counter::NominalCycles, 4_000),
            (Counter::L2References, 40),
            (Counter::L2Misses, 10),
            (Counter::L3References, 10),
            (Counter::L3Misses, 2),
        ]);
        let of = Efficiency::of(&counters);
        assert_eq!(of.instructions_per_nominal_cycle, Some(0.25));
        assert_eq!(of.instructions_per_cycle, Some(0.5));
        assert_eq!((of.frequency, of.active_frequency), (Some(0.5), Some(1.25)));
        assert_eq!((of.l2_misses, of.l3_misses), (Some(10), Some(2)));
        assert_eq!((of.l2_hit_ratio, of.l3_hit_ratio), (Some(0.75), Some(0.8)));
        assert_eq!((of.lost_to_l2_misses, of.lost_to_l3_misses), (Some(0.14), Some(0.18)));
    }

    #[test]
    fn what_was_not_counted_has_no_figure() {
        let of = Efficiency::of(&BTreeMap::from([(Counter::Cycles, 0), (Counter::Instructions, 5)]));
        assert_eq!(of, Efficiency::default());
        assert!(!of.is_known());
    }
}
