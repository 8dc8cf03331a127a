//! The time of waits and holds: the processor's counter where the kernel itself keeps its time by it, for it costs half
//! as much as a call of the C library's clock, and CLOCK_MONOTONIC elsewhere.

use std::arch::x86_64::{__cpuid, _rdtsc};
use std::sync::atomic::{AtomicU64, Ordering};

use super::kernel::{self, now_ns};
use super::strict;

/// Nanoseconds of 2^32 steps of the counter; 0 while the clock is used.
static NS_OF_STEPS: AtomicU64 = AtomicU64::new(0);

/// How long the counter is compared with the clock.
const CALIBRATION_NS: u64 = 30_000;

/// A moment, in steps of the counter or nanoseconds; none, for no time at all, in a process that may not read either.
#[inline]
pub fn now() -> u64 {
    if strict::is_on() {
        return 0;
    }
    if NS_OF_STEPS.load(Ordering::Relaxed) == 0 {
        return now_ns();
    }
    // SAFETY: the instruction is there on every x86-64 processor, and the kernel allows it, for its own clock uses it.
    unsafe { _rdtsc() }
}

/// Nanoseconds from a moment until now; 0 if the counters of two processors differ by more than what lies between.
#[inline]
pub fn since_ns(moment: u64) -> u64 {
    ns_of(now().wrapping_sub(moment), NS_OF_STEPS.load(Ordering::Relaxed))
}

fn ns_of(steps: u64, ns_of_steps: u64) -> u64 {
    match (steps.cast_signed(), ns_of_steps) {
        (..0, _) => 0,
        (_, 0) => steps,
        _ => ((u128::from(steps) * u128::from(ns_of_steps)) >> 32) as u64,
    }
}

/// Compares the counter with the clock, if the kernel trusts it.
pub fn calibrate() {
    if !is_constant() || !kernel_uses_it() {
        return;
    }
    let (steps, ns) = both();
    while now_ns() < ns + CALIBRATION_NS {}
    let (later_steps, later_ns) = both();
    let (steps, ns) = (later_steps.wrapping_sub(steps), later_ns - ns);
    if steps > 0 {
        NS_OF_STEPS.store(((u128::from(ns) << 32) / u128::from(steps)) as u64, Ordering::Relaxed);
    }
}

/// The counter and the clock at one moment: of several readings the one that was disturbed least.
fn both() -> (u64, u64) {
    let read = || {
        // SAFETY: as in `now`.
        let (before, ns, after) = unsafe { (_rdtsc(), now_ns(), _rdtsc()) };
        (after.wrapping_sub(before), before + after.wrapping_sub(before) / 2, ns)
    };
    let readings = [read(), read(), read(), read()];
    let (_, steps, ns) = readings.into_iter().min().expect("there are four");
    (steps, ns)
}

/// Whether the counter goes on at one speed, whatever the processor does.
fn is_constant() -> bool {
    const ADVANCED_POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    __cpuid(0x8000_0000).eax >= ADVANCED_POWER && __cpuid(ADVANCED_POWER).edx & INVARIANT != 0
}

fn kernel_uses_it() -> bool {
    let mut name = [0; 8];
    let path = c"/sys/devices/system/clocksource/clocksource0/current_clocksource";
    // SAFETY: the path ends with 0, and the file is ours.
    let len = unsafe {
        let file = kernel::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC, 0);
        if file < 0 {
            return false;
        }
        let len = kernel::read(file, &mut name);
        kernel::close(file);
        len
    };
    usize::try_from(len).is_ok_and(|len| name[..len].trim_ascii_end() == b"tsc")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_become_nanoseconds() {
        assert_eq!(ns_of(500, 0), 500, "the clock counts nanoseconds");
        assert_eq!(ns_of(3_000_000, 1 << 31), 1_500_000, "two steps each nanosecond");
        assert_eq!(ns_of(u64::MAX, 1 << 31), 0, "another processor's counter was ahead");
        assert_eq!(ns_of(u64::MAX / 2, 1 << 31), u64::MAX / 4, "years do not overflow");
    }

    #[test]
    fn the_counter_agrees_with_the_clock() {
        calibrate();
        let (moment, began_ns) = (now(), now_ns());
        while now_ns() < began_ns + 20_000_000 {}
        let (told_ns, real_ns) = (since_ns(moment), now_ns() - began_ns);
        assert!(told_ns > real_ns / 10 * 9 && told_ns < real_ns / 10 * 11, "{told_ns} of {real_ns}");
    }
}
