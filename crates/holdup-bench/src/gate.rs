//! The admission gate: at most so many at a time.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::sys;

/// The 1998 throttle: a counting semaphore.
#[derive(Debug)]
pub struct Throttle {
    free: AtomicU32,
}

impl Throttle {
    /// Admits so many.
    pub fn new(active: u32) -> Throttle {
        Throttle { free: AtomicU32::new(active) }
    }

    /// Waits for a place and takes it.
    pub fn enter(&self) {
        loop {
            let free = self.free.load(Ordering::Relaxed);
            if free == 0 {
                sys::wait_on(&self.free, 0, None);
            } else if self
                .free
                .compare_exchange_weak(free, free - 1, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
            {
                return;
            }
        }
    }

    /// Gives the place back.
    pub fn leave(&self) {
        self.free.fetch_add(1, Ordering::Release);
        sys::wake(&self.free, 1);
    }
}
