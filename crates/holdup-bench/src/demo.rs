//! A small program with a lock problem, for those who have none at hand: eight threads sell tickets, and each sale
//! takes one lock for some tens of nanoseconds.

use std::cell::Cell;
use std::hint::black_box;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::lock::BenchLock as _;
use crate::sys::pthread;

/// Threads that sell.
pub const SELLERS: usize = 8;
/// What the program calls itself.
pub const NAME: &str = "ticket-office";

static TICKET_LOCK: pthread::Normal = pthread::Normal::initial();
static TICKETS_SOLD: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Sells for so many milliseconds, and says how many tickets a second were sold.
pub fn sell(words: &[String]) -> String {
    let milliseconds = words.first().and_then(|word| word.parse().ok()).unwrap_or(1000);
    let time = Duration::from_millis(milliseconds);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for seller in 0..SELLERS {
            // A thread that cannot be had sells nothing.
            let _ = std::thread::Builder::new().name(format!("seller-{seller}")).spawn_scoped(scope, sell_tickets);
        }
        std::thread::sleep(time);
        CLOSED.store(true, Ordering::Relaxed);
    });
    let sold = TICKETS_SOLD.load(Ordering::Relaxed);
    format!("{:.0} tickets/s\n", sold as f64 / began.elapsed().as_secs_f64())
}

fn sell_tickets() {
    let basket = Cell::new(1_u64);
    while !CLOSED.load(Ordering::Relaxed) {
        basket.set(serve_customer(basket.get()));
        take_ticket(basket.get());
    }
}

/// The section: the count goes up under the lock.
#[inline(never)]
fn take_ticket(basket: u64) {
    TICKET_LOCK.with(|| {
        let sold = TICKETS_SOLD.load(Ordering::Relaxed);
        black_box(mixed(basket, 20));
        TICKETS_SOLD.store(sold + 1, Ordering::Relaxed);
    });
}

/// What a seller does outside the lock.
#[inline(never)]
fn serve_customer(basket: u64) -> u64 {
    black_box(mixed(basket, 60))
}

/// Work that depends on itself: some nanoseconds a step.
fn mixed(value: u64, steps: u32) -> u64 {
    (0..steps).fold(value, |value, _| {
        black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
}
