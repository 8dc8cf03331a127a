//! The files that are shared with the outside: the folder, the settings, the figures. No call here is a cancellation
//! point, for the calls of a program that lead here are none.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::Ordering;

use holdup_control::{
    self as control, Figures, MAGIC, PATH, PROCESSES, SETTINGS_FILE, STATE_SERVES, Settings, VERSION,
};

use super::kernel::{self, getpid};

/// Path of the folder, ended by 0.
pub type Folder = [u8; 512];

/// The folder that the environment names, ended by 0.
pub fn folder() -> Option<Folder> {
    let mut name = [0; 32];
    name[..control::ENV.len()].copy_from_slice(control::ENV.as_bytes());
    // SAFETY: the name ends with 0.
    let value = unsafe { libc::getenv(name.as_ptr().cast()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv gives a string that ends with 0.
    let value = unsafe { CStr::from_ptr(value) }.to_bytes();
    let mut folder = [0; 512];
    // Room for the name of a file and the 0 is left.
    (value.len() < 480).then(|| folder[..value.len()].copy_from_slice(value))?;
    Some(folder)
}

/// The settings in a folder, if they are of this version.
pub fn map_settings(folder: &Folder) -> Option<&'static Settings> {
    let mut path = Path::new(folder);
    path.push(SETTINGS_FILE.as_bytes());
    // SAFETY: the path ends with 0.
    let file = File::opened(unsafe { kernel::open(path.as_ptr(), libc::O_RDWR | libc::O_CLOEXEC, 0) })?;
    let size = size_of::<Settings>();
    if file.size()? < size {
        return None;
    }
    let address = map(Some(&file), size)?;
    // SAFETY: the file is as large as the type, all of whose values are valid, and stays mapped.
    let settings = unsafe { &*address.cast::<Settings>() };
    let fits = settings.magic == MAGIC && settings.version == VERSION && settings.bytes as usize == size;
    fits.then_some(settings)
}

/// Makes the file of this process, or memory in its place if there are too many. One that serves nothing gets only the
/// beginning.
pub fn make_figures(folder: &Folder, settings: &Settings, state: u32) -> Option<*mut Figures> {
    let serves = state == STATE_SERVES;
    let size = if serves { size_of::<Figures>() } else { offset_of!(Figures, threads) };
    let file = if serves && settings.processes.fetch_add(1, Ordering::Relaxed) >= PROCESSES {
        None
    } else {
        let file = File::made(folder)?;
        // SAFETY: the descriptor is open.
        if unsafe { libc::ftruncate(file.0, size as i64) } != 0 {
            return None;
        }
        Some(file)
    };
    let figures = map(file.as_ref(), size)?.cast::<Figures>();
    let mut program = [0; PATH];
    exe(&mut program);
    // SAFETY: the file is new, zero, and large enough for these fields, which nobody else writes.
    unsafe {
        (&raw mut (*figures).version).write(VERSION);
        (&raw mut (*figures).bytes).write(size as u32);
        (&raw mut (*figures).pid).write(getpid());
        (&raw mut (*figures).began_ns).write(kernel::now_ns());
        (&raw mut (*figures).program).write(program);
        (&raw mut (*figures).profile).write(settings.profile);
        (*figures).state.store(state, Ordering::Relaxed);
        // ORDERING: Release, for holdup, which reads the file while the process runs: with the mark, all else is there.
        (*figures).magic.store(MAGIC, Ordering::Release);
    }
    Some(figures)
}

/// Path of the program that runs, of a long one the end; its length.
pub fn exe(program: &mut [u8; PATH]) -> usize {
    let mut buffer = [0u8; 4096];
    // SAFETY: the buffer is as large as said.
    let len = unsafe { libc::readlink(c"/proc/self/exe".as_ptr(), buffer.as_mut_ptr().cast(), buffer.len()) };
    let path = &buffer[..usize::try_from(len).unwrap_or(0)];
    let kept = &path[path.len().saturating_sub(PATH - 1)..];
    program[..kept.len()].copy_from_slice(kept);
    kept.len()
}

/// Maps memory: of a file, or zero and private.
pub fn map(file: Option<&File>, size: usize) -> Option<*mut c_void> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let (flags, descriptor) = match file {
        Some(file) => (libc::MAP_SHARED, file.0),
        None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
    };
    // SAFETY: a new mapping disturbs nobody.
    let address = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, descriptor, 0) };
    (address != libc::MAP_FAILED).then_some(address)
}

/// A path in a folder, ended by 0.
struct Path([u8; 576], usize);

impl Path {
    fn new(folder: &Folder) -> Self {
        let mut path = Path([0; 576], 0);
        path.push(folder.split(|byte| *byte == 0).next().unwrap_or_default());
        path.push(b"/");
        path
    }

    /// What does not fit is left out; the parts that are pushed all do.
    fn push(&mut self, part: &[u8]) {
        let room = self.0.len() - 1 - self.1;
        let part = &part[..part.len().min(room)];
        self.0[self.1..self.1 + part.len()].copy_from_slice(part);
        self.1 += part.len();
    }

    fn push_number(&mut self, mut number: u64) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        loop {
            at -= 1;
            digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        self.push(&digits[at..]);
    }

    fn as_ptr(&self) -> *const c_char {
        self.0.as_ptr().cast()
    }
}

/// An open file.
pub struct File(c_int);

impl File {
    fn opened(descriptor: c_int) -> Option<File> {
        (descriptor >= 0).then_some(File(descriptor))
    }

    /// A new file with the process's number as its name. One that is there already is of a program that this process
    /// ran before; it gets another name.
    fn made(folder: &Folder) -> Option<File> {
        let pid = u64::from(getpid());
        let mut path = Path::new(folder);
        path.push_number(pid);
        let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC;
        // SAFETY: the paths end with 0.
        unsafe {
            let file = File::opened(kernel::open(path.as_ptr(), flags, 0o600));
            if file.is_some() {
                return file;
            }
            let mut earlier = Path::new(folder);
            earlier.push_number(pid);
            earlier.push(b".");
            earlier.push_number(kernel::now_ns());
            libc::rename(path.as_ptr(), earlier.as_ptr());
            File::opened(kernel::open(path.as_ptr(), flags, 0o600))
        }
    }

    fn size(&self) -> Option<usize> {
        // SAFETY: zero is a valid value of the structure, which the call fills in.
        unsafe {
            let mut stat: libc::stat = std::mem::zeroed();
            (libc::fstat(self.0, &raw mut stat) == 0).then_some(stat.st_size as usize)
        }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // SAFETY: the descriptor is ours.
        unsafe { kernel::close(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_put_together() {
        let mut folder = [0; 512];
        folder[..6].copy_from_slice(b"/a/b/c");
        let mut path = Path::new(&folder);
        path.push_number(0);
        path.push(b".");
        path.push_number(u64::MAX);
        // SAFETY: a path ends with 0.
        let text = unsafe { CStr::from_ptr(path.as_ptr()) };
        assert_eq!(text.to_str(), Ok("/a/b/c/0.18446744073709551615"));
    }
}
