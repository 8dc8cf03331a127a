//! Has a running Java machine write its map of compiled code, as `jcmd PID Compiler.perfmap` does, without that
//! program, which images of servers rarely have.
//!
//! The protocol is that of HotSpot's `AttachListener`: a file `.attach_pidPID` in its `/tmp` and a SIGQUIT make it open
//! the socket `.java_pidPID` there, which takes one command and gives the answer. It listens to root and to the user
//! whom it runs as. Root asks as that user, so that nothing which lies in that `/tmp` can lead root astray.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::AskedForMap;
use crate::sys::linux::{maps, snapshot, status};

/// How long the machine may take to listen, and to answer: it does both at a safepoint.
const TO_LISTEN: Duration = Duration::from_secs(5);
const TO_ANSWER: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// Its version of the protocol, the command, and three arguments.
const COMMAND: &[u8] = b"1\0jcmd\0Compiler.perfmap\0\0\0";
/// No more of an answer is read.
const LONGEST_ANSWER: u64 = 4096;

/// Asks a process for its map.
pub fn ask_for_map(pid: u32) -> AskedForMap {
    // The handle stays with this process, whoever gets its number later.
    let handle = process_handle(pid);
    let files: Vec<String> = snapshot::mappings_of(pid).into_iter().map(|mapping| mapping.path.into()).collect();
    if !files.iter().any(|path| path.trim_end_matches(" (deleted)").ends_with("/libjvm.so")) {
        return AskedForMap::NoJava(files);
    }
    let asked = handle
        .map_err(|why| format!("it cannot be reached: {why}"))
        .and_then(|handle| Listener::find(pid, handle))
        .and_then(Listener::ask_in_time);
    asked.map_or_else(AskedForMap::Refused, AskedForMap::Written)
}

/// A machine that may be asked.
struct Listener {
    pid: u32,
    handle: OwnedFd,
    /// The number that it knows itself by.
    own: u32,
    /// Its `/tmp`.
    folder: File,
    user: u32,
    group: u32,
}

impl Listener {
    fn find(pid: u32, handle: OwnedFd) -> Result<Listener, String> {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).map_err(|_| "it has ended".to_owned())?;
        // Real, effective, saved.
        let effective = |key| status::field(&status, key)?.split_whitespace().nth(1)?.parse::<u32>().ok();
        let (Some(user), Some(group)) = (effective("Uid:"), effective("Gid:")) else {
            return Err("its user is not told".to_owned());
        };
        // SAFETY: it always succeeds.
        let ours = unsafe { libc::geteuid() };
        if ours != 0 && ours != user {
            return Err(format!("it runs as user {user} and listens to that user and root alone"));
        }
        let path = format!("/proc/{pid}/root/tmp");
        let open =
            File::options().read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY | libc::O_NOFOLLOW).open(&path);
        let folder = open.map_err(|why| format!("its /tmp cannot be reached: {why}"))?;
        Ok(Listener { pid, handle, own: maps::inner_number(pid).unwrap_or(pid), folder, user, group })
    }

    /// Asks on a thread of its own, for two reasons: it acts as another user there, and the machine may never answer.
    fn ask_in_time(self) -> Result<PathBuf, String> {
        let (tell, told) = mpsc::channel();
        let patience = TO_LISTEN + TO_ANSWER;
        let asks = thread::Builder::new().spawn(move || {
            // Nobody may wait for it any more.
            let _ = tell.send(self.ask());
        });
        asks.map_err(|why| format!("no thread can be made: {why}"))?;
        told.recv_timeout(patience + PAUSE).unwrap_or_else(|_| Err(format!("it did not answer for {patience:?}")))
    }

    fn ask(&self) -> Result<PathBuf, String> {
        self.become_its_user().map_err(|why| format!("user {} cannot be acted as: {why}", self.user))?;
        let since = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let mut socket = self.listening()?;
        let failed = |why: io::Error| format!("it did not answer: {why}");
        socket.write_all(COMMAND).map_err(failed)?;
        let mut answer = Vec::new();
        socket.take(LONGEST_ANSWER).read_to_end(&mut answer).map_err(failed)?;
        check(&String::from_utf8_lossy(&answer))?;
        let name = format!("perf-{}.map", self.own);
        let written = fs::symlink_metadata(self.inside(&name));
        // Clocks of files are a little behind.
        match written.is_ok_and(|about| about.is_file() && about.mtime() + 1 >= since.cast_signed()) {
            // One that has another number for itself has most likely a /tmp of its own as well.
            true if self.own != self.pid => Ok(format!("/proc/{}/root/tmp/{name}", self.pid).into()),
            true => Ok(Path::new("/tmp").join(name)),
            false => Err(format!("it could not write /tmp/{name}")),
        }
    }

    /// A connection to the machine, which begins to listen if it does not yet.
    fn listening(&self) -> Result<UnixStream, String> {
        let socket = self.inside(&format!(".java_pid{}", self.own));
        let listens = || fs::symlink_metadata(&socket).is_ok_and(|about| about.file_type().is_socket());
        if !listens() {
            self.may_be_signalled()?;
            let beckoned = self.inside(&format!(".attach_pid{}", self.own));
            let _file = Beckoning::make(beckoned).map_err(|why| format!("nothing can be put into its /tmp: {why}"))?;
            let give_up = Instant::now() + TO_LISTEN;
            self.signal(libc::SIGQUIT).map_err(|why| format!("it cannot be signalled: {why}"))?;
            while !listens() {
                if Instant::now() > give_up {
                    return Err(format!("it did not begin to listen for {TO_LISTEN:?}"));
                }
                thread::sleep(PAUSE);
            }
        }
        let stream = UnixStream::connect(&socket).map_err(|why| format!("it does not listen: {why}"))?;
        if peer(&stream) != Some(self.pid) {
            return Err("another process listens in its place".to_owned());
        }
        let timed = stream.set_read_timeout(Some(TO_ANSWER)).and_then(|()| stream.set_write_timeout(Some(TO_ANSWER)));
        timed.map(|()| stream).map_err(|why| why.to_string())
    }

    /// Whether a SIGQUIT has it listen. One that it does not expect would end it.
    fn may_be_signalled(&self) -> Result<(), String> {
        let read = |file: &str| fs::read(format!("/proc/{}/{file}", self.pid)).unwrap_or_default();
        refusal(&read("cmdline"), &String::from_utf8_lossy(&read("status")))
    }

    /// A file of its `/tmp`. The way leads over a descriptor, since another user may not take the one over its `/proc`.
    fn inside(&self, name: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{name}", self.folder.as_raw_fd()))
    }

    fn signal(&self, signal: i32) -> io::Result<()> {
        let nothing = std::ptr::null::<libc::siginfo_t>();
        // SAFETY: a descriptor of ours, a signal, and no further information.
        let done = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, self.handle.as_raw_fd(), signal, nothing, 0) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// Has this thread, if it is root's, act as the machine's user from now on.
    fn become_its_user(&self) -> io::Result<()> {
        // SAFETY: it always succeeds.
        if self.user == 0 || unsafe { libc::geteuid() } != 0 {
            return Ok(());
        }
        const AS_IT_IS: libc::c_long = -1;
        let (user, group) = (libc::c_long::from(self.user), libc::c_long::from(self.group));
        // The functions of libc would change all threads of this process; the calls themselves change this one alone.
        // SAFETY: numbers in, and no memory.
        let done = unsafe { libc::syscall(libc::SYS_setresgid, AS_IT_IS, group, AS_IT_IS) };
        // SAFETY: as above.
        if done != 0 || unsafe { libc::syscall(libc::SYS_setresuid, AS_IT_IS, user, AS_IT_IS) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// The file that tells the machine to listen; it goes when it has been heeded.
struct Beckoning(Option<PathBuf>);

impl Beckoning {
    fn make(path: PathBuf) -> io::Result<Beckoning> {
        match File::options().write(true).create_new(true).mode(0o600).open(&path) {
            Ok(_) => Ok(Beckoning(Some(path))),
            // Somebody else's, who asks at the same time.
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(Beckoning(None)),
            Err(why) => Err(why),
        }
    }
}

impl Drop for Beckoning {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            // Empty, and in a folder that is cleared from time to time.
            let _ = fs::remove_file(path);
        }
    }
}

/// Why a machine that was started so, and has this status, does not begin to listen.
fn refusal(command: &[u8], status: &str) -> Result<(), String> {
    let has = |switch: &str| command.split(|byte| *byte == 0).any(|word| word == switch.as_bytes());
    if has("-XX:+DisableAttachMechanism") {
        return Err("it was started with -XX:+DisableAttachMechanism, so that nobody can ask it".to_owned());
    }
    let quits = status::hexadecimal(status, "SigCgt:") >> (libc::SIGQUIT - 1) & 1 == 0;
    if quits {
        return Err("it has no handler for SIGQUIT, by which it is asked: it is only starting".to_owned());
    }
    Ok(())
}

/// The answer's first line is a status.
fn check(answer: &str) -> Result<(), String> {
    let (status, text) = answer.split_once('\n').unwrap_or((answer, ""));
    let text = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
    match status.trim() {
        "0" => Ok(()),
        "" => Err("it closed the connection without an answer".to_owned()),
        _ if text.contains("Unknown diagnostic command") => {
            Err("it cannot write one while it runs: Java can from 17 on".to_owned())
        }
        _ => Err(format!("it answers '{text}'")),
    }
}

fn process_handle(pid: u32) -> io::Result<OwnedFd> {
    // SAFETY: numbers in, a descriptor out.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_long::from(pid), 0) };
    match i32::try_from(fd) {
        // SAFETY: a fresh descriptor that nobody else owns.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whose socket this is connected to.
fn peer(stream: &UnixStream) -> Option<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let into = (&raw mut peer).cast();
    // SAFETY: memory of the length that is given with it.
    let done = unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut len) };
    (done == 0).then(|| u32::try_from(peer.pid).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_and_refusals_are_said_in_words() {
        assert_eq!(check("0\n"), Ok(()));
        assert!(check("").unwrap_err().contains("without an answer"));
        let old = "1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n";
        assert!(check(old).unwrap_err().contains("from 17 on"));
        assert_eq!(check("1\n\nno memory\nmore").unwrap_err(), "it answers 'no memory'");
        let catches = "SigCgt:\t0000000000000004\n";
        assert_eq!(refusal(b"java\0-Xmx1g\0Main\0", catches), Ok(()));
        assert!(refusal(b"java\0-XX:+DisableAttachMechanism\0Main\0", catches).unwrap_err().contains("Disable"));
        assert!(refusal(b"java\0-Xrs\0Main\0", "SigCgt:\t0000000000000002\n").unwrap_err().contains("SIGQUIT"));
    }

    #[test]
    fn what_is_no_java_is_not_asked() {
        let AskedForMap::NoJava(files) = ask_for_map(std::process::id()) else { panic!("this test runs no Java") };
        assert!(files.iter().any(|path| path.contains("libc")), "{files:?}");
        assert!(matches!(ask_for_map(u32::MAX >> 1), AskedForMap::NoJava(files) if files.is_empty()));
    }
}
