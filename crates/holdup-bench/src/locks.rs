//! The registry of everything that can be measured as a lock: ours, the peers, and none.

use std::sync::LazyLock;

use holdup_locks::SpinPolicy;

use crate::arch::Straddle;
#[cfg(feature = "broken-locks")]
use crate::broken;
use crate::lock::{BenchLock, Nothing, Ours, Reentrant};
use crate::spec::{Backoff, Rmw, Spec, SpinOn};
use crate::sys::pthread;

/// What `holdup list locks` shows of one lock.
#[derive(Clone, Debug)]
pub struct LockEntry {
    /// The name for `--lock`.
    pub name: &'static str,
    /// Family: none, spin, queue, spin-then-park, kernel, peer, or map.
    pub family: &'static str,
    /// One line about it.
    pub summary: &'static str,
    /// Where the algorithm was published, or which crate it is.
    pub source: &'static str,
    /// May one thread take it twice without the wrapper?
    pub recursive: bool,
}

/// Every lock that this system has, in the order of lists.
pub fn all() -> &'static [LockEntry] {
    static HERE: LazyLock<Vec<LockEntry>> = LazyLock::new(|| {
        let here = |entry: &&LockEntry| pthread::PRESENT || !entry.name.starts_with("pthread");
        ENTRIES.iter().filter(here).cloned().collect()
    });
    &HERE
}

/// The registered name equal to `text`, or an error that names the nearest; `holdup` adds the full list.
pub fn check_name(text: &str) -> Result<&'static str, String> {
    if let Some(entry) = named(text) {
        return Ok(entry.name);
    }
    if let Some(system) = exists_only_on(text) {
        return Err(format!(
            "there is no lock '{text}' here, only on {system}; 'holdup list locks' shows what there is"
        ));
    }
    let nearest = all().iter().map(|entry| (distance(text, entry.name), entry.name)).min();
    let hint = match nearest {
        Some((distance, name)) if distance <= name.len() / 2 => format!("did you mean '{name}'? "),
        _ => String::new(),
    };
    Err(format!("there is no lock '{text}'; {hint}'holdup list locks' shows them"))
}

/// Locks that only one system has, and which.
const OF_ONE_SYSTEM: [(&str, &[&str]); 2] = [
    (
        "Linux",
        &[
            "eventfd",
            "eventfd-sem",
            "sysv-sem",
            "futex-pi",
            "pipe",
            "pthread",
            "pthread-adaptive",
            "pthread-recursive",
            "pthread-errorcheck",
            "pthread-pi",
            "pthread-rwlock",
        ],
    ),
    (
        "Windows",
        &["critical-section", "srwlock", "wait-on-address", "win-mutex", "win-event", "win-semaphore"],
    ),
];

/// The system that has a lock of this name, where this one has not.
pub fn exists_only_on(name: &str) -> Option<&'static str> {
    let of = OF_ONE_SYSTEM.iter().find(|(_, names)| names.contains(&name))?;
    named(name).is_none().then_some(of.0)
}

/// The entry of this name.
pub fn named(name: &str) -> Option<&'static LockEntry> {
    all().iter().find(|entry| entry.name == name)
}

impl LockEntry {
    /// Whether it is a map, which the workload `map` takes and no other does.
    pub fn is_map(&self) -> bool {
        self.family == "map"
    }

    /// Whether readers may share it.
    pub fn is_reader_writer(&self) -> bool {
        self.name.ends_with("-rwlock") && !self.is_map()
    }

    /// Whether it has this factor of its own: `spin`, `backoff`, `spin-on` or `rmw`.
    pub fn takes(&self, factor: &str) -> bool {
        match factor {
            "spin" => matches!(self.name, "adaptive" | "futex" | "critical-section"),
            "backoff" | "spin-on" | "rmw" => matches!(self.name, "tas" | "ttas"),
            _ => false,
        }
    }
}

/// How many letters must change to make one word the other (Levenshtein).
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, letter) in from.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != *other);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
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

/// Family names of `holdup_locks`, as lists show them.
macro_rules! family {
    (Spin) => {
        "spin"
    };
    (Queue) => {
        "queue"
    };
    (SpinThenPark) => {
        "spin-then-park"
    };
    (Kernel) => {
        "kernel"
    };
}

/// The factors and kernel objects of our own locks, by the registry's identifier.
macro_rules! ours {
    (adaptive, $lock:ty) => {
        impl Ours for $lock {
            fn configured(spec: &Spec) -> Self {
                spec.spin.map_or(Self::new(), Self::with_spin)
            }
        }
    };
    (futex, $lock:ty) => {
        impl Ours for $lock {
            fn configured(spec: &Spec) -> Self {
                spec.spin.map_or(Self::new(), Self::with_spin)
            }
        }
    };
    (tas, $lock:ty) => {
        impl<R: holdup_locks::Rmw + Send + Sync> Ours for holdup_locks::Tas<R> {
            fn configured(spec: &Spec) -> Self {
                let usual = SpinPolicy::DEFAULT.with_spin_on(holdup_locks::SpinOn::Rmw);
                Self::with_policy(policy(spec, usual))
            }
        }
    };
    (ttas, $lock:ty) => {
        impl<R: holdup_locks::Rmw + Send + Sync> Ours for holdup_locks::Ttas<R> {
            fn configured(spec: &Spec) -> Self {
                Self::with_policy(policy(spec, SpinPolicy::DEFAULT))
            }
        }
    };
    (eventfd, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (eventfd_sem, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (sysv_sem, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (futex_pi, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (pipe, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (win_event, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (win_semaphore, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (srwlock, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (wait_on_address, $lock:ty) => {
        ours!(kernel object, $lock);
    };
    (win_mutex, $lock:ty) => {
        ours!(entered, $lock, |_| Self::new());
    };
    (critical_section, $lock:ty) => {
        ours!(entered, $lock, |spec| spec.spin.map_or(Self::new(), Self::with_spin));
    };
    (entered, $lock:ty, |$spec:pat_param| $new:expr) => {
        impl Ours for $lock {
            fn configured($spec: &Spec) -> Self {
                $new
            }

            fn make(&self) -> Result<(), String> {
                self.create().map_err(|error| error.to_string())
            }

            fn accept<V: Visitor>(_wrapped: bool, visitor: V) -> V::Out {
                visitor.visit::<crate::lock::Entered<$lock>>()
            }
        }

        impl crate::lock::Enter for $lock {
            #[inline(always)]
            fn enter(&self) {
                self.enter();
            }

            #[inline(always)]
            unsafe fn leave(&self) {
                // SAFETY: the caller promises what this asks.
                unsafe { self.leave() };
            }
        }
    };
    (kernel object, $lock:ty) => {
        impl Ours for $lock {
            fn make(&self) -> Result<(), String> {
                self.create().map_err(|error| error.to_string())
            }
        }
    };
    ($id:ident, $lock:ty) => {
        impl Ours for $lock {}
    };
}

/// Whether a lock of ours is measured by its own recursive entry.
macro_rules! recursive {
    (critical_section) => {
        true
    };
    (win_mutex) => {
        true
    };
    ($id:ident) => {
        false
    };
}

/// How a spin lock of ours waits in this cell.
fn policy(spec: &Spec, usual: SpinPolicy) -> SpinPolicy {
    let mut policy = usual;
    if let Some(backoff) = spec.backoff {
        policy = policy.with_backoff(match backoff {
            Backoff::None => holdup_locks::Backoff::None,
            Backoff::Count => holdup_locks::Backoff::Count,
            Backoff::Exponential => holdup_locks::Backoff::Exponential,
        });
    }
    if let Some(spin_on) = spec.spin_on {
        policy = policy.with_spin_on(match spin_on {
            SpinOn::Read => holdup_locks::SpinOn::Read,
            SpinOn::Rmw => holdup_locks::SpinOn::Rmw,
        });
    }
    policy
}

/// Makes the list and the dispatcher out of our locks, the maps and the peers.
macro_rules! registry {
    (
        [
            maps { $($map:literal: $map_source:literal, $map_summary:literal;)* }
            peers { $($(#[$only:meta])? $name:literal: $type:ty, $family:literal, $recursive:literal, $source:literal, $summary:literal;)* }
        ]
        $({ $id:ident, $own:literal, $lock:ty, $own_family:ident, timed: $timed:ident, fifo: $fifo:ident,
            oversubscribable: $over:ident, $own_summary:literal, $own_source:literal })*
    ) => {
        static ENTRIES: &[LockEntry] = &[
            LockEntry {
                name: "none",
                family: "none",
                summary: "no synchronisation: the loop itself",
                source: "",
                recursive: true,
            },
            $(LockEntry {
                name: $own,
                family: family!($own_family),
                summary: $own_summary,
                source: $own_source,
                recursive: recursive!($id),
            },)*
            $($(#[$only])? LockEntry {
                name: $name,
                family: $family,
                summary: $summary,
                source: $source,
                recursive: $recursive,
            },)*
            $(LockEntry {
                name: $map,
                family: "map",
                summary: $map_summary,
                source: $map_source,
                recursive: false,
            },)*
        ];

        $(ours!($id, $lock);)*

        /// Calls the visitor with the type behind a cell's lock; `wrapped` makes a lock recursive that is not.
        pub(crate) fn dispatch<V: Visitor>(name: &str, rmw: Option<Rmw>, wrapped: bool, visitor: V) -> V::Out {
            match (name, rmw) {
                ("none", _) => visitor.visit::<Nothing>(),
                ("tas", Some(Rmw::CmpXchg)) => {
                    <holdup_locks::Tas<holdup_locks::CompareExchange> as Ours>::accept(wrapped, visitor)
                }
                ("ttas", Some(Rmw::CmpXchg)) => {
                    <holdup_locks::Ttas<holdup_locks::CompareExchange> as Ours>::accept(wrapped, visitor)
                }
                $(($own, _) => <$lock as Ours>::accept(wrapped, visitor),)*
                $($(#[$only])? ($name, _) => peer::<$type, V>(wrapped && !$recursive, visitor),)*
                _ => visitor.unknown(name),
            }
        }
    };
}

fn peer<L: BenchLock, V: Visitor>(wrapped: bool, visitor: V) -> V::Out {
    if wrapped { visitor.visit::<Reentrant<L>>() } else { visitor.visit::<L>() }
}

holdup_locks::for_each_lock! { registry,
    maps {
        "table-map": "Emmons 2001", "ours: a map over a lock table (workload map)";
        "map-mutex": "Rust standard library", "Mutex<HashMap> (workload map)";
        "map-rwlock": "Rust standard library", "RwLock<HashMap> (workload map)";
        "map-dashmap": "crate dashmap", "sharded map (workload map)";
        "map-scc": "crate scc", "map with bucket locks (workload map)";
        "map-papaya": "crate papaya", "lock-free map (workload map)";
    }
    peers {
        "pthread": pthread::Normal, "peer", false, "POSIX, C library", "the C library's default mutex";
        "pthread-adaptive": pthread::Adaptive, "peer", false, "C library", "spins up to 100 times before it sleeps";
        "pthread-recursive": pthread::Recursive, "peer", true, "POSIX, C library", "may be taken again by its owner";
        "pthread-errorcheck": pthread::ErrorCheck, "peer", false, "POSIX, C library", "checks who takes and releases it";
        "pthread-pi": pthread::PriorityInherit, "peer", false, "POSIX, C library", "lends the waiter's priority to the owner";
        "std": std::sync::Mutex<()>, "peer", false, "Rust standard library", "std::sync::Mutex";
        "parking-lot": parking_lot::Mutex<()>, "peer", false, "crate parking_lot", "one byte, waiters in a global table";
        "parking-lot-fair": parking_lot::FairMutex<()>, "peer", false, "crate parking_lot", "hands over to the first waiter";
        "std-rwlock": std::sync::RwLock<()>, "peer", false, "Rust standard library", "reader-writer lock, taken for writing";
        "pthread-rwlock": pthread::RwLock, "peer", false, "POSIX, C library", "reader-writer lock, taken for writing";
        "parking-lot-rwlock": parking_lot::RwLock<()>, "peer", false, "crate parking_lot", "reader-writer lock, taken for writing";
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_lock_has_a_line() {
        for (index, entry) in all().iter().enumerate() {
            assert!(all()[..index].iter().all(|other| other.name != entry.name), "{}", entry.name);
            assert!(!entry.summary.is_empty(), "{}", entry.name);
            assert_eq!(check_name(entry.name), Ok(entry.name));
        }
        assert!(all().len() > holdup_locks::LOCKS.len() + 15);
    }

    #[test]
    fn a_lock_of_another_system_is_told_from_one_that_nobody_has() {
        let (here, elsewhere) = match exists_only_on("eventfd") {
            None => ("eventfd", "win-mutex"),
            Some(_) => ("win-mutex", "eventfd"),
        };
        assert_eq!(check_name(here), Ok(here));
        let why = check_name(elsewhere).unwrap_err();
        assert!(why.contains(exists_only_on(elsewhere).unwrap()), "{why}");
        // A list that names none of a system's own locks would let them pass for locks of all.
        let of_one_system =
            |entry: &&LockEntry| OF_ONE_SYSTEM.iter().any(|(_, names)| names.contains(&entry.name));
        let own = all().iter().filter(of_one_system).count();
        assert!(OF_ONE_SYSTEM.iter().any(|(_, names)| names.len() == own), "{own}");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        assert!(check_name("adaptve").unwrap_err().contains("did you mean 'adaptive'?"));
        assert!(check_name("pthred").unwrap_err().contains("did you mean 'pthread'?"));
        assert!(!check_name("xxxxxxxxxxxxxxxx").unwrap_err().contains("did you mean"));
    }
}
