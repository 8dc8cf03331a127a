//! Channels that goroutines wait for: from the entry that a goroutine leaves in a channel's queue to the channel.
//!
//! Where a goroutine has the address of its entry differs from version to version. It is found by what lies there: an
//! entry that leads back to the goroutine, and on to a channel that has entries in its queues.

use super::super::memory::{Memory, pointer_at, u64_at};
use super::layout::Layout;

/// What a goroutine waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its address.
    pub addr: u64,
    /// How many values find a place in it.
    pub places: u64,
    /// Whether nobody else waits for it.
    pub alone: bool,
}

/// In which word of a goroutine its entry is, once that is known.
#[derive(Debug, Default)]
pub struct Channels {
    entry: Option<u64>,
    /// Goroutines that waited for a channel and had no such word.
    failed: u32,
}

/// Where in a goroutine the entry is searched for.
const SEARCHED: std::ops::Range<u64> = 192..640;
/// With so many failures it is some other version.
const MOST_FAILED: u32 = 64;
/// Bytes of an entry, and of a channel, that the fields lie in.
const ENTRY: usize = 112;
const CHANNEL: usize = 96;
/// Entries of one goroutine that waits for several channels.
const MOST_ENTRIES: usize = 8;
/// More places than that no channel has.
const MOST_PLACES: u64 = 1 << 32;

impl Channels {
    /// The channel that a goroutine waits for; of several, one that nobody else waits for.
    pub fn of(&mut self, memory: &mut Memory, layout: Layout, goroutine: u64) -> Option<Channel> {
        if self.failed >= MOST_FAILED {
            return None;
        }
        let at = match self.entry {
            Some(at) => at,
            None => {
                let mut places = SEARCHED.step_by(8);
                let found = places.find(|at| {
                    let entry = memory.pointer(goroutine + at);
                    entry.is_some_and(|entry| channel(memory, layout, goroutine, entry).is_some())
                });
                self.failed += u32::from(found.is_none());
                *self.entry.insert(found?)
            }
        };
        let mut entry = memory.pointer(goroutine + at)?;
        let mut first = None;
        for _ in 0..MOST_ENTRIES {
            let (found, next) = channel(memory, layout, goroutine, entry)?;
            if found.alone {
                return Some(found);
            }
            first = first.or(Some(found));
            match next {
                Some(next) => entry = next,
                None => break,
            }
        }
        first
    }
}

/// The channel that an entry of this goroutine's is queued at, and its next entry.
fn channel(memory: &mut Memory, layout: Layout, goroutine: u64, entry: u64) -> Option<(Channel, Option<u64>)> {
    let fields = memory.bytes(entry, ENTRY)?;
    (u64_at(&fields, 0)? == goroutine).then_some(())?;
    let mut last = [0, 8].into_iter().filter_map(|at| pointer_at(&fields, layout.channel + at));
    let (addr, places, alone) = last.find_map(|addr| {
        let channel = memory.bytes(addr, CHANNEL)?;
        let word = |at| u64_at(&channel, at);
        let (used, places) = (word(0)?, word(8)?);
        let queues = [layout.receivers, layout.receivers + 16]
            .map(|at| (pointer_at(&channel, at), pointer_at(&channel, at + 8)));
        // A queue has a first and a last entry, or neither.
        let sound = used <= places && places < MOST_PLACES && queues.iter().all(|(a, b)| a.is_some() == b.is_some());
        let filled = || queues.iter().filter(|(first, _)| first.is_some());
        (sound && filled().count() == 1).then_some(())?;
        Some((addr, places, filled().all(|queue| *queue == (Some(entry), Some(entry)))))
    })?;
    // A channel's entry has the next of the same goroutine where the table of semaphores has the next waiter.
    Some((Channel { addr, places, alone }, pointer_at(&fields, layout.next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A goroutine, its entry and the channel, in this process's memory.
    struct Made {
        goroutine: Box<[u64; 128]>,
        entry: Box<[u64; 16]>,
        channel: Box<[u64; 16]>,
    }

    fn addr(words: &[u64]) -> u64 {
        words.as_ptr() as u64
    }

    fn made(minor: u32) -> Made {
        let layout = Layout::of(minor, false);
        let mut made = Made { goroutine: Box::new([0; 128]), entry: Box::new([0; 16]), channel: Box::new([0; 16]) };
        let entry = addr(&*made.entry);
        made.goroutine[40] = entry;
        made.entry[0] = addr(&*made.goroutine);
        made.entry[layout.channel / 8] = addr(&*made.channel);
        made.channel[1] = 3;
        made.channel[layout.receivers / 8] = entry;
        made.channel[layout.receivers / 8 + 1] = entry;
        made
    }

    fn read(made: &Made, minor: u32) -> Option<Channel> {
        let mut memory = Memory::of(std::process::id());
        Channels::default().of(&mut memory, Layout::of(minor, false), addr(&*made.goroutine))
    }

    #[test]
    fn the_channel_of_a_goroutine_is_found_through_its_entry() {
        for minor in [19, 22, 23, 26] {
            let mut made = made(minor);
            let found = read(&made, minor).expect("a channel");
            assert_eq!((found.addr, found.places, found.alone), (addr(&*made.channel), 3, true), "1.{minor}");
            let other = Box::new([7_u64; 16]);
            made.channel[Layout::of(minor, false).receivers / 8 + 1] = addr(&*other);
            assert!(!read(&made, minor).expect("a channel").alone, "1.{minor}");
        }
    }

    #[test]
    fn what_does_not_fit_is_not_believed() {
        type Change = fn(&mut Made);
        let cases: [(&str, Change); 4] = [
            ("another goroutine's entry", |made| made.entry[0] += 8),
            ("more values than places", |made| made.channel[0] = 4),
            ("nobody in the queues", |made| made.channel[7..11].fill(0)),
            ("a channel that is nowhere", |made| made.entry[10] = 0x1000),
        ];
        for (why, change) in cases {
            let mut made = made(22);
            change(&mut made);
            assert_eq!(read(&made, 22), None, "{why}");
        }
    }
}
