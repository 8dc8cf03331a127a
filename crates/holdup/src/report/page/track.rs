//! A thread's row as columns: exactly what it did when, and summaries for when that is too much to look at.
//!
//! The exact columns are read when somebody zooms in; a page opens with the summaries. viewer/src/tracks.ts reads both.

use holdup_analyze::{Interval, State};

use super::pack::Column;
use super::states::States;
use crate::export::Group;

/// Buckets of the coarsest summary over the whole recording; every finer one has four times as many.
const COARSEST: u64 = 2048;

/// Each level has so many times the buckets of the one before.
const STEP: u64 = 4;

/// Summaries stop where a bucket holds so few intervals on average that these can be drawn themselves.
const INTERVALS_PER_BUCKET: u64 = 24;

/// Bytes of a bucket: shares of time running, runnable, waiting for locks and blocked, the state that took most of the
/// time off CPU, and how many switches, as a logarithm.
pub(super) const BUCKET_BYTES: usize = 6;

/// Who ended a wait: nobody known.
pub(super) const NO_WAKER: u32 = 0;

/// An interval as the page has it: the number of its state, and who made the thread runnable at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub from_ns: u64,
    pub state: u32,
    pub waker: u32,
}

/// A thread's intervals without gaps, from the page's time 0 on.
#[derive(Clone, Debug, Default)]
pub(super) struct Track {
    pub pieces: Vec<Piece>,
    pub end_ns: u64,
}

impl Track {
    /// Times that go back are held, gaps become stretches of which nothing is known.
    pub(super) fn new(intervals: &[Interval], zero_ns: u64, states: &mut States) -> Track {
        let mut track = Track::default();
        for interval in intervals {
            let from_ns = interval.from_ns.saturating_sub(zero_ns);
            let to_ns = interval.to_ns.saturating_sub(zero_ns);
            if track.pieces.is_empty() {
                track.end_ns = from_ns;
            }
            if from_ns > track.end_ns {
                track.push(from_ns, states.number(State::Unknown));
            }
            if to_ns > track.end_ns {
                track.push(to_ns, states.number(interval.state));
            }
        }
        track
    }

    fn push(&mut self, to_ns: u64, state: u32) {
        self.pieces.push(Piece { from_ns: self.end_ns, state, waker: NO_WAKER });
        self.end_ns = to_ns;
    }

    /// Notes who made the thread runnable at that moment; false if nothing begins there.
    pub(super) fn wake(&mut self, time_ns: u64, waker: u32) -> bool {
        match self.pieces.binary_search_by_key(&time_ns, |piece| piece.from_ns) {
            Ok(index) => {
                self.pieces[index].waker = waker;
                true
            }
            Err(_) => false,
        }
    }

    /// How many pieces, the first moment, then states; after them, state by state, the lengths and then the wakers, for
    /// those of one state are alike.
    pub(super) fn columns(&self) -> Vec<u8> {
        let mut out = Column::default();
        out.put(self.pieces.len() as u64);
        out.put(self.pieces.first().map_or(0, |piece| piece.from_ns));
        self.pieces.iter().for_each(|piece| out.put(u64::from(piece.state)));
        let lengths: Vec<u64> = self.lengths().collect();
        let order = self.by_state();
        for alike in order.chunk_by(|a, b| self.pieces[*a].state == self.pieces[*b].state) {
            out.planes(&alike.iter().map(|piece| lengths[*piece]).collect::<Vec<_>>());
        }
        order.iter().for_each(|piece| out.put(u64::from(self.pieces[*piece].waker)));
        out.finish()
    }

    /// The pieces in order of their states, and then of time.
    fn by_state(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.pieces.len()).collect();
        order.sort_by_key(|piece| self.pieces[*piece].state);
        order
    }

    fn lengths(&self) -> impl Iterator<Item = u64> + '_ {
        let ends = self.pieces.iter().skip(1).map(|piece| piece.from_ns).chain([self.end_ns]);
        self.pieces.iter().zip(ends).map(|(piece, end)| end - piece.from_ns)
    }

    /// How many buckets the levels of this track have, coarsest first.
    pub(super) fn levels(&self) -> Vec<u64> {
        let mut levels = Vec::new();
        let mut buckets = COARSEST;
        // Where even the coarsest has few intervals per bucket, they are drawn themselves.
        while self.pieces.len() as u64 > INTERVALS_PER_BUCKET * buckets / STEP {
            levels.push(buckets);
            buckets *= STEP;
        }
        levels
    }

    /// A summary: `buckets` equal parts of the time from `start_ns` to `end_ns`, [`BUCKET_BYTES`] each.
    pub(super) fn summary(&self, buckets: u64, start_ns: u64, end_ns: u64, states: &States) -> Vec<u8> {
        let span = end_ns.saturating_sub(start_ns).max(1);
        let mut sums: Vec<Sum> = vec![Sum::default(); buckets as usize];
        let edge = |index: u64| (u128::from(span) * u128::from(index) / u128::from(buckets)) as u64;
        let place = |ns: u64| {
            let at = u128::from(ns.saturating_sub(start_ns)) * u128::from(buckets) / u128::from(span);
            (at as u64).min(buckets - 1)
        };
        for (piece, length) in self.pieces.iter().zip(self.lengths()) {
            let (from, to) = (piece.from_ns.max(start_ns), (piece.from_ns + length).min(end_ns));
            let group = states.group(piece.state);
            if group == Group::Running && piece.from_ns + length < self.end_ns {
                sums[place(to) as usize].switches += 1;
            }
            let mut at = from;
            let mut index = place(from);
            while at < to {
                let next = match index + 1 < buckets {
                    true => (start_ns + edge(index + 1)).min(to).max(at + u64::from(at == from)),
                    false => to,
                };
                sums[index as usize].add(group, piece.state, next - at);
                at = next;
                index = (index + 1).min(buckets - 1);
            }
        }
        let width = span as f64 / buckets as f64;
        sums.iter().flat_map(|sum| sum.bytes(width)).collect()
    }
}

/// What a thread did within a bucket.
#[derive(Clone, Debug, Default)]
struct Sum {
    running: u64,
    runnable: u64,
    lock: u64,
    blocked: u64,
    switches: u32,
    /// The state off CPU that took most of the time so far, by the count of Boyer and Moore (1991): exact if it is more
    /// than half.
    off: Option<(u32, u64)>,
}

impl Sum {
    fn add(&mut self, group: Group, state: u32, ns: u64) {
        match group {
            Group::Running => self.running += ns,
            Group::Runnable => self.runnable += ns,
            Group::Lock => self.lock += ns,
            Group::Blocked | Group::Lost => self.blocked += ns,
            Group::Idle => {}
        }
        // Waits for locks are what people look for: another wait never hides them.
        let wanted = group == Group::Lock || self.lock == 0;
        if group == Group::Running || group == Group::Runnable || !wanted {
            return;
        }
        self.off = match self.off {
            Some((known, votes)) if known == state => Some((known, votes + ns)),
            Some((known, votes)) if votes >= ns && (group != Group::Lock || self.lock > ns) => {
                Some((known, votes - ns))
            }
            _ => Some((state, ns)),
        };
    }

    fn bytes(&self, width: f64) -> [u8; BUCKET_BYTES] {
        let share = |ns: u64| (ns as f64 / width * 255.0).ceil().min(255.0) as u8;
        let state = self.off.map_or(255, |(state, _)| state.min(254) as u8);
        let switches = (f64::from(self.switches) + 1.0).log2() * 8.0;
        [
            share(self.running),
            share(self.runnable),
            share(self.lock),
            share(self.blocked),
            state,
            switches.round().min(255.0) as u8,
        ]
    }
}
