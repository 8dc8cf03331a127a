//! `CRITICAL_SECTION`: the lock of Windows programs, in user space while it is free, with an optional spin count.
//!
//! | section | meaning |
//! |---|---|
//! | no owner | free |
//! | owner, recursion 1 | held |
//! | owner, recursion 2 and more | entered again by its owner through [`CriticalSection::enter`] |
//!
//! Invariants: those of kernel.rs, and
//! 1. The system admits one owner at a time. The section must not move and has no constant initial value, so it is made
//!    at first use in memory of its own: this lock allocates its 40 bytes once, and frees them when it is dropped.
//! 2. As a `RawMutex` it is not recursive, though the object is: an entry that finds the recursion above 1 is the
//!    owner's own second one, and leaves again at once. `try_lock` then fails; `lock`, which could only wait for
//!    itself, panics.
//! 3. Only the owner's thread leaves; hence the guard cannot be sent to another thread.
//!
//! # Memory orderings
//! Entering acquires and leaving releases, by the system's contract. The recursion is read by the owner, who alone
//! writes it; the owner is read Relaxed, as a hint. `mutual_exclusion` in tests/conformance.rs holds it, under Wine.
//!
//! Source: Win32, InitializeCriticalSectionAndSpinCount; the first way of Hart (1998).

use super::kernel::{Kind, Object, object_ends};
use crate::sys::{SysError, win32};

const NAME: &str = "critical-section";
const KIND: Kind =
    Kind { call: "InitializeCriticalSectionAndSpinCount", make: win32::section_new, free: win32::section_free };

/// The lock of Windows programs, `CRITICAL_SECTION`, with an optional spin count. 24 bytes, and 40 allocated at first
/// use.
///
/// ```
/// use holdup_locks::{Mutex, CriticalSection};
///
/// let value = Mutex::<CriticalSection, u32>::new(1);
/// *value.lock() += 1;
/// assert_eq!(*value.lock(), 2);
/// ```
///
/// # Cost
/// An atomic operation each way when free, and one load more to find the section.
///
/// Measured: not in the [table](crate#measured).
///
/// # When not to use it
/// Where turns matter: newcomers may pass waiters, so it starves as `Futex` does; use [`Adaptive`](crate::Adaptive) or
/// [`Fair`](crate::Fair). Where allocation is forbidden.
///
/// # Errors
/// Where this cannot be had (another system, no handle left), the lock silently works as [`Futex`](crate::Futex);
/// [`CriticalSection::create`] tells.
///
/// # Source
/// Win32, InitializeCriticalSectionAndSpinCount; the first way of Hart (1998).
pub struct CriticalSection {
    object: Object,
    spin: u32,
}

impl CriticalSection {
    /// A free lock without a spin count; its section is made at first use.
    #[must_use]
    pub const fn new() -> Self {
        Self::with_spin(0)
    }

    /// A free lock whose waiters look `spin` times before they sleep, as with `InitializeCriticalSectionAndSpinCount`.
    #[must_use]
    pub const fn with_spin(spin: u32) -> Self {
        Self { object: Object::new(), spin }
    }

    /// Makes the section now, if it is not made yet.
    ///
    /// # Errors
    /// The system call that failed; the lock then works as `Futex`.
    pub fn create(&self) -> Result<(), SysError> {
        self.section().map(drop)
    }

    /// Enters the section as Win32 programs do: its owner may enter it again, and leaves it as often with
    /// [`CriticalSection::leave`].
    ///
    /// Where the lock works as `Futex` (see [`CriticalSection::create`]) it is not recursive.
    #[inline]
    pub fn enter(&self) {
        match self.section() {
            Ok(section) => win32::section_enter(section),
            Err(_) => self.object.stand_in.acquire(),
        }
    }

    /// Leaves one level that [`CriticalSection::enter`] entered.
    ///
    /// # Safety
    /// The calling thread has entered that level and not left it.
    #[inline]
    pub unsafe fn leave(&self) {
        self.release();
    }

    #[inline]
    fn section(&self) -> Result<u64, SysError> {
        match self.object.lazy.get() {
            Some(section) => Ok(section),
            None => self.make(),
        }
    }

    #[cold]
    fn make(&self) -> Result<u64, SysError> {
        let section = self.object.lazy.get_or_make(&KIND)?;
        // Whoever was quicker spins less, once.
        win32::section_spin(section, self.spin);
        Ok(section)
    }

    #[inline]
    fn acquire(&self) {
        match self.section() {
            Ok(section) => {
                win32::section_enter(section);
                if win32::section_depth(section) != 1 {
                    self.entered_again(section);
                }
            }
            Err(_) => self.object.stand_in.acquire(),
        }
    }

    #[cold]
    fn entered_again(&self, section: u64) -> ! {
        win32::section_leave(section);
        panic!("holdup-locks: {NAME} lock taken again by the thread that holds it")
    }

    #[inline]
    fn try_acquire(&self) -> bool {
        let Ok(section) = self.section() else { return self.object.stand_in.try_acquire() };
        if !win32::section_try(section) {
            return false;
        }
        if win32::section_depth(section) == 1 {
            return true;
        }
        win32::section_leave(section);
        false
    }

    #[inline]
    fn release(&self) {
        match self.object.lazy.get() {
            Some(section) => {
                debug_assert!(win32::section_held(section), "holdup-locks: {NAME} lock released while free");
                debug_assert!(
                    win32::section_is_mine(section),
                    "holdup-locks: {NAME} lock released by a thread that does not hold it"
                );
                win32::section_leave(section);
            }
            None => self.object.stand_in.release(),
        }
    }

    fn held(&self) -> bool {
        match self.object.lazy.get() {
            Some(section) => win32::section_held(section),
            None => self.object.stand_in.held(),
        }
    }
}

object_ends!(CriticalSection);
raw_mutex!([] CriticalSection, GuardNoSend, Self::new());
