//! What `holdup watch` is made of, apart from the work itself: its settings, whom it watches, what that may cost, the
//! figures that it serves, and how it serves them.

pub mod budget;
pub mod figures;
pub mod seen;
pub mod server;
pub mod settings;
pub mod whom;
