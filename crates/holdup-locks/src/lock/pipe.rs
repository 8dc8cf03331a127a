//! A byte in a pipe: whoever reads it holds the lock and writes it back.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock. That is the
//! kind of lock that the Win32 mutex is; the difference to a lock in user space is what it is here to show.
//!
//! | state | meaning |
//! |---|---|
//! | one byte in the pipe | free |
//! | pipe empty | held; readers sleep in the kernel |
//!
//! Invariants: those of kernel.rs, and
//! 1. There is one byte, written at the start and by the holder; so one read succeeds per release.
//! 2. The kernel takes and gives under its own lock; a lost wake-up would be the kernel's.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides (the kernel's own locks); nothing of ours orders the section.
//! `mutual_exclusion` in tests/conformance.rs holds it.
//!
//! Source: the token in a pipe, as in GNU make's job server; pipe(7).
//!
//! Cost: 25 to 60 times a lock in user space when free (0.5 us against 12 ns where it was written). Holds file descriptors from first use until it is dropped. A
//! forked child shares the object with its parent: the lock then excludes across both. If the object cannot be made (too many open
//! files), the lock silently works as `Futex`; ask [`Pipe::create`] to know. Try and timed try need Linux 5.8 and never succeed before.

use super::kernel::{Kind, Object, broken};
use crate::sys::object::{self as kernel};
use crate::sys::{DeadlineNs, SysError, Taken, now_ns};

const NAME: &str = "pipe";
const KIND: Kind = Kind { call: "pipe2", make: kernel::pipe_new, free: kernel::pipe_free };

/// Token in a pipe: every acquisition and release is a system call. 24 bytes, two descriptors.
pub struct Pipe {
    object: Object,
}

impl Pipe {
    /// A free lock; its kernel object is made at first use.
    #[must_use]
    pub const fn new() -> Self {
        Self { object: Object::new() }
    }

    /// Makes the kernel object now, if it is not made yet.
    ///
    /// # Errors
    /// The system call that failed; the lock then works as `Futex`.
    pub fn create(&self) -> Result<(), SysError> {
        self.object.lazy.get_or_make(&KIND).map(drop)
    }

    fn acquire(&self) {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) => kernel::pipe_take(object).unwrap_or_else(|error| broken(NAME, error)),
            Err(_) => self.object.stand_in.acquire(),
        }
    }

    fn acquire_until(&self, deadline: DeadlineNs) -> bool {
        let Ok(object) = self.object.lazy.get_or_make(&KIND) else {
            return self.object.stand_in.acquire_until(deadline);
        };
        loop {
            if kernel::pipe_try(object) == Taken::Yes {
                return true;
            }
            if now_ns() >= deadline {
                return false;
            }
            kernel::await_readable(kernel::read_end(object), deadline)
                .unwrap_or_else(|error| broken(NAME, error));
        }
    }

    fn try_acquire(&self) -> bool {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) => kernel::pipe_try(object) == Taken::Yes,
            Err(_) => self.object.stand_in.try_acquire(),
        }
    }

    fn release(&self) {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) => kernel::pipe_give(object).unwrap_or_else(|error| broken(NAME, error)),
            Err(_) => self.object.stand_in.release(),
        }
    }

    fn held(&self) -> bool {
        match self.object.lazy.get() {
            Some(object) => !kernel::is_readable(kernel::read_end(object)),
            None => self.object.stand_in.held(),
        }
    }
}

impl Drop for Pipe {
    fn drop(&mut self) {
        crate::lock::raw::check_free(self.held(), NAME);
        if let Some(object) = self.object.lazy.get() {
            (KIND.free)(object);
        }
    }
}

impl Default for Pipe {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] Pipe, GuardSend, Self::new());
raw_mutex_timed!([] Pipe);
