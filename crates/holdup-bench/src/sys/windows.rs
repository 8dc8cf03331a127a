//! Windows: threads, processes and the machine, by Win32 and, for what Win32 does not tell, by ntdll.
//!
//! Not to be had here, and said so: context switches per thread, time slices, hardware counters, time taken by a
//! hypervisor, and page faults with I/O apart from those without. Only the first processor group (64 CPUs) is used.

use std::ffi::c_void;
use std::io;
use std::process::{Child, Command, Stdio};
use std::ptr;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use windows_sys::Win32::Foundation::FILETIME;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, GetThreadPriority, GetThreadTimes, INFINITE,
    SetThreadAffinityMask, SetThreadPriority, THREAD_PRIORITY_ABOVE_NORMAL, THREAD_PRIORITY_BELOW_NORMAL,
    THREAD_PRIORITY_HIGHEST, THREAD_PRIORITY_IDLE, THREAD_PRIORITY_LOWEST, THREAD_PRIORITY_NORMAL, WaitOnAddress,
    WakeByAddressAll, WakeByAddressSingle,
};

use super::{PARENT, Usage};

pub mod facts;
pub mod srwlock;

pub use super::absent::{counters, pthread};
pub use facts::cpu_times;

/// What stands in most programs, and what was measured in 1998.
pub const USUAL_LOCK: &str = "critical-section";

/// Whether the C library's locks can be measured.
pub const HAS_PTHREAD: bool = false;

/// Whether the system has slim reader-writer locks.
pub const HAS_SRWLOCK: bool = true;

/// What the calling thread used so far, as coarse as the system's tick (15.6 ms).
pub fn thread_usage() -> Usage {
    let mut times = [FILETIME::default(); 4];
    let [created, ended, kernel, user] = &mut times;
    // SAFETY: writes the four times given, about the calling thread.
    unsafe { GetThreadTimes(GetCurrentThread(), created, ended, kernel, user) };
    Usage { user_ns: filetime_ns(*user), kernel_ns: filetime_ns(*kernel), ..Usage::default() }
}

/// The system counts in steps of 100 ns.
fn filetime_ns(time: FILETIME) -> u64 {
    (u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)) * 100
}

fn check(succeeded: i32) -> io::Result<()> {
    if succeeded == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// The CPUs that this process may run on, in order.
pub fn allowed_cpus() -> Vec<u32> {
    let (mut mine, mut all) = (0_usize, 0_usize);
    // SAFETY: writes the two masks given, about the calling process.
    unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut mine, &raw mut all) };
    (0..usize::BITS).filter(|cpu| mine >> cpu & 1 != 0).collect()
}

/// The mask of these CPUs; those that no mask has are left out.
fn mask(cpus: &[u32]) -> usize {
    cpus.iter().filter(|&&cpu| cpu < usize::BITS).fold(0, |mask, cpu| mask | 1 << cpu)
}

/// Restricts the calling thread to these CPUs.
pub fn bind_thread(cpus: &[u32]) -> io::Result<()> {
    // SAFETY: takes plain values; the pseudo handle means the calling thread.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), mask(cpus)) };
    check(i32::from(before != 0))
}

/// Priorities as nice values, worst first. The steps of [`set_thread_nice`] are those that Unix programs take for lower
/// and higher.
const PRIORITIES: [(i32, i32); 6] = [
    (15, THREAD_PRIORITY_IDLE),
    (10, THREAD_PRIORITY_LOWEST),
    (5, THREAD_PRIORITY_BELOW_NORMAL),
    (0, THREAD_PRIORITY_NORMAL),
    (-5, THREAD_PRIORITY_ABOVE_NORMAL),
    (-10, THREAD_PRIORITY_HIGHEST),
];

/// The calling thread's priority, as a nice value.
pub fn thread_nice() -> i32 {
    // SAFETY: the pseudo handle means the calling thread.
    let priority = unsafe { GetThreadPriority(GetCurrentThread()) };
    PRIORITIES.iter().find(|(_, known)| *known == priority).map_or(0, |(nice, _)| *nice)
}

/// Sets the calling thread's priority to the one that a nice value stands for: one call.
pub fn set_thread_nice(nice: i32) -> io::Result<()> {
    let found = PRIORITIES.iter().find(|(known, _)| nice >= *known);
    let priority = found.map_or(THREAD_PRIORITY_HIGHEST, |(_, priority)| *priority);
    // SAFETY: takes plain values; the pseudo handle means the calling thread.
    check(unsafe { SetThreadPriority(GetCurrentThread(), priority) })
}

/// How eagerly a thread runs usually.
pub struct Priority(i32);

impl Priority {
    /// The calling thread's.
    ///
    /// # Errors
    /// None here.
    pub fn now() -> io::Result<Priority> {
        Ok(Priority(thread_nice()))
    }

    /// Has the calling thread run before all others of its process, as Windows' priorities do.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn raise(&self) -> io::Result<()> {
        set_thread_nice(i32::MIN)
    }

    /// Has it run as usual.
    ///
    /// # Errors
    /// The system refuses it.
    pub fn restore(&self) -> io::Result<()> {
        set_thread_nice(self.0)
    }
}

/// What it takes to raise a priority, in words.
pub const BOOST_RIGHT: &str = "every thread of an ordinary process may do so on Windows";

/// No slices.
pub fn set_slice(_: u64) -> Result<(), String> {
    Err("Windows has no time slice per thread; leave --slice out".to_owned())
}

/// Sleeps while the word has this value, at most for the time given; may wake without a reason.
pub fn wait_on(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let limit_ms = limit.map_or(INFINITE, |limit| {
        u32::try_from(limit.as_nanos().div_ceil(1_000_000)).unwrap_or(INFINITE).min(INFINITE - 1)
    });
    // SAFETY: both addresses are of four readable bytes that live through the call.
    unsafe { WaitOnAddress(word.as_ptr().cast(), ptr::from_ref(&value).cast(), 4, limit_ms) };
}

/// Wakes up to so many sleepers of [`wait_on`]: one, or all.
pub fn wake(word: &AtomicU32, sleepers: i32) {
    let address = word.as_ptr().cast::<c_void>();
    // SAFETY: the address is a key and is not read.
    unsafe { if sleepers == 1 { WakeByAddressSingle(address) } else { WakeByAddressAll(address) } };
}

/// A worker is in a job that ends when its parent's handle closes, so there is nothing to do.
pub fn die_with_parent(_: Option<u32>) -> bool {
    true
}

/// The environment variable that tells a copy of a worker to be a hog, and on which CPU.
const HOG: &str = "HOLDUP_WORKER_HOG";

/// Does not return if this process was started as a hog.
pub fn be_a_hog_if_asked() {
    let Some(cpu) = std::env::var(HOG).ok().and_then(|cpu| cpu.parse().ok()) else { return };
    while bind_thread(&[cpu]).is_ok() {
        (0..1_000_000).for_each(|_| std::hint::spin_loop());
    }
}

/// Busy child processes, one per CPU, until dropped. They are in the worker's job, so they end with it in any case.
#[derive(Debug)]
pub struct Hogs(Vec<Child>);

impl Hogs {
    /// Starts them: this worker again, told to be a hog.
    pub fn start(cpus: &[u32]) -> io::Result<Hogs> {
        if std::env::var_os(PARENT).is_none() {
            return Err(io::Error::other("only a worker process can start them"));
        }
        let exe = std::env::current_exe()?;
        let mut hogs = Hogs(Vec::new());
        for cpu in cpus {
            let mut command = Command::new(&exe);
            command.args(std::env::args_os().skip(1)).env(HOG, cpu.to_string());
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            hogs.0.push(command.spawn()?);
        }
        Ok(hogs)
    }

    /// No process is forked here, so none does this one's work.
    pub fn rivals(_: u32, _: &dyn Fn(usize)) -> io::Result<Hogs> {
        Err(io::Error::from(io::ErrorKind::Unsupported))
    }
}

/// No process is forked here that would share it.
pub fn shared_memory(_: usize) -> io::Result<*mut u8> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

impl Drop for Hogs {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            // One that has ended already is as good.
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}
