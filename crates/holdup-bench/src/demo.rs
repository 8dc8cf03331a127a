//! A small program with a lock problem, for those who have none at hand: eight threads answer requests from one cache,
//! and whoever renews an entry of it allocates and frees its buffers while it holds the cache's lock.
//!
//! What makes it slow is plain on every machine: the C library gives freed memory at the end of a heap back to the
//! system, so that every request takes its memory from the kernel anew, page by page, with the lock held. It costs work
//! and not luck, so it neither depends on how threads happen to meet nor goes away beside other programs.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::lock::BenchLock as _;
use crate::sys::pthread;

/// Threads that answer.
pub const THREADS: usize = 8;
/// What the program calls itself.
pub const NAME: &str = "page-cache";

/// Buffers of an entry, and the bytes of each: all are small enough to come from a heap, and together there is more of
/// them than the C library keeps.
const BUFFERS: usize = 3;
const BUFFER_BYTES: usize = 100 * 1024;
const PAGE_BYTES: usize = 4096;

static CACHE_LOCK: pthread::Normal = pthread::Normal::initial();
static VERSION: AtomicU64 = AtomicU64::new(0);

/// Answers so many requests, and says that it did.
pub fn answer(words: &[String]) -> String {
    let requests: usize = words.first().and_then(|word| word.parse().ok()).unwrap_or(4000);
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            // A thread that cannot be had answers nothing.
            let name = format!("answers-{thread}");
            let _ = std::thread::Builder::new().name(name).spawn_scoped(scope, || requests_of_one(requests / THREADS));
        }
    });
    format!("{} requests answered\n", VERSION.load(Ordering::Relaxed))
}

fn requests_of_one(requests: usize) {
    let mut request = 1;
    for _ in 0..requests {
        request = read_request(request);
        CACHE_LOCK.with(|| renew_entry(request));
    }
}

/// What a thread does outside the lock.
#[inline(never)]
fn read_request(last: u64) -> u64 {
    mixed(last, 500)
}

/// The section: an entry is made in buffers of its own, and replaces the last one.
#[inline(never)]
fn renew_entry(request: u64) {
    let entry: Vec<Vec<u8>> = (0..BUFFERS).map(|_| buffer(request)).collect();
    black_box(mixed(request, 2000));
    VERSION.store(VERSION.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    drop(black_box(entry));
}

/// A buffer with a heading on each page.
#[inline(never)]
fn buffer(request: u64) -> Vec<u8> {
    let mut buffer = Vec::with_capacity(BUFFER_BYTES);
    for page in buffer.spare_capacity_mut().chunks_mut(PAGE_BYTES) {
        page[0].write(request as u8);
    }
    buffer
}

/// Work that depends on itself: a nanosecond or so a step.
fn mixed(value: u64, steps: u32) -> u64 {
    (0..steps).fold(value, |value, _| {
        black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407))
    })
}
