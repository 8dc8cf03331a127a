//! Locks that the real functions serve, spin locks among them: they are counted, and with a profile each has a record.
//! They have no spare bytes, so their records are found by address.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::counted::{Kind, count};
use super::process::Served;
use super::record::{self, Record};
use super::{clock, real, start};

/// Which record the lock at an address has, by the hash of the address. An entry is never given back: what lies at an
/// address later is taken for the same lock.
static TABLE: [Entry; ENTRIES] = [const { Entry { address: AtomicU64::new(0), record: AtomicU32::new(0) } }; ENTRIES];
const ENTRIES: usize = 4096;
/// Entries that are looked at.
const PROBES: usize = 32;

struct Entry {
    address: AtomicU64,
    /// One more than the place of the record; 0 while it is being made.
    record: AtomicU32,
}

/// One acquisition by the real function: `attempt` does not wait, `acquire` does.
pub fn pass(
    kind: Kind,
    lock: *mut c_void,
    site: usize,
    attempt: impl FnOnce() -> c_int,
    acquire: impl FnOnce() -> c_int,
) -> c_int {
    let Some(served) = start::enter() else { return acquire() };
    if !served.process.profiles() {
        let result = acquire();
        return count(served, kind, result);
    }
    let record = record_of(served, kind.record(), lock, 0, site);
    if attempt() == 0 {
        if let Some(record) = record {
            record.passed(served.thread);
        }
        return count(served, kind, 0);
    }
    let began = served.process.times_waits().then(clock::now);
    let result = acquire();
    if let (0, Some(record)) = (result, record) {
        let wait_ns = began.map(clock::since_ns);
        record.passed(served.thread);
        record.waited(served.thread, site, false, wait_ns);
    }
    count(served, kind, result)
}

/// The record of a lock that many threads have at the same time, made if it has none; none if there is no room.
pub fn record_of(served: Served, kind: u32, lock: *mut c_void, init_site: u64, site: usize) -> Option<Record> {
    let address = lock as u64;
    let first = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as usize;
    for step in 0..PROBES {
        let entry = &TABLE[(first + step) % ENTRIES];
        match entry.address.compare_exchange(0, address, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => {
                let at = record::make(served.process, address, kind, init_site, site);
                // ORDERING: Release, with the Acquire below: it carries the record's fields that are no atomics.
                entry.record.store(at as u32 + 1, Ordering::Release);
                return Some(record::at_place(served.process, at).of_many());
            }
            Err(there) if there == address => {
                let at = entry.record.load(Ordering::Acquire).checked_sub(1)?;
                return Some(record::at_place(served.process, at as usize).of_many());
            }
            Err(_) => {}
        }
    }
    None
}

/// `pthread_spin_lock`.
///
/// # Safety
/// `lock` points to an initialised spin lock, which outlives the call.
pub unsafe extern "C" fn spin_lock(lock: *mut c_void, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { pass(Kind::Spin, lock, site, || real::spin_trylock(lock), || real::spin_lock(lock)) }
}

/// `pthread_spin_trylock`.
///
/// # Safety
/// `lock` points to an initialised spin lock, which outlives the call.
pub unsafe extern "C" fn spin_trylock(lock: *mut c_void, site: usize) -> c_int {
    // SAFETY: the caller's promise.
    tried(Kind::Spin, lock, site, unsafe { real::spin_trylock(lock) })
}

/// An attempt was made.
pub fn tried(kind: Kind, lock: *mut c_void, site: usize, result: c_int) -> c_int {
    pass(kind, lock, site, || result, || result)
}
