//! Waiting for keys of a terminal that may go away.
//!
//! Of a terminal that was hung up, crossterm 0.29 reads nothing without end, in one call. So on Linux it is only asked
//! to read where there is something to read and the terminal is there.

use std::time::Duration;

/// What comes from a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// No key was pressed in time.
    None,
    /// There may be keys to read.
    Some,
    /// The terminal is gone.
    Gone,
}

/// The terminal that keys come from, as crossterm chooses it.
#[cfg(target_os = "linux")]
#[derive(Debug)]
pub struct Keyboard {
    /// Where standard input is none.
    own: Option<std::fs::File>,
}

#[cfg(target_os = "linux")]
impl Keyboard {
    /// The one of this process.
    pub fn open() -> Keyboard {
        let is_input = rustix::termios::isatty(rustix::stdio::stdin());
        Keyboard { own: if is_input { None } else { std::fs::File::open("/dev/tty").ok() } }
    }

    /// Waits for a key.
    pub fn wait(&self, most: Duration) -> Keys {
        use std::os::fd::AsFd as _;

        use rustix::event::{PollFd, PollFlags, Timespec, poll};

        let terminal = self.own.as_ref().map_or(rustix::stdio::stdin(), |file| file.as_fd());
        let mut polled = [PollFd::new(&terminal, PollFlags::IN)];
        match poll(&mut polled, Timespec::try_from(most).ok().as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => Keys::None,
            Ok(_) if polled[0].revents() == PollFlags::IN => Keys::Some,
            _ => Keys::Gone,
        }
    }
}

/// The terminal that keys come from; the library is believed to know when it goes away.
#[cfg(not(target_os = "linux"))]
#[derive(Debug)]
pub struct Keyboard;

#[cfg(not(target_os = "linux"))]
impl Keyboard {
    /// The one of this process.
    pub fn open() -> Keyboard {
        Keyboard
    }

    /// Waits for a key.
    pub fn wait(&self, most: Duration) -> Keys {
        match ratatui::crossterm::event::poll(most) {
            Ok(true) => Keys::Some,
            Ok(false) => Keys::None,
            Err(_) => Keys::Gone,
        }
    }
}
