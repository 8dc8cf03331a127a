//! OpenMP's locks: critical sections and the `omp_` locks of libgomp, and of any runtime with these names.
//!
//! The runtime's own function keeps the lock, always. Under another policy than glibc's a thread first takes a mutex of
//! ours that stands beside the lock, and waits for that by the policy; then it finds the lock free. So whoever reaches
//! the runtime's functions without us (Fortran's names, a plugin, another thread before the policy changed) excludes on
//! the same lock as ever, and nothing is known here of how the runtime lays it out.
//!
//! The mutexes are in a table by the lock's address. An entry is never given back: what lies at an address later is
//! taken for the same lock. `through` and `depth` are written by the lock's holder alone.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use holdup_control::Policy;

use super::beside::{self, Entry};
use super::process::Served;
use super::wait::Wait;
use super::{clock, hooks, policy, record, start};

/// Stands for the lock of all critical sections without a name, whose address the runtime keeps to itself.
static UNNAMED: u32 = 0;

fn is_mine(entry: &Entry, served: Served) -> bool {
    entry.mutex.owner.load(Ordering::Relaxed) == served.thread.tid.get()
}

fn policy_of(entry: &Entry, served: Served) -> Policy {
    let own = record::existing(served.process, &entry.mutex).and_then(record::Record::policy);
    own.unwrap_or_else(|| served.process.policy())
}

fn acquired(entry: &Entry, served: Served, through: bool, site: usize) {
    entry.held.store(1, Ordering::Relaxed);
    entry.through.store(u32::from(through), Ordering::Relaxed);
    entry.depth.store(1, Ordering::Relaxed);
    entry.mutex.owner.store(served.thread.tid.get(), Ordering::Relaxed);
    hooks::counted(served, &entry.mutex, site);
}

/// The entry of a lock; none if the table is full, or the call is not to be served.
fn entry(address: u64) -> Option<(Served, &'static Entry)> {
    let served = start::enter()?;
    Some((served, beside::entry(address)?))
}

fn acquire(address: u64, site: usize, real: impl FnOnce()) {
    match entry(address) {
        None => real(),
        Some((served, entry)) => acquire_served(served, entry, site, real),
    }
}

fn acquire_served(served: Served, entry: &Entry, site: usize, real: impl FnOnce()) {
    let mutex = &entry.mutex;
    let through = policy_of(entry, served) != Policy::Glibc;
    if through {
        if !mutex.try_acquire() {
            let waited = policy::lock(served, mutex, 0, None, site);
            debug_assert!(waited.is_ok(), "only a deadline ends a wait without the mutex");
        }
        real();
    } else if entry.held.load(Ordering::Relaxed) == 0 {
        real();
    } else {
        let mut wait = Wait::begin(served, mutex, 0, None, site);
        let began = served.process.times_waits().then(clock::now);
        real();
        wait.end(site, began);
    }
    acquired(entry, served, through, site);
}

/// One attempt; what the runtime's function returned, or 0 if the lock is held.
fn attempt(address: u64, site: usize, real: impl FnOnce() -> c_int) -> c_int {
    let Some((served, entry)) = entry(address) else { return real() };
    let mutex = &entry.mutex;
    let through = policy_of(entry, served) != Policy::Glibc;
    if through && !mutex.try_acquire() {
        return 0;
    }
    let result = real();
    if result != 0 {
        acquired(entry, served, through, site);
    } else if through {
        policy::release(served, mutex, 0);
    }
    result
}

fn release(address: u64, real: impl FnOnce()) {
    let Some((served, entry)) = entry(address) else { return real() };
    hooks::hold_ends(served, &entry.mutex);
    entry.held.store(0, Ordering::Relaxed);
    entry.mutex.owner.store(0, Ordering::Relaxed);
    let through = entry.through.load(Ordering::Relaxed) != 0;
    entry.through.store(0, Ordering::Relaxed);
    // From here on the lock is another's, and its memory may be gone; the entry stays.
    real();
    if through {
        policy::release(served, &entry.mutex, 0);
    }
}

/// A function of the runtime. A program need not have one, so it is looked up when a call to it is to be passed on.
struct Real {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Real {
        Real { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Where it is. Behind us in the order of all libraries, or among those of the caller: a plugin may have brought a
    /// runtime that nobody else sees.
    fn find(&self, site: usize) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with 0.
        let mut found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        if found.is_null() {
            found = self.of_caller(site);
        }
        if found.is_null() {
            // SAFETY: always sound. A program that runs must not go on with a lock that does nothing.
            unsafe { libc::abort() };
        }
        self.address.store(found, Ordering::Relaxed);
        found
    }

    fn of_caller(&self, site: usize) -> *mut c_void {
        // SAFETY: zero is a valid value of the structure, which the call fills in; the file's name ends with 0, and the
        // module, whose code is running, is only referred to once more.
        unsafe {
            let mut info: libc::Dl_info = std::mem::zeroed();
            if libc::dladdr(site as *const c_void, &raw mut info) == 0 {
                return ptr::null_mut();
            }
            let name: *const c_char = info.dli_fname;
            let module = libc::dlopen(name, libc::RTLD_LAZY | libc::RTLD_NOLOAD);
            if module.is_null() { ptr::null_mut() } else { libc::dlsym(module, self.name.as_ptr()) }
        }
    }
}

/// The runtime's function of this name, called with these arguments.
macro_rules! real {
    ($name:literal, $site:expr, fn($($type:ty),*) -> $out:ty, ($($arg:expr),*)) => {{
        static REAL: Real = Real::new($name);
        // SAFETY: the runtime's function has this signature.
        let function: unsafe extern "C" fn($($type),*) -> $out = unsafe { transmute(REAL.find($site)) };
        // SAFETY: the arguments are the caller's, who keeps what the function asks for.
        unsafe { function($($arg),*) }
    }};
}

/// `GOMP_critical_start`.
///
/// # Safety
/// As the runtime's function.
pub unsafe extern "C" fn critical_start(site: usize) {
    acquire(&raw const UNNAMED as u64, site, || real!(c"GOMP_critical_start", site, fn() -> (), ()));
}

/// `GOMP_critical_end`.
///
/// # Safety
/// The calling thread is in a critical section without a name.
pub unsafe extern "C" fn critical_end(site: usize) {
    release(&raw const UNNAMED as u64, || real!(c"GOMP_critical_end", site, fn() -> (), ()));
}

/// `GOMP_critical_name_start`.
///
/// # Safety
/// `lock` is the place of a critical section's name.
pub unsafe extern "C" fn name_start(lock: *mut c_void, site: usize) {
    acquire(lock as u64, site, || real!(c"GOMP_critical_name_start", site, fn(*mut c_void) -> (), (lock)));
}

/// `GOMP_critical_name_end`.
///
/// # Safety
/// The calling thread is in the critical section of that name.
pub unsafe extern "C" fn name_end(lock: *mut c_void, site: usize) {
    release(lock as u64, || real!(c"GOMP_critical_name_end", site, fn(*mut c_void) -> (), (lock)));
}

/// `omp_set_lock`.
///
/// # Safety
/// `lock` points to an initialised lock, which outlives the call.
pub unsafe extern "C" fn set(lock: *mut c_void, site: usize) {
    acquire(lock as u64, site, || real!(c"omp_set_lock", site, fn(*mut c_void) -> (), (lock)));
}

/// `omp_test_lock`.
///
/// # Safety
/// `lock` points to an initialised lock, which outlives the call.
pub unsafe extern "C" fn test(lock: *mut c_void, site: usize) -> c_int {
    attempt(lock as u64, site, || real!(c"omp_test_lock", site, fn(*mut c_void) -> c_int, (lock)))
}

/// `omp_unset_lock`.
///
/// # Safety
/// `lock` points to a lock that the calling task holds.
pub unsafe extern "C" fn unset(lock: *mut c_void, site: usize) {
    release(lock as u64, || real!(c"omp_unset_lock", site, fn(*mut c_void) -> (), (lock)));
}

/// `omp_set_nest_lock`.
///
/// # Safety
/// `lock` points to an initialised lock that can be nested, which outlives the call.
pub unsafe extern "C" fn set_nest(lock: *mut c_void, site: usize) {
    let real = || real!(c"omp_set_nest_lock", site, fn(*mut c_void) -> (), (lock));
    match entry(lock as u64) {
        Some((served, entry)) if is_mine(entry, served) => {
            real();
            entry.depth.store(entry.depth.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        _ => acquire(lock as u64, site, real),
    }
}

/// `omp_test_nest_lock`.
///
/// # Safety
/// `lock` points to an initialised lock that can be nested, which outlives the call.
pub unsafe extern "C" fn test_nest(lock: *mut c_void, site: usize) -> c_int {
    let real = || real!(c"omp_test_nest_lock", site, fn(*mut c_void) -> c_int, (lock));
    match entry(lock as u64) {
        Some((served, entry)) if is_mine(entry, served) => {
            let depth = real();
            if depth > 0 {
                entry.depth.store(depth as u32, Ordering::Relaxed);
            }
            depth
        }
        _ => attempt(lock as u64, site, real),
    }
}

/// `omp_unset_nest_lock`.
///
/// # Safety
/// `lock` points to a lock that the calling task holds.
pub unsafe extern "C" fn unset_nest(lock: *mut c_void, site: usize) {
    let real = || real!(c"omp_unset_nest_lock", site, fn(*mut c_void) -> (), (lock));
    match entry(lock as u64) {
        Some((served, entry)) if is_mine(entry, served) && entry.depth.load(Ordering::Relaxed) > 1 => {
            entry.depth.store(entry.depth.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
            real();
        }
        _ => release(lock as u64, real),
    }
}
