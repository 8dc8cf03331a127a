//! `throttle`: a gate before each mutex, as Hart proposed in 1998 for transactions. At most so many threads hold the
//! mutex or wait for it in the usual way; the others sleep before the gate, where no release needs to wake them.
//!
//! The gates of holdup-locks (`Gate`, `Gated`) count holders too, keep those outside in order, and let each in after a
//! bounded number of turns. None of this can be done on glibc's word, which glibc takes and frees at times without a
//! look at the gate.
//!
//! The holder needs no place: whoever takes a free mutex at the first try never sees the gate, so an uncontended mutex
//! costs what it always does, nobody can hold a place while he waits for something else, and a thread that waits for a
//! condition has none to give back. Of the places for waiters there are therefore one less than the gate's number.
//!
//! Before the gate there is no list and no order. One of the sleepers, the lookout, wakes by itself to see whether the
//! mutex is free or a place is, first after [`LOOK_NS`], then after twice as long each time; who gets in wakes another,
//! which becomes the lookout. A lookout that found none [`PATIENCE`] times goes through all the same: so no thread
//! waits for ever, and the threads that use the mutex change. The other sleepers wake by themselves now and then, in
//! case the lookout is gone.
//!
//! | bits of `gate` | |
//! |---|---|
//! | 0–11 | waiters with a place |
//! | 12 | there is a lookout |
//! | 13–31 | the process's generation; a word of another one counts as empty, for its threads did not survive the fork |

use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};

use holdup_control::Policy;

use super::kernel::{self, Until, Woken};
use super::process::of_generation;
use super::wait::{PLACED_SPINS, Wait};

/// Before the first look of a lookout.
const LOOK_NS: u64 = 50_000;
/// Between two looks of the others, in case that there is no lookout.
const DOZE_NS: u64 = 20_000_000;
/// Looks after which a lookout goes through all the same.
const PATIENCE: u32 = 6;

const PLACES: u32 = 0xfff;
const LOOKOUT: u32 = 0x1000;
const GENERATION_SHIFT: u32 = 13;

/// Waits until the mutex is taken, behind the gate, or the wait's deadline has come.
pub fn lock(wait: &mut Wait, most: u32) -> Result<(), c_int> {
    if wait.try_take() {
        return Ok(());
    }
    let gate = &wait.mutex.gate;
    if enter(gate, most) {
        return wait_with_place(wait);
    }
    let mut is_lookout = false;
    let mut looks = 0;
    loop {
        // ORDERING: Acquire, with the Release in `pass_on`: who sees that it is somebody else's turn finds no lookout
        // in `gate`, and becomes it. x86-64 orders both by itself, so no test here can fail.
        let seen = wait.mutex.turn.load(Ordering::Acquire);
        is_lookout = is_lookout || become_lookout(gate);
        if wait.try_take() {
            break;
        }
        if enter(gate, most) {
            pass_on(wait, is_lookout);
            return wait_with_place(wait);
        }
        let left_ns = wait.left_ns();
        if left_ns == 0 {
            pass_on(wait, is_lookout);
            return Err(libc::ETIMEDOUT);
        }
        if looks >= PATIENCE || !matches!(wait.policy(), Policy::Throttle(now) if now == most) {
            // Through without a place, or another policy holds by now.
            pass_on(wait, is_lookout);
            return wait.spin_park(PLACED_SPINS);
        }
        let (ns, look) = if is_lookout { (LOOK_NS << looks.min(PATIENCE), 1) } else { (DOZE_NS, PATIENCE / 2) };
        let woken = wait.sleep_on(&wait.mutex.turn, seen, Until::Ns(ns.min(left_ns)));
        if woken == Woken::TimedOut {
            looks += look;
        }
    }
    pass_on(wait, is_lookout);
    Ok(())
}

/// Waits in the usual way, and gives the place back.
fn wait_with_place(wait: &mut Wait) -> Result<(), c_int> {
    let waited = wait.spin_park(PLACED_SPINS);
    let left = wait.mutex.gate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
        let word = of_generation(word, GENERATION_SHIFT);
        (word & PLACES != 0).then(|| word - 1)
    });
    debug_assert!(left.is_ok(), "a place was taken and is given back once");
    waited
}

/// Takes a place, if there is one.
fn enter(gate: &AtomicU32, most: u32) -> bool {
    let places = most.saturating_sub(1).min(PLACES);
    gate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
        let word = of_generation(word, GENERATION_SHIFT);
        (word & PLACES < places).then(|| word + 1)
    })
    .is_ok()
}

fn become_lookout(gate: &AtomicU32) -> bool {
    gate.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
        let word = of_generation(word, GENERATION_SHIFT);
        (word & LOOKOUT == 0).then_some(word | LOOKOUT)
    })
    .is_ok()
}

/// A thread that goes through lets another have a look.
fn pass_on(wait: &Wait, is_lookout: bool) {
    if !is_lookout {
        return;
    }
    wait.mutex.gate.fetch_and(!LOOKOUT, Ordering::Relaxed);
    // ORDERING: Release, with the Acquire in `lock`, which says why.
    wait.mutex.turn.fetch_add(1, Ordering::Release);
    kernel::wake_one(&raw const wait.mutex.turn);
    wait.served.process.figures().futex_wakes.fetch_add(1, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gate_has_one_place_less_than_its_number() {
        let gate = AtomicU32::new(0);
        assert!(!enter(&gate, 1), "the holder is the only one");
        assert!(enter(&gate, 3));
        assert!(enter(&gate, 3));
        assert!(!enter(&gate, 3));
        assert_eq!(gate.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn there_is_one_lookout() {
        let gate = AtomicU32::new(0);
        assert!(become_lookout(&gate));
        assert!(!become_lookout(&gate));
        assert!(enter(&gate, 2), "which takes no place");
        assert_eq!(gate.load(Ordering::Relaxed), LOOKOUT | 1);
    }
}
