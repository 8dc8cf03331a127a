//! The registry of everything that can be measured as a lock: ours, the peers, and none.

use crate::lock::{BenchLock, Nothing};
use crate::sys::pthread;

/// What `holdup list locks` shows of one lock.
#[derive(Clone, Debug)]
pub struct LockEntry {
    /// The name for `--lock`.
    pub name: &'static str,
    /// Family: none, spin, queue, spin-then-park, kernel, or peer.
    pub family: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Where the algorithm was published, or which crate it is.
    pub source: &'static str,
    /// May one thread take it twice without the wrapper?
    pub recursive: bool,
}

/// Every lock, in the order of lists.
pub fn all() -> &'static [LockEntry] {
    ENTRIES
}

/// The registered name equal to `text`, or an error that names the nearest; `holdup` adds the full list.
pub fn check_name(text: &str) -> Result<&'static str, String> {
    all()
        .iter()
        .find(|entry| entry.name == text)
        .map(|entry| entry.name)
        .ok_or_else(|| format!("there is no lock '{text}'; 'holdup list locks' shows them"))
}

/// Something to do with the type behind a lock's name.
pub(crate) trait Visitor {
    /// What comes of it.
    type Out;

    /// Does it.
    fn visit<L: BenchLock>(self) -> Self::Out;

    /// There is no lock of this name.
    fn unknown(self, name: &str) -> Self::Out;
}

/// One line per lock: name, type, family, whether it is recursive by itself, source, summary.
macro_rules! registry {
    ($($name:literal: $type:ty, $family:literal, $recursive:literal, $source:literal, $summary:literal;)*) => {
        static ENTRIES: &[LockEntry] = &[$(LockEntry {
            name: $name,
            family: $family,
            summary: $summary,
            source: $source,
            recursive: $recursive,
        }),*];

        /// Calls the visitor with the type behind a name.
        pub(crate) fn dispatch<V: Visitor>(name: &str, visitor: V) -> V::Out {
            match name {
                $($name => visitor.visit::<$type>(),)*
                _ => visitor.unknown(name),
            }
        }
    };
}

registry! {
    "none": Nothing, "none", true, "", "no synchronisation: the loop itself";
    "pthread": pthread::Normal, "peer", false, "POSIX, C library", "the C library's default mutex";
    "pthread-adaptive": pthread::Adaptive, "peer", false, "C library", "spins up to 100 times before it sleeps";
    "pthread-recursive": pthread::Recursive, "peer", true, "POSIX, C library", "may be taken again by its owner";
    "pthread-errorcheck": pthread::ErrorCheck, "peer", false, "POSIX, C library", "checks who takes and releases it";
    "pthread-pi": pthread::PriorityInherit, "peer", false, "POSIX, C library", "lends the waiter's priority to the owner";
    "std": std::sync::Mutex<()>, "peer", false, "Rust standard library", "std::sync::Mutex";
    "parking-lot": parking_lot::Mutex<()>, "peer", false, "crate parking_lot", "one byte, waiters in a global table";
    "parking-lot-fair": parking_lot::FairMutex<()>, "peer", false, "crate parking_lot", "hands over to the first waiter";
    "std-rwlock": std::sync::RwLock<()>, "peer", false, "Rust standard library", "std::sync::RwLock, taken for writing";
    "pthread-rwlock": pthread::RwLock, "peer", false, "POSIX, C library", "taken for writing";
    "parking-lot-rwlock": parking_lot::RwLock<()>, "peer", false, "crate parking_lot", "taken for writing";
    "spin-ttas": spin::mutex::SpinMutex<()>, "peer", false, "crate spin", "spins on a read, never sleeps";
    "spin-ticket": spin::mutex::TicketMutex<()>, "peer", false, "crate spin", "first come, first served, never sleeps";
    "mcslock": mcslock::raw::spins::Mutex<()>, "peer", false, "crate mcslock", "queue lock, each spins on its own node";
    "usync": usync::Mutex<()>, "peer", false, "crate usync", "one word, waiters in a queue of their own";
}
