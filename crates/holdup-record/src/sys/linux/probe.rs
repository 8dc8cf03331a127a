//! Learns tracepoint numbers by trying: opens candidates on itself, makes system calls, and looks who saw them.
//!
//! The number of a tracepoint stands in tracefs, which only root can read; using the tracepoints of system calls needs
//! no right at all. So a probe opens every number that the kernel lets it open (at perf_event_paranoid 2: just those of
//! system calls), all writing into one ring, makes each wanted call once in a form that does nothing, and reads the
//! records: each names its own tracepoint (`common_type`) and the call (`nr`), and entering comes before leaving.
//!
//! Opening takes microseconds, closing tens of milliseconds each (the kernel waits until no CPU can still be in the
//! tracepoint, and lets nobody open one meanwhile: not even a thread that is born with inherited events). So the probe
//! runs in a grandchild that nobody waits for: it answers through a pipe, keeps all open until its [`Held`] is dropped
//! or its parent ends, and closes while it exits. That also makes closing quick for the recorder: it is never the last
//! who closes.
//!
//! The grandchild holds nothing else of its parents open. It is forked from a process that may have threads: until it
//! exits, it only makes system calls, and neither allocates nor locks.

use std::io::{self, Read as _};
use std::mem::{self, MaybeUninit};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};
use std::{fs::File, ptr, slice};

use libc::{c_int, c_long};
use perf_event_open_sys as perf;

use perf::bindings as b;

/// A system call that can be made so that it does nothing: its name in tracefs, its number, its arguments.
pub struct Call {
    /// As in `sys_enter_NAME`.
    pub name: &'static str,
    /// The number of this architecture.
    pub nr: c_long,
    args: [c_long; 6],
}

/// No file.
const BAD_FD: c_long = -1;
/// No address: the kernel answers EFAULT before it does anything.
const BAD_ADDR: c_long = 1;
const BAD_FLAGS: c_long = 0xffff_ffff;
/// `futex` wakes on a word of its own, that nobody waits on: the address is put in by [`make`].
const FUTEX_WAKE_PRIVATE: c_long = 129;

const fn call(name: &'static str, nr: c_long, args: [c_long; 6]) -> Call {
    Call { name, nr, args }
}

/// All calls whose tracepoints can be found.
pub const CALLS: &[Call] = &[
    call("futex", libc::SYS_futex, [0, FUTEX_WAKE_PRIVATE, 0, 0, 0, 0]),
    call("futex_waitv", 449, [0, 0, 0, 0, 0, 0]),
    call("futex_wake", 454, [0, 0, 0, BAD_FLAGS, 0, 0]),
    call("futex_wait", 455, [0, 0, 0, BAD_FLAGS, 0, 0]),
    call("sched_yield", libc::SYS_sched_yield, [0; 6]),
    call("nanosleep", libc::SYS_nanosleep, [BAD_ADDR, 0, 0, 0, 0, 0]),
    call("clock_nanosleep", libc::SYS_clock_nanosleep, [1, 0, BAD_ADDR, 0, 0, 0]),
    call("epoll_pwait", libc::SYS_epoll_pwait, [BAD_FD, BAD_ADDR, 0, 0, 0, 0]),
    call("epoll_pwait2", 441, [BAD_FD, BAD_ADDR, 0, 0, 0, 0]),
    call("ppoll", libc::SYS_ppoll, [0, 0, BAD_ADDR, 0, 0, 0]),
    call("pselect6", libc::SYS_pselect6, [0, 0, 0, 0, BAD_ADDR, 0]),
    call("fsync", libc::SYS_fsync, [BAD_FD, 0, 0, 0, 0, 0]),
    call("fdatasync", libc::SYS_fdatasync, [BAD_FD, 0, 0, 0, 0, 0]),
    call("msync", libc::SYS_msync, [1, 0, 0, 0, 0, 0]),
    call("wait4", libc::SYS_wait4, [-1, 0, libc::WNOHANG as c_long, 0, 0, 0]),
    call("waitid", libc::SYS_waitid, [0, 0, 0, 0, 0, 0]),
    call("accept", libc::SYS_accept, [BAD_FD, 0, 0, 0, 0, 0]),
    call("accept4", libc::SYS_accept4, [BAD_FD, 0, 0, 0, 0, 0]),
    call("flock", libc::SYS_flock, [BAD_FD, 0, 0, 0, 0, 0]),
    call("fcntl", libc::SYS_fcntl, [BAD_FD, 0, 0, 0, 0, 0]),
    call("semtimedop", libc::SYS_semtimedop, [-1, BAD_ADDR, 0, 0, 0, 0]),
    call("rt_sigtimedwait", libc::SYS_rt_sigtimedwait, [0, 0, 0, 1, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    call("epoll_wait", libc::SYS_epoll_wait, [BAD_FD, BAD_ADDR, 0, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    call("poll", libc::SYS_poll, [0, 0, 0, 0, 0, 0]),
    #[cfg(target_arch = "x86_64")]
    call("select", libc::SYS_select, [0, 0, 0, 0, BAD_ADDR, 0]),
    #[cfg(target_arch = "x86_64")]
    call("pause", libc::SYS_pause, [0; 6]),
];

/// In place of a number: the tracepoints that all system calls share (`raw_syscalls` in tracefs).
pub const ANY: u32 = u32::MAX;

/// A tracepoint of a system call, found by trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pair {
    /// The number of the system call, or [`ANY`].
    pub nr: u32,
    /// The tracepoint of entering it.
    pub enter: u32,
    /// The tracepoint of leaving it.
    pub exit: u32,
}

/// The two tracepoints of the scheduler, found by trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scheduler {
    /// `sched_switch`.
    pub switch: Option<u32>,
    /// `sched_waking`.
    pub waking: Option<u32>,
}

/// Which of `candidates` are the tracepoints of [`CALLS`].
///
/// # Errors
/// The kernel lets this user open nothing, or refuses a process.
pub fn syscalls(candidates: &[u32]) -> io::Result<(Vec<Pair>, Held)> {
    let mut found: Vec<Pair> = Vec::new();
    let mut held = Held::default();
    let mut rest = candidates;
    while !rest.is_empty() {
        let (words, alive) = answer_of_grandchild(|room| probe_syscalls(rest, room))?;
        held.join(alive);
        let (done, pairs) = words.split_first().ok_or(io::ErrorKind::UnexpectedEof)?;
        for pair in pairs.chunks_exact(3) {
            let pair = Pair { nr: pair[0], enter: pair[1], exit: pair[2] };
            if !found.iter().any(|known| known.nr == pair.nr) {
                found.push(pair);
            }
        }
        // A limit on open files ended this batch early. The next begins a little before: the two of a pair are
        // neighbours.
        let done = *done as usize;
        if done >= rest.len() || found.len() == PAIRS || done <= OVERLAP {
            break;
        }
        rest = &rest[done - OVERLAP..];
    }
    Ok((found, held))
}

/// Which of `candidates` are the tracepoints of the scheduler; needs CAP_PERFMON, or perf_event_paranoid -1.
///
/// # Errors
/// As [`syscalls`].
pub fn scheduler(candidates: &[u32]) -> io::Result<(Scheduler, Held)> {
    let (words, held) = answer_of_grandchild(|room| probe_scheduler(candidates, room))?;
    let id = |at: usize| words.get(at).copied().filter(|&id| id != 0);
    Ok((Scheduler { switch: id(0), waking: id(1) }, held))
}

/// Opens these tracepoints in a process of their own and keeps them open; those that cannot be opened are passed over.
///
/// # Errors
/// As [`syscalls`].
pub fn hold(ids: &[u32]) -> io::Result<Held> {
    let (_, held) = answer_of_grandchild(|_| {
        let ring = Ring::open(true)?;
        for &id in ids {
            // What cannot be opened is not kept open, and closes as slowly as ever.
            let _ = ring.add(id, true).or_else(|_| ring.add(id, false));
        }
        Ok(0)
    })?;
    Ok(held)
}

/// Keeps the tracepoints of probes open; see the module.
#[derive(Debug, Default)]
pub struct Held(Vec<OwnedFd>);

impl Held {
    /// Lets go of both together.
    pub fn join(&mut self, other: Held) {
        self.0.extend(other.0);
    }
}

/// Pairs that there are to find: those of all calls, and the one that they share.
const PAIRS: usize = CALLS.len() + 1;
/// Candidates that two batches share.
const OVERLAP: usize = 2;
/// Candidates that are opened between two trials: a trial may show that no more are needed.
const BATCH: usize = 512;
/// Data pages of the ring, a power of two: an unprivileged user has about 500 KiB for all rings.
const RING_PAGES: usize = 8;
/// Numbers that do not exist, in a row, after which no more are looked for.
const GAP: u32 = 300;
/// Words of an answer.
const ANSWER: usize = 256;

/// Runs `work` in a grandchild and gives the words that it leaves in its buffer; `work` returns how many, or an error
/// number.
fn answer_of_grandchild(work: impl Fn(&mut [u32]) -> Result<usize, i32>) -> io::Result<(Vec<u32>, Held)> {
    let mut room = vec![0_u32; 1 + ANSWER];
    let (reader, writer) = pipe()?;
    let (watch, alive) = pipe()?;
    // SAFETY: fork itself has no precondition; the child only calls functions that are safe after a fork (see the
    // module).
    let child = unsafe { libc::fork() };
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    if child == 0 {
        // SAFETY: as above.
        if unsafe { libc::fork() } == 0 {
            let (watch, writer) = detach(watch.as_raw_fd(), writer.as_raw_fd());
            let (status, len) = match work(&mut room[1..]) {
                Ok(len) => (0, len),
                Err(errno) => (errno as u32, 0),
            };
            room[0] = status;
            send(writer, &room[..1 + len.min(ANSWER)]);
            wait_for_end(watch);
        }
        // SAFETY: ends the process at once, running nothing of the parent's.
        unsafe { libc::_exit(0) }
    }
    drop(writer);
    wait_for(child);
    let mut bytes = Vec::with_capacity(4 * (1 + ANSWER));
    File::from(reader).read_to_end(&mut bytes)?;
    let mut words = bytes.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    match words.next() {
        Some(0) => Ok((words.collect(), Held(vec![alive]))),
        Some(errno) => Err(io::Error::from_raw_os_error(errno as i32)),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: `fds` has room for two descriptors.
    if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: fresh descriptors that nobody else owns.
    Ok(unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) })
}

fn wait_for(child: libc::pid_t) {
    // SAFETY: a null status is allowed; only this child is waited for.
    while unsafe { libc::waitpid(child, ptr::null_mut(), 0) } < 0
        && io::Error::last_os_error().kind() == io::ErrorKind::Interrupted
    {}
}

/// Lets go of everything of the parents but these two, so that a lingering grandchild holds up no pipe and no folder.
/// Gives their new numbers.
fn detach(watch: RawFd, writer: RawFd) -> (RawFd, RawFd) {
    // Above the numbers that they are moved to, so that neither overwrites the other.
    const APART: c_int = 10;
    // SAFETY: system calls on numbers; descriptors of the parent are closed in this process only, and not used in it
    // again.
    unsafe {
        libc::setsid();
        libc::chdir(c"/".as_ptr());
        let (watch, writer) = (libc::fcntl(watch, libc::F_DUPFD, APART), libc::fcntl(writer, libc::F_DUPFD, APART));
        libc::dup2(watch, 0);
        libc::dup2(writer, 1);
        if libc::syscall(libc::SYS_close_range, 2, u32::MAX, 0) != 0 {
            (2..1024).for_each(|fd| {
                libc::close(fd);
            });
        }
        let mut limit = MaybeUninit::<libc::rlimit>::zeroed().assume_init();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &limit);
        }
    }
    (0, 1)
}

/// Returns when nobody has the other end any more.
fn wait_for_end(watch: RawFd) {
    let mut byte = 0_u8;
    // SAFETY: one byte of room, which lives through the call.
    while unsafe { libc::read(watch, (&raw mut byte).cast(), 1) } < 0 && errno() == libc::EINTR {}
}

fn send(fd: RawFd, words: &[u32]) {
    // SAFETY: the words live through the call; a pipe takes these few hundred bytes at once.
    unsafe { libc::write(fd, words.as_ptr().cast(), mem::size_of_val(words)) };
    // SAFETY: the parent waits for the end of the pipe; nothing more is written to it.
    unsafe { libc::close(fd) };
}

/// In the grandchild: fills `room` with how many candidates were tried, and three words for each pair found.
fn probe_syscalls(candidates: &[u32], room: &mut [u32]) -> Result<usize, i32> {
    if paranoid() <= 2 {
        // With capabilities, every tracepoint of the kernel would open, and each takes its time to close.
        drop_capabilities();
    }
    let ring = Ring::open(true)?;
    let mut pairs = [Pair::default(); PAIRS];
    let (mut tried, mut found, mut unknown) = (0, 0, 0);
    let mut full = false;
    while tried < candidates.len() && unknown < GAP && found < PAIRS && !full {
        let mut opened = 0;
        while opened < BATCH && tried < candidates.len() && unknown < GAP {
            match ring.add(candidates[tried], true) {
                Ok(_) => (opened, unknown) = (opened + 1, 0),
                Err(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => {
                    full = true;
                    break;
                }
                Err(libc::EINVAL | libc::ENOENT) => unknown += 1,
                Err(_) => unknown = 0,
            }
            tried += 1;
        }
        found = ring.trial(&mut pairs);
    }
    room[0] = if unknown >= GAP { u32::MAX } else { tried as u32 };
    for (words, pair) in room[1..].chunks_exact_mut(3).zip(&pairs[..found]) {
        words.copy_from_slice(&[pair.nr, pair.enter, pair.exit]);
    }
    Ok(1 + 3 * found)
}

/// In the grandchild: fills `room` with the number of `sched_switch` and of `sched_waking`, 0 where it was not found.
fn probe_scheduler(candidates: &[u32], room: &mut [u32]) -> Result<usize, i32> {
    let ring = Ring::open(false)?;
    let mut opened = Opened::default();
    for &id in candidates.iter().take(opened.events.len()) {
        // What does not open is not allowed or not there; the trial shows what is missing.
        if let Ok(fd) = ring.add(id, false) {
            opened.push(id, fd);
        }
    }
    let found = ring.scheduler_trial(&mut opened);
    room[..2].copy_from_slice(&[found.switch.unwrap_or(0), found.waking.unwrap_or(0)]);
    Ok(2)
}

/// Makes the call. `pause` ends by a timer that goes on until it is heard.
fn make(call: &Call) {
    let word = 0_u32;
    let mut args = call.args;
    if call.name == "futex" {
        args[0] = &raw const word as c_long;
    }
    if call.name == "pause" {
        return pause(call.nr);
    }
    // SAFETY: the arguments are of a form that each call refuses or that does nothing; `word` lives through the call.
    unsafe { libc::syscall(call.nr, args[0], args[1], args[2], args[3], args[4], args[5]) };
}

extern "C" fn hear(_signal: c_int) {}

fn pause(nr: c_long) {
    let micros = |us| libc::timeval { tv_sec: 0, tv_usec: us };
    let again = libc::itimerval { it_interval: micros(500), it_value: micros(200) };
    let never = libc::itimerval { it_interval: micros(0), it_value: micros(0) };
    // SAFETY: the handler does nothing; all structures live through their calls; this process has one thread.
    unsafe {
        let mut alarm = MaybeUninit::<libc::sigset_t>::zeroed().assume_init();
        libc::sigemptyset(&mut alarm);
        libc::sigaddset(&mut alarm, libc::SIGALRM);
        libc::signal(libc::SIGALRM, hear as extern "C" fn(c_int) as libc::sighandler_t);
        libc::sigprocmask(libc::SIG_UNBLOCK, &alarm, ptr::null_mut());
        libc::setitimer(libc::ITIMER_REAL, &again, ptr::null_mut());
        libc::syscall(nr);
        libc::setitimer(libc::ITIMER_REAL, &never, ptr::null_mut());
    }
}

/// The kernel's setting; 2, its default, where it cannot be read.
fn paranoid() -> i32 {
    let mut text = [0_u8; 16];
    // SAFETY: a read-only file is opened, read into a buffer of the given length, and closed.
    let len = unsafe {
        let fd = libc::open(c"/proc/sys/kernel/perf_event_paranoid".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let len = libc::read(fd, text.as_mut_ptr().cast(), text.len());
        libc::close(fd);
        len
    };
    let text = &text[..usize::try_from(len).unwrap_or(0)];
    std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(2)
}

fn drop_capabilities() {
    // The header (version 3, this process) and two sets of three words, all empty.
    let header = [0x2008_0522_u32, 0];
    let nothing = [0_u32; 6];
    // SAFETY: both structures are as large as version 3 says and are only read.
    unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), nothing.as_ptr()) };
}

/// A ring of this thread's events.
struct Ring {
    leader: c_int,
    /// Whether the events are one group, which the kernel switches at once, and not each against all others. But when
    /// one member gives too many records, the kernel stops all of them.
    grouped: bool,
    base: *mut u8,
    page: usize,
}

impl Ring {
    fn open(grouped: bool) -> Result<Self, i32> {
        let mut attr = attr_of(b::PERF_TYPE_SOFTWARE, u64::from(b::PERF_COUNT_SW_DUMMY), true);
        attr.set_disabled(1);
        let leader = open(&mut attr, -1)?;
        // SAFETY: asks for a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as usize;
        let (len, rights) = (page * (1 + RING_PAGES), libc::PROT_READ | libc::PROT_WRITE);
        // SAFETY: a new mapping, placed by the kernel, of a descriptor that stays open until the process ends.
        let base = unsafe { libc::mmap(ptr::null_mut(), len, rights, libc::MAP_SHARED, leader, 0) };
        if base == libc::MAP_FAILED {
            // It says so where the user has no memory left to lock, which is no matter of rights.
            return Err(if errno() == libc::EPERM { libc::ENOMEM } else { errno() });
        }
        Ok(Ring { leader, grouped, base: base.cast(), page })
    }

    /// Opens a tracepoint that writes into the ring, while the ring is on. Its descriptor stays open until the process
    /// ends.
    fn add(&self, id: u32, only_user: bool) -> Result<c_int, i32> {
        let mut attr = attr_of(b::PERF_TYPE_TRACEPOINT, u64::from(id), only_user);
        attr.__bindgen_anon_1.sample_period = 1;
        attr.sample_type = u64::from(b::PERF_SAMPLE_RAW);
        attr.set_disabled((!self.grouped).into());
        let fd = open(&mut attr, if self.grouped { self.leader } else { -1 })?;
        // SAFETY: both descriptors are events of this thread.
        if unsafe { perf::ioctls::SET_OUTPUT(fd, self.leader) } < 0 {
            return Err(errno());
        }
        Ok(fd)
    }

    /// Makes all calls and gives the pairs whose both sides were seen.
    fn trial(&self, pairs: &mut [Pair; PAIRS]) -> usize {
        self.switch(true);
        // What sees two different calls sees all.
        let (first, second) = (self.seen(&CALLS[0]), self.seen(&CALLS[1]));
        let mut of_any = first.into_iter().filter(|id| *id != 0 && second.contains(id));
        let any = Pair { nr: ANY, enter: of_any.next().unwrap_or(0), exit: of_any.next().unwrap_or(0) };
        let mut found = 0;
        let mut keep = |pair: Pair| {
            if pair.enter != 0 && pair.exit != 0 {
                pairs[found] = pair;
                found += 1;
            }
        };
        for call in CALLS {
            let mut own = self.seen(call).into_iter().filter(|id| ![0, any.enter, any.exit].contains(id));
            let (enter, exit) = (own.next().unwrap_or(0), own.next().unwrap_or(0));
            keep(Pair { nr: call.nr as u32, enter, exit });
        }
        keep(any);
        self.switch(false);
        found
    }

    /// Makes a call and gives the tracepoints that saw it, in order; 0 in the places that are left over.
    fn seen(&self, call: &Call) -> [u32; 4] {
        self.skip();
        make(call);
        let mut seen = [0; 4];
        let mut count = 0;
        self.each_record(|raw| {
            let (Some(id), Some(nr)) = (id_of(raw), word_at(raw, 8)) else { return };
            if nr == call.nr as u32 && count < seen.len() && !seen.contains(&id) {
                seen[count] = id;
                count += 1;
            }
        });
        seen
    }

    /// Sleeps, and wakes a process that sleeps, under names that no other tracepoint can show by chance.
    fn scheduler_trial(&self, opened: &mut Opened) -> Scheduler {
        let mut found = Scheduler::default();
        for _ in 0..ROUNDS {
            if found.switch.is_none() {
                self.observe(opened, nap, |raw| {
                    // prev_comm, prev_pid, prev_prio, prev_state, next_comm, next_pid, next_prio
                    if found.switch.is_none() && raw.len() >= 64 && raw.get(8..24) == Some(&PROBER[..]) {
                        found.switch = id_of(raw);
                    }
                });
            }
            if found.waking.is_none() {
                self.with_sleeper(|pipe| {
                    self.observe(
                        opened,
                        || ring_bell(pipe),
                        |raw| {
                            // comm, pid, prio, target_cpu; `sched_wakeup` looks alike and comes after.
                            if found.waking.is_none() && raw.len() >= 36 && raw.get(8..24) == Some(&SLEEPER[..]) {
                                found.waking = id_of(raw);
                            }
                        },
                    );
                });
            }
        }
        found
    }

    /// Gives what `work` leaves in the ring, and switches those tracepoints off that fill it: one round less of noise.
    fn observe(&self, opened: &mut Opened, work: impl Fn(), mut sink: impl FnMut(&[u8])) {
        self.skip();
        self.switch(true);
        work();
        self.switch(false);
        self.each_record(|raw| {
            opened.count(raw);
            sink(raw);
        });
        opened.silence();
    }

    /// Runs `work` while a process named [`SLEEPER`] waits for a byte in the pipe.
    fn with_sleeper(&self, work: impl FnOnce(c_int)) {
        let mut pipe = [0; 2];
        // SAFETY: plain system calls on numbers and on memory that lives through them; the child makes nothing but
        // system calls.
        let child = unsafe {
            libc::prctl(libc::PR_SET_NAME, SLEEPER.as_ptr());
            if libc::pipe(pipe.as_mut_ptr()) < 0 {
                return;
            }
            let child = libc::fork();
            if child == 0 {
                let mut byte = 0_u8;
                libc::close(pipe[1]);
                libc::read(pipe[0], (&raw mut byte).cast(), 1);
                libc::_exit(0);
            }
            libc::prctl(libc::PR_SET_NAME, PROBER.as_ptr());
            child
        };
        // Time for the child to fall asleep; where that is not enough, the next round has another.
        nap();
        work(pipe[1]);
        // SAFETY: own descriptors, not used again; the child ends when its pipe does.
        unsafe {
            libc::close(pipe[0]);
            libc::close(pipe[1]);
        }
        wait_for(child);
    }

    fn switch(&self, on: bool) {
        // SAFETY: the leader is an event; the other way switches all events that this thread made. No memory is
        // involved.
        unsafe {
            match (self.grouped, on) {
                (true, true) => perf::ioctls::ENABLE(self.leader, 0),
                (true, false) => perf::ioctls::DISABLE(self.leader, 0),
                (false, true) => libc::prctl(libc::PR_TASK_PERF_EVENTS_ENABLE),
                (false, false) => libc::prctl(libc::PR_TASK_PERF_EVENTS_DISABLE),
            };
        }
    }

    fn page_head(&self) -> &b::perf_event_mmap_page {
        // SAFETY: the first page of the mapping is this structure, for as long as the process lives.
        unsafe { &*self.base.cast::<b::perf_event_mmap_page>() }
    }

    /// Drops what is in the ring.
    fn skip(&self) {
        self.each_record(|_| {});
    }

    /// Gives the raw part of every sample in the ring, in order, and empties it.
    fn each_record(&self, mut sink: impl FnMut(&[u8])) {
        let page = self.page_head();
        // SAFETY: an aligned word that the kernel writes, read once; it is the kernel's side of the ring.
        let head = unsafe { ptr::read_volatile(&raw const page.data_head) };
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        let size = (RING_PAGES * self.page) as u64;
        // SAFETY: the data pages follow the first page and are as many as were mapped.
        let data = unsafe { slice::from_raw_parts(self.base.add(self.page), size as usize) };
        let mut at = page.data_tail;
        let mut record = [0_u8; 1024];
        while at + 8 <= head {
            let byte = |n: u64| data[((at + n) % size) as usize];
            let len = u64::from(u16::from_ne_bytes([byte(6), byte(7)]));
            let kind = u32::from_ne_bytes([byte(0), byte(1), byte(2), byte(3)]);
            if len < 8 {
                break;
            }
            if kind == b::PERF_RECORD_SAMPLE && len as usize <= record.len() {
                (0..len).for_each(|n| record[n as usize] = byte(n));
                sink(raw_of(&record[..len as usize]));
            }
            at += len;
        }
        // SAFETY: the tail is ours to write; only this thread does.
        unsafe { ptr::write_volatile((&raw const page.data_tail).cast_mut(), head) };
    }
}

/// Trials for the scheduler's tracepoints.
const ROUNDS: usize = 8;
/// Records of one tracepoint in one trial from which on it is noise.
const NOISE: u16 = 10;
/// The prober's name, as the kernel keeps it.
const PROBER: [u8; 16] = *b"holdup-prober\0\0\0";
/// The name of the process that it wakes.
const SLEEPER: [u8; 16] = *b"holdup-sleeper\0\0";

/// Tracepoints in the ring, with their descriptors and how often they were seen in a trial.
struct Opened {
    events: [(u32, c_int, u16); 256],
    len: usize,
}

impl Default for Opened {
    fn default() -> Self {
        Opened { events: [(0, 0, 0); 256], len: 0 }
    }
}

impl Opened {
    fn push(&mut self, id: u32, fd: c_int) {
        if let Some(room) = self.events.get_mut(self.len) {
            *room = (id, fd, 0);
            self.len += 1;
        }
    }

    fn count(&mut self, raw: &[u8]) {
        let id = id_of(raw);
        if let Some(event) = self.events[..self.len].iter_mut().find(|event| Some(event.0) == id) {
            event.2 = event.2.saturating_add(1);
        }
    }

    fn silence(&mut self) {
        for (_, fd, seen) in &mut self.events[..self.len] {
            if *seen > NOISE {
                // SAFETY: the descriptor is an event of this process. The ring's switch turns the event on again, but
                // nowhere to write.
                unsafe { perf::ioctls::SET_OUTPUT(*fd, -1) };
            }
            *seen = 0;
        }
    }
}

fn nap() {
    let time = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    // SAFETY: the structure lives through the call.
    unsafe { libc::nanosleep(&time, ptr::null_mut()) };
}

fn ring_bell(pipe: c_int) {
    // SAFETY: one byte that lives through the call.
    unsafe { libc::write(pipe, [0_u8].as_ptr().cast(), 1) };
}

/// The raw part of a sample that has nothing else: its length follows the header.
fn raw_of(record: &[u8]) -> &[u8] {
    let len = word_at(record, 8).unwrap_or(0) as usize;
    record.get(12..12 + len).unwrap_or(&[])
}

fn id_of(raw: &[u8]) -> Option<u32> {
    Some(u32::from(u16::from_ne_bytes([*raw.first()?, *raw.get(1)?])))
}

fn word_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_ne_bytes)
}

fn attr_of(kind: u32, config: u64, only_user: bool) -> b::perf_event_attr {
    let mut attr = b::perf_event_attr { type_: kind, config, ..Default::default() };
    attr.size = size_of::<b::perf_event_attr>() as u32;
    attr.set_exclude_kernel(only_user.into());
    attr.set_exclude_hv(1);
    attr
}

fn open(attr: &mut b::perf_event_attr, group: c_int) -> Result<c_int, i32> {
    // SAFETY: the attribute is as large as it says and lives through the call.
    let fd = unsafe { perf::perf_event_open(attr, 0, -1, group, b::PERF_FLAG_FD_CLOEXEC.into()) };
    if fd < 0 { Err(errno()) } else { Ok(fd) }
}

fn errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}
