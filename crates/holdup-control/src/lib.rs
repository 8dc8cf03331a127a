//! What an interposed program and the holdup outside share: settings one way, figures the other, both as files in one
//! folder.
//!
//! The folder is private to the user and lies in memory (tmpfs). Its name is in the environment variable [`ENV`]. If
//! holdup runs as root, the program may go on as another user: then others can read what is there and make files of
//! their own, if they know the name, which nobody can guess. Holdup writes the file [`SETTINGS_FILE`] ([`Settings`]),
//! which every interposed process maps and reads at any time: a changed [`Settings::policy`] works at once. Every
//! interposed process makes a file of its own, named by its process number ([`Figures`]), and maps it; holdup reads it
//! while the process runs and afterwards.
//!
//! Everything here is plain memory in the machine's own byte order: both sides come from the same build, and say so in
//! [`Settings::version`]. The interposer casts its mapping to these types; holdup, which has no unsafe code, reads and
//! writes bytes at the offsets of their fields (`std::mem::offset_of!`). Fields that are written while others read are
//! atomics.
#![forbid(unsafe_code)]

use std::fmt;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The environment variable that holds the folder.
pub const ENV: &str = "HOLDUP_CONTROL";
/// The name of the file that holds [`Settings`].
pub const SETTINGS_FILE: &str = "settings";
/// The name of the file in which processes count themselves: one word.
pub const COUNT_FILE: &str = "processes";
/// First bytes of both files.
pub const MAGIC: u64 = u64::from_le_bytes(*b"holdup\0c");
/// Raised with every change of this file's types.
pub const VERSION: u32 = 7;

/// Processes with a file of figures; those beyond are served and leave none, for a program may start any number of
/// them, and all their files would lie in memory.
pub const PROCESSES: u32 = 512;
/// Most rules for single locks.
pub const RULES: usize = 64;
/// Locks that have a record of their own; those beyond share the last.
pub const LOCKS: usize = 8192;
/// Slots for threads that run at the same time; those beyond share the last.
pub const THREADS: usize = 1024;
/// Most modules (program and libraries) with a known place.
pub const MODULES: usize = 256;
/// Call sites of one lock with figures of their own; those beyond share the last.
pub const SITES: usize = 8;
/// Buckets of a histogram: bucket n counts durations from 2^n up to 2^(n+1) nanoseconds, bucket 0 those below two.
pub const BUCKETS: usize = 40;
/// Bytes of a path; longer ones are cut off at their beginning, for their end tells more.
pub const PATH: usize = 240;

/// [`Settings::futex_hash`]: the table that all processes share.
pub const FUTEX_HASH_SHARED: u32 = 1;

/// How threads wait for a lock. All policies keep glibc's own protocol on the lock's word, so they can be exchanged at
/// any time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Policy {
    /// As glibc does: one try, then sleep.
    Glibc,
    /// Look at the word so many times (with a pause in between), then sleep.
    SpinPark(u32),
    /// Spins as long as that paid off lately, then sleeps.
    SpinLearn,
    /// Test and test-and-set with growing pauses, then gives the CPU away between two looks; never sleeps.
    Ttas,
    /// At most so many waiters spin, the others sleep.
    Capped(u32),
    /// At most so many threads hold or want the lock at the same time, the others sleep until one of them has had it.
    Throttle(u32),
}

impl Policy {
    /// As one word for [`Settings::policy`] and [`Rule::policy`]: kind in the lowest byte, number above.
    pub fn pack(self) -> u32 {
        let (kind, number) = match self {
            Policy::Glibc => (0, 0),
            Policy::SpinPark(spins) => (1, spins),
            Policy::SpinLearn => (2, 0),
            Policy::Ttas => (3, 0),
            Policy::Capped(spinners) => (4, spinners),
            Policy::Throttle(threads) => (5, threads),
        };
        kind | number.min(Self::MOST) << 8
    }

    /// The policy of a word; `None` for a word that no policy has.
    pub fn unpack(word: u32) -> Option<Policy> {
        let number = word >> 8;
        Some(match word & 0xff {
            0 => Policy::Glibc,
            1 => Policy::SpinPark(number),
            2 => Policy::SpinLearn,
            3 => Policy::Ttas,
            4 => Policy::Capped(number),
            5 => Policy::Throttle(number),
            _ => return None,
        })
    }

    /// The largest number that a policy can have.
    pub const MOST: u32 = (1 << 24) - 1;
}

/// As it stands on a command line: `glibc`, `spin-park:100`, `throttle:1`.
impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Glibc => f.pad("glibc"),
            Policy::SpinPark(spins) => f.pad(&format!("spin-park:{spins}")),
            Policy::SpinLearn => f.pad("spin-learn"),
            Policy::Ttas => f.pad("ttas"),
            Policy::Capped(spinners) => f.pad(&format!("capped:{spinners}")),
            Policy::Throttle(threads) => f.pad(&format!("throttle:{threads}")),
        }
    }
}

/// How threads wait for pthread's reader-writer locks. Each lock has one as long as it lives: what prefers writers is
/// its kind, and threads that wait by different kinds miss each other's wake-ups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RwPolicy {
    /// As the C library does: readers come in as long as readers are in, whoever waits.
    #[default]
    Glibc,
    /// Readers wait behind a writer that waits (`PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP`), but for threads that
    /// read already, whom the writer waits for.
    PreferWriter,
    /// Try so many times (with a pause in between), then wait as the C library does.
    SpinPark(u32),
}

impl RwPolicy {
    /// As one word for [`Settings::rw`]: kind in the lowest byte, number above.
    pub fn pack(self) -> u32 {
        let (kind, number) = match self {
            RwPolicy::Glibc => (0, 0),
            RwPolicy::PreferWriter => (1, 0),
            RwPolicy::SpinPark(tries) => (2, tries),
        };
        kind | number.min(Policy::MOST) << 8
    }

    /// The policy of a word; `None` for a word that no policy has.
    pub fn unpack(word: u32) -> Option<RwPolicy> {
        Some(match word & 0xff {
            0 => RwPolicy::Glibc,
            1 => RwPolicy::PreferWriter,
            2 => RwPolicy::SpinPark(word >> 8),
            _ => return None,
        })
    }
}

/// As it stands on a command line: `glibc`, `prefer-writer`, `spin-park:100`.
impl fmt::Display for RwPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RwPolicy::Glibc => f.pad("glibc"),
            RwPolicy::PreferWriter => f.pad("prefer-writer"),
            RwPolicy::SpinPark(tries) => f.pad(&format!("spin-park:{tries}")),
        }
    }
}

/// What is measured of every lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Profile {
    /// Only acquisitions of each thread, and the locks that were waited for.
    Off = 0,
    /// Acquisitions and contended acquisitions of every lock.
    Count = 1,
    /// As `Count`, and waits and holds of one acquisition in sixteen; waits that slept always.
    Sampled = 2,
    /// All waits and all holds: two clock readings for each acquisition.
    Full = 3,
}

/// The file of settings. Zero everywhere but for the first three fields means: do as glibc does.
#[derive(Debug)]
#[repr(C)]
pub struct Settings {
    /// [`MAGIC`].
    pub magic: u64,
    /// [`VERSION`].
    pub version: u32,
    /// Size of this file.
    pub bytes: u32,
    /// [`Policy`] of all locks without a rule.
    pub policy: AtomicU32,
    /// [`Profile`]; read when a process starts.
    pub profile: u32,
    /// A lock that has waiters but was not acquired for so long goes back to glibc's policy; 0 for never.
    pub watchdog_ms: u32,
    /// How many rules there are.
    pub rules_len: u32,
    /// Slots of the table in which the kernel looks up the process's futexes (PR_FUTEX_HASH), a power of two from 2 on;
    /// [`FUTEX_HASH_SHARED`] for the table that all processes share; 0 to leave it as it is.
    pub futex_hash: u32,
    /// [`RwPolicy`] of all reader-writer locks without a rule; read when a process starts.
    pub rw: u32,
    /// The last part of the path of the program to serve, ended by 0; empty for every one. Others run as if not
    /// interposed.
    pub program: [u8; PATH],
    /// The rules; the first that fits a lock decides.
    pub rules: [Rule; RULES],
}

/// A policy for some locks.
#[derive(Debug)]
#[repr(C)]
pub struct Rule {
    /// [`RULE_OBJECT`], [`RULE_SITE`] or [`RULE_INIT`].
    pub kind: u32,
    /// [`Policy`] of mutexes, or [`SAYS_NOTHING`].
    pub policy: AtomicU32,
    /// [`RwPolicy`] of reader-writer locks, or [`SAYS_NOTHING`]; read when a process starts.
    pub rw: u32,
    /// Room.
    pub reserved: u32,
    /// First address, as an offset from where the module's first byte is loaded.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Path of the module as the loader knows it, ended by 0; empty for the program itself.
    pub module: [u8; PATH],
}

/// In a [`Rule`]: it is not about such locks.
pub const SAYS_NOTHING: u32 = u32::MAX;
/// The lock lies within the range: a global variable.
pub const RULE_OBJECT: u32 = 1;
/// The first acquisition of the lock that was seen came from code in the range.
pub const RULE_SITE: u32 = 2;
/// The lock was initialised by code in the range.
pub const RULE_INIT: u32 = 3;

/// The file of one process.
#[derive(Debug)]
#[repr(C)]
pub struct Figures {
    /// [`MAGIC`], written last when the file is ready.
    pub magic: AtomicU64,
    /// [`VERSION`].
    pub version: u32,
    /// Size of this file.
    pub bytes: u32,
    /// The process.
    pub pid: u32,
    /// [`STATE_SERVES`] and so on.
    pub state: AtomicU32,
    /// When it began, on CLOCK_MONOTONIC.
    pub began_ns: u64,
    /// When it ended by itself (exit handlers ran); 0 while it runs, or if it was killed or executed another program.
    pub ended_ns: AtomicU64,
    /// The program.
    pub program: [u8; PATH],
    /// Locks that are not served, by [`Fallback`]: acquisitions.
    pub fallbacks: [AtomicU64; 8],
    /// Calls of futex that the interposer made to wait and that put the thread to sleep.
    pub futex_waits: AtomicU64,
    /// Calls of futex that the interposer made to wake.
    pub futex_wakes: AtomicU64,
    /// Locks that found no record of their own.
    pub locks_beyond: AtomicU64,
    /// Locks that the watchdog set back to glibc's policy.
    pub watchdog_trips: AtomicU64,
    /// Reader-writer locks that prefer writers because of the policy.
    pub rw_preferring: AtomicU64,
    /// Readers that did not wait longer for a writer that waited for readers, because the watchdog was due.
    pub rw_watchdog_trips: AtomicU64,
    /// Records of locks in use.
    pub locks_len: AtomicU32,
    /// Slots of threads that were ever in use.
    pub threads_len: AtomicU32,
    /// Modules with a known place.
    pub modules_len: AtomicU32,
    /// Of which profile these figures are.
    pub profile: u32,
    /// Slots of threads; a slot goes to another thread when its own has ended, and counts on.
    pub threads: [ThreadSlot; THREADS],
    /// Modules.
    pub modules: [Module; MODULES],
    /// Locks.
    pub locks: [LockRecord; LOCKS],
}

/// The process is served.
pub const STATE_SERVES: u32 = 1;
/// Nothing is served: the C library's mutexes are not laid out as expected.
pub const STATE_LAYOUT: u32 = 2;
/// Nothing is served: another program than the one that was asked for.
pub const STATE_OTHER: u32 = 3;
/// Nothing is served: another interposer of the same functions (a sanitizer, say) was there before.
pub const STATE_RIVAL: u32 = 4;
/// The process is served, and its figures have no file: the program limits the size of its files.
pub const STATE_UNCOUNTED: u32 = 5;
/// Nothing is served: there was no memory for the figures.
pub const STATE_MEMORY: u32 = 6;

/// Why a lock is left to glibc: places in [`Figures::fallbacks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Fallback {
    /// Shared between processes.
    Shared = 0,
    /// Robust.
    Robust = 1,
    /// With priority inheritance.
    Inherit = 2,
    /// With a priority ceiling.
    Protect = 3,
    /// Elided.
    Elided = 4,
    /// Destroyed, or of a kind that is not known.
    Unknown = 5,
    /// A reader-writer lock: the C library's own functions serve it, under every [`RwPolicy`].
    ReadWrite = 6,
    /// A spin lock, which is profiled only.
    Spin = 7,
}

/// What one thread did, written by it alone.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct ThreadSlot {
    /// The thread that has the slot now; 0 for none.
    pub tid: AtomicU32,
    /// Room.
    pub reserved: AtomicU32,
    /// Acquisitions of mutexes that are served.
    pub acquisitions: AtomicU64,
    /// Acquisitions that did not succeed at the first try.
    pub contended: AtomicU64,
    /// Acquisitions that slept.
    pub slept: AtomicU64,
}

/// Where a module is loaded.
#[derive(Debug)]
#[repr(C)]
pub struct Module {
    /// Where its first byte is.
    pub base: AtomicU64,
    /// Behind its last; 0 while the entry is not ready.
    pub end: AtomicU64,
    /// Its path, ended by 0.
    pub path: [u8; PATH],
}

/// One lock.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct LockRecord {
    /// Where it is; 0 while the record is not ready.
    pub addr: AtomicU64,
    /// `__kind` of the mutex, or one of [`KIND_RWLOCK`] and those after it.
    pub kind: u32,
    /// [`Policy`] from a rule or from the watchdog, of a reader-writer lock [`RwPolicy`] from a rule; `u32::MAX` to
    /// follow the settings.
    pub policy: AtomicU32,
    /// Return address of the call that initialised it; 0 if it was not seen.
    pub init_site: u64,
    /// Return address of the first call that was seen to acquire it.
    pub first_site: u64,
    /// Acquisitions; only written by holders.
    pub acquisitions: AtomicU64,
    /// Acquisitions that did not succeed at the first try.
    pub contended: AtomicU64,
    /// Acquisitions that slept.
    pub slept: AtomicU64,
    /// Threads that acquired it: bit (slot modulo 64).
    pub threads: AtomicU64,
    /// Whether the watchdog has set it back.
    pub tripped: AtomicU32,
    /// Threads that wait now, as the policy counts them.
    pub waiters: AtomicU32,
    /// Contended waits.
    pub wait: Durations,
    /// Times that it was held.
    pub hold: Durations,
    /// Where it is acquired.
    pub sites: [Site; SITES],
}

/// [`LockRecord::kind`] of a read-write lock.
pub const KIND_RWLOCK: u32 = 0x1_0000;
/// [`LockRecord::kind`] of a spin lock.
pub const KIND_SPIN: u32 = 0x1_0001;
/// [`LockRecord::kind`] of a semaphore.
pub const KIND_SEMAPHORE: u32 = 0x1_0002;
/// [`LockRecord::kind`] of a lock of OpenMP's.
pub const KIND_OPENMP: u32 = 0x1_0003;

/// Durations that were measured.
#[derive(Debug)]
#[repr(C)]
pub struct Durations {
    /// How many; for sampled ones, multiply by [`Durations::scale`].
    pub count: AtomicU64,
    /// Together.
    pub ns: AtomicU64,
    /// The longest.
    pub max_ns: AtomicU64,
    /// How many each stands for.
    pub scale: AtomicU64,
    /// How many of which length.
    pub buckets: [AtomicU32; BUCKETS],
}

/// A place that acquires a lock.
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    /// Return address; 0 for the rest that has no record of its own.
    pub addr: AtomicU64,
    /// Contended acquisitions from there.
    pub contended: AtomicU64,
    /// How long they waited together.
    pub wait_ns: AtomicU64,
}

/// The path that these bytes hold, up to the first 0.
pub fn path(bytes: &[u8; PATH]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(PATH);
    &bytes[..end]
}

/// Bytes that hold a path; of a long one the end.
pub fn path_bytes(path: &[u8]) -> [u8; PATH] {
    let mut bytes = [0; PATH];
    let kept = &path[path.len().saturating_sub(PATH - 1)..];
    bytes[..kept.len()].copy_from_slice(kept);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_survives_its_word() {
        let policies = [
            Policy::Glibc,
            Policy::SpinPark(100),
            Policy::SpinLearn,
            Policy::Ttas,
            Policy::Capped(2),
            Policy::Throttle(1),
        ];
        for policy in policies {
            assert_eq!(Policy::unpack(policy.pack()), Some(policy));
        }
        assert_eq!(Policy::Glibc.pack(), 0, "a file of zeros does as glibc does");
        assert_eq!(Policy::unpack(0xff), None);
        assert_eq!(Policy::unpack(Policy::Throttle(u32::MAX).pack()), Some(Policy::Throttle(Policy::MOST)));
    }

    #[test]
    fn every_policy_for_readers_and_writers_survives_its_word() {
        for policy in [RwPolicy::Glibc, RwPolicy::PreferWriter, RwPolicy::SpinPark(100)] {
            assert_eq!(RwPolicy::unpack(policy.pack()), Some(policy));
        }
        assert_eq!(RwPolicy::Glibc.pack(), 0, "a file of zeros does as glibc does");
        assert_eq!(RwPolicy::unpack(0xff), None);
    }

    #[test]
    fn of_a_long_path_the_end_is_kept() {
        let long = [b'a'; 300].into_iter().chain(*b"/prog").collect::<Vec<u8>>();
        let bytes = path_bytes(&long);
        assert_eq!(path(&bytes).len(), PATH - 1);
        assert!(path(&bytes).ends_with(b"/prog"));
        assert_eq!(path(&path_bytes(b"/bin/true")), b"/bin/true");
    }
}
