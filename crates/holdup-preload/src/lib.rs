//! The interposer: a library that is loaded before a program's own libraries, takes the place of glibc's mutex
//! functions, and lets threads wait in another way or counts what they do. [`holdup_control`] is all that it shares
//! with the outside.
//!
//! Rules that every function here keeps, because it runs inside any lock operation of any program at any time:
//!
//! 1. **The word is glibc's.** `__lock` is 0 (free), 1 (held) or 2 (held, and somebody may sleep), and threads sleep on
//!    it by futex. Only how to wait differs. So glibc's own functions (condition variables, plugins that are bound to
//!    glibc, a real `pthread_mutex_timedlock`) work on the same mutex at the same time, and policies can be exchanged
//!    at any moment.
//! 2. **A waker honours what is there.** An unlock that finds 2 wakes, unless somebody awake has taken over that duty.
//! 3. **Zero is the initial state**, of every static, of every thread's variables, and of the spare bytes of a mutex. A
//!    call may come before any constructor has run.
//! 4. **Nothing allocates, prints, locks, or waits for another thread** other than for the mutex that was asked for.
//! 5. **What is left of the mutex after its release is nobody's.** Another thread may have freed it.
//!
//! Unsafe code: this crate is the machine's side of the house; its input are raw pointers from C.
#![allow(unsafe_code)]
// The tests' own binary exports nothing: it would stand before its own C library.
#![cfg_attr(test, allow(dead_code))]

#[cfg(feature = "interposer")]
mod sys;

/// The folder of this package, with the sources of the library. The build of holdup makes the library of them.
pub const PACKAGE: &str = env!("CARGO_MANIFEST_DIR");
