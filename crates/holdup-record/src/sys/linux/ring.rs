//! A ring that the kernel fills and the recorder empties.
//!
//! Protocol (linux/perf_event.h, perf_event_mmap_page):
//! 1. The kernel writes records, then `data_head`. The reader loads `data_head` with acquire before it reads what is
//!    below.
//! 2. The reader stores `data_tail` with release after it has read; the kernel never writes above `data_tail` + size.

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page as Page;

/// A mapped ring.
#[derive(Debug)]
pub struct Ring {
    base: NonNull<u8>,
    page: usize,
    size: usize,
}

// SAFETY: the mapping belongs to the ring alone, and its methods that read need it exclusively.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the ring of an event.
    pub fn map(event: BorrowedFd<'_>, pages: usize) -> io::Result<Ring> {
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let size = pages * page;
        // SAFETY: a new mapping at a place of the kernel's choice touches no memory that exists.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                page + size,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { base: NonNull::new(base.cast()).expect("mmap gives no null"), page, size })
    }

    /// Gives what is in the ring to `reader`, in one or two parts of one sequence, and makes room.
    pub fn drain(&mut self, reader: impl FnOnce([&[u8]; 2])) {
        let head = self.head().load(Ordering::Acquire);
        let tail = self.tail().load(Ordering::Relaxed);
        let count = (head.wrapping_sub(tail) as usize).min(self.size);
        let at = tail as usize & (self.size - 1);
        let first = count.min(self.size - at);
        // SAFETY: both parts lie within the `size` bytes behind the first page, which are mapped as long as the ring
        // lives; the kernel does not write between tail and head (rule 2), and what it wrote there is seen (rule 1).
        let parts = unsafe {
            let data = self.base.as_ptr().add(self.page);
            [std::slice::from_raw_parts(data.add(at), first), std::slice::from_raw_parts(data, count - first)]
        };
        reader(parts);
        self.tail().store(head, Ordering::Release);
    }

    fn head(&self) -> &AtomicU64 {
        // SAFETY: the field is inside the first mapped page, aligned, and shared with the kernel only by atomic
        // accesses.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.base.as_ptr().cast::<Page>()).data_head) }
    }

    fn tail(&self) -> &AtomicU64 {
        // SAFETY: as for the head.
        unsafe { AtomicU64::from_ptr(&raw mut (*self.base.as_ptr().cast::<Page>()).data_tail) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, whole; no reference into it outlives the ring.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.page + self.size) };
    }
}
