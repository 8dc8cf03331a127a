//! Real programs with known trouble, recorded and reported by the program that users run: the right finding comes
//! first, with the right lock, function and line, and healthy programs have none.
//!
//! `HOLDUP_NO_SKIP=1` turns every skipped test into a failure.
#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "in a test a panic is the message, in its helpers too")]

mod build;
mod deadlock;
mod expectation;
mod faults;
mod fixtures;
mod generated;
mod import;
mod limited;
mod live;
mod locks;
mod others;
mod parking;
mod place;
mod replaced;
mod same_names;
mod sampler;
mod watch;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Recorded programs have the CPUs for themselves: one test at a time.
fn alone() -> MutexGuard<'static, ()> {
    static CPUS: Mutex<()> = Mutex::new(());
    CPUS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says why a test did not run.
#[track_caller]
fn skip(why: &str) {
    assert!(std::env::var_os("HOLDUP_NO_SKIP").is_none(), "skipped although HOLDUP_NO_SKIP is set: {why}");
    println!("skipped: {why}");
}

/// The caller may do everything: drop to another user, mount, attach to anybody.
fn is_root() -> bool {
    std::process::Command::new("id")
        .arg("-u")
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == "0")
}

/// Whether a program can be started.
fn has(program: &str, argument: &str) -> bool {
    std::process::Command::new(program).arg(argument).output().is_ok_and(|output| output.status.success())
}
