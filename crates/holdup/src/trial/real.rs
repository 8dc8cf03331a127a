//! How real programs run: alone, as a server under its load, or with policies that take turns.

use std::time::{Duration, Instant};

use holdup_control::Policy;

use super::flip::Flips;
use super::remedy::Remedy;
use super::run::{Expected, Failure, Real, Runner, Sample, unwatched};
use super::{server, turns, waits};
use crate::interposer::{Control, Settings};

impl Runner for Real<'_> {
    fn run(
        &mut self,
        remedy: Option<&Remedy>,
        expected: Option<&Expected>,
        limit: Duration,
    ) -> Result<Sample, Failure> {
        let counting = self.counts.then_some(Policy::Glibc);
        let control = remedy.and_then(Remedy::policy).or(counting).map(|policy| {
            Control::create(&Settings { policy, ..Settings::default() })
                .map_err(|why| Failure::Start(format!("the locks cannot be put under it: {why}")))
        });
        let control = control.transpose()?;
        let limit = expected.map_or(limit, |expected| expected.limit);
        let began = Instant::now();
        let mut sample = match &self.subject.server {
            None => alone(self, remedy, control.as_ref(), expected, limit)?,
            Some(server) => server::run(self, server, remedy, control.as_ref(), expected, limit)?,
        };
        sample.wall_s = began.elapsed().as_secs_f64();
        if let Some(control) = &control {
            sample.processes = control.processes().unwrap_or_default();
        }
        Ok(sample)
    }

    fn cannot_lock(&self) -> Option<String> {
        let program = self.subject.server.as_ref().map_or(&self.subject.program, |server| &server.program);
        crate::interposer::program::find(&program.words()).err().map(|why| why.to_string())
    }

    fn futex_waits(&mut self, limit: Duration) -> Option<u64> {
        waits::recorded(self, limit)
    }

    fn count_acquisitions(&mut self) {
        self.counts = true;
    }

    fn flip(&mut self, policies: &[Policy], expected: &Expected, limit: Duration, seed: u64) -> Option<Flips> {
        // A policy that breaks the program is found when it runs alone.
        turns::take(self, policies, expected.limit, limit, seed).ok()
    }
}

fn alone(
    real: &Real<'_>,
    remedy: Option<&Remedy>,
    control: Option<&Control>,
    expected: Option<&Expected>,
    limit: Duration,
) -> Result<Sample, Failure> {
    let mut started = real.start(&real.subject.program, remedy, control)?;
    let outcome = real.wait(&mut started, limit).and_then(|()| started.finish().map_err(unwatched))?;
    real.sample(&outcome, expected)
}
