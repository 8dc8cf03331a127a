//! What a run under other locks was: which part of its locks holdup served, and the profile of each.

mod coverage;
mod json;
mod lock;
mod profile;
mod run;

pub use coverage::{Coverage, coverage};
pub use json::Run as Json;
pub use profile::profile;
pub use run::Run;
