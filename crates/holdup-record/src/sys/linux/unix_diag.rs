//! Unix sockets that listen, and how many connections wait at each: asked of the kernel by netlink (sock_diag(7)), for
//! no file tells.
//!
//! Those of the recorder's own network namespace alone. A kernel without `unix_diag` knows none.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

const SOCK_DIAG_BY_FAMILY: u16 = 20;
const DONE: u16 = 3;
/// Only sockets that listen, with the lengths of their queues.
const LISTENING: u32 = 1 << 10;
const SHOW_QUEUES: u32 = 0x10;
const QUEUES: u16 = 4;
const HEADER: usize = 16;
const ABOUT: usize = 16;

/// A question and its answers.
#[derive(Debug, Default)]
pub struct UnixSockets {
    socket: Option<OwnedFd>,
    /// The kernel does not answer.
    is_refused: bool,
}

impl UnixSockets {
    /// The inodes of those that listen, and how many wait at each.
    pub fn listening(&mut self) -> Vec<(u64, u64)> {
        if self.is_refused {
            return Vec::new();
        }
        let asked = self.ask();
        self.is_refused = asked.is_err();
        asked.unwrap_or_default()
    }

    fn ask(&mut self) -> io::Result<Vec<(u64, u64)>> {
        let socket = match &mut self.socket {
            Some(socket) => socket,
            none => none.insert(open()?),
        };
        let question = question();
        // SAFETY: the buffer is as long as told.
        let sent = unsafe { libc::send(socket.as_raw_fd(), question.as_ptr().cast(), question.len(), 0) };
        if sent < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut found = Vec::new();
        let mut buffer = vec![0_u8; 32 << 10];
        loop {
            let (at, most, no_wait) = (buffer.as_mut_ptr().cast(), buffer.len(), libc::MSG_DONTWAIT);
            // SAFETY: the buffer is as long as told.
            let got = unsafe { libc::recv(socket.as_raw_fd(), at, most, no_wait) };
            let got = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
            match answers(&buffer[..got], &mut found) {
                Some(true) => return Ok(found),
                Some(false) if got > 0 => {}
                _ => return Err(io::Error::other("no answer")),
            }
        }
    }
}

fn open() -> io::Result<OwnedFd> {
    // SAFETY: makes a socket, which nobody else has.
    let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::NETLINK_SOCK_DIAG) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: it is open, and ours.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The question for all that listen.
fn question() -> Vec<u8> {
    const LENGTH: u32 = 40;
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    bytes.extend(flags.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([libc::AF_UNIX as u8, 0, 0, 0]);
    bytes.extend(LISTENING.to_ne_bytes());
    bytes.extend([0; 4]);
    bytes.extend(SHOW_QUEUES.to_ne_bytes());
    bytes.extend([0xff; 8]);
    bytes
}

/// What a part of the answer tells, and whether it is the last; `None` if it is no answer.
fn answers(mut bytes: &[u8], found: &mut Vec<(u64, u64)>) -> Option<bool> {
    while let Some(header) = bytes.get(..HEADER) {
        let length = word(header, 0)? as usize;
        let message = bytes.get(HEADER..length)?;
        match half(header, 4)? {
            DONE => return Some(true),
            SOCK_DIAG_BY_FAMILY => found.extend(socket(message)),
            _ => return None,
        }
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Some(false)
}

/// The inode of a socket, and how many wait there.
fn socket(message: &[u8]) -> Option<(u64, u64)> {
    let inode = word(message, 4)?;
    let mut attributes = message.get(ABOUT..)?;
    loop {
        let length = usize::from(half(attributes, 0)?);
        if half(attributes, 2)? == QUEUES {
            return Some((inode.into(), word(attributes, 4)?.into()));
        }
        attributes = attributes.get(aligned(length).max(4)..)?;
    }
}

fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::linux::fs::MetadataExt as _;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    #[test]
    fn who_waits_at_a_socket_is_counted() {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("s")).expect("a socket");
        let clients: Vec<UnixStream> =
            (0..3).map(|_| UnixStream::connect(folder.path().join("s")).expect("connected")).collect();
        let about = std::fs::metadata(format!("/proc/self/fd/{}", listener.as_raw_fd())).expect("its inode");
        let mut sockets = UnixSockets::default();
        let seen = sockets.listening();
        if sockets.is_refused {
            println!("skipped: this kernel tells of no Unix sockets");
            return;
        }
        assert!(seen.contains(&(about.st_ino(), clients.len() as u64)), "{seen:?} of {}", about.st_ino());
    }

    #[test]
    fn what_is_no_answer_is_none() {
        let mut found = Vec::new();
        assert_eq!(answers(&[], &mut found), Some(false));
        assert_eq!(answers(&[1; 16], &mut found), None, "cut off");
        let mut done = [0_u8; 16];
        done[0] = 16;
        done[4] = 3;
        assert_eq!(answers(&done, &mut found), Some(true));
        done[4] = 2;
        assert_eq!(answers(&done, &mut found), None, "an error");
        assert_eq!(found, []);
        assert_eq!(socket(&[0; 18]), None);
    }
}
