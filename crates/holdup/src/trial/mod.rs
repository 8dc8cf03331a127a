//! Trials: a program as it is against the same program under remedies, until it is decided which one helps.

pub mod plan;
pub mod ratio;
