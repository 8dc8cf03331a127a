//! The one table of what is measured: our locks, which their crate lists, with the maps and the peers.

/// Calls a macro with the rows.
macro_rules! for_each {
    ($then:ident) => {
        holdup_locks::for_each_lock! { $then,
            maps {
                "table-map": "Emmons 2001", "ours: a map over a lock table (workload map)";
                "map-mutex": "Rust standard library", "Mutex<HashMap> (workload map)";
                "map-rwlock": "Rust standard library", "RwLock<HashMap> (workload map)";
                "map-dashmap": "crate dashmap", "sharded map (workload map)";
                "map-scc": "crate scc", "map with bucket locks (workload map)";
                "map-papaya": "crate papaya", "lock-free map (workload map)";
            }
            peers {
                "rw-adaptive": Shared<holdup_locks::RwAdaptive>, "reader-writer", false, "Brandenburg & Anderson 2010; Go 2009", "readers and writers in turn; spins, then sleeps";
                "rw-sharded": Shared<holdup_locks::RwSharded>, "reader-writer", false, "Hsieh & Weihl 1992; Linux 2.4", "readers count in slots of their threads, writers close all";
                "pthread": pthread::Normal, "peer", false, "POSIX, C library", "the C library's default mutex";
                "pthread-adaptive": pthread::Adaptive, "peer", false, "C library", "spins up to 100 times before it sleeps";
                "pthread-recursive": pthread::Recursive, "peer", true, "POSIX, C library", "may be taken again by its owner";
                "pthread-errorcheck": pthread::ErrorCheck, "peer", false, "POSIX, C library", "checks who takes and releases it";
                "pthread-pi": pthread::PriorityInherit, "peer", false, "POSIX, C library", "lends the waiter's priority to the owner";
                "pthread-shared": pthread::Shared, "peer", false, "POSIX, C library", "serves several processes that share its memory";
                "std": std::sync::Mutex<()>, "peer", false, "Rust standard library", "std::sync::Mutex";
                "parking-lot": parking_lot::Mutex<()>, "peer", false, "crate parking_lot", "one byte, waiters in a global table";
                "parking-lot-fair": parking_lot::FairMutex<()>, "peer", false, "crate parking_lot", "hands over to the first waiter";
                "std-rwlock": std::sync::RwLock<()>, "peer", false, "Rust standard library", "reader-writer lock";
                "pthread-rwlock": pthread::PreferReader, "peer", false, "POSIX, C library", "reader-writer lock: readers pass writers that wait";
                "pthread-rwlock-writer": pthread::PreferWriter, "peer", false, "C library", "reader-writer lock that asks for writers first; glibc lets readers pass all the same";
                "pthread-rwlock-nonrec": pthread::PreferWriterNonRecursive, "peer", false, "C library", "reader-writer lock: writers that wait keep new readers out";
                "parking-lot-rwlock": parking_lot::RwLock<()>, "peer", false, "crate parking_lot", "reader-writer lock";
                "spin-rwlock": spin::rwlock::RwLock<()>, "peer", false, "crate spin", "reader-writer lock: spins, never sleeps; a writer may starve";
                "usync-rwlock": usync::RwLock<()>, "peer", false, "crate usync", "reader-writer lock, waiters in a queue of their own";
                "win-rwlock": srwlock::Shared, "peer", false, "Win32, since Windows Vista", "SRWLOCK, which readers share";
                "spin-ttas": spin::mutex::SpinMutex<()>, "peer", false, "crate spin", "spins on a read, never sleeps";
                "spin-ticket": spin::mutex::TicketMutex<()>, "peer", false, "crate spin", "first come, first served, never sleeps";
                "mcslock": mcslock::raw::spins::Mutex<()>, "peer", false, "crate mcslock", "queue lock, each spins on its own node";
                "usync": usync::Mutex<()>, "peer", false, "crate usync", "one word, waiters in a queue of their own";
                "straddle": Straddle, "spin", false, "", "test-and-set at any offset, also across two cache lines";
                #[cfg(feature = "broken-locks")]
                "broken-lost-update": broken::LostUpdate, "broken", true, "", "does not exclude";
                #[cfg(feature = "broken-locks")]
                "broken-deadlock": broken::Deadlock, "broken", false, "", "forgets to release after a while";
                #[cfg(feature = "broken-locks")]
                "broken-crash": broken::Crash, "broken", false, "", "ends the process after a while";
                #[cfg(feature = "broken-locks")]
                "broken-panic": broken::Panics, "broken", false, "", "panics after a while";
            }
        }
    };
}
pub(super) use for_each;
