//! The lock table for C: as holdup-locks' `LockTable`, for a number of locks that is known when the program runs.

use core::slice;

use holdup_locks::Adaptive;
use holdup_locks::technique::{CachePadded, mix};
use lock_api::RawMutex as _;

use crate::held::Held;

/// A fixed number of locks for any number of objects: a key, such as an object's address, picks its lock.
///
/// The same key always meets the same lock; two keys share one with probability 1 in the number of locks. So a million
/// objects need no million locks, and an object can be freed safely, because its lock does not live in it. Because keys
/// share locks, **never lock a second key while holding one**: take several at once with holdup_table_lock_many. The
/// locks are holdup_adaptive_t, on cache lines of their own: 128 bytes each.
pub struct holdup_table_t {
    slots: Box<[Slot]>,
}

const NAME: &str = "adaptive (of a lock table)";

type Slot = CachePadded<Held<Adaptive>>;

/// More than this is a mistake: 128 MiB of locks.
const MOST_LOCKS: usize = 1 << 20;

/// Makes a table of `locks` free locks; 256 is a good number.
///
/// Returns NULL if `locks` is 0 or above 1048576, or there is no memory. holdup_table_destroy ends it.
#[unsafe(no_mangle)]
pub extern "C" fn holdup_table_create(locks: usize) -> *mut holdup_table_t {
    if !(1..=MOST_LOCKS).contains(&locks) {
        return core::ptr::null_mut();
    }
    let mut slots = Vec::new();
    if slots.try_reserve_exact(locks).is_err() {
        return core::ptr::null_mut();
    }
    slots.resize_with(locks, || CachePadded::new(Held::free()));
    Box::into_raw(Box::new(holdup_table_t { slots: slots.into_boxed_slice() }))
}

/// Ends a table whose locks are free, and frees its memory; NULL does nothing.
///
/// Wait until every other thread's last unlock has returned. A library with checks prints a message and aborts if a
/// lock is held.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_destroy(table: *mut holdup_table_t) {
    if table.is_null() {
        return;
    }
    // SAFETY: the caller hands back what holdup_table_create returned, once.
    let table = unsafe { Box::from_raw(table) };
    for slot in &table.slots {
        debug_assert!(
            !slot.lock.is_locked(),
            "holdup-locks: lock table at {table:p} destroyed while a lock of it is held"
        );
    }
}

/// Returns how many locks the table has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_locks(table: *const holdup_table_t) -> usize {
    // SAFETY: the caller hands over a table.
    unsafe { &*table }.slots.len()
}

/// Returns the key of an object: its address. The same object meets the same lock while it does not move.
#[unsafe(no_mangle)]
pub extern "C" fn holdup_key_of(object: *const core::ffi::c_void) -> u64 {
    object.addr() as u64
}

/// Returns the key of `size` bytes, such as a name: a hash of them, the same in every run. Cost: about 2 ns and 1 ns
/// per 8 bytes.
///
/// Not for keys that an attacker chooses to collide.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_key_of_bytes(bytes: *const core::ffi::c_void, size: usize) -> u64 {
    // A null pointer to no bytes is C's empty text and no slice.
    let bytes = if size == 0 {
        &[]
    } else {
        // SAFETY: the caller hands over `size` bytes.
        unsafe { slice::from_raw_parts(bytes.cast::<u8>(), size) }
    };
    holdup_locks::technique::key_of_value(bytes)
}

/// Returns which lock a key meets, from 0 to holdup_table_locks - 1: to see whether two keys share one. About 3 ns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_slot(table: *const holdup_table_t, key: u64) -> usize {
    // SAFETY: the caller hands over a table.
    unsafe { &*table }.slot_of(key)
}

/// Returns where a lock of the table is, by its number from holdup_table_slot: for tools, such as ThreadSanitizer's
/// annotations.
///
/// The lock may be used as a holdup_adaptive_t there, but not destroyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_address(table: *const holdup_table_t, slot: usize) -> *mut core::ffi::c_void {
    // SAFETY: the caller hands over a table.
    let slots = unsafe { &(*table).slots };
    debug_assert!(slot < slots.len(), "holdup-locks: lock table at {table:p} has no lock {slot}");
    slots.as_ptr().wrapping_add(slot).cast_mut().cast()
}

/// Waits for the key's lock. Never fails. Cost: that of holdup_adaptive_lock.
///
/// A thread that holds this lock already, by this key or another that shares it, waits for ever; a library with checks
/// prints a message and aborts.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_lock(table: *mut holdup_table_t, key: u64) {
    // SAFETY: the caller hands over a table.
    unsafe { &*table }.slot(key).lock();
}

/// Takes the key's lock if it is free; never waits. Returns true if the caller holds it now.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_try_lock(table: *mut holdup_table_t, key: u64) -> bool {
    // SAFETY: the caller hands over a table.
    unsafe { &*table }.slot(key).try_lock()
}

/// Takes the key's lock if that is possible within `timeout_ns` nanoseconds (CLOCK_MONOTONIC).
///
/// Returns true if the caller holds it now, false if the time has run out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_try_lock_for_ns(table: *mut holdup_table_t, key: u64, timeout_ns: u64) -> bool {
    // SAFETY: the caller hands over a table.
    unsafe { &*table }.slot(key).try_lock_for(timeout_ns)
}

/// Releases the key's lock, which the calling thread holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_unlock(table: *mut holdup_table_t, key: u64) {
    // SAFETY: the caller hands over a table, and holds the lock.
    unsafe { (*table).slot(key).unlock(NAME) };
}

/// Waits for the locks of `count` keys, each lock once, in an order that cannot deadlock with other such calls.
///
/// `slots` is room for `count` numbers; the numbers of the locks taken are written there. Returns how many those are:
/// `count` less the keys that share a lock. Give both to holdup_table_unlock_many. It allocates nothing; cost: the
/// locks, and a sort.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_lock_many(
    table: *mut holdup_table_t,
    keys: *const u64,
    count: usize,
    slots: *mut usize,
) -> usize {
    if count == 0 {
        return 0;
    }
    // SAFETY: the caller hands over a table, `count` keys, and room for `count` numbers.
    let (table, keys) = unsafe { (&*table, slice::from_raw_parts(keys, count)) };
    for (index, &key) in keys.iter().enumerate() {
        // SAFETY: as above. The room may be uninitialised, so it is written before it is a slice.
        unsafe { slots.add(index).write(table.slot_of(key)) };
    }
    // SAFETY: as above.
    let slots = unsafe { slice::from_raw_parts_mut(slots, count) };
    let taken = sort_and_dedup(slots);
    slots[..taken].iter().for_each(|&slot| table.slots[slot].lock());
    taken
}

/// Releases the locks that holdup_table_lock_many took: the `count` that it returned, and the numbers that it wrote.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_unlock_many(table: *mut holdup_table_t, slots: *const usize, count: usize) {
    if count == 0 {
        return;
    }
    // SAFETY: the caller hands over a table and the numbers of `count` locks that it holds.
    unsafe {
        let table = &*table;
        slice::from_raw_parts(slots, count).iter().for_each(|&slot| table.slots[slot].unlock(NAME));
    }
}

/// Waits for all locks: for work that concerns every object, such as saving them. Cost: that of as many locks.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_lock_all(table: *mut holdup_table_t) {
    // SAFETY: the caller hands over a table.
    unsafe { &*table }.slots.iter().for_each(|slot| slot.lock());
}

/// Releases all locks, which the calling thread holds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn holdup_table_unlock_all(table: *mut holdup_table_t) {
    // SAFETY: the caller hands over a table whose locks it holds.
    unsafe { (*table).slots.iter().for_each(|slot| slot.unlock(NAME)) };
}

impl holdup_table_t {
    /// The choice of `LockTable::slot_of`, whose size is part of its type; a test compares them.
    #[inline]
    fn slot_of(&self, key: u64) -> usize {
        ((u128::from(mix(key)) * self.slots.len() as u128) >> 64) as usize
    }

    #[inline]
    fn slot(&self, key: u64) -> &Held<Adaptive> {
        &self.slots[self.slot_of(key)]
    }
}

/// Sorts, brings one of each number to the front, and returns how many those are.
fn sort_and_dedup(slots: &mut [usize]) -> usize {
    slots.sort_unstable();
    let mut taken = 1;
    for index in 1..slots.len() {
        if slots[index] != slots[taken - 1] {
            slots[taken] = slots[index];
            taken += 1;
        }
    }
    taken
}
