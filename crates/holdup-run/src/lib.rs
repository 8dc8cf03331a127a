//! Programs as processes: started under the conditions that were asked for, watched, and ended with all that they
//! started.
//!
//! They are users' programs, or this program again in another role: the laboratory's worker, and the conformance
//! programs of [`behaviour`]. Nothing here knows what a program is run for; it says how it ended and what it used.

pub mod behaviour;
mod conditions;
mod ended;
mod program;
mod sys;

pub use conditions::Conditions;
pub use ended::{Finished, Outcome, ProcessUse};
pub use program::{
    OwnProgram, Started, allowed_cpus, check, forward, no_more_processes, outlive_file_limit, run_for, take, time,
    with_stack,
};
