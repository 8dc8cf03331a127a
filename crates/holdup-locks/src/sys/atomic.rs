//! The atomics that the locks are made of; loom's when a model runs.

#[cfg(all(feature = "std", loom))]
pub(crate) use super::loom::atomic::*;
#[cfg(not(all(feature = "std", loom)))]
#[allow(unused_imports, reason = "one list for every feature set")]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering, fence,
};
// Small processors without an operating system have no 64-bit atomics; the locks that spin need none.
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use core::sync::atomic::AtomicU64;
