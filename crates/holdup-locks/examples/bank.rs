//! Transfers between 10,000 accounts under 256 locks: both accounts at once, in any order, without deadlock.
//!
//! `cargo run -p holdup-locks --example bank`

use holdup_locks::technique::{DefaultLock, LockTable, mix};
use std::cell::UnsafeCell;

const ACCOUNTS: usize = 10_000;
const START: u64 = 100;

static LOCKS: LockTable<DefaultLock> = LockTable::new();

struct Account(UnsafeCell<u64>);

// SAFETY: a balance is touched only under the lock of its number.
#[allow(unsafe_code, reason = "the table guards data that lies outside the locks, as in Emmons (2001)")]
unsafe impl Sync for Account {}

/// Moves money, if it is there; true if it was.
#[allow(unsafe_code, reason = "see `Account`")]
fn transfer(bank: &[Account], from: usize, to: usize, amount: u64) -> bool {
    if from == to {
        return false;
    }
    let _both = LOCKS.lock_many(&[from as u64, to as u64]);
    // SAFETY: the locks of both accounts are held, and the accounts differ.
    let (from, to) = unsafe { (&mut *bank[from].0.get(), &mut *bank[to].0.get()) };
    let covered = *from >= amount;
    if covered {
        *from -= amount;
        *to += amount;
    }
    covered
}

/// What all accounts hold. Under all locks: nobody moves money while the bank counts.
#[allow(unsafe_code, reason = "see `Account`")]
fn balance(bank: &[Account]) -> u64 {
    let _everything = LOCKS.lock_all();
    // SAFETY: every lock of the table is held.
    bank.iter().map(|account| unsafe { *account.0.get() }).sum()
}

fn main() {
    let bank: Vec<Account> = (0..ACCOUNTS).map(|_| Account(UnsafeCell::new(START))).collect();
    let moved: u64 = std::thread::scope(|scope| {
        let clerk = |seed: u64| {
            let bank = &bank;
            move || {
                let pick = |n: u64| (mix(seed << 32 | n) % ACCOUNTS as u64) as usize;
                (0..10_000).filter(|&n| transfer(bank, pick(2 * n), pick(2 * n + 1), 30)).count() as u64
            }
        };
        let clerks: Vec<_> = (1..=4).map(|seed| scope.spawn(clerk(seed))).collect();
        clerks.into_iter().map(|clerk| clerk.join().expect("no transfer panics")).sum()
    });
    let total = balance(&bank);
    println!("{moved} transfers of 30 between {ACCOUNTS} accounts; the bank has {total}");
    assert_eq!(total, ACCOUNTS as u64 * START);
}

#[test]
fn runs() {
    main();
}
