//! The stateless locks through lock_api 0.4: what its traits promise, and a crate that asks for them.
//!
//! `cargo test -p holdup-locks --features lock_api_04 --test lock_api_04`
#![allow(unsafe_code, reason = "an allocator is driven through its unsafe interface")]

use holdup_locks::{Adaptive, Fair, Futex, FutexPi, Mcs, McsSpin, Tas, ThreadId, Ticket, TicketSpin, Ttas};
use lock_api_04::{Mutex, MutexGuard, RawMutex, RawMutexFair, RawMutexTimed, ReentrantMutex};
use std::alloc::{GlobalAlloc, Layout};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Two threads, so that the locks that only spin bear it on any machine.
fn exclusion_try_and_release<L: RawMutex + Sync + Send>(name: &str) {
    let iterations = if cfg!(miri) { 20 } else { 5_000 };
    let value = Mutex::<L, u64>::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| (0..iterations).for_each(|_| *value.lock() += 1));
        }
    });
    assert_eq!(*value.lock(), 2 * iterations, "{name} excludes");
    let held = value.try_lock().unwrap_or_else(|| panic!("{name}: a free lock is taken by a try"));
    assert!(value.is_locked() && value.try_lock().is_none(), "{name}: a held one is not");
    drop(held);
    assert!(!value.is_locked(), "{name} is free again");
}

fn time_out<L>(name: &str)
where
    L: RawMutexTimed<Duration = Duration, Instant = Instant> + Sync + Send,
{
    let value = Mutex::<L, ()>::new(());
    let held = value.lock();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(value.try_lock_for(Duration::from_millis(1)).is_none(), "{name} gives up");
            assert!(value.try_lock_until(Instant::now()).is_none(), "{name} gives up at once");
        });
    });
    drop(held);
    assert!(value.try_lock_for(Duration::from_secs(600)).is_some(), "{name} takes a free lock");
}

fn hands_over<L: RawMutexFair>(name: &str) {
    let value = Mutex::<L, u32>::new(0);
    let mut guard = value.lock();
    MutexGuard::bump(&mut guard);
    *guard += 1;
    MutexGuard::unlock_fair(guard);
    assert_eq!(*value.try_lock().unwrap_or_else(|| panic!("{name} is free")), 1);
}

macro_rules! each {
    ($body:ident: $($lock:ident),*) => { $($body::<$lock>(stringify!($lock));)* };
}

#[test]
fn every_stateless_lock_keeps_the_promises_of_raw_mutex() {
    each!(exclusion_try_and_release: Adaptive, Fair, Futex, Mcs, McsSpin, Tas, Ticket, TicketSpin, Ttas);
}

#[cfg(all(target_os = "linux", not(miri)))]
#[test]
fn the_kernels_objects_do_too() {
    use holdup_locks::{EventFd, EventFdSem, Pipe, SysvSem};
    each!(exclusion_try_and_release: EventFd, EventFdSem, FutexPi, Pipe, SysvSem);
    each!(time_out: EventFd, EventFdSem, FutexPi, Pipe, SysvSem);
}

#[test]
fn timed_locks_give_up() {
    each!(time_out: Adaptive, Futex, Tas, Ttas);
}

#[test]
fn locks_in_order_of_arrival_hand_over() {
    each!(hands_over: Fair, McsSpin, Ticket, TicketSpin);
}

#[test]
fn the_reentrant_mutex_of_0_4_takes_our_thread_ids() {
    let count = ReentrantMutex::<Adaptive, ThreadId, Cell<u32>>::new(Cell::new(0));
    let outer = count.lock();
    count.lock().set(1);
    std::thread::scope(|scope| {
        scope.spawn(|| assert!(count.try_lock().is_none(), "another thread is kept out"));
    });
    assert_eq!(outer.get(), 1);
}

/// An allocator that was written for any lock of lock_api 0.4 works behind ours, from several threads.
#[test]
fn an_allocator_behind_our_lock() {
    const ARENA_BYTES: usize = 1 << 16;
    let mut arena = vec![0_u8; ARENA_BYTES];
    let allocator = talc::Talc::new(talc::ErrOnOom).lock::<Ttas>();
    // SAFETY: the arena outlives the allocator and nobody else touches it.
    unsafe { allocator.lock().claim(talc::Span::from_base_size(arena.as_mut_ptr(), ARENA_BYTES)) }
        .expect("the arena is large enough");
    let layout = Layout::new::<[u64; 4]>();
    std::thread::scope(|scope| {
        for number in 1..=2_u64 {
            let allocator = &allocator;
            scope.spawn(move || {
                for _ in 0..if cfg!(miri) { 5 } else { 1_000 } {
                    // SAFETY: the layout is not empty; the block is written, read and freed with the same layout.
                    unsafe {
                        let block = allocator.alloc(layout).cast::<[u64; 4]>();
                        assert!(!block.is_null());
                        block.write([number; 4]);
                        assert_eq!(block.read(), [number; 4]);
                        allocator.dealloc(block.cast(), layout);
                    }
                }
            });
        }
    });
}
