//! What each thread has of its own, without a call of the dynamic linker: the variable is laid out here, and reached in
//! the initial-exec model, which rustc does not offer on stable for libraries.

use std::arch::{asm, global_asm};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use holdup_control::{Figures, ThreadSlot};

/// Where the figures are, once there are some.
pub static FIGURES: AtomicPtr<Figures> = AtomicPtr::new(ptr::null_mut());

/// Variables of one thread; all zero when it begins.
#[repr(C, align(64))]
pub struct Thread {
    /// The thread's slot if its uncontended operations may take the shortest path, else null.
    pub fast: Cell<*const ThreadSlot>,
    /// The thread's slot, null before its first operation.
    pub slot: Cell<*const ThreadSlot>,
    /// Its number, as the kernel knows it; glibc writes the same into `__owner`.
    pub tid: Cell<u32>,
    /// Acquisitions of a mutex between two looks at its figures, less one.
    pub between_ticks: Cell<u32>,
    /// Set while the thread gets its slot: a signal handler that locks meanwhile goes to glibc.
    pub busy: Cell<bool>,
    /// The slot is shared with others: count with atomic operations.
    pub shares_slot: Cell<bool>,
    /// The slot was given back, for the thread ends.
    pub ended: Cell<bool>,
    /// Wakes that were left to somebody else since the last wake.
    pub skipped_wakes: Cell<u32>,
    /// Acquisitions of read-write and spin locks that are not yet in the figures.
    pub passed: [Cell<u32>; 2],
    /// Reader-writer locks that the thread has for reading, where writers are preferred.
    pub reads: Cell<u32>,
}

global_asm!(
    ".pushsection .tbss.holdup_thread,\"awT\",@nobits",
    ".balign 64",
    ".hidden holdup_thread",
    ".globl holdup_thread",
    ".type holdup_thread, @object",
    ".size holdup_thread, {size}",
    "holdup_thread:",
    ".zero {size}",
    ".popsection",
    size = const size_of::<Thread>(),
);

/// The variables of the calling thread. The reference must not be given to another thread.
#[inline(always)]
pub fn this() -> &'static Thread {
    let address: *const Thread;
    // SAFETY: the first word that fs points to is its own address, and the linker fills in the distance to the
    // variable.
    unsafe {
        asm!(
            "mov {address}, qword ptr fs:[0]",
            "add {address}, qword ptr [rip + holdup_thread@GOTTPOFF]",
            address = out(reg) address,
            options(pure, nomem, nostack),
        );
    }
    // SAFETY: the variable is as large and aligned as the type, zero is a valid value, and it lives as long as the
    // thread.
    unsafe { &*address }
}

impl Thread {
    /// The slot in the figures, once the thread has one.
    #[inline]
    pub fn figures(&self) -> Option<&'static ThreadSlot> {
        // SAFETY: the pointer is null or points into the mapped figures, which stay mapped at their address.
        unsafe { self.slot.get().as_ref() }
    }

    /// Adds to a figure of the thread's slot.
    #[inline]
    pub fn add(&self, figure: &AtomicU64, more: u64) {
        add(figure, more, self.shares_slot.get());
    }

    /// The number of the slot.
    pub fn number(&self) -> u32 {
        let first = figures().map_or(0, |figures| figures.threads.as_ptr() as usize);
        ((self.slot.get() as usize).saturating_sub(first) / size_of::<ThreadSlot>()) as u32
    }

    /// Forgets the slot, as in a new process or at the end of the thread.
    pub fn leave(&self) {
        self.fast.set(ptr::null());
        self.slot.set(ptr::null());
        self.shares_slot.set(false);
    }
}

/// The figures, once there are some.
#[inline]
pub fn figures() -> Option<&'static Figures> {
    // SAFETY: null, or mapped as long as the process lives.
    unsafe { FIGURES.load(Ordering::Relaxed).as_ref() }
}

/// Adds to a figure that only one thread at a time writes, or, if it is shared, that many do.
#[inline]
pub fn add(figure: &AtomicU64, more: u64, shared: bool) {
    if shared {
        figure.fetch_add(more, Ordering::Relaxed);
    } else {
        figure.store(figure.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }
}
