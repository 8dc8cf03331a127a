//! Whether a process can be served at all: what is around us, and what glibc's mutexes look like.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

use super::kernel::gettid;
use super::mutex::{HELD, Mutex, RECURSIVE, WAITED};
use super::real;

/// The calling thread's number as glibc has it, without a system call, which the program may have forbidden itself.
pub fn tid() -> u32 {
    let cell = UnsafeCell::new(Mutex::new());
    let mutex = cell.get();
    // SAFETY: a mutex of zeros and a kind is free, and this one is ours alone.
    unsafe {
        (*mutex).kind.store(RECURSIVE as u32, Ordering::Relaxed);
        real::mutex_lock(mutex);
        (*mutex).owner.load(Ordering::Relaxed)
    }
}

/// Whether calls reach another interposer before us, or ours another one after.
pub fn has_rival() -> bool {
    // SAFETY: the names end with 0, and on glibc 2.34 these calls neither allocate nor fail.
    let (first, next, libc_own) = unsafe {
        (
            libc::dlsym(libc::RTLD_DEFAULT, c"pthread_mutex_lock".as_ptr()),
            libc::dlsym(libc::RTLD_NEXT, c"pthread_mutex_lock".as_ptr()),
            libc::dlsym(libc::RTLD_NEXT, c"gnu_get_libc_version".as_ptr()),
        )
    };
    // Of what this library has, that name is one thing.
    let is_ours = base(first) == base(has_rival as *const c_void);
    (!is_ours && !is_stub(first)) || base(next) != base(libc_own)
}

/// Whether an address that a symbol has is that of a jump to where the symbol is defined: programs that are not
/// position independent have such stubs for functions whose address they take.
fn is_stub(address: *const c_void) -> bool {
    #[repr(C)]
    struct Symbol {
        name: u32,
        info: u8,
        other: u8,
        section: u16,
    }
    unsafe extern "C" {
        fn dladdr1(address: *const c_void, info: *mut libc::Dl_info, extra: *mut *const Symbol, flags: c_int) -> c_int;
    }
    const RTLD_DL_SYMENT: c_int = 1;
    const UNDEFINED: u16 = 0;
    let mut symbol = ptr::null();
    // SAFETY: zero is a valid value of the structure, which the call fills in; the symbol it gives lives as long as its
    // module.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        let found = dladdr1(address, &raw mut info, &raw mut symbol, RTLD_DL_SYMENT) != 0;
        found && !symbol.is_null() && (*symbol).section == UNDEFINED
    }
}

/// Where the module of an address begins.
fn base(address: *const c_void) -> usize {
    // SAFETY: zero is a valid value of the structure, which the call fills in.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(address, &raw mut info) == 0 { 0 } else { info.dli_fbase as usize }
    }
}

/// Whether glibc's own functions leave in a mutex of ours what we expect.
pub fn layout_is_known() -> bool {
    let zero = [0u64; 5];
    let cell = UnsafeCell::new(zero);
    let mutex = cell.get().cast::<Mutex>();
    let bytes = || {
        // SAFETY: the memory is ours alone.
        unsafe { mutex.cast::<[u32; 10]>().read_volatile() }
    };
    let tid = gettid();
    // SAFETY: a mutex of zeros is free, of type normal, and ours alone.
    unsafe {
        if real::mutex_lock(mutex) != 0 || bytes() != [HELD, 0, tid, 1, 0, 0, 0, 0, 0, 0] {
            return false;
        }
        if real::mutex_trylock(mutex) != libc::EBUSY {
            return false;
        }
        // The first to release must forget the mark of waiters, and wake on this word.
        (*mutex).word.store(WAITED, Ordering::Relaxed);
        // What glibc does not use must stay as it is.
        (*mutex).tally.store(7, Ordering::Relaxed);
        if real::mutex_unlock(mutex) != 0 || bytes() != [0, 0, 0, 0, 0, 7, 0, 0, 0, 0] {
            return false;
        }
        (*mutex).tally.store(0, Ordering::Relaxed);
        (*mutex).kind.store(RECURSIVE as u32, Ordering::Relaxed);
        let recursive = RECURSIVE as u32;
        real::mutex_lock(mutex) == 0
            && real::mutex_lock(mutex) == 0
            && bytes() == [HELD, 2, tid, 1, recursive, 0, 0, 0, 0, 0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layout_of_this_glibc_is_known() {
        assert!(layout_is_known());
    }
}
