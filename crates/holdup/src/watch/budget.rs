//! What watching may cost: a share of one CPU, kept by waiting longer after what cost more.

use std::time::Duration;

/// Spends no more than a share of one CPU. Time is that since the service began, on a clock that nobody sets.
#[derive(Clone, Debug)]
pub struct Budget {
    share: f64,
    /// When all that was spent is paid for.
    free_at: Duration,
}

impl Budget {
    /// A share of one CPU, above 0.
    pub fn new(share: f64) -> Budget {
        Budget { share, free_at: Duration::ZERO }
    }

    /// Changes the share for what is spent from now on.
    pub fn set(&mut self, share: f64) {
        self.share = share;
    }

    /// So much CPU time was spent on what began then. It takes so long to pay for that the share is kept from there on:
    /// nothing is saved up for later while nothing is spent.
    pub fn spend(&mut self, began: Duration, cost: Duration) {
        const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);
        let pays = Duration::try_from_secs_f64(cost.as_secs_f64() / self.share).unwrap_or(LONGEST).min(LONGEST);
        self.free_at = self.free_at.max(began).saturating_add(pays);
    }

    /// When the next thing may begin.
    pub fn free_at(&self) -> Duration {
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn whatever_each_costs_the_share_is_kept_over_all() {
        let mut random = fastrand::Rng::with_seed(7);
        for share in [0.001, 0.005, 0.5] {
            let (mut budget, mut now, mut spent) = (Budget::new(share), Duration::ZERO, Duration::ZERO);
            for _ in 0..1000 {
                let began = now.max(budget.free_at());
                assert!(spent.as_secs_f64() <= share * began.as_secs_f64() * 1.000_001 + 1e-6, "{share}");
                let cost = random.u32(0..400) * MS;
                budget.spend(began, cost);
                spent += cost;
                now = began + random.u32(0..20_000) * MS;
            }
        }
    }

    #[test]
    fn nothing_is_saved_up_and_no_cost_is_too_large() {
        let mut budget = Budget::new(0.01);
        budget.spend(10_000_000 * MS, MS);
        assert_eq!(budget.free_at(), 10_000_100 * MS);
        budget.spend(Duration::ZERO, Duration::MAX);
        assert!(budget.free_at() > Duration::from_secs(360 * 24 * 3600));
    }
}
