//! The locks and techniques of holdup-locks for C and C++: what `holdup.h` declares and `holdup.hpp` wraps.
//!
//! The header is written from these sources by `cargo xtask headers`; the doc comments here are its documentation and
//! speak to C programmers. Functions of the locks are written by build.rs, for every lock of the registry, from
//! `lock.rs.in`.
//!
//! No panic crosses into C: `extern "C"` ends the process where one would, after its message; the only ones are misuse
//! that a build with debug assertions finds, and a kernel object that was taken away from a lock.
#![allow(
    unsafe_code,
    reason = "C hands over raw pointers; every function answers for them with the contract in its documentation"
)]
#![allow(non_camel_case_types, reason = "the types are named as C names types")]
#![allow(clippy::missing_safety_doc, reason = "the documentation is the header's, where every function is like that")]

pub mod chunks;
pub mod counter;
pub mod gate;
mod held;
pub mod table;

/// The locks, one set of functions each.
pub mod locks {
    include!(concat!(env!("OUT_DIR"), "/locks.rs"));
}

/// The reader-writer locks, one set of functions each.
pub mod rw_locks {
    include!(concat!(env!("OUT_DIR"), "/rw_locks.rs"));
}
