//! Waiting for keys of a terminal that may go away.
//!
//! Of a terminal that was hung up, crossterm 0.29 reads nothing without end, in one call. So it is only asked to read
//! where there is something to read and the terminal is there.

use std::fs::File;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Keys;

/// The terminal that keys come from, as crossterm chooses it.
#[derive(Debug)]
pub struct Keyboard {
    /// Where standard input is none.
    own: Option<File>,
}

impl Default for Keyboard {
    fn default() -> Self {
        let is_input = rustix::termios::isatty(rustix::stdio::stdin());
        Keyboard { own: if is_input { None } else { File::open("/dev/tty").ok() } }
    }
}

impl Keyboard {
    /// Waits for a key.
    pub fn wait(&self, most: Duration) -> Keys {
        let terminal: BorrowedFd<'_> = self.own.as_ref().map_or(rustix::stdio::stdin(), |file| file.as_fd());
        let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
        match poll(&mut polled, Timespec::try_from(most).ok().as_ref()) {
            Ok(0) | Err(Errno::INTR) => Keys::None,
            Ok(_) if polled[0].revents() == PollFlags::IN => Keys::Some,
            _ => Keys::Gone,
        }
    }
}
