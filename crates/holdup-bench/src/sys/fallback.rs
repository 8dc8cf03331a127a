//! Systems without a backend yet: threads run, everything that needs the system says that it is unsupported.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::{CpuTimes, Usage};

pub use super::absent::{counters, pthread, srwlock};

fn unsupported<T>() -> io::Result<T> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// The one that Rust brings everywhere.
pub const USUAL_LOCK: &str = "std";

/// Whether the C library's locks can be measured.
pub const HAS_PTHREAD: bool = false;

/// Whether the system has slim reader-writer locks.
pub const HAS_SRWLOCK: bool = false;

/// Nothing is known.
pub fn thread_usage() -> Usage {
    Usage::default()
}

/// As many as the system says may be used, numbered from 0.
pub fn allowed_cpus() -> Vec<u32> {
    (0..std::thread::available_parallelism().map_or(1, |count| count.get() as u32)).collect()
}

/// All CPUs are allowed anyway; fewer cannot be had.
pub fn bind_thread(cpus: &[u32]) -> io::Result<()> {
    if cpus == allowed_cpus() { Ok(()) } else { unsupported() }
}

/// No priorities.
pub fn thread_nice() -> i32 {
    0
}

/// No priorities.
pub fn set_thread_nice(_: i32) -> io::Result<()> {
    unsupported()
}

/// Priorities cannot be changed here yet.
pub struct Priority;

impl Priority {
    /// Not known here.
    ///
    /// # Errors
    /// Always.
    pub fn now() -> io::Result<Priority> {
        unsupported()
    }

    /// Not possible here.
    ///
    /// # Errors
    /// Always.
    pub fn raise(&self) -> io::Result<()> {
        unsupported()
    }

    /// Not possible here.
    ///
    /// # Errors
    /// Always.
    pub fn restore(&self) -> io::Result<()> {
        unsupported()
    }
}

/// What it takes to raise a priority, in words.
pub const BOOST_RIGHT: &str = "holdup cannot do so on this system yet";

/// No slices.
pub fn set_slice(_: u64) -> Result<(), String> {
    Err("holdup cannot set the time slice on this system yet".to_owned())
}

/// Yields until the word has another value or the time is over.
pub fn wait_on(word: &AtomicU32, value: u32, limit: Option<Duration>) {
    let start = Instant::now();
    while word.load(Ordering::Acquire) == value && limit.is_none_or(|limit| start.elapsed() < limit) {
        std::thread::yield_now();
    }
}

/// Nobody sleeps.
pub fn wake(_: &AtomicU32, _: i32) {}

/// Workers are not bound to their parent here.
pub fn die_with_parent(_: Option<u32>) -> bool {
    true
}

/// No process is started to be busy.
pub fn be_a_hog_if_asked() {}

/// Busy child processes.
#[derive(Debug)]
pub struct Hogs;

impl Hogs {
    /// Cannot be started here yet.
    pub fn start(_: &[u32]) -> io::Result<Hogs> {
        unsupported()
    }

    /// Cannot be started here yet.
    pub fn rivals(_: u32, _: &dyn Fn(usize)) -> io::Result<Hogs> {
        unsupported()
    }
}

/// No process shares memory here yet.
pub fn shared_memory(_: usize) -> io::Result<*mut u8> {
    unsupported()
}

/// Not known.
pub fn cpu_times(_: &[u32]) -> Option<CpuTimes> {
    None
}

/// Facts that this system does not tell us yet.
pub mod facts {
    fn unknown<T>() -> Result<T, String> {
        Err("holdup does not know how to ask this system".to_owned())
    }

    /// Not known.
    pub fn cpu() -> Result<String, String> {
        unknown()
    }

    /// Not known.
    pub fn cpus_online() -> Result<String, String> {
        unknown()
    }

    /// Not known.
    pub fn kernel() -> Result<String, String> {
        unknown()
    }

    /// It is itself.
    pub fn translated_by() -> Option<String> {
        None
    }

    /// Not known.
    pub fn governor() -> Result<String, String> {
        unknown()
    }

    /// Not known.
    pub fn load() -> Result<String, String> {
        unknown()
    }

    /// Not known.
    pub fn clock_source() -> Result<String, String> {
        unknown()
    }

    /// Not known.
    pub fn c_library() -> Result<String, String> {
        unknown()
    }

    /// Not known.
    pub fn hardware_counters() -> Result<String, String> {
        unknown()
    }

    /// Not known.
    pub fn slice_ns() -> Result<u64, String> {
        unknown()
    }

    /// Not known.
    pub fn split_locks() -> Result<String, String> {
        unknown()
    }

    /// Whether the clock can be read by a system call of its own.
    pub const CLOCK_CALL: bool = false;

    /// Never called.
    pub fn clock_by_system_call() {}
}
