//! Instructions that Rust has no name for: `cmpxchg8b`, the time stamp counter.

use std::sync::atomic::AtomicU64;

/// Whether this build has `cmpxchg8b` and the straddling exchange.
pub const HAS_X86: bool = cfg!(target_arch = "x86_64");

/// Compares and exchanges by `lock cmpxchg8b`, as 32-bit code has to.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn compare_exchange_8b(word: &AtomicU64, old: u64, new: u64) -> Result<u64, u64> {
    let (mut low, mut high) = (old as u32, (old >> 32) as u32);
    let swapped: u8;
    // SAFETY: the address is a valid, aligned 64-bit word that is only accessed atomically. rbx, which the compiler
    // keeps for itself, is put back before the block ends; the other registers are named.
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
