//! Kernel objects of the always-in-the-kernel locks: event counters, pipes, System V semaphores, priority-inheriting
//! futexes.
//!
//! Every function is one system call (timed ones may repeat it) and says in its error which call failed.

use super::{errno, timespec};
use crate::sys::atomic::AtomicU32;
use crate::sys::{SysError, Taken, now_ns};

fn failed(call: &'static str) -> SysError {
    SysError::new(call, errno())
}

/// An event counter that starts at 1: free. With `semaphore`, reads take one instead of all.
pub(crate) fn event_new(semaphore: bool) -> Result<u64, SysError> {
    let flags = libc::EFD_CLOEXEC | if semaphore { libc::EFD_SEMAPHORE } else { 0 };
    // SAFETY: eventfd takes two integers and no pointer.
    let fd = unsafe { libc::eventfd(1, flags) };
    u64::try_from(fd).map_err(|_| failed("eventfd"))
}

/// Waits until the event is set, and resets it (or takes one of the semaphore).
pub(crate) fn event_take(fd: u64) -> Result<(), SysError> {
    read_exact(fd, &mut [0; 8])
}

/// Sets the event, or adds one to the semaphore.
pub(crate) fn event_give(fd: u64) -> Result<(), SysError> {
    write_exact(fd, &1_u64.to_ne_bytes())
}

/// Takes the event if it is set.
pub(crate) fn event_try(fd: u64) -> Taken {
    read_at_once(fd, &mut [0; 8])
}

/// A pipe with one byte in it: free. The read end is in the low half, the write end in the high half.
pub(crate) fn pipe_new() -> Result<u64, SysError> {
    let mut ends = [0; 2];
    // SAFETY: pipe2 writes two descriptors into the array.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return Err(failed("pipe2"));
    }
    let pipe = ends[0] as u64 | (ends[1] as u64) << 32;
    pipe_give(pipe).inspect_err(|_| pipe_free(pipe))?;
    Ok(pipe)
}

/// Waits for the byte and takes it.
pub(crate) fn pipe_take(pipe: u64) -> Result<(), SysError> {
    read_exact(read_end(pipe), &mut [0; 1])
}

/// Puts the byte back.
pub(crate) fn pipe_give(pipe: u64) -> Result<(), SysError> {
    write_exact(pipe >> 32, &[1])
}

/// Takes the byte if it is there.
pub(crate) fn pipe_try(pipe: u64) -> Taken {
    read_at_once(read_end(pipe), &mut [0; 1])
}

/// Closes both ends.
pub(crate) fn pipe_free(pipe: u64) {
    close(read_end(pipe));
    close(pipe >> 32);
}

/// The descriptor to poll for a pipe.
pub(crate) fn read_end(pipe: u64) -> u64 {
    pipe & u64::from(u32::MAX)
}

/// Sleeps until `fd` can be read or the deadline has passed.
pub(crate) fn await_readable(fd: u64, deadline: u64) -> Result<(), SysError> {
    let mut poll = libc::pollfd { fd: fd as i32, events: libc::POLLIN, revents: 0 };
    let left = timespec(deadline.saturating_sub(now_ns()));
    // SAFETY: ppoll reads and writes one pollfd, reads the timespec, and takes no signal mask.
    if unsafe { libc::ppoll(&mut poll, 1, &left, core::ptr::null()) } < 0 && errno() != libc::EINTR {
        return Err(failed("ppoll"));
    }
    Ok(())
}

/// Closes an event's descriptor.
pub(crate) fn close(fd: u64) {
    // SAFETY: the caller owns the descriptor and does not use it again.
    unsafe { libc::close(fd as i32) };
}

fn read_exact(fd: u64, bytes: &mut [u8]) -> Result<(), SysError> {
    loop {
        // SAFETY: read writes at most `bytes.len()` bytes into the slice.
        let n = unsafe { libc::read(fd as i32, bytes.as_mut_ptr().cast(), bytes.len()) };
        if usize::try_from(n) == Ok(bytes.len()) {
            return Ok(());
        }
        if n >= 0 || errno() != libc::EINTR {
            return Err(failed("read"));
        }
    }
}

fn write_exact(fd: u64, bytes: &[u8]) -> Result<(), SysError> {
    loop {
        // SAFETY: write reads at most `bytes.len()` bytes from the slice.
        let n = unsafe { libc::write(fd as i32, bytes.as_ptr().cast(), bytes.len()) };
        if usize::try_from(n) == Ok(bytes.len()) {
            return Ok(());
        }
        if n >= 0 || errno() != libc::EINTR {
            return Err(failed("write"));
        }
    }
}

/// A read that does not block although the descriptor may. Kernels before 5.8 cannot do that for these objects: there
/// it reports "not taken".
fn read_at_once(fd: u64, bytes: &mut [u8]) -> Taken {
    let part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    // SAFETY: preadv2 reads one iovec, which describes the slice; offset -1 means the descriptor's own position.
    let n = unsafe { libc::preadv2(fd as i32, &part, 1, -1, libc::RWF_NOWAIT) };
    if usize::try_from(n) == Ok(bytes.len()) { Taken::Yes } else { Taken::No }
}

/// A System V semaphore set of one, free, that the kernel gives back when its holder's process dies.
pub(crate) fn sem_new() -> Result<u64, SysError> {
    // SAFETY: semget takes three integers.
    let id = unsafe { libc::semget(libc::IPC_PRIVATE, 1, 0o600 | libc::IPC_CREAT) };
    let set = u64::try_from(id).map_err(|_| failed("semget"))?;
    // SAFETY: SETVAL takes an integer as its fourth argument.
    if unsafe { libc::semctl(id, 0, libc::SETVAL, 1 as libc::c_int) } != 0 {
        let error = failed("semctl");
        sem_free(set);
        return Err(error);
    }
    Ok(set)
}

/// Waits for the semaphore and takes it, until the deadline if there is one.
pub(crate) fn sem_take(set: u64, deadline: Option<u64>) -> Result<Taken, SysError> {
    loop {
        match sem_operate(set, -1, 0, deadline) {
            Ok(()) => return Ok(Taken::Yes),
            Err(libc::EINTR) => {}
            Err(libc::EAGAIN) if deadline.is_some() => return Ok(Taken::No),
            Err(errno) => return Err(SysError::new("semtimedop", errno)),
        }
    }
}

/// Takes the semaphore if it is free.
pub(crate) fn sem_try(set: u64) -> Taken {
    if sem_operate(set, -1, libc::IPC_NOWAIT, None).is_ok() { Taken::Yes } else { Taken::No }
}

/// Gives the semaphore back.
pub(crate) fn sem_give(set: u64) -> Result<(), SysError> {
    loop {
        match sem_operate(set, 1, 0, None) {
            Ok(()) => return Ok(()),
            Err(libc::EINTR) => {}
            Err(errno) => return Err(SysError::new("semop", errno)),
        }
    }
}

/// True if the semaphore is taken.
pub(crate) fn sem_held(set: u64) -> bool {
    // SAFETY: GETVAL takes no fourth argument.
    unsafe { libc::semctl(set as i32, 0, libc::GETVAL) == 0 }
}

/// Removes the set; its waiters would fail.
pub(crate) fn sem_free(set: u64) {
    // SAFETY: IPC_RMID takes no fourth argument; the caller owns the set.
    unsafe { libc::semctl(set as i32, 0, libc::IPC_RMID) };
}

fn sem_operate(set: u64, delta: i16, flags: i32, deadline: Option<u64>) -> Result<(), i32> {
    let mut operation = libc::sembuf { sem_num: 0, sem_op: delta, sem_flg: (flags | libc::SEM_UNDO) as libc::c_short };
    let left = deadline.map(|deadline| timespec(deadline.saturating_sub(now_ns())));
    let left = left.as_ref().map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: semtimedop reads one sembuf and a timespec that is null or lives until the end of this function. It is
    // called by number because not every libc exports it.
    let rc = unsafe { libc::syscall(libc::SYS_semtimedop, set as i32, &raw mut operation, 1_usize, left) };
    if rc == 0 { Ok(()) } else { Err(errno()) }
}

/// The process, to tell a forked child from the maker of an object.
pub(crate) fn process_id() -> u32 {
    std::process::id()
}

/// Takes a priority-inheriting futex in the kernel, until the deadline if there is one.
pub(crate) fn pi_take(word: &AtomicU32, deadline: Option<u64>) -> Result<Taken, SysError> {
    loop {
        let (operation, timeout) = pi_timeout(deadline);
        match futex_pi(word, operation, timeout.as_ref()) {
            Ok(()) => return Ok(Taken::Yes),
            Err(libc::ETIMEDOUT) => return Ok(Taken::No),
            // A signal; or the owner is exiting and the kernel asks to try again.
            Err(libc::EINTR | libc::EAGAIN) => {}
            Err(errno) => return Err(SysError::new("futex(FUTEX_LOCK_PI)", errno)),
        }
    }
}

/// FUTEX_LOCK_PI measures by the wall clock; FUTEX_LOCK_PI2 (Linux 5.14) by ours, so only timed waits need it.
fn pi_timeout(deadline: Option<u64>) -> (i32, Option<libc::timespec>) {
    const FUTEX_LOCK_PI2: i32 = 13;
    match deadline {
        None => (libc::FUTEX_LOCK_PI, None),
        Some(deadline) => (FUTEX_LOCK_PI2, Some(timespec(deadline))),
    }
}

/// Takes a priority-inheriting futex in the kernel if it is free.
pub(crate) fn pi_try(word: &AtomicU32) -> Result<Taken, SysError> {
    match futex_pi(word, libc::FUTEX_TRYLOCK_PI, None) {
        Ok(()) => Ok(Taken::Yes),
        Err(libc::ENOSYS) => Err(SysError::new("futex(FUTEX_TRYLOCK_PI)", libc::ENOSYS)),
        // Held by another (EAGAIN), or by the caller itself (EDEADLK).
        Err(_) => Ok(Taken::No),
    }
}

/// Releases a priority-inheriting futex in the kernel, which hands it to its highest waiter.
pub(crate) fn pi_give(word: &AtomicU32) -> Result<(), SysError> {
    loop {
        match futex_pi(word, libc::FUTEX_UNLOCK_PI, None) {
            Ok(()) => return Ok(()),
            Err(libc::EINTR | libc::EAGAIN) => {}
            Err(errno) => return Err(SysError::new("futex(FUTEX_UNLOCK_PI)", errno)),
        }
    }
}

/// True if the error says that the kernel has no such call.
pub(crate) fn is_missing(error: &SysError) -> bool {
    error.errno() == libc::ENOSYS
}

fn futex_pi(word: &AtomicU32, operation: i32, timeout: Option<&libc::timespec>) -> Result<(), i32> {
    let timeout = timeout.map_or(core::ptr::null(), core::ptr::from_ref);
    // SAFETY: the PI operations read and write an aligned u32 that the reference keeps alive and that is an atomic, and
    // read a timespec that is null or alive; the other arguments are unused.
    let rc = unsafe {
        libc::syscall(
            libc::SYS_futex,
            core::ptr::from_ref(word).cast::<u32>(),
            operation | libc::FUTEX_PRIVATE_FLAG,
            0,
            timeout,
            core::ptr::null::<u32>(),
            0,
        )
    };
    if rc == 0 { Ok(()) } else { Err(errno()) }
}

/// True if `fd` could be read now.
pub(crate) fn is_readable(fd: u64) -> bool {
    let mut poll = libc::pollfd { fd: fd as i32, events: libc::POLLIN, revents: 0 };
    // SAFETY: poll reads and writes one pollfd; timeout 0 never sleeps.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}
