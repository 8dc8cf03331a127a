//! The machine and the recorder's own place on it: clocks, limits, slices, facts for the header.

use std::fs;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdup_trace::Machine;

/// The recording's clock.
pub fn now_ns() -> u64 {
    clock_ns(libc::CLOCK_MONOTONIC)
}

/// CPU time that the calling thread used so far.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec into the one given.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU time that this process used for something else than recording.
static ASIDE_NS: AtomicU64 = AtomicU64::new(0);

/// Does what is no part of a recording, on this thread alone: its CPU time does not count for the recorder.
pub fn aside<T>(work: impl FnOnce() -> T) -> T {
    let before_ns = thread_cpu_ns();
    let done = work();
    // ORDERING: a sum; nothing is read by it.
    ASIDE_NS.fetch_add(thread_cpu_ns() - before_ns, Ordering::Relaxed);
    done
}

/// Has the C library keep little memory for later: few places that threads take it from, and large pieces go back as
/// soon as they are freed. For a process that begins, and is to stay small for days.
pub fn keep_little_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: take numbers; what they are refused stays as it was.
    unsafe {
        const LARGE: i32 = 128 << 10;
        libc::mallopt(libc::M_ARENA_MAX, 2);
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE);
    }
}

/// Gives memory that was freed back to the system: the C library keeps what one thread needed for a moment.
pub fn give_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: takes a number, and locks what it changes.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// CPU time that this process used so far to record.
pub fn own_cpu_ns() -> u64 {
    // SAFETY: an all-zero rusage is valid, and getrusage fills the one it is given.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        usage
    };
    let all_ns = timeval_ns(usage.ru_utime) + timeval_ns(usage.ru_stime);
    all_ns.saturating_sub(ASIDE_NS.load(Ordering::Relaxed))
}

/// A time as getrusage gives it, in nanoseconds.
pub fn timeval_ns(time: libc::timeval) -> u64 {
    time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000
}

/// Waits until one of the descriptors has something or the time is over; which ones have.
pub fn poll(descriptors: &[i32], timeout: Duration) -> Vec<bool> {
    let mut polled: Vec<libc::pollfd> =
        descriptors.iter().map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 }).collect();
    let timeout = libc::timespec { tv_sec: timeout.as_secs() as _, tv_nsec: timeout.subsec_nanos().into() };
    // SAFETY: the array has as many entries as is said; an interrupted call leaves them zero.
    let ready =
        unsafe { libc::ppoll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, &raw const timeout, std::ptr::null()) };
    polled.iter().map(|one| ready > 0 && one.revents != 0).collect()
}

/// Whether the recorder knows threads by the numbers that the whole machine knows them by, which the scheduler's
/// tracepoints tell.
pub fn in_first_pid_namespace() -> bool {
    // The number of the first namespace's file is the same on every Linux (PROC_PID_INIT_INO).
    const FIRST: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == FIRST)
}

/// The CPUs that are online.
pub fn online_cpus() -> Vec<u16> {
    let list = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let cpus = parse_cpus(&list);
    if cpus.is_empty() {
        let count = std::thread::available_parallelism().map_or(1, usize::from);
        return (0..count as u16).collect();
    }
    cpus
}

fn parse_cpus(list: &str) -> Vec<u16> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    list.trim().split(',').filter_map(range).flatten().collect()
}

/// Raises the limit of open files as far as is allowed; gives it.
pub fn raise_open_files() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls get one valid rlimit.
    unsafe {
        libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
        let wanted = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) == 0 {
            limit = wanted;
        }
    }
    limit.rlim_cur
}

/// Lets the calling thread be served soon when a ring fills: a short slice, which anybody may ask for (Linux 6.12). No
/// better nice value, even where it is allowed: the recorder would take the CPU of the program that it records.
pub fn hurry() {
    const SHORTEST_SLICE_NS: u64 = 100_000;
    // A kernel that does not know slices may refuse, which changes nothing.
    schedule(SchedulerAttr { nice: nice(), runtime: SHORTEST_SLICE_NS, ..SchedulerAttr::default() });
}

/// The same, but also while threads of real-time priority have all CPUs, where that is allowed (CAP_SYS_NICE): they
/// would fill the rings long before they let anybody else run. For a thread that does no more than empty them.
pub fn hurry_before_all() {
    const FIFO: u32 = 1;
    const RESET_ON_FORK: u64 = 1;
    const HIGHEST_BUT_ONE: u32 = 98;
    let attr = SchedulerAttr { policy: FIFO, flags: RESET_ON_FORK, priority: HIGHEST_BUT_ONE, ..Default::default() };
    if !schedule(attr) {
        hurry();
    }
}

/// The kernel's struct sched_attr in its first version.
#[repr(C)]
#[derive(Default)]
struct SchedulerAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

/// Whether the kernel does it.
fn schedule(attr: SchedulerAttr) -> bool {
    let attr = SchedulerAttr { size: size_of::<SchedulerAttr>() as u32, ..attr };
    // SAFETY: the kernel reads `size` bytes of the structure, which is laid out as it expects.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) == 0 }
}

fn nice() -> i32 {
    // SAFETY: a call without memory.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// The processor's maker, as it calls itself.
pub fn vendor() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let vendor = info.lines().find_map(|line| line.strip_prefix("vendor_id")?.split_once(':'));
    vendor.map_or(String::new(), |(_, vendor)| vendor.trim().into())
}

/// The socket of each CPU up to the last that is online; empty where one does not tell its own.
fn sockets() -> Vec<u32> {
    let of = |cpu: u16| -> Option<u32> {
        let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
        fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let mut sockets = Vec::new();
    for cpu in online_cpus() {
        let Some(socket) = of(cpu) else { return Vec::new() };
        sockets.resize(usize::from(cpu) + 1, 0);
        sockets[usize::from(cpu)] = socket;
    }
    sockets
}

/// Facts for the header.
pub fn facts(cpus: usize) -> Machine {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    Machine {
        host: fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().into(),
        cpu: name.map_or(String::new(), |(_, name)| name.trim().into()),
        cpus: cpus as u32,
        allowed_cpus: own_cpus(),
        arch: std::env::consts::ARCH.into(),
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().into(),
        sockets: sockets(),
    }
}

/// On how many CPUs the calling thread may run; 0 where that is not known.
fn own_cpus() -> u32 {
    // SAFETY: all zeroes are an empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes a set of this size into the one given.
    let known = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) } == 0;
    // SAFETY: counts the bits of the set.
    if known { unsafe { libc::CPU_COUNT(&set) as u32 } } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_have_ranges() {
        assert_eq!(parse_cpus("0-2,5,7-8\n"), [0, 1, 2, 5, 7, 8]);
        assert_eq!(parse_cpus("\n"), Vec::<u16>::new());
    }

    #[test]
    fn what_is_done_aside_is_not_the_recorders() {
        let before_ns = ASIDE_NS.load(Ordering::Relaxed);
        let spent_ns = aside(|| {
            let began_ns = thread_cpu_ns();
            while thread_cpu_ns() - began_ns < 20_000_000 {}
            thread_cpu_ns() - began_ns
        });
        assert!(ASIDE_NS.load(Ordering::Relaxed) - before_ns >= spent_ns);
    }
}
