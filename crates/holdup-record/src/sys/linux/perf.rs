//! The funnel to perf_event_open and its ioctls: everything that can fail goes through [`Kernel`], so that a test can
//! let it fail.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

use perf_event_open_sys as perf;

pub use perf::bindings::perf_event_attr as Attr;

use super::ring::Ring;

/// In place of a thread's number: whatever thread runs on the CPU.
pub const EVERYBODY: u32 = u32::MAX;

/// What the recorder asks of perf.
pub trait Kernel {
    /// perf_event_open, for one CPU.
    fn open(&self, attr: &Attr, pid: u32, cpu: u16) -> io::Result<OwnedFd>;
    /// The event writes into the ring of another one.
    fn redirect(&self, event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> io::Result<()>;
    /// The kernel passes over what does not fit the filter.
    fn filter(&self, event: BorrowedFd<'_>, filter: &str) -> io::Result<()>;
    /// The identifier in the event's records.
    fn id(&self, event: BorrowedFd<'_>) -> io::Result<u64>;
    /// The event counts and writes from now on, and so do those that children inherited.
    fn enable(&self, event: BorrowedFd<'_>) -> io::Result<()>;
    /// The event no longer counts nor writes, nor do those that children inherited.
    fn disable(&self, event: BorrowedFd<'_>) -> io::Result<()>;
    /// What the event counted, with those that children inherited; where events took turns, what it would have counted
    /// without.
    fn count(&self, event: BorrowedFd<'_>) -> io::Result<u64>;
    /// Cycles at the processor's nominal frequency since some moment, asleep or not; where it counts them.
    fn nominal_cycles(&self) -> Option<u64> {
        None
    }
    /// Gives the event a ring of so many pages, a power of two.
    fn map(&self, event: BorrowedFd<'_>, pages: usize) -> io::Result<Ring>;
}

/// The real one.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linux;

impl Kernel for Linux {
    fn open(&self, attr: &Attr, pid: u32, cpu: u16) -> io::Result<OwnedFd> {
        let mut attr = *attr;
        // SAFETY: the kernel reads `size` bytes of the attribute, which is whole and its own here, and may write to its
        // size.
        let fd = unsafe {
            perf::perf_event_open(
                &raw mut attr,
                pid as i32,
                i32::from(cpu),
                -1,
                perf::bindings::PERF_FLAG_FD_CLOEXEC.into(),
            )
        };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call just made this descriptor; nobody else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }

    fn redirect(&self, event: BorrowedFd<'_>, ring: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: both are open descriptors for the call.
        check(unsafe { perf::ioctls::SET_OUTPUT(event.as_raw_fd(), ring.as_raw_fd()) })
    }

    fn filter(&self, event: BorrowedFd<'_>, filter: &str) -> io::Result<()> {
        let filter = CString::new(filter)?;
        // SAFETY: the kernel copies the string, which ends with a zero; it does not write to it.
        check(unsafe { perf::ioctls::SET_FILTER(event.as_raw_fd(), filter.as_ptr().cast_mut()) })
    }

    fn id(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        let mut id = 0;
        // SAFETY: the kernel writes eight bytes to the place given.
        check(unsafe { perf::ioctls::ID(event.as_raw_fd(), &raw mut id) })?;
        Ok(id)
    }

    fn enable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: an ioctl without memory.
        check(unsafe { perf::ioctls::ENABLE(event.as_raw_fd(), 0) })
    }

    fn disable(&self, event: BorrowedFd<'_>) -> io::Result<()> {
        // SAFETY: an ioctl without memory.
        check(unsafe { perf::ioctls::DISABLE(event.as_raw_fd(), 0) })
    }

    fn count(&self, event: BorrowedFd<'_>) -> io::Result<u64> {
        let mut bytes = [0; 24];
        let len = rustix::io::read(event, &mut bytes)?;
        let [value, enabled, running] = [0, 8, 16].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_ne_bytes(word)
        });
        Ok(match len == bytes.len() && (1..enabled).contains(&running) {
            true => (u128::from(value) * u128::from(enabled) / u128::from(running)) as u64,
            false => value,
        })
    }

    fn nominal_cycles(&self) -> Option<u64> {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: reads a counter that every x86-64 processor has.
        return Some(unsafe { std::arch::x86_64::_rdtsc() });
        #[cfg(not(target_arch = "x86_64"))]
        None
    }

    fn map(&self, event: BorrowedFd<'_>, pages: usize) -> io::Result<Ring> {
        Ring::map(event, pages)
    }
}

fn check(result: libc::c_int) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
