//! How some figures went over the last minute, for sparklines.

use std::collections::VecDeque;

use holdup_analyze::{AccountState, Facts};

/// The figures of one look.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Point {
    /// CPUs that were busy with the program.
    pub cpus: f64,
    /// Part of the threads' time that they waited for locks, 0 to 1.
    pub locks: f64,
    /// Switches per second.
    pub switches: f64,
}

/// Points of the last minute, oldest first.
#[derive(Clone, Debug)]
pub struct History {
    points: VecDeque<Point>,
    most: usize,
}

impl History {
    /// Of a minute, with a look after each interval of so many seconds.
    pub fn new(interval_s: f64) -> History {
        let most = (60.0 / interval_s.max(0.1)).ceil().clamp(2.0, 600.0) as usize;
        History { points: VecDeque::new(), most }
    }

    /// Adds what a look shows.
    pub fn add(&mut self, facts: &Facts) {
        let span_ns = facts.span_ns().max(1) as f64;
        self.points.push_back(Point {
            cpus: facts.totals.on_cpu_ns as f64 / span_ns,
            locks: facts.account.share(AccountState::Lock),
            switches: facts.totals.switches as f64 * 1e9 / span_ns,
        });
        if self.points.len() > self.most {
            self.points.pop_front();
        }
    }

    /// The last so many values of a figure as levels from 0 to `top`, and the largest of the minute.
    pub fn levels(&self, columns: usize, top: u64, figure: impl Fn(&Point) -> f64) -> (Vec<u64>, f64) {
        let most = self.points.iter().map(&figure).fold(0.0, f64::max);
        let level = |value: f64| if most > 0.0 { (value / most * top as f64).ceil() as u64 } else { 0 };
        let shown = self.points.iter().skip(self.points.len().saturating_sub(columns));
        (shown.map(|point| level(figure(point))).collect(), most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_minute_is_kept_and_levels_are_parts_of_its_most() {
        let mut history = History::new(20.0);
        for on_cpu_ns in [1, 8, 2, 4] {
            let mut facts = Facts { start_ns: 0, end_ns: 4, ..Facts::default() };
            facts.totals.on_cpu_ns = on_cpu_ns;
            history.add(&facts);
        }
        assert_eq!(history.levels(9, 8, |point| point.cpus), (vec![8, 2, 4], 2.0));
        assert_eq!(history.levels(2, 8, |point| point.cpus).0, [2, 4]);
        assert_eq!(history.levels(9, 8, |point| point.locks), (vec![0, 0, 0], 0.0));
    }
}
