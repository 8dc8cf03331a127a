//! Acquisitions of locks that the real functions serve: each thread counts its own, and adds them to the figures now
//! and then.

use std::ffi::c_int;
use std::sync::atomic::Ordering;

use holdup_control::{Fallback, KIND_RWLOCK, KIND_SPIN};

use super::process::Served;

/// Acquisitions that a thread counts by itself before it adds them to the figures.
const FLUSH: u32 = 64;

/// A kind of lock that is only counted.
#[derive(Clone, Copy)]
pub enum Kind {
    /// A read-write lock.
    ReadWrite,
    /// A spin lock.
    Spin,
}

impl Kind {
    fn fallback(self) -> Fallback {
        match self {
            Kind::ReadWrite => Fallback::ReadWrite,
            Kind::Spin => Fallback::Spin,
        }
    }

    /// As what a record has it.
    pub fn record(self) -> u32 {
        match self {
            Kind::ReadWrite => KIND_RWLOCK,
            Kind::Spin => KIND_SPIN,
        }
    }
}

/// Counts an acquisition, if it is one. Returns the result.
pub fn count(served: Served, kind: Kind, result: c_int) -> c_int {
    if result == 0 {
        let own = &served.thread.passed[kind as usize];
        // The first shows at once, that a lock of this kind is there at all.
        own.set(own.get() + 1);
        if own.get() == 1 || own.get() > FLUSH {
            flush(served, kind);
        }
    }
    result
}

/// `passed` starts at 0, and is 1 more than what is not in the figures once anything was counted.
fn flush(served: Served, kind: Kind) {
    let own = &served.thread.passed[kind as usize];
    let more = if own.get() == 1 { 1 } else { own.get() - 1 };
    own.set(1);
    served.process.figures().fallbacks[kind.fallback() as usize].fetch_add(u64::from(more), Ordering::Relaxed);
}

/// A thread ends, or the process: what it counted by itself is added.
pub fn settle(served: Served) {
    for kind in [Kind::ReadWrite, Kind::Spin] {
        if served.thread.passed[kind as usize].get() > 1 {
            flush(served, kind);
        }
    }
}
