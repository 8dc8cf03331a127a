//! A System V semaphore with undo: if the holder's process dies, the kernel gives the lock back.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock.
//!
//! | semaphore | meaning |
//! |---|---|
//! | 1 | free |
//! | 0 | held; the kernel remembers an undo of +1 for the holder's process |
//!
//! Invariants: those of kernel.rs, and
//! 1. Only the holder adds one, to a semaphore that is 0; so one subtraction succeeds per release.
//! 2. Undo belongs to the process, not the thread: it runs when the process ends, whatever thread held the lock.
//! 3. Only the process that made the semaphore removes it; a forked child that drops its copy leaves it alone.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides (the kernel's own locks); nothing of ours orders the section.
//! `mutual_exclusion` in tests/conformance.rs holds it.
//!
//! Source: semop(2), SEM_UNDO.

use super::kernel::{Kind, Object, broken};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::object::{self as kernel};
use crate::sys::{DeadlineNs, SysError, Taken};

const NAME: &str = "sysv-sem";
const KIND: Kind = Kind { call: "semget", make: kernel::sem_new, free: kernel::sem_free };

/// System V semaphore: if the holder's process dies, the kernel gives the lock back. 24 bytes.
///
/// ```
/// use holdup_locks::{Mutex, SysvSem};
///
/// let value = Mutex::<SysvSem, u32>::new(1);
/// *value.lock() += 1;
/// assert_eq!(*value.lock(), 2);
/// ```
///
/// # Cost
/// A system call each way that also keeps the undo list. Undo belongs to the process, not the thread.
///
/// Measured: not in the [table](crate#measured).
///
/// # When not to use it
/// Unless a process that dies must leave the lock free for a forked relative. Sets outlive processes that are killed
/// (`ipcs -s` lists them), and a system has few.
///
/// # Errors
/// If no semaphore can be made the lock silently works as [`Futex`](crate::Futex); [`SysvSem::create`] tells.
///
/// # Source
/// semop(2), SEM_UNDO.
pub struct SysvSem {
    object: Object,
    /// The process that made the semaphore and may remove it.
    maker: AtomicU32,
}

impl SysvSem {
    /// A free lock; its semaphore is made at first use.
    #[must_use]
    pub const fn new() -> Self {
        Self { object: Object::new(), maker: AtomicU32::new(0) }
    }

    /// Makes the semaphore now, if it is not made yet.
    ///
    /// # Errors
    /// The system call that failed; the lock then works as `Futex`.
    pub fn create(&self) -> Result<(), SysError> {
        self.semaphore().map(drop)
    }

    #[inline]
    fn semaphore(&self) -> Result<u64, SysError> {
        if let Some(set) = self.object.lazy.get() {
            return Ok(set);
        }
        self.make()
    }

    #[cold]
    fn make(&self) -> Result<u64, SysError> {
        let set = self.object.lazy.get_or_make(&KIND)?;
        self.maker.store(kernel::process_id(), Ordering::Relaxed);
        Ok(set)
    }

    fn acquire(&self) {
        match self.semaphore() {
            Ok(set) => kernel::sem_take(set, None).map(drop).unwrap_or_else(|error| broken(NAME, error)),
            Err(_) => self.object.stand_in.acquire(),
        }
    }

    fn acquire_until(&self, deadline: DeadlineNs) -> bool {
        match self.semaphore() {
            Ok(set) => kernel::sem_take(set, Some(deadline)).unwrap_or_else(|error| broken(NAME, error)) == Taken::Yes,
            Err(_) => self.object.stand_in.acquire_until(deadline),
        }
    }

    fn try_acquire(&self) -> bool {
        match self.semaphore() {
            Ok(set) => kernel::sem_try(set) == Taken::Yes,
            Err(_) => self.object.stand_in.try_acquire(),
        }
    }

    fn release(&self) {
        match self.semaphore() {
            Ok(set) => kernel::sem_give(set).unwrap_or_else(|error| broken(NAME, error)),
            Err(_) => self.object.stand_in.release(),
        }
    }

    fn held(&self) -> bool {
        match self.object.lazy.get() {
            Some(set) => kernel::sem_held(set),
            None => self.object.stand_in.held(),
        }
    }
}

impl Drop for SysvSem {
    fn drop(&mut self) {
        crate::lock::misuse::before_drop(self);
        if let Some(set) = self.object.lazy.get()
            && self.maker.load(Ordering::Relaxed) == kernel::process_id()
        {
            (KIND.free)(set);
        }
    }
}

impl Default for SysvSem {
    fn default() -> Self {
        Self::new()
    }
}

raw_mutex!([] SysvSem, GuardNoSend, Self::new());
raw_mutex_timed!([] SysvSem);
modelled!([] SysvSem; object, maker);
