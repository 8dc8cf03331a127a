//! The functions that ours stand before: looked up when one is first needed, once for all.
//!
//! On glibc 2.34 and later neither `dlsym` nor `dlvsym` allocates when it finds what it looks for, and all names here
//! are there. The first call comes while a program is loaded, before it has a second thread; so the loader's own lock,
//! which a look-up takes, is free or held by the same thread.

use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{clockid_t, pthread_cond_t, pthread_mutexattr_t, timespec};

use super::mutex::Mutex;

/// A function that is looked up by name, and the version of it, if not the newest.
struct Found {
    name: &'static CStr,
    version: Option<&'static CStr>,
    address: AtomicPtr<c_void>,
}

impl Found {
    const fn new(name: &'static CStr) -> Self {
        Found { name, version: None, address: AtomicPtr::new(ptr::null_mut()) }
    }

    const fn of_version(name: &'static CStr, version: &'static CStr) -> Self {
        Found { name, version: Some(version), address: AtomicPtr::new(ptr::null_mut()) }
    }

    #[inline]
    fn address(&self) -> *mut c_void {
        let address = self.address.load(Ordering::Relaxed);
        if address.is_null() { self.look_up() } else { address }
    }

    /// Several threads may do this at the same time: all find the same.
    #[cold]
    fn look_up(&self) -> *mut c_void {
        let next = libc::RTLD_NEXT;
        // SAFETY: both names end with 0.
        let address = unsafe {
            match self.version {
                None => libc::dlsym(next, self.name.as_ptr()),
                Some(version) => libc::dlvsym(next, self.name.as_ptr(), version.as_ptr()),
            }
        };
        if address.is_null() {
            // SAFETY: always sound. A program that runs must not go on with a lock that does nothing.
            unsafe { libc::abort() };
        }
        self.address.store(address, Ordering::Relaxed);
        address
    }
}

macro_rules! real {
    ($($(#[$doc:meta])* $abi:literal $name:ident($($arg:ident: $type:ty),*) $(-> $out:ty)? = $found:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// The arguments are as the function of that name requires.
            #[inline]
            pub unsafe fn $name($($arg: $type),*) $(-> $out)? {
                let address = found::$name.address();
                // SAFETY: the function of that name has this signature.
                let function: unsafe extern $abi fn($($type),*) $(-> $out)? = unsafe { transmute_copy(&address) };
                // SAFETY: the caller's promise.
                unsafe { function($($arg),*) }
            }
        )*

        /// Looks all of them up.
        pub fn look_up_all() {
            $( found::$name.look_up(); )*
        }

        #[allow(non_upper_case_globals)] // They are named as the functions that they find.
        mod found {
            use super::Found;
            $( pub static $name: Found = $found; )*
        }
    };
}

real! {
    /// `pthread_mutex_init`.
    "C" mutex_init(mutex: *mut Mutex, attributes: *const pthread_mutexattr_t) -> c_int = Found::new(c"pthread_mutex_init");
    /// `pthread_mutex_destroy`.
    "C" mutex_destroy(mutex: *mut Mutex) -> c_int = Found::new(c"pthread_mutex_destroy");
    /// `pthread_mutex_lock`.
    "C" mutex_lock(mutex: *mut Mutex) -> c_int = Found::new(c"pthread_mutex_lock");
    /// `pthread_mutex_trylock`.
    "C" mutex_trylock(mutex: *mut Mutex) -> c_int = Found::new(c"pthread_mutex_trylock");
    /// `pthread_mutex_timedlock`.
    "C" mutex_timedlock(mutex: *mut Mutex, until: *const timespec) -> c_int = Found::new(c"pthread_mutex_timedlock");
    /// `pthread_mutex_clocklock`.
    "C" mutex_clocklock(mutex: *mut Mutex, clock: clockid_t, until: *const timespec) -> c_int = Found::new(c"pthread_mutex_clocklock");
    /// `pthread_mutex_unlock`.
    "C" mutex_unlock(mutex: *mut Mutex) -> c_int = Found::new(c"pthread_mutex_unlock");
    /// `pthread_cond_wait`; the older version works on another structure.
    "C-unwind" cond_wait(cond: *mut pthread_cond_t, mutex: *mut Mutex) -> c_int = Found::of_version(c"pthread_cond_wait", c"GLIBC_2.3.2");
    /// `pthread_cond_timedwait`; the older version works on another structure.
    "C-unwind" cond_timedwait(cond: *mut pthread_cond_t, mutex: *mut Mutex, until: *const timespec) -> c_int = Found::of_version(c"pthread_cond_timedwait", c"GLIBC_2.3.2");
    /// `pthread_cond_clockwait`.
    "C-unwind" cond_clockwait(cond: *mut pthread_cond_t, mutex: *mut Mutex, clock: clockid_t, until: *const timespec) -> c_int = Found::new(c"pthread_cond_clockwait");
    /// `mtx_init`.
    "C" mtx_init(mutex: *mut Mutex, kind: c_int) -> c_int = Found::new(c"mtx_init");
    /// `mtx_destroy`.
    "C" mtx_destroy(mutex: *mut Mutex) = Found::new(c"mtx_destroy");
    /// `cnd_wait`.
    "C-unwind" cnd_wait(cond: *mut c_void, mutex: *mut Mutex) -> c_int = Found::new(c"cnd_wait");
    /// `cnd_timedwait`.
    "C-unwind" cnd_timedwait(cond: *mut c_void, mutex: *mut Mutex, until: *const timespec) -> c_int = Found::new(c"cnd_timedwait");
    /// `pthread_rwlock_init`.
    "C" rwlock_init(lock: *mut c_void, attributes: *const c_void) -> c_int = Found::new(c"pthread_rwlock_init");
    /// `pthread_rwlock_rdlock`.
    "C" rwlock_rdlock(lock: *mut c_void) -> c_int = Found::new(c"pthread_rwlock_rdlock");
    /// `pthread_rwlock_tryrdlock`.
    "C" rwlock_tryrdlock(lock: *mut c_void) -> c_int = Found::new(c"pthread_rwlock_tryrdlock");
    /// `pthread_rwlock_timedrdlock`.
    "C" rwlock_timedrdlock(lock: *mut c_void, until: *const timespec) -> c_int = Found::new(c"pthread_rwlock_timedrdlock");
    /// `pthread_rwlock_clockrdlock`.
    "C" rwlock_clockrdlock(lock: *mut c_void, clock: clockid_t, until: *const timespec) -> c_int = Found::new(c"pthread_rwlock_clockrdlock");
    /// `pthread_rwlock_wrlock`.
    "C" rwlock_wrlock(lock: *mut c_void) -> c_int = Found::new(c"pthread_rwlock_wrlock");
    /// `pthread_rwlock_trywrlock`.
    "C" rwlock_trywrlock(lock: *mut c_void) -> c_int = Found::new(c"pthread_rwlock_trywrlock");
    /// `pthread_rwlock_timedwrlock`.
    "C" rwlock_timedwrlock(lock: *mut c_void, until: *const timespec) -> c_int = Found::new(c"pthread_rwlock_timedwrlock");
    /// `pthread_rwlock_clockwrlock`.
    "C" rwlock_clockwrlock(lock: *mut c_void, clock: clockid_t, until: *const timespec) -> c_int = Found::new(c"pthread_rwlock_clockwrlock");
    /// `pthread_rwlock_unlock`.
    "C" rwlock_unlock(lock: *mut c_void) -> c_int = Found::new(c"pthread_rwlock_unlock");
    /// `sem_wait`.
    "C-unwind" sem_wait(semaphore: *mut c_void) -> c_int = Found::new(c"sem_wait");
    /// `sem_timedwait`.
    "C-unwind" sem_timedwait(semaphore: *mut c_void, until: *const timespec) -> c_int = Found::new(c"sem_timedwait");
    /// `sem_clockwait`.
    "C-unwind" sem_clockwait(semaphore: *mut c_void, clock: clockid_t, until: *const timespec) -> c_int = Found::new(c"sem_clockwait");
    /// `sem_trywait`.
    "C" sem_trywait(semaphore: *mut c_void) -> c_int = Found::new(c"sem_trywait");
    /// `prctl`.
    "C" prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int = Found::new(c"prctl");
    /// `pthread_spin_lock`.
    "C" spin_lock(lock: *mut c_void) -> c_int = Found::new(c"pthread_spin_lock");
    /// `pthread_spin_trylock`.
    "C" spin_trylock(lock: *mut c_void) -> c_int = Found::new(c"pthread_spin_trylock");
}
