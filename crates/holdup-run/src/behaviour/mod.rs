//! What programs may rely on when they use the C library's locks: one small program per behaviour.
//!
//! They are conformance programs for lock interposers. Each runs in a process of its own, because an interposer that is
//! wrong hangs or crashes. Natively all of them hold; a library put under them (`LD_PRELOAD`) must not change that. The
//! programs are Linux code and live behind [`sys`]; adding one: its function there and a row of its table.

mod program;
mod sys;

use std::ffi::OsString;
use std::io;
use std::time::Duration;

use crate::ended;
pub use program::Behaviour;
use program::{FAILS, HOLDS, NOT_LOADED};

use crate::program::{OwnProgram, run_for};

/// All behaviours, the plainest first; none on systems without the C library that they are about.
pub fn all() -> &'static [Behaviour] {
    sys::BEHAVIOURS
}

/// How a behaviour ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// As it must.
    Holds,
    /// Not as it must, or the process crashed: why.
    Fails(String),
    /// Not at all within the time limit.
    Hangs,
    /// The library that was to be tested is not in the process: why.
    NotLoaded(String),
}

/// A behaviour that was tried.
#[derive(Clone, Debug)]
pub struct Run {
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took.
    pub elapsed: Duration,
}

/// The environment variable that names the library which must be in the process: a loader that cannot preload one goes
/// on without.
pub const LIBRARY: &str = "HOLDUP_BEHAVIOUR_LIBRARY";

/// Tries one behaviour in a fresh process with these variables added to its environment.
///
/// # Errors
/// Only when no process could be started; whatever happens to a started one is an outcome.
pub fn run(
    program: &OwnProgram,
    behaviour: &Behaviour,
    seed: u64,
    environment: &[(OsString, OsString)],
    limit: Duration,
) -> io::Result<Run> {
    let mut command = program.command();
    command.args([behaviour.name, &seed.to_string()]).envs(environment.iter().cloned());
    let (ended, in_time) = run_for(&mut command, limit)?;
    let elapsed = Duration::from_nanos(ended.process.elapsed_ns);
    Ok(Run { outcome: outcome(&ended, in_time), elapsed })
}

fn outcome(ended: &ended::Outcome, in_time: bool) -> Outcome {
    let after = |mark| ended.stdout.lines().find_map(|line: &str| line.strip_prefix(mark));
    if let Some(why) = after(NOT_LOADED) {
        return Outcome::NotLoaded(format!("{why}{}", ended.last_words()));
    }
    // A reason that was given tells more than how the process ended: others of its threads may hang.
    if let Some(why) = after(FAILS) {
        return Outcome::Fails(why.to_owned());
    }
    if !in_time {
        return Outcome::Hangs;
    }
    if ended.status.success() && ended.stdout.lines().last() == Some(HOLDS) {
        return Outcome::Holds;
    }
    let how = match &ended.signal {
        Some(signal) => format!("ended by {signal}"),
        None if ended.status.success() => "ended before it was through, with exit status 0".to_owned(),
        None => format!("ended before it was through, with {}", ended.status),
    };
    Outcome::Fails(how + &ended.last_words())
}

/// What the hidden `__behaviour` subcommand does: `NAME SEED`. Returns the exit status, if it returns.
pub fn behaviour_main(words: &[String]) -> i32 {
    let [name, seed] = words else {
        println!("{FAILS}usage: __behaviour NAME SEED");
        return 1;
    };
    let (Some(behaviour), Ok(seed)) = (all().iter().find(|one| one.name == name), seed.parse()) else {
        println!("{FAILS}there is no behaviour '{name}', or '{seed}' is not a seed");
        return 1;
    };
    if let Some(library) = std::env::var_os(LIBRARY).filter(|library| !sys::has_loaded(library)) {
        println!("{NOT_LOADED}the loader did not take {}", library.display());
        return 1;
    }
    (behaviour.body)(seed);
    println!("{HOLDS}");
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_behaviour_has_a_name_of_its_own_and_says_what_it_is_about() {
        for (index, one) in all().iter().enumerate() {
            assert!(all()[..index].iter().all(|other| other.name != one.name), "{}", one.name);
            assert!(one.name.len() <= 16, "{} is too long for the table", one.name);
            assert!(!one.holds.is_empty() && !one.wrong.is_empty(), "{}", one.name);
        }
    }
}
