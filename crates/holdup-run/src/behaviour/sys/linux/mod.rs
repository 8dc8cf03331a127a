//! The table of behaviours.

mod beyond;
mod cond;
mod exclusion;
mod fork;
mod kinds;
mod memory;
mod objects;
mod readers;
mod siblings;
mod surroundings;
mod threads;
mod trial;

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;

use crate::behaviour::Behaviour;

/// All behaviours, the plainest first.
pub const BEHAVIOURS: &[Behaviour] = &[
    Behaviour {
        name: "lock",
        holds: "one thread at a time is inside, also with two locks nested",
        wrong: "two threads are inside at once, or a wake-up is lost and all sleep",
        body: exclusion::lock,
    },
    Behaviour {
        name: "trylock",
        holds: "trylock fails exactly while the lock is held, and excludes as lock does",
        wrong: "trylock goes to another lock than lock does, or is not counted as one",
        body: exclusion::trylock,
    },
    Behaviour {
        name: "timedlock",
        holds: "timedlock gets a free lock, gives up a held one at its deadline, and excludes",
        wrong: "it never times out, takes no lock, or leaves a place in a queue behind",
        body: exclusion::timedlock,
    },
    Behaviour {
        name: "clocklock",
        holds: "the same of clocklock, with both clocks",
        wrong: "the function of glibc 2.30 is forgotten, or one clock is taken for the other",
        body: exclusion::clocklock,
    },
    Behaviour {
        name: "cond-broadcast",
        holds: "every waiter wakes after a broadcast, and has the lock; a queue loses nothing",
        wrong: "waiters return without the lock, or the lock's places are taken by waiters",
        body: cond::broadcast,
    },
    Behaviour {
        name: "cond-clockwait",
        holds: "a signaller gets the lock during a timed wait; the wait ends at its deadline",
        wrong: "the wait keeps the replaced lock, so the signaller waits for the time-out",
        body: cond::clockwait,
    },
    Behaviour {
        name: "cond-cancel",
        holds: "a thread cancelled in a wait has the lock while it cleans up, and frees it",
        wrong: "unwinding skips the interposer's code after the wait, and its state leaks",
        body: cond::cancel,
    },
    Behaviour {
        name: "recursive",
        holds: "static and dynamic recursive locks count, and only the owner may unlock",
        wrong: "the second lock by the owner waits for itself",
        body: kinds::recursive,
    },
    Behaviour {
        name: "errorcheck",
        holds: "relocking is EDEADLK, unlocking what one does not hold is EPERM",
        wrong: "it hangs, aborts or says that all is well",
        body: kinds::errorcheck,
    },
    Behaviour {
        name: "robust",
        holds: "a lock whose owner died gives EOWNERDEAD, within and between processes",
        wrong: "the dead owner's lock is handed out as if nothing had happened, or never",
        body: kinds::robust,
    },
    Behaviour {
        name: "process-shared",
        holds: "a lock and a condition in shared memory work between processes",
        wrong: "each process has a lock of its own",
        body: fork::process_shared,
    },
    Behaviour {
        name: "fork-held",
        holds: "a lock held over fork is held in both processes; the child can free and use it",
        wrong: "the child finds it free, or waits for a thread that does not exist there",
        body: fork::held,
    },
    Behaviour {
        name: "fork-waiters",
        holds: "the same while other threads wait for it, who get it in the parent",
        wrong: "the child inherits a queue of threads that do not exist there",
        body: fork::waiters,
    },
    Behaviour {
        name: "threads-in-turn",
        holds: "3,000 threads one after another use a lock; one left locked can be unlocked",
        wrong: "room for threads is not used again, or an owner's record dies with its thread",
        body: threads::in_turn,
    },
    Behaviour {
        name: "threads-at-once",
        holds: "1,200 threads wait for one lock, and all get it",
        wrong: "there is room for fewer threads, and the others wait for ever or crash",
        body: threads::at_once,
    },
    Behaviour {
        name: "rwlock",
        holds: "readers are inside together, writers alone; spin locks exclude",
        wrong: "an exclusive lock serves readers: one who waits for another reader hangs",
        body: siblings::rwlock,
    },
    Behaviour {
        name: "rwlock-nested",
        holds: "who reads may read again while a writer waits, by any call, and another lock",
        wrong: "readers wait behind a writer who waits for one of them",
        body: readers::nested,
    },
    Behaviour {
        name: "rwlock-others",
        holds: "reader-writer locks of every kind work, between processes and across fork",
        wrong: "the kind or the sharing that a lock was made with is forgotten",
        body: readers::others,
    },
    Behaviour {
        name: "rwlock-timed",
        holds: "timed reads and writes have the lock or give up in time, by either clock",
        wrong: "one clock is taken for the other, or a writer that gave up still bars readers",
        body: readers::timed,
    },
    Behaviour {
        name: "c11",
        holds: "mtx_ and cnd_ functions keep their promises, and their own error codes",
        wrong: "they reach the C library past the interposer with another idea of the lock",
        body: siblings::c11,
    },
    Behaviour {
        name: "semaphore",
        holds: "it counts; waits for it end by time, signal and cancellation; any thread may post",
        wrong: "a wait sleeps on where the C library's would have ended",
        body: beyond::semaphore,
    },
    Behaviour {
        name: "openmp",
        holds: "libgomp's critical sections and locks exclude; nested ones count (if it is there)",
        wrong: "the runtime's lock is replaced at some of its names, but not at all",
        body: beyond::openmp,
    },
    Behaviour {
        name: "reuse",
        holds: "freed memory may be a lock again; after its last unlock nobody touches it",
        wrong: "state of the old lock lives on in a table, or unlock writes after releasing",
        body: memory::reuse,
    },
    Behaviour {
        name: "destroy-held",
        holds: "destroying a held lock is EBUSY; a free one can be destroyed and made again",
        wrong: "glibc's record of users is not kept, and the held lock is destroyed",
        body: memory::destroy_held,
    },
    Behaviour {
        name: "deepbind",
        holds: "a plugin that reaches glibc's own functions excludes on the same lock",
        wrong: "the interposer's state is beside the lock's word, which the plugin uses",
        body: surroundings::deepbind,
    },
    Behaviour {
        name: "early",
        holds: "locks taken before any constructor ran stay as they are",
        wrong: "the interposer crashes before its constructor, or forgets what was locked",
        body: surroundings::early,
    },
];

/// Whether this process has the library: it is mapped under this name, even if another file has taken that name since.
pub fn has_loaded(library: &OsStr) -> bool {
    let Ok(maps) = std::fs::read("/proc/self/maps") else { return false };
    let named = |line: &[u8]| line.strip_suffix(b" (deleted)").unwrap_or(line).ends_with(library.as_bytes());
    maps.split(|byte| *byte == b'\n').any(named)
}
