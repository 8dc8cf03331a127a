//! parallel-for: threads claim the indices of a loop from one shared counter (Kraus, 2014).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::context::{Context, Lost, equal, lost_extra, work};
use super::drive::{Member, Phase, Raw, Task};
use super::place::{Padded, Placed};
use super::random::Draw;
use crate::arch;
use crate::lock::BenchLock;
use crate::sample::Failure;
use crate::spec::CounterKind;

/// The loop and its counters; compiled once, as only `mutex` needs a lock.
struct Indices {
    kind: CounterKind,
    chunk: u64,
    hold: Draw,
    gap: Draw,
    /// The next index.
    next: Padded<AtomicU64>,
    /// What every thread has claimed of its own share, for `sharded`.
    shards: Vec<Padded<AtomicU64>>,
    /// Indices that the unsynchronised baseline did twice or not at all.
    lost_updates: AtomicU64,
}

/// The loop with the cell's lock; its data's word is the next index of `mutex`.
struct ParallelFor<L> {
    indices: Indices,
    placed: Placed<L>,
}

/// Indices of thread t start at t times this when no total is given: more than a run can claim.
const SHARE: u64 = 1 << 50;

/// The loop around the cell's counter.
pub fn build<'a, L: BenchLock + 'a>(context: &Context<'_>) -> Result<Box<dyn Task + 'a>, Failure> {
    let indices = Indices {
        kind: context.spec.counter,
        chunk: context.spec.chunk,
        hold: context.hold,
        gap: context.gap,
        next: Padded::default(),
        shards: (0..context.spec.threads).map(|_| Padded::default()).collect(),
        lost_updates: AtomicU64::new(0),
    };
    Ok(Box::new(ParallelFor::<L> { indices, placed: context.place()? }))
}

impl Indices {
    /// Claims and does indices until there are none left; `claim` gives the first of a chunk. Indices from `end` on do
    /// not exist.
    #[inline]
    fn claim_all(&self, me: &mut Member<'_>, end: u64, mut claim: impl FnMut(&mut Member<'_>) -> u64) {
        while !me.stopped() {
            let start = claim(me);
            if start >= end {
                break;
            }
            let stop = end.min(start.saturating_add(self.chunk));
            for index in start..stop {
                // The body: empty, but not so empty that the compiler may leave it out.
                me.tally.sum = me.tally.sum.wrapping_add(std::hint::black_box(index));
                if self.gap != Draw::None {
                    let steps = self.gap.steps(&mut me.random);
                    work(steps);
                    me.tally.gap_steps += steps;
                }
            }
            me.tally.ops += stop - start;
        }
    }

    /// The counters that need no lock.
    fn run(&self, me: &mut Member<'_>, end: u64) {
        match self.kind {
            CounterKind::CasLoop => self.claim_all(me, end, |_| {
                self.advance(end, |next, old, new| next.compare_exchange(old, new, Relaxed, Relaxed))
            }),
            CounterKind::CmpXchg8b => {
                self.claim_all(me, end, |_| self.advance(end, arch::compare_exchange_8b));
            }
            CounterKind::Sharded => {
                let (first, last) = self.share(me.index, end);
                let mine = &self.shards[me.index];
                self.claim_all(me, last, |_| {
                    let claimed = mine.load(Relaxed);
                    mine.store((claimed + self.chunk).min(last - first), Relaxed);
                    first + claimed
                });
            }
            CounterKind::Xadd | CounterKind::Mutex => {
                self.claim_all(me, end, |_| self.next.fetch_add(self.chunk, Relaxed));
            }
        }
    }

    /// Advances the shared counter by a compare-exchange loop; stops at the end.
    #[inline]
    fn advance(&self, end: u64, exchange: impl Fn(&AtomicU64, u64, u64) -> Result<u64, u64>) -> u64 {
        let mut seen = self.next.load(Relaxed);
        while seen < end {
            match exchange(&self.next, seen, seen.saturating_add(self.chunk)) {
                Ok(_) => break,
                Err(now) => seen = now,
            }
        }
        seen
    }

    /// The indices that are a thread's own when nothing is shared.
    fn share(&self, index: usize, end: u64) -> (u64, u64) {
        let threads = self.shards.len() as u64;
        let index = index as u64;
        if end == u64::MAX {
            return (index * SHARE, (index + 1) * SHARE);
        }
        let at = |part: u64| (u128::from(end) * u128::from(part) / u128::from(threads)) as u64;
        (at(index), at(index + 1))
    }

    /// The sum and number of all indices done must be those of the range that was claimed; `locked` is where the
    /// counter under the lock stands.
    fn check(&self, phase: &Phase<'_>, locked: u64) -> Result<(), Lost> {
        let end = phase.limit;
        let ops = phase.tallies.iter().map(|tally| tally.ops).sum();
        let sum = phase.tallies.iter().fold(0_u64, |sum, tally| sum.wrapping_add(tally.sum));
        if self.kind == CounterKind::Sharded {
            let expected = self.shards.iter().enumerate().fold(0_u64, |sum, (index, claimed)| {
                let first = self.share(index, end).0;
                sum.wrapping_add(range_sum(first, first + claimed.load(Relaxed)))
            });
            return equal("sum of the indices", sum, expected);
        }
        let claimed = if self.kind == CounterKind::Mutex { locked } else { self.next.load(Relaxed) };
        equal("indices done", ops, claimed.min(end))?;
        equal("sum of the indices", sum, range_sum(0, claimed.min(end)))
    }

    fn reset(&self) {
        self.next.store(0, Relaxed);
        self.shards.iter().for_each(|claimed| claimed.store(0, Relaxed));
    }
}

/// The sum of the numbers from `start` up to but not including `end`, in 64 bits.
fn range_sum(start: u64, end: u64) -> u64 {
    let (start, end) = (u128::from(start), u128::from(end));
    ((end - start) * (start + end).saturating_sub(1) / 2) as u64
}

impl<L: BenchLock> Task for ParallelFor<L> {
    fn run(&self, me: &mut Member<'_>) {
        let (indices, end) = (&self.indices, me.limit);
        if indices.kind != CounterKind::Mutex {
            return indices.run(me, end);
        }
        let next = &self.placed.data().word;
        indices.claim_all(me, end, |me| {
            let steps = indices.hold.steps(&mut me.random);
            me.tally.hold_steps += steps;
            me.tally.acquisitions += u64::from(L::EXCLUDES);
            self.placed.lock().with(|| {
                let start = next.load(Relaxed);
                work(steps);
                next.store(start.saturating_add(indices.chunk).min(end), Relaxed);
                start
            })
        });
    }

    fn settle(&self, phase: &Phase<'_>) -> Result<(), String> {
        let next = &self.placed.data().word;
        let checked = self.indices.check(phase, next.load(Relaxed));
        self.indices.reset();
        next.store(0, Relaxed);
        let lost = checked.as_ref().err().map_or(0, |(lost, _)| *lost);
        self.indices.lost_updates.store(lost, Relaxed);
        match checked {
            Err((_, why)) if L::EXCLUDES || self.indices.kind != CounterKind::Mutex => Err(why),
            _ => Ok(()),
        }
    }

    fn extra(&self, _: &Raw) -> Vec<(String, f64)> {
        let locked = self.indices.kind == CounterKind::Mutex;
        if locked { lost_extra::<L>(&self.indices.lost_updates) } else { Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::range_sum;

    #[test]
    fn sums_of_ranges() {
        assert_eq!(range_sum(0, 0), 0);
        assert_eq!(range_sum(0, 5), 10);
        assert_eq!(range_sum(3, 6), 12);
        assert_eq!(range_sum(1 << 50, (1 << 50) + 1), 1 << 50);
    }
}
