//! The gate for C.

use holdup_locks::technique::Gate;

/// Lets at most N threads be active; the others sleep in the kernel, first come, first served.
///
/// For programs that slow down when too many threads want one lock: put the gate around the whole of a thread's work.
/// Cost: about as much as a lock while it is open, a sleep and a wake-up when it is full. Not for short sections, and
/// never to be entered while holding a lock that those inside need. Initialise it with HOLDUP_GATE_INIT(N) or
/// holdup_gate_init.
#[repr(C)]
pub struct holdup_gate_t {
    opaque: [u64; 3],
}

const _: () = {
    assert!(size_of::<Gate>() == size_of::<holdup_gate_t>() && align_of::<Gate>() == align_of::<holdup_gate_t>());
    // SAFETY: the sizes are equal, a gate has no padding, and every bit pattern is three words.
    let words: [u64; 3] = unsafe { core::mem::transmute(Gate::new(7)) };
    assert!(words[0] == 0 && words[1] == 7 && words[2] == 7, "HOLDUP_GATE_INIT is not what Gate::new makes");
};

/// Makes an open gate of `gate` for `limit` threads; 0 is taken as 1. Never fails; a few stores.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_gate_init(gate: *mut holdup_gate_t, limit: u32) {
    // SAFETY: the caller hands over memory of a gate; the assertions above compare size and alignment.
    unsafe { gate.cast::<Gate>().write(Gate::new(limit)) };
}

/// Waits for a place inside. Never fails. A thread that enters twice takes two places and can wait for itself.
///
/// Cost: an atomic add and a load while there is a place, a sleep in the kernel while there is none.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_gate_enter(gate: *mut holdup_gate_t) {
    // SAFETY: the caller hands over an initialised gate.
    core::mem::forget(unsafe { gate_of(gate) }.enter());
}

/// Takes a place if one is free and nobody waits for it; never waits itself.
///
/// Returns true if the caller is inside now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_gate_try_enter(gate: *mut holdup_gate_t) -> bool {
    // SAFETY: the caller hands over an initialised gate.
    unsafe { gate_of(gate) }.try_enter().map(core::mem::forget).is_some()
}

/// Gives the caller's place back, to the thread that has waited longest if any does. Never fails.
///
/// Cost: an atomic add and a load, and a system call if somebody waits. What the caller wrote is seen by those who come
/// in later. A library with checks prints a message and aborts if nobody is inside.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_gate_leave(gate: *mut holdup_gate_t) {
    // SAFETY: the caller hands over an initialised gate.
    let gate = unsafe { gate_of(gate) };
    debug_assert!(gate.present() > 0, "holdup-locks: gate at {gate:p} left while nobody was inside");
    // SAFETY: the caller has a place, whose pass `enter` has forgotten.
    unsafe { gate.leave_forgotten() };
}

/// Changes how many threads may be inside, at once; 0 is taken as 1. Lowered, it sends nobody out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_gate_set_limit(gate: *mut holdup_gate_t, limit: u32) {
    // SAFETY: the caller hands over an initialised gate.
    unsafe { gate_of(gate) }.set_limit(limit);
}

/// Returns how many threads may be inside.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_gate_limit(gate: *const holdup_gate_t) -> u32 {
    // SAFETY: the caller hands over an initialised gate.
    unsafe { gate_of(gate) }.limit()
}

/// Returns how many threads are inside or wait: a moment's value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_gate_present(gate: *const holdup_gate_t) -> u64 {
    // SAFETY: the caller hands over an initialised gate.
    unsafe { gate_of(gate) }.present()
}

/// # Safety
/// `gate` is an initialised gate that outlives the reference's use.
#[inline]
unsafe fn gate_of<'a>(gate: *const holdup_gate_t) -> &'a Gate {
    // SAFETY: the caller's promise; the assertions above compare size and alignment.
    unsafe { &*gate.cast() }
}
