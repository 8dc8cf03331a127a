//! Where the kernel objects of Linux do not exist (other systems): making one fails and says so.

use super::atomic::AtomicU32;
use super::{SysError, Taken};

fn absent<T>(call: &'static str) -> Result<T, SysError> {
    Err(SysError::new(call, 0))
}

macro_rules! absent {
    ($($name:ident($($argument:ident: $type:ty),*) -> Result<$result:ty, SysError>;)*) => {$(
        pub(crate) fn $name($($argument: $type),*) -> Result<$result, SysError> {
            $(let _ = $argument;)*
            absent(stringify!($name))
        }
    )*};
}

absent! {
    event_new(semaphore: bool) -> Result<u64, SysError>;
    event_take(fd: u64) -> Result<(), SysError>;
    event_give(fd: u64) -> Result<(), SysError>;
    pipe_new() -> Result<u64, SysError>;
    pipe_take(pipe: u64) -> Result<(), SysError>;
    pipe_give(pipe: u64) -> Result<(), SysError>;
    await_readable(fd: u64, deadline: u64) -> Result<(), SysError>;
    sem_new() -> Result<u64, SysError>;
    sem_take(set: u64, deadline: Option<u64>) -> Result<Taken, SysError>;
    sem_give(set: u64) -> Result<(), SysError>;
    pi_take(word: &AtomicU32, deadline: Option<u64>) -> Result<Taken, SysError>;
    pi_try(word: &AtomicU32) -> Result<Taken, SysError>;
    pi_give(word: &AtomicU32) -> Result<(), SysError>;
}

pub(crate) fn event_try(_fd: u64) -> Taken {
    Taken::No
}
pub(crate) fn pipe_try(_pipe: u64) -> Taken {
    Taken::No
}
pub(crate) fn sem_try(_set: u64) -> Taken {
    Taken::No
}
pub(crate) fn sem_held(_set: u64) -> bool {
    false
}
pub(crate) fn read_end(pipe: u64) -> u64 {
    pipe
}
pub(crate) fn close(_fd: u64) {}
pub(crate) fn pipe_free(_pipe: u64) {}
pub(crate) fn sem_free(_set: u64) {}
pub(crate) fn process_id() -> u32 {
    std::process::id()
}
pub(crate) fn is_missing(_error: &SysError) -> bool {
    true
}
pub(crate) fn is_readable(_fd: u64) -> bool {
    true
}
