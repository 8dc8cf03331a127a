//! Locks, gates, lock tables and counters for programs that threads hold up.
#![cfg_attr(not(feature = "std"), no_std)]
#![allow(
    unsafe_code,
    reason = "a lock is made of atomics, futexes and interior mutability; every block argues its contract"
)]

mod sys;
#[cfg(feature = "std")]
pub mod technique;
