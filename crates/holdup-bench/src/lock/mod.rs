//! The locks under test: ours, the peers, and none.

#[cfg(feature = "broken-locks")]
mod broken;
pub mod catalog;
mod dispatch;
mod interface;
mod straddle;
mod table;

pub(crate) use dispatch::dispatch;
pub(crate) use interface::{BenchLock, Visitor};
