//! `RawMutexFair`: a lock that serves in order of arrival lets whoever waits in when its holder steps aside.

use holdup_locks::lock_api::RawMutexFair;
use holdup_locks::{Clh, ClhSpin, Fair, McsSpin, Mutex, MutexGuard, Ticket, TicketSpin};
use std::sync::atomic::{AtomicBool, Ordering};

/// The holder never lets go but by `bump`; so the waiter gets in only if `bump` hands over and takes the lock again.
fn a_waiter_gets_in<L: RawMutexFair + Sync + Send>() {
    let turns = Mutex::<L, u32>::new(0);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let mut turn = turns.lock();
        scope.spawn(|| {
            let mut turn = turns.lock();
            *turn += 1;
            done.store(true, Ordering::Relaxed);
            MutexGuard::unlock_fair(turn);
        });
        while !done.load(Ordering::Relaxed) {
            MutexGuard::bump(&mut turn);
            std::thread::yield_now();
        }
        *turn += 1;
    });
    assert_eq!(turns.into_inner(), 2);
}

#[test]
fn a_holder_that_steps_aside_lets_the_waiter_in() {
    a_waiter_gets_in::<Clh>();
    a_waiter_gets_in::<ClhSpin>();
    a_waiter_gets_in::<Fair>();
    a_waiter_gets_in::<McsSpin>();
    a_waiter_gets_in::<Ticket>();
    a_waiter_gets_in::<TicketSpin>();
}
