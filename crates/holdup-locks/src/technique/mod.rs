//! Techniques beside the plain lock: what to do when the lock itself is not the trouble, but who meets at it.
//!
//! | trouble | technique |
//! |---|---|
//! | one lock for many objects; a lock per object is too much, or objects come and go | [`LockTable`] |
//! | one lock around a hash map | [`TableMap`] |
//! | more active threads than the machine bears | [`Gate`], once per thread; [`Gated`], per acquisition of one lock |
//! | a counter that every thread adds to | [`ShardedCounter`] |
//! | a parallel loop that fights for its next index | [`Chunks`] |
//!
//! All but the map's pairs, [`LockTable::lock_slice`] and what returns a `Vec` live without allocation, and all but
//! [`Chunks`] can be a `static`.

mod chunks;
mod counter;
mod gate;
mod gated;
mod hash;
mod map;
mod padded;
mod slot;
mod table;

pub use self::chunks::{Chunks, Iter as ChunksIter};
pub use self::counter::ShardedCounter;
pub use self::gate::{Gate, Pass};
pub use self::gated::{Gated, GatedState};
pub use self::hash::{FoldHasher, FoldState, key_of, key_of_value, mix};
pub use self::map::{IntoIter as TableMapIntoIter, TableMap};
pub use self::padded::CachePadded;
pub use self::table::{LockTable, ManyGuard, SliceGuard, TableGuard};

use self::slot::Slot;

/// The lock that techniques use unless told otherwise: three states and a futex.
pub struct DefaultLock(crate::sys::atomic::AtomicU32);
// SAFETY: the word is 1 or 2 while held, taken by one exchange with Acquire and freed by one with Release.
unsafe impl lock_api::RawMutex for DefaultLock {
    const INIT: Self = Self(crate::sys::atomic::AtomicU32::new(0));
    type Guard = lock_api::GuardSend;
    #[inline]
    fn lock(&self) -> Self::Guard {
        use crate::sys::atomic::Ordering::*;
        if self.0.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            self.cont()
        }
        lock_api::GuardSend::new()
    }
    fn try_lock(&self) -> Option<Self::Guard> {
        use crate::sys::atomic::Ordering::*;
        self.0.compare_exchange(0, 1, Acquire, Relaxed).ok().map(|_| lock_api::GuardSend::new())
    }
    #[inline]
    unsafe fn unlock(&self, _: Self::Guard) {
        use crate::sys::atomic::Ordering::*;
        if self.0.swap(0, Release) == 2 {
            crate::sys::wake(&self.0, 1, crate::sys::ANY);
        }
    }
    fn is_locked(&self) -> bool {
        self.0.load(crate::sys::atomic::Ordering::Relaxed) != 0
    }
}
impl DefaultLock {
    #[cold]
    fn cont(&self) {
        use crate::sys::atomic::Ordering::*;
        for _ in 0..100 {
            if self.0.load(Relaxed) == 0 && self.0.compare_exchange(0, 1, Acquire, Relaxed).is_ok() {
                return;
            }
            crate::sys::spin_hint();
        }
        while self.0.swap(2, Acquire) != 0 {
            crate::sys::wait(&self.0, 2, crate::sys::ANY, None);
        }
    }
}
