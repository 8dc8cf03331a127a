//! Damaged input for every reader of what others wrote: whatever the bytes, there is an answer, soon and in little
//! memory.
//!
//! `cargo test` gives each reader some inputs; `cargo xtask fuzz --minutes 10` or `--inputs 1000000` goes on. An input
//! is made of its reader, the seed and its number alone, so `--reader NAME --seed SEED --first NUMBER --inputs 1`
//! repeats it. What once showed a fault is kept in `fixtures/fuzz/found` and read first. Inputs are read in child
//! processes (see `linux/chunk.rs`) with 1 GiB of memory each, watched from outside: one that panics, ends its process,
//! or takes more than five seconds of CPU time is kept and told.
#![allow(clippy::unwrap_used, reason = "a test panics where something is not as expected")]

#[cfg(target_os = "linux")]
mod linux;

use std::process::ExitCode;

#[cfg(target_os = "linux")]
fn main() -> ExitCode {
    linux::main()
}

#[cfg(not(target_os = "linux"))]
fn main() -> ExitCode {
    println!("skipped: children are watched by what Linux says of them");
    ExitCode::SUCCESS
}
