//! rw: threads read and write one piece of data behind one lock; readers share it where the lock lets them.
//!
//! With `--writers` some threads only write and the others only read: a lock that prefers one side then shows it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use hdrhistogram::Histogram;

use super::context::{Context, Lost, equal, lost_extra, work};
use super::drive::{Member, Phase, PhaseKind, Raw, Tally, Task};
use super::place::{Padded, Placed};
use super::random::Draw;
use super::timing::{self, Timing};
use crate::lock::BenchLock;
use crate::sample::Failure;

struct Rw<L> {
    /// The lock, and with it the first half of the data.
    placed: Placed<L>,
    /// The second half: a count as the first. They differ only while a writer is at work.
    second: Padded<AtomicU64>,
    read_permille: u64,
    /// So many threads only write.
    writers: Option<usize>,
    hold: Draw,
    gap: Draw,
    waits: Mutex<Waits>,
    lost_updates: AtomicU64,
}

/// Times to come in, of readers and of writers.
struct Waits {
    reads: Histogram<u32>,
    writes: Histogram<u32>,
}

impl Waits {
    fn new() -> Waits {
        Waits { reads: timing::histogram(), writes: timing::histogram() }
    }

    fn record(&mut self, reads: bool, asked: Instant, had: Instant) {
        let histogram = if reads { &mut self.reads } else { &mut self.writes };
        histogram.saturating_record((had - asked).as_nanos() as u64);
    }

    fn add(&mut self, other: &Waits) {
        // Equal bounds, so neither can fail.
        let _ = self.reads.add(&other.reads);
        let _ = self.writes.add(&other.writes);
    }

    fn figures(&self) -> Vec<(String, f64)> {
        let mut figures = Vec::new();
        for (side, histogram) in [("read", &self.reads), ("write", &self.writes)] {
            if !histogram.is_empty() {
                let at = |quantile| histogram.value_at_quantile(quantile) as f64;
                figures.push((format!("{side}_wait_p50_ns"), at(0.5)));
                figures.push((format!("{side}_wait_p99_ns"), at(0.99)));
                figures.push((format!("{side}_wait_max_ns"), histogram.max() as f64));
            }
        }
        figures
    }
}

/// The data, guarded by the cell's lock.
pub fn build<'a, L: BenchLock + 'a>(context: &Context<'_>) -> Result<Box<dyn Task + 'a>, Failure> {
    let spec = context.spec;
    Ok(Box::new(Rw::<L> {
        placed: context.place()?,
        second: Padded::default(),
        read_permille: u64::from(spec.read_permille),
        writers: spec.writers.map(|writers| writers as usize),
        hold: context.hold,
        gap: context.gap,
        waits: Mutex::new(Waits::new()),
        lost_updates: AtomicU64::new(0),
    }))
}

impl<L: BenchLock> Rw<L> {
    /// Looks at both halves, working in between; false if somebody wrote meanwhile.
    #[inline(always)]
    fn read(&self, steps: u64) -> bool {
        let first = self.placed.data().word.load(Relaxed);
        work(steps);
        self.second.load(Relaxed) == first
    }

    /// Writes both halves, working in between; the first comes last, so that an intruder's is lost.
    #[inline(always)]
    fn write(&self, steps: u64) {
        let next = self.placed.data().word.load(Relaxed) + 1;
        self.second.store(next, Relaxed);
        work(steps);
        self.placed.data().word.store(next, Relaxed);
    }

    #[inline(always)]
    fn reads(&self, me: &mut Member<'_>) -> bool {
        match self.writers {
            Some(writers) => me.index >= writers,
            None => me.random.below(1_000) < self.read_permille,
        }
    }

    /// Operations without timing.
    #[inline(never)]
    fn plain(&self, me: &mut Member<'_>) {
        let mut tally = Tally::default();
        while tally.ops < me.limit && !me.stopped() {
            let inside = self.hold.steps(&mut me.random);
            if self.reads(me) {
                tally.violations += u64::from(!self.placed.lock().with_shared(|| self.read(inside)));
            } else {
                self.placed.lock().with(|| self.write(inside));
                tally.sum += 1;
            }
            let outside = self.gap.steps(&mut me.random);
            work(outside);
            tally.ops += 1;
            tally.hold_steps += inside;
            tally.gap_steps += outside;
        }
        me.tally = tally;
    }

    /// Operations of which a sample is timed, and every one of the rarer kind that such a sample would miss: writes.
    #[inline(never)]
    fn timed(&self, me: &mut Member<'_>, mut timing: Timing) {
        let (mut tally, mut waits) = (Tally::default(), Waits::new());
        while tally.ops < me.limit && !me.stopped() {
            let inside = self.hold.steps(&mut me.random);
            let reads = self.reads(me);
            let due = timing.due();
            let asked = (due || !reads).then(Instant::now);
            let had = || asked.map(|_| Instant::now());
            let had = if reads {
                let (whole, had) = self.placed.lock().with_shared(|| {
                    let had = had();
                    (self.read(inside), had)
                });
                tally.violations += u64::from(!whole);
                had
            } else {
                tally.sum += 1;
                self.placed.lock().with(|| {
                    let had = had();
                    self.write(inside);
                    had
                })
            };
            if let (Some(asked), Some(had)) = (asked, had) {
                waits.record(reads, asked, had);
                if due {
                    timing.record(asked, had);
                }
            }
            let outside = self.gap.steps(&mut me.random);
            work(outside);
            tally.ops += 1;
            tally.hold_steps += inside;
            tally.gap_steps += outside;
        }
        self.waits.lock().unwrap_or_else(PoisonError::into_inner).add(&waits);
        (me.tally, me.timing) = (tally, Some(timing));
    }

    fn check(&self, done: &[Tally]) -> Result<(), Lost> {
        let found = self.placed.data().word.load(Relaxed);
        equal("writes", found, done.iter().map(|tally| tally.sum).sum())?;
        equal("reads of half-written data", done.iter().map(|tally| tally.violations).sum(), 0)
    }
}

impl<L: BenchLock> Task for Rw<L> {
    fn run(&self, me: &mut Member<'_>) {
        match me.timing.take() {
            Some(timing) => self.timed(me, timing),
            None => self.plain(me),
        }
        me.tally.acquisitions = if L::EXCLUDES { me.tally.ops } else { 0 };
    }

    fn settle(&self, phase: &Phase<'_>) -> Result<(), String> {
        let checked = self.check(phase.tallies);
        self.placed.data().word.store(0, Relaxed);
        self.second.store(0, Relaxed);
        if phase.kind == PhaseKind::Measured {
            self.lost_updates.store(checked.as_ref().err().map_or(0, |(lost, _)| *lost), Relaxed);
        }
        match checked {
            Err((_, why)) if L::EXCLUDES => Err(why),
            _ => Ok(()),
        }
    }

    fn extra(&self, raw: &Raw) -> Vec<(String, f64)> {
        let total = |of: fn(&Tally) -> u64| raw.tallies.iter().map(of).sum::<u64>() as f64;
        let per_s = 1e9 / raw.elapsed_ns.max(1) as f64;
        let mut extra = lost_extra::<L>(&self.lost_updates);
        extra.push(("reads_per_s".to_owned(), total(|tally| tally.ops - tally.sum) * per_s));
        extra.push(("writes_per_s".to_owned(), total(|tally| tally.sum) * per_s));
        extra.extend(self.waits.lock().unwrap_or_else(PoisonError::into_inner).figures());
        extra
    }
}
