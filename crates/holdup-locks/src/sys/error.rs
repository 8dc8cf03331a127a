//! What a failed system call says: its name and the system's own text.

use core::fmt;

/// A system call that failed, by name: what the `create` functions of the locks around an object of the system return.
///
/// ```
/// use holdup_locks::EventFd;
///
/// match EventFd::new().create() {
///     Ok(()) => println!("the lock is an eventfd"),
///     Err(why) => println!("the lock will work as Futex: {why} (error {} of {})", why.errno(), why.call()),
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SysError {
    call: &'static str,
    errno: i32,
}

impl SysError {
    pub(crate) const fn new(call: &'static str, errno: i32) -> Self {
        Self { call, errno }
    }

    /// The call that failed.
    #[must_use]
    pub const fn call(&self) -> &'static str {
        self.call
    }

    /// The system's error number; 0 if this system has no such call.
    #[must_use]
    pub const fn errno(&self) -> i32 {
        self.errno
    }
}

impl fmt::Display for SysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.errno {
            0 => write!(f, "{}: this system has no such call", self.call),
            errno => write!(f, "{}: {}", self.call, std::io::Error::from_raw_os_error(errno)),
        }
    }
}

impl std::error::Error for SysError {}
