//! Where in memory the lock and what it protects lie: the factors `offset` and `share`.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::spec::{Between, Share};
use crate::sys;

/// Bytes of a cache line.
pub const LINE: usize = 64;
/// Data on a line of its own starts here: past the lock's lines and past their neighbours, which a prefetcher pairs.
const FAR: usize = 4 * LINE;
/// Alignment of a block: two lines, because the adjacent-line prefetcher couples them.
const BLOCK: usize = 2 * LINE;

/// A value on cache lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> std::ops::Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// What a section of the small workloads touches. Relaxed loads and stores compile to plain moves, and a lock that does
/// not exclude is then a wrong count, not undefined behaviour.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Data {
    /// Counter, list head or thread id.
    pub word: AtomicU64,
    /// A word that threads write outside the lock.
    pub neighbour: AtomicU64,
}

/// A lock at the wanted place of its line, with its data.
#[derive(Debug)]
pub struct Placed<L> {
    block: NonNull<u8>,
    layout: Layout,
    /// The block lies in memory that processes share.
    shared: bool,
    lock: NonNull<L>,
    data: NonNull<Data>,
}

// SAFETY: the block is owned by this value alone and handed out only as shared references to `L` and `Data`, which are
// shareable themselves (`Data` is made of atomics).
unsafe impl<L: Sync> Sync for Placed<L> {}
// SAFETY: owning a block of memory with an `L` in it is no different from owning the `L`.
unsafe impl<L: Send> Send for Placed<L> {}

impl<L> Placed<L> {
    /// Puts the lock `offset` bytes into a cache line, and its data where `share` says; `between` processes, that are
    /// forked later, into memory that they share.
    ///
    /// # Errors
    /// The lock's alignment forbids the offset, its line has no room for the data, or no memory can be shared.
    pub fn new(lock: L, offset: Option<u32>, share: Share, between: Between) -> Result<Placed<L>, String> {
        let offset = offset.unwrap_or(0) as usize;
        let (size, align) = (size_of::<L>(), align_of::<L>());
        if !offset.is_multiple_of(align) {
            return Err(format!(
                "offset {offset} is not possible: this lock must lie at a multiple of {align}; the lock 'straddle' \
                 may lie anywhere"
            ));
        }
        let data_at = match share {
            Share::None => FAR + (offset + size).next_multiple_of(BLOCK),
            Share::Data | Share::Neighbour => beside(offset, size).ok_or_else(|| {
                format!("at offset {offset} the lock ({size} bytes) leaves no room in its cache line to share")
            })?,
        };
        let bytes = (data_at + size_of::<Data>()).max(offset + size).next_multiple_of(BLOCK) + BLOCK;
        let layout = Layout::from_size_align(bytes, BLOCK.max(align)).map_err(|e| e.to_string())?;
        let shared = between == Between::Processes;
        let raw = match shared {
            true => sys::shared_memory(bytes).map_err(|why| format!("no memory can be shared: {why}"))?,
            // SAFETY: the layout is not empty, `bytes` is at least one block.
            false => unsafe { alloc_zeroed(layout) },
        };
        let Some(block) = NonNull::new(raw) else { handle_alloc_error(layout) };
        // SAFETY: both places lie inside the block (`bytes` covers the farther end of each) and are aligned: `offset`
        // is a multiple of L's alignment and the block's start is too; `data_at` is a multiple of 8. They do not
        // overlap: `beside` and FAR keep clear of `offset..offset + size`.
        let (lock_at, data) = unsafe { (block.add(offset).cast::<L>(), block.add(data_at).cast::<Data>()) };
        // SAFETY: valid, aligned, unshared memory, see above.
        unsafe {
            lock_at.write(lock);
            data.write(Data::default());
        }
        Ok(Placed { block, layout, shared, lock: lock_at, data })
    }

    /// The lock.
    #[inline]
    pub fn lock(&self) -> &L {
        // SAFETY: written in `new`, dropped only with `self`.
        unsafe { self.lock.as_ref() }
    }

    /// What it protects.
    #[inline]
    pub fn data(&self) -> &Data {
        // SAFETY: written in `new`, freed only with `self`.
        unsafe { self.data.as_ref() }
    }
}

impl<L> Drop for Placed<L> {
    fn drop(&mut self) {
        // A rival may have been killed with the lock in its hands; lock and memory go with the process, which has one
        // such block for its whole life.
        if self.shared {
            return;
        }
        // SAFETY: the lock was written in `new` and is dropped once; the block came from this layout and nobody can
        // hold a reference into it any more.
        unsafe {
            self.lock.drop_in_place();
            dealloc(self.block.as_ptr(), self.layout);
        }
    }
}

/// Where in its first line a lock leaves room for the data: behind it if possible, else before it.
fn beside(offset: usize, size: usize) -> Option<usize> {
    let behind = (offset + size).next_multiple_of(align_of::<Data>());
    if behind + size_of::<Data>() <= LINE {
        Some(behind)
    } else if offset >= size_of::<Data>() {
        Some(0)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address<T>(value: &T) -> usize {
        std::ptr::from_ref(value).addr()
    }

    #[test]
    fn a_lock_lies_where_it_was_asked_to() {
        for offset in (0..64).step_by(8) {
            let placed = Placed::new([7_u64; 5], Some(offset), Share::None, Between::Threads).unwrap();
            assert_eq!(address(placed.lock()) % LINE, offset as usize);
            assert_ne!(address(placed.data()) / LINE, (address(placed.lock()) + 39) / LINE);
            assert_eq!(placed.lock(), &[7; 5]);
        }
        let odd = Placed::new([1_u8; 4], Some(61), Share::None, Between::Threads).unwrap();
        assert_eq!(address(odd.lock()) % LINE, 61);
    }

    #[test]
    fn shared_data_lies_in_the_locks_line() {
        for offset in [0, 8, 24, 60] {
            let placed = Placed::new(0_u32, Some(offset), Share::Data, Between::Threads).unwrap();
            assert_eq!(address(placed.data()) / LINE, address(placed.lock()) / LINE);
        }
    }

    #[test]
    fn impossible_places_are_refused_with_what_works() {
        let error = Placed::new(0_u64, Some(3), Share::None, Between::Threads).map(|_| ()).unwrap_err();
        assert!(error.contains("multiple of 8") && error.contains("straddle"), "{error}");
        assert!(Placed::new([0_u64; 8], None, Share::Data, Between::Threads).is_err());
    }

    #[test]
    fn the_lock_is_dropped_once() {
        let lock = std::sync::Arc::new(());
        drop(Placed::new(lock.clone(), None, Share::None, Between::Threads).unwrap());
        assert_eq!(std::sync::Arc::strong_count(&lock), 1);
    }
}
