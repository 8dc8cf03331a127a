//! Many threads: one after another, and all at once.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::Builder;

use super::objects::Mutex;
use super::trial::{Section, ensure, fail, let_others_sleep, wait_for};
use fastrand::Rng;

/// More than any table of threads has room for.
const TURNS: u64 = 3_000;
/// More at the same time than such a table may have thought of.
const CROWD: u32 = 1_200;

/// Every hundredth thread ends without unlocking; its lock is unlocked here. That is no good style, but programs do it.
pub fn in_turn(seed: u64) {
    let (mutex, section) = (Mutex::new(), Section::new());
    for turn in 0..TURNS {
        let leaves_it_locked = turn % 100 == 99;
        super::trial::elsewhere(|| {
            mutex.must_lock();
            section.visit(&mut Rng::with_seed(seed));
            if !leaves_it_locked {
                mutex.must_unlock();
            }
        });
        if leaves_it_locked {
            ensure!(mutex.trylock() == libc::EBUSY, "a lock became free when the thread that held it ended");
            mutex.must_unlock();
        }
    }
    section.ensure_visits(TURNS);
    mutex.must_be_free();
}

/// All of them want the lock while it is held; each then takes it three times.
pub fn at_once(seed: u64) {
    const TIMES: u32 = 3;
    let (mutex, section) = (Mutex::new(), Section::new());
    let came = AtomicU32::new(0);
    mutex.must_lock();
    std::thread::scope(|scope| {
        for index in 0..CROWD {
            let (mutex, section, came) = (&mutex, &section, &came);
            let one = move || {
                let mut random = Rng::with_seed(seed ^ u64::from(index));
                came.fetch_add(1, Ordering::SeqCst);
                for _ in 0..TIMES {
                    mutex.must_lock();
                    section.visit(&mut random);
                    mutex.must_unlock();
                }
            };
            let started = Builder::new().stack_size(64 << 10).spawn_scoped(scope, one);
            if let Err(why) = started {
                fail(format_args!("this machine starts only {index} of {CROWD} threads: {why}"));
            }
        }
        wait_for(|| came.load(Ordering::SeqCst) == CROWD);
        let_others_sleep();
        mutex.must_unlock();
    });
    section.ensure_visits(u64::from(CROWD * TIMES));
    mutex.must_be_free();
}
