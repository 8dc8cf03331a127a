//! Systems without a backend yet: everything that needs the system says that it is unsupported.

use std::io;
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use crate::conditions::Conditions;
use crate::ended::{Finished, Outcome};

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// As many as the system says may be used, numbered from 0.
pub fn allowed_cpus() -> Vec<u32> {
    (0..std::thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect()
}

/// Only the default ones can be had.
pub fn take(conditions: &Conditions) -> Result<(), String> {
    match *conditions == Conditions::default() {
        true => Ok(()),
        false => Err("holdup cannot set them on this system yet".to_owned()),
    }
}

/// Cannot be had here.
#[derive(Debug)]
pub struct Started;

impl Started {
    pub fn new(_: &mut Command, _: &Conditions) -> io::Result<Started> {
        unsupported()
    }

    pub fn pid(&self) -> u32 {
        0
    }

    pub fn wait(&mut self, _: Instant, _: Option<&AtomicBool>) -> io::Result<bool> {
        unsupported()
    }

    pub fn output(&self) -> (String, String) {
        (String::new(), String::new())
    }

    pub fn terminate(&self) {}

    pub fn finish(self) -> io::Result<Outcome> {
        unsupported()
    }
}

/// The system's account of a process cannot be had here yet.
pub fn time(_: &mut Command) -> io::Result<Finished> {
    unsupported()
}

/// As [`time`].
pub fn forward(_: &mut Command, _: &Conditions) -> io::Result<Finished> {
    unsupported()
}

/// No limit of file size is known here.
pub fn outlive_file_limit() {}

/// What stacks may grow to is not known here.
pub fn has_less_stack(_: u64) -> bool {
    false
}

/// No such limit is known here.
pub fn no_more_processes(_: &std::io::Error) -> Option<String> {
    None
}
