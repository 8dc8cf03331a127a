//! What threads do on a page: each kind of state once, by number; and each kind of stretch, which is a state and the
//! call path on which the thread left the CPU.

use std::collections::HashMap;

use holdup_analyze::{AccountState, Facts, State, StretchKind, Timeline};
use holdup_trace::NO_CPU;
use schemars::JsonSchema;
use serde::Serialize;

use crate::export::{Label, group};

/// With more kinds of stretches than this, a page does without their call paths: it keeps a kind in two bytes.
const MOST_KINDS: usize = 60_000;

/// The states of a timeline, and which of them each of its kinds is.
#[derive(Debug, Default)]
pub(super) struct States {
    states: Vec<State>,
    /// By kind of the page: its state, and its call path.
    kinds: Vec<(u32, Option<u32>)>,
    /// By kind of the timeline: the kind of the page.
    told: Vec<u32>,
}

impl States {
    pub(super) fn new(timeline: &Timeline) -> States {
        let mut states = States::default();
        let (mut numbers, mut known) = (HashMap::new(), HashMap::new());
        let has_paths = timeline.kinds.len() <= MOST_KINDS;
        for StretchKind { state, call_path } in &timeline.kinds {
            let number = *numbers.entry(Label::of(*state)).or_insert_with(|| {
                states.states.push(*state);
                states.states.len() as u32 - 1
            });
            let call_path =
                call_path.filter(|call_path| has_paths && (*call_path as usize) < timeline.call_paths.len());
            states.told.push(*known.entry((number, call_path)).or_insert_with(|| {
                states.kinds.push((number, call_path));
                states.kinds.len() as u32 - 1
            }));
        }
        states
    }

    /// The page's number of a kind of the timeline.
    pub(super) fn kind(&self, kind: u32) -> u32 {
        self.told[kind as usize]
    }

    /// The state of a kind of the timeline, and what it counts for.
    pub(super) fn state(&self, kind: u32) -> (u32, AccountState) {
        let (state, _) = self.kinds[self.kind(kind) as usize];
        (state, group(self.states[state as usize]))
    }

    /// For the page: a state and a call path for each kind.
    pub(super) fn kinds(&self) -> Vec<StretchRow> {
        self.kinds.iter().map(|(state, call_path)| StretchRow { state: *state, call_path: *call_path }).collect()
    }

    /// For the page: group, words, and the CPU or the lock.
    pub(super) fn table(&self, facts: &Facts) -> Vec<StateRow> {
        let row = |state: &State| {
            let (cpu, lock) = match *state {
                State::Running { cpu } if cpu != NO_CPU => (Some(cpu), None),
                State::Off { lock: Some(lock), .. } if facts.lock(lock).is_some() => (None, Some(lock.0)),
                _ => (None, None),
            };
            StateRow { group: group(*state), label: Label::of(*state).text(facts), cpu, lock }
        };
        self.states.iter().map(row).collect()
    }
}

/// A kind of state.
#[derive(Serialize, JsonSchema)]
pub(super) struct StateRow {
    /// What it counts for in the account, and so how it is drawn.
    group: AccountState,
    /// In words.
    label: String,
    /// On which CPU the thread runs, where that is known.
    cpu: Option<u16>,
    /// The index of the lock that it waits for.
    lock: Option<u32>,
}

/// A kind of stretch.
#[derive(Serialize, JsonSchema)]
pub(super) struct StretchRow {
    /// The index of its state.
    state: u32,
    /// Where the thread left the CPU, if that is known: index of a call path.
    call_path: Option<u32>,
}
