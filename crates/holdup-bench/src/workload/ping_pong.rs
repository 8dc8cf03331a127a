//! ping-pong: two threads hand every packet to each other, or one thread does both sides' work (Windows CE team, 2007).

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::context::{Context, lost_extra, work};
use super::drive::{Member, Phase, Raw, Tally, Task};
use super::place::{Padded, Placed};
use super::random::{Draw, Random};
use crate::lock::BenchLock;
use crate::sample::Failure;
use crate::sys;

/// Two mailboxes, one for each direction.
struct Pair<L> {
    /// Towards the side that sends first, and towards the other.
    boxes: [Mailbox<L>; 2],
}

/// A mailbox: the lock's data word says how many packets are in it; sleepers sleep on the bell.
struct Mailbox<L> {
    placed: Placed<L>,
    bell: Padded<AtomicU32>,
}

/// An operation is one side's work on one packet, whether two threads are the sides or one is both.
pub const SIDES: u64 = 2;

/// In place of packets: there will be none any more.
const CLOSED: u64 = u64::MAX;

struct PingPong<L> {
    /// None when one thread does both sides' work.
    pairs: Vec<Pair<L>>,
    batch: u64,
    hold: Draw,
    gap: Draw,
    lost_updates: AtomicU64,
}

/// The pairs of the cell.
pub fn build<'a, L: BenchLock + 'a>(context: &Context<'_>) -> Result<Box<dyn Task + 'a>, Failure> {
    let mailbox = || Ok(Mailbox { placed: context.place()?, bell: Padded::default() });
    let pair = |_| Ok(Pair { boxes: [mailbox()?, mailbox()?] });
    Ok(Box::new(PingPong::<L> {
        pairs: (0..context.spec.threads / 2).map(pair).collect::<Result<_, Failure>>()?,
        batch: u64::from(context.spec.batch),
        hold: context.hold,
        gap: context.gap,
        lost_updates: AtomicU64::new(0),
    }))
}

impl<L: BenchLock> Mailbox<L> {
    fn put(&self, packets: u64, tally: &mut Tally) {
        let word = &self.placed.data().word;
        self.placed.lock().with(|| word.store(packets, Ordering::Release));
        tally.acquisitions += u64::from(L::EXCLUDES);
        // Release: with `--lock none` the bell is all that orders the packets.
        self.bell.fetch_add(1, Ordering::Release);
        sys::wake(&self.bell, 1);
    }

    /// Waits for packets and takes them out.
    fn take(&self, tally: &mut Tally) -> u64 {
        let word = &self.placed.data().word;
        loop {
            let bell = self.bell.load(Ordering::Acquire);
            let packets = self.placed.lock().with(|| {
                let packets = word.load(Ordering::Acquire);
                // With `--lock none`, packets may come between the two: only those that were seen are taken out.
                if packets != 0 && packets != CLOSED {
                    word.store(0, Ordering::Relaxed);
                }
                packets
            });
            tally.acquisitions += u64::from(L::EXCLUDES);
            if packets != 0 {
                return packets;
            }
            sys::wait_on(&self.bell, bell, None);
        }
    }

    fn empty(&self) {
        self.placed.data().word.store(0, Ordering::Relaxed);
    }
}

impl<L: BenchLock> PingPong<L> {
    fn work_on(draw: Draw, packets: u64, random: &mut Random) -> u64 {
        let mut steps = 0;
        for _ in 0..packets {
            let packet = draw.steps(random);
            work(packet);
            steps += packet;
        }
        steps
    }

    /// Works on packets, hands them over and waits until they come back.
    fn first_side(&self, pair: &Pair<L>, me: &mut Member<'_>) {
        while me.tally.ops < me.limit && !me.stopped() {
            let packets = self.batch.min(me.limit - me.tally.ops);
            me.tally.hold_steps += Self::work_on(self.hold, packets, &mut me.random);
            pair.boxes[1].put(packets, &mut me.tally);
            let back = pair.boxes[0].take(&mut me.tally);
            me.tally.violations += u64::from(back != packets);
            me.tally.ops += packets;
            me.tally.sum += 1;
        }
        pair.boxes[1].put(CLOSED, &mut me.tally);
    }

    /// Waits for packets, works on them and sends them back.
    fn second_side(&self, pair: &Pair<L>, me: &mut Member<'_>) {
        loop {
            let packets = pair.boxes[1].take(&mut me.tally);
            if packets == CLOSED {
                return;
            }
            me.tally.gap_steps += Self::work_on(self.gap, packets, &mut me.random);
            me.tally.ops += packets;
            pair.boxes[0].put(packets, &mut me.tally);
        }
    }

    /// One thread does what both sides would: nothing is handed over. Its operations are those of both.
    fn both_sides(&self, me: &mut Member<'_>) {
        let mut done = 0;
        while done < me.limit && !me.stopped() {
            let packets = self.batch.min(me.limit - done);
            me.tally.hold_steps += Self::work_on(self.hold, packets, &mut me.random);
            me.tally.gap_steps += Self::work_on(self.gap, packets, &mut me.random);
            done += packets;
            me.tally.sum += 1;
        }
        me.tally.ops = done * SIDES;
    }
}

impl<L: BenchLock> Task for PingPong<L> {
    fn run(&self, me: &mut Member<'_>) {
        match self.pairs.get(me.index / 2) {
            None => self.both_sides(me),
            Some(pair) if me.index.is_multiple_of(2) => self.first_side(pair, me),
            Some(pair) => self.second_side(pair, me),
        }
    }

    fn settle(&self, phase: &Phase<'_>) -> Result<(), String> {
        self.pairs.iter().flat_map(|pair| &pair.boxes).for_each(Mailbox::empty);
        let mut wrong: u64 = phase.tallies.iter().map(|tally| tally.violations).sum();
        if !self.pairs.is_empty() {
            wrong += phase.tallies.chunks(2).map(|pair| pair[0].ops.abs_diff(pair[1].ops)).sum::<u64>();
        }
        self.lost_updates.store(wrong, Ordering::Relaxed);
        if wrong == 0 || !L::EXCLUDES {
            return Ok(());
        }
        Err(format!("{wrong} packets were lost or counted twice on their way: the lock does not exclude"))
    }

    fn extra(&self, raw: &Raw) -> Vec<(String, f64)> {
        let trips: u64 = raw.tallies.iter().map(|tally| tally.sum).sum();
        let packets = raw.tallies.iter().map(|tally| tally.ops).sum::<u64>() / SIDES;
        let cpu_ns: u64 = raw.usages.iter().map(|usage| usage.user_ns + usage.kernel_ns).sum();
        let switches: Option<u64> = raw.usages.iter().map(crate::sys::Usage::switches).sum();
        let per_s = 1e9 / raw.elapsed_ns.max(1) as f64;
        let mut extra = lost_extra::<L>(&self.lost_updates);
        extra.extend([
            ("round_trips_per_s".to_owned(), trips as f64 * per_s),
            ("packets_per_s".to_owned(), packets as f64 * per_s),
        ]);
        // A thread that was never switched out had one run.
        let runs = switches.map(|switches| switches.max(raw.usages.len() as u64) as f64);
        extra.extend(runs.map(|runs| ("run_length_mean_ns".to_owned(), cpu_ns as f64 / runs)));
        extra
    }
}
