//! `capped`: at most so many waiters spin, and a release leaves waking a sleeper to one of them, as he is about to take
//! the mutex.
//!
//! | bits of `count` | |
//! |---|---|
//! | 0–6 | waiters that spin |
//! | 7 | `OWED`: a sleeper is to be woken by one of them |
//! | 8–31 | the process's generation; a word of another one counts as empty, for its threads did not survive the fork |
//!
//! 1. A release decides before it frees the word, for afterwards the mutex may be gone. It changes the word from
//!    `WAITED` to `HELD`, says `OWED` if somebody spins, and frees the word. It wakes if nobody spun, or if somebody
//!    has marked the word again.
//! 2. A spinner who takes the mutex clears `OWED` and marks the word, so that its release wakes or leaves it to the
//!    next spinner.
//! 3. The last spinner who gives up clears `OWED` too. Its next step marks the word, if it does not take it, so that
//!    the holder's release wakes.
//!
//! So whenever `HELD` hides sleepers, a spinner knows of them, or the releaser does. Should neither take the word,
//! because newcomers are faster, 3 comes after [`PLACED_SPINS`] looks.

use std::hint::spin_loop;
use std::sync::atomic::Ordering;

use holdup_locks::word;

use super::mutex::{FREE, HELD, Mutex, WAITED};
use super::process;
use super::thread::Thread;
use super::wait::PLACED_SPINS;

const SPINNERS: u32 = 0x7f;
const OWED: u32 = 0x80;
const GENERATION_SHIFT: u32 = 8;
/// After so many wakes that were left to a spinner, one is made all the same.
const SKIPS: u32 = 32;

/// Takes the mutex, as `taken`, if fewer than `most` spin and it becomes free meanwhile.
pub fn spin(mutex: &Mutex, most: u32, taken: u32) -> bool {
    mutex.capped.store(1, Ordering::Relaxed);
    let enter = mutex.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
        let count = process::of_generation(count, GENERATION_SHIFT);
        (count & SPINNERS < most.min(SPINNERS)).then_some(count + 1)
    });
    if enter.is_err() {
        return false;
    }
    for _ in 0..PLACED_SPINS {
        spin_loop();
        if mutex.word.load(Ordering::Relaxed) == FREE && word::take(&mutex.word, taken) {
            let before =
                mutex.count.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| Some((count - 1) & !OWED));
            if before.is_ok_and(|count| count & OWED != 0) {
                mutex.word.store(WAITED, Ordering::Relaxed);
            }
            return true;
        }
    }
    // ORDERING: Acquire, with the Release in `leave_wake`: one who sees `OWED` here marks the word after the releaser
    // has changed it to `HELD`, and not before, where the mark would be lost. x86-64 orders both by itself, so no test
    // here can fail.
    let _ = mutex.count.fetch_update(Ordering::Acquire, Ordering::Relaxed, |count| Some(without_one(count)));
    false
}

/// `count` when a spinner has given up.
fn without_one(count: u32) -> u32 {
    let left = count - 1;
    if left & SPINNERS == 0 { left & !OWED } else { left }
}

/// Leaves waking a sleeper to a waiter who spins, if there are both, before a release. True if the releaser must wake
/// in any case: the word does not say so any more.
pub fn leave_wake(thread: &Thread, mutex: &Mutex) -> bool {
    let spins = |count| process::of_generation(count, GENERATION_SHIFT) & SPINNERS > 0;
    let skips = thread.skipped_wakes.replace(0);
    if mutex.word.load(Ordering::Relaxed) < WAITED || skips >= SKIPS || !spins(mutex.count.load(Ordering::Relaxed)) {
        return false;
    }
    mutex.word.store(HELD, Ordering::Relaxed);
    // ORDERING: Release, with the Acquire in `spin`, which says why.
    let left =
        mutex.count.fetch_update(Ordering::Release, Ordering::Relaxed, |count| spins(count).then_some(count | OWED));
    if left.is_ok() {
        thread.skipped_wakes.set(skips + 1);
    }
    left.is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_who_gives_up_clears_what_is_owed() {
        assert_eq!(without_one(OWED | 2), OWED | 1);
        assert_eq!(without_one(OWED | 1), 0);
        assert_eq!(without_one(5 << GENERATION_SHIFT | OWED | 1), 5 << GENERATION_SHIFT);
    }
}
