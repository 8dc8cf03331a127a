//! What the locks that are a token in a Win32 object share: `win-event` and `win-semaphore`.
//!
//! Whoever takes the token out holds the lock and puts it back. The objects cannot be asked whether they are set
//! without taking them, so a flag beside the handle says whether the lock is held.
//!
//! ORDERING: the flag is written by the holder alone and is a hint to everybody else: Relaxed.

/// `handle_lock!(about, Type, "name", call, make, give)`: a lock that is a token in an object with a handle.
macro_rules! handle_lock {
    ($(#[$about:meta])* $lock:ident, $name:literal, call: $call:literal, make: $make:path, give: $give:path) => {
        const NAME: &str = $name;
        const KIND: Kind = Kind { call: $call, make: $make, free: win32::object_free };

        $(#[$about])*
        pub struct $lock {
            object: Object,
            held: AtomicBool,
        }

        impl $lock {
            /// A free lock; its object is made at first use.
            #[must_use]
            pub const fn new() -> Self {
                Self { object: Object::new(), held: AtomicBool::new(false) }
            }

            /// Makes the object now, if it is not made yet.
            ///
            /// # Errors
            /// The system call that failed; the lock then works as `Futex`.
            pub fn create(&self) -> Result<(), SysError> {
                self.object.lazy.get_or_make(&KIND).map(drop)
            }

            fn take(&self, object: u64, deadline: Option<DeadlineNs>) -> bool {
                let waited = win32::object_take(object, deadline).unwrap_or_else(|error| broken(NAME, error));
                let taken = waited != Waited::TimedOut;
                if taken {
                    self.held.store(true, Ordering::Relaxed);
                }
                taken
            }

            fn acquire(&self) {
                match self.object.lazy.get_or_make(&KIND) {
                    Ok(object) => drop(self.take(object, None)),
                    Err(_) => self.object.stand_in.acquire(),
                }
            }

            fn acquire_until(&self, deadline: DeadlineNs) -> bool {
                match self.object.lazy.get_or_make(&KIND) {
                    Ok(object) => self.take(object, Some(deadline)),
                    Err(_) => self.object.stand_in.acquire_until(deadline),
                }
            }

            fn try_acquire(&self) -> bool {
                match self.object.lazy.get_or_make(&KIND) {
                    Ok(object) => self.take(object, Some(0)),
                    Err(_) => self.object.stand_in.try_acquire(),
                }
            }

            fn release(&self) {
                match self.object.lazy.get_or_make(&KIND) {
                    Ok(object) => {
                        self.held.store(false, Ordering::Relaxed);
                        $give(object).unwrap_or_else(|error| broken(NAME, error));
                    }
                    Err(_) => self.object.stand_in.release(),
                }
            }

            fn held(&self) -> bool {
                self.held.load(Ordering::Relaxed) || self.object.stand_in.held()
            }
        }

        crate::lock::kernel::object_ends!($lock);

        raw_mutex!([] $lock, GuardNoSend, Self::new());
        raw_mutex_timed!([] $lock);
    };
}
pub(super) use handle_lock;
