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

pub mod chunks;
pub mod counter;
pub mod gate;
pub mod gated;
pub mod hash;
pub mod map;
mod padded;
mod slot;
pub mod table;

pub use self::chunks::{Chunks, Iter as ChunksIter};
pub use self::counter::ShardedCounter;
pub use self::gate::{Gate, Pass};
pub use self::gated::{Gated, GatedState};
pub use self::hash::{FoldHasher, FoldState, key_of, key_of_value, mix};
pub use self::map::{IntoIter as TableMapIntoIter, TableMap};
pub use self::padded::CachePadded;
pub use self::table::{LockTable, ManyGuard, SliceGuard, TableGuard};

use self::slot::Slot;

/// The lock that techniques use unless told otherwise.
pub type DefaultLock = crate::Adaptive;
