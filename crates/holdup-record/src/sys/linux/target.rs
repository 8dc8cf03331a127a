//! The program that is recorded: started and held until its events are on, or found running.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use std::ffi::OsString;

use super::machine::timeval_ns;
use super::snapshot;
use crate::Error;

/// A process that was made and waits for leave to become the command.
#[derive(Debug)]
pub struct Waiting {
    /// The process.
    pub pid: u32,
    go: io::PipeWriter,
    spawn: Receiver<io::Result<Child>>,
    starter: Starter,
    name: String,
}

/// Keeps the thread that started a command. Linux sends a process the signal that it asked for with PR_SET_PDEATHSIG
/// when the thread that started it ends, not when the whole process does.
#[derive(Debug)]
struct Starter {
    /// Dropped to end the thread.
    _stay: Sender<()>,
}

/// Makes a process that waits for [`Waiting::go`] before it becomes the command.
///
/// The standard library starts it (search path, signal masks, error reports), in a thread of its own: `spawn` returns
/// only when the program is executed, which must not happen before the recorder is ready.
pub fn prepare(command: &[OsString], environment: &[(OsString, OsString)], silent: bool) -> Result<Waiting, Error> {
    let (program, arguments) = command.split_first().ok_or_else(|| Error::Command {
        name: String::new(),
        why: io::Error::new(io::ErrorKind::InvalidInput, "no command was given"),
    })?;
    let name = program.to_string_lossy().into_owned();
    let mut command = Command::new(program);
    command.args(arguments).envs(environment.iter().cloned());
    if silent {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }
    let (mut ready, ready_writer) = io::pipe().map_err(call("pipe for the command"))?;
    let (go_reader, go) = io::pipe().map_err(call("pipe for the command"))?;
    hold(&mut command, ready_writer, go_reader, go.as_raw_fd());
    let (started, spawn) = mpsc::channel();
    let (stay, left) = mpsc::channel();
    let start = move || {
        // Whoever asked may have given up.
        let _ = started.send(command.spawn());
        // The pipes' ends that the command holds must not outlive its start.
        drop(command);
        // Nothing is ever sent: this lasts until the other end is dropped.
        let _ = left.recv();
    };
    thread::Builder::new().name("start".into()).spawn(start).map_err(call("thread that starts the command"))?;
    let starter = Starter { _stay: stay };
    let mut pid = [0; 4];
    match ready.read_exact(&mut pid) {
        Ok(()) => Ok(Waiting { pid: u32::from_ne_bytes(pid), go, spawn, starter, name }),
        Err(error) => Err(Error::Command { name, why: spawned(&spawn).err().unwrap_or(error) }),
    }
}

/// Lets the process tell its number and wait before it executes its program.
fn hold(command: &mut Command, ready: io::PipeWriter, go: io::PipeReader, go_writer: i32) {
    let wait = move || {
        // SAFETY: closes the child's own copy of the descriptor, which nothing in the child uses: without that, the
        // child would not notice the death of the recorder, because it would hold the other end of the pipe itself.
        unsafe { libc::close(go_writer) };
        (&ready).write_all(&std::process::id().to_ne_bytes())?;
        (&go).read_exact(&mut [0])
    };
    // SAFETY: the closure runs between fork and exec, where only calls that are safe in a signal handler may be made:
    // it calls close, write, getpid and read and neither allocates nor locks.
    unsafe { command.pre_exec(wait) };
}

fn spawned(spawn: &Receiver<io::Result<Child>>) -> io::Result<Child> {
    spawn.recv().unwrap_or_else(|_| Err(io::Error::other("the thread that starts the command panicked")))
}

fn call(call: &'static str) -> impl FnOnce(io::Error) -> Error {
    move |why| Error::Call { call, why }
}

impl Waiting {
    /// Lets it become the command.
    pub fn go(mut self) -> Result<Process, Error> {
        let sent = self.go.write_all(&[1]);
        let error = |why| Error::Command { name: self.name.clone(), why };
        // Whoever waits for the child does it by its number, with the resources that it used.
        spawned(&self.spawn).map_err(error)?;
        sent.map_err(error)?;
        Process::open(self.pid).map(|process| Process { starter: Some(self.starter), ..process })
    }

    /// Ends it before it became the command.
    pub fn abandon(self) {
        drop(self.go);
        // It fails by design: the process could not execute anything.
        let _ = spawned(&self.spawn);
    }
}

/// A process that runs.
#[derive(Debug)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    descriptor: OwnedFd,
    /// Of a process that the recorder started.
    starter: Option<Starter>,
}

/// How a child ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Its code, or 128 and the number of the signal.
    pub status: i32,
    /// Voluntary switches of it and the children that it waited for.
    pub voluntary: u64,
    /// Involuntary ones.
    pub involuntary: u64,
    /// CPU time in user mode.
    pub user_ns: u64,
    /// CPU time in the kernel.
    pub kernel_ns: u64,
    /// Page faults, those that waited for a device included.
    pub faults: u64,
}

/// Those of these processes that run. Between looking for them and this, some may have ended, which is told; if all
/// have, it is an error.
pub fn open_all(pids: &[u32]) -> Result<(Vec<Process>, Option<String>), Error> {
    let (mut processes, mut ended) = (Vec::new(), Vec::new());
    for &pid in pids {
        match Process::open(pid) {
            Ok(process) => processes.push(process),
            Err(Error::NoProcess(pid)) => ended.push(pid),
            Err(error) => return Err(error),
        }
    }
    if processes.is_empty() {
        return Err(Error::NoProcess(ended.first().copied().unwrap_or(0)));
    }
    let numbers: Vec<String> = ended.iter().map(u32::to_string).collect();
    let told = match ended.len() {
        0 => None,
        1 => Some(format!("process {} ended before the recording began", numbers[0])),
        _ => Some(format!("processes {} ended before the recording began", numbers.join(", "))),
    };
    Ok((processes, told))
}

impl Process {
    /// A process by its number.
    pub fn open(pid: u32) -> Result<Self, Error> {
        // SAFETY: a call without memory.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid as libc::pid_t, 0) };
        if fd < 0 {
            let why = io::Error::last_os_error();
            return Err(match why.raw_os_error() {
                // EINVAL and ENOENT: a number that no process can have, or that of a thread.
                Some(libc::ESRCH | libc::EINVAL | libc::ENOENT) => Error::NoProcess(pid),
                _ => Error::Call { call: "pidfd_open", why },
            });
        }
        // SAFETY: the call just made this descriptor; nobody else owns it.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd as i32) };
        Ok(Process { pid, descriptor, starter: None })
    }

    /// Its number.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Whether the recorder started it.
    pub fn is_child(&self) -> bool {
        self.starter.is_some()
    }

    /// Sends it a signal, if it still runs.
    pub fn send(&self, signal: i32) {
        let none = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: without a siginfo the kernel reads no memory. That it has ended meanwhile is no error.
        unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.descriptor(), signal, none, 0) };
    }

    /// What to poll for its end.
    pub fn descriptor(&self) -> i32 {
        self.descriptor.as_raw_fd()
    }

    /// How it ended, if it is a child and has ended; takes its number away from it.
    pub fn ended(&self, wait: bool) -> Option<Ended> {
        if !self.is_child() {
            return None;
        }
        let mut status = 0;
        let flags = if wait { 0 } else { libc::WNOHANG };
        // SAFETY: an all-zero rusage is valid; the call writes one status and one rusage into those given.
        let (pid, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(self.pid as libc::pid_t, &raw mut status, flags, &raw mut usage), usage)
        };
        (pid == self.pid as libc::pid_t).then(|| Ended {
            status: if libc::WIFSIGNALED(status) { 128 + libc::WTERMSIG(status) } else { libc::WEXITSTATUS(status) },
            voluntary: usage.ru_nvcsw as u64,
            involuntary: usage.ru_nivcsw as u64,
            user_ns: timeval_ns(usage.ru_utime),
            kernel_ns: timeval_ns(usage.ru_stime),
            faults: (usage.ru_minflt + usage.ru_majflt) as u64,
        })
    }
}

/// Whether a process executes a program: not once it has let go of its memory, on its way to its end.
pub fn executes(pid: u32) -> bool {
    std::fs::read_link(format!("/proc/{pid}/exe")).is_ok()
}

/// Whether a thread still runs: neither gone nor dead and waited for.
pub fn is_alive(tid: u32) -> bool {
    let stat = snapshot::read(&format!("/proc/{tid}/stat"));
    let state = stat.and_then(|text| snapshot::state(&text));
    !matches!(state, None | Some('Z' | 'X'))
}
