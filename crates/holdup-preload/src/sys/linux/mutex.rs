//! glibc's mutex as it lies in memory, and who may use which of its bytes.
//!
//! | bytes | glibc | here |
//! |---|---|---|
//! | 0 | `__lock` | the same protocol |
//! | 4 | `__count`, of recursive mutexes | of the others: waiters that spin under `capped` |
//! | 8, 12, 16 | `__owner`, `__nusers`, `__kind` | as glibc |
//! | 20 | `__spins`, of adaptive mutexes | acquisitions |
//! | 22 | `__elision`, of elided mutexes | marks |
//! | 24 | `__list`, of robust and priority mutexes | record, place of initialisation, average of spins, `throttle` |
//!
//! What an uncontended operation touches lies within the first 24 bytes, so that it needs no other cache line than
//! glibc's functions do. Should code that is bound to glibc's own functions lock an adaptive mutex, the two sides
//! disturb each other's count and estimate, which are no more than that.
//!
//! All bytes that are used here are zero in every static initialiser and after `pthread_mutex_init`.
//!
//! # Memory orderings
//! The word is taken with Acquire and freed with Release, here, in glibc, and by the instructions of `fast`: the pair
//! carries what the holder wrote. All else in the mutex is Relaxed: it is the holder's alone (`owner`, `users`,
//! `tally`, `marks`), or advice that may be late (`spins`, `gate`). Where more is asked for, the comment ORDERING says
//! why. Every access to a field has the field's own width.

use std::sync::atomic::{AtomicI16, AtomicU8, AtomicU16, AtomicU32, Ordering};

use holdup_control::Fallback;
use holdup_locks::word;

/// The word's states: free; held, and nobody sleeps; held, and somebody may sleep on the word. They are glibc's, and
/// those of `Futex` in holdup-locks.
pub use holdup_locks::word::{CONTENDED as WAITED, LOCKED as HELD, UNLOCKED as FREE};

/// `PTHREAD_MUTEX_RECURSIVE`.
pub const RECURSIVE: i32 = 1;
/// `PTHREAD_MUTEX_ERRORCHECK`.
pub const ERRORCHECK: i32 = 2;
/// `PTHREAD_MUTEX_ADAPTIVE_NP`.
pub const ADAPTIVE: i32 = 3;

const TYPE: i32 = 3;
const ROBUST: i32 = 16;
const INHERIT: i32 = 32;
const PROTECT: i32 = 64;
const SHARED: i32 = 128;
const ELIDED: i32 = 256;
const NEVER_ELIDED: i32 = 512;

/// Bits of `__kind` that are all clear in a private mutex of type normal.
pub const NOT_NORMAL: i32 = !NEVER_ELIDED;

/// The hold that runs now is timed; written by holders.
pub const MARK_TIMED: u8 = 1;

/// A mutex.
#[repr(C)]
pub struct Mutex {
    /// `__lock`.
    pub word: AtomicU32,
    /// `__count` of a recursive mutex, else see `capped`.
    pub count: AtomicU32,
    /// `__owner`.
    pub owner: AtomicU32,
    /// `__nusers`.
    pub users: AtomicU32,
    /// `__kind`.
    pub kind: AtomicU32,
    /// Acquisitions; when there is no room for more, it goes on at the second tick, for at 0 there was none.
    pub tally: AtomicU16,
    /// `MARK_TIMED`.
    pub marks: AtomicU8,
    /// Not 0 if somebody waited under `capped`: from then on a release must look for spinners.
    pub capped: AtomicU8,
    /// Its record: 0 for none, else one more than its place.
    pub record: AtomicU16,
    /// Where it was initialised, as a number of `sites`; 0 for not known.
    pub init: AtomicU16,
    /// Running average of the spins that were of use.
    pub spins: AtomicI16,
    /// Room.
    pub unused: AtomicU16,
    /// See `throttle`.
    pub gate: AtomicU32,
    /// Changed by those who wake a thread before the gate.
    pub turn: AtomicU32,
}

const _: () = assert!(size_of::<Mutex>() == 40 && size_of::<Mutex>() == size_of::<libc::pthread_mutex_t>());

impl Mutex {
    /// A free one of type normal.
    pub const fn new() -> Mutex {
        Mutex {
            word: AtomicU32::new(FREE),
            count: AtomicU32::new(0),
            owner: AtomicU32::new(0),
            users: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            tally: AtomicU16::new(0),
            marks: AtomicU8::new(0),
            capped: AtomicU8::new(0),
            record: AtomicU16::new(0),
            init: AtomicU16::new(0),
            spins: AtomicI16::new(0),
            unused: AtomicU16::new(0),
            gate: AtomicU32::new(0),
            turn: AtomicU32::new(0),
        }
    }

    /// `__kind`.
    #[inline]
    pub fn kind(&self) -> i32 {
        self.kind.load(Ordering::Relaxed) as i32
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_acquire(&self) -> bool {
        word::take(&self.word, HELD)
    }
}

/// The type of a mutex that can be served, or why it is left to glibc.
#[inline]
pub fn classify(kind: i32) -> Result<i32, Fallback> {
    let rest = kind & !(TYPE | NEVER_ELIDED);
    if rest == 0 {
        return Ok(kind & TYPE);
    }
    Err(why_not(kind))
}

#[cold]
fn why_not(kind: i32) -> Fallback {
    let known = TYPE | ROBUST | INHERIT | PROTECT | SHARED | ELIDED | NEVER_ELIDED;
    match kind {
        // The ceiling of a priority mutex is in its upper bits.
        _ if kind >= 0 && kind & PROTECT != 0 => Fallback::Protect,
        _ if kind & !known != 0 => Fallback::Unknown,
        _ if kind & ROBUST != 0 => Fallback::Robust,
        _ if kind & INHERIT != 0 => Fallback::Inherit,
        _ if kind & SHARED != 0 => Fallback::Shared,
        _ => Fallback::Elided,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_mutexes_of_all_types_are_served() {
        assert_eq!([0, 1, 2, 3, 512, 513].map(classify), [Ok(0), Ok(1), Ok(2), Ok(3), Ok(0), Ok(1)]);
    }

    #[test]
    fn others_are_left_to_glibc_with_the_reason() {
        let why = |kind| classify(kind).unwrap_err();
        assert_eq!(why(128), Fallback::Shared);
        assert_eq!(why(128 | 1), Fallback::Shared);
        assert_eq!(why(16), Fallback::Robust);
        assert_eq!(why(16 | 128), Fallback::Robust);
        assert_eq!(why(32), Fallback::Inherit);
        assert_eq!(why(64 | 5 << 19), Fallback::Protect);
        assert_eq!(why(256), Fallback::Elided);
        assert_eq!(why(-1), Fallback::Unknown);
        assert_eq!(why(1 << 20), Fallback::Unknown);
    }

    #[test]
    fn the_shortest_path_is_for_normal_mutexes_only() {
        assert_eq!(NOT_NORMAL & 512, 0);
        for kind in [1, 2, 3, 16, 32, 64, 128, 256, -1, 1 << 20] {
            assert_ne!(kind & NOT_NORMAL, 0, "{kind}");
        }
    }
}
