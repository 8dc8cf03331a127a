//! The Win32 objects: mutex, event and semaphore by their handles, CRITICAL_SECTION by its address, SRWLOCK in place.

use super::{left_ms, now_ns, sleep_on, wake_sleeper};
use crate::sys::atomic::AtomicU32;
use crate::sys::{SysError, Waited};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, Ordering};
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_NOT_OWNER, GetLastError, HANDLE, WAIT_ABANDONED, WAIT_FAILED, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::Threading::{
    AcquireSRWLockExclusive, CRITICAL_SECTION, CreateEventW, CreateMutexW, CreateSemaphoreW, DeleteCriticalSection,
    EnterCriticalSection, GetCurrentThreadId, InitializeCriticalSectionAndSpinCount, LeaveCriticalSection,
    ReleaseMutex, ReleaseSRWLockExclusive, ReleaseSemaphore, SRWLOCK, SRWLOCK_INIT, SetCriticalSectionSpinCount,
    SetEvent, TryAcquireSRWLockExclusive, TryEnterCriticalSection, WaitForSingleObject,
};

/// Whether this system has these objects.
pub(crate) const PRESENT: bool = true;

fn failed(call: &'static str) -> SysError {
    // SAFETY: takes nothing.
    let code = unsafe { GetLastError() };
    SysError::new(call, code as i32)
}

fn made(call: &'static str, handle: HANDLE) -> Result<u64, SysError> {
    if handle.is_null() { Err(failed(call)) } else { Ok(handle as u64) }
}

fn done(call: &'static str, succeeded: i32) -> Result<(), SysError> {
    if succeeded == 0 { Err(failed(call)) } else { Ok(()) }
}

/// A free mutex without a name.
pub(crate) fn mutex_new() -> Result<u64, SysError> {
    // SAFETY: null means default security and no name.
    made("CreateMutexW", unsafe { CreateMutexW(ptr::null(), 0, ptr::null()) })
}

/// An auto-reset event that is set: free.
pub(crate) fn event_new() -> Result<u64, SysError> {
    // SAFETY: null means default security and no name.
    made("CreateEventW", unsafe { CreateEventW(ptr::null(), 0, 1, ptr::null()) })
}

/// A semaphore of one, free.
pub(crate) fn semaphore_new() -> Result<u64, SysError> {
    // SAFETY: null means default security and no name.
    made("CreateSemaphoreW", unsafe { CreateSemaphoreW(ptr::null(), 1, 1, ptr::null()) })
}

/// Waits for the object and takes it, until the deadline if there is one; a deadline of 0 is a try.
pub(crate) fn object_take(object: u64, deadline: Option<u64>) -> Result<Waited, SysError> {
    loop {
        let wait_ms = if deadline == Some(0) { 0 } else { left_ms(deadline) };
        // SAFETY: the handle is one that the caller's lock keeps open.
        match unsafe { WaitForSingleObject(object as HANDLE, wait_ms) } {
            WAIT_OBJECT_0 => return Ok(Waited::Taken),
            WAIT_ABANDONED => return Ok(Waited::Inherited),
            WAIT_FAILED => return Err(failed("WaitForSingleObject")),
            _ if deadline.is_some_and(|deadline| now_ns() >= deadline) => return Ok(Waited::TimedOut),
            _ => {}
        }
    }
}

/// Gives one level of the mutex back.
pub(crate) fn mutex_give(object: u64) -> Result<(), SysError> {
    // SAFETY: the handle is one that the caller's lock keeps open.
    done("ReleaseMutex", unsafe { ReleaseMutex(object as HANDLE) })
}

/// Whether the error says that the calling thread does not own the mutex.
pub(crate) fn is_not_owner(error: &SysError) -> bool {
    error.errno() == ERROR_NOT_OWNER as i32
}

/// Sets the event.
pub(crate) fn event_give(object: u64) -> Result<(), SysError> {
    // SAFETY: the handle is one that the caller's lock keeps open.
    done("SetEvent", unsafe { SetEvent(object as HANDLE) })
}

/// Adds one to the semaphore.
pub(crate) fn semaphore_give(object: u64) -> Result<(), SysError> {
    // SAFETY: the handle is one that the caller's lock keeps open; null means that nobody asks for the old count.
    done("ReleaseSemaphore", unsafe { ReleaseSemaphore(object as HANDLE, 1, ptr::null_mut()) })
}

/// Closes the handle.
pub(crate) fn object_free(object: u64) {
    // SAFETY: the caller owns the handle and does not use it again.
    unsafe { CloseHandle(object as HANDLE) };
}

/// A free critical section, in memory of its own because it must not move.
pub(crate) fn section_new() -> Result<u64, SysError> {
    let section = Box::into_raw(Box::<CRITICAL_SECTION>::default());
    // SAFETY: fresh memory of the right size, which stays where it is until `section_free`.
    match done("InitializeCriticalSectionAndSpinCount", unsafe { InitializeCriticalSectionAndSpinCount(section, 0) }) {
        Ok(()) => Ok(section as u64),
        Err(error) => {
            // SAFETY: made by `into_raw` above, and nobody else has it.
            drop(unsafe { Box::from_raw(section) });
            Err(error)
        }
    }
}

/// Sets how often a waiter looks before it sleeps.
pub(crate) fn section_spin(section: u64, spin: u32) {
    // SAFETY: an initialised section; the call may come at any time.
    unsafe { SetCriticalSectionSpinCount(section as *mut CRITICAL_SECTION, spin) };
}

/// Enters the section, once more if the caller is in it.
#[inline]
pub(crate) fn section_enter(section: u64) {
    // SAFETY: an initialised section.
    unsafe { EnterCriticalSection(section as *mut CRITICAL_SECTION) };
}

/// Enters the section if nobody else is in it.
#[inline]
pub(crate) fn section_try(section: u64) -> bool {
    // SAFETY: an initialised section.
    unsafe { TryEnterCriticalSection(section as *mut CRITICAL_SECTION) != 0 }
}

/// Leaves one level of the section.
#[inline]
pub(crate) fn section_leave(section: u64) {
    // SAFETY: an initialised section, in which the caller is.
    unsafe { LeaveCriticalSection(section as *mut CRITICAL_SECTION) };
}

/// How often the calling thread, which is in the section, has entered it.
#[inline]
pub(crate) fn section_depth(section: u64) -> i32 {
    // SAFETY: an initialised section; only the thread inside writes the field, and that is the caller.
    unsafe { (*(section as *const CRITICAL_SECTION)).RecursionCount }
}

/// The thread that is in the section, by the system's number; 0 is nobody.
fn section_owner(section: u64) -> usize {
    let section = section as *mut CRITICAL_SECTION;
    // SAFETY: the field lies in an initialised section, is as large and aligned as a pointer, and is only read.
    let owner = unsafe { AtomicPtr::from_ptr(&raw mut (*section).OwningThread) };
    owner.load(Ordering::Relaxed) as usize
}

/// Whether somebody is in the section.
pub(crate) fn section_held(section: u64) -> bool {
    section_owner(section) != 0
}

/// Whether the calling thread is in the section.
pub(crate) fn section_is_mine(section: u64) -> bool {
    // SAFETY: takes nothing.
    section_owner(section) == unsafe { GetCurrentThreadId() } as usize
}

/// Ends the section, in which nobody is.
pub(crate) fn section_free(section: u64) {
    let section = section as *mut CRITICAL_SECTION;
    // SAFETY: made by `section_new`; the caller owns it and does not use it again.
    unsafe {
        DeleteCriticalSection(section);
        drop(Box::from_raw(section));
    }
}

/// A slim reader-writer lock, taken for writing only. It may move while it is free.
pub(crate) struct Slim(UnsafeCell<SRWLOCK>);

// SAFETY: the system's functions synchronise all access.
unsafe impl Send for Slim {}
// SAFETY: as above.
unsafe impl Sync for Slim {}

impl Slim {
    pub(crate) const fn new() -> Slim {
        Slim(UnsafeCell::new(SRWLOCK_INIT))
    }

    #[inline]
    pub(crate) fn take(&self) {
        // SAFETY: initialised, and alive through the borrow.
        unsafe { AcquireSRWLockExclusive(self.0.get()) };
    }

    #[inline]
    pub(crate) fn try_take(&self) -> bool {
        // SAFETY: as above.
        unsafe { TryAcquireSRWLockExclusive(self.0.get()) }
    }

    #[inline]
    pub(crate) fn give(&self) {
        // SAFETY: as above; the caller holds it.
        unsafe { ReleaseSRWLockExclusive(self.0.get()) };
    }
}

/// Sleeps on the word itself while it has this value, not past the deadline; may wake without a reason.
pub(crate) fn address_wait(word: &AtomicU32, value: u32, deadline: Option<u64>) {
    sleep_on(word, value, deadline);
}

/// Wakes one that sleeps on the word.
pub(crate) fn address_wake(word: &AtomicU32) {
    wake_sleeper(word);
}
