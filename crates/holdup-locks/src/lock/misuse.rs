//! What debug builds check: a lock that is taken again by its holder, released by a stranger, released twice, or
//! dropped while it is held ends in a panic that names the lock, its address and, where known, its holder.
//!
//! Who holds what stands in a table beside the locks, keyed by address, so that a lock's size and layout are the same
//! in every build. An entry is one word: the address, which ends in two zero bits, above the holder's thread number.
//!
//! Invariants:
//! 1. Only a lock's holder writes entries with its address: it enters itself after it has taken the lock and strikes
//!    itself out before it releases. So an entry with the reader's own number is never stale, and for the holder there
//!    is no other.
//! 2. A lock without an entry is never reported as somebody's: the table may be full, the lock may have moved since,
//!    the number may not fit. Then only the lock's own word decides: what is free cannot be released.
//! 3. No lock guards the table: a forked child finds it whole.
//!
//! # Memory orderings
//! All Relaxed. By 1 a thread needs only its own writes and those that happened before it took the lock; and anything
//! stronger would lend the locks under Miri and ThreadSanitizer an order that they do not have.
//!
//! A guard therefore stays on its thread (`GuardNoSend`), also where the algorithm would let another thread release: an
//! eventfd is an event for anybody, but the lock made of it has one holder.
//!
//! Cost: none in release builds; eight to twenty loads per acquisition in debug builds.

use lock_api::RawMutex;
#[cfg(feature = "std")]
use lock_api::RawRwLock;

/// Before a lock that blocks: the holder would wait for itself.
#[inline(always)]
pub(crate) fn before_lock<L: RawMutex>(lock: &L) {
    #[cfg(all(debug_assertions, feature = "std", not(loom)))]
    check_lock(lock, L::is_locked);
    let _ = lock;
}

/// Before a reader-writer lock is waited for, in either way: its writer would wait for itself. Readers are many, and
/// stand in no table.
#[cfg(feature = "std")]
#[inline(always)]
pub(crate) fn before_rw_lock<L: RawRwLock>(lock: &L) {
    #[cfg(all(debug_assertions, feature = "std", not(loom)))]
    check_lock(lock, L::is_locked);
    let _ = lock;
}

/// After a lock was taken.
#[inline(always)]
pub(crate) fn acquired<L>(lock: &L) {
    #[cfg(all(debug_assertions, feature = "std", not(loom)))]
    holders::enter(lock);
    let _ = lock;
}

/// Before a release: only the holder may, and once.
#[inline(always)]
pub(crate) fn before_unlock<L: RawMutex>(lock: &L) {
    #[cfg(debug_assertions)]
    check_release(lock, L::is_locked, "while free");
    let _ = lock;
}

/// Before a writer releases: only it may, and once.
#[cfg(feature = "std")]
#[inline(always)]
pub(crate) fn before_rw_unlock<L: RawRwLock>(lock: &L) {
    #[cfg(debug_assertions)]
    check_release(lock, L::is_locked_exclusive, if lock.is_locked() { "without a writer in it" } else { "while free" });
    let _ = lock;
}

/// Before a reader releases: some reader must be in.
#[cfg(feature = "std")]
#[inline(always)]
pub(crate) fn before_shared_unlock<L: RawRwLock>(lock: &L) {
    #[cfg(debug_assertions)]
    if !lock.is_locked() || lock.is_locked_exclusive() {
        report_free(lock, "without a reader in it");
    }
    let _ = lock;
}

/// Ends a release by a thread of which another record says that it does not hold the lock.
#[cfg(feature = "std")]
#[cold]
pub(crate) fn not_the_holder<L: RawMutex>(lock: &L) -> ! {
    #[cfg(debug_assertions)]
    check_release(lock, L::is_locked, "while free");
    report(lock, format_args!("released by a thread that does not hold it"))
}

/// Before a lock goes away: nobody may hold it.
#[inline(always)]
#[allow(dead_code, reason = "without std only debug builds have locks that drop")]
pub(crate) fn before_drop<L: RawMutex>(lock: &L) {
    #[cfg(debug_assertions)]
    check_drop(lock, L::is_locked);
    let _ = lock;
}

/// Before a reader-writer lock goes away: nobody may be in.
#[cfg(feature = "std")]
#[inline(always)]
#[allow(dead_code, reason = "only debug builds have locks that drop")]
pub(crate) fn before_rw_drop<L: RawRwLock>(lock: &L) {
    #[cfg(debug_assertions)]
    check_drop(lock, L::is_locked);
    let _ = lock;
}

#[cfg(all(debug_assertions, feature = "std", not(loom)))]
fn check_lock<L>(lock: &L, is_held: fn(&L) -> bool) {
    if holders::of(lock) == Some(holders::own_number()) && is_held(lock) {
        report(
            lock,
            format_args!("taken again by {}, which holds it already and would wait for itself", holders::me()),
        );
    }
}

#[cfg(debug_assertions)]
fn check_release<L>(lock: &L, is_held: fn(&L) -> bool, otherwise: &str) {
    #[cfg(all(feature = "std", not(loom)))]
    match holders::of(lock) {
        Some(number) if number == holders::own_number() => return holders::strike(lock),
        Some(number) if is_held(lock) => {
            report(lock, format_args!("released by {}, which does not hold it: thread {number} does", holders::me()))
        }
        _ => {}
    }
    if !is_held(lock) {
        report_free(lock, otherwise);
    }
}

/// Ends a release of what nobody has.
#[cfg(debug_assertions)]
#[cold]
fn report_free<L>(lock: &L, state: &str) -> ! {
    #[cfg(all(feature = "std", not(loom)))]
    let who = holders::me();
    #[cfg(not(all(feature = "std", not(loom))))]
    let who = "a thread";
    report(lock, format_args!("released by {who} {state}: it was released twice, or never taken"));
}

#[cfg(debug_assertions)]
fn check_drop<L>(lock: &L, is_held: fn(&L) -> bool) {
    let held = is_held(lock);
    #[cfg(all(feature = "std", not(loom)))]
    {
        let holder = holders::of(lock);
        // Another lock may be made here; it starts without a holder.
        holders::strike(lock);
        if std::thread::panicking() {
            // The first panic is the message that matters.
            return;
        }
        if let Some(number) = holder.filter(|_| held) {
            report(lock, format_args!("dropped while held by thread {number}"));
        }
    }
    if held {
        report(lock, format_args!("dropped while held"));
    }
}

#[cfg(any(debug_assertions, feature = "std"))]
#[cold]
fn report<L>(lock: &L, what: core::fmt::Arguments<'_>) -> ! {
    panic!("holdup-locks: {} lock at {:p} {what}", name_of::<L>(), core::ptr::from_ref(lock))
}

/// The lock's name in the registry; its type's name for what has no row there.
#[cfg(any(debug_assertions, feature = "std"))]
fn name_of<L>() -> &'static str {
    let path = core::any::type_name::<L>();
    let path = path.split('<').next().unwrap_or(path);
    let name = path.rsplit("::").next().unwrap_or(path);
    #[cfg(feature = "std")]
    for (known, registered) in crate::registry::names() {
        if known.rsplit("::").next().is_some_and(|known| known.trim() == name) {
            return registered;
        }
    }
    name
}

/// Who holds which lock.
#[cfg(all(debug_assertions, feature = "std", not(loom)))]
mod holders {
    use crate::technique::mix;
    // Not the seam's atomics: the table is no part of any protocol.
    use core::sync::atomic::{AtomicU64, Ordering};

    const SLOTS: usize = 4096;
    /// An entry stands in one of so many slots from where its address hashes to.
    const WINDOW: usize = 8;
    /// Lower bits of an entry, for the thread's number; the address has the others, without its two zero bits.
    const NUMBER_BITS: u32 = 19;

    static TABLE: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

    pub(super) fn own_number() -> u32 {
        crate::sys::thread_id()
    }

    /// The calling thread, for a message.
    pub(super) fn me() -> String {
        match std::thread::current().name() {
            Some(name) => format!("thread {} (\"{name}\")", own_number()),
            None => format!("thread {}", own_number()),
        }
    }

    /// The number of the thread that holds `lock`, if it is known.
    pub(super) fn of<L>(lock: &L) -> Option<u32> {
        find(key(lock)?).map(|(_, entry)| (entry & ((1 << NUMBER_BITS) - 1)) as u32)
    }

    /// Enters the calling thread as the holder.
    pub(super) fn enter<L>(lock: &L) {
        let (Some(key), number) = (key(lock), u64::from(own_number())) else { return };
        if number >> NUMBER_BITS != 0 {
            return;
        }
        let entry = key << NUMBER_BITS | number;
        if let Some((slot, _)) = find(key) {
            // A lock was forgotten while held, and ours has its place.
            return slot.store(entry, Ordering::Relaxed);
        }
        // If all are taken the lock stays without an entry (invariant 2).
        let _ = window(key).find(|slot| slot.compare_exchange(0, entry, Ordering::Relaxed, Ordering::Relaxed).is_ok());
    }

    /// Removes the entry of `lock`, if there is one.
    pub(super) fn strike<L>(lock: &L) {
        if let Some((slot, _)) = key(lock).and_then(find) {
            slot.store(0, Ordering::Relaxed);
        }
    }

    /// The address without its two zero bits, if it leaves room for a thread's number.
    fn key<L>(lock: &L) -> Option<u64> {
        let address = core::ptr::from_ref(lock).addr() as u64;
        let fits = address & 3 == 0 && address >> 2 >> (u64::BITS - NUMBER_BITS) == 0;
        fits.then_some(address >> 2)
    }

    fn window(key: u64) -> impl Iterator<Item = &'static AtomicU64> {
        let first = mix(key) as usize;
        (0..WINDOW).map(move |step| &TABLE[first.wrapping_add(step) % SLOTS])
    }

    fn find(key: u64) -> Option<(&'static AtomicU64, u64)> {
        window(key).map(|slot| (slot, slot.load(Ordering::Relaxed))).find(|&(_, entry)| entry >> NUMBER_BITS == key)
    }
}
