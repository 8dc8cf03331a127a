//! The parking contract, one body over every backend that this system can run.

use super::atomic::{AtomicU32, Ordering};
use super::{ANY, Wait, now_ns, thread_id};

macro_rules! parking_contract {
    ($backend:ident) => {
        mod $backend {
            use super::*;
            use crate::sys::$backend::{now_ns, wait, wake};

            #[test]
            fn a_changed_word_does_not_sleep() {
                assert_eq!(wait(&AtomicU32::new(1), 0, ANY, None), Wait::Changed);
            }

            #[test]
            fn a_deadline_in_the_past_times_out() {
                assert_eq!(wait(&AtomicU32::new(0), 0, ANY, Some(now_ns())), Wait::TimedOut);
            }

            #[test]
            fn nobody_to_wake_counts_none() {
                assert_eq!(wake(&AtomicU32::new(0), 1, ANY), 0);
            }

            #[test]
            fn a_wake_reaches_only_waiters_with_a_common_bit() {
                let word = AtomicU32::new(0);
                std::thread::scope(|scope| {
                    let waiter = scope.spawn(|| {
                        loop {
                            match wait(&word, 0, 0b10, None) {
                                Wait::Interrupted => {}
                                other => return other,
                            }
                        }
                    });
                    while wake(&word, 1, 0b10) == 0 {
                        assert_eq!(wake(&word, u32::MAX, 0b01), 0, "no common bit, no wake");
                        std::thread::yield_now();
                    }
                    assert_eq!(waiter.join().unwrap(), Wait::Woken);
                });
            }

            #[test]
            fn a_wake_counts_exactly_the_woken() {
                let word = AtomicU32::new(0);
                let asleep = AtomicU32::new(0);
                std::thread::scope(|scope| {
                    for _ in 0..3 {
                        scope.spawn(|| {
                            asleep.fetch_add(1, Ordering::SeqCst);
                            while wait(&word, 0, ANY, None) == Wait::Interrupted {}
                        });
                    }
                    let mut woken = 0;
                    while woken < 3 {
                        woken += wake(&word, 1, ANY);
                        std::thread::yield_now();
                    }
                    assert_eq!(woken, 3);
                    assert_eq!(asleep.load(Ordering::SeqCst), 3);
                });
            }
        }
    };
}

#[cfg(target_os = "linux")]
parking_contract!(linux);
#[cfg(windows)]
parking_contract!(windows);
parking_contract!(fallback);

#[test]
fn thread_ids_are_distinct_and_stable() {
    let mine = thread_id();
    let other = std::thread::spawn(thread_id).join().unwrap();
    assert!(mine != 0 && other != 0 && mine != other);
    assert_eq!(mine, thread_id());
}

#[test]
fn the_clock_goes_forward() {
    let before = now_ns();
    assert!(now_ns() >= before);
}
