//! db: threads read and update numbered entries of an in-memory database (Emmons, 2001).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use holdup_locks::technique::{key_of, mix};

use super::context::{Context, Lost, equal, lost_extra, unsupported, work};
use super::drive::{Member, Phase, PhaseKind, Raw, Tally, Task};
use super::place::{Padded, Placed};
use super::random::Draw;
use crate::lock::BenchLock;
use crate::sample::Failure;
use crate::spec::Table;

/// An entry's text, as words. Every update writes all of them; a reader that finds them unequal was not alone.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Entry([AtomicU64; 8]);

/// An entry with its own lock in it.
struct LockedEntry<L> {
    lock: L,
    entry: Entry,
}

/// The entries and what guards them.
enum Guarded<L> {
    /// One lock for all.
    One(Placed<L>, Vec<Entry>),
    /// A lock table: the entry's address picks the lock.
    Slots(Vec<Padded<L>>, Vec<Entry>),
    /// A lock in each entry.
    PerEntry(Vec<LockedEntry<L>>),
}

struct Db<L> {
    guarded: Guarded<L>,
    /// Readers may share.
    shared: bool,
    read_percent: u64,
    read: Draw,
    update: Draw,
    gap: Draw,
    lost_updates: AtomicU64,
}

/// The database, guarded as the cell says.
pub fn build<'a, L: BenchLock + 'a>(context: &Context<'_>) -> Result<Box<dyn Task + 'a>, Failure> {
    let spec = context.spec;
    Ok(Box::new(Db {
        guarded: Guarded::<L>::new(context)?,
        shared: spec.table == Table::ReaderWriter,
        read_percent: u64::from(spec.read_percent),
        read: Draw::of(spec.read, context.unit_ns),
        update: Draw::of(spec.update, context.unit_ns),
        gap: context.gap,
        lost_updates: AtomicU64::new(0),
    }))
}

/// Which lock of a table of so many is a key's: the choice of `holdup_locks::technique::LockTable`, whose size is part
/// of its type, for a size that is only known now.
fn slot_of(key: u64, slots: usize) -> usize {
    ((u128::from(mix(key)) * slots as u128) >> 64) as usize
}

impl<L: BenchLock> Guarded<L> {
    fn new(context: &Context<'_>) -> Result<Self, Failure> {
        let spec = context.spec;
        let entries = || (0..spec.entries).map(|_| Entry::default()).collect();
        Ok(match spec.table {
            Table::One | Table::ReaderWriter => Guarded::One(context.place()?, entries()),
            Table::Slots(count) => {
                let slots = (0..count).map(|_| L::create(spec).map(Padded)).collect::<Result<Vec<_>, _>>();
                let slots = slots.map_err(unsupported)?;
                slots.iter().try_for_each(|slot| slot.settle()).map_err(unsupported)?;
                Guarded::Slots(slots, entries())
            }
            Table::PerEntry => {
                let entry = |_| Ok(LockedEntry { lock: L::create(spec)?, entry: Entry::default() });
                let entries = (0..spec.entries).map(entry).collect::<Result<Vec<_>, String>>();
                let entries = entries.map_err(unsupported)?;
                entries.iter().try_for_each(|entry| entry.lock.settle()).map_err(unsupported)?;
                Guarded::PerEntry(entries)
            }
        })
    }

    /// Both ends of an operation: the entry, and the lock that guards it.
    #[inline]
    fn find(&self, index: usize) -> (&Entry, &L) {
        match self {
            Guarded::One(placed, entries) => (&entries[index], placed.lock()),
            Guarded::Slots(slots, entries) => {
                let entry = &entries[index];
                (entry, &slots[slot_of(key_of(entry), slots.len())])
            }
            Guarded::PerEntry(entries) => (&entries[index].entry, &entries[index].lock),
        }
    }

    fn len(&self) -> usize {
        match self {
            Guarded::One(_, entries) | Guarded::Slots(_, entries) => entries.len(),
            Guarded::PerEntry(entries) => entries.len(),
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        (0..self.len()).map(|index| self.find(index).0)
    }
}

impl Entry {
    /// Copies the values, working between the two halves; false if somebody wrote meanwhile.
    fn read(&self, steps: u64) -> bool {
        let (first, second) = self.0.split_at(4);
        let mut copy = [0; 8];
        copy[..4].iter_mut().zip(first).for_each(|(to, from)| *to = from.load(Relaxed));
        work(steps);
        copy[4..].iter_mut().zip(second).for_each(|(to, from)| *to = from.load(Relaxed));
        copy.iter().all(|word| *word == copy[0])
    }

    /// Writes the next values, working between the two halves; the count comes last, so that an intruder's is lost.
    fn update(&self, steps: u64) {
        let (first, second) = self.0.split_at(4);
        let next = first[0].load(Relaxed) + 1;
        second.iter().for_each(|word| word.store(next, Relaxed));
        work(steps);
        first.iter().for_each(|word| word.store(next, Relaxed));
    }
}

impl<L: BenchLock> Db<L> {
    fn check(&self, done: &[Tally]) -> Result<(), Lost> {
        let found = self.guarded.entries().map(|entry| entry.0[0].load(Relaxed)).sum();
        equal("updates in the entries", found, done.iter().map(|tally| tally.sum).sum())?;
        equal("reads of half-written entries", done.iter().map(|tally| tally.violations).sum(), 0)
    }
}

impl<L: BenchLock> Task for Db<L> {
    fn run(&self, me: &mut Member<'_>) {
        let entries = self.guarded.len() as u64;
        let mut tally = Tally::default();
        while tally.ops < me.limit && !me.stopped() {
            let (entry, lock) = self.guarded.find(me.random.below(entries) as usize);
            let reads = me.random.below(100) < self.read_percent;
            let inside = if reads { self.read } else { self.update }.steps(&mut me.random);
            if !reads {
                lock.with(|| entry.update(inside));
                tally.sum += 1;
            } else {
                let whole = if self.shared {
                    lock.with_shared(|| entry.read(inside))
                } else {
                    lock.with(|| entry.read(inside))
                };
                tally.violations += u64::from(!whole);
            }
            let outside = self.gap.steps(&mut me.random);
            work(outside);
            tally.ops += 1;
            tally.acquisitions += u64::from(L::EXCLUDES);
            tally.hold_steps += inside;
            tally.gap_steps += outside;
        }
        me.tally = tally;
    }

    fn settle(&self, phase: &Phase<'_>) -> Result<(), String> {
        let checked = self.check(phase.tallies);
        self.guarded.entries().flat_map(|entry| &entry.0).for_each(|word| word.store(0, Relaxed));
        if phase.kind == PhaseKind::Measured {
            self.lost_updates.store(checked.as_ref().err().map_or(0, |(lost, _)| *lost), Relaxed);
        }
        match checked {
            Err((_, why)) if L::EXCLUDES => Err(why),
            _ => Ok(()),
        }
    }

    fn extra(&self, raw: &Raw) -> Vec<(String, f64)> {
        let updates: u64 = raw.tallies.iter().map(|tally| tally.sum).sum();
        let mut extra = lost_extra::<L>(&self.lost_updates);
        extra.push(("updates".to_owned(), updates as f64));
        extra
    }
}

#[cfg(test)]
mod tests {
    use holdup_locks::technique::{DefaultLock, LockTable};

    #[test]
    fn the_table_of_any_size_chooses_as_the_library_s_does() {
        let (small, usual): (LockTable<DefaultLock, 7>, LockTable<DefaultLock>) = Default::default();
        for key in (0..10_000).map(|n: u64| n * 64) {
            assert_eq!(super::slot_of(key, 7), small.slot_of(key));
            assert_eq!(super::slot_of(key, 256), usual.slot_of(key));
        }
    }
}
