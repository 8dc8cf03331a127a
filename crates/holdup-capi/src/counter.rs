//! The sharded counter for C.

use holdup_locks::technique::ShardedCounter;

/// A counter that many threads add to without meeting: a cell for each thread, on cache lines of its own; 8 KiB.
///
/// Not for counters that are read as often as they are written, or must be exact while others add. Initialise it with
/// HOLDUP_COUNTER_INIT, or zero the memory; it needs no end.
#[repr(C, align(128))]
pub struct holdup_counter_t {
    opaque: [u64; 1024],
}

const _: () = {
    assert!(size_of::<ShardedCounter>() == size_of::<holdup_counter_t>());
    assert!(align_of::<ShardedCounter>() == align_of::<holdup_counter_t>());
};

/// Adds `amount`, which may be negative; wraps on overflow. Never waits and never fails.
///
/// Cost: one atomic add on a cache line that other threads seldom touch, about 5 ns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_counter_add(counter: *mut holdup_counter_t, amount: i64) {
    // SAFETY: the caller hands over an initialised counter.
    unsafe { counter_of(counter) }.add(amount);
}

/// Returns the sum of what was added: exact once those who add have been joined, a recent value while they run.
///
/// Cost: reads all 64 cells, a microsecond or so.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_counter_sum(counter: *const holdup_counter_t) -> i64 {
    // SAFETY: the caller hands over an initialised counter.
    unsafe { counter_of(counter) }.sum()
}

/// Sets the counter to zero and returns what it held; an addition that happens meanwhile is counted once, here or
/// later.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_counter_take(counter: *mut holdup_counter_t) -> i64 {
    // SAFETY: the caller hands over an initialised counter.
    unsafe { counter_of(counter) }.take()
}

/// # Safety
/// `counter` is an initialised counter that outlives the reference's use.
#[inline]
unsafe fn counter_of<'a>(counter: *const holdup_counter_t) -> &'a ShardedCounter {
    // SAFETY: the caller's promise; size and alignment are compared above, and zeros are a counter at zero.
    unsafe { &*counter.cast() }
}
