//! What the programs are made of: checks that end the process, threads for a while, and a section that notices a second
//! thread.

use std::fmt::Display;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;

/// How long threads compete: long enough for several changes of the policy.
pub const WHILE: Duration = Duration::from_millis(60);

/// Ends the process and says why. Other threads may hold what an orderly end would need, and after a fork nothing else
/// is safe.
pub fn fail(why: impl Display) -> ! {
    let line = format!("{}{why}\n", crate::behaviour::program::FAILS);
    // SAFETY: the buffer is as long as said. _exit ends the process without touching any state.
    unsafe {
        libc::write(libc::STDOUT_FILENO, line.as_ptr().cast(), line.len());
        libc::_exit(1)
    }
}

/// Something must be so.
macro_rules! ensure {
    ($what:expr, $($why:tt)+) => {
        if !$what {
            crate::behaviour::sys::linux::trial::fail(format_args!($($why)+));
        }
    };
}
pub(super) use ensure;

/// A call must return this number.
#[track_caller]
pub fn expect(call: &str, returned: i32, expected: i32) {
    if returned != expected {
        let at = std::panic::Location::caller();
        let file = at.file().rsplit('/').next().unwrap_or_default();
        let (returned, expected) = (name(returned), name(expected));
        fail(format_args!("{call} returned {returned}, not {expected} ({file}:{})", at.line()));
    }
}

/// The name of an error number.
fn name(code: i32) -> String {
    let known = [
        (0, "0"),
        (libc::EBUSY, "EBUSY"),
        (libc::EDEADLK, "EDEADLK"),
        (libc::EPERM, "EPERM"),
        (libc::EINVAL, "EINVAL"),
        (libc::ETIMEDOUT, "ETIMEDOUT"),
        (libc::EOWNERDEAD, "EOWNERDEAD"),
        (libc::ENOTRECOVERABLE, "ENOTRECOVERABLE"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOSYS, "ENOSYS"),
    ];
    let known = known.iter().find(|(number, _)| *number == code);
    known.map_or_else(|| code.to_string(), |(_, name)| (*name).to_owned())
}

/// What a lock protects. It notices a second thread inside, and an update that was lost.
#[derive(Debug, Default)]
pub struct Section {
    inside: AtomicU32,
    count: AtomicU64,
}

impl Section {
    pub const fn new() -> Section {
        Section { inside: AtomicU32::new(0), count: AtomicU64::new(0) }
    }

    /// Goes in, stays for a moment, goes out.
    pub fn visit(&self, random: &mut Rng) {
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        ensure!(others == 0, "two threads were inside the same lock at once");
        // Load and store, not one instruction: a second thread in between loses its update.
        let count = self.count.load(Ordering::Relaxed);
        linger(random);
        self.count.store(count + 1, Ordering::Relaxed);
        let now = self.inside.fetch_sub(1, Ordering::SeqCst);
        ensure!(now == 1, "another thread came inside while one was there");
    }

    /// Visits so far.
    pub fn visits(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// There must have been so many visits.
    pub fn ensure_visits(&self, expected: u64) {
        let visits = self.visits();
        ensure!(visits == expected, "the section counted {visits} visits, the threads {expected}: updates were lost");
    }
}

/// A moment: mostly short, sometimes long enough that others come, rarely asleep.
pub fn linger(random: &mut Rng) {
    match random.u64(..64) {
        0 => std::thread::sleep(Duration::from_micros(random.u64(..80))),
        1..8 => std::thread::yield_now(),
        n @ 8..24 => (0..n * 4).for_each(|_| std::hint::spin_loop()),
        _ => {}
    }
}

/// The end of a competition.
#[derive(Clone, Copy, Debug)]
pub struct Until(Instant);

impl Until {
    pub fn after(time: Duration) -> Until {
        Until(Instant::now() + time)
    }

    pub fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}

/// So many threads do something again and again for a while, each at least once; gives the sum of what they count.
pub fn compete(threads: u64, time: Duration, seed: u64, act: impl Fn(&mut Rng) -> u64 + Sync) -> u64 {
    let until = Until::after(time);
    let act = &act;
    std::thread::scope(|scope| {
        let run = move |index: u64| {
            let mut random = Rng::with_seed(seed.wrapping_mul(1009).wrapping_add(index));
            let mut count = act(&mut random);
            while !until.is_over() {
                count += act(&mut random);
                linger(&mut random);
            }
            count
        };
        let threads: Vec<_> = (0..threads).map(|index| scope.spawn(move || run(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| fail("a thread panicked"))).sum()
    })
}

/// Runs something in another thread and waits for what it gives.
pub fn elsewhere<R: Send>(act: impl FnOnce() -> R + Send) -> R {
    std::thread::scope(|scope| scope.spawn(act).join().unwrap_or_else(|_| fail("a thread panicked")))
}

/// Yields until something is so.
pub fn wait_for(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Gives other threads the time to fall asleep in what they are about to do; nothing relies on it but the strength of a
/// check.
pub fn let_others_sleep() {
    std::thread::sleep(Duration::from_millis(8));
}
