//! Linux: threads, processes and the machine, by system calls and /proc.

use std::fs;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd, FromRawFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::kept::Kept;
use super::{CpuTimes, Ended, Usage};
use crate::process::ProcessUse;

pub mod command;
pub mod counters;
pub mod facts;
mod forward;
pub mod launch;
pub mod pthread;

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
    // What the clock has and the split has not yet is the time since the last tick: it ran in user mode, up to this call.
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

/// `struct sched_attr` up to the fields that every kernel with the call knows.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Asks for a time slice for the calling thread, and checks that the kernel took it (EEVDF, Linux 6.12 and later).
pub fn set_slice(slice_ns: u64) -> Result<(), String> {
    let attr = SchedAttr {
        size: size_of::<SchedAttr>() as u32,
        nice: thread_nice(),
        runtime_ns: slice_ns,
        ..SchedAttr::default()
    };
    // SAFETY: the structure is as large as its size field says and lives through the call, which only reads it.
    let done = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attr, 0) };
    if done != 0 {
        return Err(format!("sched_setattr: {}", io::Error::last_os_error()));
    }
    match slice_ns_now() {
        Some(taken) if taken == slice_ns => Ok(()),
        Some(0) | None => Err("this kernel has no time slice per thread; it came with Linux 6.12".to_owned()),
        Some(taken) => Err(format!("the kernel takes slices from 100us to 100ms and made it {taken}ns")),
    }
}

/// The calling thread's time slice, as the kernel tells it; 0 where it has none.
pub fn slice_ns_now() -> Option<u64> {
    let mut attr = SchedAttr::default();
    // SAFETY: the structure is as large as the size given and the call writes no more than that.
    let done =
        unsafe { libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attr, size_of::<SchedAttr>() as u32, 0) };
    (done == 0).then_some(attr.runtime_ns)
}

/// Sleeps while the word has this value, at most for the time given; may wake without a reason.
pub fn wait_on(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let time = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs() as libc::time_t,
        tv_nsec: limit.subsec_nanos() as libc::c_long,
    });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the word is a valid aligned u32 for as long as the borrow; the time is null or lives until the call returns.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            time,
        );
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

/// Runs a command in a process group of its own until it ends or its time is up; then the whole group is killed.
pub fn supervise(command: &mut Command, limit: Duration) -> io::Result<Ended> {
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()?;
    let pid = child.id() as libc::pid_t;
    let (mut out, mut err) = (Stream::new(child.stdout.take()), Stream::new(child.stderr.take()));
    let killed = match watch(pid, [&mut out, &mut err], start + limit) {
        Ok(killed) => killed,
        // The worker runs on unwatched otherwise; the failure itself is the caller's to tell.
        Err(error) => {
            kill_group(pid);
            reap(pid)?;
            return Err(error);
        }
    };
    // Nothing of the worker's group outlives it; until it is reaped its number is taken and means nobody else.
    kill_group(pid);
    let (status, usage) = reap(pid)?;
    out.drain();
    err.drain();
    let process = process_use(start, &usage);
    Ok(Ended { stdout: out.text(), stderr: err.text(), status, killed, process })
}

/// What a reaped process used since it was started.
fn process_use(start: Instant, usage: &libc::rusage) -> ProcessUse {
    ProcessUse {
        elapsed_ns: start.elapsed().as_nanos() as u64,
        user_ns: timeval_ns(usage.ru_utime),
        kernel_ns: timeval_ns(usage.ru_stime),
        voluntary_switches: Some(usage.ru_nvcsw as u64),
        involuntary_switches: Some(usage.ru_nivcsw as u64),
        minor_faults: Some(usage.ru_minflt as u64),
        major_faults: Some(usage.ru_majflt as u64),
        max_rss_bytes: usage.ru_maxrss as u64 * 1024,
    }
}

/// Collects output until the child has ended (false) or was killed at the deadline (true).
fn watch(pid: libc::pid_t, streams: [&mut Stream; 2], deadline: Instant) -> io::Result<bool> {
    let [out, err] = streams;
    // SAFETY: takes plain numbers; the result is checked before it becomes an owned descriptor.
    let ended = unsafe {
        let fd = libc::syscall(libc::SYS_pidfd_open, pid, 0) as i32;
        check(fd)?;
        OwnedFd::from_raw_fd(fd)
    };
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            kill_group(pid);
            return Ok(true);
        }
        let mut fds = [ended.as_raw_fd(), out.fd(), err.fd()].map(|fd| libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        });
        let wait_ms = left.as_millis().clamp(1, 1 << 20) as i32;
        // SAFETY: the array lives through the call, which writes only its `revents`.
        let ready = unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, wait_ms) };
        if ready < 0 && io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
            return Err(io::Error::last_os_error());
        }
        if ready <= 0 {
            continue;
        }
        if fds[1].revents != 0 {
            out.read();
        }
        if fds[2].revents != 0 {
            err.read();
        }
        if fds[0].revents != 0 {
            return Ok(false);
        }
    }
}

fn kill_group(pid: libc::pid_t) {
    // SAFETY: takes plain numbers. The group bears the child's number, which stays taken while the group has members.
    unsafe { libc::kill(-pid, libc::SIGKILL) };
}

fn reap(pid: libc::pid_t) -> io::Result<(ExitStatus, libc::rusage)> {
    loop {
        let mut status = 0;
        // SAFETY: an all-zero rusage is valid; the call writes the two places given, which live through it.
        let (done, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, &raw mut status, 0, &raw mut usage), usage)
        };
        match check(done) {
            Ok(()) => return Ok((ExitStatus::from_raw(status), usage)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// One of a child's output streams, kept up to a limit.
#[derive(Debug)]
struct Stream {
    pipe: Option<fs::File>,
    kept: Kept,
}

impl Stream {
    fn new(pipe: Option<impl Into<OwnedFd>>) -> Stream {
        let pipe = pipe.map(|pipe| fs::File::from(pipe.into()));
        Stream { pipe, kept: Kept::new() }
    }

    /// Negative, which poll ignores, after the end.
    fn fd(&self) -> i32 {
        self.pipe.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn read(&mut self) {
        let mut buffer = [0; 16_384];
        let Some(pipe) = &mut self.pipe else { return };
        match pipe.read(&mut buffer) {
            Ok(0) | Err(_) => self.pipe = None,
            Ok(count) => self.kept.append(&buffer[..count]),
        }
    }

    /// Reads what is left without waiting for more.
    fn drain(&mut self) {
        if let Some(pipe) = &self.pipe {
            // SAFETY: sets a flag of a descriptor that we own.
            unsafe { libc::fcntl(pipe.as_raw_fd(), libc::F_SETFL, libc::O_NONBLOCK) };
        }
        while self.pipe.is_some() {
            self.read();
        }
    }

    fn text(&self) -> String {
        self.kept.text()
    }

    /// Of all bytes, those that are not kept too.
    fn hash(&self) -> u64 {
        self.kept.hash()
    }
}

/// The usual name of the signal that ended a process.
pub fn signal_name(status: ExitStatus) -> Option<String> {
    let signal = status.signal()?;
    let known = [
        (libc::SIGSEGV, "SIGSEGV (segmentation fault)"),
        (libc::SIGABRT, "SIGABRT (abort)"),
        (libc::SIGBUS, "SIGBUS (bus error)"),
        (libc::SIGILL, "SIGILL (illegal instruction)"),
        (libc::SIGFPE, "SIGFPE (arithmetic error)"),
        (libc::SIGKILL, "SIGKILL (killed)"),
        (libc::SIGTERM, "SIGTERM (terminated)"),
        (libc::SIGINT, "SIGINT (interrupted)"),
        (libc::SIGTRAP, "SIGTRAP (trap)"),
        (libc::SIGSYS, "SIGSYS (forbidden system call)"),
    ];
    let name = known.iter().find(|(number, _)| *number == signal);
    Some(name.map_or_else(|| format!("signal {signal}"), |(_, name)| (*name).to_owned()))
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
