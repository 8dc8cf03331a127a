//! The timeline: what each thread did when, and the samples.

use rustc_hash::FxHashMap;

use super::chains::Meaning as _;
use super::doing::{Doing, Plain};
use super::ids::{Table, ThreadId};
use super::lock::Place;
use super::lookup::Lookup;
use super::meaning::Meanings;
use super::row::{Marks, SampleAt, State, StretchKind, Timeline, Wake};
use crate::facts::LockNumber;

/// What the engine kept for the timeline alone: large, and so moved, not copied.
pub(super) struct Kept {
    pub marks: Vec<Marks>,
    pub wakes: Vec<Wake>,
    pub sampled: Vec<(u64, ThreadId, Place)>,
}

/// Every thread's row and all samples.
pub(super) fn draw(lookup: &mut Lookup, meanings: &Meanings, kept: Kept) -> Timeline {
    let engine = lookup.engine;
    let mut timeline = Timeline { wakes: kept.wakes, ..Timeline::default() };
    timeline.wakes.sort_by_key(|wake| wake.time_ns);
    let mut call_paths: FxHashMap<Place, u32> = FxHashMap::default();
    let mut known: FxHashMap<StretchKind, u32> = FxHashMap::default();
    let mut told: Vec<u32> = Vec::new();
    for (doing, place) in &engine.kinds {
        let call_path = path_index(lookup, &mut call_paths, &mut timeline, *place);
        let kind = StretchKind { state: state(meanings, *doing), call_path };
        told.push(*known.entry(kind).or_insert_with(|| {
            timeline.kinds.push(kind);
            timeline.kinds.len() as u32 - 1
        }));
    }
    let mut rows: Table<ThreadId, Option<u32>> = Table::default();
    for (thread, marks) in engine.threads.iter().zip(kept.marks) {
        let is_kept = lookup.is_kept(thread);
        rows.push(is_kept.then_some(timeline.threads.len() as u32));
        if is_kept {
            timeline.threads.push(marks.into_row(thread.born, thread.last, |kind| told[kind as usize]));
        }
    }
    for (time_ns, ti, place) in kept.sampled {
        let Some(thread) = rows[ti] else { continue };
        let Some(call_path) = path_index(lookup, &mut call_paths, &mut timeline, place) else { continue };
        timeline.samples.push(SampleAt { time_ns, thread, call_path });
    }
    timeline.samples.sort_by_key(|sample| sample.time_ns);
    timeline
}

/// A call path of the timeline; none where no stack is known.
fn path_index(
    lookup: &mut Lookup,
    known: &mut FxHashMap<Place, u32>,
    timeline: &mut Timeline,
    place: Place,
) -> Option<u32> {
    place.stack?;
    Some(*known.entry(place).or_insert_with(|| {
        timeline.call_paths.push(lookup.call_path(place));
        timeline.call_paths.len() as u32 - 1
    }))
}

fn state(meanings: &Meanings, doing: Doing) -> State {
    match doing {
        Doing::Running(cpu) => State::Running { cpu },
        Doing::Ready => State::Runnable,
        Doing::Plain(Plain::Unknown) => State::Unknown,
        Doing::Futex(wait_site) => {
            let lock = meanings.locks[wait_site].map(LockNumber::from);
            State::Off { reason: meanings.reason(doing), lock }
        }
        _ => State::Off { reason: meanings.reason(doing), lock: None },
    }
}
