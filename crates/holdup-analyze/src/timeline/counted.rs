//! How often, where threads were only looked at: by what the kernel counted.
//!
//! Looks find how a thread's time divides, but not how often it left a CPU: between two of them, it may have done so a
//! hundred times. The kernel counts exactly how often, by itself or not, though not why. So the numbers that looks give
//! for each reason are raised in proportion until they add up to the kernel's.

use crate::Histogram;
use crate::facts::{OffTime, Reason, ThreadFacts};

/// Fewer switches that looks saw between the two readings tell nothing of a proportion.
const LEAST_SEEN: u64 = 8;

/// A damaged file may say anything: nobody switches more often, and sums of so many do not overflow.
const MOST: f64 = 1e12;

/// Readings that cover half of a life tell of all of it.
const MOST_LEFT: f64 = 2.0;

/// Raises the numbers of a thread. `seen`: the switches that looks saw up to the kernel's first and last reading;
/// `readings_ns`: the time between these two.
pub(super) fn correct(thread: &mut ThreadFacts, seen: (u64, u64), readings_ns: u64) {
    let Some((first, last)) = thread.usage else { return };
    let seen = seen.1.saturating_sub(seen.0);
    let voluntary = last.voluntary.saturating_sub(first.voluntary);
    let involuntary = last.involuntary.saturating_sub(first.involuntary);
    let counted = voluntary.saturating_add(involuntary);
    if seen < LEAST_SEEN || counted <= seen {
        return;
    }
    // The readings do not cover the whole life. If they cover most of it, the rest is like it.
    let by_time = thread.life_ns() as f64 / readings_ns.max(1) as f64;
    let by_looks = (thread.voluntary + thread.involuntary) as f64 / seen as f64;
    let is_most = readings_ns > 0 && by_time <= MOST_LEFT;
    let whole = counted as f64 * if is_most { by_time.max(1.0) } else { by_looks };
    let of_kind = |part: u64| (whole * part as f64 / counted as f64).round().min(MOST);
    let kinds = [(of_kind(voluntary), &mut thread.voluntary), (of_kind(involuntary), &mut thread.involuntary)];
    let [by_itself, not] = kinds.map(|(estimate, seen)| {
        let factor = if *seen == 0 { 1.0 } else { (estimate / *seen as f64).max(1.0) };
        *seen = (*seen).max(estimate as u64);
        factor
    });
    let is_taken = |reason: &Reason| matches!(reason, Reason::Preempted | Reason::Displaced | Reason::Yielded);
    for (reason, OffTime { count, .. }) in &mut thread.off {
        *count = (*count as f64 * if is_taken(reason) { not } else { by_itself }).round().min(MOST) as u64;
    }
    let runs = thread.voluntary + thread.involuntary;
    thread.run_ns = Histogram::alike(thread.on_cpu_ns / runs.max(1), runs);
}

#[cfg(test)]
mod tests {
    use holdup_trace::ThreadUsage;

    use super::*;

    fn thread(counted: (u64, u64), seen: (u64, u64)) -> ThreadFacts {
        let usage = |voluntary, involuntary| ThreadUsage { voluntary, involuntary, ..ThreadUsage::default() };
        let off = [(Reason::Sleep, seen.0), (Reason::Preempted, seen.1)];
        ThreadFacts {
            usage: Some((usage(7, 7), usage(counted.0 + 7, counted.1 + 7))),
            voluntary: seen.0,
            involuntary: seen.1,
            on_cpu_ns: 1_000_000,
            off: off.map(|(reason, count)| (reason, OffTime { count, ns: 5 })).into_iter().collect(),
            ..ThreadFacts::default()
        }
    }

    #[test]
    fn numbers_are_raised_to_what_the_kernel_counted() {
        let mut polls = thread((9_000, 1_000), (90, 10));
        correct(&mut polls, (0, 100), 0);
        assert_eq!((polls.voluntary, polls.involuntary, polls.run_ns.median_ns()), (9_000, 1_000, 100));
        assert_eq!(polls.off[&Reason::Sleep], OffTime { count: 9_000, ns: 5 });
        assert_eq!(polls.off[&Reason::Preempted].count, 1_000);
    }

    #[test]
    fn readings_of_a_part_of_a_life_stand_for_all_of_it() {
        let mut polls = thread((4_500, 500), (90, 10));
        correct(&mut polls, (25, 75), 0);
        assert_eq!((polls.voluntary, polls.involuntary), (9_000, 1_000));
    }

    #[test]
    fn two_that_switch_equally_often_are_told_so_whatever_looks_saw_of_it() {
        let of_seen = |seen| {
            let mut one = thread((9_000, 1_000), (seen, 10));
            one.ended_ns = 1_100;
            correct(&mut one, (0, seen), 1_000);
            one.voluntary
        };
        assert_eq!((of_seen(60), of_seen(90)), (9_900, 9_900));
    }

    #[test]
    fn a_few_looks_tell_nothing() {
        let mut rare = thread((9_000, 0), (5, 0));
        correct(&mut rare, (0, 5), 0);
        assert_eq!(rare.voluntary, 5);
    }
}
