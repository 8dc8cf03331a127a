//! Records of all CPUs in one order of time.
//!
//! Each CPU's records come nearly in order (an interrupt may write between another record's time stamp and its place); those of
//! different CPUs are unrelated until they are merged. What may still be preceded by a record that was not drained yet is held
//! back: the caller says up to which time all CPUs are known.

use crate::decode;

/// Records that were drained and not given away yet.
#[derive(Debug, Default)]
pub struct Merge {
    lanes: Vec<Lane>,
}

/// One CPU.
#[derive(Debug, Default)]
struct Lane {
    bytes: Vec<u8>,
    /// Where each record is, in order of time.
    index: Vec<Place>,
    /// The first of `index` that was not given away yet.
    next: usize,
}

#[derive(Clone, Copy, Debug)]
struct Place {
    time_ns: u64,
    at: u32,
    len: u32,
}

impl Merge {
    /// For so many CPUs.
    pub fn new(cpus: usize) -> Self {
        Merge { lanes: (0..cpus).map(|_| Lane::default()).collect() }
    }

    /// Adds what one CPU's ring held: whole records, in pieces that are parts of one sequence of bytes.
    pub fn add(&mut self, cpu: usize, parts: [&[u8]; 2]) {
        self.lanes[cpu].add(parts);
    }

    /// Gives away all records before `time_ns`, in order, with the number of their CPU.
    ///
    /// # Errors
    /// The first error of `sink`; what was not given away stays.
    pub fn drain<E>(
        &mut self,
        time_ns: u64,
        mut sink: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        while let Some((cpu, until)) = self.run(time_ns) {
            let lane = &mut self.lanes[cpu];
            while let Some(place) = lane.index.get(lane.next).filter(|place| place.time_ns <= until) {
                lane.next += 1;
                sink(cpu, &lane.bytes[place.at as usize..][..place.len as usize])?;
            }
        }
        self.lanes.iter_mut().for_each(Lane::forget);
        Ok(())
    }

    /// Forgets all records before `time_ns`.
    pub fn discard(&mut self, time_ns: u64) {
        for lane in &mut self.lanes {
            lane.next = lane.index.partition_point(|place| place.time_ns < time_ns);
            lane.forget();
        }
    }

    /// The CPU with the earliest record, and up to when it has the earliest.
    fn run(&self, before_ns: u64) -> Option<(usize, u64)> {
        let mut first: Option<(usize, u64)> = None;
        let mut second = before_ns.checked_sub(1)?;
        for (cpu, lane) in self.lanes.iter().enumerate() {
            let Some(place) = lane.index.get(lane.next) else { continue };
            let time = place.time_ns;
            match first {
                Some((_, earliest)) if earliest <= time => second = second.min(time),
                _ => {
                    second = first.map_or(second, |(_, earliest)| second.min(earliest));
                    first = Some((cpu, time));
                }
            }
        }
        let (cpu, time) = first.filter(|(_, time)| *time < before_ns)?;
        Some((cpu, second.max(time)))
    }
}

impl Lane {
    fn add(&mut self, parts: [&[u8]; 2]) {
        let mut at = self.bytes.len();
        for part in parts {
            self.bytes.extend_from_slice(part);
        }
        while let Some(len) = decode::length(&self.bytes[at..]) {
            if let Some(frame) = decode::frame(&self.bytes[at..at + len]) {
                self.insert(Place { time_ns: frame.time_ns, at: at as u32, len: len as u32 });
            }
            at += len;
        }
        self.bytes.truncate(at);
    }

    fn insert(&mut self, place: Place) {
        let later =
            self.index[self.next..].iter().rev().take_while(|other| other.time_ns > place.time_ns).count();
        self.index.insert(self.index.len() - later, place);
    }

    /// Frees what was given away.
    fn forget(&mut self) {
        let Some(keep) = self.index[self.next..].iter().map(|place| place.at).min() else {
            self.bytes.clear();
            self.index.clear();
            self.next = 0;
            return;
        };
        if (keep as usize) < self.bytes.len() / 2 {
            return;
        }
        self.bytes.drain(..keep as usize);
        self.index.drain(..self.next);
        self.next = 0;
        for place in &mut self.index {
            place.at -= keep;
        }
    }
}
