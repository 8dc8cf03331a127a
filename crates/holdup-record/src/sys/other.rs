//! Systems that cannot record.

use std::sync::atomic::AtomicBool;

use crate::doctor::Probe;
use crate::{Error, Options, Outcome};

/// Says that it cannot.
pub fn record(_options: &Options, _stop: &AtomicBool) -> Result<Outcome, Error> {
    Err(Error::Unsupported)
}

/// There is nothing to look at.
pub fn probe() -> Option<Probe> {
    None
}
