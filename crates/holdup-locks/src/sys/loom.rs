//! The machine as the model checker sees it: loom's atomics and threads, and a futex made of them.
//!
//! loom knows no futex. As in the kernel, a table under one lock makes "value as expected" and "asleep" one step. The
//! lock is loom's, so the checker sees that waits and wakes depend on each other.

pub(crate) mod object;

use super::Wait;
use super::atomic::AtomicU32;
use ::loom::sync::Mutex;
use ::loom::thread::Thread;
use core::sync::atomic::Ordering;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

struct Waiter {
    address: usize,
    bitset: u32,
    // Not one of loom's atomics: read and written only by the running coroutine, next to a step that loom does see.
    woken: Arc<AtomicBool>,
    thread: Thread,
}

::loom::lazy_static! {
    static ref TABLE: Mutex<Vec<Waiter>> = Mutex::new(Vec::new());
    static ref CLOCK: ::loom::sync::atomic::AtomicU64 = ::loom::sync::atomic::AtomicU64::new(0);
}

pub(super) fn wait(word: &AtomicU32, expected: u32, bitset: u32, deadline: Option<u64>) -> Wait {
    let address = core::ptr::from_ref(word) as usize;
    let woken = Arc::new(AtomicBool::new(false));
    {
        let mut waiters = TABLE.lock().expect("a model that panics is over");
        // ORDERING: a read-modify-write sees the latest value, as the kernel's barriers ensure; Relaxed, so that the
        // model lends the locks no ordering they did not ask for on the word.
        if word.fetch_or(0, Ordering::Relaxed) != expected {
            return Wait::Changed;
        }
        let thread = ::loom::thread::current();
        waiters.push(Waiter { address, bitset, woken: Arc::clone(&woken), thread });
    }
    if deadline.is_some() {
        // Lets the others go on, so that a wake may come first; switching back early makes it the deadline.
        ::loom::thread::yield_now();
        return leave(&woken);
    }
    while !woken.load(Ordering::Relaxed) {
        ::loom::thread::park();
    }
    Wait::Woken
}

/// A timed wait ends at the next step: either a wake came before it (loom explores both) or the time is up.
fn leave(woken: &Arc<AtomicBool>) -> Wait {
    let mut waiters = TABLE.lock().expect("a model that panics is over");
    match waiters.iter().position(|waiter| Arc::ptr_eq(&waiter.woken, woken)) {
        Some(place) => {
            waiters.remove(place);
            Wait::TimedOut
        }
        None => Wait::Woken,
    }
}

pub(super) fn wake(word: *const AtomicU32, count: u32, bitset: u32) -> u32 {
    let address = word as usize;
    let mut waiters = TABLE.lock().expect("a model that panics is over");
    let mut left = count;
    waiters.retain(|waiter| {
        if left == 0 || waiter.address != address || waiter.bitset & bitset == 0 {
            return true;
        }
        left -= 1;
        waiter.woken.store(true, Ordering::Relaxed);
        waiter.thread.unpark();
        false
    });
    count - left
}

/// Every reading is a tick of one microsecond: time passes by being asked for.
pub(super) fn now_ns() -> u64 {
    CLOCK.fetch_add(1_000, Ordering::Relaxed)
}

/// loom's atomics made at first use, because a lock's `INIT` is a constant and loom's constructors are not.
///
/// Making one counts as an exclusive access, so it must happen before threads share the atomic: `make_atomics!` does it
/// for a lock's fields, and whoever builds a queue node names its fields there too.
pub(super) mod atomic {
    #[allow(unused_imports, reason = "the same names as core's")]
    pub use ::loom::sync::atomic::fence;
    pub use core::sync::atomic::Ordering;
    use std::sync::OnceLock;

    macro_rules! integer {
        ($($name:ident $value:ty),* $(,)?) => {$(
            /// A loom atomic that is made at first use.
            #[derive(Debug)]
            pub struct $name { initial: $value, made: OnceLock<::loom::sync::atomic::$name> }

            #[allow(dead_code, reason = "the same methods for every width")]
            impl $name {
                pub const fn new(initial: $value) -> Self {
                    Self { initial, made: OnceLock::new() }
                }
                fn inner(&self) -> &::loom::sync::atomic::$name {
                    self.made.get_or_init(|| ::loom::sync::atomic::$name::new(self.initial))
                }
                pub fn make(&self) {
                    self.inner();
                }
                pub fn load(&self, order: Ordering) -> $value {
                    self.inner().load(order)
                }
                pub fn store(&self, value: $value, order: Ordering) {
                    self.inner().store(value, order);
                }
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.inner().swap(value, order)
                }
                pub fn compare_exchange(
                    &self, old: $value, new: $value, success: Ordering, failure: Ordering,
                ) -> Result<$value, $value> {
                    self.inner().compare_exchange(old, new, success, failure)
                }
                pub fn compare_exchange_weak(
                    &self, old: $value, new: $value, success: Ordering, failure: Ordering,
                ) -> Result<$value, $value> {
                    self.inner().compare_exchange(old, new, success, failure)
                }
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    self.inner().fetch_add(value, order)
                }
                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    self.inner().fetch_sub(value, order)
                }
                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    self.inner().fetch_or(value, order)
                }
                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    self.inner().fetch_and(value, order)
                }
                pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                    self.inner().fetch_max(value, order)
                }
            }
        )*};
    }

    integer!(AtomicU8 u8, AtomicU16 u16, AtomicU32 u32, AtomicU64 u64, AtomicUsize usize);

    /// A loom atomic flag that is made at first use.
    #[derive(Debug)]
    #[allow(dead_code, reason = "not every model uses a flag")]
    pub struct AtomicBool {
        initial: bool,
        made: OnceLock<::loom::sync::atomic::AtomicBool>,
    }

    #[allow(dead_code, reason = "the same methods as the integers")]
    impl AtomicBool {
        pub const fn new(initial: bool) -> Self {
            Self { initial, made: OnceLock::new() }
        }
        fn inner(&self) -> &::loom::sync::atomic::AtomicBool {
            self.made.get_or_init(|| ::loom::sync::atomic::AtomicBool::new(self.initial))
        }
        pub fn make(&self) {
            self.inner();
        }
        pub fn load(&self, order: Ordering) -> bool {
            self.inner().load(order)
        }
        pub fn store(&self, value: bool, order: Ordering) {
            self.inner().store(value, order);
        }
        pub fn swap(&self, value: bool, order: Ordering) -> bool {
            self.inner().swap(value, order)
        }
    }

    /// A loom atomic pointer that is made at first use.
    #[derive(Debug)]
    pub struct AtomicPtr<T> {
        initial: *mut T,
        made: OnceLock<::loom::sync::atomic::AtomicPtr<T>>,
    }

    // SAFETY: as core's AtomicPtr, this hands out copies of a raw pointer and never what it points to; `initial` is
    // only read.
    unsafe impl<T> Send for AtomicPtr<T> {}
    // SAFETY: as above; every access to the made atomic goes through loom's own synchronised cell.
    unsafe impl<T> Sync for AtomicPtr<T> {}

    #[allow(dead_code, reason = "the same methods as core's")]
    impl<T> AtomicPtr<T> {
        pub const fn new(initial: *mut T) -> Self {
            Self { initial, made: OnceLock::new() }
        }
        fn inner(&self) -> &::loom::sync::atomic::AtomicPtr<T> {
            self.made.get_or_init(|| ::loom::sync::atomic::AtomicPtr::new(self.initial))
        }
        pub fn make(&self) {
            self.inner();
        }
        pub fn load(&self, order: Ordering) -> *mut T {
            self.inner().load(order)
        }
        pub fn store(&self, value: *mut T, order: Ordering) {
            self.inner().store(value, order);
        }
        pub fn swap(&self, value: *mut T, order: Ordering) -> *mut T {
            self.inner().swap(value, order)
        }
        pub fn compare_exchange(
            &self,
            old: *mut T,
            new: *mut T,
            success: Ordering,
            failure: Ordering,
        ) -> Result<*mut T, *mut T> {
            self.inner().compare_exchange(old, new, success, failure)
        }
    }
}
