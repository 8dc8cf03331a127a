//! The mutexes that stand beside OpenMP's locks, in a table by the lock's address.

use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::mutex::Mutex;

const ENTRIES: usize = 1024;
/// Entries that are looked at.
const PROBES: usize = 16;
static TABLE: [Entry; ENTRIES] = [const { Entry::new() }; ENTRIES];

/// A lock, and the mutex beside it.
pub struct Entry {
    address: AtomicU64,
    /// Whether somebody holds the lock, as far as was seen.
    pub held: AtomicU32,
    /// Whether its holder has the mutex too.
    pub through: AtomicU32,
    /// How often the holder of a lock that can be nested has it.
    pub depth: AtomicU32,
    /// What is waited for under a policy.
    pub mutex: Mutex,
}

impl Entry {
    const fn new() -> Entry {
        Entry {
            address: AtomicU64::new(0),
            held: AtomicU32::new(0),
            through: AtomicU32::new(0),
            depth: AtomicU32::new(0),
            mutex: Mutex::new(),
        }
    }
}

/// The entry of the lock at an address; none if there is no room.
pub fn entry(address: u64) -> Option<&'static Entry> {
    let first = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    (0..PROBES).map(|step| &TABLE[(first + step) % ENTRIES]).find(|entry| {
        // A look first: an exchange that fails takes the cache line from the others all the same.
        let known = entry.address.load(Ordering::Relaxed);
        let taken = || entry.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed);
        known == address || known == 0 && taken().map_or_else(|other| other == address, |_| true)
    })
}

/// The address of the lock beside which a mutex stands, if it is one of ours.
pub fn address_of(mutex: &Mutex) -> Option<u64> {
    let range = TABLE.as_ptr_range();
    let at = ptr::from_ref(mutex) as usize;
    let offset = at.checked_sub(range.start as usize).filter(|_| at < range.end as usize)?;
    Some(TABLE[offset / size_of::<Entry>()].address.load(Ordering::Relaxed))
}

/// The mutex that stands beside the lock at an address.
pub fn mutex_of(address: u64) -> Option<&'static Mutex> {
    TABLE.iter().find(|entry| entry.address.load(Ordering::Relaxed) == address).map(|entry| &entry.mutex)
}
