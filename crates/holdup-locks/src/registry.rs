//! Every lock, once: the table that conformance tests, benchmarks, the C interface and `holdup list locks` expand.
//!
//! Adding a lock is one file under `lock/` and one row here, or in `sys/rows.rs` for a lock that only one system has.
//! Reader-writer locks have a table of their own, because their interface is another.

/// What kind of waiting a lock does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// In user space; waiters keep their CPU, or give it away but never sleep.
    Spin,
    /// In user space; waiters stand in a queue and each watches its own memory.
    Queue,
    /// In user space while that lasts; waiters sleep in the kernel.
    SpinThenPark,
    /// Every acquisition and release is a system call.
    Kernel,
}

/// A lock's row of the registry, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// The type, as users write it.
    pub type_name: &'static str,
    /// How it waits.
    pub family: Family,
    /// It implements `RawMutexTimed`.
    pub timed: bool,
    /// It serves waiters in the order of their arrival.
    pub fifo: bool,
    /// It stays usable when threads outnumber CPUs; the others are for study.
    pub oversubscribable: bool,
    /// The size of the lock in bytes.
    pub size_bytes: usize,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// Calls `callback!` once with every lock's row.
///
/// A row is
/// `{ name, "name", $crate::Type, Family, timed: yes|no, fifo: yes|no, oversubscribable: yes|no, "summary", "source" }`,
/// and the callback gets `[ ctx ] rows...`, where `ctx` is whatever stood after the callback's name.
///
/// ```
/// macro_rules! count {
///     ([$start:expr] $({ $id:ident, $name:literal, $lock:ty, $($rest:tt)* })*) => { $start $(+ { let _ = $name; 1 })* };
/// }
/// assert_eq!(holdup_locks::for_each_lock!(count, 0), holdup_locks::LOCKS.len());
/// ```
#[macro_export]
macro_rules! for_each_lock {
    ($callback:ident $(, $($ctx:tt)*)?) => {
        $crate::with_locks_of_this_system! { $callback [$($($ctx)*)?]
            { tas, "tas", $crate::Tas, Spin, timed: yes, fifo: no, oversubscribable: yes,
                "test-and-set: spins on the atomic operation, backs off", "Anderson 1990, section 2" }
            { ttas, "ttas", $crate::Ttas, Spin, timed: yes, fifo: no, oversubscribable: yes,
                "test-and-test-and-set: spins on a read, backs off", "Anderson 1990, section 3; Intel 2009" }
            { ticket, "ticket", $crate::Ticket, Spin, timed: no, fifo: yes, oversubscribable: yes,
                "ticket lock: proportional back-off, then gives the CPU away", "Mellor-Crummey & Scott 1991, section \
                 2.2" }
            { ticket_spin, "ticket-spin", $crate::TicketSpin, Spin, timed: no, fifo: yes, oversubscribable: no,
                "ticket lock, pure spinning, for study", "Mellor-Crummey & Scott 1991, section 2.2" }
            { mcs, "mcs", $crate::Mcs, Queue, timed: no, fifo: no, oversubscribable: yes,
                "queue whose head competes with newcomers; spins, then sleeps", "Mellor-Crummey & Scott 1991, section \
                 2.4; Linux qspinlock" }
            { mcs_spin, "mcs-spin", $crate::McsSpin, Queue, timed: no, fifo: yes, oversubscribable: no,
                "MCS queue lock, pure spinning, for study", "Mellor-Crummey & Scott 1991, section 2.4; K42 variant" }
            { clh, "clh", $crate::Clh, Queue, timed: no, fifo: yes, oversubscribable: yes,
                "CLH queue lock: spins on the predecessor, then sleeps", "Craig 1993, section 3" }
            { clh_spin, "clh-spin", $crate::ClhSpin, Queue, timed: no, fifo: yes, oversubscribable: no,
                "CLH queue lock, pure spinning, for study", "Craig 1993, section 3" }
            { futex, "futex", $crate::Futex, SpinThenPark, timed: yes, fifo: no, oversubscribable: yes,
                "three states and a futex, barging: glibc's protocol", "Drepper 2011, section 6" }
            { adaptive, "adaptive", $crate::Adaptive, SpinThenPark, timed: yes, fifo: no, oversubscribable: yes,
                "learns how long to spin, then sleeps; nobody starves", "Karlin et al. 1991; Go 2016; Pizlo 2016" }
            { fair, "fair", $crate::Fair, SpinThenPark, timed: no, fifo: yes, oversubscribable: yes,
                "hands over to the first in the queue, always", "Mellor-Crummey & Scott 1991, section 2.4" }
        }
    };
}

/// A reader-writer lock's row of its registry, as data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RwLockInfo {
    /// The name on the command line.
    pub name: &'static str,
    /// The type, as users write it.
    pub type_name: &'static str,
    /// It implements `RawRwLockUpgrade`.
    pub upgradable: bool,
    /// The size of the lock in bytes.
    pub size_bytes: usize,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
}

/// Calls `callback!` once with every reader-writer lock's row.
///
/// A row is `{ name, "name", $crate::Type, upgradable: yes|no, "summary", "source" }`; the callback gets
/// `[ ctx ] rows...`, as from [`for_each_lock!`](crate::for_each_lock).
///
/// ```
/// macro_rules! count {
///     ([$start:expr] $({ $id:ident, $name:literal, $lock:ty, $($rest:tt)* })*) => { $start $(+ { let _ = $name; 1 })* };
/// }
/// assert_eq!(holdup_locks::for_each_rw_lock!(count, 0), holdup_locks::RW_LOCKS.len());
/// ```
#[macro_export]
macro_rules! for_each_rw_lock {
    ($callback:ident $(, $($ctx:tt)*)?) => {
        $callback! { [$($($ctx)*)?]
            { rw_adaptive, "rw-adaptive", $crate::RwAdaptive, upgradable: yes,
                "readers and writers in turn; spins, then sleeps", "Brandenburg & Anderson 2010, section 3; Go 2009" }
            { rw_sharded, "rw-sharded", $crate::RwSharded, upgradable: no,
                "readers count in slots of their threads, writers close all", "Hsieh & Weihl 1992; Linux 2.4" }
        }
    };
}

macro_rules! flag {
    (yes) => {
        true
    };
    (no) => {
        false
    };
}

macro_rules! infos {
    ([] $({
        $id:ident, $name:literal, $lock:ty, $family:ident, timed: $timed:ident, fifo: $fifo:ident,
        oversubscribable: $oversubscribable:ident, $summary:literal, $source:literal
    })*) => {
        &[$(LockInfo {
            name: $name,
            type_name: stringify!($lock),
            family: Family::$family,
            timed: flag!($timed),
            fifo: flag!($fifo),
            oversubscribable: flag!($oversubscribable),
            size_bytes: core::mem::size_of::<$lock>(),
            summary: $summary,
            source: $source,
        }),*]
    };
}

/// Every lock of this crate that the system has, as data.
///
/// ```
/// use holdup_locks::{Family, LOCKS};
///
/// let fair: Vec<&str> = LOCKS.iter().filter(|lock| lock.fifo && lock.oversubscribable).map(|lock| lock.name).collect();
/// assert!(fair.contains(&"fair") && !fair.contains(&"adaptive"));
/// assert!(LOCKS.iter().any(|lock| lock.family == Family::Queue && lock.size_bytes <= 40));
/// ```
pub const LOCKS: &[LockInfo] = for_each_lock!(infos);

macro_rules! rw_infos {
    ([] $({
        $id:ident, $name:literal, $lock:ty, upgradable: $upgradable:ident, $summary:literal, $source:literal
    })*) => {
        &[$(RwLockInfo {
            name: $name,
            type_name: stringify!($lock),
            upgradable: flag!($upgradable),
            size_bytes: core::mem::size_of::<$lock>(),
            summary: $summary,
            source: $source,
        }),*]
    };
}

/// Every reader-writer lock of this crate, as data.
///
/// ```
/// use holdup_locks::RW_LOCKS;
///
/// assert!(RW_LOCKS.iter().any(|lock| lock.upgradable && lock.size_bytes == 24));
/// ```
pub const RW_LOCKS: &[RwLockInfo] = for_each_rw_lock!(rw_infos);

/// Types and names of all locks, of either kind.
pub(crate) fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let locks = LOCKS.iter().map(|info| (info.type_name, info.name));
    locks.chain(RW_LOCKS.iter().map(|info| (info.type_name, info.name)))
}
