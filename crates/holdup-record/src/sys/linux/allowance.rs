//! How much CPU time a kind of look may take: a part of a CPU, of which some may be saved up.

use std::time::Duration;

use super::machine;

/// CPU time that may be used, and how it grows.
#[derive(Debug)]
pub struct Allowance {
    /// One of so many nanoseconds that pass may be used,
    one_in: u64,
    /// and so much may be saved up.
    most_ns: i64,
    /// What may be used now; below zero if more was used.
    left_ns: i64,
    /// Up to when it has grown.
    last_ns: Option<u64>,
}

impl Allowance {
    /// Begins with all that may be saved up.
    pub fn new(one_in: u64, most: Duration) -> Allowance {
        let most_ns = most.as_nanos() as i64;
        Allowance { one_in, most_ns, left_ns: most_ns, last_ns: None }
    }

    /// Grows by what the time since the last call allows.
    pub fn earn(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.last_ns.replace(now_ns).unwrap_or(now_ns));
        let earned_ns = i64::try_from(passed_ns / self.one_in).unwrap_or(i64::MAX);
        self.left_ns = self.left_ns.saturating_add(earned_ns).min(self.most_ns);
    }

    /// So much was used.
    pub fn spend(&mut self, used_ns: u64) {
        self.left_ns = self.left_ns.saturating_sub_unsigned(used_ns);
    }

    /// Does it, and counts what it costs.
    pub fn spend_on<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let before_ns = machine::thread_cpu_ns();
        let done = work();
        self.spend(machine::thread_cpu_ns().saturating_sub(before_ns));
        done
    }

    /// Whether any may be used now.
    pub fn is_left(&self) -> bool {
        self.left_ns > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_with_time_up_to_what_may_be_saved() {
        let mut allowance = Allowance::new(100, Duration::from_nanos(50));
        allowance.earn(7_000);
        allowance.spend(50);
        assert!(!allowance.is_left(), "all that was saved is gone");
        allowance.earn(7_000 + 99);
        assert!(!allowance.is_left());
        allowance.earn(7_000 + 300);
        assert!(allowance.is_left());
        allowance.spend(10);
        assert!(!allowance.is_left(), "what was used too much is owed");
        allowance.earn(1_000_000_000);
        allowance.spend(49);
        assert!(allowance.is_left());
        allowance.spend(1);
        assert!(!allowance.is_left(), "no more is saved than that");
    }

    #[test]
    fn a_clock_that_goes_back_and_work_without_end_are_no_harm() {
        let mut allowance = Allowance::new(1, Duration::from_secs(1));
        allowance.earn(10);
        allowance.earn(5);
        allowance.spend(u64::MAX);
        allowance.spend(u64::MAX);
        assert!(!allowance.is_left());
        assert_eq!(allowance.spend_on(|| 7), 7);
        allowance.earn(u64::MAX);
        assert!(!allowance.is_left());
    }
}
