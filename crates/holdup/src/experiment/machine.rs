//! The machine that experiments are planned for, or that a run was made on.

use crate::results::RunRecord;

/// What a claim may need to know of the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// CPUs that the program may use.
    pub cpus: u32,
    /// Whether hardware counters can be read.
    pub counters: bool,
    /// Instruction set, as Rust names it.
    pub arch: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Machine {
        let counters =
            holdup_bench::machine::describe().iter().any(|(name, value)| *name == "counters" && has_counters(value));
        Machine { cpus: cpus_here(), counters, arch: std::env::consts::ARCH.to_owned() }
    }

    /// The machine of a stored run; what its description lacks is taken from this one.
    pub fn of_run(run: &RunRecord) -> Machine {
        Machine {
            cpus: run.cpus().unwrap_or_else(cpus_here),
            counters: run.environment.iter().any(|(name, value)| name == "counters" && has_counters(value)),
            arch: std::env::consts::ARCH.to_owned(),
        }
    }
}

fn cpus_here() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| n.get() as u32)
}

/// The description says `n/a` and why where there are none.
fn has_counters(fact: &str) -> bool {
    !fact.starts_with("n/a")
}
