//! A lock as C holds it: the Rust lock, and behind it the state of its present acquisition if it has one.
//!
//! Invariant: `state` is written after an acquisition and read before its release, by the holder; so the lock itself
//! guards it. Only the CLH locks have a state (their queue node); for the others the field has no size and no code.

use core::cell::UnsafeCell;
use core::ffi::c_int;
use core::mem::{self, ManuallyDrop, MaybeUninit};
use core::time::Duration;

use holdup_locks::SysError;
use lock_api::{RawMutex, RawMutexTimed, RawRwLock};

/// See the module.
#[repr(C)]
pub(crate) struct Held<L: RawMutex> {
    pub(crate) lock: L,
    state: UnsafeCell<MaybeUninit<L::Guard>>,
}

// SAFETY: by the module's invariant one thread at a time accesses `state`, in the order of the lock's acquisitions.
unsafe impl<L: RawMutex + Sync> Sync for Held<L> {}

impl<L: RawMutex> Held<L> {
    #[inline]
    pub(crate) fn free() -> Self {
        Self { lock: L::INIT, state: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// The lock behind a pointer that C gave.
    ///
    /// # Safety
    /// The memory is an initialised lock of this kind, and stays so while the reference is used.
    #[inline]
    pub(crate) unsafe fn at<'a, C>(lock: *const C) -> &'a Self {
        const { fits::<L, C>() };
        // SAFETY: the caller's promise; `fits` has compared the types.
        unsafe { &*lock.cast() }
    }

    #[inline]
    pub(crate) fn lock(&self) {
        let state = self.lock.lock();
        // SAFETY: we hold the lock.
        unsafe { self.keep(state) };
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> bool {
        // SAFETY: we hold the lock.
        self.lock.try_lock().map(|state| unsafe { self.keep(state) }).is_some()
    }

    #[inline]
    pub(crate) fn try_lock_for(&self, timeout_ns: u64) -> bool
    where
        L: RawMutexTimed<Duration = Duration>,
    {
        let state = self.lock.try_lock_for(Duration::from_nanos(timeout_ns));
        // SAFETY: we hold the lock.
        state.map(|state| unsafe { self.keep(state) }).is_some()
    }

    /// # Safety
    /// The calling thread holds the lock. A build with checks finds one that does not.
    #[inline]
    pub(crate) unsafe fn unlock(&self, name: &str) {
        // The lock checks all misuse itself; this only comes before the state of an acquisition that never was is read.
        debug_assert!(self.lock.is_locked(), "holdup-locks: {name} lock at {self:p} released while free");
        // SAFETY: we hold the lock, so its acquisition has written the state, and this is the only release of it.
        unsafe { self.lock.unlock((*self.state.get()).assume_init_read()) };
    }

    /// # Safety
    /// The calling thread holds the lock.
    #[inline]
    unsafe fn keep(&self, state: L::Guard) {
        // SAFETY: the module's invariant: nobody else accesses the cell.
        unsafe { (*self.state.get()).write(state) };
    }
}

/// Writes a free lock.
///
/// # Safety
/// `lock` is memory for a `C`, aligned, that no thread uses.
#[inline]
pub(crate) unsafe fn init<L: RawMutex, C>(lock: *mut C) {
    const { fits::<L, C>() };
    // SAFETY: the caller's promise; `fits` has compared the types.
    unsafe { lock.cast::<Held<L>>().write(Held::free()) };
}

/// Ends a lock.
///
/// # Safety
/// `lock` is an initialised lock of this kind that no thread uses any more.
#[inline]
pub(crate) unsafe fn destroy<L: RawMutex, C>(lock: *mut C) {
    const { fits::<L, C>() };
    // SAFETY: the caller's promise; the lock is not used after this. A build with checks finds a held one.
    unsafe { lock.cast::<Held<L>>().drop_in_place() };
}

/// What `create` reports to C.
pub(crate) fn error_number(created: Result<(), SysError>) -> c_int {
    created.map_or_else(|error| error.errno().max(1), |()| 0)
}

/// Stops the build if the C type has no room for the lock, or too weak an alignment.
pub(crate) const fn fits<L: RawMutex, C>() {
    assert!(mem::size_of::<Held<L>>() <= mem::size_of::<C>(), "the C type is too small: raise its words in build.rs");
    assert!(mem::align_of::<Held<L>>() <= mem::align_of::<C>(), "the C type is aligned too weakly");
    assert!(mem::size_of::<usize>() == 8 && cfg!(target_endian = "little"), "C types are for 64 bits, little-endian");
}

/// Whether a free lock is these words. Zeros are compared by the tests in C, as padding cannot be read here.
pub(crate) const fn starts_as<L: RawMutex, const WORDS: usize>(words: [u64; WORDS]) -> bool {
    if words[0] == 0 {
        return true;
    }
    // Only locks that fill their words have words that are not zero.
    assert!(mem::size_of::<L>() == 8 * WORDS);
    let free = ManuallyDrop::new(L::INIT);
    // SAFETY: the sizes are equal (asserted above), the compiler refuses padding, and every bit pattern is a u64.
    let found: [u64; WORDS] = unsafe { mem::transmute_copy(&free) };
    let mut index = 0;
    while index < WORDS {
        if found[index] != words[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Whether a free reader-writer lock begins with these words of 4 bytes, which its first fields fill.
pub(crate) const fn begins_as<L: RawRwLock>(words: &[u32]) -> bool {
    let free = ManuallyDrop::new(L::INIT);
    let fields = (&raw const free).cast::<u32>();
    let mut index = 0;
    while index < words.len() {
        // SAFETY: within the lock, aligned; the compiler refuses padding, which is no u32.
        if unsafe { *fields.add(index) } != words[index] {
            return false;
        }
        index += 1;
    }
    true
}
