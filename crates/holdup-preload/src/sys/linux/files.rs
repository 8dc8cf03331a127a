//! The files that are shared with the outside: the folder, the settings, the figures. No call here is a cancellation
//! point, for the calls of a program that lead here are none.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

use holdup_control::{
    self as control, COUNT_FILE, Figures, MAGIC, PATH, PROCESSES, SETTINGS_FILE, STATE_MEMORY, STATE_SERVES,
    STATE_UNCOUNTED, Settings, VERSION,
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
    let file = File::there(folder, SETTINGS_FILE, libc::O_RDONLY)?;
    let size = size_of::<Settings>();
    if file.size()? < size {
        return None;
    }
    let address = map_with(Some(&file), size, libc::PROT_READ)?;
    // SAFETY: the file is as large as the type, all of whose values are valid, and stays mapped.
    let settings = unsafe { &*address.cast::<Settings>() };
    let fits = settings.magic == MAGIC && settings.version == VERSION && settings.bytes as usize == size;
    fits.then_some(settings)
}

/// How many processes were served before this one, which is counted.
fn count_process(folder: &Folder) -> Option<u32> {
    let file = File::there(folder, COUNT_FILE, libc::O_RDWR)?;
    let size = size_of::<AtomicU32>();
    if file.size()? < size {
        return None;
    }
    let address = map(Some(&file), size)?;
    // SAFETY: the file is as large as the word; nobody uses the mapping after it is given back.
    unsafe {
        let before = (*address.cast::<AtomicU32>()).fetch_add(1, Ordering::Relaxed);
        libc::munmap(address, size);
        Some(before)
    }
}

/// Makes the file of this process, or memory in its place if there are too many or it cannot be so large. One that
/// serves nothing gets only the beginning.
pub fn make_figures(folder: &Folder, settings: &Settings, state: u32) -> Option<*mut Figures> {
    if state != STATE_SERVES {
        return fill_in(settings, state, Some(&File::made(folder)?), HEAD);
    }
    if count_process(folder)? >= PROCESSES {
        return fill_in(settings, state, None, size_of::<Figures>());
    }
    let file = File::made(folder)?;
    if !has_room() {
        fill_in(settings, STATE_MEMORY, Some(&file), HEAD);
        return None;
    }
    if let Some(figures) = fill_in(settings, state, Some(&file), size_of::<Figures>()) {
        return Some(figures);
    }
    let figures = fill_in(settings, STATE_UNCOUNTED, None, size_of::<Figures>());
    let left = if figures.is_some() { STATE_UNCOUNTED } else { STATE_MEMORY };
    fill_in(settings, left, Some(&file), HEAD);
    figures
}

/// Whether the program can spare the addresses: one that has few is to have them all for itself.
fn has_room() -> bool {
    const FIGURES_IN_ALL: libc::rlim_t = 32;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is there to be written.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    known && limit.rlim_cur / FIGURES_IN_ALL >= size_of::<Figures>() as libc::rlim_t
}

/// Bytes of a file without slots, modules and locks.
const HEAD: usize = offset_of!(Figures, threads);

/// Writes the beginning of the figures into so much of a file, or of memory.
fn fill_in(settings: &Settings, state: u32, file: Option<&File>, size: usize) -> Option<*mut Figures> {
    if let Some(file) = file {
        file.has_size(size).then_some(())?;
    }
    let figures = map(file, size)?.cast::<Figures>();
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
    map_with(file, size, libc::PROT_READ | libc::PROT_WRITE)
}

fn map_with(file: Option<&File>, size: usize, protection: c_int) -> Option<*mut c_void> {
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

    /// A file of the folder that is there.
    fn there(folder: &Folder, name: &str, flags: c_int) -> Option<File> {
        let mut path = Path::new(folder);
        path.push(name.as_bytes());
        // SAFETY: the path ends with 0.
        File::opened(unsafe { kernel::open(path.as_ptr(), flags | libc::O_CLOEXEC, 0) })
    }

    /// A new file with the process's number as its name. One that is there already is of a program that this process
    /// ran before; then this one gets another name.
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
            let mut another = Path::new(folder);
            another.push_number(pid);
            another.push(b".");
            another.push_number(kernel::now_ns());
            // It may be of another user, as whom the process ran then; so the new name goes to the new file.
            File::opened(kernel::open(another.as_ptr(), flags, 0o600))
        }
    }

    /// Gives it a size. A program may limit the size of its files, and is killed where it asks for more: so the limit
    /// is lifted for this one, or, where that is not allowed, nothing is asked for.
    fn has_size(&self, size: usize) -> bool {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the structure is there to be read and written; the descriptor is open.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) != 0 {
                return false;
            }
            let needed = size as libc::rlim_t;
            let lifted = libc::rlimit { rlim_cur: limit.rlim_cur.max(needed), ..limit };
            let must_lift = limit.rlim_cur < needed;
            if must_lift && (limit.rlim_max < needed || libc::setrlimit(libc::RLIMIT_FSIZE, &raw const lifted) != 0) {
                return false;
            }
            let done = libc::ftruncate(self.0, size as i64) == 0;
            if must_lift {
                libc::setrlimit(libc::RLIMIT_FSIZE, &raw const limit);
            }
            done
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
