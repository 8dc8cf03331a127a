//! Every lock beside glibc's pthread mutex, in pairs: the median ratio of time per operation, and how even the shares
//! are.
//!
//! `cargo bench -p holdup-locks --bench pair -- [LOCK,..] [SCENE,..] [PAIRS]`; a ratio below 1 means faster than
//! pthread. Each figure is the median over adjacent runs of both, so that drift of the machine hits both alike. A
//! parked thread keeps glibc on its multi-threaded path. This is the quick look for whoever tunes a lock;
//! `holdup bench` is the laboratory.
#![allow(unsafe_code, reason = "raw locks are driven through their unsafe interface")]

#[cfg(target_os = "linux")]
fn main() {
    linux::run();
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("this comparison needs Linux: it measures against glibc's pthread mutex");
}

#[cfg(target_os = "linux")]
mod linux {
    use holdup_locks::for_each_lock;
    use holdup_locks::lock_api::{GuardSend, RawMutex};
    use std::cell::UnsafeCell;
    use std::hint::black_box;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::{Duration, Instant};

    /// One way to load a lock.
    struct Scene {
        name: &'static str,
        threads: usize,
        hold_ns: f64,
        gap_ns: f64,
        run: Duration,
    }

    const SCENES: [Scene; 8] = [
        Scene { name: "free", threads: 1, hold_ns: 0.0, gap_ns: 0.0, run: Duration::from_millis(10) },
        Scene { name: "tight", threads: 2, hold_ns: 0.0, gap_ns: 0.0, run: Duration::from_millis(2) },
        Scene { name: "tight-long", threads: 2, hold_ns: 0.0, gap_ns: 0.0, run: Duration::from_millis(200) },
        Scene { name: "0.1/0.5", threads: 2, hold_ns: 100.0, gap_ns: 500.0, run: Duration::from_millis(2) },
        Scene { name: "1/1", threads: 2, hold_ns: 1000.0, gap_ns: 1000.0, run: Duration::from_millis(2) },
        Scene { name: "8on2", threads: 8, hold_ns: 100.0, gap_ns: 500.0, run: Duration::from_millis(200) },
        Scene { name: "starve2", threads: 2, hold_ns: 300_000.0, gap_ns: 0.0, run: Duration::from_millis(400) },
        Scene { name: "starve8", threads: 8, hold_ns: 300_000.0, gap_ns: 0.0, run: Duration::from_millis(1000) },
    ];

    struct Pthread(UnsafeCell<libc::pthread_mutex_t>);
    // SAFETY: a pthread mutex may be used from any thread; it is not moved while in use here.
    unsafe impl Sync for Pthread {}
    // SAFETY: as above.
    unsafe impl Send for Pthread {}
    // SAFETY: pthread_mutex_lock excludes and orders as RawMutex requires.
    unsafe impl RawMutex for Pthread {
        const INIT: Self = Self(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER));
        type Guard = GuardSend;
        #[inline]
        fn lock(&self) -> GuardSend {
            // SAFETY: the mutex is initialised and lives.
            unsafe { libc::pthread_mutex_lock(self.0.get()) };
            GuardSend::new()
        }
        fn try_lock(&self) -> Option<GuardSend> {
            // SAFETY: as above.
            (unsafe { libc::pthread_mutex_trylock(self.0.get()) } == 0).then(GuardSend::new)
        }
        #[inline]
        unsafe fn unlock(&self, _guard: GuardSend) {
            // SAFETY: the caller holds the mutex.
            unsafe { libc::pthread_mutex_unlock(self.0.get()) };
        }
        fn is_locked(&self) -> bool {
            match self.try_lock() {
                None => true,
                Some(guard) => {
                    // SAFETY: the try has just taken it.
                    unsafe { self.unlock(guard) };
                    false
                }
            }
        }
    }

    #[repr(align(128))]
    struct Shared<L> {
        lock: L,
        value: UnsafeCell<u64>,
    }
    // SAFETY: `value` is accessed under the lock.
    unsafe impl<L: Sync> Sync for Shared<L> {}

    impl<L: RawMutex> Shared<L> {
        #[inline(always)]
        fn operate(&self, hold: u64) {
            let guard = self.lock.lock();
            // SAFETY: the lock is held.
            unsafe { *self.value.get() += 1 };
            work(hold);
            // SAFETY: the guard is that of the acquisition above.
            unsafe { self.lock.unlock(guard) };
        }
    }

    /// Nanoseconds per operation, Jain's index of the threads' shares, and how long threads waited for a CPU in all.
    #[derive(Clone, Copy)]
    struct Sample {
        op_ns: f64,
        jain: f64,
        cpu_wait: Duration,
    }

    /// Nanoseconds that the calling thread has waited for a CPU so far, by the kernel's account.
    fn cpu_wait_ns() -> u64 {
        let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        account.split_whitespace().nth(1).and_then(|field| field.parse().ok()).unwrap_or(0)
    }

    fn work(steps: u64) {
        for step in 0..steps {
            black_box(step);
        }
    }

    fn measure<L: RawMutex + Sync>(scene: &Scene, step_ns: f64) -> Sample {
        let shared = Shared { lock: L::INIT, value: UnsafeCell::new(0) };
        let (hold, gap) = ((scene.hold_ns / step_ns) as u64, (scene.gap_ns / step_ns) as u64);
        let stop = AtomicBool::new(false);
        let ready = AtomicUsize::new(0);
        // Spins while the others are on their way, so that the run begins with all of them on a CPU.
        let start = || {
            ready.fetch_add(1, Ordering::SeqCst);
            while ready.load(Ordering::SeqCst) < scene.threads {
                if scene.threads > 2 {
                    std::thread::yield_now();
                }
            }
        };
        let mut outcomes = Vec::new();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..scene.threads)
                .map(|_| {
                    scope.spawn(|| {
                        start();
                        let waited_ns = cpu_wait_ns();
                        let began = Instant::now();
                        let mut count = 0_u64;
                        while !stop.load(Ordering::Relaxed) {
                            shared.operate(hold);
                            work(gap);
                            count += 1;
                        }
                        (count as f64, cpu_wait_ns() - waited_ns, began.elapsed())
                    })
                })
                .collect();
            while ready.load(Ordering::SeqCst) < scene.threads {
                std::thread::sleep(Duration::from_micros(50));
            }
            std::thread::sleep(scene.run);
            stop.store(true, Ordering::Relaxed);
            outcomes.extend(threads.into_iter().map(|thread| thread.join().expect("no thread panics")));
        });
        let elapsed = outcomes.iter().map(|outcome| outcome.2).max().unwrap_or_default();
        let counts: Vec<f64> = outcomes.iter().map(|outcome| outcome.0).collect();
        let total: f64 = counts.iter().sum();
        assert_eq!(total as u64, shared.value.into_inner(), "the lock lost an update");
        let squares: f64 = counts.iter().map(|count| count * count).sum();
        Sample {
            op_ns: elapsed.as_nanos() as f64 / total,
            jain: total * total / (counts.len() as f64 * squares),
            // A thread that began late waited before it could look at its account.
            cpu_wait: Duration::from_nanos(outcomes.iter().map(|outcome| outcome.1).sum())
                + outcomes.iter().map(|outcome| elapsed - outcome.2).sum::<Duration>(),
        }
    }

    fn median(mut values: Vec<f64>) -> f64 {
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    }

    fn quartile(mut values: Vec<f64>, quarter: usize) -> f64 {
        values.sort_by(f64::total_cmp);
        values[(values.len() - 1) * quarter / 4]
    }

    /// What a step of work takes when nothing disturbs it: the least of many short looks.
    fn step_ns() -> f64 {
        const STEPS: u64 = 100_000;
        let look = |_| {
            let began = Instant::now();
            work(STEPS);
            began.elapsed().as_nanos() as f64 / STEPS as f64
        };
        (0..500).map(look).fold(f64::INFINITY, f64::min)
    }

    /// In short scenes only samples count whose threads hardly waited for a CPU: then no neighbour was measured.
    fn is_undisturbed(sample: &Sample, scene: &Scene) -> bool {
        scene.run > Duration::from_millis(20) || sample.cpu_wait * 30 < scene.run
    }

    fn compare<L: RawMutex + Sync>(name: &str, scene: &Scene, pairs: usize, step_ns: f64) {
        let (mut base, mut ours) = (Vec::new(), Vec::new());
        let patience = if scene.run > Duration::from_millis(20) { pairs } else { 150 * pairs };
        for _ in 0..patience {
            base.push(measure::<Pthread>(scene, step_ns));
            ours.push(measure::<L>(scene, step_ns));
            if base.iter().filter(|sample| is_undisturbed(sample, scene)).count() >= pairs
                && ours.iter().filter(|sample| is_undisturbed(sample, scene)).count() >= pairs
            {
                break;
            }
        }
        base.retain(|sample| is_undisturbed(sample, scene));
        ours.retain(|sample| is_undisturbed(sample, scene));
        if base.is_empty() || ours.is_empty() {
            println!("{name:12} {:10} every sample was disturbed by other work on this machine", scene.name);
            return;
        }
        let of = |samples: &[Sample], field: fn(&Sample) -> f64| samples.iter().map(field).collect::<Vec<_>>();
        let base_ns = of(&base, |sample| sample.op_ns);
        let ours_ns = of(&ours, |sample| sample.op_ns);
        println!(
            "{name:12} {:10} {:7.2}  jain {:.3}  {:9.1} [{:.1} {:.1}] n {}   pthread jain {:.3} {:9.1} [{:.1} {:.1}] \
             n {}",
            scene.name,
            median(ours_ns.clone()) / median(base_ns.clone()),
            median(of(&ours, |sample| sample.jain)),
            median(ours_ns.clone()),
            quartile(ours_ns.clone(), 1),
            quartile(ours_ns, 3),
            ours.len(),
            median(of(&base, |sample| sample.jain)),
            median(base_ns.clone()),
            quartile(base_ns.clone(), 1),
            quartile(base_ns, 3),
            base.len(),
        );
    }

    macro_rules! compare_each {
        ([$wanted:expr, $scene:expr, $pairs:expr, $step_ns:expr] $({
            $id:ident, $name:literal, $lock:ty, $($rest:tt)*
        })*) => {$(
            if $wanted($name) {
                compare::<$lock>($name, $scene, $pairs, $step_ns);
            }
        )*};
    }

    pub fn run() {
        let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
        let chosen = |place: usize, name: &str| match arguments.get(place).map(String::as_str) {
            None | Some("all") => true,
            Some(list) => list.split(',').any(|wanted| wanted == name),
        };
        let pairs = arguments.get(2).and_then(|pairs| pairs.parse().ok()).unwrap_or(5);
        // With one thread alone glibc skips its atomics.
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
        let step_ns = step_ns();
        for scene in SCENES.iter().filter(|scene| chosen(1, scene.name)) {
            for_each_lock!(compare_each, |name| chosen(0, name), scene, pairs, step_ns);
        }
    }
}
