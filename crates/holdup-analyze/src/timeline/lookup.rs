//! What was summed up, with names for its places and threads.

use std::sync::Arc;

use holdup_trace::Tid;
use rustc_hash::FxHashMap;

use super::engine::Engine;
use super::ids::ThreadId;
use super::lock::Place;
use super::naming::Naming;
use super::tally::Tally;
use super::thread::{State, Thread};
use crate::facts::Site;
use crate::names::{Frame, Role, interpreted};

/// Places of one list that are named at all, by weight; the rest could not show up.
pub(super) const NAMED_PLACES: usize = 256;
/// Sites of one list that are kept.
pub(super) const SITES: usize = 16;

pub(super) struct Lookup<'a> {
    pub engine: &'a Engine,
    pub naming: &'a mut dyn Naming,
}

impl Lookup<'_> {
    /// Threads that ended before the window are not told of.
    pub(super) fn is_kept(&self, thread: &Thread) -> bool {
        let before = thread.state == State::Ended && thread.last <= self.engine.from;
        !(before && self.engine.from > 0)
    }

    pub(super) fn call_path(&mut self, place: Place) -> Arc<[Frame]> {
        let place = self.interpreted(place);
        self.own_path(place)
    }

    /// The call path without what other threads were found to execute at such a place.
    pub(super) fn own_path(&mut self, place: Place) -> Arc<[Frame]> {
        let native = match self.engine.interpreted.native(place.stack) {
            Some(stack) => self.naming.call_path(place.space, stack.into()),
            None => Arc::from([]),
        };
        self.with_code(place.stack, native)
    }

    /// Whether a sample hit what the kernel does for the recording.
    pub(super) fn is_of_recording(&mut self, place: Place) -> bool {
        let native = self.engine.interpreted.native(place.stack);
        native.is_some_and(|stack| self.naming.is_of_recording(stack.into()))
    }

    pub(super) fn tid(&self, ti: ThreadId) -> Tid {
        self.engine.threads[ti].tid
    }

    /// Of nobody that is recorded, 0.
    pub(super) fn tid_of(&self, ti: Option<ThreadId>) -> Tid {
        ti.map_or(Tid(0), |ti| self.tid(ti))
    }

    /// Sites of places, heaviest first: by time, then by count. Places with the same call path are one.
    pub(super) fn sites<V: Default>(
        &mut self,
        places: &Tally<Place, V>,
        weight: impl Fn(&V) -> (u64, u64),
    ) -> Vec<Site> {
        let mut list: Vec<(Place, u64, u64)> = places
            .iter()
            .filter(|(place, _)| place.stack.is_some())
            .map(|(place, value)| {
                let (count, ns) = weight(value);
                (*place, count, ns)
            })
            .collect();
        self.share_out(&mut list);
        list.sort_by_key(|(place, count, ns)| (std::cmp::Reverse((*ns, *count)), *place));
        list.truncate(NAMED_PLACES);
        let mut known: FxHashMap<Arc<[Frame]>, usize> = FxHashMap::default();
        let mut sites: Vec<Site> = Vec::new();
        for (place, count, ns) in list {
            let call_path = self.call_path(place);
            if call_path.is_empty() {
                continue;
            }
            let at = *known.entry(call_path.clone()).or_insert_with(|| {
                sites.push(Site { call_path: call_path.to_vec(), ..Site::default() });
                sites.len() - 1
            });
            sites[at].count += count;
            sites[at].ns += ns;
        }
        share_out_unseen(&mut sites);
        sites.sort_by_key(|site| std::cmp::Reverse((site.ns, site.count)));
        sites.truncate(SITES);
        sites
    }
}

/// Waits in Java's machine and in Node's engine that no look found are shared out among those that entered it by the
/// same function.
fn share_out_unseen(sites: &mut Vec<Site>) {
    let of_java = |site: &Site| {
        let of_machine = |frame: &&Frame| frame.role == Role::Lock && frame.module.ends_with("/libjvm.so");
        site.call_path.iter().rev().find(of_machine).and_then(|frame| frame.function.clone())
    };
    let entry = |site: &Site| of_java(site).or_else(|| interpreted::functions_of_node(&site.call_path));
    let is_told = |site: &Site| site.caller().is_some_and(|frame| frame.role == Role::Program && frame.line.is_some());
    let entries: Vec<Option<Arc<str>>> = sites.iter().map(entry).collect();
    if entries.iter().all(Option::is_none) {
        return;
    }
    let told: Vec<bool> = sites.iter().map(is_told).collect();
    let mut lost = vec![false; sites.len()];
    for at in 0..sites.len() {
        let nameless = sites[at].caller().is_none_or(|frame| frame.role != Role::Program);
        let like = |other: &usize| told[*other] && entries[*other] == entries[at];
        let others: Vec<usize> = (0..sites.len()).filter(like).collect();
        if !nameless || entries[at].is_none() || others.is_empty() {
            continue;
        }
        lost[at] = true;
        let Site { count, ns, .. } = sites[at];
        let all: u64 = others.iter().map(|other| sites[*other].ns + 1).sum();
        for other in others {
            let weight = sites[other].ns + 1;
            sites[other].count += part(count, weight, all);
            sites[other].ns += part(ns, weight, all);
        }
    }
    let mut lost = lost.into_iter();
    sites.retain(|_| !lost.next().unwrap_or(false));
}

/// What falls to one of all parts of a whole.
pub(super) fn part(whole: u64, one: u64, all: u64) -> u64 {
    (u128::from(whole) * u128::from(one) / u128::from(all)) as u64
}

pub(super) fn function_name(frame: &Frame) -> String {
    match &frame.function {
        Some(function) => function.to_string(),
        None => {
            let module = frame.module.rsplit('/').next().unwrap_or_default();
            format!("{module}+{:#x}", frame.start)
        }
    }
}
