//! Locks that fail on purpose: they prove that the laboratory notices.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::interface::BenchLock;
use crate::spec::Spec;

/// Acquisitions until the failure.
const AFTER: u64 = 20_000;

/// Lets everybody in.
#[derive(Debug)]
pub struct LostUpdate;

impl BenchLock for LostUpdate {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(LostUpdate)
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}

/// A good lock that one day is not released.
#[derive(Debug)]
pub struct Deadlock {
    inner: std::sync::Mutex<()>,
    taken: AtomicU64,
}

impl BenchLock for Deadlock {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(Deadlock { inner: std::sync::Mutex::new(()), taken: AtomicU64::new(0) })
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let guard = self.inner.lock();
        let result = section();
        if self.taken.fetch_add(1, Relaxed) == AFTER {
            std::mem::forget(guard);
        }
        result
    }
}

/// A good lock that one day aborts.
#[derive(Debug)]
pub struct Crash {
    inner: std::sync::Mutex<()>,
    taken: AtomicU64,
}

impl BenchLock for Crash {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(Crash { inner: std::sync::Mutex::new(()), taken: AtomicU64::new(0) })
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.inner.lock();
        if self.taken.fetch_add(1, Relaxed) == AFTER {
            eprintln!("broken-crash: the end, as promised");
            std::process::abort();
        }
        section()
    }
}

/// A good lock that one day panics.
#[derive(Debug)]
pub struct Panics {
    inner: std::sync::Mutex<()>,
    taken: AtomicU64,
}

impl BenchLock for Panics {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(Panics { inner: std::sync::Mutex::new(()), taken: AtomicU64::new(0) })
    }

    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        let _guard = self.inner.lock();
        assert!(self.taken.fetch_add(1, Relaxed) != AFTER, "broken-panic: as promised");
        section()
    }
}
