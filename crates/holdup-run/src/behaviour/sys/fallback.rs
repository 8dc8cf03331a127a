//! Without the C library that the behaviours are about there are none.

use std::ffi::OsStr;

use super::super::Behaviour;

/// None.
pub const BEHAVIOURS: &[Behaviour] = &[];

/// Nothing can be preloaded here.
pub fn has_loaded(_: &OsStr) -> bool {
    false
}
