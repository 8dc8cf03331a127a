//! Turns of policies within real processes: the program, or the server with its load.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use holdup_control::Policy;
use holdup_run::Started;

use super::flip::{self, Flips, Process};
use super::modes::STEP;
use super::run::{Failure, Real};
use super::server;
use crate::interposer::{Control, Settings};

/// Lets policies take turns within runs of the program, until there are enough windows or the time is over.
///
/// # Errors
/// A run failed; which policy is to blame is not known.
pub fn take(
    real: &Real<'_>,
    policies: &[Policy],
    run_limit: Duration,
    time: Duration,
    seed: u64,
) -> Result<Flips, Failure> {
    let deadline = Instant::now() + time;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut flips = Flips::new(policies.len());
    while Instant::now() < deadline && !flips.is_enough() && !real.stop.load(Ordering::Relaxed) {
        let before = flips.logs.iter().map(Vec::len).sum::<usize>();
        one_run(real, policies, &mut flips, deadline.min(Instant::now() + run_limit), &mut random)?;
        if flips.logs.iter().map(Vec::len).sum::<usize>() == before {
            // Its runs are too short, or it takes no lock: more of them would not be different.
            break;
        }
    }
    Ok(flips)
}

/// Speeds of one run under a policy, step by step, from when it takes locks to its end or the deadline.
///
/// # Errors
/// The run failed.
pub fn watch(real: &Real<'_>, policy: Policy, deadline: Instant) -> Result<Vec<f64>, Failure> {
    let settings = Settings { policy, ..Settings::default() };
    with_live(real, &settings, deadline, |live| {
        let mut speeds = Vec::new();
        let (mut before, mut since) = (live.acquisitions(), Instant::now());
        while Instant::now() < deadline && live.run_for(STEP) {
            let (now, at) = (live.acquisitions(), Instant::now());
            speeds.push(now.saturating_sub(before) as f64 / (at - since).as_secs_f64().max(1e-9));
            (before, since) = (now, at);
        }
        speeds
    })
    .map(Option::unwrap_or_default)
}

fn one_run(
    real: &Real<'_>,
    policies: &[Policy],
    flips: &mut Flips,
    deadline: Instant,
    random: &mut fastrand::Rng,
) -> Result<(), Failure> {
    with_live(real, &Settings::default(), deadline, |live| flip::measure(live, policies, flips, deadline, random))
        .map(Option::unwrap_or_default)
}

/// One run; `act` is called once it takes locks, and not at all if it never does.
fn with_live<T>(
    real: &Real<'_>,
    settings: &Settings,
    deadline: Instant,
    act: impl FnOnce(&mut Live<'_>) -> T,
) -> Result<Option<T>, Failure> {
    let control =
        Control::create(settings).map_err(|why| Failure::Start(format!("the locks cannot be put under it: {why}")))?;
    let mut serving = None;
    let driving = match &real.subject.server {
        None => real.start(&real.subject.program, None, Some(&control))?,
        Some(server) => {
            let port = server::free_port().map_err(|why| Failure::Server(format!("no free port: {why}")))?;
            let port = port.to_string();
            let mut started = real.start(&server.program.with("port", &port), None, Some(&control))?;
            server::await_ready(&mut started, &server.ready, &port, real.stop)?;
            serving = Some(started);
            real.start(&real.subject.program.with("port", &port), None, None)?
        }
    };
    let mut live = Live { real, control, driving, ended: false };
    let acted = live.has_begun(deadline).then(|| act(&mut live));
    let ended = live.ended;
    // What still runs has told enough; its output and status do not count.
    let outcome = live.driving.finish();
    drop(serving);
    match outcome {
        Ok(outcome) if ended && outcome.signal.is_some() => Err(Failure::Crashed {
            signal: outcome.signal.unwrap_or_default(),
            words: super::run::last_words(&outcome.stdout, &outcome.stderr),
        }),
        Ok(_) => Ok(acted),
        Err(why) => Err(super::run::unwatched(why)),
    }
}

/// A process that runs now.
struct Live<'a> {
    real: &'a Real<'a>,
    control: Control,
    driving: Started,
    ended: bool,
}

impl Live<'_> {
    /// Waits until it takes locks; whether it does.
    fn has_begun(&mut self, deadline: Instant) -> bool {
        while self.acquisitions() == 0 {
            if !self.run_for(Duration::from_millis(10)) || Instant::now() >= deadline {
                return false;
            }
        }
        // What a program does when it starts is not what it does later.
        self.run_for(Duration::from_millis(100))
    }
}

impl Process for Live<'_> {
    fn set(&mut self, policy: Policy) {
        // The folder is there as long as we are; should the file be gone, the policies show no difference.
        let _ = self.control.set_policy(policy);
    }

    fn acquisitions(&mut self) -> u64 {
        let processes = self.control.processes().unwrap_or_default();
        processes.iter().map(|process| process.acquisitions).sum()
    }

    fn run_for(&mut self, time: Duration) -> bool {
        let ended = self.driving.wait(Instant::now() + time, self.real.stop).unwrap_or(true);
        self.ended |= ended;
        !ended && !self.real.stop.load(Ordering::Relaxed)
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}
