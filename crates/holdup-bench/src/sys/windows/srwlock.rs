//! The system's slim reader-writer lock with both of its sides, as a peer; our `SrwLock` has the writers' alone.

use std::cell::UnsafeCell;

use windows_sys::Win32::System::Threading::{
    AcquireSRWLockExclusive, AcquireSRWLockShared, ReleaseSRWLockExclusive, ReleaseSRWLockShared, SRWLOCK, SRWLOCK_INIT,
};

use crate::lock::BenchLock;
use crate::spec::Spec;

/// `SRWLOCK`.
pub struct Shared(UnsafeCell<SRWLOCK>);

// SAFETY: such a lock is made to be used by many threads at once, through its address.
unsafe impl Sync for Shared {}
// SAFETY: it may move while nobody has it; a cell's lock does so before its first use alone.
unsafe impl Send for Shared {}

impl BenchLock for Shared {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(Shared(UnsafeCell::new(SRWLOCK_INIT)))
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: initialised, and alive through the borrow.
        unsafe { AcquireSRWLockExclusive(self.0.get()) };
        let result = section();
        // SAFETY: this thread took it just above.
        unsafe { ReleaseSRWLockExclusive(self.0.get()) };
        result
    }

    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: as in `with`.
        unsafe { AcquireSRWLockShared(self.0.get()) };
        let result = section();
        // SAFETY: as in `with`.
        unsafe { ReleaseSRWLockShared(self.0.get()) };
        result
    }
}
