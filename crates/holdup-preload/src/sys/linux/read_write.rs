//! A reader-writer lock as glibc lays it out, and what the policies do with it beside glibc.
//!
//! The word of the readers, `__readers`, as glibc has had it since 2.25 (`nptl/pthread_rwlock_common.c`): bit 0 says
//! that writers are in turn, bit 1 that a writer has the lock or waits for readers to leave, bit 2 that readers sleep
//! on the word; above is the number of readers. In the readers' turn, with readers in, one more comes in by an
//! addition alone.

use std::cell::UnsafeCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use holdup_control::RwPolicy;

use super::{probe, real};

/// `pthread_rwlock_t` of x86-64.
#[repr(C)]
pub struct ReadWrite {
    readers: AtomicU32,
    writers: AtomicU32,
    writers_turn: AtomicU32,
    writers_futex: AtomicU32,
    spare: AtomicU64,
    /// The thread that writes.
    writer: AtomicU32,
    shared: AtomicU32,
    elided: AtomicU64,
    /// glibc leaves it alone: the policy of a lock that has one of its own, below `MARK`.
    mark: AtomicU64,
    /// The kind.
    kind: AtomicU32,
}

const WRITERS_TURN: u32 = 1;
const WRITER: u32 = 2;
const READER: u32 = 8;
/// More readers than the real functions let in.
const TOO_MANY: u32 = 1 << 31;
/// `PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`.
const PREFERS_WRITERS: u32 = 2;
/// The upper half of a mark; the lower is the policy, packed.
const MARK: u64 = (u32::from_le_bytes(*b"hold") as u64) << 32;

fn mark_of(policy: RwPolicy) -> u64 {
    MARK | u64::from(policy.pack())
}

impl ReadWrite {
    /// # Safety
    /// `lock` points to an initialised reader-writer lock, which outlives the reference.
    pub unsafe fn at<'a>(lock: *mut c_void) -> &'a ReadWrite {
        // SAFETY: the caller's promise; all fields are atomics.
        unsafe { &*lock.cast() }
    }

    /// As a static initialiser or one without attributes leaves it, or readers: nobody is in or waits.
    fn is_untouched(&self) -> bool {
        let words = [&self.readers, &self.writers, &self.writers_turn, &self.writers_futex, &self.writer, &self.shared];
        words.iter().all(|word| word.load(Ordering::Relaxed) == 0)
            && [&self.spare, &self.elided].iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    /// Whether the policy has changed it, or is about to.
    pub fn is_marked(&self) -> bool {
        self.mark.load(Ordering::Relaxed) == mark_of(RwPolicy::PreferWriter)
    }

    /// The policy of this lock alone, once somebody has settled it.
    pub fn settled(&self) -> Option<RwPolicy> {
        let mark = self.mark.load(Ordering::Relaxed);
        (mark >> 32 == MARK >> 32).then(|| RwPolicy::unpack(mark as u32)).flatten()
    }

    /// The lock has this policy from now on, unless another thread has settled it meanwhile; a lock that cannot be
    /// changed any more does not prefer writers. The policy that it has, and whether this call has settled it. Locks of
    /// several processes are left alone: each process has its own settings.
    pub fn settle(&self, wanted: RwPolicy) -> (RwPolicy, bool) {
        let is_default = || self.kind.load(Ordering::Relaxed) == 0 && self.is_untouched();
        let can_change = wanted != RwPolicy::PreferWriter || is_default();
        let policy = if can_change { wanted } else { RwPolicy::Glibc };
        if self.shared.load(Ordering::Relaxed) != 0 {
            return (policy, false);
        }
        // ORDERING: Relaxed. Threads agree on one word; what must come before a thread's call is the kind, which each
        // sets or has seen (see `change`).
        match self.mark.compare_exchange(0, mark_of(policy), Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => (policy, true),
            Err(_) => (self.settled().unwrap_or(RwPolicy::Glibc), false),
        }
    }

    /// From now on writers are preferred, if this is a lock that can be changed. Whether this call has changed it.
    #[inline]
    pub fn prefer_writers(&self) -> bool {
        self.kind.load(Ordering::Acquire) == 0 && self.change()
    }

    #[cold]
    fn change(&self) -> bool {
        if !self.is_marked() && !self.is_untouched() {
            return false;
        }
        self.mark.store(mark_of(RwPolicy::PreferWriter), Ordering::Relaxed);
        // ORDERING: Release, with the Acquire above: who finds the kind finds the mark. That nobody takes the lock by
        // another kind needs no more than that each thread's own change, or the one it has seen, comes before its call.
        // The processor orders both by itself, so no test can fail.
        self.kind.compare_exchange(0, PREFERS_WRITERS, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Whether somebody writes.
    pub fn has_writer(&self) -> bool {
        self.writer.load(Ordering::Relaxed) != 0
    }

    /// One more reader beside others, whoever waits; `None` if it is not their turn.
    pub fn join_readers(&self) -> Option<c_int> {
        let mut readers = self.readers.load(Ordering::Relaxed);
        while readers & WRITERS_TURN == 0 && readers < TOO_MANY - READER {
            let more = readers + READER;
            // ORDERING: Acquire, as in pthread_rwlock_tryrdlock: with the Release of the writer before.
            match self.readers.compare_exchange_weak(readers, more, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(0),
                Err(now) => readers = now,
            }
        }
        None
    }

    /// Whether a writer waits for readers that are in.
    pub fn keeps_readers_out(&self) -> bool {
        let readers = self.readers.load(Ordering::Relaxed);
        readers & WRITERS_TURN == 0 && readers & WRITER != 0 && readers >= READER
    }
}

/// Whether glibc's own functions do with a lock of ours what is expected here.
pub fn is_known() -> bool {
    let cell = UnsafeCell::new([0u64; 7]);
    let pointer = cell.get().cast::<c_void>();
    // SAFETY: a lock of zeros is free and of the default kind; this one is ours alone and lives long enough.
    unsafe {
        let lock = ReadWrite::at(pointer);
        let readers = || lock.readers.load(Ordering::Relaxed);
        if !lock.is_untouched() || real::rwlock_rdlock(pointer) != 0 || readers() != READER {
            return false;
        }
        // A writer that waits keeps nobody out, unless the kind says so.
        lock.readers.store(READER | WRITER, Ordering::Relaxed);
        if real::rwlock_tryrdlock(pointer) != 0 || readers() != ((2 * READER) | WRITER) || !lock.keeps_readers_out() {
            return false;
        }
        lock.kind.store(PREFERS_WRITERS, Ordering::Relaxed);
        lock.mark.store(mark_of(RwPolicy::PreferWriter), Ordering::Relaxed);
        if real::rwlock_tryrdlock(pointer) != libc::EBUSY || lock.join_readers() != Some(0) {
            return false;
        }
        lock.readers.store(3 * READER, Ordering::Relaxed);
        if (0..3).any(|_| real::rwlock_unlock(pointer) != 0) || !lock.is_untouched() {
            return false;
        }
        if real::rwlock_trywrlock(pointer) != 0 || readers() != (WRITERS_TURN | WRITER) || lock.join_readers().is_some()
        {
            return false;
        }
        let own = lock.writer.load(Ordering::Relaxed) == probe::tid();
        real::rwlock_unlock(pointer) == 0 && own && lock.writer.load(Ordering::Relaxed) == 0 && lock.is_marked()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reader_writer_lock_of_this_glibc_is_known() {
        assert!(is_known());
    }

    #[test]
    fn one_policy_is_settled_and_holds() {
        let mut bytes = [0u64; 7];
        // SAFETY: a lock of zeros, which outlives the reference.
        let lock = unsafe { ReadWrite::at(bytes.as_mut_ptr().cast()) };
        assert_eq!(lock.settled(), None);
        assert_eq!(lock.settle(RwPolicy::SpinPark(9)), (RwPolicy::SpinPark(9), true));
        assert_eq!(lock.settle(RwPolicy::PreferWriter), (RwPolicy::SpinPark(9), false));
        assert_eq!(lock.settled(), Some(RwPolicy::SpinPark(9)));
        // Initialised anew.
        lock.mark.store(0, Ordering::Relaxed);
        lock.readers.store(READER, Ordering::Relaxed);
        assert_eq!(lock.settle(RwPolicy::PreferWriter), (RwPolicy::Glibc, true), "somebody is in");
        assert!(!lock.prefer_writers() && !lock.is_marked());
        lock.readers.store(0, Ordering::Relaxed);
        lock.mark.store(0, Ordering::Relaxed);
        assert_eq!(lock.settle(RwPolicy::PreferWriter), (RwPolicy::PreferWriter, true));
        assert_eq!([lock.prefer_writers(), lock.prefer_writers()], [true, false], "it is changed once");
        assert!(lock.is_marked());
    }

    #[test]
    fn a_lock_of_several_processes_gets_no_mark() {
        let mut bytes = [0u64; 7];
        // SAFETY: a lock of zeros, which outlives the reference.
        let lock = unsafe { ReadWrite::at(bytes.as_mut_ptr().cast()) };
        lock.shared.store(1, Ordering::Relaxed);
        assert_eq!(lock.settle(RwPolicy::SpinPark(9)), (RwPolicy::SpinPark(9), false));
        assert_eq!(lock.settle(RwPolicy::PreferWriter), (RwPolicy::Glibc, false));
        assert_eq!(lock.settled(), None);
    }

    #[test]
    fn a_reader_joins_readers_but_no_writer() {
        let mut bytes = [0u64; 7];
        // SAFETY: a lock of zeros, which outlives the reference.
        let lock = unsafe { ReadWrite::at(bytes.as_mut_ptr().cast()) };
        lock.readers.store(READER | WRITER, Ordering::Relaxed);
        assert!(lock.keeps_readers_out());
        assert_eq!(lock.join_readers(), Some(0));
        assert_eq!(lock.readers.load(Ordering::Relaxed), (2 * READER) | WRITER);
        lock.readers.store(WRITERS_TURN | WRITER, Ordering::Relaxed);
        assert_eq!(lock.join_readers(), None);
        assert!(!lock.keeps_readers_out());
        lock.readers.store(TOO_MANY - READER, Ordering::Relaxed);
        assert_eq!(lock.join_readers(), None, "one more would be too many");
    }
}
