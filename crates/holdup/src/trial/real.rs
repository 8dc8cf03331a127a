//! How real programs run: alone, as a server under its load, or with policies that take turns.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdup_control::Policy;

use super::flip::Flips;
use super::modes::STEP;
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
        let counting = self.counts.then(Settings::default);
        let settings = remedy.and_then(Remedy::settings).or(counting);
        let control = settings.map(|settings| {
            Control::create(&settings).map_err(|why| Failure::Start(format!("the locks cannot be put under it: {why}")))
        });
        let control = control.transpose()?;
        let limit = expected.map_or(limit, |expected| expected.limit);
        let began = Instant::now();
        let real = &*self;
        let over = AtomicBool::new(false);
        let (outcome, speeds) = std::thread::scope(|scope| {
            let watched = control.as_ref().filter(|_| real.paced);
            let watching = watched.map(|control| scope.spawn(|| steps(control, &over)));
            let outcome = match &real.subject.server {
                None => alone(real, remedy, control.as_ref(), expected, limit),
                Some(server) => server::run(real, server, remedy, control.as_ref(), expected, limit),
            };
            over.store(true, Ordering::Relaxed);
            (outcome, watching.and_then(|steps| steps.join().ok()).unwrap_or_default())
        });
        let mut sample = Sample { speeds, wall_s: began.elapsed().as_secs_f64(), ..outcome? };
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

    fn count_acquisitions(&mut self, counts: bool) {
        self.counts = counts;
    }

    fn flip(&mut self, policies: &[Policy], expected: &Expected, limit: Duration, seed: u64) -> Option<Flips> {
        // A policy that breaks the program is found when it runs alone.
        turns::take(self, policies, expected.limit, limit, seed).ok()
    }

    fn watch(&mut self, policy: Policy, limit: Duration) -> Option<Vec<f64>> {
        turns::watch(self, policy, Instant::now() + limit).ok()
    }
}

/// Acquisitions a second, step after step, until it is over.
fn steps(control: &Control, over: &AtomicBool) -> Vec<f64> {
    let taken = || control.processes().unwrap_or_default().iter().map(|process| process.acquisitions).sum::<u64>();
    let mut speeds = Vec::new();
    let (mut before, mut since) = (taken(), Instant::now());
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(STEP);
        let (now, at) = (taken(), Instant::now());
        speeds.push(now.saturating_sub(before) as f64 / (at - since).as_secs_f64().max(1e-9));
        (before, since) = (now, at);
    }
    speeds
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
