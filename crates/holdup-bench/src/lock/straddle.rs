//! A lock whose word may cross a cache line, which needs instructions that Rust has no name for.

use std::cell::UnsafeCell;

use super::interface::BenchLock;
use crate::arch::HAS_X86;
use crate::spec::Spec;

/// A test-and-set lock whose word may lie anywhere, also across two cache lines.
///
/// An exchange across two lines locks the whole memory system on many processors ("split lock"), and a kernel may slow
/// it down or end the process for it: that is what the experiment shows.
#[derive(Debug)]
#[repr(C)]
pub struct Straddle(UnsafeCell<[u8; 4]>);

// SAFETY: the bytes are only accessed by the instructions below. The word is 0 or 1, so its first byte alone says
// everything and no access can be torn.
unsafe impl Sync for Straddle {}

#[cfg(target_arch = "x86_64")]
impl Straddle {
    #[inline(always)]
    fn take(&self) -> bool {
        let mut value = 1_u32;
        // SAFETY: four bytes at any address; `xchg` with memory is atomic and a full barrier, aligned or not.
        unsafe {
            std::arch::asm!("xchg dword ptr [{word}], {value:e}", word = in(reg) self.0.get(), value = inout(reg) value, options(nostack, preserves_flags));
        }
        value == 0
    }

    #[inline(always)]
    fn looks_free(&self) -> bool {
        let value: u32;
        // SAFETY: as above; the block is not marked as pure, so every look happens.
        unsafe {
            std::arch::asm!("movzx {value:e}, byte ptr [{word}]", word = in(reg) self.0.get(), value = out(reg) value, options(nostack, preserves_flags, readonly));
        }
        value == 0
    }

    #[inline(always)]
    fn free(&self) {
        // SAFETY: as above; x86 orders a plain store behind everything before it, and the block is a compiler barrier.
        unsafe {
            std::arch::asm!("mov dword ptr [{word}], 0", word = in(reg) self.0.get(), options(nostack, preserves_flags));
        }
    }

    #[cold]
    fn wait(&self) {
        const LOOKS: u32 = 100;
        loop {
            for _ in 0..LOOKS {
                std::hint::spin_loop();
                if self.looks_free() && self.take() {
                    return;
                }
            }
            std::thread::yield_now();
        }
    }
}

impl BenchLock for Straddle {
    fn create(_: &Spec) -> Result<Self, String> {
        if HAS_X86 {
            Ok(Straddle(UnsafeCell::new([0; 4])))
        } else {
            Err("only x86 processors have an exchange that may cross a cache line".to_owned())
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        if !self.take() {
            self.wait();
        }
        let result = section();
        self.free();
        result
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn with<R>(&self, section: impl FnOnce() -> R) -> R {
        section()
    }
}
