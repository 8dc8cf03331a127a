//! Pairs of threads that wake each other in turn.

use rustc_hash::FxHashMap;

use super::ids::ThreadId;
use super::lock::Place;
use crate::Histogram;
use crate::facts::Wakings;

/// More pairs than this are not kept: the rare ones go.
const MOST: usize = 8192;

/// Places of a pair that are told apart.
const PLACES: usize = 8;

#[derive(Debug, Default)]
pub(super) struct Pairs {
    map: FxHashMap<(ThreadId, ThreadId, bool), Pair>,
}

/// Two threads, the first with the smaller id.
#[derive(Debug, Default)]
pub(super) struct Pair {
    pub wakings: Wakings,
    pub round_trips: u64,
    pub run_ns: Histogram,
    pub places: Vec<(Place, u64)>,
    pub from: u64,
    pub to: u64,
    /// The direction of the last wake that is not yet part of a round trip.
    open: Option<bool>,
}

/// One hand-over.
#[derive(Clone, Copy, Debug)]
pub(super) struct HandOver {
    pub from: ThreadId,
    pub to: ThreadId,
    pub at: u64,
    pub place: Place,
    /// How long the waker ran since the other woke it.
    pub run: Option<u64>,
    /// No wake was seen: it is concluded from their running in turn.
    pub inferred: bool,
}

impl Pairs {
    pub(super) fn add(&mut self, hand: HandOver) {
        if hand.from == hand.to {
            return;
        }
        if self.map.len() >= MOST {
            self.prune();
        }
        let key = (hand.from.min(hand.to), hand.from.max(hand.to), hand.inferred);
        self.map.entry(key).or_default().add(hand);
    }

    /// The woken thread took the CPU of the one that woke it, blocked, and gave it back: a round trip without a second
    /// wake.
    pub(super) fn give_back(&mut self, a: ThreadId, b: ThreadId) {
        if let Some(pair) = self.map.get_mut(&(a.min(b), a.max(b), false)) {
            pair.round_trips += 1;
            pair.open = None;
        }
    }

    /// Tells where the last hand-over between two was: the kernel's wake-up may bear no stack, but the call that made
    /// it does.
    pub(super) fn place(&mut self, from: ThreadId, to: ThreadId, place: Place) {
        if let Some(pair) = self.map.get_mut(&(from.min(to), from.max(to), false)) {
            pair.at_place(place);
        }
    }

    /// Forgets every pair with less than the mean of hand-overs.
    fn prune(&mut self) {
        let sum: u64 = self.map.values().map(Pair::hand_overs).sum();
        let mean = sum / self.map.len().max(1) as u64;
        self.map.retain(|_, pair| pair.hand_overs() > mean);
    }

    /// All pairs: the threads, whether it is inferred, sums.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&(ThreadId, ThreadId, bool), &Pair)> {
        self.map.iter()
    }
}

impl Pair {
    pub(super) fn hand_overs(&self) -> u64 {
        self.wakings.a_to_b + self.wakings.b_to_a
    }

    fn add(&mut self, hand: HandOver) {
        let forward = hand.from < hand.to;
        match forward {
            true => self.wakings.a_to_b += 1,
            false => self.wakings.b_to_a += 1,
        }
        if self.open == Some(!forward) {
            self.round_trips += 1;
            self.open = None;
        } else {
            self.open = Some(forward);
        }
        if let Some(run) = hand.run {
            self.run_ns.add(run);
        }
        if self.from == 0 {
            self.from = hand.at;
        }
        self.to = self.to.max(hand.at);
        if hand.place.stack.is_some() {
            self.at_place(hand.place);
        }
    }

    fn at_place(&mut self, place: Place) {
        if let Some((_, count)) = self.places.iter_mut().find(|(known, _)| *known == place) {
            *count += 1;
        } else if self.places.len() < PLACES {
            self.places.push((place, 1));
        }
    }
}
