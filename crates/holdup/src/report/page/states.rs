//! What threads do on a page: each kind of state once, by number.

use std::collections::HashMap;

use holdup_analyze::{Facts, State};
use holdup_trace::NO_CPU;
use schemars::JsonSchema;
use serde::Serialize;

use crate::export::{Group, Label};

/// The table under way.
#[derive(Debug, Default)]
pub(super) struct States {
    numbers: HashMap<Label, u32>,
    states: Vec<State>,
}

impl States {
    /// The number of a state; numbers count up from 0 as states appear.
    pub(super) fn number(&mut self, state: State) -> u32 {
        let states = &mut self.states;
        *self.numbers.entry(Label::of(state)).or_insert_with(|| {
            states.push(state);
            states.len() as u32 - 1
        })
    }

    pub(super) fn group(&self, number: u32) -> Group {
        self.states.get(number as usize).map_or(Group::Lost, |state| Group::of(*state))
    }

    /// For the page: group, words, and the CPU or the lock.
    pub(super) fn table(&self, facts: &Facts) -> Vec<StateRow> {
        let row = |state: &State| {
            let (cpu, lock) = match *state {
                State::Running { cpu } if cpu != NO_CPU => (Some(cpu), None),
                State::Off { lock: Some(lock), .. } if (lock as usize) < facts.locks.len() => (None, Some(lock)),
                _ => (None, None),
            };
            StateRow { group: Group::of(*state), label: Label::of(*state).text(facts), cpu, lock }
        };
        self.states.iter().map(row).collect()
    }
}

/// A kind of state.
#[derive(Serialize, JsonSchema)]
pub(super) struct StateRow {
    /// How it is drawn.
    group: Group,
    /// In words.
    label: String,
    /// On which CPU the thread runs, where that is known.
    cpu: Option<u16>,
    /// The index of the lock that it waits for.
    lock: Option<u32>,
}
