//! What interpreters were found executing. A place of a thread with what was interpreted there is a place of its own:
//! its stack bears a number behind those of the recording.

use std::sync::Arc;

use holdup_trace::InterpretedFrame;
use rustc_hash::FxHashMap;

use super::ids::{CodeId, Id as _, LockId, StackKey, Table};
use super::lock::Place;
use super::tally::Tally;
use crate::names::interpreted;

/// Numbers from here on stand for a stack of the recording and interpreted code.
const FIRST: usize = 1 << 31;
/// What was found.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) codes: Table<CodeId, Arc<[InterpretedFrame]>>,
    code_index: FxHashMap<Arc<[InterpretedFrame]>, CodeId>,
    /// Stack of the recording, and index of the code.
    stacks: Vec<(Option<StackKey>, CodeId)>,
    stack_index: FxHashMap<(Option<StackKey>, CodeId), StackKey>,
    /// Looks that found a thread waiting, by the place of the recording and by that with the code.
    pub(super) waits: FxHashMap<Place, Tally<Option<StackKey>, u64>>,
    /// Looks at the thread that had the interpreter's lock while another waited on this futex, by code.
    pub(super) holding: FxHashMap<LockId, Tally<CodeId, u64>>,
}

impl Found {
    pub(super) fn code(&mut self, frames: &Arc<[InterpretedFrame]>) -> CodeId {
        let next = self.codes.next();
        let code = *self.code_index.entry(frames.clone()).or_insert(next);
        if code == next {
            self.codes.push(frames.clone());
        }
        code
    }

    /// Whether it is code that Java's machine or Node's engine executes, which compile it: of a thread that runs, looks
    /// do not tell where it is.
    pub(super) fn is_compiled(&self, code: CodeId) -> bool {
        interpreted::is_of_java(&self.codes[code]) || interpreted::is_of_node(&self.codes[code])
    }

    pub(super) fn stack(&mut self, native: Option<StackKey>, code: CodeId) -> StackKey {
        let next = StackKey::of(FIRST + self.stacks.len());
        let number = *self.stack_index.entry((native, code)).or_insert(next);
        if number == next {
            self.stacks.push((native, code));
        }
        number
    }

    /// The stack of the recording behind a number, and the code that goes with it.
    pub(super) fn parts(&self, stack: Option<StackKey>) -> (Option<StackKey>, Option<CodeId>) {
        let known = stack.and_then(|stack| self.stacks.get(stack.index().checked_sub(FIRST)?));
        known.map_or((stack, None), |(native, code)| (*native, Some(*code)))
    }

    /// The stack of the recording behind a number.
    pub(super) fn native(&self, stack: Option<StackKey>) -> Option<StackKey> {
        self.parts(stack).0
    }

    /// The window begins: looks before it count no more.
    pub(super) fn restart(&mut self) {
        self.waits.clear();
        self.holding.clear();
    }
}
