//! Instructions that Rust has no name for: `cmpxchg8b`, an exchange that may cross a cache line, the time stamp counter.

use std::cell::UnsafeCell;
use std::sync::atomic::AtomicU64;

use crate::lock::BenchLock;
use crate::spec::Spec;

/// Whether this build has `cmpxchg8b` and the straddling exchange.
pub const HAS_X86: bool = cfg!(target_arch = "x86_64");

/// Compares and exchanges by `lock cmpxchg8b`, as 32-bit code has to.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn compare_exchange_8b(word: &AtomicU64, old: u64, new: u64) -> Result<u64, u64> {
    let (mut low, mut high) = (old as u32, (old >> 32) as u32);
    let swapped: u8;
    // SAFETY: the address is a valid, aligned 64-bit word that is only accessed atomically. rbx, which the compiler keeps for
    // itself, is put back before the block ends; the other registers are named.
    unsafe {
        std::arch::asm!(
            "xchg {new_low}, rbx",
            "lock cmpxchg8b [{word}]",
            "setz {swapped}",
            "xchg {new_low}, rbx",
            new_low = inout(reg) u64::from(new as u32) => _,
            word = in(reg) word.as_ptr(),
            swapped = out(reg_byte) swapped,
            in("ecx") (new >> 32) as u32,
            inout("eax") low,
            inout("edx") high,
            options(nostack),
        );
    }
    let seen = u64::from(low) | u64::from(high) << 32;
    if swapped != 0 { Ok(seen) } else { Err(seen) }
}

/// Other processors have no such instruction; the cell is refused before it gets here.
#[cfg(not(target_arch = "x86_64"))]
pub fn compare_exchange_8b(word: &AtomicU64, old: u64, new: u64) -> Result<u64, u64> {
    use std::sync::atomic::Ordering::Relaxed;
    word.compare_exchange(old, new, Relaxed, Relaxed)
}

/// The processor's time stamp counter.
#[cfg(target_arch = "x86_64")]
pub fn time_stamp() -> Option<u64> {
    // SAFETY: every x86-64 processor has the instruction; it reads a register.
    Some(unsafe { std::arch::x86_64::_rdtsc() })
}

/// Other processors name theirs differently.
#[cfg(not(target_arch = "x86_64"))]
pub fn time_stamp() -> Option<u64> {
    None
}

/// Whether the processor says that it is a virtual one.
pub fn is_virtual() -> Option<bool> {
    #[cfg(target_arch = "x86_64")]
    {
        let hypervisor = 1 << 31;
        Some(std::arch::x86_64::__cpuid(1).ecx & hypervisor != 0)
    }
    #[cfg(not(target_arch = "x86_64"))]
    None
}

/// A test-and-set lock whose word may lie anywhere, also across two cache lines.
///
/// An exchange across two lines locks the whole memory system on many processors ("split lock"), and a kernel may slow it
/// down or end the process for it: that is what the experiment shows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cmpxchg8b_exchanges_only_what_it_expects() {
        let word = AtomicU64::new(0x1_2345_6789);
        assert_eq!(compare_exchange_8b(&word, 1, 2), Err(0x1_2345_6789));
        assert_eq!(compare_exchange_8b(&word, 0x1_2345_6789, u64::MAX - 1), Ok(0x1_2345_6789));
        assert_eq!(word.into_inner(), u64::MAX - 1);
    }
}
