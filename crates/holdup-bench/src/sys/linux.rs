//! Linux: threads, processes and the machine, by system calls and /proc.

use std::fs;
use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use super::{CpuTimes, Usage};

pub mod counters;
pub mod facts;
pub mod pthread;

pub use super::absent::srwlock;

/// The C library's mutex.
pub const USUAL_LOCK: &str = "pthread";

/// Whether the C library's locks can be measured.
pub const HAS_PTHREAD: bool = true;

/// Whether the system has slim reader-writer locks.
pub const HAS_SRWLOCK: bool = false;

/// What the calling thread used so far.
///
/// The kernel's split into user and kernel time is sampled by its tick, its sum is exact: the sum is taken from the
/// thread's CPU clock and divided as the split says.
pub fn thread_usage() -> Usage {
    // SAFETY: an all-zero rusage is valid, and getrusage fills the one it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
        usage
    };
    let (user_ns, kernel_ns) = (timeval_ns(usage.ru_utime), timeval_ns(usage.ru_stime));
    let exact_ns = clock_ns(libc::CLOCK_THREAD_CPUTIME_ID);
    // What the clock has and the split has not yet is the time since the last tick: it ran in user mode, up to this
    // call.
    Usage {
        user_ns: (user_ns + exact_ns.saturating_sub(user_ns + kernel_ns)),
        kernel_ns,
        voluntary_switches: Some(usage.ru_nvcsw as u64),
        involuntary_switches: Some(usage.ru_nivcsw as u64),
        minor_faults: Some(usage.ru_minflt as u64),
        major_faults: Some(usage.ru_majflt as u64),
    }
}

fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec into the one given.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The CPUs that the calling thread may run on, in order.
pub fn allowed_cpus() -> Vec<u32> {
    // SAFETY: an all-zero set is valid; the call writes at most the size it is told.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&set), &raw mut set);
        set
    };
    // SAFETY: CPU_ISSET reads inside the set for numbers below CPU_SETSIZE.
    (0..libc::CPU_SETSIZE as u32).filter(|&cpu| unsafe { libc::CPU_ISSET(cpu as usize, &set) }).collect()
}

/// Restricts the calling thread to these CPUs.
pub fn bind_thread(cpus: &[u32]) -> io::Result<()> {
    // SAFETY: an all-zero set is valid; CPU_SET is only called below CPU_SETSIZE; the call reads the size it is told.
    let done = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for &cpu in cpus.iter().filter(|&&cpu| cpu < libc::CPU_SETSIZE as u32) {
            libc::CPU_SET(cpu as usize, &mut set);
        }
        libc::sched_setaffinity(0, size_of_val(&set), &raw const set)
    };
    check(done)
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The calling thread's nice value.
pub fn thread_nice() -> i32 {
    // SAFETY: takes plain numbers; 0 is the calling thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Sets the calling thread's nice value: one system call.
pub fn set_thread_nice(nice: i32) -> io::Result<()> {
    // SAFETY: takes plain numbers; on Linux 0 means the calling thread alone.
    check(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, nice) })
}

/// What an ordinary user needs to raise a priority, in words.
pub const BOOST_RIGHT: &str =
    "it needs a nice limit: 'ulimit -e 30' (RLIMIT_NICE, set by root or in limits.conf), or CAP_SYS_NICE";

/// Asks for a time slice for the calling thread, and checks that the kernel took it (EEVDF, Linux 6.12 and later).
pub fn set_slice(slice_ns: u64) -> Result<(), String> {
    // SAFETY: all-zero attributes are valid; they are as large as their size field says, and the call only reads them.
    let done = unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        attr.size = size_of_val(&attr) as u32;
        attr.sched_nice = thread_nice();
        attr.sched_runtime = slice_ns;
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0)
    };
    if done != 0 {
        return Err(format!("sched_setattr: {}", io::Error::last_os_error()));
    }
    match slice_ns_now() {
        Some(taken) if taken == slice_ns => Ok(()),
        Some(0) | None => Err("this kernel has no time slice per thread; it came with Linux 6.12".to_owned()),
        Some(taken) => Err(format!("the kernel takes slices from 100us to 100ms and made it {taken}ns")),
    }
}

/// How eagerly a thread runs usually: its policy, nice value and time slice.
pub struct Priority(libc::sched_attr);

impl Priority {
    /// The calling thread's.
    ///
    /// # Errors
    /// The kernel does not tell.
    pub fn now() -> io::Result<Priority> {
        // SAFETY: all-zero attributes are valid; the call writes no more than the size given.
        let (done, attr) = unsafe {
            let mut attr: libc::sched_attr = std::mem::zeroed();
            let size = size_of_val(&attr) as u32;
            (libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size, 0), attr)
        };
        if done == 0 { Ok(Priority(attr)) } else { Err(io::Error::last_os_error()) }
    }

    /// Has the calling thread run before all that have no real-time priority.
    ///
    /// # Errors
    /// This user may not.
    pub fn raise(&self) -> io::Result<()> {
        // SAFETY: all-zero attributes are valid.
        let mut attr: libc::sched_attr = unsafe { std::mem::zeroed() };
        attr.sched_policy = libc::SCHED_FIFO as u32;
        attr.sched_priority = 1;
        set(attr)
    }

    /// Has it run as usual.
    ///
    /// # Errors
    /// This user may not.
    pub fn restore(&self) -> io::Result<()> {
        set(self.0)
    }
}

fn set(mut attr: libc::sched_attr) -> io::Result<()> {
    attr.size = size_of_val(&attr) as u32;
    // SAFETY: the kernel reads as many bytes as the size says.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The calling thread's time slice, as the kernel tells it; 0 where it has none.
pub fn slice_ns_now() -> Option<u64> {
    // SAFETY: all-zero attributes are valid; the call writes no more than the size given.
    unsafe {
        let mut attr: libc::sched_attr = std::mem::zeroed();
        let done = libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size_of_val(&attr) as u32, 0);
        (done == 0).then_some(attr.sched_runtime)
    }
}

/// Sleeps while the word has this value, at most for the time given; may wake without a reason.
pub fn wait_on(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let time = limit
        .map(|limit| libc::timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos() as libc::c_long });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is a valid aligned u32 for as long as the borrow; the time is null or lives until the call
    // returns.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG, value, time);
    }
}

/// Wakes up to so many sleepers of [`wait_on`].
pub fn wake(word: &AtomicU32, sleepers: i32) {
    // SAFETY: the kernel uses the address only as a key.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, sleepers);
    }
}

/// Dies when the process that started this one dies: no orphan workers after a Ctrl-C.
///
/// Returns false when that process is gone already.
pub fn die_with_parent(parent: Option<u32>) -> bool {
    // SAFETY: takes plain numbers; getppid takes nothing.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong, 0, 0, 0);
        parent.is_none_or(|parent| libc::getppid() as u32 == parent)
    }
}

/// Busy child processes, one per CPU, until dropped.
#[derive(Debug)]
pub struct Hogs(Vec<libc::pid_t>);

impl Hogs {
    /// Starts them. Call it while the process has one thread: the children are forks without exec.
    pub fn start(cpus: &[u32]) -> io::Result<Hogs> {
        let mut hogs = Hogs(Vec::new());
        let parent = std::process::id();
        for &cpu in cpus {
            // SAFETY: the child calls nothing but system calls (no allocation, no lock) and never returns.
            match unsafe { libc::fork() } {
                -1 => return Err(io::Error::last_os_error()),
                0 => hog(parent, cpu),
                pid => hogs.0.push(pid),
            }
        }
        Ok(hogs)
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for &pid in &self.0 {
            // SAFETY: our own child, not yet reaped, so the number cannot name another process.
            unsafe {
                libc::kill(pid, libc::SIGKILL);
                libc::waitpid(pid, std::ptr::null_mut(), 0);
            }
        }
    }
}

impl Hogs {
    /// Starts processes that share what this one has mapped to be shared, and do this, each with its number from 1,
    /// until they are killed. Call it while the process has one thread, or none that holds a lock which the work takes.
    pub fn rivals(count: u32, work: &dyn Fn(usize)) -> io::Result<Hogs> {
        let mut rivals = Hogs(Vec::new());
        let parent = std::process::id();
        for number in 1..=count {
            // SAFETY: the child does the work, which neither allocates nor takes a lock of the parent's, and never
            // returns.
            match unsafe { libc::fork() } {
                -1 => return Err(io::Error::last_os_error()),
                0 => {
                    if die_with_parent(Some(parent)) {
                        work(number as usize);
                    }
                    // SAFETY: ends the process at once, without running what belongs to the parent.
                    unsafe { libc::_exit(0) }
                }
                pid => rivals.0.push(pid),
            }
        }
        Ok(rivals)
    }
}

/// Memory for so many bytes that this process and those that it forks share, zeroed, at the start of a page.
pub fn shared_memory(bytes: usize) -> io::Result<*mut u8> {
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping, which touches no other memory.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, kind, -1, 0) };
    if memory == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(memory.cast()) }
}

/// Hogs are forks here: no process becomes one later.
pub fn be_a_hog_if_asked() {}

/// A hog's whole life.
fn hog(parent: u32, cpu: u32) -> ! {
    let alive = die_with_parent(Some(parent)) && bind_thread(&[cpu]).is_ok();
    // SAFETY: the standard streams are this process's own; whoever reads the worker's must not wait for the hog's.
    unsafe {
        for stream in 0..3 {
            libc::close(stream);
        }
    }
    if alive {
        loop {
            std::hint::spin_loop();
        }
    }
    // SAFETY: ends the process at once, without running what belongs to the parent.
    unsafe { libc::_exit(1) }
}

/// What these CPUs did since boot.
pub fn cpu_times(cpus: &[u32]) -> Option<CpuTimes> {
    // SAFETY: takes a plain number.
    let tick_ns = 1_000_000_000 / u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?.max(1);
    let stat = fs::read_to_string("/proc/stat").ok()?;
    let mut times = CpuTimes { resolution_ns: tick_ns * cpus.len() as u64, ..CpuTimes::default() };
    for line in stat.lines().skip(1) {
        let Some((number, rest)) = line.strip_prefix("cpu").and_then(|line| line.split_once(' ')) else {
            break;
        };
        if number.parse().is_ok_and(|cpu| cpus.contains(&cpu)) {
            let ticks: Vec<u64> = rest.split_whitespace().filter_map(|n| n.parse().ok()).collect();
            // user nice system idle iowait irq softirq steal
            times.idle_ns += (ticks.get(3)? + ticks.get(4)?) * tick_ns;
            times.steal_ns += ticks.get(7).copied().unwrap_or(0) * tick_ns;
        }
    }
    Some(times)
}
