//! Where the Win32 objects do not exist (other systems, and models): making one fails and says so.

use super::atomic::AtomicU32;
use super::{ANY, SysError, Waited, wait, wake};

/// Whether this system has these objects.
pub(crate) const PRESENT: bool = false;

macro_rules! absent {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $call:literal;)*) => {$(
        pub(crate) fn $name($($argument: $type),*) -> Result<$result, SysError> {
            $(let _ = $argument;)*
            Err(SysError::new($call, 0))
        }
    )*};
}

absent! {
    mutex_new() -> u64, "CreateMutexW";
    event_new() -> u64, "CreateEventW";
    semaphore_new() -> u64, "CreateSemaphoreW";
    section_new() -> u64, "InitializeCriticalSectionAndSpinCount";
    object_take(object: u64, deadline: Option<u64>) -> Waited, "WaitForSingleObject";
    mutex_give(object: u64) -> (), "ReleaseMutex";
    event_give(object: u64) -> (), "SetEvent";
    semaphore_give(object: u64) -> (), "ReleaseSemaphore";
}

pub(crate) fn is_not_owner(_error: &SysError) -> bool {
    false
}
pub(crate) fn object_free(_object: u64) {}
pub(crate) fn section_spin(_section: u64, _spin: u32) {}
pub(crate) fn section_enter(_section: u64) {}
pub(crate) fn section_try(_section: u64) -> bool {
    false
}
pub(crate) fn section_leave(_section: u64) {}
pub(crate) fn section_depth(_section: u64) -> i32 {
    0
}
pub(crate) fn section_held(_section: u64) -> bool {
    false
}
pub(crate) fn section_is_mine(_section: u64) -> bool {
    false
}
pub(crate) fn section_free(_section: u64) {}

/// Never taken here: its lock asks `PRESENT` first.
pub(crate) struct Slim;

impl Slim {
    pub(crate) const fn new() -> Slim {
        Slim
    }
    pub(crate) fn take(&self) {}
    pub(crate) fn try_take(&self) -> bool {
        false
    }
    pub(crate) fn give(&self) {}
}

/// Sleeps on the word by this system's own means.
pub(crate) fn address_wait(word: &AtomicU32, value: u32, deadline: Option<u64>) {
    wait(word, value, ANY, deadline);
}

/// Wakes one that sleeps on the word.
pub(crate) fn address_wake(word: &AtomicU32) {
    wake(word, 1, ANY);
}
