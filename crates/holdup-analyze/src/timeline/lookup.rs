//! What was summed up, with names for its places and threads.

use std::sync::Arc;

use holdup_trace::{StackId, Tid};
use rustc_hash::FxHashMap;

use super::doing::NONE;
use super::engine::Engine;
use super::lock::Place;
use super::naming::Naming;
use super::tally::Tally;
use super::thread::{State, Thread};
use crate::facts::Site;
use crate::names::Frame;

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
        match place.stack {
            NONE => Arc::from([]),
            stack => self.naming.call_path(place.space, StackId(stack)),
        }
    }

    pub(super) fn tid(&self, ti: u32) -> Tid {
        self.engine.threads.get(ti as usize).map_or(Tid(0), |thread| thread.tid)
    }

    /// Sites of places, heaviest first: by time, then by count. Places with the same call path are one.
    pub(super) fn sites<V: Default>(
        &mut self,
        places: &Tally<Place, V>,
        weight: impl Fn(&V) -> (u64, u64),
    ) -> Vec<Site> {
        let mut list: Vec<(Place, u64, u64)> = places
            .iter()
            .filter(|(place, _)| place.stack != NONE)
            .map(|(place, value)| {
                let (count, ns) = weight(value);
                (*place, count, ns)
            })
            .collect();
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
        sites.sort_by_key(|site| std::cmp::Reverse((site.ns, site.count)));
        sites.truncate(SITES);
        sites
    }
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
