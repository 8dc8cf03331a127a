//! Locks, gates, lock tables and counters for programs that threads hold up.
#![allow(
    unsafe_code,
    reason = "a lock is made of atomics, futexes and interior mutability; every block argues its contract"
)]
