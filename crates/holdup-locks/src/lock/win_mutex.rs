//! The kernel's mutex of Windows: recursive by itself, its owner known to the kernel.
//!
//! Always in the kernel: taking and releasing are one system call each, also when nobody else wants the lock.
//!
//! | mutex | `depth` | meaning |
//! |---|---|---|
//! | signalled | 0 | free |
//! | owned | 1 | held |
//! | owned | 2 and more | entered again by its owner through [`WinMutex::enter`] |
//!
//! Invariants: those of kernel.rs, and
//! 1. The kernel admits one owner at a time; `depth` is written by the owner alone.
//! 2. As a `RawMutex` it is not recursive, though the object is: a take that finds `depth` above 0 is the owner's own
//!    second one, and gives its level back at once. `try_lock` then fails; `lock`, which could only wait for itself,
//!    panics.
//! 3. Only the owner's thread releases; hence the guard cannot be sent to another thread.
//! 4. A thread that ends while it owns the mutex abandons it: the next one has it, at depth 1. Nobody else can be in
//!    the section then, as the guard could not leave its thread.
//!
//! # Memory orderings
//! The system calls are full barriers on both sides; nothing of ours orders the section. `depth` is Relaxed: its
//! writers are ordered by the mutex, and to others it is a hint. `mutual_exclusion` in tests/conformance.rs holds it,
//! under Wine.
//!
//! Source: Win32, CreateMutex, ReleaseMutex; the third way of Hart (1998).

use super::kernel::{Kind, Object, broken, object_ends};
use crate::sys::atomic::{AtomicU32, Ordering};
use crate::sys::{DeadlineNs, SysError, Waited, win32};

const NAME: &str = "win-mutex";
const KIND: Kind = Kind { call: "CreateMutexW", make: win32::mutex_new, free: win32::object_free };

/// The mutex of Windows' kernel: every acquisition and release is a system call; known owner. 24 bytes and a handle.
///
/// ```
/// use holdup_locks::{Mutex, WinMutex};
///
/// let value = Mutex::<WinMutex, u32>::new(1);
/// *value.lock() += 1;
/// assert_eq!(*value.lock(), 2);
/// ```
///
/// # Cost
/// A system call each way, whether anybody waits or not, and a handle from first use until it is dropped.
///
/// Measured: not in the [table](crate#measured).
///
/// # When not to use it
/// Between threads of one process: every lock in user space is the better choice. It is for programs whose threads take
/// it recursively as Win32's is ([`WinMutex::enter`]), and for comparison.
///
/// # Errors
/// Where this cannot be had (another system, no handle left), the lock silently works as [`Futex`](crate::Futex);
/// [`WinMutex::create`] tells.
///
/// # Source
/// Win32, CreateMutex, ReleaseMutex; the third way of Hart (1998).
pub struct WinMutex {
    object: Object,
    depth: AtomicU32,
}

impl WinMutex {
    /// A free lock; its mutex is made at first use.
    #[must_use]
    pub const fn new() -> Self {
        Self { object: Object::new(), depth: AtomicU32::new(0) }
    }

    /// Makes the mutex now, if it is not made yet.
    ///
    /// # Errors
    /// The system call that failed; the lock then works as `Futex`.
    pub fn create(&self) -> Result<(), SysError> {
        self.object.lazy.get_or_make(&KIND).map(drop)
    }

    /// Takes the mutex as Win32 programs do: its owner may take it again, and gives it back as often with
    /// [`WinMutex::leave`].
    ///
    /// Where the lock works as `Futex` (see [`WinMutex::create`]) it is not recursive.
    pub fn enter(&self) {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) => drop(self.take(object, None)),
            Err(_) => self.object.stand_in.acquire(),
        }
    }

    /// Gives back one level that [`WinMutex::enter`] took.
    ///
    /// # Safety
    /// The calling thread has taken that level and not given it back.
    pub unsafe fn leave(&self) {
        self.release();
    }

    /// Takes one level; the depth it then has, 0 if the deadline passed.
    fn take(&self, object: u64, deadline: Option<DeadlineNs>) -> u32 {
        let depth = match win32::object_take(object, deadline).unwrap_or_else(|error| broken(NAME, error)) {
            Waited::TimedOut => return 0,
            Waited::Inherited => 1,
            Waited::Taken => self.depth.load(Ordering::Relaxed) + 1,
        };
        self.depth.store(depth, Ordering::Relaxed);
        depth
    }

    /// Takes the mutex if the calling thread has it not yet (invariant 2).
    fn take_once(&self, object: u64, deadline: Option<DeadlineNs>) -> bool {
        match self.take(object, deadline) {
            0 => false,
            1 => true,
            _ => {
                self.give(object);
                false
            }
        }
    }

    fn give(&self, object: u64) {
        let depth = self.depth.load(Ordering::Relaxed);
        debug_assert!(depth != 0, "holdup-locks: {NAME} lock released while free");
        // Before the kernel gives it on: the next owner writes too. A stranger, whom only the kernel can tell, puts it
        // back.
        self.depth.store(depth.wrapping_sub(1), Ordering::Relaxed);
        match win32::mutex_give(object) {
            Ok(()) => {}
            Err(error) if win32::is_not_owner(&error) => {
                self.depth.store(depth, Ordering::Relaxed);
                panic!("holdup-locks: {NAME} lock released by a thread that does not hold it")
            }
            Err(error) => broken(NAME, error),
        }
    }

    fn acquire(&self) {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) if !self.take_once(object, None) => {
                panic!("holdup-locks: {NAME} lock taken again by the thread that holds it")
            }
            Ok(_) => {}
            Err(_) => self.object.stand_in.acquire(),
        }
    }

    fn acquire_until(&self, deadline: DeadlineNs) -> bool {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) => self.take_once(object, Some(deadline)),
            Err(_) => self.object.stand_in.acquire_until(deadline),
        }
    }

    fn try_acquire(&self) -> bool {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) => self.take_once(object, Some(0)),
            Err(_) => self.object.stand_in.try_acquire(),
        }
    }

    fn release(&self) {
        match self.object.lazy.get_or_make(&KIND) {
            Ok(object) => self.give(object),
            Err(_) => self.object.stand_in.release(),
        }
    }

    fn held(&self) -> bool {
        self.depth.load(Ordering::Relaxed) != 0 || self.object.stand_in.held()
    }
}

object_ends!(WinMutex);
raw_mutex!([] WinMutex, GuardNoSend, Self::new());
raw_mutex_timed!([] WinMutex);
