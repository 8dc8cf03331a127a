//! Records of all CPUs in one order of time.
//!
//! Each CPU's records come nearly in order (an interrupt may write between another record's time stamp and its place);
//! those of different CPUs are unrelated until they are merged. What may still be preceded by a record that was not
//! drained yet is held back: the caller says up to which time all CPUs are known.

use super::{decode, inside};

/// Room that a CPU's lane keeps when it is empty.
const KEPT_BYTES: usize = 256 << 10;

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
    /// Records before this are passed over, but for stacks.
    floor_ns: u64,
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
    pub fn drain<E>(&mut self, time_ns: u64, mut sink: impl FnMut(usize, &[u8]) -> Result<(), E>) -> Result<(), E> {
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

    /// Forgets all records before `time_ns`, those that are still to come as well, but for stacks: the kernel tells
    /// each only once, and later records name it.
    pub fn discard(&mut self, time_ns: u64) {
        self.lanes.iter_mut().for_each(|lane| lane.discard(time_ns));
    }

    /// All records that wait, in any order.
    pub fn waiting(&self) -> impl Iterator<Item = &[u8]> {
        self.lanes.iter().flat_map(|lane| {
            lane.index[lane.next..].iter().map(|place| &lane.bytes[place.at as usize..][..place.len as usize])
        })
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
            self.admit(Place { time_ns: 0, at: at as u32, len: len as u32 });
            at += len;
        }
        self.bytes.truncate(at);
    }

    fn discard(&mut self, time_ns: u64) {
        self.floor_ns = time_ns;
        let waiting = self.index.split_off(self.next);
        self.index.clear();
        self.next = 0;
        waiting.into_iter().for_each(|place| self.admit(place));
        self.forget();
    }

    /// Takes a record into the order, unless it is to be passed over.
    fn admit(&mut self, place: Place) {
        let Some(frame) = decode::frame(&self.bytes[place.at as usize..][..place.len as usize]) else { return };
        if frame.time_ns >= self.floor_ns || inside::tells_stack(frame) {
            self.insert(Place { time_ns: frame.time_ns.max(self.floor_ns), ..place });
        }
    }

    fn insert(&mut self, place: Place) {
        let later = self.index[self.next..].iter().rev().take_while(|other| other.time_ns > place.time_ns).count();
        self.index.insert(self.index.len() - later, place);
    }

    /// Frees what was given away.
    fn forget(&mut self) {
        let Some(keep) = self.index[self.next..].iter().map(|place| place.at).min() else {
            self.bytes.clear();
            self.index.clear();
            self.next = 0;
            // After a storm, nothing of its size stays.
            self.bytes.shrink_to(KEPT_BYTES);
            self.index.shrink_to(KEPT_BYTES / size_of::<Place>());
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

#[cfg(test)]
mod tests {
    use super::super::decode::tests::{Bytes, switch};
    use super::*;

    /// Adds switches of these times to a CPU.
    fn add(merge: &mut Merge, cpu: usize, times: &[u64]) {
        let bytes: Vec<u8> = times.iter().flat_map(|&time| switch(1, time, true, false)).collect();
        // A ring gives its bytes in two parts where it begins again.
        let (first, second) = bytes.split_at(bytes.len() / 3);
        merge.add(cpu, [first, second]);
    }

    fn drained(merge: &mut Merge, before_ns: u64) -> Vec<(usize, u64)> {
        let mut times = Vec::new();
        let all: Result<(), ()> = merge.drain(before_ns, |cpu, record| {
            times.push((cpu, decode::time_ns(record)));
            Ok(())
        });
        all.unwrap();
        times
    }

    #[test]
    fn records_of_all_cpus_come_in_one_order() {
        let mut merge = Merge::new(3);
        add(&mut merge, 0, &[10, 40, 41]);
        add(&mut merge, 1, &[20, 30, 50]);
        add(&mut merge, 2, &[]);
        assert_eq!(drained(&mut merge, u64::MAX), [(0, 10), (1, 20), (1, 30), (0, 40), (0, 41), (1, 50)]);
        assert_eq!(drained(&mut merge, u64::MAX), []);
    }

    #[test]
    fn what_may_still_be_preceded_is_held_back() {
        let mut merge = Merge::new(2);
        add(&mut merge, 0, &[10, 40]);
        assert_eq!(drained(&mut merge, 40), [(0, 10)]);
        add(&mut merge, 1, &[20, 60]);
        assert_eq!(drained(&mut merge, 60), [(1, 20), (0, 40)]);
        assert_eq!(drained(&mut merge, 0), []);
        assert_eq!(drained(&mut merge, u64::MAX), [(1, 60)]);
    }

    #[test]
    fn a_record_that_an_interrupt_wrote_first_finds_its_place() {
        let mut merge = Merge::new(1);
        add(&mut merge, 0, &[10, 30, 20, 40]);
        assert_eq!(drained(&mut merge, 25), [(0, 10), (0, 20)]);
        add(&mut merge, 0, &[35]);
        assert_eq!(drained(&mut merge, u64::MAX), [(0, 30), (0, 35), (0, 40)]);
    }

    #[test]
    fn an_error_keeps_what_was_not_given_away() {
        let mut merge = Merge::new(1);
        add(&mut merge, 0, &[1, 2, 3]);
        assert_eq!(
            merge.drain(u64::MAX, |_, record| if decode::time_ns(record) == 2 { Err("full") } else { Ok(()) }),
            Err("full")
        );
        assert_eq!(drained(&mut merge, u64::MAX), [(0, 3)]);
    }

    #[test]
    fn a_stack_that_was_told_before_the_beginning_is_not_forgotten() {
        const USER_STACK: u64 = 0xb9f0_0000_0000_0006;
        let stack = |time: u64| {
            let head = Bytes::default().u32(9).u32(40 << 16).u64(USER_STACK).u32(1).u32(1).u64(time);
            head.u64(0).0
        };
        let mut merge = Merge::new(1);
        merge.add(0, [&stack(1), &[]]);
        add(&mut merge, 0, &[2, 5]);
        merge.discard(3);
        merge.add(0, [&stack(2), &[]]);
        assert_eq!(drained(&mut merge, u64::MAX), [(0, 1), (0, 2), (0, 5)], "the one at 2 is a stack");
    }

    #[test]
    fn what_came_before_the_beginning_is_forgotten() {
        let mut merge = Merge::new(2);
        add(&mut merge, 0, &[1, 5]);
        add(&mut merge, 1, &[2, 3]);
        merge.discard(3);
        add(&mut merge, 1, &[2, 4]);
        assert_eq!(drained(&mut merge, u64::MAX), [(1, 3), (1, 4), (0, 5)]);
    }

    #[test]
    fn many_small_portions_are_one_sequence() {
        let mut merge = Merge::new(2);
        let mut seen = Vec::new();
        for step in 0..1000 {
            add(&mut merge, 0, &[step * 10, step * 10 + 4]);
            add(&mut merge, 1, &[step * 10 + 2, step * 10 + 6]);
            seen.extend(drained(&mut merge, step * 10));
        }
        seen.extend(drained(&mut merge, u64::MAX));
        assert_eq!(seen.len(), 4000);
        assert!(seen.is_sorted_by_key(|(_, time)| *time));
    }
}
