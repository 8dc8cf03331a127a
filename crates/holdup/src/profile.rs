//! Where a worker's CPU time goes: to the lock's own functions, to the kernel's part of the lock, or elsewhere, by a
//! recording of its run.

use std::path::Path;

use holdup_analyze::{Facts, LockSamples};
use holdup_bench::sample::{Failure, FailureKind, Sample};
use holdup_trace::Capabilities;

use crate::recording::{self, Window};

/// Share of the lock's own functions.
pub const LOCK: &str = "profile_lock_share";
/// Share of the kernel where it waits, wakes and switches, or what else the lock called it for.
pub const KERNEL: &str = "profile_kernel_share";

/// The threads that a worker measures are called so, with a number.
const MEASURING: &str = "measure-";

/// The sample of a run that was recorded into this file, with the shares. A run whose recording does not tell is one
/// that this machine cannot do; threads that hardly ran have no shares.
pub fn added(mut sample: Sample, file: &Path) -> Result<Sample, Failure> {
    let recording = recording::open(file, Window::default(), false).map_err(|why| unsupported(&why.to_string()))?;
    let shares = shares(&recording.report.facts).map_err(|why| unsupported(&why))?;
    sample.extra.extend(shares.into_iter().flatten().map(|(name, share)| (name.to_owned(), share)));
    Ok(sample)
}

/// A run that cannot be recorded.
pub fn unsupported(why: &str) -> Failure {
    let detail = format!("no profile here: {why}");
    Failure { kind: FailureKind::Unsupported, detail }
}

fn shares(facts: &Facts) -> Result<Option<[(&'static str, f64); 2]>, String> {
    let Capabilities { samples, kernel, .. } = facts.header.capabilities;
    if !samples || !kernel {
        let part = if samples { "the kernel's part of the CPU time" } else { "CPU samples" };
        return Err(format!("this recording lacks {part}; 'holdup doctor' says what is missing"));
    }
    let measuring = facts.threads.iter().filter(|thread| thread.name.starts_with(MEASURING));
    let all = measuring.map(|thread| thread.lock_samples).fold(LockSamples::default(), |sum, more| LockSamples {
        own: sum.own + more.own,
        kernel: sum.kernel + more.kernel,
        elsewhere: sum.elsewhere + more.elsewhere,
    });
    let samples = all.own + all.kernel + all.elsewhere;
    let share = |part: u64| part as f64 / samples as f64;
    Ok((samples > 0).then(|| [(LOCK, share(all.own)), (KERNEL, share(all.kernel))]))
}

#[cfg(test)]
mod tests {
    use holdup_analyze::ThreadFacts;

    use super::*;

    fn facts(threads: &[(&str, LockSamples)]) -> Facts {
        let thread = |(name, lock_samples): &(&str, LockSamples)| ThreadFacts {
            name: (*name).to_owned(),
            lock_samples: *lock_samples,
            ..ThreadFacts::default()
        };
        let mut facts = Facts { threads: threads.iter().map(thread).collect(), ..Facts::default() };
        facts.header.capabilities = Capabilities { samples: true, kernel: true, ..Capabilities::default() };
        facts
    }

    #[test]
    fn shares_are_of_all_samples_of_the_measuring_threads() {
        let start = ("holdup", LockSamples { own: 0, kernel: 0, elsewhere: 1000 });
        let one = ("measure-0", LockSamples { own: 40, kernel: 10, elsewhere: 10 });
        let other = ("measure-1", LockSamples { own: 20, kernel: 20, elsewhere: 0 });
        assert_eq!(shares(&facts(&[start, one, other])), Ok(Some([(LOCK, 0.6), (KERNEL, 0.3)])));
        assert_eq!(shares(&facts(&[start])), Ok(None));
    }

    #[test]
    fn a_recording_that_sees_half_is_refused() {
        for (samples, kernel, lacks) in [(false, false, "CPU samples"), (true, false, "the kernel's part")] {
            let mut facts = facts(&[]);
            facts.header.capabilities = Capabilities { samples, kernel, ..Capabilities::default() };
            let why = shares(&facts).unwrap_err();
            assert!(why.contains(lacks) && why.contains("holdup doctor"), "{why}");
        }
    }
}
