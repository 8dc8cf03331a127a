//! What the always-in-the-kernel locks share: a kernel object made at first use, and what happens when it cannot be
//! made.
//!
//! | `slot` | meaning |
//! |---|---|
//! | 0 | not made yet |
//! | bit 63 set | could not be made; the low bits hold the error number |
//! | else | the object's number + 1 |
//!
//! Invariants:
//! 1. `slot` leaves 0 once, by a compare-exchange; so all threads agree for ever on one object, or on there being none.
//! 2. A lock without an object works as a [`Futex`] instead: `lock` cannot report an error, and must not panic because
//!    some limit of the system is reached. Whoever must know, such as a benchmark, calls the lock's `create` before and
//!    gets the error.
//!
//! ORDERING: Release publishes a made object, Acquire finds it. The object's own system calls order the sections.

use super::futex::Futex;
use crate::sys::SysError;
use crate::sys::atomic::{AtomicU64, Ordering};

const FAILED: u64 = 1 << 63;

/// A kernel object that is made at first use.
pub(super) struct Lazy {
    slot: AtomicU64,
}

/// The functions that make and free one kind of object.
pub(super) struct Kind {
    pub(super) call: &'static str,
    pub(super) make: fn() -> Result<u64, SysError>,
    pub(super) free: fn(u64),
}

impl Lazy {
    pub(super) const fn new() -> Self {
        Self { slot: AtomicU64::new(0) }
    }

    /// The object, made now if need be; the error that the first try met, if it failed.
    #[inline]
    pub(super) fn get_or_make(&self, kind: &Kind) -> Result<u64, SysError> {
        match self.slot.load(Ordering::Acquire) {
            0 => self.make(kind),
            slot => decode(slot, kind),
        }
    }

    /// The object, if it was made.
    pub(super) fn get(&self) -> Option<u64> {
        match self.slot.load(Ordering::Acquire) {
            0 => None,
            slot if slot & FAILED != 0 => None,
            slot => Some(slot - 1),
        }
    }

    #[cold]
    fn make(&self, kind: &Kind) -> Result<u64, SysError> {
        let made = (kind.make)();
        let slot = match made {
            Ok(object) => object + 1,
            Err(error) => FAILED | u64::from(error.errno().unsigned_abs()),
        };
        match self.slot.compare_exchange(0, slot, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => made,
            Err(theirs) => {
                // Another thread was first.
                if let Ok(object) = made {
                    (kind.free)(object);
                }
                decode(theirs, kind)
            }
        }
    }
}

fn decode(slot: u64, kind: &Kind) -> Result<u64, SysError> {
    match slot & FAILED {
        0 => Ok(slot - 1),
        _ => Err(SysError::new(kind.call, (slot & !FAILED) as i32)),
    }
}

/// The object failed while in use: somebody closed or removed it. There is no way on that keeps exclusion.
#[cold]
pub(super) fn broken(lock: &str, error: SysError) -> ! {
    panic!("holdup-locks: the kernel object of a {lock} lock is gone: {error}")
}

/// A lock's object and the lock that stands in for it when it cannot be made.
pub(super) struct Object {
    pub(super) lazy: Lazy,
    pub(super) stand_in: Futex,
}

impl Object {
    pub(super) const fn new() -> Self {
        Self { lazy: Lazy::new(), stand_in: Futex::new() }
    }

    #[cfg(loom)]
    pub(super) fn make(&self) {
        self.lazy.slot.make();
        crate::model::Make::make(&self.stand_in);
    }
}

/// `object_ends!(Type)`: how a lock with a field `object` of the file's `KIND` begins and ends: free, and with the
/// object given back.
macro_rules! object_ends {
    ($lock:ident) => {
        impl Drop for $lock {
            fn drop(&mut self) {
                crate::lock::misuse::before_drop(self);
                if let Some(object) = self.object.lazy.get() {
                    (KIND.free)(object);
                }
            }
        }

        impl Default for $lock {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}
pub(super) use object_ends;

/// A lock that is a token in a kernel object: whoever takes it out holds the lock and puts it back. `call`, `make` and
/// `free` are those of its [`Kind`]; `take` sleeps, `try` does not, `give` puts back; `readable` is the descriptor that
/// a timed try polls.
macro_rules! token_lock {
    (
        $(#[$about:meta])* $lock:ident, $name:literal,
        call: $call:literal, make: $make:expr, free: $free:expr,
        take: $take:path, try: $try:path, give: $give:path, readable: $readable:expr
    ) => {
        const NAME: &str = $name;
        const KIND: Kind = Kind { call: $call, make: $make, free: $free };

        $(#[$about])*
        pub struct $lock {
            object: Object,
        }

        impl $lock {
            /// A free lock; its kernel object is made at first use.
            #[must_use]
            pub const fn new() -> Self {
                Self { object: Object::new() }
            }

            /// Makes the kernel object now, if it is not made yet.
            ///
            /// # Errors
            /// The system call that failed; the lock then works as `Futex`.
            pub fn create(&self) -> Result<(), SysError> {
                self.object.lazy.get_or_make(&KIND).map(drop)
            }

            fn acquire(&self) {
                match self.object.lazy.get_or_make(&KIND) {
                    Ok(object) => $take(object).unwrap_or_else(|error| broken(NAME, error)),
                    Err(_) => self.object.stand_in.acquire(),
                }
            }

            fn acquire_until(&self, deadline: DeadlineNs) -> bool {
                let Ok(object) = self.object.lazy.get_or_make(&KIND) else {
                    return self.object.stand_in.acquire_until(deadline);
                };
                loop {
                    if $try(object) == Taken::Yes {
                        return true;
                    }
                    if now_ns() >= deadline {
                        return false;
                    }
                    kernel::await_readable($readable(object), deadline)
                        .unwrap_or_else(|error| broken(NAME, error));
                }
            }

            fn try_acquire(&self) -> bool {
                match self.object.lazy.get_or_make(&KIND) {
                    Ok(object) => $try(object) == Taken::Yes,
                    Err(_) => self.object.stand_in.try_acquire(),
                }
            }

            fn release(&self) {
                match self.object.lazy.get_or_make(&KIND) {
                    Ok(object) => $give(object).unwrap_or_else(|error| broken(NAME, error)),
                    Err(_) => self.object.stand_in.release(),
                }
            }

            fn held(&self) -> bool {
                match self.object.lazy.get() {
                    Some(object) => !kernel::is_readable($readable(object)),
                    None => self.object.stand_in.held(),
                }
            }
        }

        crate::lock::kernel::object_ends!($lock);

        raw_mutex!([] $lock, GuardNoSend, Self::new());
        raw_mutex_timed!([] $lock);
        modelled!([] $lock; object);
    };
}
pub(super) use token_lock;
