//! What can be measured as a lock, by name: ours, the peers, the maps, and none.

use std::sync::LazyLock;

use super::table::for_each;
use crate::suggest::did_you_mean;
use crate::sys;

/// What `holdup list locks` shows of one lock.
#[derive(Clone, Debug)]
pub struct LockEntry {
    /// The name for `--lock`.
    pub name: &'static str,
    /// Family: none, spin, queue, spin-then-park, kernel, reader-writer, peer, or map.
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
        let here = |entry: &&LockEntry| match entry.name {
            "win-rwlock" => sys::HAS_SRWLOCK,
            name => sys::HAS_PTHREAD || !name.starts_with("pthread"),
        };
        ENTRIES.iter().filter(here).cloned().collect()
    });
    &HERE
}

/// The lock that most programs of this system have: what a cell has by default, and with what others are compared.
pub const fn usual() -> &'static str {
    sys::USUAL_LOCK
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
    let hint = did_you_mean(text, all().iter().map(|entry| entry.name));
    let end = if hint.is_empty() { ";" } else { "" };
    Err(format!("there is no lock '{text}'{hint}{end} 'holdup list locks' shows them all"))
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
            "pthread-shared",
            "pthread-rwlock",
            "pthread-rwlock-writer",
            "pthread-rwlock-nonrec",
        ],
    ),
    (
        "Windows",
        &["critical-section", "srwlock", "wait-on-address", "win-mutex", "win-event", "win-semaphore", "win-rwlock"],
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
        self.family == "reader-writer" || self.name.contains("-rwlock") && !self.is_map()
    }

    /// Whether the laboratory tries it without waiting: our own locks and the C library's mutexes.
    pub fn can_try(&self) -> bool {
        let ours = !matches!(self.family, "peer" | "map" | "broken" | "reader-writer")
            && !matches!(self.name, "none" | "straddle");
        let entered = matches!(self.name, "critical-section" | "win-mutex");
        ours && !entered || self.name.starts_with("pthread") && !self.is_reader_writer()
    }

    /// Whether processes can share it.
    pub fn serves_processes(&self) -> bool {
        matches!(self.name, "eventfd" | "eventfd-sem" | "pipe" | "pthread-shared" | "tas" | "ttas")
    }

    /// Whether it has this factor of its own: `spin`, `backoff`, `spin-on` or `rmw`.
    pub fn takes(&self, factor: &str) -> bool {
        match factor {
            "spin" => {
                matches!(self.name, "adaptive" | "futex" | "critical-section" | "rw-adaptive" | "rw-sharded")
            }
            "backoff" | "spin-on" | "rmw" => matches!(self.name, "tas" | "ttas"),
            _ => false,
        }
    }
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

/// Makes the list out of our locks, the maps and the peers.
macro_rules! entries {
    (
        [
            maps { $($map:literal: $map_source:literal, $map_summary:literal;)* }
            peers { $($(#[$only:meta])? $name:literal: $type:ty, $family:literal, $recursive:literal, $source:literal, $summary:literal;)* }
        ]
        $({ $id:ident, $own:literal, $lock:ty, $own_family:ident, timed: $timed:ident, fifo: $fifo:ident,
            oversubscribable: $over:ident, $own_summary:literal, $own_source:literal })*
    ) => {        static ENTRIES: &[LockEntry] = &[
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
    };
}

for_each! { entries }

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
    fn every_reader_writer_lock_of_ours_is_here() {
        for info in holdup_locks::RW_LOCKS {
            let entry = named(info.name).unwrap();
            assert!(entry.is_reader_writer() && !entry.can_try(), "{}", info.name);
            assert_eq!(entry.summary, info.summary);
        }
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
        assert_eq!(check_name(usual()), Ok(usual()));
        // A list that names none of a system's own locks would let them pass for locks of all.
        let of_one_system = |entry: &&LockEntry| OF_ONE_SYSTEM.iter().any(|(_, names)| names.contains(&entry.name));
        let own = all().iter().filter(of_one_system).count();
        assert!(OF_ONE_SYSTEM.iter().any(|(_, names)| names.len() == own), "{own}");
    }

    #[test]
    fn a_wrong_name_is_answered_with_the_nearest() {
        assert!(check_name("adaptve").unwrap_err().contains("did you mean 'adaptive'?"));
        assert!(check_name("parkinglot").unwrap_err().contains("did you mean 'parking-lot'?"));
        assert!(!check_name("xxxxxxxxxxxxxxxx").unwrap_err().contains("did you mean"));
    }
}
