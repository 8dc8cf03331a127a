//! What /proc shows of one thread, at the cost of two short reads: its files are kept open.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;

use super::interval::Times;

/// The files of a thread.
#[derive(Debug)]
pub struct Sight {
    pid: u32,
    tid: u32,
    /// Open as long as there are descriptors for them.
    schedstat: Option<File>,
    syscall: Option<File>,
}

impl Sight {
    /// Of this thread.
    pub fn new(pid: u32, tid: u32) -> Sight {
        let open = |name: &str| File::open(format!("/proc/{pid}/task/{tid}/{name}")).ok();
        Sight { pid, tid, schedstat: open("schedstat"), syscall: open("syscall") }
    }

    /// What the kernel has counted; `None` if the thread has ended. All zero on kernels that do not count.
    pub fn times(&self) -> Option<Times> {
        let mut bytes = [0; 96];
        match self.read(self.schedstat.as_ref(), "schedstat", &mut bytes) {
            Ok(text) => Some(times(text).unwrap_or_default()),
            Err(why) if is_gone(&why) => self.is_there().then(Times::default),
            Err(_) => Some(Times::default()),
        }
    }

    /// The text of `syscall`, into these bytes.
    ///
    /// # Errors
    /// The thread has ended, or may not be looked at.
    pub fn call<'b>(&self, bytes: &'b mut [u8; 256]) -> io::Result<&'b str> {
        self.read(self.syscall.as_ref(), "syscall", bytes)
    }

    /// Another file of the thread, read rarely.
    pub fn text(&self, name: &str) -> Option<String> {
        let bytes = fs::read(format!("/proc/{}/task/{}/{name}", self.pid, self.tid)).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// What a descriptor stands for.
    pub fn descriptor(&self, number: u64) -> Option<Box<str>> {
        let path = fs::read_link(format!("/proc/{}/task/{}/fd/{number}", self.pid, self.tid)).ok()?;
        Some(path.to_string_lossy().into())
    }

    fn is_there(&self) -> bool {
        fs::exists(format!("/proc/{}/task/{}", self.pid, self.tid)).unwrap_or(false)
    }

    fn read<'b>(&self, file: Option<&File>, name: &str, bytes: &'b mut [u8]) -> io::Result<&'b str> {
        let len = match file {
            Some(file) => file.read_at(bytes, 0)?,
            None => File::open(format!("/proc/{}/task/{}/{name}", self.pid, self.tid))?.read_at(bytes, 0)?,
        };
        Ok(str::from_utf8(&bytes[..len]).unwrap_or_default())
    }
}

/// Whether that is how reading fails of a thread that has ended.
pub fn is_gone(why: &io::Error) -> bool {
    matches!(why.raw_os_error(), Some(libc::ESRCH | libc::ENOENT))
}

/// The three numbers of `schedstat`.
fn times(text: &str) -> Option<Times> {
    let mut numbers = text.split_ascii_whitespace().map_while(|word| word.parse().ok());
    Some(Times { cpu_ns: numbers.next()?, delay_ns: numbers.next()?, runs: numbers.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_three_numbers() {
        assert_eq!(times("1500 20 7\n"), Some(Times { cpu_ns: 1500, delay_ns: 20, runs: 7 }));
        assert_eq!((times("1500 20"), times("")), (None, None));
    }

    #[test]
    fn this_thread_is_seen_in_the_call_that_looks_and_none_where_there_is_none() {
        // SAFETY: asks for a number.
        let tid = unsafe { libc::gettid() } as u32;
        let own = Sight::new(std::process::id(), tid);
        assert!(own.times().is_some());
        let text = own.call(&mut [0; 256]).map(str::to_owned).expect("this process may look at itself");
        assert!(text.starts_with(&format!("{} ", libc::SYS_pread64)), "{text}");
        assert_eq!(Sight::new(std::process::id(), u32::MAX).times(), None);
    }
}
