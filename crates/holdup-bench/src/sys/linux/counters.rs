//! Hardware counters of one thread, where the machine has them.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _};

use crate::sample::Counters;

/// `PERF_TYPE_HARDWARE`.
const HARDWARE: u32 = 0;
/// Cycles, instructions and cache misses of `PERF_TYPE_HARDWARE`, in the order of [`Counters`].
const EVENTS: [u64; 3] = [0, 1, 3];
/// `PERF_FORMAT_GROUP`: one read gives the whole group.
const FORMAT_GROUP: u64 = 1 << 3;
/// `exclude_kernel` and `exclude_hv`: what an ordinary user may count.
const FLAGS: u64 = (1 << 5) | (1 << 6);

/// The first version of `struct perf_event_attr`, which every kernel takes.
#[repr(C)]
#[derive(Default)]
struct Attr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

/// Opens one event; the seam at which tests put a machine with counters, or with only some.
type Open<'a> = &'a dyn Fn(u64, Option<&File>) -> io::Result<File>;

/// The group of counters of the calling thread, counting since it was opened.
#[derive(Debug)]
pub struct Group {
    leader: File,
    /// Kept open: a closed member stops counting.
    _members: Vec<File>,
}

impl Group {
    /// Opens and starts the group for the calling thread.
    ///
    /// # Errors
    /// This machine has no counters, or this user may not use them.
    pub fn open() -> io::Result<Group> {
        Group::open_with(&perf_event_open)
    }

    fn open_with(open: Open<'_>) -> io::Result<Group> {
        let leader = open(EVENTS[0], None)?;
        let members = EVENTS[1..].iter().map(|&event| open(event, Some(&leader))).collect::<io::Result<Vec<_>>>()?;
        Ok(Group { leader, _members: members })
    }

    /// Counts since the group was opened.
    pub fn read(&mut self) -> Option<Counters> {
        let mut bytes = [0; 8 * (1 + EVENTS.len())];
        self.leader.read_exact(&mut bytes).ok()?;
        let mut words = bytes.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_ne_bytes));
        (words.next()? == EVENTS.len() as u64).then_some(())?;
        Some(Counters { cycles: words.next()?, instructions: words.next()?, cache_misses: words.next()? })
    }
}

fn perf_event_open(event: u64, leader: Option<&File>) -> io::Result<File> {
    let attr = Attr {
        kind: HARDWARE,
        size: size_of::<Attr>() as u32,
        config: event,
        read_format: FORMAT_GROUP,
        flags: FLAGS,
        ..Attr::default()
    };
    let leader = leader.map_or(-1, |file| file.as_raw_fd());
    // SAFETY: the structure is as large as its size field says and lives through the call, which only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_perf_event_open, &raw const attr, 0, -1, leader, 8) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a fresh descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::io::{Seek as _, Write as _};

    /// A file that reads like the leader of a group.
    fn group_file(words: &[u64]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        for word in words {
            file.write_all(&word.to_ne_bytes()).unwrap();
        }
        file.rewind().unwrap();
        file
    }

    #[test]
    fn a_machine_with_counters_gives_all_three() {
        let mut group = Group::open_with(&|_, _| Ok(group_file(&[3, 100, 50, 7]))).unwrap();
        assert_eq!(group.read(), Some(Counters { cycles: 100, instructions: 50, cache_misses: 7 }));
    }

    #[test]
    fn an_event_that_cannot_be_opened_means_no_counters() {
        for fails_at in 0..EVENTS.len() {
            let opened = Cell::new(0);
            let group = Group::open_with(&|_, _| {
                if opened.replace(opened.get() + 1) == fails_at {
                    Err(io::Error::from_raw_os_error(libc::ENOENT))
                } else {
                    Ok(group_file(&[3, 1, 1, 1]))
                }
            });
            assert!(group.is_err());
        }
    }

    #[test]
    fn a_short_read_is_no_figure() {
        let mut group = Group::open_with(&|_, _| Ok(group_file(&[3, 100]))).unwrap();
        assert_eq!(group.read(), None);
        let mut other = Group::open_with(&|_, _| Ok(group_file(&[2, 1, 2, 3]))).unwrap();
        assert_eq!(other.read(), None);
    }
}
