//! A thread's row as columns: exactly what it did when, and summaries for when that is too much to look at.
//!
//! The exact columns are read when somebody zooms in; a page opens with the summaries. viewer/src/tracks.ts reads both.

use holdup_analyze::{AccountState, Row};

use super::pack::Column;
use super::states::States;

/// Buckets of the coarsest summary over the whole recording; every finer one has four times as many.
const COARSEST: u64 = 2048;

/// Each level has so many times the buckets of the one before.
const STEP: u64 = 4;

/// Summaries stop where a bucket holds so few intervals on average that these can be drawn themselves.
const INTERVALS_PER_BUCKET: u64 = 24;

/// Bytes of a bucket: shares of time running, without a CPU, waiting for locks, and off the CPU for another reason; the
/// state that took most of the waits for locks, and of the other time; how many switches, as a logarithm.
pub(super) const BUCKET_BYTES: usize = 7;

/// Who ended a wait: nobody known.
pub(super) const NO_WAKER: u32 = 0;

/// A row of the timeline, and who made the thread runnable at the beginning of each of its stretches.
#[derive(Clone, Debug)]
pub(super) struct Track<'a> {
    row: &'a Row,
    wakers: Vec<u32>,
    zero_ns: u64,
}

impl<'a> Track<'a> {
    pub(super) fn new(row: &'a Row, zero_ns: u64) -> Track<'a> {
        Track { row, wakers: vec![NO_WAKER; row.len()], zero_ns }
    }

    /// Notes who made the thread runnable at that moment; false if nothing begins there.
    pub(super) fn wake(&mut self, time_ns: u64, waker: u32) -> bool {
        match self.row.begins_ns().binary_search(&time_ns) {
            Ok(index) => {
                self.wakers[index] = waker;
                true
            }
            Err(_) => false,
        }
    }

    /// How many pieces, the first moment, then their kinds; after them, kind by kind, the lengths and then the wakers,
    /// for those of one kind are alike.
    pub(super) fn columns(&self, states: &States) -> Vec<u8> {
        let mut out = Column::default();
        let begins = self.row.begins_ns();
        let kind = |piece: u32| states.kind(self.row.kinds()[piece as usize]);
        out.put(begins.len() as u64);
        out.put(begins.first().map_or(0, |first| first.saturating_sub(self.zero_ns)));
        (0..begins.len() as u32).for_each(|piece| out.put(u64::from(kind(piece))));
        let mut order: Vec<u32> = (0..begins.len() as u32).collect();
        order.sort_by_key(|piece| kind(*piece));
        let length = |piece: &u32| {
            let end = begins.get(*piece as usize + 1).copied().unwrap_or(self.row.end_ns());
            end - begins[*piece as usize]
        };
        for alike in order.chunk_by(|a, b| kind(*a) == kind(*b)) {
            out.planes(&alike.iter().map(length).collect::<Vec<_>>());
        }
        order.iter().for_each(|piece| out.put(u64::from(self.wakers[*piece as usize])));
        out.finish()
    }

    /// How many buckets the levels of this track have, coarsest first.
    pub(super) fn levels(&self) -> Vec<u64> {
        let mut levels = Vec::new();
        let mut buckets = COARSEST;
        // Where even the coarsest has few intervals per bucket, they are drawn themselves.
        while self.row.len() as u64 > INTERVALS_PER_BUCKET * buckets / STEP {
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
        for (begin_ns, until_ns, kind) in self.row.stretches() {
            let since = |ns: u64| ns.saturating_sub(self.zero_ns);
            let (from, to) = (since(begin_ns).max(start_ns), since(until_ns).min(end_ns));
            let (state, group) = states.state(kind);
            if group == AccountState::Running && until_ns < self.row.end_ns() {
                sums[place(to) as usize].switches += 1;
            }
            let mut at = from;
            let mut index = place(from);
            while at < to {
                let next = match index + 1 < buckets {
                    true => (start_ns + edge(index + 1)).min(to).max(at + u64::from(at == from)),
                    false => to,
                };
                sums[index as usize].add(group, state, next - at);
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
    ready: u64,
    lock: Most,
    other: Most,
    switches: u32,
}

/// Time, and the state that took most of it by the count of Boyer and Moore (1991): exact if it is more than half.
#[derive(Clone, Debug, Default)]
struct Most {
    ns: u64,
    state: Option<(u32, u64)>,
}

impl Most {
    fn add(&mut self, state: u32, ns: u64) {
        self.ns += ns;
        self.state = match self.state {
            Some((known, votes)) if known == state => Some((known, votes + ns)),
            Some((known, votes)) if votes >= ns => Some((known, votes - ns)),
            _ => Some((state, ns)),
        };
    }

    /// 255 stands for none, and for one whose number has no room.
    fn state(&self) -> u8 {
        self.state.map_or(255, |(state, _)| state.min(255) as u8)
    }
}

impl Sum {
    fn add(&mut self, group: AccountState, state: u32, ns: u64) {
        match group {
            AccountState::Running => self.running += ns,
            AccountState::CpuOwn | AccountState::CpuOther => self.ready += ns,
            // Waits for locks are what people look for: another wait never hides them.
            AccountState::Lock => self.lock.add(state, ns),
            _ => self.other.add(state, ns),
        }
    }

    fn bytes(&self, width: f64) -> [u8; BUCKET_BYTES] {
        let share = |ns: u64| (ns as f64 / width * 255.0).ceil().min(255.0) as u8;
        let switches = (f64::from(self.switches) + 1.0).log2() * 8.0;
        [
            share(self.running),
            share(self.ready),
            share(self.lock.ns),
            share(self.other.ns),
            self.lock.state(),
            self.other.state(),
            switches.round().min(255.0) as u8,
        ]
    }
}
