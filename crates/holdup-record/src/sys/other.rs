//! Systems that cannot record.

use std::sync::atomic::AtomicBool;

use holdup_trace::Event;

use crate::doctor::Probe;
use crate::{Error, Options, Outcome};

/// Says that it cannot.
pub fn record(
    _options: &Options,
    _stop: &AtomicBool,
    _more: &(dyn Fn(u64) -> Vec<Event> + Sync),
) -> Result<Outcome, Error> {
    Err(Error::Unsupported)
}

/// Signals that end a recording: none is made here.
pub mod signals {
    use std::sync::atomic::AtomicBool;

    /// None will come.
    pub fn listen(_stop: &'static AtomicBool) {}

    /// None came.
    pub fn heard() -> Option<(i32, &'static str)> {
        None
    }
}

/// There is none.
pub fn code_map(_: u32, _: u64) -> Result<Option<Vec<u8>>, String> {
    Ok(None)
}

/// There is nothing to look at.
pub fn probe() -> Option<Probe> {
    None
}
