//! The C library's mutexes and reader-writer lock.

use std::cell::UnsafeCell;

use crate::lock::BenchLock;
use crate::spec::Spec;

/// The default mutex.
pub type Normal = Mutex<{ libc::PTHREAD_MUTEX_NORMAL }, { libc::PTHREAD_PRIO_NONE }>;
/// Spins before it sleeps.
pub type Adaptive = Mutex<{ PTHREAD_MUTEX_ADAPTIVE_NP }, { libc::PTHREAD_PRIO_NONE }>;
/// May be taken again by its owner.
pub type Recursive = Mutex<{ libc::PTHREAD_MUTEX_RECURSIVE }, { libc::PTHREAD_PRIO_NONE }>;
/// Checks who takes and releases it.
pub type ErrorCheck = Mutex<{ libc::PTHREAD_MUTEX_ERRORCHECK }, { libc::PTHREAD_PRIO_NONE }>;
/// Lends the waiter's priority to the owner.
pub type PriorityInherit = Mutex<{ libc::PTHREAD_MUTEX_NORMAL }, { libc::PTHREAD_PRIO_INHERIT }>;

/// glibc's spinning kind; the libc crate does not name it.
const PTHREAD_MUTEX_ADAPTIVE_NP: libc::c_int = 3;

/// Serves several processes that share its memory.
pub type Shared = Mutex<{ libc::PTHREAD_MUTEX_NORMAL }, { libc::PTHREAD_PRIO_NONE }, { libc::PTHREAD_PROCESS_SHARED }>;

/// A pthread mutex of this type and protocol, for the threads of one process or of several.
pub struct Mutex<
    const TYPE: libc::c_int,
    const PROTOCOL: libc::c_int,
    const SHARED: libc::c_int = { libc::PTHREAD_PROCESS_PRIVATE },
>(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: a pthread mutex is made to be used by many threads at once, through its address.
unsafe impl<const TYPE: libc::c_int, const PROTOCOL: libc::c_int, const SHARED: libc::c_int> Sync
    for Mutex<TYPE, PROTOCOL, SHARED>
{
}

impl<const TYPE: libc::c_int, const PROTOCOL: libc::c_int, const SHARED: libc::c_int> BenchLock
    for Mutex<TYPE, PROTOCOL, SHARED>
{
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)))
    }

    fn settle(&self) -> Result<(), String> {
        // SAFETY: the attributes are initialised before they are used and destroyed after; the mutex lies in its final
        // place and nobody uses it yet.
        let result = unsafe {
            let mut attributes = std::mem::zeroed::<libc::pthread_mutexattr_t>();
            libc::pthread_mutexattr_init(&raw mut attributes);
            libc::pthread_mutexattr_settype(&raw mut attributes, TYPE);
            libc::pthread_mutexattr_setprotocol(&raw mut attributes, PROTOCOL);
            libc::pthread_mutexattr_setpshared(&raw mut attributes, SHARED);
            let result = libc::pthread_mutex_init(self.0.get(), &raw const attributes);
            libc::pthread_mutexattr_destroy(&raw mut attributes);
            result
        };
        match result {
            0 => Ok(()),
            error => Err(format!("pthread_mutex_init: {}", std::io::Error::from_raw_os_error(error))),
        }
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: initialised in its final place by `settle`.
        let locked = unsafe { libc::pthread_mutex_lock(self.0.get()) };
        debug_assert_eq!(locked, 0, "pthread_mutex_lock");
        let result = section();
        // SAFETY: as above, and this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        result
    }

    #[inline(always)]
    fn try_with<R>(&self, section: impl FnOnce() -> R) -> Option<R> {
        // SAFETY: as in `with`.
        let locked = unsafe { libc::pthread_mutex_trylock(self.0.get()) };
        if locked != 0 {
            return None;
        }
        let result = section();
        // SAFETY: as above, and this thread holds it.
        unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        Some(result)
    }
}

impl Normal {
    /// As a static variable begins.
    pub const fn initial() -> Normal {
        Mutex(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }
}

impl<const TYPE: libc::c_int, const PROTOCOL: libc::c_int, const SHARED: libc::c_int> Drop
    for Mutex<TYPE, PROTOCOL, SHARED>
{
    fn drop(&mut self) {
        // SAFETY: nobody can use it any more. A mutex that never settled is the static initialiser's, which may be
        // destroyed.
        unsafe { libc::pthread_mutex_destroy(self.0.get()) };
    }
}

/// Readers pass writers that wait: the default.
pub type PreferReader = RwLock<0>;
/// Asks for writers first, and does not get it: glibc honours recursive readers, so that readers pass all the same.
pub type PreferWriter = RwLock<1>;
/// Writers that wait keep new readers out.
pub type PreferWriterNonRecursive = RwLock<2>;

/// The C library's reader-writer lock of this kind (`PTHREAD_RWLOCK_PREFER_...`; the libc crate does not name them).
pub struct RwLock<const KIND: libc::c_int>(UnsafeCell<libc::pthread_rwlock_t>);

// SAFETY: a pthread reader-writer lock is made to be used by many threads at once, through its address.
unsafe impl<const KIND: libc::c_int> Sync for RwLock<KIND> {}

impl<const KIND: libc::c_int> RwLock<KIND> {
    #[inline(always)]
    fn release(&self) {
        // SAFETY: the callers hold it, initialised in its final place by `settle`.
        unsafe { libc::pthread_rwlock_unlock(self.0.get()) };
    }
}

impl<const KIND: libc::c_int> BenchLock for RwLock<KIND> {
    fn create(_: &Spec) -> Result<Self, String> {
        Ok(RwLock(UnsafeCell::new(libc::PTHREAD_RWLOCK_INITIALIZER)))
    }

    fn settle(&self) -> Result<(), String> {
        // SAFETY: the attributes are initialised before they are used and destroyed after; the lock lies in its final
        // place and nobody uses it yet.
        let result = unsafe {
            let mut attributes = std::mem::zeroed::<libc::pthread_rwlockattr_t>();
            libc::pthread_rwlockattr_init(&raw mut attributes);
            #[cfg(target_env = "gnu")]
            libc::pthread_rwlockattr_setkind_np(&raw mut attributes, KIND);
            let result = libc::pthread_rwlock_init(self.0.get(), &raw const attributes);
            libc::pthread_rwlockattr_destroy(&raw mut attributes);
            result
        };
        match result {
            0 if cfg!(target_env = "gnu") || KIND == 0 => Ok(()),
            0 => Err("only glibc has this kind of reader-writer lock; pthread-rwlock works".to_owned()),
            error => Err(format!("pthread_rwlock_init: {}", std::io::Error::from_raw_os_error(error))),
        }
    }

    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: initialised in its final place by `settle`.
        unsafe { libc::pthread_rwlock_wrlock(self.0.get()) };
        let result = section();
        self.release();
        result
    }

    #[inline(always)]
    fn with_shared<R>(&self, section: impl FnOnce() -> R) -> R {
        // SAFETY: as in `with`.
        unsafe { libc::pthread_rwlock_rdlock(self.0.get()) };
        let result = section();
        self.release();
        result
    }
}

impl<const KIND: libc::c_int> Drop for RwLock<KIND> {
    fn drop(&mut self) {
        // SAFETY: nobody can use it any more. A lock that never settled is the static initialiser's, which may be
        // destroyed.
        unsafe { libc::pthread_rwlock_destroy(self.0.get()) };
    }
}
